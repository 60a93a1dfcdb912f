// Masks over arrays that are declared sorted. What a query knows is a function that ascends, known at the first and the
// last query of a tile; a comparison with the element at the key's position is a search.
// RUN: flashc-opt %s --flash-to-tensors --flash-online-softmax --flash-tile="q-tile=16 kv-tile=32" --canonicalize --cse --flash-swap-loops --flash-print-mask-bounds -o %t.mlir | FileCheck %s
// RUN: FileCheck %s --check-prefix=MASK < %t.mlir
// RUN: flashc-opt %t.mlir --flash-print-mask-bounds="dual" -o /dev/null | FileCheck %s --check-prefix=DUAL

!t = tensor<1x1x?x8xf32>
!q = tensor<1x1x64x8xf32>
!r = tensor<1x1x64xf32>

// The mask keeps its own form: an element for each key, not a search for each query.
// MASK-LABEL: func @documents(
// MASK:         mask (
// MASK-NOT:     flash.count_le
// MASK:         arith.cmpi eq
// MASK-NOT:     flash.count_le
// MASK:         return

// CHECK-LABEL: mask in @documents:
// CHECK-NEXT: j >= %[[FIRST:[0-9]+]]
// CHECK-NEXT: j <= %[[END:[0-9]+]] - 1
// CHECK-NEXT: kept [begin + ((%[[FIRST]][first] - begin) floordiv 32) * 32, begin + ((%[[END]][last] - begin) ceildiv 32) * 32)
// CHECK-NEXT: cut [begin, begin + ((%[[FIRST]][last] - begin) ceildiv 32) * 32) or [begin + ((%[[END]][first] - begin) floordiv 32) * 32, end)
// CHECK:      where %[[FIRST]] = flash.count_le %[[X:[0-9a-z]+]] in %[[S:[0-9]+]] {strict} : i8, tensor<64xi8>
// CHECK-NEXT: where %[[END]] = flash.count_le %[[X]] in %[[S]] : i8, tensor<64xi8>
// CHECK-NEXT: class exact{{$}}
// DUAL-LABEL: dual of the mask in @documents:
// DUAL-NEXT: kept [begin + ((%[[FIRST:[0-9]+]][first] - begin) floordiv 16) * 16, begin + ((%[[END:[0-9]+]][last] - begin) ceildiv 16) * 16)
// DUAL: class exact{{$}}
func.func @documents(%q: !q, %ids: tensor<64xi8>) -> !q {
  %s = flash.assume_sorted %ids : tensor<64xi8>
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %s[%i] : tensor<64xi8>
        %y = tensor.extract %s[%j] : tensor<64xi8>
        %keep = arith.cmpi eq, %y, %x : i8
        flash.yield %keep : i1
      } -> !q, !r
  return %o : !q
}

// The rows of a table ascend if what computes them does, and are above or below the query as that is.
// CHECK-LABEL: mask in @rows:
// CHECK-NEXT: j >= %[[BEGIN:.*]]
// CHECK-NEXT: j <= %[[END:.*]] - 1
// CHECK-NEXT: kept [begin + ((%[[BEGIN]][first] - begin) floordiv 32) * 32, begin + ((%[[END]][last] - begin) ceildiv 32) * 32)
// CHECK:      class exact{{$}}
func.func @rows(%q: !q, %ids: tensor<64xi8>) -> !q {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %s = flash.assume_sorted %ids : tensor<64xi8>
  %begins = flash.row_table(%c1, %c1, %c64) {
  ^bb0(%b: index, %h: index, %i: index):
    %x = tensor.extract %s[%i] : tensor<64xi8>
    %n = flash.count_le %x in %s {strict} : i8, tensor<64xi8>
    %n32 = arith.index_cast %n : index to i32
    flash.yield %n32 : i32
  } : tensor<1x1x64xi32>
  %ends = flash.row_table(%c1, %c1, %c64) {
  ^bb0(%b: index, %h: index, %i: index):
    %x = tensor.extract %s[%i] : tensor<64xi8>
    %n = flash.count_le %x in %s : i8, tensor<64xi8>
    %n32 = arith.index_cast %n : index to i32
    flash.yield %n32 : i32
  } : tensor<1x1x64xi32>
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %begins[%c0, %c0, %i] : tensor<1x1x64xi32>
        %begin = arith.index_cast %x : i32 to index
        %y = tensor.extract %ends[%c0, %c0, %i] : tensor<1x1x64xi32>
        %end = arith.index_cast %y : i32 to index
        %from = arith.cmpi sge, %j, %begin : index
        %to = arith.cmpi slt, %j, %end : index
        %keep = arith.andi %from, %to : i1
        flash.yield %keep : i1
      } -> !q, !r
  return %o : !q
}

