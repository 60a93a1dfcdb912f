// Comparisons of elements of sorted arrays become comparisons of positions with what a table has for the query.
// RUN: flashc-opt %s --flash-tabulate-rows --canonicalize --cse | FileCheck %s

!q = tensor<2x4x?x8xf32>
!k = tensor<2x4x?x8xf32>
!r = tensor<2x4x?xf32>
!ids = tensor<2x?xi32>

// All heads are alike.
// CHECK-LABEL: func @documents(
// CHECK-SAME:      %[[Q:[^:]*]]: tensor<2x4x?x8xf32>, %[[K:[^:]*]]: tensor<2x4x?x8xf32>, %[[IDS:[^:]*]]: tensor<2x?xi32>)
// CHECK-DAG:     %[[S:.*]] = flash.assume_sorted %[[IDS]]
// CHECK-DAG:     %[[NQ:.*]] = tensor.dim %[[Q]], %c2
// CHECK:         %[[BEGINS:.*]] = flash.row_table(%c2, %c1, %[[NQ]]) {
// CHECK-NEXT:    ^bb0(%[[B:[^:]*]]: index, %{{.*}}: index, %[[I:[^:]*]]: index):
// CHECK-NEXT:      %[[X:.*]] = tensor.extract %[[S]][%[[B]], %[[I]]]
// CHECK-NEXT:      %[[BEGIN:.*]] = flash.count_le %[[X]] in %[[S]][%[[B]]] {strict} : i32
// CHECK-NEXT:      %[[BEGIN32:.*]] = arith.index_cast %[[BEGIN]] : index to i32
// CHECK-NEXT:      flash.yield %[[BEGIN32]] : i32
// CHECK-NEXT:    } : tensor<2x1x?xi32>
// CHECK:         %[[ENDS:.*]] = flash.row_table(%c2, %c1, %[[NQ]]) {
// CHECK:           flash.count_le %{{.*}} in %[[S]][%{{.*}}] : i32
// CHECK:         flash.attention
// CHECK-SAME:      mask (%[[B:[^:]*]]: index, %{{.*}}: index, %[[I:[^:]*]]: index, %[[J:[^:]*]]: index) {
// CHECK-NEXT:      %[[ROW:.*]] = tensor.extract %[[BEGINS]][%[[B]], %c0, %[[I]]]
// CHECK-NEXT:      %[[BEGIN:.*]] = arith.index_cast %[[ROW]]
// CHECK-NEXT:      %[[FROM:.*]] = arith.cmpi sge, %[[J]], %[[BEGIN]] : index
// CHECK-NEXT:      %[[ROW:.*]] = tensor.extract %[[ENDS]][%[[B]], %c0, %[[I]]]
// CHECK-NEXT:      %[[END:.*]] = arith.index_cast %[[ROW]]
// CHECK-NEXT:      %[[TO:.*]] = arith.cmpi slt, %[[J]], %[[END]] : index
// CHECK-NEXT:      %[[KEEP:.*]] = arith.andi %[[FROM]], %[[TO]]
// CHECK-NEXT:      flash.yield %[[KEEP]]
func.func @documents(%q: !q, %k: !k, %ids: !ids) -> !q {
  %s = flash.assume_sorted %ids : !ids
  %o, %lse = flash.attention ins(%q, %k, %k : !q, !k, !k) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %s[%b, %i] : !ids
        %y = tensor.extract %s[%b, %j] : !ids
        %keep = arith.cmpi eq, %x, %y : i32
        flash.yield %keep : i1
      } -> !q, !r
  return %o : !q
}

