// RUN: flashc-opt %s --split-input-file --verify-diagnostics

// Every constraint of what consumers share, and of the role that adds it up.

func.func @own_numbers() {
  // expected-error @+1 {{'tile.alloc_ring' op expected a ring of f32 that all consumers share}}
  %ring = tile.alloc_ring : !tile.ring<2, 2, 64, f32, private true>
  return
}

// -----

func.func @other_rows(%array: memref<3x?x?x?xf32>, %ring: !tile.ring<2, 2, 64, f32>, %i: index) {
  // expected-error @+1 {{'tile.load' op expected the box of 'memref<3x?x?x?xf32>' to match '!tile.ring<2, 2, 64, f32>'}}
  %slot = tile.load %array[%i, %i, %i] into %ring : memref<3x?x?x?xf32>, !tile.ring<2, 2, 64, f32> -> !tile.slot<2, 64, f32>
  return
}

// -----

func.func @no_such_row(%slot: !tile.slot<2, 64, f32>) {
  // expected-error @+1 {{'tile.read_columns' op expected one of the rows of a slot of f32, got 2 of '!tile.slot<2, 64, f32>'}}
  %x = tile.read_columns %slot[2] : !tile.slot<2, 64, f32> -> tensor<64xf32, #tile.col>
  return
}

// -----

func.func @other_columns(%slot: !tile.slot<2, 64, f32>) {
  // expected-error @+1 {{'tile.read_columns' op expected a result of type 'tensor<64xf32, #tile.col>', got 'tensor<32xf32, #tile.col>'}}
  %x = tile.read_columns %slot[1] : !tile.slot<2, 64, f32> -> tensor<32xf32, #tile.col>
  return
}

// -----

func.func @columns_of_another_tile(%x: tensor<64x128xf32, #tile.acc>, %c: tensor<64xf32, #tile.col>, %i: index) {
  // expected-error @+1 {{'tile.map' op expected a value for each column of 'tensor<64x128xf32, #tile.acc>', got 'tensor<64xf32, #tile.col>'}}
  %y = tile.map %x rows(%c : tensor<64xf32, #tile.col>) at(%i, %i) {
  ^bb0(%e: f32, %r: index, %j: index, %column: f32):
    tile.yield %column : f32
  } : tensor<64x128xf32, #tile.acc>
  return
}

// -----

func.func @panel(%slot: !tile.slot<64, 128, bf16>, %i: index) {
  // expected-error @+1 {{'tile.panel' op expected a panel of 64 x 64 x 'bf16', got '!tile.slot<64, 32, bf16>'}}
  %p = tile.panel %slot[%i] : !tile.slot<64, 128, bf16> -> !tile.slot<64, 32, bf16>
  return
}

// -----

func.func @shared_by_all(%a: tensor<64x64xbf16, #tile.operand_a>, %ring: !tile.ring<2, 64, 64, bf16>, %g: index) {
  // expected-error @+1 {{'tile.share' op expected a private ring of 64 x 64 x 'bf16', in panels of 64 columns, got '!tile.ring<2, 64, 64, bf16>'}}
  tile.share %a into %ring[%g] : tensor<64x64xbf16, #tile.operand_a>, !tile.ring<2, 64, 64, bf16>
  return
}

// -----

func.func @other_b(%a: tensor<64x64xbf16, #tile.operand_a>, %ring: !tile.ring<2, 64, 64, bf16, private true>,
                   %b: !tile.slot<32, 64, bf16>, %sums: memref<?x?x?x1x4096xf32>, %i: index) {
  // expected-error @+1 {{'tile.add_product' op expected B of 64 rows of 'bf16', got '!tile.slot<32, 64, bf16>'}}
  tile.add_product %a through %ring, %b to %sums[%i, %i, %i] {scale = 1.0 : f32}
      : tensor<64x64xbf16, #tile.operand_a>, !tile.ring<2, 64, 64, bf16, private true>, !tile.slot<32, 64, bf16>, memref<?x?x?x1x4096xf32>
  return
}

// -----

func.func @other_rows(%x: tensor<16x64xf32, #tile.acc>, %sums: memref<?x?x?x1x4096xf32>, %i: index) {
  // expected-error @+1 {{'tile.atomic_add' op expected a tile of 64 rows, got 'tensor<16x64xf32, #tile.acc>'}}
  tile.atomic_add %x to %sums[%i, %i, %i, %i] : tensor<16x64xf32, #tile.acc>, memref<?x?x?x1x4096xf32>
  return
}

