// RUN: %vary %s | flashc-opt --split-input-file --verify-diagnostics

// What flash.online_attention, flash.finalize and flash.yield check besides the constraints of invalid.mlir.

!t = tensor<1x2x8x16xbf16>
!r = tensor<1x2x8xf32>
!t2 = tensor<1x2x8x16xf32>
!t3 = tensor<1x?x8x16xf32>
!r2 = tensor<1x?x8xf32>
!r3 = tensor<1x2x4xf32>
!t4 = tensor<1x2x8x16xf16>
func.func @invalid(%t: !t, %r: !r, %z: index, %t2: !t2, %l: tensor<1x2x?xf32>, %t3: !t3, %r2: !r2, %s: f32,
    %o: tensor<1x2x8x8xf32>, %r3: !r3, %t4: !t4, %o2: tensor<1x2x8x16xf64>) {
  // BODY
  return
}

// VARY acc_is_not_f32
//     %0:3 = flash.online_attention ins(%t, %t, %t : !t, !t, !t) outs(%t, %r, %r : !t, !r, !r) at(%z, %z, %z, %z)
//     | error: expected acc of element type 'f32', got 'bf16' (C3)
//       {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !t, !r, !r
// VARY m_and_l_differ
//     %0:3 = flash.online_attention ins(%t2, %t2, %t2 : !t2, !t2, !t2) outs(%t2, %r, %l : !t2, !r, tensor<1x2x?xf32>)
//     | error: failed to verify that all of {m, l, m_out, l_out} have same type
//       at(%z, %z, %z, %z) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !t2, !r, tensor<1x2x?xf32>
// VARY c5_dynamic_heads_without_group
//     %0:3 = flash.online_attention ins(%t3, %t3, %t3 : !t3, !t3, !t3) outs(%t3, %r2, %r2 : !t3, !r2, !r2) at(%z, %z, %z, %z)
//     | error: expected group_size together with a dynamic number of heads, got 'tensor<1x?x8x16xf32>' and 'tensor<1x?x8x16xf32>' (C5)
//       {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !t3, !r2, !r2
// VARY results_unlike_outs
//     %0:3 = flash.online_attention ins(%t2, %t2, %t2 : !t2, !t2, !t2) outs(%t2, %r, %r : !t2, !r, !r) at(%z, %z, %z, %z)
//     | error: failed to verify that all of {acc, acc_out} have same type
//       {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> tensor<1x2x?x16xf32>, !r, !r
// VARY three_offsets
//     %0:3 = flash.online_attention ins(%t2, %t2, %t2 : !t2, !t2, !t2) outs(%t2, %r, %r : !t2, !r, !r)
//       at(%z, %z, %z) | error: expected ','
//       {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !t2, !r, !r
// VARY online_mask_yields_a_score
//     %0:3 = flash.online_attention ins(%t2, %t2, %t2 : !t2, !t2, !t2) outs(%t2, %r, %r : !t2, !r, !r) at(%z, %z, %z, %z)
//     | error: expected the mask region to yield 'i1', got 'f32' (C8)
//       {normalize = #flash.normalize<deferred>, scale = 1.0 : f32}
//       mask (%b: index, %h: index, %i: index, %j: index) {
//         flash.yield %s : f32
//       } -> !t2, !r, !r
// VARY finalize_shape_of_o
//     %0:2 = flash.finalize ins(%t2, %r, %r : !t2, !r, !r) outs(%o, %r : tensor<1x2x8x8xf32>, !r)
//     | error: failed to verify that all of {acc, o} have same shape
//       {normalize = #flash.normalize<deferred>} -> tensor<1x2x8x8xf32>, !r
// VARY finalize_rows
//     %0:2 = flash.finalize ins(%t2, %r3, %r3 : !t2, !r3, !r3) outs(%t2, %r3 : !t2, !r3)
//     | error: expected acc and m to agree on B, Hq and Nq, got 'tensor<1x2x8x16xf32>' and 'tensor<1x2x4xf32>'
//       {normalize = #flash.normalize<deferred>} -> !t2, !r3
// VARY finalize_state_types
//     %0:2 = flash.finalize ins(%t2, %r, %l : !t2, !r, tensor<1x2x?xf32>) outs(%t2, %r : !t2, !r)
//     | error: failed to verify that all of {m, l, lse, lse_out} have same type
//       {normalize = #flash.normalize<deferred>} -> !t2, !r
// VARY finalize_acc_is_not_f32
//     %0:2 = flash.finalize ins(%t4, %r, %r : !t4, !r, !r) outs(%t4, %r : !t4, !r)
//     | error: operand #0 must be 4D tensor of 32-bit float values, but got 'tensor<1x2x8x16xf16>'
//       {normalize = #flash.normalize<deferred>} -> !t4, !r
// VARY finalize_output_type
//     %0:2 = flash.finalize ins(%t2, %r, %r : !t2, !r, !r) outs(%o2, %r : tensor<1x2x8x16xf64>, !r)
//     | error: operand #3 must be ranked tensor of bfloat16 type or 16-bit float or 32-bit float values
//       {normalize = #flash.normalize<deferred>} -> tensor<1x2x8x16xf64>, !r

// -----

func.func @yield_outside(%s: f32) {
  // expected-error @+1 {{expects parent op to be one of 'flash.attention, flash.column_sums, flash.attention_backward, flash.captured_gradient, flash.online_attention, flash.accumulate_column_sums, flash.accumulate_gradients, flash.row_table, flash.tile_range, flash.tile_classes, flash.tile_runs'}}
  flash.yield %s : f32
}