// On memrefs, by the head, and of what the mask computes itself; the array is declared in the mask.
// CHECK-LABEL: func @heads(
// CHECK-SAME:      %[[Q:[^:]*]]: memref<2x4x?x8xf32>
// CHECK:         %[[NQ:.*]] = memref.dim %[[Q]], %c2
// CHECK:         %[[ENDS:.*]] = flash.row_table(%c1, %c4, %[[NQ]]) {
// CHECK-NEXT:    ^bb0(%{{.*}}: index, %[[H:[^:]*]]: index, %[[I:[^:]*]]: index):
// CHECK-NEXT:      %[[AT:.*]] = arith.addi %[[H]], %[[I]]
// CHECK-NEXT:      %[[AT32:.*]] = arith.index_cast %[[AT]]
// CHECK-NEXT:      %[[S:.*]] = flash.assume_sorted
// CHECK-NEXT:      flash.count_le %[[AT32]] in %[[S]]
// CHECK:         } : tensor<1x4x?xi32>
// CHECK:         mask
// CHECK-NEXT:      tensor.extract %[[ENDS]][%c0, %{{.*}}, %{{.*}}]
// CHECK-NOT:       memref.load
func.func @heads(%q: memref<2x4x?x8xf32>, %o: memref<2x4x?x8xf32>, %lse: memref<2x4x?xf32>, %times: memref<?xi32>) {
  flash.attention ins(%q, %q, %q : memref<2x4x?x8xf32>, memref<2x4x?x8xf32>, memref<2x4x?x8xf32>)
      outs(%o, %lse : memref<2x4x?x8xf32>, memref<2x4x?xf32>) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %at = arith.addi %h, %i : index
        %limit = arith.index_cast %at : index to i32
        %s = flash.assume_sorted %times : memref<?xi32>
        %time = memref.load %s[%j] : memref<?xi32>
        %keep = arith.cmpi sle, %time, %limit : i32
        flash.yield %keep : i1
      }
  return
}

// The same for all queries: a table of one row. Other arrays than the key's may be anything, if they ascend.
// CHECK-LABEL: func @lengths(
// CHECK:         flash.row_table(%c1, %c1, %c1) {
// CHECK:         } : tensor<1x1x1xi32>
// CHECK:         flash.row_table(%c1, %c1, %{{.*}}) {
// CHECK:         } : tensor<1x1x?xi32>
// CHECK:         mask
// CHECK:           %[[ROW:.*]] = tensor.extract %{{.*}}[%c0, %c0, %c0]
// CHECK:           arith.cmpi slt, %[[J:.*]], %
// CHECK:           tensor.extract %{{.*}}[%c0, %c0, %[[I:.*]]]
// CHECK:           arith.cmpi sge, %[[J]], %
func.func @lengths(%q: !q, %k: !k, %limit: i64, %ids: tensor<?xi64>, %keys: tensor<?xi8>) -> !q {
  %s = flash.assume_sorted %ids : tensor<?xi64>
  %t = flash.assume_sorted %keys : tensor<?xi8>
  %o, %lse = flash.attention ins(%q, %k, %k : !q, !k, !k) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %y = tensor.extract %s[%j] : tensor<?xi64>
        %0 = arith.cmpi slt, %y, %limit : i64
        %x = tensor.extract %s[%i] : tensor<?xi64>
        %z = tensor.extract %t[%j] : tensor<?xi8>
        %wide = arith.extsi %z : i8 to i64
        %1 = arith.cmpi sgt, %wide, %x : i64
        %keep = arith.andi %0, %1 : i1
        flash.yield %keep : i1
      } -> !q, !r
  return %o : !q
}

// Beside bounds on positions, and as a complement.
// CHECK-LABEL: func @shared_prefix(
// CHECK-COUNT-2: flash.row_table
// CHECK:         mask
// CHECK-NOT:       flash.count_le
// CHECK:           arith.cmpi sle
// CHECK:           arith.ori
func.func @shared_prefix(%q: !q, %k: !k, %prefix: index, %ids: !ids) -> !q {
  %s = flash.assume_sorted %ids : !ids
  %o, %lse = flash.attention ins(%q, %k, %k : !q, !k, !k) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %seen = arith.cmpi sle, %j, %i : index
        %common = arith.cmpi slt, %j, %prefix : index
        %x = tensor.extract %s[%b, %i] : !ids
        %y = tensor.extract %s[%b, %j] : !ids
        %same = arith.cmpi eq, %x, %y : i32
        %either = arith.ori %common, %same : i1
        %keep = arith.andi %seen, %either : i1
        flash.yield %keep : i1
      } -> !q, !r
  return %o : !q
}

// CHECK-LABEL: func @other_documents(
// CHECK-COUNT-2: flash.row_table
// CHECK:         mask
// CHECK:           arith.cmpi slt
// CHECK:           arith.cmpi sge
// CHECK:           arith.ori
func.func @other_documents(%q: !q, %k: !k, %ids: !ids) -> !q {
  %s = flash.assume_sorted %ids : !ids
  %o, %lse = flash.attention ins(%q, %k, %k : !q, !k, !k) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %s[%b, %i] : !ids
        %y = tensor.extract %s[%b, %j] : !ids
        %keep = arith.cmpi ne, %x, %y : i32
        flash.yield %keep : i1
      } -> !q, !r
  return %o : !q
}

