// RUN: %vary %s | flashc-opt --split-input-file --flash-bound-loops --canonicalize --cse | FileCheck %s
// RUN: %vary %s | flashc-opt --split-input-file --flash-bound-loops --remark-format=emitRemark --remarks-filter-missed=flash -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK

// Loops that keep their mask, or stay as they are, and the remark that says why.

!q = tensor<1x1x64x8xf32>
!row = tensor<1x1x64xf32>
!tile = tensor<1x1x32x8xf32>
func.func @NAME(%q: !q, %k: tensor<1x1x256x8xf32>, %m: !row, %b0: index, %i0: index) -> (!q, !row, !row) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c256 = arith.constant 256 : index
  %r:3 = scf.for %pos = %c0 to %c256 step %c32 iter_args(%s0 = %q, %s1 = %m, %s2 = %m) -> (!q, !row, !row) {
    %t = tensor.extract_slice %k[0, 0, %pos, 0] [1, 1, 32, 8] [1, 1, 1, 1] : tensor<1x1x256x8xf32> to !tile
    %s:3 = flash.online_attention ins(%q, %t, %t : !q, !tile, !tile) outs(%s0, %s1, %s2 : !q, !row, !row)
        at(%b0, %c0, %i0, %pos) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32}
        mask (%b: index, %h: index, %i: index, %j: index) {
          %p = arith.cmpi sle, %j, %i : index // BODY
          flash.yield %p : i1
        } -> !q, !row, !row
    scf.yield %s#0, %s#1, %s#2 : !q, !row, !row
  }
  return %r#0, %r#1, %r#2 : !q, !row, !row
}

// What is not understood stops the mask from going away where it matters, not the rest from bounding the loop.
// CHECK-LABEL: func @opaque
// CHECK:         %[[END:.*]] = affine.max
// CHECK:         scf.for %{{[a-z0-9]+}} = %c0 to %[[FULL:.*]] step
// CHECK:           flash.online_attention
// CHECK-NOT:       mask
// CHECK:         scf.for %{{[a-z0-9]+}} = %[[FULL]] to %[[END]] step
// CHECK:           flash.online_attention {{.*}} mask
// CHECK-NOT:     scf.for
// REMARK:      [Missed] bound-loops | Category:flash | Remark="arith.muli, opaque to the analysis of masks: it bounds no loop"
// REMARK-NEXT:   %product = arith.muli
// VARY opaque
//     %causal = arith.cmpi sle, %j, %i : index
//     %c4 = arith.constant 4 : index
//     %c40 = arith.constant 40 : index
//     %first = arith.cmpi slt, %j, %c40 : index
//     %product = arith.muli %i, %j : index
//     %even = arith.cmpi slt, %product, %c4 : index
//     %either = arith.ori %first, %even : i1
//     %p = arith.andi %causal, %either : i1

// Nothing is understood: the loop stays as it is.
// CHECK-LABEL: func @all_opaque
// CHECK:         scf.for %{{[a-z0-9]+}} = %c0 to %c256 step
// CHECK:           flash.online_attention {{.*}} mask
// CHECK-NOT:     scf.for
// REMARK:      opaque to the analysis of masks
// VARY all_opaque
//     %product = arith.muli %i, %j : index
//     %p = arith.cmpi ne, %product, %c64 : index

// The loop skips tiles already.
// CHECK-LABEL: func @step_is_not_tile
// CHECK:         scf.for %{{[a-z0-9]+}} = %c0 to %c256 step
// CHECK:           flash.online_attention {{.*}} mask
// CHECK-NOT:     scf.for
// REMARK:      the loop's step is not the number of keys in a tile
// VARY step_is_not_tile
//   %c32 iter_args => %c64 iter_args

// An iteration that keeps nothing may not be skipped: it stores.
// CHECK-LABEL: func @side_effect
// CHECK:         scf.for %{{[a-z0-9]+}} = %c0 to %c256 step
// CHECK:           flash.online_attention {{.*}} mask
// CHECK-NOT:     scf.for
// REMARK:      the loop has side effects
// VARY side_effect
//   %i0: index) => %i0: index, %buffer: memref<256xindex>)
//   %t = =>
//     memref.store %pos, %buffer[%pos] : memref<256xindex>
//     %t =

// The loop counts its iterations: none may be skipped.
// CHECK-LABEL: func @carries_more
// CHECK:         scf.for %{{[a-z0-9]+}} = %c0 to %c256 step
// CHECK:           flash.online_attention {{.*}} mask
// CHECK-NOT:     scf.for
// REMARK:      the loop carries more than the state
// VARY carries_more
//   %r:3 => %r:4
//   %s2 = %m) -> (!q, !row, !row) => %s2 = %m, %n = %c0) -> (!q, !row, !row, index)
//   %t = =>
//     %n1 = arith.addi %n, %c32 : index
//     %t =
//   %s#2 : !q, !row, !row => %s#2, %n1 : !q, !row, !row, index

