// RUN: %vary %s | flashc-opt --split-input-file --verify-diagnostics

// The constraints of flash.attention, by the number that FlashOps.td gives them. What one op checks in a way of its own
// follows below.

!t = tensor<1x2x8x16xf32>
!r = tensor<1x2x8xf32>
!m = memref<1x2x8x16xf32>
!v = memref<1x2x8x16xf32, strided<[256, 128, 1, 8]>>
!t2 = tensor<1x2x8x16xf64>
!t3 = tensor<1x2x8x16xbf16>
!t4 = tensor<1x2x8x?xbf16>
!v2 = tensor<1x2x8x20xbf16>
!t5 = tensor<1x2x8x257xf32>
!t6 = tensor<1x?x8x16xf32>
!q = tensor<1x8x8x16xf32>
!k = tensor<1x?x8x16xf32>
!k2 = tensor<1x2x8x16xf32>
!t7 = tensor<1x0x8x16xf32>
!k3 = tensor<1x3x8x16xf32>
!k4 = tensor<1x4x8x16xf32>
!v3 = tensor<1x2x8x16xf32>
func.func @invalid(%q: !t, %k: memref<1x2x8x16xf32>, %q2: !m, %v: !v, %lse: memref<1x2x8xf32>,
    %k2: tensor<2x8x16xf32>, %q3: !t2, %q4: !t3, %v2: tensor<1x2x8x16xf16>, %q5: !t4, %v3: !v2, %q6: !t5,
    %k3: tensor<1x2x8x8xf32>, %q7: !t6, %q8: !q, %k4: !k, %k5: !k2, %q9: !t7, %k6: !k3, %k7: !k4, %v4: !v3,
    %k8: tensor<2x2x8x16xf32>, %v5: tensor<1x2x9x16xf32>, %s_arg: f32, %log: memref<f32>, %lse2: !r, %keep: i1) {
  // BODY
  return
}

