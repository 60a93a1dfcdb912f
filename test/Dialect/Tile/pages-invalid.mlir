// RUN: flashc-opt %s --split-input-file --verify-diagnostics

// Loads through a table of pages, and rows that are cleared: their constraints, and invariant 5 of TileProtocol.cpp.

!ring = !tile.ring<2, 128, 64, bf16>
!slot = !tile.slot<128, 64, bf16>
func.func @box(%map: !tile.tensor_map<128 x bf16>, %table: memref<?x?xi32>, %ring: !ring, %i: index) {
  // expected-error @+1 {{'tile.load' op expected a box of 64 rows to match '!tile.ring<2, 128, 64, bf16>', got '!tile.tensor_map<128 x bf16>'}}
  %s = tile.load %map[%i, %i, %i] pages(%table : memref<?x?xi32>) of 192 until %i into %ring : !tile.tensor_map<128 x bf16>, !ring -> !slot
  return
}

// -----

!ring = !tile.ring<2, 128, 64, bf16>
!slot = !tile.slot<128, 64, bf16>
func.func @rows(%map: !tile.tensor_map<4 x bf16>, %table: memref<?x?xi32>, %ring: !ring, %i: index) {
  // expected-error @+1 {{'tile.load' op expected boxes of a multiple of 8 rows, got 4}}
  %s = tile.load %map[%i, %i, %i] pages(%table : memref<?x?xi32>) of 4 until %i into %ring : !tile.tensor_map<4 x bf16>, !ring -> !slot
  return
}

// -----

!ring = !tile.ring<2, 2, 128, f32>
!slot = !tile.slot<2, 128, f32>
func.func @numbers(%array: memref<2x?x?x?xf32>, %ring: !ring, %i: index) {
  // expected-error @+1 {{'tile.load' op expected pages and rows to be cleared only with a tensor map, in a tile.program}}
  %s = tile.load %array[%i, %i, %i] into %ring clear from %i : memref<2x?x?x?xf32>, !ring -> !slot
  return
}

// -----

func.func @nothing(%s: !tile.slot<128, 64, bf16>) {
  // expected-error @+1 {{'tile.clear_rows' op expected 'from' or 'before', got neither}}
  tile.clear_rows %s : !tile.slot<128, 64, bf16>
  return
}

// -----

!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @cleared_in_producer(%s: !slot) kernel {
    %c0 = arith.constant 0 : index
    tile.warp_specialize 2 registers(24, 240) producer {
      // expected-error @+1 {{'tile.clear_rows' op expected in the consumer only}}
      tile.clear_rows %s from %c0 : !slot
    } consumer {
    ^bb0(%w: index):
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @cleared_late(%q: !slot) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      // expected-note @+1 {{this product is before it}}
      %t = tile.mma_async %q, %s transpose_b : !slot, !slot -> !tile.token<!acc>
      // expected-error @+1 {{'tile.clear_rows' op expected before the products that read the slot}}
      tile.clear_rows %s from %c0 : !slot
      %x = tile.mma_wait %t : !tile.token<!acc> -> !acc
      tile.release %s : !slot
    }
    gpu.return
  }
}

// -----

!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @cleared_in_a_branch(%x: i1) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      scf.if %x {
        // expected-error @+1 {{'tile.clear_rows' op expected in the block that waits for the slot}}
        tile.clear_rows %s from %c0 : !slot
      }
      tile.release %s : !slot
    }
    gpu.return
  }
}
