// FlashAttention's table of device memory traffic for GPT-2 (N = 1024, D = 64, 16 heads, batch 64, forward and backward;
// FlashAttention, section 4.1: 40.3 GB by standard attention, 4.4 GB by FlashAttention, 9.2 times as much). Here S and P
// are in f32, which doubles both; the shape is the same: (35.46 + 54.77) / (3.71 + 7.42) = 8.1, and 8.9 for FlashAttention-2.
// docs/backward.md has the formula.
// RUN: flashc %s --print-cost --algorithm=standard | FileCheck %s --check-prefix=STANDARD
// RUN: flashc %s --print-cost --algorithm=fa1 --q-tile=64 --kv-tile=256 | FileCheck %s --check-prefix=FA1
// RUN: flashc %s --print-cost --algorithm=fa2 --q-tile=64 --kv-tile=256 | FileCheck %s --check-prefix=FA2
// RUN: flashc %s --print-cost --split-gradients --q-tile=64 --kv-tile=256 | FileCheck %s --check-prefix=SPLIT

// Two products forward, five backward, seven in the split form; each is 2 * 64 * 16 * 1024 * 1024 * 64 FLOPs, and delta
// is one multiply-add for each element of o.
// STANDARD: cost @forward {{.*}} matmul FLOPs 274877906944, {{.*}} bytes read 22162702336, bytes written 13300137984,
// STANDARD: cost @backward {{.*}} matmul FLOPs 824767938560, {{.*}} bytes read 32086425600, bytes written 22686990336,
// FA1: cost @forward {{.*}} matmul FLOPs 274877906944, {{.*}} bytes read 2189426688, bytes written 1522532352,
// FA1: cost @backward {{.*}} matmul FLOPs 825304809472, {{.*}} bytes read 5133828096, bytes written 2290089984,
// FA2: cost @forward {{.*}} matmul FLOPs 274877906944, {{.*}} bytes read 4429185024, bytes written 138412032,
// FA2: cost @backward {{.*}} matmul FLOPs 824767938560, {{.*}} bytes read 3523215360, bytes written 2017460224,
// SPLIT: cost @backward {{.*}} matmul FLOPs 1099645845504,

!t = tensor<64x16x1024x64xf16>
!l = tensor<64x16x1024xf32>

func.func @forward(%q: !t, %k: !t, %v: !t) -> (!t, !l) {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32} -> !t, !l
  return %o, %lse : !t, !l
}

func.func @backward(%q: !t, %k: !t, %v: !t, %o: !t, %lse: !l, %do: !t) -> (!t, !t, !t) {
  %g:3 = flash.attention_backward ins(%q, %k, %v, %o, %lse, %do : !t, !t, !t, !t, !l, !t) {scale = 0.125 : f32}
      -> !t, !t, !t
  return %g#0, %g#1, %g#2 : !t, !t, !t
}