// The ends of sequences are as few as these: what is searched for the number of the query's own stays in the mask, and
// an array of another kind is tabulated beside it.
// CHECK-LABEL: func @packed(
// CHECK-COUNT-2: flash.row_table
// CHECK:         mask
// CHECK:           flash.count_le %{{.*}} in %{{.*}} : index, tensor<9xi32>
// CHECK-NOT:       flash.count_le
// CHECK:           flash.yield
func.func @packed(%q: !q, %k: !k, %offsets: tensor<9xi32>, %ids: !ids) -> !q {
  %s = flash.assume_sorted %ids : !ids
  %t = flash.assume_sorted %offsets : tensor<9xi32>
  %o, %lse = flash.attention ins(%q, %k, %k : !q, !k, !k) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %n = flash.count_le %i in %t : index, tensor<9xi32>
        %end = flash.nth %n in %t : tensor<9xi32>
        %0 = arith.cmpi slt, %j, %end : index
        %x = tensor.extract %s[%b, %i] : !ids
        %y = tensor.extract %s[%b, %j] : !ids
        %1 = arith.cmpi eq, %x, %y : i32
        %keep = arith.andi %0, %1 : i1
        flash.yield %keep : i1
      } -> !q, !r
  return %o : !q
}

// Nothing is read for a key.
// CHECK-LABEL: func @only_packed(
// CHECK-NOT:     flash.row_table
// CHECK:         flash.count_le %{{.*}} in %{{.*}} : index, tensor<9xi32>
func.func @only_packed(%q: !q, %k: !k, %offsets: tensor<9xi32>) -> !q {
  %t = flash.assume_sorted %offsets : tensor<9xi32>
  %o, %lse = flash.attention ins(%q, %k, %k : !q, !k, !k) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %n = flash.count_le %i in %t : index, tensor<9xi32>
        %end = flash.nth %n in %t : tensor<9xi32>
        %keep = arith.cmpi slt, %j, %end : index
        flash.yield %keep : i1
      } -> !q, !r
  return %o : !q
}

// Flags of keys are read in any case.
// CHECK-LABEL: func @documents_and_flags(
// CHECK-NOT:     flash.row_table
// CHECK:         mask
// CHECK:           arith.cmpi eq
// CHECK-NOT:     flash.count_le
func.func @documents_and_flags(%q: !q, %k: !k, %ids: !ids, %flags: tensor<?xi1>) -> !q {
  %s = flash.assume_sorted %ids : !ids
  %o, %lse = flash.attention ins(%q, %k, %k : !q, !k, !k) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %s[%b, %i] : !ids
        %y = tensor.extract %s[%b, %j] : !ids
        %same = arith.cmpi eq, %x, %y : i32
        %flag = tensor.extract %flags[%j] : tensor<?xi1>
        %keep = arith.andi %same, %flag : i1
        flash.yield %keep : i1
      } -> !q, !r
  return %o : !q
}

// Where the limit descends, or does what it likes, there would be no bounds.
// CHECK-LABEL: func @limits(
// CHECK-NOT:     flash.row_table
// CHECK-NOT:     flash.count_le
// CHECK:         return
func.func @limits(%q: !q, %k: !k, %ids: tensor<?xi32>, %any: tensor<?xi32>) -> (!q, !q) {
  %zero = arith.constant 0 : i32
  %s = flash.assume_sorted %ids : tensor<?xi32>
  %o, %lse = flash.attention ins(%q, %k, %k : !q, !k, !k) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %s[%i] : tensor<?xi32>
        %limit = arith.subi %zero, %x : i32
        %y = tensor.extract %s[%j] : tensor<?xi32>
        %keep = arith.cmpi slt, %y, %limit : i32
        flash.yield %keep : i1
      } -> !q, !r
  %p, %lse1 = flash.attention ins(%q, %k, %k : !q, !k, !k) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %limit = tensor.extract %any[%i] : tensor<?xi32>
        %y = tensor.extract %s[%j] : tensor<?xi32>
        %keep = arith.cmpi slt, %y, %limit : i32
        flash.yield %keep : i1
      } -> !q, !r
  return %o, %p : !q, !q
}
