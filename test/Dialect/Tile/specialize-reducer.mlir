// A sum that no consumer can keep: consumers share A, and a warpgroup of its own multiplies it with their parts of B and
// adds that to memory.
// RUN: %vary %s | flashc-opt --tile-specialize --canonicalize --cse --split-input-file --verify-diagnostics | FileCheck %s

!map = !tile.tensor_map<64 x bf16>
!own = !tile.ring<1, 64, 64, bf16, private true>
!shared = !tile.ring<2, 64, 64, bf16, private true>
!numbers = !tile.ring<2, 2, 64, f32>
!slot = !tile.slot<64, 64, bf16>
!a = tensor<64x64xbf16, #tile.operand_a>
!sums = memref<?x?x?x1x4096xf32>
!array = memref<2x?x?x?xf32>
#schedule = #tile.schedule<consumers = 2, producer_registers = 32, consumer_registers = 208, overlap = false,
                           ping_pong = false>

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @sum(
  // CHECK-SAME:      %[[MAP:.*]]: !tile.tensor_map<64 x bf16>, %[[ARRAY:.*]]: memref<2x?x?x?xf32>, %[[SUMS:.*]]: memref<?x?x?x1x4096xf32>
  gpu.func @sum(%map: !map, %array: !array, %sums: !sums, %b: index, %n: index) kernel
      attributes {tile.schedule = #schedule} {
    // CHECK:         %[[OWN:.*]] = tile.alloc_ring : <1,
    // CHECK:         %[[SHARED:.*]] = tile.alloc_ring : <2, 64,
    // CHECK:         %[[NUMBERS:.*]] = tile.alloc_ring : <2, 2,
    %own = tile.alloc_ring : !own
    %shared = tile.alloc_ring : !shared
    %numbers = tile.alloc_ring : !numbers
    // The CTA has 4 * 128 registers for each four threads, of which 64 are left.
    // CHECK:         tile.warp_specialize 2 registers(32, 208, 64) producer {
    // CHECK:           scf.for
    // CHECK:             tile.acquire %[[NUMBERS]]
    // CHECK-NEXT:        tile.copy_async %[[ARRAY]]
    // CHECK-NOT:         %[[SHARED]]
    // CHECK:         } consumer {
    // CHECK:           scf.for {{.*}} iter_args({{.*}}, %[[COUNT:.*]] = %c0)
    // CHECK:             %[[FULL:.*]] = tile.wait %[[NUMBERS]]
    // CHECK:             tile.read_columns %[[FULL]][1]
    // CHECK:             tile.map
    // No product begins behind what reads the slot: the warps meet before one thread releases it.
    // CHECK:             tile.warpgroup_barrier
    // CHECK-NEXT:        tile.release %[[FULL]]
    // CHECK:             tile.share %{{.*}} into %[[SHARED]][%[[COUNT]]]
    // CHECK:         } reducer {
    // CHECK:           %[[B0:.*]] = tile.wait %[[OWN]][%c0] owner 0
    // CHECK:           %[[B1:.*]] = tile.wait %[[OWN]][%c0] owner 1
    // CHECK:           scf.for %[[I:.*]] = {{.*}} iter_args({{.*}}, %[[NUMBER:.*]] = %c0)
    // CHECK:             %[[A0:.*]] = tile.wait %[[SHARED]][%[[NUMBER]]] owner 0
    // CHECK:             %[[A1:.*]] = tile.wait %[[SHARED]][%[[NUMBER]]] owner 1
    // CHECK:             %[[FIRST:.*]] = tile.mma_async %{{.*}}, %{{.*}} transpose_a
    // CHECK:             %[[ALL:.*]] = tile.mma_async %{{.*}}, %{{.*}} into %[[FIRST]] : {{.*}} transpose_a
    // CHECK:             %[[SUM:.*]] = tile.mma_wait %[[ALL]]
    // CHECK:             %[[SCALED:.*]] = arith.mulf %[[SUM]]
    // CHECK:             tile.atomic_add %[[SCALED]] to %[[SUMS]]
    // CHECK:             tile.release %[[A0]]
    // CHECK:             tile.release %[[A1]]
    // CHECK:           tile.release %[[B0]]
    // CHECK:           tile.release %[[B1]]
    tile.program 2 {
    ^bb0(%w: index):
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c64 = arith.constant 64 : index
      %first = arith.muli %w, %c64 : index
      %x = arith.constant dense<1.0> : tensor<64x64xf32, #tile.acc>
      %k = tile.load %map[%b, %b, %first] into %own : !map, !own -> !slot
      scf.for %i = %c0 to %n step %c1 {
        %row = arith.muli %i, %c64 : index
        %two = tile.load %array[%b, %b, %row] into %numbers : !array, !numbers -> !tile.slot<2, 64, f32>
        %columns = tile.read_columns %two[1] : !tile.slot<2, 64, f32> -> tensor<64xf32, #tile.col>
        %y = tile.map %x rows(%columns : tensor<64xf32, #tile.col>) at(%first, %row) {
        ^bb0(%e: f32, %r: index, %c: index, %column: f32):
          %sum = arith.addf %e, %column : f32
          tile.yield %sum : f32
        } : tensor<64x64xf32, #tile.acc>
        %a = tile.to_operand_a %y : tensor<64x64xf32, #tile.acc> -> !a
        tile.add_product %a through %shared, %k to %sums[%b, %b, %row] {scale = 2.0 : f32} : !a, !shared, !slot, !sums
      }
    }
    gpu.return
  }
}

// VARY not_own
//   %map[%b, %b, %first] => %map[%b, %b, %b]
//   !own = !tile.ring<1, 64, 64, bf16, private true> => !own = !tile.ring<1, 64, 64, bf16>
//   tile.add_product | error: 'tile.add_product' op cannot specialize: expected B to be loaded into a ring of each consumer's own
// VARY rows_of_the_warpgroup
//   tile.add_product
//     | error: 'tile.add_product' op cannot specialize: expected a destination that does not depend on the warpgroup
//   %sums[%b, %b, %row] => %sums[%b, %b, %w]
