// The ops of gradients print as they are parsed, and become loops by keys, or by both.
// RUN: flashc-opt %s | flashc-opt | FileCheck %s --check-prefix=ROUND
// RUN: flashc-opt %s --flash-to-tensors --flash-online-softmax | FileCheck %s --check-prefix=STEP
// RUN: flashc-opt %s --flash-to-tensors --flash-online-softmax --flash-split-gradients | FileCheck %s --check-prefix=SPLIT
// RUN: flashc-opt %s --flash-to-tensors --flash-online-softmax --flash-split-gradients=each | FileCheck %s --check-prefix=EACH
// RUN: flashc-opt %s --flash-to-tensors --flash-online-softmax --flash-tile="q-tile=16 kv-tile=8" --canonicalize \
// RUN:   | FileCheck %s --check-prefix=TILE
// RUN: flashc-opt %s --flash-to-tensors --flash-online-softmax --flash-tile="q-tile=16 kv-tile=8" --flash-recompute-delta --canonicalize \
// RUN:   | FileCheck %s --check-prefix=FA1
// RUN: flashc-opt %s --flash-to-tensors --flash-online-softmax --flash-tile="q-tile=16 kv-tile=8" --canonicalize --cse --flash-swap-loops \
// RUN:     --flash-bound-loops --flash-parallelize | FileCheck %s --check-prefix=FA2
// RUN: flashc-opt %s --flash-to-tensors --flash-online-softmax --flash-split-gradients --flash-tile="q-tile=16 kv-tile=8" --canonicalize \
// RUN:     --cse --flash-swap-loops --flash-bound-loops --flash-parallelize | FileCheck %s --check-prefix=FA2SPLIT
// With gradient-tile the step of dk and dv has resident tiles of its own size (8 keys), and that of dq has 16 queries.
// RUN: flashc-opt %s --flash-to-tensors --flash-online-softmax --flash-split-gradients \
// RUN:     --flash-tile="q-tile=0 kv-tile=0 resident-tile=16 streamed-tile=4 gradient-tile=8" --canonicalize \
// RUN:   | FileCheck %s --check-prefix=OWNTILE
// OWNTILE-LABEL: @causal
// OWNTILE: flash.accumulate_gradients {{.*}} : tensor<1x1x4x8xf32>, tensor<1x1x8x8xf32>, {{.*}}gradients<dk, dv>
// OWNTILE: flash.accumulate_gradients {{.*}} : tensor<1x1x16x8xf32>, tensor<1x1x4x8xf32>, {{.*}}gradients<dq>

!q = tensor<1x2x64x8xf32>
!k = tensor<1x2x32x8xf32>
!v = tensor<1x2x32x16xf32>
!o = tensor<1x2x64x16xf32>
!lse = tensor<1x2x64xf32>

// ROUND-LABEL: @causal
// ROUND: flash.attention_backward ins(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : {{.*}}tensor<1x2x64xf32>)
// ROUND-SAME: {scale = 2.500000e-01 : f32} mask (
// ROUND: -> tensor<1x2x64x8xf32>, tensor<1x2x32x8xf32>, tensor<1x2x32x16xf32>

// STEP-LABEL: @causal
// STEP: %[[DELTA:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>)
// STEP: %[[G:.*]]:3 = flash.accumulate_gradients ins({{.*}}, %[[DELTA]] : {{.*}}gradients = #flash.gradients<dq, dk, dv>
// STEP: return %[[G]]#0, %[[G]]#1, %[[G]]#2

// SPLIT-LABEL: @causal
// SPLIT: %[[KEYS:.*]]:2 = flash.accumulate_gradients {{.*}}gradients = #flash.gradients<dk, dv>
// SPLIT: %[[QUERIES:.*]] = flash.accumulate_gradients {{.*}}gradients = #flash.gradients<dq>
// SPLIT: return %[[QUERIES]], %[[KEYS]]#0, %[[KEYS]]#1

// EACH-LABEL: @causal
// EACH: %[[DK:.*]] = flash.accumulate_gradients {{.*}}gradients = #flash.gradients<dk>
// EACH: %[[DV:.*]] = flash.accumulate_gradients {{.*}}gradients = #flash.gradients<dv>
// EACH: %[[DQ:.*]] = flash.accumulate_gradients {{.*}}gradients = #flash.gradients<dq>
// EACH: return %[[DQ]], %[[DK]], %[[DV]]

