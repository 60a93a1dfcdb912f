// RUN: flashc-opt %s --verify-diagnostics --split-input-file

!q = tensor<1x4x64x16xf32>
!k = tensor<1x2x32x16xf32>
!lse = tensor<1x4x64xf32>

func.func @mixed(%q: !q, %k: memref<1x2x32x16xf32>, %lse: !lse) {
  // expected-error @+1 {{expected only tensors or only memrefs, got q of type 'tensor<1x4x64x16xf32>' and k of type 'memref<1x2x32x16xf32>' (C1)}}
  %c = flash.column_sums ins(%q, %k, %lse : !q, memref<1x2x32x16xf32>, !lse) {scale = 1.0 : f32} -> tensor<1x4x32xf32>
  return
}

// -----

func.func @strided(%q: memref<1x2x64x16xf32>, %k: memref<1x2x32x16xf32>, %lse: memref<1x2x64xf32, strided<[256, 128, 2]>>,
                   %c: memref<1x2x32xf32>) {
  // expected-error @+1 {{expected lse to be contiguous in the innermost dimension}}
  flash.column_sums ins(%q, %k, %lse : memref<1x2x64x16xf32>, memref<1x2x32x16xf32>, memref<1x2x64xf32, strided<[256, 128, 2]>>)
    outs(%c : memref<1x2x32xf32>) {scale = 1.0 : f32}
  return
}

// -----

!q = tensor<1x4x64x16xf32>
!k = tensor<1x2x32x16xf32>

func.func @rank(%q: !q, %k: !k, %lse: tensor<1x4x64x1xf32>) {
  // expected-error @+1 {{expected lse of rank 3, got 'tensor<1x4x64x1xf32>' (C2)}}
  %c = flash.column_sums ins(%q, %k, %lse : !q, !k, tensor<1x4x64x1xf32>) {scale = 1.0 : f32} -> tensor<1x4x32xf32>
  return
}

// -----

!q = tensor<1x4x64x16xf32>
!k = tensor<1x2x32x16xf32>

func.func @element(%q: !q, %k: !k, %lse: tensor<1x4x64xbf16>) {
  // expected-error @+1 {{expected lse of element type 'f32', got 'bf16' (C3)}}
  %c = flash.column_sums ins(%q, %k, %lse : !q, !k, tensor<1x4x64xbf16>) {scale = 1.0 : f32} -> tensor<1x4x32xf32>
  return
}

// -----

!q = tensor<1x4x64x16xf32>
!k = tensor<1x2x32x16xf32>
!lse = tensor<1x4x64xf32>

func.func @heads_of_keys(%q: !q, %k: !k, %lse: !lse) {
  // expected-error @+1 {{expected q and c to agree on Hq, got 4 and 2 (C5)}}
  %c = flash.column_sums ins(%q, %k, %lse : !q, !k, !lse) {scale = 1.0 : f32} -> tensor<1x2x32xf32>
  return
}

// -----

!q = tensor<1x4x64x16xf32>
!k = tensor<1x2x32x16xf32>
!lse = tensor<1x4x64xf32>

func.func @heads_of_groups(%q: !q, %k: !k, %lse: !lse) {
  // expected-error @+1 {{expected k and c to agree on Hk, got 2 and 4 (C5)}}
  %c = flash.column_sums ins(%q, %k, %lse : !q, !k, !lse) {scale = 1.0 : f32, sum_groups} -> tensor<1x4x32xf32>
  return
}

// -----

!q = tensor<1x4x64x16xf32>
!k = tensor<1x2x32x16xf32>
!lse = tensor<1x4x64xf32>

func.func @queries_for_keys(%q: !q, %k: !k, %lse: !lse) {
  // expected-error @+1 {{expected k and c to agree on Nk, got 32 and 64 (C6)}}
  %c = flash.column_sums ins(%q, %k, %lse : !q, !k, !lse) {scale = 1.0 : f32} -> tensor<1x4x64xf32>
  return
}

// -----

!q = tensor<1x4x64x16xf32>
!k = tensor<1x2x32x16xf32>
!lse = tensor<1x4x64xf32>

func.func @two_results(%q: !q, %k: !k, %lse: !lse) {
  // expected-error @+1 {{expected one result on tensors, or one of 'outs' and no result on memrefs, got 2 results and 0 outs (C10)}}
  %c, %d = flash.column_sums ins(%q, %k, %lse : !q, !k, !lse) {scale = 1.0 : f32} -> tensor<1x4x32xf32>, tensor<1x4x32xf32>
  return
}

// -----

!q = tensor<1x4x64x16xf32>
!k = tensor<1x2x32x16xf32>
!lse = tensor<1x4x64xf32>
!c = tensor<1x4x32xf32>

func.func @step_types(%q: !q, %k: !k, %lse: !lse, %c: !c) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{failed to verify that all of {c, c_out} have same type}}
  %0 = flash.accumulate_column_sums ins(%q, %k, %lse : !q, !k, !lse) outs(%c : !c) at(%c0, %c0, %c0, %c0)
    {scale = 1.0 : f32} -> tensor<1x4x?xf32>
  return
}

// -----

!q = tensor<1x4x64x16xf32>
!k = tensor<1x2x32x16xf32>
!lse = tensor<1x4x64xf32>
!c = tensor<1x2x32xf32>

func.func @step_heads(%q: !q, %k: !k, %lse: !lse, %c: !c) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected q and c to agree on Hq, got 4 and 2 (C5)}}
  %0 = flash.accumulate_column_sums ins(%q, %k, %lse : !q, !k, !lse) outs(%c : !c) at(%c0, %c0, %c0, %c0)
    {scale = 1.0 : f32} -> !c
  return
}
