// RUN: flashc-opt %s --tile-prefetch --split-input-file --verify-diagnostics

!ring = !tile.ring<2, 16, 64, bf16, private true>
!slot = !tile.slot<16, 64, bf16>

gpu.module @kernels {
  gpu.func @no_loop(%map: !tile.tensor_map<16 x bf16>, %n: index) kernel {
    %ring = tile.alloc_ring : !ring
    tile.warp_program 8 {
    ^bb0(%w: index):
      // expected-error @+1 {{'tile.load' op expected to stand directly in a loop of its tile.warp_program}}
      %v = tile.load %map[%n, %n, %n] into %ring : !tile.tensor_map<16 x bf16>, !ring -> !slot
    }
    gpu.return
  }
}

// -----

!ring = !tile.ring<2, 16, 64, bf16, private true>
!three = !tile.ring<3, 16, 64, bf16, private true>
!slot = !tile.slot<16, 64, bf16>

gpu.module @kernels {
  gpu.func @stages(%map: !tile.tensor_map<16 x bf16>, %n: index) kernel {
    %ring = tile.alloc_ring : !ring
    %other = tile.alloc_ring : !three
    tile.warp_program 8 {
    ^bb0(%w: index):
      %c1 = arith.constant 1 : index
      scf.for %u = %n to %n step %c1 {
        %v = tile.load %map[%n, %n, %u] into %ring : !tile.tensor_map<16 x bf16>, !ring -> !slot
        // expected-error @+1 {{'tile.load' op expected all rings of the loop to have equally many stages, got 2 and 3}}
        %x = tile.load %map[%n, %n, %u] into %other : !tile.tensor_map<16 x bf16>, !three -> !slot
      }
    }
    gpu.return
  }
}

// -----

!ring = !tile.ring<2, 16, 64, bf16, private true>
!slot = !tile.slot<16, 64, bf16>

gpu.module @kernels {
  gpu.func @carried(%map: !tile.tensor_map<16 x bf16>, %n: index) kernel {
    %ring = tile.alloc_ring : !ring
    tile.warp_program 8 {
    ^bb0(%w: index):
      %c1 = arith.constant 1 : index
      %r = scf.for %u = %n to %n step %c1 iter_args(%x = %n) -> index {
        // expected-error @+1 {{'tile.load' op expected a place that is known iterations ahead}}
        %v = tile.load %map[%n, %n, %x] into %ring : !tile.tensor_map<16 x bf16>, !ring -> !slot
        %y = arith.addi %x, %u : index
        scf.yield %y : index
      }
    }
    gpu.return
  }
}
