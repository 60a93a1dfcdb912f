// Sums of pairs of queries and keys, for gradients of what scores read: L1 leaves them whole.
// RUN: %vary %s | flashc-opt --split-input-file --flash-fa2 --convert-flash-to-tile --canonicalize --cse | FileCheck %s
// RUN: %vary %s | not flashc-opt --split-input-file --flash-fa2 --convert-flash-to-tile="schedule=consumers=1" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=OVERRIDE

// OVERRIDE: error: schedule: expected consumers=2 for sums of pairs of queries and keys, got consumers=1

!q = tensor<?x4x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
!lse = tensor<?x4x?xf32>

// Diagonals: all four operands move with the visit, and a tile of pairs is added up in registers along a diagonal of
// tiles, and over batches. Its own diagonals are added up by a kernel; where a distance finds its element, the scatter
// kernel searches the distances of an element, which are an interval.
// CHECK-LABEL: gpu.func @table(
// CHECK-SAME:    after = [{{.*}}kernel = "table_along"{{.*}}kernel = "table_scatter"
// CHECK:         tile.alloc_ring : <3, 64, 64, bf16, private true>
// CHECK:         tile.alloc_ring : <3, 64, 64, bf16>
// CHECK:         tile.program 2
// CHECK:           %[[SUMS:.*]] = scf.for {{.*}} iter_args(%[[SUM:.*]] = %{{.*}}) -> (tensor<64x64xf32, #tile.acc>)
// CHECK-COUNT-4:     tile.load
// CHECK:             %[[NEXT:.*]] = arith.addf %[[SUM]], %{{.*}} : tensor<64x64xf32, #tile.acc>
// CHECK:             scf.yield %[[NEXT]]
// CHECK:           tile.store %[[SUMS]]
// CHECK-LABEL: gpu.func @table_along(
// CHECK-LABEL: gpu.func @table_scatter(
// CHECK-COUNT-2: scf.while
func.func @table(%q: !q, %k: !k, %v: !k, %o: !q, %lse: !lse, %do: !q, %table: tensor<21x4xf32>) -> tensor<21x4xf32> {
  %c0 = arith.constant 0 : index
  %c10 = arith.constant 10 : index
  %c20 = arith.constant 20 : index
  %d = flash.captured_gradient ins(%q, %k, %v, %o, %lse, %do : !q, !k, !k, !q, !lse, !q) of(%table : tensor<21x4xf32>)
      {scale = 0.125 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %distance = arith.subi %i, %j : index
        %shifted = arith.addi %distance, %c10 : index
        %most = arith.minsi %shifted, %c20 : index
        %place = arith.maxsi %most, %c0 : index
        %e = tensor.extract %table[%place, %h] : tensor<21x4xf32>
        %t = arith.addf %s, %e : f32
        flash.yield %t : f32
      } -> tensor<21x4xf32>
  return %d : tensor<21x4xf32>
}

// -----

!q = tensor<?x4x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
!lse = tensor<?x4x?xf32>

// Pairs in the order of the result: the main kernel writes it, and another one zeros what has no pair. Batches are added
// up in registers.
// CHECK-LABEL: gpu.func @NAME(
// CHECK-SAME:    after = [{{.*}}kernel = "NAME_rest"
// CHECK:           tile.store %{{.*}} columns({{.*}}) : tensor<64x64xf32, #tile.acc>, memref<4x?x?xf32
// CHECK-LABEL: gpu.func @NAME_rest(
func.func @NAME(%q: !q, %k: !k, %v: !k, %o: !q, %lse: !lse, %do: !q, %bias: tensor<4x?x?xf32>) -> tensor<4x?x?xf32> {
  %d = flash.captured_gradient ins(%q, %k, %v, %o, %lse, %do : !q, !k, !k, !q, !lse, !q) of(%bias : tensor<4x?x?xf32>)
      {scale = 0.125 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %e = tensor.extract %bias[%h, %i, %j] : tensor<4x?x?xf32>
        %t = arith.addf %s, %e : f32
        flash.yield %t : f32
      } -> tensor<4x?x?xf32>
  return %d : tensor<4x?x?xf32>
}

// A tile whose queries need none of its keys has no visits.
// CHECK-LABEL: gpu.func @causal(
// CHECK:         tile.program 2
// CHECK:           %[[IS_BEHIND:.*]] = arith.cmpi sgt
// CHECK:           %[[IS_IN_FRONT:.*]] = arith.cmpi slt
// CHECK:           %[[IS_NEEDED:.*]] = arith.andi %[[IS_BEHIND]], %[[IS_IN_FRONT]]
// CHECK:           %[[VISITS:.*]] = arith.select %[[IS_NEEDED]], %{{.*}}, %c0
// CHECK:           %[[TOTAL:.*]] = tile.uniform %[[VISITS]]
// CHECK:           scf.for %{{.*}} = %c0 to %[[TOTAL]]
// VARY causal
//   } -> tensor<4x?x?xf32> =>
//     } mask (%b: index, %h: index, %i: index, %j: index) {
//       %keep = arith.cmpi sle, %j, %i : index
//       flash.yield %keep : i1
//     } -> tensor<4x?x?xf32>
