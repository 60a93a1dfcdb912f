// Tiles of queries that follow packed sequences, and the loops that stay as they are, with a remark that says why.
// DEFINE: %{tiles} = --flash-to-tensors --flash-online-softmax --flash-tile="q-tile=16 kv-tile=32" --canonicalize --cse --flash-swap-loops
// RUN: flashc-opt %s %{tiles} --flash-align-queries --canonicalize --cse | FileCheck %s
// RUN: flashc-opt %s %{tiles} --flash-align-queries --remark-format=emitRemark --remarks-filter-missed=flash -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK
// RUN: flashc-opt %s %{tiles} --flash-align-queries --flash-bound-loops --flash-parallelize --canonicalize --cse | FileCheck %s --check-prefix=BOUND
// RUN: flashc-opt %s %{tiles} --flash-align-queries --flash-print-mask-bounds -o /dev/null | FileCheck %s --check-prefix=PRINT

!t = tensor<2x1x?x8xf32>
!r = tensor<2x1x?xf32>

// CHECK-DAG:   #[[COUNT_MAP:.*]] = affine_map<()[s0, s1] -> (s1 + (s0 + 1) ceildiv 16)>
// CHECK-LABEL: func @packed(
// CHECK-SAME:      %[[OFFSETS:[^:]*]]: tensor<2x?xi32>)
// CHECK-DAG:     %[[S:.*]] = flash.assume_sorted %[[OFFSETS]]
// CHECK-DAG:     %[[N:.*]] = tensor.dim %arg0, %c2
// CHECK-DAG:     %[[M:.*]] = tensor.dim %[[OFFSETS]], %c1
// CHECK-DAG:     %[[COUNT:.*]] = affine.apply #[[COUNT_MAP]]()[%[[N]], %[[M]]]
// CHECK:         scf.for %[[B:[a-z0-9]+]] = %c0 to %c2 step %c1
// CHECK:           scf.for %[[TILE:[a-z0-9]+]] = %c0 to %[[COUNT]] step %c1
// CHECK:             %[[I:.*]], %[[ROWS:.*]], %{{.*}} = flash.segment_tile %[[TILE]] of %[[S]][%[[B]]] length %[[N]] tiles 16
// CHECK:             tensor.extract_slice %arg0[%[[B]], 0, %[[I]], 0] [1, 1, %[[ROWS]], 8]
// CHECK:             flash.online_attention {{.*}} at(%[[B]], %c0, %[[I]],
// CHECK:             tensor.insert_slice %{{.*}}[%[[B]], 0, %[[I]], 0] [1, 1, %[[ROWS]], 8]
// CHECK:             tensor.insert_slice %{{.*}}[%[[B]], 0, %[[I]]] [1, 1, %[[ROWS]]]

// One read of the offsets for the keys' begin: it is the same for all queries, so there is no masked loop in front. Without
// a query there is nothing to visit.
// BOUND-LABEL: func @packed(
// BOUND:         scf.forall (%{{.*}}, %[[TILE:.*]]) in
// BOUND:           %[[I:.*]], %[[ROWS:.*]], %[[SEGMENT:.*]] = flash.segment_tile %[[TILE]]
// BOUND-NOT:       flash.count_le
// BOUND:           arith.cmpi sge, %{{.*}}, %c0
// BOUND-NOT:       flash.count_le
// BOUND:           scf.for
// BOUND-NOT:         mask (
// BOUND:           scf.for
// BOUND:             mask (
// BOUND-NOT:       scf.for %
// BOUND:           tensor.parallel_insert_slice
// PRINT-LABEL: mask in @packed:
// PRINT-NEXT:  j >= %[[BEGIN:.*]]
// PRINT-NEXT:  j <= i
// PRINT:       kept [%[[BEGIN]], min(i0 + rows,
// PRINT:       origin %[[BEGIN]]{{$}}
// PRINT:       class exact
func.func @packed(%q: !t, %offsets: tensor<2x?xi32>) -> !t {
  %c1 = arith.constant 1 : index
  %o, %lse = flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %s = flash.assume_sorted %offsets : tensor<2x?xi32>
        %n = flash.count_le %i in %s[%b] : index, tensor<2x?xi32>
        %sequence = arith.subi %n, %c1 : index
        %begin = flash.nth %sequence in %s[%b] : tensor<2x?xi32>
        %after = arith.cmpi sge, %j, %begin : index
        %seen = arith.cmpi sle, %j, %i : index
        %keep = arith.andi %after, %seen : i1
        flash.yield %keep : i1
      } -> !t, !r
  return %o : !t
}

