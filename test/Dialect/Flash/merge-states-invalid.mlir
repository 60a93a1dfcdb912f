// RUN: flashc-opt %s --verify-diagnostics --split-input-file

!o = tensor<2x1x4x32x16xf32>
!lse = tensor<2x1x4x32xf32>

func.func @mixed(%o: !o, %lse: memref<2x1x4x32xf32>) {
  // expected-error @+1 {{expected only tensors or only memrefs, got o_parts of type 'tensor<2x1x4x32x16xf32>' and lse_parts of type 'memref<2x1x4x32xf32>' (C1)}}
  %0:2 = flash.merge_states ins(%o, %lse : !o, memref<2x1x4x32xf32>) -> tensor<1x4x32x16xf32>, tensor<1x4x32xf32>
  return
}

// -----

!o = memref<2x1x4x32x16xf32>
!lse = memref<2x1x4x32xf32>

func.func @strided(%parts: !o, %lses: !lse, %o: memref<1x4x32x16xf32, strided<[?, ?, ?, 2]>>, %lse: memref<1x4x32xf32>) {
  // expected-error @+1 {{expected o to be contiguous in the innermost dimension, got 'memref<1x4x32x16xf32, strided<[?, ?, ?, 2]>>' (C1)}}
  flash.merge_states ins(%parts, %lses : !o, !lse)
    outs(%o, %lse : memref<1x4x32x16xf32, strided<[?, ?, ?, 2]>>, memref<1x4x32xf32>)
  return
}

// -----

func.func @rank(%o: tensor<1x4x32x16xf32>, %lse: tensor<2x1x4x32xf32>) {
  // expected-error @+1 {{expected o_parts of rank 5, got 'tensor<1x4x32x16xf32>' (C2)}}
  %0:2 = flash.merge_states ins(%o, %lse : tensor<1x4x32x16xf32>, tensor<2x1x4x32xf32>)
    -> tensor<1x4x32x16xf32>, tensor<1x4x32xf32>
  return
}

// -----

!o = tensor<2x1x4x32x16xf32>

func.func @element_of_lse(%o: !o, %lse: tensor<2x1x4x32xbf16>) {
  // expected-error @+1 {{expected lse_parts of element type 'f32', got 'bf16' (C3)}}
  %0:2 = flash.merge_states ins(%o, %lse : !o, tensor<2x1x4x32xbf16>) -> tensor<1x4x32x16xf32>, tensor<1x4x32xf32>
  return
}

// -----

!lse = tensor<2x1x4x32xf32>

func.func @element(%o: tensor<2x1x4x32x16xf64>, %lse: !lse) {
  // expected-error @+1 {{expected o_parts of element type bf16, f16 or f32, got 'f64' (C3)}}
  %0:2 = flash.merge_states ins(%o, %lse : tensor<2x1x4x32x16xf64>, !lse) -> tensor<1x4x32x16xf32>, tensor<1x4x32xf32>
  return
}

// -----

!lse = tensor<2x1x4x32xf32>

func.func @dynamic_depth(%o: tensor<2x1x4x32x?xf32>, %lse: !lse) {
  // expected-error @+1 {{expected a static, positive D, got o_parts of type 'tensor<2x1x4x32x?xf32>' (C4)}}
  %0:2 = flash.merge_states ins(%o, %lse : tensor<2x1x4x32x?xf32>, !lse) -> tensor<1x4x32x16xf32>, tensor<1x4x32xf32>
  return
}

// -----

!o = tensor<2x1x4x32x16xf32>
!lse = tensor<2x1x4x32xf32>

func.func @depth(%o: !o, %lse: !lse) {
  // expected-error @+1 {{expected o_parts and o to agree on D, got 16 and 8 (C4)}}
  %0:2 = flash.merge_states ins(%o, %lse : !o, !lse) -> tensor<1x4x32x8xf32>, tensor<1x4x32xf32>
  return
}

// -----

!o = tensor<2x1x4x32x16xf32>

func.func @parts(%o: !o, %lse: tensor<3x1x4x32xf32>) {
  // expected-error @+1 {{expected o_parts and lse_parts to agree on S, got 2 and 3 (C6)}}
  %0:2 = flash.merge_states ins(%o, %lse : !o, tensor<3x1x4x32xf32>) -> tensor<1x4x32x16xf32>, tensor<1x4x32xf32>
  return
}

// -----

!o = tensor<2x1x4x32x16xf32>
!lse = tensor<2x1x4x32xf32>

func.func @sinks(%o: !o, %lse: !lse, %sinks: tensor<2xf32>) {
  // expected-error @+1 {{expected o_parts and sinks to agree on H, got 4 and 2 (C6)}}
  %0:2 = flash.merge_states ins(%o, %lse : !o, !lse) sinks(%sinks : tensor<2xf32>)
    -> tensor<1x4x32x16xf32>, tensor<1x4x32xf32>
  return
}

// -----

!o = tensor<2x1x4x32x16xf32>
!lse = tensor<2x1x4x32xf32>

func.func @one_result(%o: !o, %lse: !lse) {
  // expected-error @+1 {{expected two results on tensors, or two 'outs' and no result on memrefs, got 1 results and 0 outs (C10)}}
  %0 = flash.merge_states ins(%o, %lse : !o, !lse) -> tensor<1x4x32x16xf32>
  return
}
