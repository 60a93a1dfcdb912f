// RUN: flashc-opt %s --split-input-file --verify-diagnostics

// The ring protocol of tile.warp_specialize, invariant 4 of TileProtocol.cpp: no product reads a slot that is released or
// handed on.

!acc = tensor<64x64xf32, #tile.acc>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @released_in_flight() kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      // expected-note @+1 {{this product has not been waited for}}
      %t = tile.mma_async %s, %s transpose_b : !slot, !slot -> !tile.token<!acc>
      // expected-error @+1 {{'tile.release' op expected no product in flight that reads the slot}}
      tile.release %s : !slot
      %v = tile.mma_wait %t : !tile.token<!acc> -> !acc
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @never_waited_for() kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      // expected-note @+1 {{this product has not been waited for}}
      %t = tile.mma_async %s, %s transpose_b : !slot, !slot -> !tile.token<!acc>
      // expected-error @+1 {{'tile.release' op expected no product in flight that reads the slot}}
      tile.release %s : !slot
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @waited_for_in_a_branch(%x: index) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      // expected-note @+1 {{this product has not been waited for}}
      %t = tile.mma_async %s, %s transpose_b : !slot, !slot -> !tile.token<!acc>
      %some = arith.cmpi eq, %x, %c0 : index
      scf.if %some {
        %v = tile.mma_wait %t : !tile.token<!acc> -> !acc
      }
      // expected-error @+1 {{'tile.release' op expected no product in flight that reads the slot}}
      tile.release %s : !slot
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @handed_on_in_flight(%x: index) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      // expected-note @+1 {{this product has not been waited for}}
      %t = tile.mma_async %s, %s transpose_b : !slot, !slot -> !tile.token<!acc>
      // expected-error @+1 {{'scf.for' op expected no product in flight that reads the slot}}
      %r = scf.for %i = %c0 to %x step %c1 iter_args(%h = %s) -> (!slot) {
        scf.yield %h : !slot
      }
      %v = tile.mma_wait %t : !tile.token<!acc> -> !acc
      tile.release %r : !slot
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @yielded_in_flight(%x: index) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      %r = scf.for %i = %c0 to %x step %c1 iter_args(%h = %s) -> (!slot) {
        // expected-note @+1 {{this product has not been waited for}}
        %t = tile.mma_async %h, %h transpose_b : !slot, !slot -> !tile.token<!acc>
        // expected-error @+1 {{'scf.yield' op expected no product in flight that reads the slot}}
        scf.yield %h : !slot
      }
      tile.release %r : !slot
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @read_by_its_owner_before(%x: index) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      // expected-error @+1 {{'scf.for' op expected no product in flight that reads the slot}}
      %r = scf.for %i = %c0 to %x step %c1 iter_args(%h = %s) -> (!slot) {
        // expected-note @+1 {{this product has not been waited for}}
        %t = tile.mma_async %s, %s transpose_b : !slot, !slot -> !tile.token<!acc>
        %v = tile.mma_wait %t : !tile.token<!acc> -> !acc
        scf.yield %h : !slot
      }
      tile.release %r : !slot
    }
    gpu.return
  }
}