// Rows that do anything, or descend, bound nothing; and no range of theirs is asked for.
// CHECK-LABEL: mask in @other_rows:
// CHECK: class mapped: tiles are visited by running the mask
func.func @other_rows(%q: !q, %any: tensor<64xi32>) -> !q {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %rows = flash.row_table(%c1, %c1, %c64) {
  ^bb0(%b: index, %h: index, %i: index):
    %x = tensor.extract %any[%i] : tensor<64xi32>
    flash.yield %x : i32
  } : tensor<1x1x64xi32>
  %descending = flash.row_table(%c1, %c1, %c64) {
  ^bb0(%b: index, %h: index, %i: index):
    %x = arith.subi %c64, %i : index
    %y = arith.index_cast %x : index to i32
    flash.yield %y : i32
  } : tensor<1x1x64xi32>
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %rows[%c0, %c0, %i] : tensor<1x1x64xi32>
        %end = arith.index_cast %x : i32 to index
        %y = tensor.extract %descending[%c0, %c0, %i] : tensor<1x1x64xi32>
        %last = arith.index_cast %y : i32 to index
        %0 = arith.cmpi slt, %j, %end : index
        %1 = arith.cmpi sle, %j, %last : index
        %keep = arith.andi %0, %1 : i1
        flash.yield %keep : i1
      } -> !q, !r
  return %o : !q
}

// Nobody says that these ascend: their ranges decide at run time.
// CHECK-LABEL: mask in @undeclared:
// CHECK: class mapped: tiles are visited by running the mask, where the range of %arg1 in each tile leaves it open
func.func @undeclared(%q: !q, %ids: tensor<64xi8>) -> !q {
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %ids[%i] : tensor<64xi8>
        %y = tensor.extract %ids[%j] : tensor<64xi8>
        %keep = arith.cmpi eq, %y, %x : i8
        flash.yield %keep : i1
      } -> !q, !r
  return %o : !q
}

// An index in front of the last dimension that changes with the query leaves the line.
// CHECK-LABEL: mask in @other_lines:
// CHECK: class mapped: tiles are visited by running the mask
func.func @other_lines(%q: !q, %ids: tensor<64x64xi8>) -> !q {
  %s = flash.assume_sorted %ids : tensor<64x64xi8>
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %s[%b, %i] : tensor<64x64xi8>
        %y = tensor.extract %s[%i, %j] : tensor<64x64xi8>
        %keep = arith.cmpi eq, %y, %x : i8
        flash.yield %keep : i1
      } -> !q, !r
  return %o : !q
}

// A clamp of the program's own may do something: if all 40 elements are kept, so are the keys behind them.
// CHECK-LABEL: mask in @clamped_by_program:
// CHECK-NEXT: or j <= %[[COUNT:[0-9]+]] - 1 and %[[COUNT]] >= 1
// CHECK-NEXT: or %[[COUNT]] >= 40
// CHECK: where %[[COUNT]] = flash.count_le %c7_i32 in
// CHECK-NEXT: class exact
func.func @clamped_by_program(%q: !q, %ids: tensor<40xi32>) -> !q {
  %c0 = arith.constant 0 : index
  %c39 = arith.constant 39 : index
  %s = flash.assume_sorted %ids : tensor<40xi32>
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %near = arith.minsi %j, %c39 : index
        %at = arith.maxsi %near, %c0 : index
        %y = tensor.extract %s[%at] : tensor<40xi32>
        %c7 = arith.constant 7 : i32
        %keep = arith.cmpi sle, %y, %c7 : i32
        flash.yield %keep : i1
      } -> !q, !r
  return %o : !q
}

