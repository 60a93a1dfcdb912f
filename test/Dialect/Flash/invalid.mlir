// RUN: flashc-opt %s --split-input-file --verify-diagnostics

// The constraints of flash.attention, by the number that FlashOps.td gives them. What one op checks in a way of its own
// follows below.

!t = tensor<1x2x8x16xf32>
!r = tensor<1x2x8xf32>
func.func @c1_tensors_and_memrefs(%q: !t, %k: memref<1x2x8x16xf32>) {
  // expected-error @+1 {{expected only tensors or only memrefs, got q of type 'tensor<1x2x8x16xf32>' and k of type 'memref<1x2x8x16xf32>' (C1)}}
  flash.attention ins(%q, %k, %q : !t, memref<1x2x8x16xf32>, !t) {scale = 1.0 : f32} -> !t, !r
  return
}

// -----

!m = memref<1x2x8x16xf32>
!v = memref<1x2x8x16xf32, strided<[256, 128, 1, 8]>>
func.func @c1_innermost_not_contiguous(%q: !m, %v: !v, %lse: memref<1x2x8xf32>) {
  // expected-error @+1 {{expected v to be contiguous in the innermost dimension, got 'memref<1x2x8x16xf32, strided<[256, 128, 1, 8]>>' (C1)}}
  flash.attention ins(%q, %q, %v : !m, !m, !v) outs(%q, %lse : !m, memref<1x2x8xf32>) {scale = 1.0 : f32}
  return
}

// -----

!t = tensor<1x2x8x16xf32>
func.func @c2_rank_of_k(%q: !t, %k: tensor<2x8x16xf32>) {
  // expected-error @+1 {{expected k of rank 4, got 'tensor<2x8x16xf32>' (C2)}}
  flash.attention ins(%q, %k, %q : !t, tensor<2x8x16xf32>, !t) {scale = 1.0 : f32} -> !t, tensor<1x2x8xf32>
  return
}

// -----

!t = tensor<1x2x8x16xf32>
func.func @c2_rank_of_lse(%q: !t) {
  // expected-error @+1 {{expected lse of rank 3, got 'tensor<1x2x8x1xf32>' (C2)}}
  flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32} -> !t, tensor<1x2x8x1xf32>
  return
}

// -----

!t = tensor<1x2x8x16xf64>
func.func @c3_element_type(%q: !t) {
  // expected-error @+1 {{expected element type bf16, f16 or f32, got 'f64' (C3)}}
  flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32} -> tensor<1x2x8x16xf32>, tensor<1x2x8xf32>
  return
}

// -----

!t = tensor<1x2x8x16xbf16>
func.func @c3_mixed_inputs(%q: !t, %v: tensor<1x2x8x16xf16>) {
  // expected-error @+1 {{expected v of element type 'bf16', got 'f16' (C3)}}
  flash.attention ins(%q, %q, %v : !t, !t, tensor<1x2x8x16xf16>) {scale = 1.0 : f32} -> !t, tensor<1x2x8xf32>
  return
}

// -----

!t = tensor<1x2x8x16xbf16>
func.func @c3_output(%q: !t) {
  // expected-error @+1 {{expected o of element type 'bf16' or f32, got 'f16' (C3)}}
  flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32} -> tensor<1x2x8x16xf16>, tensor<1x2x8xf32>
  return
}

// -----

!t = tensor<1x2x8x16xbf16>
func.func @c3_lse(%q: !t) {
  // expected-error @+1 {{expected lse of element type 'f32', got 'bf16' (C3)}}
  flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32} -> !t, tensor<1x2x8xbf16>
  return
}

// -----

!t = tensor<1x2x8x?xbf16>
func.func @c4_dynamic_head_dim(%q: !t) {
  // expected-error @+1 {{expected a static D, got q of type 'tensor<1x2x8x?xbf16>' (C4)}}
  flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32} -> !t, tensor<1x2x8xf32>
  return
}

// -----

!t = tensor<1x2x8x16xbf16>
!v = tensor<1x2x8x20xbf16>
func.func @c4_multiple_of_eight(%q: !t, %v: !v) {
  // expected-error @+1 {{expected Dv to be a multiple of 8 from 8 to 256, got 20 (C4)}}
  flash.attention ins(%q, %q, %v : !t, !t, !v) {scale = 1.0 : f32} -> !v, tensor<1x2x8xf32>
  return
}

// -----

!t = tensor<1x2x8x257xf32>
func.func @c4_head_dim_of_f32(%q: !t) {
  // expected-error @+1 {{expected D from 1 to 256, got 257 (C4)}}
  flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32} -> !t, tensor<1x2x8xf32>
  return
}

// -----