// Documents by ids have no offsets.
// CHECK-LABEL: func @documents(
// CHECK-NOT:     flash.segment_tile
// CHECK:         return
// REMARK: [Missed] align-queries | Category:flash | Remark="the mask has no sequences by sorted offsets"
func.func @documents(%q: !t, %ids: tensor<?xi32>) -> !t {
  %s = flash.assume_sorted %ids : tensor<?xi32>
  %o, %lse = flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %s[%i] : tensor<?xi32>
        %y = tensor.extract %s[%j] : tensor<?xi32>
        %keep = arith.cmpi eq, %y, %x : i32
        flash.yield %keep : i1
      } -> !t, !r
  return %o : !t
}

// Sequences that are sinks of later ones, too: two intervals of keys.
// CHECK-LABEL: func @with_sinks(
// CHECK-NOT:     flash.segment_tile
// CHECK:         return
// REMARK: Remark="the keys of a tile of queries do not begin anywhere, or in several places"
func.func @with_sinks(%q: !t, %offsets: tensor<?xi32>) -> !t {
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %s = flash.assume_sorted %offsets : tensor<?xi32>
  %o, %lse = flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %n = flash.count_le %i in %s : index, tensor<?xi32>
        %sequence = arith.subi %n, %c1 : index
        %begin = flash.nth %sequence in %s : tensor<?xi32>
        %after = arith.cmpi sge, %j, %begin : index
        %sink = arith.cmpi slt, %j, %c4 : index
        %keep = arith.ori %after, %sink : i1
        flash.yield %keep : i1
      } -> !t, !r
  return %o : !t
}

// CHECK-LABEL: func @whole_tiles(
// CHECK-NOT:     flash.segment_tile
// CHECK:         return
// REMARK: Remark="the queries are known to be whole tiles"
func.func @whole_tiles(%q: tensor<2x1x64x8xf32>, %k: !t, %offsets: tensor<?xi32>) -> tensor<2x1x64x8xf32> {
  %c1 = arith.constant 1 : index
  %s = flash.assume_sorted %offsets : tensor<?xi32>
  %o, %lse = flash.attention ins(%q, %k, %k : tensor<2x1x64x8xf32>, !t, !t) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %n = flash.count_le %i in %s : index, tensor<?xi32>
        %sequence = arith.subi %n, %c1 : index
        %begin = flash.nth %sequence in %s : tensor<?xi32>
        %keep = arith.cmpi sge, %j, %begin : index
        flash.yield %keep : i1
      } -> tensor<2x1x64x8xf32>, tensor<2x1x64xf32>
  return %o : tensor<2x1x64x8xf32>
}

// REMARK: Remark="there is no loop over tiles of queries from 0"
func.func @one_tile(%q: tensor<2x1x16x8xf32>, %k: !t, %offsets: tensor<?xi32>) -> tensor<2x1x16x8xf32> {
  %c1 = arith.constant 1 : index
  %s = flash.assume_sorted %offsets : tensor<?xi32>
  %o, %lse = flash.attention ins(%q, %k, %k : tensor<2x1x16x8xf32>, !t, !t) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %n = flash.count_le %i in %s : index, tensor<?xi32>
        %sequence = arith.subi %n, %c1 : index
        %begin = flash.nth %sequence in %s : tensor<?xi32>
        %keep = arith.cmpi sge, %j, %begin : index
        flash.yield %keep : i1
      } -> tensor<2x1x16x8xf32>, tensor<2x1x16xf32>
  return %o : tensor<2x1x16x8xf32>
}

// What begins up to the query, and not at it, changes one query behind a sequence's begin.
// CHECK-LABEL: func @strict(
// CHECK-NOT:     flash.segment_tile
// CHECK:         return
// REMARK: Remark="the mask has no sequences by sorted offsets"
func.func @strict(%q: !t, %offsets: tensor<?xi32>) -> !t {
  %s = flash.assume_sorted %offsets : tensor<?xi32>
  %o, %lse = flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %n = flash.count_le %i in %s {strict} : index, tensor<?xi32>
        %m = flash.count_le %j in %s {strict} : index, tensor<?xi32>
        %keep = arith.cmpi eq, %n, %m : index
        flash.yield %keep : i1
      } -> !t, !r
  return %o : !t
}

// Blocks of random numbers begin at multiples of 16 queries.
// CHECK-LABEL: func @dropout(
// CHECK-NOT:     flash.segment_tile
// CHECK:         return
// REMARK: Remark="dropout counts queries from 0 in blocks of 16"
func.func @dropout(%q: !t, %offsets: tensor<?xi32>, %philox: tensor<2xi64>) -> !t {
  %s = flash.assume_sorted %offsets : tensor<?xi32>
  %o, %lse = flash.attention ins(%q, %q, %q : !t, !t, !t) dropout(%philox : tensor<2xi64>)
      {dropout_p = 0.1 : f32, scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %n = flash.count_le %i in %s : index, tensor<?xi32>
        %m = flash.count_le %j in %s : index, tensor<?xi32>
        %keep = arith.cmpi eq, %n, %m : index
        flash.yield %keep : i1
      } -> !t, !r
  return %o : !t
}