// -----

func.func @too_few_panels(%x: tensor<64x72xf32, #tile.acc>, %sums: memref<?x?x?x1x4096xf32>, %i: index) {
  // expected-error @+1 {{'tile.atomic_add' op expected 2 consecutive panels, got 'memref<?x?x?x1x4096xf32>'}}
  tile.atomic_add %x to %sums[%i, %i, %i, %i] : tensor<64x72xf32, #tile.acc>, memref<?x?x?x1x4096xf32>
  return
}

// -----

!apart = memref<?x?x?x2x4096xf32, strided<[?, ?, 16384, 8192, 1]>>
func.func @panels_apart(%x: tensor<64x128xf32, #tile.acc>, %sums: !apart, %i: index) {
  // expected-error @+1 {{'tile.atomic_add' op expected 2 consecutive panels, got}}
  tile.atomic_add %x to %sums[%i, %i, %i, %i] : tensor<64x128xf32, #tile.acc>, !apart
  return
}

// -----

func.func @other_elements(%x: tensor<64x64xf32, #tile.acc>, %sums: memref<?x?x?x1x64xf32>, %i: index) {
  // expected-error @+1 {{'tile.atomic_add' op expected 4096 elements of each panel, got 'memref<?x?x?x1x64xf32>'}}
  tile.atomic_add %x to %sums[%i, %i, %i, %i] : tensor<64x64xf32, #tile.acc>, memref<?x?x?x1x64xf32>
  return
}

// -----

func.func @other_shape(%a: tensor<64x64xbf16, #tile.operand_a>) {
  // expected-error @+1 {{'tile.from_operand_a' op expected a result shaped like 'tensor<64x64xbf16, #tile.operand_a>', got 'tensor<64x128xf32, #tile.acc>'}}
  %x = tile.from_operand_a %a : tensor<64x64xbf16, #tile.operand_a> -> tensor<64x128xf32, #tile.acc>
  return
}

// -----

func.func @registers_transposed(%a: tensor<64x64xbf16, #tile.operand_a>, %b: !tile.slot<64, 64, bf16>) {
  // expected-error @+1 {{'tile.mma_async' op expected a slot as A for transpose_a, got 'tensor<64x64xbf16, #tile.operand_a>'}}
  %t = tile.mma_async %a, %b transpose_a : tensor<64x64xbf16, #tile.operand_a>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
  return
}

// -----

!t = !tile.token<tensor<64x64xf32, #tile.acc>>
func.func @two_go_on(%a: !tile.slot<64, 64, bf16>, %acc: !t) {
  // expected-error @+1 {{'tile.mma_async' op expected the product that it continues to have no other use}}
  %t = tile.mma_async %a, %a into %acc : !t : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !t
  %u = tile.mma_async %a, %a into %acc : !t : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !t
  return
}

// -----

#schedule = #tile.schedule<consumers = 2, producer_registers = 32, consumer_registers = 208, overlap = false,
                           ping_pong = false>
gpu.module @kernels {
  gpu.func @no_registers() kernel attributes {tile.schedule = #schedule} {
    // expected-error @+1 {{'tile.warp_specialize' op expected registers of the reducer where there is one}}
    tile.warp_specialize 2 registers(32, 208) producer {
    } consumer {
    ^bb0(%w: index):
    } reducer {
    }
    gpu.return
  }
}

// -----

#schedule = #tile.schedule<consumers = 2, producer_registers = 32, consumer_registers = 208, overlap = false,
                           ping_pong = false>
gpu.module @kernels {
  gpu.func @producer_adds(%sums: memref<?x?x?x1x4096xf32>, %i: index) kernel attributes {tile.schedule = #schedule} {
    tile.warp_specialize 2 registers(32, 208) producer {
      %x = arith.constant dense<0.0> : tensor<64x64xf32, #tile.acc>
      // expected-error @+1 {{'tile.atomic_add' op expected in the consumer or reducer only}}
      tile.atomic_add %x to %sums[%i, %i, %i, %i] : tensor<64x64xf32, #tile.acc>, memref<?x?x?x1x4096xf32>
    } consumer {
    ^bb0(%w: index):
    }
    gpu.return
  }
}

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