!t = tensor<1x2x8x16xf32>
func.func @c4_q_and_k_disagree(%q: !t, %k: tensor<1x2x8x8xf32>) {
  // expected-error @+1 {{expected q and k to agree on D, got 16 and 8 (C4)}}
  flash.attention ins(%q, %k, %q : !t, tensor<1x2x8x8xf32>, !t) {scale = 1.0 : f32} -> !t, tensor<1x2x8xf32>
  return
}

// -----

!t = tensor<1x2x8x16xf32>
func.func @c4_v_and_o_disagree(%q: !t) {
  // expected-error @+1 {{expected v and o to agree on Dv, got 16 and 8 (C4)}}
  flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32} -> tensor<1x2x8x8xf32>, tensor<1x2x8xf32>
  return
}

// -----

!t = tensor<1x?x8x16xf32>
func.func @c5_dynamic_heads_without_group(%q: !t) {
  // expected-error @+1 {{expected group_size together with a dynamic number of heads, got 'tensor<1x?x8x16xf32>' and 'tensor<1x?x8x16xf32>' (C5)}}
  flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32} -> !t, tensor<1x?x8xf32>
  return
}

// -----

!q = tensor<1x8x8x16xf32>
!k = tensor<1x?x8x16xf32>
func.func @c5_dynamic_key_heads_without_group(%q: !q, %k: !k) {
  // expected-error @+1 {{expected group_size together with a dynamic number of heads, got 'tensor<1x8x8x16xf32>' and 'tensor<1x?x8x16xf32>' (C5)}}
  flash.attention ins(%q, %k, %k : !q, !k, !k) {scale = 1.0 : f32} -> !q, tensor<1x8x8xf32>
  return
}

// -----

!q = tensor<1x8x8x16xf32>
!k = tensor<1x?x8x16xf32>
func.func @c5_group_does_not_divide(%q: !q, %k: !k) {
  // expected-error @+1 {{expected the number of query heads to be a multiple of group_size, got 8 and 3 (C5)}}
  flash.attention ins(%q, %k, %k : !q, !k, !k) {group_size = 3, scale = 1.0 : f32} -> !q, tensor<1x8x8xf32>
  return
}

// -----

!t = tensor<1x?x8x16xf32>
func.func @c5_group_is_not_positive(%q: !t) {
  // expected-error @+1 {{expected group_size to be positive, got 0 (C5)}}
  flash.attention ins(%q, %q, %q : !t, !t, !t) {group_size = 0, scale = 1.0 : f32} -> !t, tensor<1x?x8xf32>
  return
}

// -----

!q = tensor<1x8x8x16xf32>
!k = tensor<1x2x8x16xf32>
func.func @c5_group_disagrees(%q: !q, %k: !k) {
  // expected-error @+1 {{expected group_size to be 4, the number of query heads (8) by that of key heads (2), got 2 (C5)}}
  flash.attention ins(%q, %k, %k : !q, !k, !k) {group_size = 2, scale = 1.0 : f32} -> !q, tensor<1x8x8xf32>
  return
}

// -----

!t = tensor<1x0x8x16xf32>
func.func @c5_no_heads(%q: !t) {
  // expected-error @+1 {{expected positive head counts, got 'tensor<1x0x8x16xf32>' and 'tensor<1x0x8x16xf32>' (C5)}}
  flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32} -> !t, tensor<1x0x8xf32>
  return
}

// -----

!t = tensor<1x?x8x16xf32>
func.func @c5_group_is_no_i64(%q: !t) {
  // expected-error @+1 {{attribute 'group_size' failed to satisfy constraint: 64-bit signless integer attribute}}
  flash.attention ins(%q, %q, %q : !t, !t, !t) {group_size = 2 : i32, scale = 1.0 : f32} -> !t, tensor<1x?x8xf32>
  return
}

// -----

!q = tensor<1x8x8x16xf32>
!k = tensor<1x3x8x16xf32>
func.func @c5_uneven_groups(%q: !q, %k: !k) {
  // expected-error @+1 {{expected the number of query heads to be a multiple of the number of key heads, got 8 and 3 (C5)}}
  flash.attention ins(%q, %k, %k : !q, !k, !k) {scale = 1.0 : f32} -> !q, tensor<1x8x8xf32>
  return
}

// -----

!q = tensor<1x8x8x16xf32>
!k = tensor<1x4x8x16xf32>
!v = tensor<1x2x8x16xf32>
func.func @c5_k_and_v_disagree(%q: !q, %k: !k, %v: !v) {
  // expected-error @+1 {{expected k and v to agree on Hk, got 4 and 2 (C5)}}
  flash.attention ins(%q, %k, %v : !q, !k, !v) {scale = 1.0 : f32} -> !q, tensor<1x8x8xf32>
  return
}

// -----

!t = tensor<1x2x8x16xf32>
func.func @c5_q_and_lse_disagree(%q: !t) {
  // expected-error @+1 {{expected q and lse to agree on Hq, got 2 and 1 (C5)}}
  flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32} -> !t, tensor<1x1x8xf32>
  return
}

