// Loops over the tiles of packed sequences, and ops that stay as they are, with a remark that says why.
// DEFINE: %{tiles} = --flash-online-softmax --flash-tile="q-tile=16 kv-tile=32" --flash-page-kv --canonicalize --cse --flash-swap-loops
// RUN: flashc-opt %s %{tiles} --flash-pack-rows --canonicalize --cse | FileCheck %s
// RUN: flashc-opt %s %{tiles} --flash-pack-rows --remark-format=emitRemark --remarks-filter-missed=flash -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK
// RUN: flashc-opt %s --flash-fa2 | FileCheck %s --check-prefix=BOUND
// RUN: flashc-opt %s --flash-decompose | FileCheck %s --check-prefix=PLAIN

!q = tensor<1x4x?x8xf32>
!qs = tensor<?x4x?x8xf32>
!kv = tensor<?x2x?x8xf32>

// CHECK-DAG:   #[[TILES:.*]] = affine_map<()[s0, s1] -> (s1 + (s0 + 1) ceildiv 16)>
// CHECK-DAG:   #[[SEQUENCES:.*]] = affine_map<()[s0] -> (s0 - 1)>
// CHECK-LABEL: func @packed(
// CHECK-SAME:      %[[Q:[^:]*]]: tensor<1x4x?x8xf32>
// CHECK-SAME:      %[[OFFSETS:[^:]*]]: tensor<?xi32>)
// CHECK-NOT:     flash.unpack_rows
// CHECK-DAG:     %[[CU:.*]] = flash.assume_sorted %[[OFFSETS]]
// CHECK-DAG:     %[[COUNT:.*]] = affine.apply #[[TILES]]()
// CHECK:         scf.for %[[H:[a-z0-9]+]] = %c0 to %c4 step %c1
// CHECK-NEXT:      scf.for %[[TILE:[a-z0-9]+]] = %c0 to %[[COUNT]] step %c1
// CHECK-NEXT:        %[[I:.*]], %[[ROWS:.*]], %[[SEGMENT:.*]] = flash.segment_tile %[[TILE]] of %[[CU]] length %{{.*}} tiles 16
// CHECK:             %[[NUMBER:.*]] = arith.subi %[[SEGMENT]], %c1
// CHECK:             %[[MOST:.*]] = arith.minsi %[[NUMBER]]
// CHECK:             %[[B:.*]] = arith.maxsi %[[MOST]], %c0
// CHECK:             tensor.extract_slice %[[Q]][0, %[[H]], %[[I]], 0] [1, 1, %[[ROWS]], 8]
// CHECK:             flash.cache_tile %{{.*}}[%[[B]], %
// CHECK:             flash.online_attention {{.*}} at(%[[B]], %[[H]], %[[I]],
// CHECK:             tensor.insert_slice %{{.*}}[0, %[[H]], %[[I]], 0] [1, 1, %[[ROWS]], 8]
// CHECK:             tensor.insert_slice %{{.*}}[0, %[[H]], %[[I]]] [1, 1, %[[ROWS]]]
// CHECK-NOT:     flash.pack_rows

// The bounds of the keys are those of the tile's sequence: full tiles, then masked ones.
// BOUND-LABEL: func @packed(
// BOUND:         scf.forall (%{{.*}}, %[[TILE:.*]]) in
// BOUND:           flash.segment_tile %[[TILE]]
// BOUND:           scf.for
// BOUND-NOT:         mask (
// BOUND:           scf.for
// BOUND:             mask (
// BOUND-NOT:       scf.for %
// BOUND:           tensor.parallel_insert_slice

// In a batch a sequence has zeros in the rows of others.
// PLAIN-LABEL: func @packed(
// PLAIN-NOT:     flash.
// PLAIN:         %[[IS_OF:.*]] = arith.cmpi eq
// PLAIN:         arith.select %[[IS_OF]], %{{.*}}, %{{.*}} : f32
func.func @packed(%q: !q, %k: !kv, %v: !kv, %lengths: tensor<?xi32>, %offsets: tensor<?xi32>) -> (!q, tensor<1x4x?xf32>) {
  %c1 = arith.constant 1 : index
  %cu = flash.assume_sorted %offsets : tensor<?xi32>
  %qs = flash.unpack_rows %q by %cu : !q, tensor<?xi32> -> !qs
  %ks = flash.cache_view %k lengths(%lengths : tensor<?xi32>) : !kv -> !kv
  %vs = flash.cache_view %v lengths(%lengths : tensor<?xi32>) : !kv -> !kv
  %o, %lse = flash.attention ins(%qs, %ks, %vs : !qs, !kv, !kv) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %next = arith.addi %b, %c1 : index
        %first32 = tensor.extract %offsets[%b] : tensor<?xi32>
        %first = arith.index_cast %first32 : i32 to index
        %end32 = tensor.extract %offsets[%next] : tensor<?xi32>
        %end = arith.index_cast %end32 : i32 to index
        %length32 = tensor.extract %lengths[%b] : tensor<?xi32>
        %length = arith.index_cast %length32 : i32 to index
        %past = arith.subi %length, %end : index
        %position = arith.addi %i, %past : index
        %is_after = arith.cmpi sge, %i, %first : index
        %is_before = arith.cmpi slt, %i, %end : index
        %is_seen = arith.cmpi sle, %j, %position : index
        %is_inside = arith.andi %is_after, %is_before : i1
        %keep = arith.andi %is_inside, %is_seen : i1
        flash.yield %keep : i1
      } -> !qs, tensor<?x4x?xf32>
  %packed = flash.pack_rows %o by %cu : !qs, tensor<?xi32> -> !q
  %sums = flash.pack_rows %lse by %cu : tensor<?x4x?xf32>, tensor<?xi32> -> tensor<1x4x?xf32>
  return %packed, %sums : !q, tensor<1x4x?xf32>
}