// Keys outside; the tiles of dk and dv go through the loop over queries, in which dq is read and written.
// TILE-LABEL: @causal
// TILE: scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c8
// TILE: scf.for {{.*}} iter_args(%[[DQ:.*]] = %{{.*}}, %[[DK:.*]] = %{{.*}}, %[[DV:.*]] = %{{.*}}) -> (tensor<1x1x64x8xf32>, tensor<1x1x8x8xf32>, tensor<1x1x8x16xf32>)
// TILE: tensor.extract_slice %[[DQ]][0, 0, %{{.*}}, 0] [1, 1, 16, 8]
// TILE: %[[T:.*]]:3 = flash.accumulate_gradients {{.*}} outs(%{{.*}}, %[[DK]], %[[DV]] :
// TILE: %[[NEXT:.*]] = tensor.insert_slice %[[T]]#0 into %[[DQ]]
// TILE: scf.yield %[[NEXT]], %[[T]]#1, %[[T]]#2

// FA1-LABEL: @causal
// FA1: scf.for
// FA1: scf.for
// FA1: scf.for
// FA1: %[[DELTA:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<1x1x16x16xf32>, tensor<1x1x16x16xf32>)
// FA1: flash.accumulate_gradients ins({{.*}}, %[[DELTA]] :

// A tile of keys from j on visits only the queries from j on, and those on the diagonal with the mask. In each iteration
// dq begins with zeros, and is added to the sums of the other iterations.
// FA2-LABEL: @causal
// FA2: scf.forall (%{{.*}}, %{{.*}}) = (0, 0) to (2, 32) step (1, 8)
// FA2-DAG: linalg.fill {{.*}} -> tensor<1x1x64x8xf32>
// FA2-DAG: linalg.fill {{.*}} -> tensor<1x1x8x8xf32>
// FA2-DAG: linalg.fill {{.*}} -> tensor<1x1x8x16xf32>
// FA2: scf.for
// FA2: flash.accumulate_gradients {{.*}} mask
// FA2: scf.for
// FA2: flash.accumulate_gradients
// FA2-NOT: mask
// FA2: %[[LAST:.*]]:3 = scf.for
// FA2: scf.forall.in_parallel
// FA2-NEXT: flash.parallel_add_slice %[[LAST]]#0 into %{{.*}}[0, %{{.*}}, 0, 0] [1, 1, 64, 8] [1, 1, 1, 1]
// FA2-NEXT: tensor.parallel_insert_slice %[[LAST]]#1
// FA2-NEXT: tensor.parallel_insert_slice %[[LAST]]#2

// FA2SPLIT-LABEL: @causal
// FA2SPLIT: scf.forall (%{{.*}}, %{{.*}}) = (0, 0) to (2, 32) step (1, 8)
// FA2SPLIT: gradients = #flash.gradients<dk, dv>
// FA2SPLIT: scf.forall (%{{.*}}, %{{.*}}) = (0, 0) to (2, 64) step (1, 16)
// FA2SPLIT: gradients = #flash.gradients<dq>
// FA2SPLIT-NOT: parallel_add_slice
func.func @causal(%q: !q, %k: !k, %v: !v, %o: !o, %lse: !lse, %do: !o, %dlse: !lse) -> (!q, !k, !v) {
  %dq, %dk, %dv = flash.attention_backward
      ins(%q, %k, %v, %o, %lse, %do, %dlse : !q, !k, !v, !o, !lse, !o, !lse) {scale = 0.25 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      } -> !q, !k, !v
  return %dq, %dk, %dv : !q, !k, !v
}

// ROUND-LABEL: @on_memrefs
// ROUND: flash.attention_backward ins({{.*}}) outs(%{{.*}}, %{{.*}}, %{{.*}} : {{.*}}) {scale = 1.000000e+00 : f32}
// ROUND-SAME: score (
// ROUND: } derivative (
func.func @on_memrefs(%q: memref<1x2x64x8xf32>, %lse: memref<1x2x64xf32>, %dq: memref<1x2x64x8xf32>,
                      %dk: memref<1x2x64x8xf32>, %dv: memref<1x2x64x8xf32>) {
  flash.attention_backward
      ins(%q, %q, %q, %q, %lse, %q : memref<1x2x64x8xf32>, memref<1x2x64x8xf32>, memref<1x2x64x8xf32>,
          memref<1x2x64x8xf32>, memref<1x2x64xf32>, memref<1x2x64x8xf32>)
      outs(%dq, %dk, %dv : memref<1x2x64x8xf32>, memref<1x2x64x8xf32>, memref<1x2x64x8xf32>) {scale = 1.0 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %t = arith.addf %s, %s : f32
        flash.yield %t : f32
      }
      derivative (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %two = arith.constant 2.0 : f32
        flash.yield %two : f32
      }
  return
}