// VARY c1_tensors_and_memrefs
//     flash.attention ins(%q, %k, %q : !t, memref<1x2x8x16xf32>, !t) {scale = 1.0 : f32} -> !t, !r
//     | error: expected only tensors or only memrefs, got q of type 'tensor<1x2x8x16xf32>' and k of type 'memref<1x2x8x16xf32>' (C1)
// VARY c1_innermost_not_contiguous
//     flash.attention ins(%q2, %q2, %v : !m, !m, !v) outs(%q2, %lse : !m, memref<1x2x8xf32>) {scale = 1.0 : f32}
//     | error: expected v to be contiguous in the innermost dimension, got 'memref<1x2x8x16xf32, strided<[256, 128, 1, 8]>>' (C1)
// VARY c2_rank_of_k
//     flash.attention ins(%q, %k2, %q : !t, tensor<2x8x16xf32>, !t) {scale = 1.0 : f32} -> !t, tensor<1x2x8xf32>
//     | error: expected k of rank 4, got 'tensor<2x8x16xf32>' (C2)
// VARY c2_rank_of_lse
//     flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32} -> !t, tensor<1x2x8x1xf32>
//     | error: expected lse of rank 3, got 'tensor<1x2x8x1xf32>' (C2)
// VARY c3_element_type
//     flash.attention ins(%q3, %q3, %q3 : !t2, !t2, !t2) {scale = 1.0 : f32} -> tensor<1x2x8x16xf32>, tensor<1x2x8xf32>
//     | error: expected element type bf16, f16 or f32, got 'f64' (C3)
// VARY c3_mixed_inputs
//     flash.attention ins(%q4, %q4, %v2 : !t3, !t3, tensor<1x2x8x16xf16>) {scale = 1.0 : f32} -> !t3, tensor<1x2x8xf32>
//     | error: expected v of element type 'bf16', got 'f16' (C3)
// VARY c3_output
//     flash.attention ins(%q4, %q4, %q4 : !t3, !t3, !t3) {scale = 1.0 : f32} -> tensor<1x2x8x16xf16>, tensor<1x2x8xf32>
//     | error: expected o of element type 'bf16' or f32, got 'f16' (C3)
// VARY c3_lse
//     flash.attention ins(%q4, %q4, %q4 : !t3, !t3, !t3) {scale = 1.0 : f32} -> !t3, tensor<1x2x8xbf16>
//     | error: expected lse of element type 'f32', got 'bf16' (C3)
// VARY c4_dynamic_head_dim
//     flash.attention ins(%q5, %q5, %q5 : !t4, !t4, !t4) {scale = 1.0 : f32} -> !t4, tensor<1x2x8xf32>
//     | error: expected a static D, got q of type 'tensor<1x2x8x?xbf16>' (C4)
// VARY c4_multiple_of_eight
//     flash.attention ins(%q4, %q4, %v3 : !t3, !t3, !v2) {scale = 1.0 : f32} -> !v2, tensor<1x2x8xf32>
//     | error: expected Dv to be a multiple of 8 from 8 to 256, got 20 (C4)
// VARY c4_head_dim_of_f32
//     flash.attention ins(%q6, %q6, %q6 : !t5, !t5, !t5) {scale = 1.0 : f32} -> !t5, tensor<1x2x8xf32>
//     | error: expected D from 1 to 256, got 257 (C4)
// VARY c4_q_and_k_disagree
//     flash.attention ins(%q, %k3, %q : !t, tensor<1x2x8x8xf32>, !t) {scale = 1.0 : f32} -> !t, tensor<1x2x8xf32>
//     | error: expected q and k to agree on D, got 16 and 8 (C4)
// VARY c4_v_and_o_disagree
//     flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32} -> tensor<1x2x8x8xf32>, tensor<1x2x8xf32>
//     | error: expected v and o to agree on Dv, got 16 and 8 (C4)
// VARY c5_dynamic_heads_without_group
//     flash.attention ins(%q7, %q7, %q7 : !t6, !t6, !t6) {scale = 1.0 : f32} -> !t6, tensor<1x?x8xf32>
//     | error: expected group_size together with a dynamic number of heads, got 'tensor<1x?x8x16xf32>' and 'tensor<1x?x8x16xf32>' (C5)
// VARY c5_dynamic_key_heads_without_group
//     flash.attention ins(%q8, %k4, %k4 : !q, !k, !k) {scale = 1.0 : f32} -> !q, tensor<1x8x8xf32>
//     | error: expected group_size together with a dynamic number of heads, got 'tensor<1x8x8x16xf32>' and 'tensor<1x?x8x16xf32>' (C5)
// VARY c5_group_does_not_divide
//     flash.attention ins(%q8, %k4, %k4 : !q, !k, !k) {group_size = 3, scale = 1.0 : f32} -> !q, tensor<1x8x8xf32>
//     | error: expected the number of query heads to be a multiple of group_size, got 8 and 3 (C5)
// VARY c5_group_is_not_positive
//     flash.attention ins(%q7, %q7, %q7 : !t6, !t6, !t6) {group_size = 0, scale = 1.0 : f32} -> !t6, tensor<1x?x8xf32>
//     | error: expected group_size to be positive, got 0 (C5)
// VARY c5_group_disagrees
//     flash.attention ins(%q8, %k5, %k5 : !q, !k2, !k2) {group_size = 2, scale = 1.0 : f32} -> !q, tensor<1x8x8xf32>
//     | error: expected group_size to be 4, the number of query heads (8) by that of key heads (2), got 2 (C5)
// VARY c5_no_heads
//     flash.attention ins(%q9, %q9, %q9 : !t7, !t7, !t7) {scale = 1.0 : f32} -> !t7, tensor<1x0x8xf32>
//     | error: expected positive head counts, got 'tensor<1x0x8x16xf32>' and 'tensor<1x0x8x16xf32>' (C5)
// VARY c5_group_is_no_i64
//     flash.attention ins(%q7, %q7, %q7 : !t6, !t6, !t6) {group_size = 2 : i32, scale = 1.0 : f32} -> !t6, tensor<1x?x8xf32>
//     | error: attribute 'group_size' failed to satisfy constraint: 64-bit signless integer attribute
// VARY c5_uneven_groups
//     flash.attention ins(%q8, %k6, %k6 : !q, !k3, !k3) {scale = 1.0 : f32} -> !q, tensor<1x8x8xf32>
//     | error: expected the number of query heads to be a multiple of the number of key heads, got 8 and 3 (C5)
// VARY c5_k_and_v_disagree
//     flash.attention ins(%q8, %k7, %v4 : !q, !k4, !v3) {scale = 1.0 : f32} -> !q, tensor<1x8x8xf32>
//     | error: expected k and v to agree on Hk, got 4 and 2 (C5)
// VARY c5_q_and_lse_disagree
//     flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32} -> !t, tensor<1x1x8xf32>
//     | error: expected q and lse to agree on Hq, got 2 and 1 (C5)
// VARY c6_batch
//     flash.attention ins(%q, %k8, %k8 : !t, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>) {scale = 1.0 : f32} -> !t, tensor<1x2x8xf32>
//     | error: expected q and k to agree on B, got 1 and 2 (C6)
// VARY c6_queries
//     flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32} -> !t, tensor<1x2x9xf32>
//     | error: expected q and lse to agree on Nq, got 8 and 9 (C6)
// VARY c6_keys
//     flash.attention ins(%q, %q, %v5 : !t, !t, tensor<1x2x9x16xf32>) {scale = 1.0 : f32} -> !t, tensor<1x2x8xf32>
//     | error: expected k and v to agree on Nk, got 8 and 9 (C6)
// VARY c7_infinite_scale
//     flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 0x7F800000 : f32} -> !t, tensor<1x2x8xf32>
//     | error: expected a finite scale, got INF (C7)
// VARY c8_score_arguments
//     flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32}
//     | error: expected the score region to take ('f32', 'index', 'index', 'index', 'index'), got ('f32', 'index', 'index', 'index') (C8)
//       score (%s: f32, %b: index, %h: index, %i: index) {
//         flash.yield %s : f32
//       } -> !t, tensor<1x2x8xf32>
// VARY c8_mask_yields_a_score
//     flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32}
//     | error: expected the mask region to yield 'i1', got 'f32' (C8)
//       mask (%b: index, %h: index, %i: index, %j: index) {
//         flash.yield %s_arg : f32
//       } -> !t, tensor<1x2x8xf32>
// VARY c9_score_writes
//     flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32}
//     | error: expected the score region to be free of side effects (C9)
//       score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
//         memref.store %s, %log[] : memref<f32> | note: 'memref.store' has some
//         flash.yield %s : f32
//       } -> !t, tensor<1x2x8xf32>
// VARY c10_tensors_with_outs
//     flash.attention ins(%q, %q, %q : !t, !t, !t) outs(%q, %lse2 : !t, !r) {scale = 1.0 : f32} -> !t, !r
//     | error: expected two results on tensors, or two 'outs' and no result on memrefs, got 2 results and 2 outs (C10)
// VARY c10_memrefs_without_outs
//     flash.attention ins(%q2, %q2, %q2 : !m, !m, !m) {scale = 1.0 : f32} | error: got 0 results and 0 outs (C10)
// VARY two_operands
//     flash.attention ins(%q, %q : !t, !t) {scale = 1.0 : f32} -> !t, tensor<1x2x8xf32> | error: expected ','
// VARY c8_blocks
//     flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32}
//     | error: expected the mask region to be one block, got 2 (C8)
//       mask (%b: index, %h: index, %i: index, %j: index) {
//         cf.br ^next
//       ^next:
//         flash.yield %keep : i1
//       } -> !t, tensor<1x2x8xf32>
// VARY c8_mask_is_empty
//     flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32}
//     | error: expected the mask region to yield 'i1', got 'none' (C8)
//       mask (%b: index, %h: index, %i: index, %j: index) {
//       } -> !t, tensor<1x2x8xf32>

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