// REMARK: remark: [Missed] pack-rows {{.*}}"the results are not packed by the same offsets
// CHECK-LABEL: func @other_offsets(
// CHECK:         flash.unpack_rows
// CHECK:         flash.pack_rows
func.func @other_offsets(%q: !q, %k: !kv, %offsets: tensor<?xi32>, %others: tensor<?xi32>) -> !q {
  %cu = flash.assume_sorted %offsets : tensor<?xi32>
  %cu2 = flash.assume_sorted %others : tensor<?xi32>
  %qs = flash.unpack_rows %q by %cu : !q, tensor<?xi32> -> !qs
  %o, %lse = flash.attention ins(%qs, %k, %k : !qs, !kv, !kv) {scale = 1.0 : f32} -> !qs, tensor<?x4x?xf32>
  %packed = flash.pack_rows %o by %cu2 : !qs, tensor<?xi32> -> !q
  return %packed : !q
}

// REMARK: remark: [Missed] pack-rows {{.*}}"another op reads the batch of sequences
// CHECK-LABEL: func @other_reader(
// CHECK:         flash.unpack_rows
func.func @other_reader(%q: !q, %k: !kv, %offsets: tensor<?xi32>) -> (!q, !qs) {
  %cu = flash.assume_sorted %offsets : tensor<?xi32>
  %qs = flash.unpack_rows %q by %cu : !q, tensor<?xi32> -> !qs
  %o, %lse = flash.attention ins(%qs, %k, %k : !qs, !kv, !kv) {scale = 1.0 : f32} -> !qs, tensor<?x4x?xf32>
  %packed = flash.pack_rows %o by %cu : !qs, tensor<?xi32> -> !q
  return %packed, %qs : !q, !qs
}

// REMARK: remark: [Missed] pack-rows {{.*}}"the queries are known to be whole tiles
// REMARK: remark: [Missed] pack-rows {{.*}}"there is no loop over sequences around the tiles
// CHECK-LABEL: func @whole_tiles(
// CHECK:         flash.unpack_rows
func.func @whole_tiles(%q: tensor<1x4x64x8xf32>, %k: !kv, %offsets: tensor<?xi32>) -> tensor<1x4x64x8xf32> {
  %cu = flash.assume_sorted %offsets : tensor<?xi32>
  %qs = flash.unpack_rows %q by %cu : tensor<1x4x64x8xf32>, tensor<?xi32> -> tensor<?x4x64x8xf32>
  %o, %lse = flash.attention ins(%qs, %k, %k : tensor<?x4x64x8xf32>, !kv, !kv) {scale = 1.0 : f32} -> tensor<?x4x64x8xf32>, tensor<?x4x64xf32>
  %packed = flash.pack_rows %o by %cu : tensor<?x4x64x8xf32>, tensor<?xi32> -> tensor<1x4x64x8xf32>
  return %packed : tensor<1x4x64x8xf32>
}

// CHECK-LABEL: func @one_sequence(
// CHECK:         flash.unpack_rows
func.func @one_sequence(%q: !q, %k: tensor<1x2x?x8xf32>, %offsets: tensor<2xi32>) -> !q {
  %cu = flash.assume_sorted %offsets : tensor<2xi32>
  %qs = flash.unpack_rows %q by %cu : !q, tensor<2xi32> -> !q
  %o, %lse = flash.attention ins(%qs, %k, %k : !q, tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>) {scale = 1.0 : f32} -> !q, tensor<1x4x?xf32>
  %packed = flash.pack_rows %o by %cu : !q, tensor<2xi32> -> !q
  return %packed : !q
}
