// RUN: flashc-opt %s --split-input-file --verify-diagnostics

// What flash.online_attention, flash.finalize and flash.yield check besides the constraints of invalid.mlir.

!t = tensor<1x2x8x16xbf16>
!r = tensor<1x2x8xf32>
func.func @acc_is_not_f32(%t: !t, %r: !r, %z: index) {
  // expected-error @+1 {{expected acc of element type 'f32', got 'bf16' (C3)}}
  %0:3 = flash.online_attention ins(%t, %t, %t : !t, !t, !t) outs(%t, %r, %r : !t, !r, !r) at(%z, %z, %z, %z)
    {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !t, !r, !r
  return
}

// -----

!t = tensor<1x2x8x16xf32>
!r = tensor<1x2x8xf32>
func.func @m_and_l_differ(%t: !t, %r: !r, %l: tensor<1x2x?xf32>, %z: index) {
  // expected-error @+1 {{failed to verify that all of {m, l, m_out, l_out} have same type}}
  %0:3 = flash.online_attention ins(%t, %t, %t : !t, !t, !t) outs(%t, %r, %l : !t, !r, tensor<1x2x?xf32>)
    at(%z, %z, %z, %z) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !t, !r, tensor<1x2x?xf32>
  return
}

// -----

!t = tensor<1x?x8x16xf32>
!r = tensor<1x?x8xf32>
func.func @c5_dynamic_heads_without_group(%t: !t, %r: !r, %z: index) {
  // expected-error @+1 {{expected group_size together with a dynamic number of heads, got 'tensor<1x?x8x16xf32>' and 'tensor<1x?x8x16xf32>' (C5)}}
  %0:3 = flash.online_attention ins(%t, %t, %t : !t, !t, !t) outs(%t, %r, %r : !t, !r, !r) at(%z, %z, %z, %z)
    {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !t, !r, !r
  return
}

// -----

!t = tensor<1x2x8x16xf32>
!r = tensor<1x2x8xf32>
func.func @results_unlike_outs(%t: !t, %r: !r, %z: index) {
  // expected-error @+1 {{failed to verify that all of {acc, acc_out} have same type}}
  %0:3 = flash.online_attention ins(%t, %t, %t : !t, !t, !t) outs(%t, %r, %r : !t, !r, !r) at(%z, %z, %z, %z)
    {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> tensor<1x2x?x16xf32>, !r, !r
  return
}

// -----

!t = tensor<1x2x8x16xf32>
!r = tensor<1x2x8xf32>
func.func @three_offsets(%t: !t, %r: !r, %z: index) {
  %0:3 = flash.online_attention ins(%t, %t, %t : !t, !t, !t) outs(%t, %r, %r : !t, !r, !r)
    // expected-error @+1 {{expected ','}}
    at(%z, %z, %z)
    {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !t, !r, !r
  return
}

// -----

!t = tensor<1x2x8x16xf32>
!r = tensor<1x2x8xf32>
func.func @online_mask_yields_a_score(%t: !t, %r: !r, %s: f32, %z: index) {
  // expected-error @+1 {{expected the mask region to yield 'i1', got 'f32' (C8)}}
  %0:3 = flash.online_attention ins(%t, %t, %t : !t, !t, !t) outs(%t, %r, %r : !t, !r, !r) at(%z, %z, %z, %z)
    {normalize = #flash.normalize<deferred>, scale = 1.0 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      flash.yield %s : f32
    } -> !t, !r, !r
  return
}

// -----

!t = tensor<1x2x8x16xf32>
!r = tensor<1x2x8xf32>
func.func @finalize_shape_of_o(%t: !t, %r: !r, %o: tensor<1x2x8x8xf32>) {
  // expected-error @+1 {{failed to verify that all of {acc, o} have same shape}}
  %0:2 = flash.finalize ins(%t, %r, %r : !t, !r, !r) outs(%o, %r : tensor<1x2x8x8xf32>, !r)
    {normalize = #flash.normalize<deferred>} -> tensor<1x2x8x8xf32>, !r
  return
}

// -----

!t = tensor<1x2x8x16xf32>
!r = tensor<1x2x4xf32>
func.func @finalize_rows(%t: !t, %r: !r) {
  // expected-error @+1 {{expected acc and m to agree on B, Hq and Nq, got 'tensor<1x2x8x16xf32>' and 'tensor<1x2x4xf32>'}}
  %0:2 = flash.finalize ins(%t, %r, %r : !t, !r, !r) outs(%t, %r : !t, !r)
    {normalize = #flash.normalize<deferred>} -> !t, !r
  return
}

// -----

!t = tensor<1x2x8x16xf32>
!r = tensor<1x2x8xf32>
func.func @finalize_state_types(%t: !t, %r: !r, %l: tensor<1x2x?xf32>) {
  // expected-error @+1 {{failed to verify that all of {m, l, lse, lse_out} have same type}}
  %0:2 = flash.finalize ins(%t, %r, %l : !t, !r, tensor<1x2x?xf32>) outs(%t, %r : !t, !r)
    {normalize = #flash.normalize<deferred>} -> !t, !r
  return
}

// -----

!t = tensor<1x2x8x16xf16>
!r = tensor<1x2x8xf32>
func.func @finalize_acc_is_not_f32(%t: !t, %r: !r) {
  // expected-error @+1 {{operand #0 must be 4D tensor of 32-bit float values, but got 'tensor<1x2x8x16xf16>'}}
  %0:2 = flash.finalize ins(%t, %r, %r : !t, !r, !r) outs(%t, %r : !t, !r)
    {normalize = #flash.normalize<deferred>} -> !t, !r
  return
}

// -----

!t = tensor<1x2x8x16xf32>
!r = tensor<1x2x8xf32>
func.func @finalize_output_type(%t: !t, %r: !r, %o: tensor<1x2x8x16xf64>) {
  // expected-error @+1 {{operand #3 must be ranked tensor of bfloat16 type or 16-bit float or 32-bit float values}}
  %0:2 = flash.finalize ins(%t, %r, %r : !t, !r, !r) outs(%o, %r : tensor<1x2x8x16xf64>, !r)
    {normalize = #flash.normalize<deferred>} -> tensor<1x2x8x16xf64>, !r
  return
}

// -----

func.func @yield_outside(%s: f32) {
  // expected-error @+1 {{expects parent op to be one of 'flash.attention, flash.column_sums, flash.attention_backward, flash.captured_gradient, flash.online_attention, flash.accumulate_column_sums, flash.accumulate_gradients, flash.row_table, flash.tile_range, flash.tile_classes, flash.tile_runs'}}
  flash.yield %s : f32
}
