// RUN: %vary %s | flashc-opt --split-input-file --verify-diagnostics

// Every constraint of what consumers share, and of the role that adds it up.

!apart = memref<?x?x?x2x4096xf32, strided<[?, ?, 16384, 8192, 1]>>
!t = !tile.token<tensor<64x64xf32, #tile.acc>>
func.func @invalid(%array: memref<3x?x?x?xf32>, %ring_arg: !tile.ring<2, 2, 64, f32>, %i: index,
    %slot_arg: !tile.slot<2, 64, f32>, %x_arg: tensor<64x128xf32, #tile.acc>, %c: tensor<64xf32, #tile.col>,
    %slot2: !tile.slot<64, 128, bf16>, %a: tensor<64x64xbf16, #tile.operand_a>, %ring2: !tile.ring<2, 64, 64, bf16>,
    %g: index, %ring3: !tile.ring<2, 64, 64, bf16, private true>, %b: !tile.slot<32, 64, bf16>,
    %sums: memref<?x?x?x1x4096xf32>, %x2: tensor<16x64xf32, #tile.acc>, %x3: tensor<64x72xf32, #tile.acc>,
    %sums2: !apart, %x4: tensor<64x64xf32, #tile.acc>, %sums3: memref<?x?x?x1x64xf32>, %b2: !tile.slot<64, 64, bf16>,
    %a2: !tile.slot<64, 64, bf16>, %acc: !t) {
  // BODY
  return
}

// VARY own_numbers
//     %ring = tile.alloc_ring : !tile.ring<2, 2, 64, f32, private true>
//     | error: 'tile.alloc_ring' op expected a ring of f32 that all consumers share
// VARY other_rows
//     %slot = tile.load %array[%i, %i, %i] into %ring_arg : memref<3x?x?x?xf32>, !tile.ring<2, 2, 64, f32> -> !tile.slot<2, 64, f32>
//     | error: 'tile.load' op expected the box of 'memref<3x?x?x?xf32>' to match '!tile.ring<2, 2, 64, f32>'
// VARY no_such_row
//     %x = tile.read_columns %slot_arg[2] : !tile.slot<2, 64, f32> -> tensor<64xf32, #tile.col>
//     | error: 'tile.read_columns' op expected one of the rows of a slot of f32, got 2 of '!tile.slot<2, 64, f32>'
// VARY other_columns
//     %x = tile.read_columns %slot_arg[1] : !tile.slot<2, 64, f32> -> tensor<32xf32, #tile.col>
//     | error: 'tile.read_columns' op expected a result of type 'tensor<64xf32, #tile.col>', got 'tensor<32xf32, #tile.col>'
// VARY columns_of_another_tile
//     %y = tile.map %x_arg rows(%c : tensor<64xf32, #tile.col>) at(%i, %i) {
//     | error: 'tile.map' op expected a value for each column of 'tensor<64x128xf32, #tile.acc>', got 'tensor<64xf32, #tile.col>'
//     ^bb0(%e: f32, %r: index, %j: index, %column: f32):
//       tile.yield %column : f32
//     } : tensor<64x128xf32, #tile.acc>
// VARY panel
//     %p = tile.panel %slot2[%i] : !tile.slot<64, 128, bf16> -> !tile.slot<64, 32, bf16>
//     | error: 'tile.panel' op expected a panel of 64 x 64 x 'bf16', got '!tile.slot<64, 32, bf16>'
// VARY shared_by_all
//     tile.share %a into %ring2[%g] : tensor<64x64xbf16, #tile.operand_a>, !tile.ring<2, 64, 64, bf16>
//     | error: 'tile.share' op expected a private ring of 64 x 64 x 'bf16', in panels of 64 columns, got '!tile.ring<2, 64, 64, bf16>'
// VARY hand_over_through_16_bits
//     %p = tile.hand_over %x4 through %ring2 : tensor<64x64xf32, #tile.acc>, !tile.ring<2, 64, 64, bf16>
//     | error: 'tile.hand_over' op expected a ring of 64 x 64 x f32 that all consumers share, got '!tile.ring<2, 64, 64, bf16>'
// VARY send_through_statistics
//     tile.send %x4 into %ring_arg[%g] : tensor<64x64xf32, #tile.acc>, !tile.ring<2, 2, 64, f32>
//     | error: 'tile.send' op expected a ring of 64 x 64 x f32 that all consumers share, got '!tile.ring<2, 2, 64, f32>'
// VARY receive_more_columns
//     %p = tile.receive %ring_arg[%g] : !tile.ring<2, 2, 64, f32> -> tensor<64x128xf32, #tile.acc>
//     | error: 'tile.receive' op expected a ring of 64 x 128 x f32 that all consumers share, got '!tile.ring<2, 2, 64, f32>'
// VARY other_b
//     tile.add_product %a through %ring3, %b to %sums[%i, %i, %i] {scale = 1.0 : f32}
//     | error: 'tile.add_product' op expected B of 64 rows of 'bf16', got '!tile.slot<32, 64, bf16>'
//         : tensor<64x64xbf16, #tile.operand_a>, !tile.ring<2, 64, 64, bf16, private true>, !tile.slot<32, 64, bf16>, memref<?x?x?x1x4096xf32>
// VARY other_rows
//     tile.atomic_add %x2 to %sums[%i, %i, %i, %i] : tensor<16x64xf32, #tile.acc>, memref<?x?x?x1x4096xf32>
//     | error: 'tile.atomic_add' op expected a tile of 64 rows, got 'tensor<16x64xf32, #tile.acc>'
// VARY too_few_panels
//     tile.atomic_add %x3 to %sums[%i, %i, %i, %i] : tensor<64x72xf32, #tile.acc>, memref<?x?x?x1x4096xf32>
//     | error: 'tile.atomic_add' op expected 2 consecutive panels, got 'memref<?x?x?x1x4096xf32>'
// VARY panels_apart
//     tile.atomic_add %x_arg to %sums2[%i, %i, %i, %i] : tensor<64x128xf32, #tile.acc>, !apart
//     | error: 'tile.atomic_add' op expected 2 consecutive panels, got
// VARY other_elements
//     tile.atomic_add %x4 to %sums3[%i, %i, %i, %i] : tensor<64x64xf32, #tile.acc>, memref<?x?x?x1x64xf32>
//     | error: 'tile.atomic_add' op expected 4096 elements of each panel, got 'memref<?x?x?x1x64xf32>'
// VARY other_shape
//     %x = tile.from_operand_a %a : tensor<64x64xbf16, #tile.operand_a> -> tensor<64x128xf32, #tile.acc>
//     | error: 'tile.from_operand_a' op expected a result shaped like 'tensor<64x64xbf16, #tile.operand_a>', got 'tensor<64x128xf32, #tile.acc>'
// VARY registers_transposed
//     %t = tile.mma_async %a, %b2 transpose_a : tensor<64x64xbf16, #tile.operand_a>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
//     | error: 'tile.mma_async' op expected a slot as A for transpose_a, got 'tensor<64x64xbf16, #tile.operand_a>'
// VARY two_go_on
//     %t = tile.mma_async %a2, %a2 into %acc : !t : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !t
//     | error: 'tile.mma_async' op expected the product that it continues to have no other use
//     %u = tile.mma_async %a2, %a2 into %acc : !t : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !t