// -----

!t = tensor<1x2x8x16xf32>
func.func @c6_batch(%q: !t, %k: tensor<2x2x8x16xf32>) {
  // expected-error @+1 {{expected q and k to agree on B, got 1 and 2 (C6)}}
  flash.attention ins(%q, %k, %k : !t, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>) {scale = 1.0 : f32} -> !t, tensor<1x2x8xf32>
  return
}

// -----

!t = tensor<1x2x8x16xf32>
func.func @c6_queries(%q: !t) {
  // expected-error @+1 {{expected q and lse to agree on Nq, got 8 and 9 (C6)}}
  flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32} -> !t, tensor<1x2x9xf32>
  return
}

// -----

!t = tensor<1x2x8x16xf32>
func.func @c6_keys(%q: !t, %v: tensor<1x2x9x16xf32>) {
  // expected-error @+1 {{expected k and v to agree on Nk, got 8 and 9 (C6)}}
  flash.attention ins(%q, %q, %v : !t, !t, tensor<1x2x9x16xf32>) {scale = 1.0 : f32} -> !t, tensor<1x2x8xf32>
  return
}

// -----

!t = tensor<1x2x8x16xf32>
func.func @c7_infinite_scale(%q: !t) {
  // expected-error @+1 {{expected a finite scale, got INF (C7)}}
  flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 0x7F800000 : f32} -> !t, tensor<1x2x8xf32>
  return
}

// -----

!t = tensor<1x2x8x16xf32>
func.func @c8_score_arguments(%q: !t) {
  // expected-error @+1 {{expected the score region to take ('f32', 'index', 'index', 'index', 'index'), got ('f32', 'index', 'index', 'index') (C8)}}
  flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32}
    score (%s: f32, %b: index, %h: index, %i: index) {
      flash.yield %s : f32
    } -> !t, tensor<1x2x8xf32>
  return
}

// -----

!t = tensor<1x2x8x16xf32>
func.func @c8_mask_yields_a_score(%q: !t, %s: f32) {
  // expected-error @+1 {{expected the mask region to yield 'i1', got 'f32' (C8)}}
  flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      flash.yield %s : f32
    } -> !t, tensor<1x2x8xf32>
  return
}

// -----

!t = tensor<1x2x8x16xf32>
func.func @c9_score_writes(%q: !t, %log: memref<f32>) {
  // expected-error @+1 {{expected the score region to be free of side effects (C9)}}
  flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      // expected-note @+1 {{'memref.store' has some}}
      memref.store %s, %log[] : memref<f32>
      flash.yield %s : f32
    } -> !t, tensor<1x2x8xf32>
  return
}

// -----

!t = tensor<1x2x8x16xf32>
func.func private @seen(index) -> i1
func.func @c9_mask_calls(%q: !t) {
  // expected-error @+1 {{expected the mask region to be free of side effects (C9)}}
  flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      // expected-note @+1 {{'func.call' has some}}
      %keep = func.call @seen(%j) : (index) -> i1
      flash.yield %keep : i1
    } -> !t, tensor<1x2x8xf32>
  return
}

// -----

!t = tensor<1x2x8x16xf32>
!r = tensor<1x2x8xf32>
func.func @c10_tensors_with_outs(%q: !t, %lse: !r) {
  // expected-error @+1 {{expected two results on tensors, or two 'outs' and no result on memrefs, got 2 results and 2 outs (C10)}}
  flash.attention ins(%q, %q, %q : !t, !t, !t) outs(%q, %lse : !t, !r) {scale = 1.0 : f32} -> !t, !r
  return
}

// -----

!m = memref<1x2x8x16xf32>
func.func @c10_memrefs_without_outs(%q: !m) {
  // expected-error @+1 {{got 0 results and 0 outs (C10)}}
  flash.attention ins(%q, %q, %q : !m, !m, !m) {scale = 1.0 : f32}
  return
}

// -----

!t = tensor<1x2x8x16xf32>
func.func @two_operands(%q: !t) {
  // expected-error @+1 {{expected ','}}
  flash.attention ins(%q, %q : !t, !t) {scale = 1.0 : f32} -> !t, tensor<1x2x8xf32>
  return
}

// -----

!t = tensor<1x2x8x16xf32>
func.func @c8_blocks(%q: !t, %keep: i1) {
  // expected-error @+1 {{expected the mask region to be one block, got 2 (C8)}}
  flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      cf.br ^next
    ^next:
      flash.yield %keep : i1
    } -> !t, tensor<1x2x8xf32>
  return
}

// -----

!t = tensor<1x2x8x16xf32>
func.func @c8_mask_is_empty(%q: !t) {
  // expected-error @+1 {{expected the mask region to yield 'i1', got 'none' (C8)}}
  flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
    } -> !t, tensor<1x2x8xf32>
  return
}
