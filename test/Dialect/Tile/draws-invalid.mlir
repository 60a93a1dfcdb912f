// RUN: %vary %s | flashc-opt --split-input-file --verify-diagnostics --tile-specialize

func.func @invalid(%list: memref<?xi32>, %n: index, %exists: i1, %x_arg: index) {
  // BODY
  return
}

// VARY no_loop
//     %next = tile.draw %list[%n] from %n below %n : memref<?xi32> -> index {
//     | error: 'tile.draw' op expects parent op 'scf.for'
//     ^bb0(%number: index):
//       tile.drawn %number : index
//     }
// VARY no_number
//     %c0 = arith.constant 0 : index
//     %c1 = arith.constant 1 : index
//     scf.for %i = %c0 to %n step %c1 iter_args(%x = %n) -> index {
//       %next = tile.draw %list[%n] from %n below %n : memref<?xi32> -> index {
//       | error: 'tile.draw' op expected one region argument, the number (index)
//         tile.drawn %n : index
//       }
//       scf.yield %next : index
//     }
// VARY other_turns
//     scf.for %i = %n to %n step %n iter_args(%x = %n) -> index {
//       %next = tile.draw %list[%n] from %n below %n : memref<?xi32> -> index {
//       | error: 'tile.draw' op expected a loop from 0 with step 1, whose index is the number of the turn
//       ^bb0(%number: index):
//         tile.drawn %number : index
//       }
//       scf.yield %next : index
//     }
// VARY too_few
//     %c0 = arith.constant 0 : index
//     %c1 = arith.constant 1 : index
//     scf.for %i = %c0 to %n step %c1 iter_args(%x = %n) -> index {
//       %next = tile.draw %list[%n] from %n below %n : memref<?xi32> -> index {
//       ^bb0(%number: index):
//         tile.drawn | error: 'tile.drawn' op expected 1 values, got 0
//       }
//       scf.yield %next : index
//     }
// VARY too_many_words
//     tile.publish %exists, %x_arg, %x_arg, %x_arg, %x_arg, %x_arg, %x_arg, %x_arg, %x_arg, %x_arg, %x_arg, %x_arg, %x_arg, %x_arg, %x_arg, %x_arg, %x_arg in %x_arg
//     | error: 'tile.publish' op expected at most 15 values, got 16
// VARY repeats_nothing
//     tile.repeat_if %exists | error: 'tile.repeat_if' op expects parent op 'scf.for'

// -----

gpu.module @kernels {
  gpu.func @invalid(%exists_arg: i1, %list: memref<?xi32>) kernel {
    // BODY
    gpu.return
  }
}

// VARY heard_by_the_producer
//     %c0 = arith.constant 0 : index
//     tile.warp_specialize 2 registers(24, 240) producer {
//       %exists = tile.published %c0 | error: 'tile.published' op expected in the consumer only
//     } consumer {
//     ^bb0(%w: index):
//     }
// VARY published_by_a_consumer
//     %c0 = arith.constant 0 : index
//     tile.warp_specialize 2 registers(24, 240) producer {
//     } consumer {
//     ^bb0(%w: index):
//       tile.publish %exists_arg in %c0 | error: 'tile.publish' op expected in the producer only
//     }
// VARY taken_by_a_consumer
//     %c0 = arith.constant 0 : index
//     tile.warp_specialize 2 registers(24, 240) producer {
//     } consumer {
//     ^bb0(%w: index):
//       %number = tile.consume %list[%c0] : memref<?xi32> | error: 'tile.consume' op expected in the producer only
//     }

// -----

#schedule = #tile.schedule<consumers = 2, producer_registers = 24, consumer_registers = 240,
                           overlap = false, ping_pong = false>
gpu.module @kernels {
  gpu.func @invalid(%map: !tile.tensor_map<64 x bf16>, %list: memref<?xi32>, %n: index, %k: !tile.slot<64, 64, bf16>) kernel attributes {tile.schedule = #schedule} {
    // BODY
    gpu.return
  }
}

// VARY drawn_by_tiles: The producer draws once for all.
//     %ring = tile.alloc_ring : !tile.ring<2, 64, 64, bf16, private true>
//     %c0 = arith.constant 0 : index
//     %c1 = arith.constant 1 : index
//     tile.program 2 {
//     ^bb0(%w: index):
//       %x0:2 = tile.published %c0 : index | note: it depends on this value
//       scf.for %i = %c0 to %n step %c1 iter_args(%x = %n) -> index {
//         %next = tile.draw %list[%n] from %n below %n : memref<?xi32> -> index {
//         | error: cannot specialize: expected to depend on loop indices and scalar code only
//         ^bb0(%number: index):
//           %x1 = arith.addi %number, %x0#1 : index
//           tile.drawn %x1 : index
//         }
//         %q = tile.load %map[%c0, %c0, %x] into %ring : !tile.tensor_map<64 x bf16>, !tile.ring<2, 64, 64, bf16, private true> -> !tile.slot<64, 64, bf16>
//         %t = tile.mma_async %q, %k transpose_b : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
//         %s = tile.mma_wait %t : !tile.token<tensor<64x64xf32, #tile.acc>> -> tensor<64x64xf32, #tile.acc>
//         scf.yield %next : index
//       }
//     }
// VARY runs_ahead: Nothing keeps the producer from publishing four work tiles ahead.
//     %ring = tile.alloc_ring : !tile.ring<4, 64, 64, bf16, private true>
//     %c0 = arith.constant 0 : index
//     %c1 = arith.constant 1 : index
//     tile.program 2 {
//     ^bb0(%w: index):
//       scf.for %i = %c0 to %n step %c1 iter_args(%x = %n) -> index {
//         %next = tile.draw %list[%n] from %n below %n : memref<?xi32> -> index {
//         | error: cannot specialize: expected a load into fewer than 4 slots of each consumer in every iteration
//         ^bb0(%number: index):
//           tile.drawn %number : index
//         }
//         %q = tile.load %map[%c0, %c0, %x] into %ring : !tile.tensor_map<64 x bf16>, !tile.ring<4, 64, 64, bf16, private true> -> !tile.slot<64, 64, bf16>
//         %t = tile.mma_async %q, %k transpose_b : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
//         %s = tile.mma_wait %t : !tile.token<tensor<64x64xf32, #tile.acc>> -> tensor<64x64xf32, #tile.acc>
//         scf.yield %next : index
//       }
//     }