// -----

#schedule = #tile.schedule<consumers = 2, producer_registers = 32, consumer_registers = 208, overlap = false,
                           ping_pong = false>
gpu.module @kernels {
  gpu.func @invalid(%sums: memref<?x?x?x1x4096xf32>, %i: index) kernel attributes {tile.schedule = #schedule} {
    // BODY
    gpu.return
  }
}

// VARY no_registers
//     tile.warp_specialize 2 registers(32, 208) producer {
//     | error: 'tile.warp_specialize' op expected registers of the reducer where there is one
//     } consumer {
//     ^bb0(%w: index):
//     } reducer {
//     }
// VARY producer_adds
//     tile.warp_specialize 2 registers(32, 208) producer {
//       %x = arith.constant dense<0.0> : tensor<64x64xf32, #tile.acc>
//       tile.atomic_add %x to %sums[%i, %i, %i, %i] : tensor<64x64xf32, #tile.acc>, memref<?x?x?x1x4096xf32>
//       | error: 'tile.atomic_add' op expected in the consumer or reducer only
//     } consumer {
//     ^bb0(%w: index):
//     }

// -----

#schedule = #tile.schedule<consumers = 2, producer_registers = 32, consumer_registers = 240, overlap = false,
                           ping_pong = false>
gpu.module @kernels {
  // expected-error @+1 {{expected at most 65536 registers per CTA, got 72704}}
  gpu.func @no_registers_left() kernel attributes {tile.schedule = #schedule} {
    tile.warp_specialize 2 registers(32, 240, 24) producer {
    } consumer {
    ^bb0(%w: index):
    } reducer {
    }
    gpu.return
  }
}
