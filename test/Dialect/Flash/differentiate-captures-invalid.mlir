// Captured tensors whose gradient is refused, with the read that is the reason.
// RUN: flashc-opt %s --flash-differentiate-captures --verify-diagnostics --split-input-file

!q = tensor<1x4x64x16xf32>
!k = tensor<1x2x32x16xf32>
!lse = tensor<1x4x64xf32>

func.func @shape(%q: !q, %k: !k, %lse: !lse, %x: tensor<4xf32>) {
  // expected-error @+1 {{expected a result of f32 and of the shape of 'tensor<4xf32>', got 'tensor<5xf32>' (C12)}}
  %g = flash.captured_gradient ins(%q, %k, %k, %q, %lse, %q : !q, !k, !k, !q, !lse, !q) of(%x : tensor<4xf32>)
      {scale = 1.0 : f32} -> tensor<5xf32>
  return
}

// -----

!q = tensor<1x4x64x16xf32>
!k = tensor<1x2x32x16xf32>
!lse = tensor<1x4x64xf32>

func.func @element(%q: !q, %k: !k, %lse: !lse, %x: tensor<4xi32>) {
  // expected-error @+1 {{expected a captured tensor of bf16, f16, f32 or f64, got 'tensor<4xi32>' (C3)}}
  %g = flash.captured_gradient ins(%q, %k, %k, %q, %lse, %q : !q, !k, !k, !q, !lse, !q) of(%x : tensor<4xi32>)
      {scale = 1.0 : f32} -> tensor<4xf32>
  return
}

// -----

!q = memref<1x4x64x16xf32>
!k = memref<1x2x32x16xf32>
!lse = memref<1x4x64xf32>

func.func @memrefs(%q: !q, %k: !k, %lse: !lse, %x: tensor<4xf32>) {
  // expected-error @+1 {{expected tensors, got q of type 'memref<1x4x64x16xf32>' (C1)}}
  %g = flash.captured_gradient ins(%q, %k, %k, %q, %lse, %q : !q, !k, !k, !q, !lse, !q) of(%x : tensor<4xf32>)
      {scale = 1.0 : f32} -> tensor<4xf32>
  return
}

// -----

!q = tensor<1x4x64x16xf32>
!k = tensor<1x2x32x16xf32>
!lse = tensor<1x4x64xf32>

func.func @results(%q: !q, %k: !k, %lse: !lse, %x: tensor<4xf32>) {
  // expected-error @+1 {{expected one result on tensors}}
  "flash.captured_gradient"(%q, %k, %k, %q, %lse, %q, %x) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 1, 0, 0>, scale = 1.0 : f32}>
      ({}, {}) : (!q, !k, !k, !q, !lse, !q, tensor<4xf32>) -> ()
  return
}

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

// -----

func.func @number_of_indices(%sums: tensor<1x4x64xf32>, %x: tensor<4xf32>, %n: index) {
  // expected-error @+1 {{expected an index for each dimension of 'tensor<4xf32>', got 2}}
  %g = flash.scatter_sum ins(%sums : tensor<1x4x64xf32>) outs(%x : tensor<4xf32>) of(%x : tensor<4xf32>) queries(%n)
      {gradients = #flash.gradients<rows>} index (%b: index, %h: index, %i: index, %j: index) {
        flash.yield_index %h, %i
      }
  return
}

// -----

func.func @rank_of_sums(%sums: tensor<1x4x64xf32>, %x: tensor<4xf32>, %n: index) {
  // expected-error @+1 {{expected pairs of rank 4, got 'tensor<1x4x64xf32>'}}
  %g = flash.scatter_sum ins(%sums : tensor<1x4x64xf32>) outs(%x : tensor<4xf32>) of(%x : tensor<4xf32>) queries(%n)
      {gradients = #flash.gradients<pairs>} index (%b: index, %h: index, %i: index, %j: index) {
        flash.yield_index %h
      }
  return
}

// -----

func.func @kind_of_sums(%sums: tensor<1x4x64xf32>, %x: tensor<4xf32>, %n: index) {
  // expected-error @+1 {{expected sums of rows, columns, pairs or diagonals, got <dq>}}
  %g = flash.scatter_sum ins(%sums : tensor<1x4x64xf32>) outs(%x : tensor<4xf32>) of(%x : tensor<4xf32>) queries(%n)
      {gradients = #flash.gradients<dq>} index (%b: index, %h: index, %i: index, %j: index) {
        flash.yield_index %h
      }
  return
}

// -----

func.func @shape_of_result(%sums: tensor<1x4x64xf32>, %x: tensor<4xf32>, %y: tensor<5xf32>, %n: index) {
  // expected-error @+1 {{expected 'outs' of the shape of 'tensor<5xf32>', got 'tensor<4xf32>'}}
  %g = flash.scatter_sum ins(%sums : tensor<1x4x64xf32>) outs(%x : tensor<4xf32>) of(%y : tensor<5xf32>) queries(%n)
      {gradients = #flash.gradients<rows>} index (%b: index, %h: index, %i: index, %j: index) {
        flash.yield_index %h
      }
  return
}

// -----

func.func @region(%sums: tensor<1x4x64xf32>, %x: tensor<4xf32>, %n: index) {
  // expected-error @+1 {{expected a region of one block that takes ('index', 'index', 'index', 'index') and yields indices}}
  %g = flash.scatter_sum ins(%sums : tensor<1x4x64xf32>) outs(%x : tensor<4xf32>) of(%x : tensor<4xf32>) queries(%n)
      {gradients = #flash.gradients<rows>} index (%h: index) {
        flash.yield_index %h
      }
  return
}