// The queries move with the keys: the loop has no query tile of its own.
// CHECK-LABEL: func @moving_queries
// CHECK:         scf.for %{{[a-z0-9]+}} = %c0 to %c256 step
// CHECK:           flash.online_attention {{.*}} mask
// CHECK-NOT:     scf.for
// REMARK:      the position of the tile of queries changes inside the loop
// VARY moving_queries
//   %t = =>
//     %i1 = arith.addi %i0, %pos : index
//     %t =
//   %i0, %pos) => %i1, %pos)

// -----

!q = tensor<1x1x64x8xf32>
!row = tensor<1x1x64xf32>
!tile = tensor<1x1x32x8xf32>

// Without a mask there is nothing to do, and nothing to say.
// CHECK-LABEL: func @no_mask
// CHECK:         scf.for %{{[a-z0-9]+}} = %c0 to %c256 step
// CHECK:           flash.online_attention
// CHECK-NOT:     scf.for
// REMARK-NOT:  no_mask
func.func @no_mask(%q: !q, %k: tensor<1x1x256x8xf32>, %m: !row, %b0: index, %i0: index) -> (!q, !row, !row) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c256 = arith.constant 256 : index
  %r:3 = scf.for %pos = %c0 to %c256 step %c32 iter_args(%s0 = %q, %s1 = %m, %s2 = %m) -> (!q, !row, !row) {
    %t = tensor.extract_slice %k[0, 0, %pos, 0] [1, 1, 32, 8] [1, 1, 1, 1] : tensor<1x1x256x8xf32> to !tile
    %s:3 = flash.online_attention ins(%q, %t, %t : !q, !tile, !tile) outs(%s0, %s1, %s2 : !q, !row, !row)
        at(%b0, %c0, %i0, %pos) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !q, !row, !row
    scf.yield %s#0, %s#1, %s#2 : !q, !row, !row
  }
  return %r#0, %r#1, %r#2 : !q, !row, !row
}

// Algorithm 1, keys outside: the loop around the op is not the key loop.
// CHECK-LABEL: func @keys_outside
// CHECK:         scf.for
// CHECK:           scf.for
// CHECK:             flash.online_attention {{.*}} mask
// CHECK-NOT:     scf.for
// REMARK:      the innermost loop does not go over keys (flash-swap-loops comes first)
func.func @keys_outside(%q: !q, %k: !tile, %m: !row) -> (!q, !row, !row) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c256 = arith.constant 256 : index
  %r:3 = scf.for %pos = %c0 to %c256 step %c32 iter_args(%r0 = %q, %r1 = %m, %r2 = %m) -> (!q, !row, !row) {
    %s:3 = scf.for %i0 = %c0 to %c256 step %c64 iter_args(%s0 = %r0, %s1 = %r1, %s2 = %r2) -> (!q, !row, !row) {
      %t:3 = flash.online_attention ins(%q, %k, %k : !q, !tile, !tile) outs(%s0, %s1, %s2 : !q, !row, !row)
          at(%c0, %c0, %i0, %pos) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32}
          mask (%b: index, %h: index, %i: index, %j: index) {
            %p = arith.cmpi sle, %j, %i : index
            flash.yield %p : i1
          } -> !q, !row, !row
      scf.yield %t#0, %t#1, %t#2 : !q, !row, !row
    }
    scf.yield %s#0, %s#1, %s#2 : !q, !row, !row
  }
  return %r#0, %r#1, %r#2 : !q, !row, !row
}

// Two heads in a tile, for which the mask differs.
// CHECK-LABEL: func @two_heads
// CHECK:         scf.for
// CHECK:           flash.online_attention {{.*}} mask
// CHECK-NOT:     scf.for
// REMARK:      a tile spans several heads, for which the mask differs
func.func @two_heads(%q: tensor<1x2x64x8xf32>, %k: tensor<1x2x32x8xf32>, %m: tensor<1x2x64xf32>, %i0: index)
    -> tensor<1x2x64x8xf32> {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c256 = arith.constant 256 : index
  %r:3 = scf.for %pos = %c0 to %c256 step %c32 iter_args(%s0 = %q, %s1 = %m, %s2 = %m)
      -> (tensor<1x2x64x8xf32>, tensor<1x2x64xf32>, tensor<1x2x64xf32>) {
    %s:3 = flash.online_attention ins(%q, %k, %k : tensor<1x2x64x8xf32>, tensor<1x2x32x8xf32>, tensor<1x2x32x8xf32>)
        outs(%s0, %s1, %s2 : tensor<1x2x64x8xf32>, tensor<1x2x64xf32>, tensor<1x2x64xf32>) at(%c0, %c0, %i0, %pos)
        {normalize = #flash.normalize<deferred>, scale = 1.0 : f32}
        mask (%b: index, %h: index, %i: index, %j: index) {
          %last = arith.subi %i, %h : index
          %p = arith.cmpi sle, %j, %last : index
          flash.yield %p : i1
        } -> tensor<1x2x64x8xf32>, tensor<1x2x64xf32>, tensor<1x2x64xf32>
    scf.yield %s#0, %s#1, %s#2 : tensor<1x2x64x8xf32>, tensor<1x2x64xf32>, tensor<1x2x64xf32>
  }
  return %r#0 : tensor<1x2x64x8xf32>
}
