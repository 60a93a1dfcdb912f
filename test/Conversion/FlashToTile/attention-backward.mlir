// The gradients of attention in the split form: two nests, and so two kernels of one launch. Before them one computes
// delta; after them one for each of dk and dv adds up the heads of groups.
// RUN: flashc-opt %s --flash-to-tensors --flash-differentiate-scores --flash-online-softmax --flash-split-gradients \
// RUN:   --flash-tile="q-tile=0 kv-tile=0 resident-tile=128 streamed-tile=64" --canonicalize --cse --flash-swap-loops \
// RUN:   --flash-bound-loops --flash-parallelize --canonicalize --cse \
// RUN:   --convert-flash-to-tile="schedule=split-gradients=queries,kv-tile=64" --canonicalize --cse \
// RUN:   | FileCheck %s
// With early-statistics a step reads the shifts before it waits for X, and the deltas before it waits for dP.
// RUN: flashc-opt %s --flash-to-tensors --flash-differentiate-scores --flash-online-softmax --flash-split-gradients \
// RUN:   --flash-tile="q-tile=0 kv-tile=0 resident-tile=128 streamed-tile=64" --canonicalize --cse --flash-swap-loops \
// RUN:   --flash-bound-loops --flash-parallelize --canonicalize --cse \
// RUN:   --convert-flash-to-tile="schedule=split-gradients=queries,kv-tile=64,early-statistics=true" --canonicalize \
// RUN:   | FileCheck %s --check-prefix=EARLY

// EARLY:       %[[S:.*]] = tile.mma_async %{{.*}}, %{{.*}} transpose_b
// EARLY-NEXT:  %[[SHIFTS:.*]] = tile.read_columns %[[NUMBERS:.*]][0]
// EARLY-NEXT:  tile.mma_wait %[[S]] :
// EARLY:       tile.map {{.*}} rows(%[[SHIFTS]] : tensor<64xf32, #tile.col>)
// EARLY:       %[[DP:.*]] = tile.mma_async %{{.*}}, %{{.*}} transpose_b
// EARLY:       %[[DELTAS:.*]] = tile.read_columns %[[NUMBERS]][1]
// EARLY-NEXT:  tile.mma_wait %[[DP]] {pending = 1 : i64}
// EARLY-NOT:   tile.read_columns
// EARLY:       tile.map {{.*}} rows(%[[DELTAS]]

// CHECK:       gpu.func @grads(
// CHECK-SAME:    after = [{{.*}}kernel = "grads_dq"{{.*}}kernel = "grads_dk_groups"{{.*}}kernel = "grads_dv_groups"
// CHECK-SAME:    before = [{{.*}}kernel = "grads_delta"
// CHECK-SAME:    kernel = "grads"
// CHECK:         %[[QRING:.*]] = tile.alloc_ring : <2, 64, 64, bf16>
// CHECK:         %[[KRING:.*]] = tile.alloc_ring : <1, 64, 64, bf16, private true>
// CHECK:         %[[VRING:.*]] = tile.alloc_ring : <1, 64, 64, bf16, private true>
// CHECK:         %[[DORING:.*]] = tile.alloc_ring : <2, 64, 64, bf16>
// What belongs to the queries of a tile: shifts of exponents and deltas.
// CHECK:         %[[STATISTICS:.*]] = tile.alloc_ring : <2, 2, 64, f32>
// CHECK:         tile.program 2
// CHECK:           %[[K:.*]] = tile.load {{.*}} into %[[KRING]]
// CHECK:           %[[V:.*]] = tile.load {{.*}} into %[[VRING]]
// CHECK:           %[[SUMS:.*]]:2 = scf.for {{.*}} iter_args(%[[DK:.*]] = %{{.*}}, %[[DV:.*]] = %{{.*}})
// CHECK:             %[[Q:.*]] = tile.load {{.*}} into %[[QRING]]
// CHECK:             %[[DO:.*]] = tile.load {{.*}} into %[[DORING]]
// CHECK:             %[[NUMBERS:.*]] = tile.load {{.*}} into %[[STATISTICS]]
// CHECK:             %[[S:.*]] = tile.mma_async %[[K]], %[[Q]] transpose_b
// CHECK:             %[[X:.*]] = tile.mma_wait %[[S]] :
// The score's derivative, of the same products; it is held rounded.
// CHECK:             %[[DERIVATIVE:.*]] = tile.map %[[X]]
// CHECK:               %[[T:.*]] = math.tanh
// CHECK:               arith.mulf %[[T]], %[[T]]
// CHECK:             %[[SLOPES:.*]] = tile.to_operand_a %[[DERIVATIVE]]
// CHECK:             %[[SHIFTS:.*]] = tile.read_columns %[[NUMBERS]][0]
// CHECK:             tile.map %[[X]]
// CHECK:               math.tanh
// CHECK:             tile.map {{.*}} rows(%[[SHIFTS]] : tensor<64xf32, #tile.col>)
// CHECK:               math.exp2
// dP begins behind the exponentials, and dv runs beside what follows.
// CHECK:             %[[DP:.*]] = tile.mma_async %[[V]], %[[DO]] transpose_b
// CHECK:             %[[PA:.*]] = tile.to_operand_a
// CHECK:             %[[DVTOKEN:.*]] = tile.mma_async %[[PA]], %[[DO]] into %[[DV]]
// CHECK:             %[[DPTILE:.*]] = tile.mma_wait %[[DP]] {pending = 1 : i64}
// CHECK:             %[[P:.*]] = tile.from_operand_a %[[PA]]
// CHECK:             %[[DELTAS:.*]] = tile.read_columns %[[NUMBERS]][1]
// CHECK:             tile.map %[[DPTILE]] rows(%[[DELTAS]]
// CHECK:               arith.subf
// CHECK:             tile.from_operand_a %[[SLOPES]]
// CHECK:             arith.cmpf oeq, %[[P]]
// CHECK:             %[[DXA:.*]] = tile.to_operand_a
// CHECK:             %[[DKTOKEN:.*]] = tile.mma_async %[[DXA]], %[[Q]] into %[[DK]]
// CHECK:             tile.mma_wait %[[DVTOKEN]] {pending = 1 : i64}
// CHECK:             tile.mma_wait %[[DKTOKEN]] :
// dk and dv of each query head go to the workspace, dk with the scale.
// CHECK:           %[[SCALED:.*]] = arith.mulf %[[SUMS]]#0
// CHECK:           tile.store %[[SCALED]]
// CHECK:           tile.store %[[SUMS]]#1

