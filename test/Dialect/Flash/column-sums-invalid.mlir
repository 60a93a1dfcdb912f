// RUN: %vary %s | flashc-opt --verify-diagnostics --split-input-file

!q = tensor<1x4x64x16xf32>
!k = tensor<1x2x32x16xf32>
!lse = tensor<1x4x64xf32>
!c = tensor<1x4x32xf32>
!c2 = tensor<1x2x32xf32>
func.func @invalid(%q: !q, %k: memref<1x2x32x16xf32>, %lse: !lse, %q2: memref<1x2x64x16xf32>,
    %lse2: memref<1x2x64xf32, strided<[256, 128, 2]>>, %c_arg: memref<1x2x32xf32>, %k2: !k,
    %lse3: tensor<1x4x64x1xf32>, %lse4: tensor<1x4x64xbf16>, %c2: !c, %c3: !c2) {
  // BODY
  return
}

// VARY mixed
//     %c = flash.column_sums ins(%q, %k, %lse : !q, memref<1x2x32x16xf32>, !lse) {scale = 1.0 : f32} -> tensor<1x4x32xf32>
//     | error: expected only tensors or only memrefs, got q of type 'tensor<1x4x64x16xf32>' and k of type 'memref<1x2x32x16xf32>' (C1)
// VARY strided
//     flash.column_sums ins(%q2, %k, %lse2 : memref<1x2x64x16xf32>, memref<1x2x32x16xf32>, memref<1x2x64xf32, strided<[256, 128, 2]>>)
//     | error: expected lse to be contiguous in the innermost dimension
//       outs(%c_arg : memref<1x2x32xf32>) {scale = 1.0 : f32}
// VARY rank
//     %c = flash.column_sums ins(%q, %k2, %lse3 : !q, !k, tensor<1x4x64x1xf32>) {scale = 1.0 : f32} -> tensor<1x4x32xf32>
//     | error: expected lse of rank 3, got 'tensor<1x4x64x1xf32>' (C2)
// VARY element
//     %c = flash.column_sums ins(%q, %k2, %lse4 : !q, !k, tensor<1x4x64xbf16>) {scale = 1.0 : f32} -> tensor<1x4x32xf32>
//     | error: expected lse of element type 'f32', got 'bf16' (C3)
// VARY heads_of_keys
//     %c = flash.column_sums ins(%q, %k2, %lse : !q, !k, !lse) {scale = 1.0 : f32} -> tensor<1x2x32xf32>
//     | error: expected q and c to agree on Hq, got 4 and 2 (C5)
// VARY heads_of_groups
//     %c = flash.column_sums ins(%q, %k2, %lse : !q, !k, !lse) {scale = 1.0 : f32, sum_groups} -> tensor<1x4x32xf32>
//     | error: expected k and c to agree on Hk, got 2 and 4 (C5)
// VARY queries_for_keys
//     %c = flash.column_sums ins(%q, %k2, %lse : !q, !k, !lse) {scale = 1.0 : f32} -> tensor<1x4x64xf32>
//     | error: expected k and c to agree on Nk, got 32 and 64 (C6)
// VARY two_results
//     %c, %d = flash.column_sums ins(%q, %k2, %lse : !q, !k, !lse) {scale = 1.0 : f32} -> tensor<1x4x32xf32>, tensor<1x4x32xf32>
//     | error: expected one result on tensors, or one of 'outs' and no result on memrefs, got 2 results and 0 outs (C10)
// VARY step_types
//     %c0 = arith.constant 0 : index
//     %0 = flash.accumulate_column_sums ins(%q, %k2, %lse : !q, !k, !lse) outs(%c2 : !c) at(%c0, %c0, %c0, %c0)
//     | error: failed to verify that all of {c, c_out} have same type
//       {scale = 1.0 : f32} -> tensor<1x4x?xf32>
// VARY step_heads
//     %c0 = arith.constant 0 : index
//     %0 = flash.accumulate_column_sums ins(%q, %k2, %lse : !q, !k, !lse) outs(%c3 : !c2) at(%c0, %c0, %c0, %c0)
//     | error: expected q and c to agree on Hq, got 4 and 2 (C5)
//       {scale = 1.0 : f32} -> !c2
