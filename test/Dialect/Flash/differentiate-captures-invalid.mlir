// RUN: %vary %s | flashc-opt --flash-differentiate-captures --verify-diagnostics --split-input-file

// Captured tensors whose gradient is refused, with the read that is the reason.

!q = tensor<1x4x64x16xf32>
!k = tensor<1x2x32x16xf32>
!lse = tensor<1x4x64xf32>
!q2 = memref<1x4x64x16xf32>
!k2 = memref<1x2x32x16xf32>
!lse2 = memref<1x4x64xf32>
func.func @invalid(%q: !q, %k: !k, %lse: !lse, %x: tensor<4xf32>, %x2: tensor<4xi32>, %q2: !q2, %k2: !k2,
    %lse2: !lse2, %sums: tensor<1x4x64xf32>, %n: index, %y: tensor<5xf32>) {
  // BODY
  return
}

// VARY shape
//     %g = flash.captured_gradient ins(%q, %k, %k, %q, %lse, %q : !q, !k, !k, !q, !lse, !q) of(%x : tensor<4xf32>)
//     | error: expected a result of f32 and of the shape of 'tensor<4xf32>', got 'tensor<5xf32>' (C12)
//         {scale = 1.0 : f32} -> tensor<5xf32>
// VARY element
//     %g = flash.captured_gradient ins(%q, %k, %k, %q, %lse, %q : !q, !k, !k, !q, !lse, !q) of(%x2 : tensor<4xi32>)
//     | error: expected a captured tensor of bf16, f16, f32 or f64, got 'tensor<4xi32>' (C3)
//         {scale = 1.0 : f32} -> tensor<4xf32>
// VARY memrefs
//     %g = flash.captured_gradient ins(%q2, %k2, %k2, %q2, %lse2, %q2 : !q2, !k2, !k2, !q2, !lse2, !q2) of(%x : tensor<4xf32>)
//     | error: expected tensors, got q of type 'memref<1x4x64x16xf32>' (C1)
//         {scale = 1.0 : f32} -> tensor<4xf32>
// VARY results
//     "flash.captured_gradient"(%q, %k, %k, %q, %lse, %q, %x) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 1, 0, 0>, scale = 1.0 : f32}>
//     | error: expected one result on tensors
//         ({}, {}) : (!q, !k, !k, !q, !lse, !q, tensor<4xf32>) -> ()
// VARY number_of_indices
//     %g = flash.scatter_sum ins(%sums : tensor<1x4x64xf32>) outs(%x : tensor<4xf32>) of(%x : tensor<4xf32>) queries(%n)
//     | error: expected an index for each dimension of 'tensor<4xf32>', got 2
//         {gradients = #flash.gradients<rows>} index (%b: index, %h: index, %i: index, %j: index) {
//           flash.yield_index %h, %i
//         }
// VARY rank_of_sums
//     %g = flash.scatter_sum ins(%sums : tensor<1x4x64xf32>) outs(%x : tensor<4xf32>) of(%x : tensor<4xf32>) queries(%n)
//     | error: expected pairs of rank 4, got 'tensor<1x4x64xf32>'
//         {gradients = #flash.gradients<pairs>} index (%b: index, %h: index, %i: index, %j: index) {
//           flash.yield_index %h
//         }
// VARY kind_of_sums
//     %g = flash.scatter_sum ins(%sums : tensor<1x4x64xf32>) outs(%x : tensor<4xf32>) of(%x : tensor<4xf32>) queries(%n)
//     | error: expected sums of rows, columns, pairs or diagonals, got <dq>
//         {gradients = #flash.gradients<dq>} index (%b: index, %h: index, %i: index, %j: index) {
//           flash.yield_index %h
//         }
// VARY shape_of_result
//     %g = flash.scatter_sum ins(%sums : tensor<1x4x64xf32>) outs(%x : tensor<4xf32>) of(%y : tensor<5xf32>) queries(%n)
//     | error: expected 'outs' of the shape of 'tensor<5xf32>', got 'tensor<4xf32>'
//         {gradients = #flash.gradients<rows>} index (%b: index, %h: index, %i: index, %j: index) {
//           flash.yield_index %h
//         }
// VARY region
//     %g = flash.scatter_sum ins(%sums : tensor<1x4x64xf32>) outs(%x : tensor<4xf32>) of(%x : tensor<4xf32>) queries(%n)
//     | error: expected a region of one block that takes ('index', 'index', 'index', 'index') and yields indices
//         {gradients = #flash.gradients<rows>} index (%h: index) {
//           flash.yield_index %h
//         }

// -----

!q = tensor<1x4x64x16xf32>
!k = tensor<1x2x32x16xf32>
!lse = tensor<1x4x64xf32>

func.func @no_argument(%q: !q, %k: !k, %lse: !lse) -> tensor<4xf32> {
  %x = tensor.empty() : tensor<4xf32>
  // expected-error @+1 {{expected the captured tensor to be an argument of the function (C12)}}
  %g = flash.captured_gradient ins(%q, %k, %k, %q, %lse, %q : !q, !k, !k, !q, !lse, !q) of(%x : tensor<4xf32>)
      {scale = 1.0 : f32} -> tensor<4xf32>
  return %g : tensor<4xf32>
}

// -----

!q = tensor<1x4x64x16xf32>
!k = tensor<1x2x32x16xf32>
!lse = tensor<1x4x64xf32>

func.func @control_flow(%q: !q, %k: !k, %lse: !lse, %x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{expected the captured tensor to be read outside of control flow (C12)}}
  %g = flash.captured_gradient ins(%q, %k, %k, %q, %lse, %q : !q, !k, !k, !q, !lse, !q) of(%x : tensor<4xf32>)
      {scale = 1.0 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %isLate = arith.cmpi sgt, %i, %j : index
        %t = scf.if %isLate -> f32 {
          // expected-note @+1 {{of this read}}
          %e = tensor.extract %x[%h] : tensor<4xf32>
          %sum = arith.addf %s, %e : f32
          scf.yield %sum : f32
        } else {
          scf.yield %s : f32
        }
        flash.yield %t : f32
      } -> tensor<4xf32>
  return %g : tensor<4xf32>
}

// -----

!q = tensor<1x4x64x16xf32>
!k = tensor<1x2x32x16xf32>
!lse = tensor<1x4x64xf32>

func.func @no_derivative(%q: !q, %k: !k, %lse: !lse, %x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{expected a score that has a derivative}}
  %g = flash.captured_gradient ins(%q, %k, %k, %q, %lse, %q : !q, !k, !k, !q, !lse, !q) of(%x : tensor<4xf32>)
      {scale = 1.0 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %e = tensor.extract %x[%h] : tensor<4xf32>
        // expected-note @+1 {{'arith.bitcast' has none}}
        %bits = arith.bitcast %e : f32 to i32
        %back = arith.bitcast %bits : i32 to f32
        %t = arith.addf %s, %back : f32
        flash.yield %t : f32
      } -> tensor<4xf32>
  return %g : tensor<4xf32>
}
