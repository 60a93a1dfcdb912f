// RUN: %vary %s | flashc-opt --verify-diagnostics --split-input-file

!o = tensor<2x1x4x32x16xf32>
!lse = tensor<2x1x4x32xf32>
!o2 = memref<2x1x4x32x16xf32>
!lse2 = memref<2x1x4x32xf32>
func.func @invalid(%o: !o, %lse: memref<2x1x4x32xf32>, %parts: !o2, %lses: !lse2,
    %o2: memref<1x4x32x16xf32, strided<[?, ?, ?, 2]>>, %lse2: memref<1x4x32xf32>, %o3: tensor<1x4x32x16xf32>,
    %lse3: tensor<2x1x4x32xf32>, %lse4: tensor<2x1x4x32xbf16>, %o4: tensor<2x1x4x32x16xf64>, %lse5: !lse,
    %o5: tensor<2x1x4x32x?xf32>, %lse6: tensor<3x1x4x32xf32>, %sinks: tensor<2xf32>) {
  // BODY
  return
}

// VARY mixed
//     %0:2 = flash.merge_states ins(%o, %lse : !o, memref<2x1x4x32xf32>) -> tensor<1x4x32x16xf32>, tensor<1x4x32xf32>
//     | error: expected only tensors or only memrefs, got o_parts of type 'tensor<2x1x4x32x16xf32>' and lse_parts of type 'memref<2x1x4x32xf32>' (C1)
// VARY strided
//     flash.merge_states ins(%parts, %lses : !o2, !lse2)
//     | error: expected o to be contiguous in the innermost dimension, got 'memref<1x4x32x16xf32, strided<[?, ?, ?, 2]>>' (C1)
//       outs(%o2, %lse2 : memref<1x4x32x16xf32, strided<[?, ?, ?, 2]>>, memref<1x4x32xf32>)
// VARY rank
//     %0:2 = flash.merge_states ins(%o3, %lse3 : tensor<1x4x32x16xf32>, tensor<2x1x4x32xf32>)
//     | error: expected o_parts of rank 5, got 'tensor<1x4x32x16xf32>' (C2)
//       -> tensor<1x4x32x16xf32>, tensor<1x4x32xf32>
// VARY element_of_lse
//     %0:2 = flash.merge_states ins(%o, %lse4 : !o, tensor<2x1x4x32xbf16>) -> tensor<1x4x32x16xf32>, tensor<1x4x32xf32>
//     | error: expected lse_parts of element type 'f32', got 'bf16' (C3)
// VARY element
//     %0:2 = flash.merge_states ins(%o4, %lse5 : tensor<2x1x4x32x16xf64>, !lse) -> tensor<1x4x32x16xf32>, tensor<1x4x32xf32>
//     | error: expected o_parts of element type bf16, f16 or f32, got 'f64' (C3)
// VARY dynamic_depth
//     %0:2 = flash.merge_states ins(%o5, %lse5 : tensor<2x1x4x32x?xf32>, !lse) -> tensor<1x4x32x16xf32>, tensor<1x4x32xf32>
//     | error: expected a static, positive D, got o_parts of type 'tensor<2x1x4x32x?xf32>' (C4)
// VARY depth
//     %0:2 = flash.merge_states ins(%o, %lse5 : !o, !lse) -> tensor<1x4x32x8xf32>, tensor<1x4x32xf32>
//     | error: expected o_parts and o to agree on D, got 16 and 8 (C4)
// VARY parts
//     %0:2 = flash.merge_states ins(%o, %lse6 : !o, tensor<3x1x4x32xf32>) -> tensor<1x4x32x16xf32>, tensor<1x4x32xf32>
//     | error: expected o_parts and lse_parts to agree on S, got 2 and 3 (C6)
// VARY sinks
//     %0:2 = flash.merge_states ins(%o, %lse5 : !o, !lse) sinks(%sinks : tensor<2xf32>)
//     | error: expected o_parts and sinks to agree on H, got 4 and 2 (C6)
//       -> tensor<1x4x32x16xf32>, tensor<1x4x32xf32>
// VARY one_result
//     %0 = flash.merge_states ins(%o, %lse5 : !o, !lse) -> tensor<1x4x32x16xf32>
//     | error: expected two results on tensors, or two 'outs' and no result on memrefs, got 1 results and 0 outs (C10)