// Causal within packed sequences of as many queries as keys: the query's own key is among those kept.
// CHECK-LABEL: mask in @packed_causal:
// CHECK-NEXT: j >= %[[BEGIN:[0-9]+]]
// CHECK-NEXT: j <= i
// CHECK-NEXT: kept [begin + ((%[[BEGIN]][first] - begin) floordiv 32) * 32, begin + ((i0 + rows - begin) ceildiv 32) * 32)
// CHECK-NEXT: cut [begin, begin + ((%[[BEGIN]][last] - begin) ceildiv 32) * 32) or [begin + ((i0 - begin + 1) floordiv 32) * 32, end)
// CHECK: class exact{{$}}
// The queries that see a key go from its own position to the end of its segment.
// DUAL-LABEL: dual of the mask in @packed_causal:
// DUAL-NEXT: kept [begin + ((j0 - begin) floordiv 16) * 16, begin + ((%[[END:[0-9]+]][last] - begin) ceildiv 16) * 16)
// DUAL-NEXT: cut [begin + ((%[[END]][first] - begin) floordiv 16) * 16, end) if {{.*}} or [begin, begin + ((j0 + keys - begin - 1) ceildiv 16) * 16)
// DUAL: where %[[END]] = flash.nth
// DUAL-NEXT: class exact{{$}}
func.func @packed_causal(%q: !q, %offsets: tensor<?xi32>) -> !q {
  %c1 = arith.constant 1 : index
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %s = flash.assume_sorted %offsets : tensor<?xi32>
        %n = flash.count_le %i in %s : index, tensor<?xi32>
        %sequence = arith.subi %n, %c1 : index
        %begin = flash.nth %sequence in %s : tensor<?xi32>
        %after = arith.cmpi sge, %j, %begin : index
        %seen = arith.cmpi sle, %j, %i : index
        %keep = arith.andi %after, %seen : i1
        flash.yield %keep : i1
      } -> !q, !r
  return %o : !q
}

// Offsets of the queries and of the keys: the diagonal of each sequence, between its ends, ascends.
// CHECK-LABEL: mask in @packed_two:
// CHECK-NEXT: j >= %[[BEGIN:[0-9]+]]
// CHECK-NEXT: j <= %[[END:[0-9]+]] - 1
// CHECK-NEXT: j <= %[[LAST:[0-9]+]]{{$}}
// CHECK: cut [begin, begin + ((%[[BEGIN]][last] - begin) ceildiv 32) * 32) or [begin + ((%[[END]][first] - begin) floordiv 32) * 32, end) or [begin + ((%[[LAST]][first] - begin + 1) floordiv 32) * 32, end)
// CHECK: class conservative: a key between the keys of two queries may be seen by no query, as in a sequence without queries
// DUAL-LABEL: dual of the mask in @packed_two:
// DUAL: class conservative
func.func @packed_two(%q: !q, %offsets_q: memref<5xi64>, %offsets_k: memref<5xi64>) -> !q {
  %c1 = arith.constant 1 : index
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %cu_q = flash.assume_sorted %offsets_q : memref<5xi64>
        %cu_k = flash.assume_sorted %offsets_k : memref<5xi64>
        %n = flash.count_le %i in %cu_q : index, memref<5xi64>
        %sequence = arith.subi %n, %c1 : index
        %begin64 = memref.load %cu_k[%sequence] : memref<5xi64>
        %end64 = memref.load %cu_k[%n] : memref<5xi64>
        %end_q64 = memref.load %cu_q[%n] : memref<5xi64>
        %shift64 = arith.subi %end64, %end_q64 : i64
        %begin = arith.index_cast %begin64 : i64 to index
        %end = arith.index_cast %end64 : i64 to index
        %shift = arith.index_cast %shift64 : i64 to index
        %last = arith.addi %i, %shift : index
        %after = arith.cmpi sge, %j, %begin : index
        %before = arith.cmpi slt, %j, %end : index
        %seen = arith.cmpi sle, %j, %last : index
        %inside = arith.andi %after, %before : i1
        %keep = arith.andi %inside, %seen : i1
        flash.yield %keep : i1
      } -> !q, !r
  return %o : !q
}