// CHECK:       gpu.func @grads_dq(
// CHECK:         tile.program 2
// CHECK:           %[[Q:.*]] = tile.load
// CHECK:           %[[DO:.*]] = tile.load
// The log-sum-exp and delta of each row.
// CHECK:           %[[LSE:.*]] = tile.rows
// CHECK:           %[[DELTA:.*]] = tile.rows
// CHECK:           scf.for {{.*}} iter_args(%[[DQ:.*]] = %{{.*}})
// CHECK:             %[[K:.*]] = tile.load
// CHECK:             %[[V:.*]] = tile.load
// CHECK:             %[[S:.*]] = tile.mma_async %[[Q]], %[[K]] transpose_b
// CHECK:             %[[DP:.*]] = tile.mma_async %[[DO]], %[[V]] transpose_b
// CHECK:             tile.mma_wait %[[S]] {pending = 1 : i64}
// CHECK:             tile.map {{.*}} rows(%[[LSE]]
// CHECK:             tile.mma_wait %[[DP]] :
// CHECK:             tile.map {{.*}} rows(%[[DELTA]]
// CHECK:             tile.mma_async %{{.*}}, %[[K]] into %[[DQ]]
// CHECK:           tile.store {{.*}} memref<2x4x?x64xbf16

// CHECK:       gpu.func @grads_delta(
// A shift of -inf where there is no query, or one that sees nothing.
// CHECK:         vector.load
// CHECK:         vector.load
// CHECK:           math.fma
// CHECK:         nvvm.shfl.sync
// CHECK:         arith.cmpf oeq
// CHECK:         arith.mulf
// CHECK:         arith.select
// CHECK:         arith.subf
// CHECK:         memref.store {{.*}} memref<2x2x4x?xf32
// CHECK:         memref.store {{.*}} memref<2x2x4x?xf32

// CHECK:       gpu.func @grads_dk_groups(
// CHECK:         arith.truncf {{.*}} : vector<8xf32> to vector<8xbf16>
// CHECK:         vector.store {{.*}} : memref<2x2x?x64xbf16
// CHECK:       gpu.func @grads_dv_groups(

!q = tensor<2x4x?x64xbf16>
!k = tensor<2x2x?x64xbf16>
!lse = tensor<2x4x?xf32>
func.func @grads(%q: !q, %k: !k, %v: !k, %o: !q, %lse: !lse, %do: !q, %dlse: !lse) -> (!q, !k, !k) {
  %g:3 = flash.attention_backward ins(%q, %k, %v, %o, %lse, %do, %dlse : !q, !k, !k, !q, !lse, !q, !lse)
      {deterministic, scale = 0.125 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %t = math.tanh %s : f32
        flash.yield %t : f32
      } -> !q, !k, !k
  return %g#0, %g#1, %g#2 : !q, !k, !k
}
