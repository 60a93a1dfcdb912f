// What the passes over loops say of a step that streams queries where they leave it alone.
// RUN: flashc-opt %s --flash-online-softmax --flash-tile --flash-bound-loops --remark-format=emitRemark \
// RUN:   --remarks-filter-missed=flash -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: flashc-opt %s --flash-online-softmax --flash-tile --flash-parallelize | FileCheck %s --check-prefix=TILED
// RUN: flashc-opt %s --flash-online-softmax --flash-tile --canonicalize --cse --flash-swap-loops --flash-print-mask-bounds -o /dev/null \
// RUN:   | FileCheck %s

!q = tensor<1x2x?x16xf32>
!lse = tensor<1x2x?xf32>

// REMARK: the loop carries more than the state

// Before flash-swap-loops the sums of all keys are carried by every loop.
// TILED-LABEL: func @causal(
// TILED-NOT:     scf.forall
// TILED:         flash.accumulate_column_sums

// The dual of the mask, of queries for a tile of keys.
// CHECK:      dual of the mask in @causal:
// CHECK-NEXT: kept [begin + ((j0 - begin) floordiv 64) * 64, begin + ((%[[NQ:.*]] - begin) ceildiv 64) * 64) if
// CHECK-NEXT: cut [begin, begin + ((j0 + keys - begin - 1) ceildiv 64) * 64) or [begin + ((%[[NQ]] - begin) floordiv 64) * 64, end) if
// CHECK-NEXT: class exact
func.func @causal(%q: !q, %k: !q, %lse: !lse) -> !lse {
  %c = flash.column_sums ins(%q, %k, %lse : !q, !q, !lse) {scale = 0.25 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi sle, %j, %i : index
      flash.yield %keep : i1
    } -> !lse
  return %c : !lse
}
