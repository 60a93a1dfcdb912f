// RUN: flashc-opt %s --split-input-file --verify-diagnostics

// The ring protocol of tile.warp_specialize, invariant 3 of TileProtocol.cpp: a slot is released once, where it is waited
// for or in the loop that it is handed to.

!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @never_released() kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      // expected-error @+1 {{'tile.wait' op expected its slot to be released}}
      %s = tile.wait %ring[%c0] : !ring -> !slot
    }
    gpu.return
  }
}

// -----

!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @released_twice() kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      // expected-error @+1 {{'tile.release' op expected the slot to be released once}}
      tile.release %s : !slot
      tile.release %s : !slot
    }
    gpu.return
  }
}

// -----

!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @released_in_a_loop(%x: index) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      scf.for %i = %c0 to %x step %c1 {
        // expected-error @+1 {{'tile.release' op expected in the block that waits for the slot}}
        tile.release %s : !slot
      }
    }
    gpu.return
  }
}

// -----

!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @handed_on_and_released(%x: index) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      // expected-error @+1 {{'tile.release' op expected the slot to be released once}}
      tile.release %s : !slot
      %r = scf.for %i = %c0 to %x step %c1 iter_args(%h = %s) -> (!slot) {
        scf.yield %h : !slot
      }
      tile.release %r : !slot
    }
    gpu.return
  }
}

// -----

!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @handed_on_twice(%x: index) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      // expected-error @+1 {{'scf.for' op expected the slot to be released once}}
      %r:2 = scf.for %i = %c0 to %x step %c1 iter_args(%g = %s, %h = %s) -> (!slot, !slot) {
        scf.yield %g, %h : !slot, !slot
      }
      tile.release %r#0 : !slot
      tile.release %r#1 : !slot
    }
    gpu.return
  }
}

// -----

!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @handed_on_in_a_loop(%x: index) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      scf.for %i = %c0 to %x step %c1 {
        // expected-error @+1 {{'scf.for' op expected in the block that waits for the slot}}
        %r = scf.for %j = %c0 to %x step %c1 iter_args(%h = %s) -> (!slot) {
          scf.yield %h : !slot
        }
        tile.release %r : !slot
      }
    }
    gpu.return
  }
}

// -----

!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @handed_to_a_branch(%x: index) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      %some = arith.cmpi eq, %x, %c0 : index
      %t = tile.wait %ring[%c1] : !ring -> !slot
      %r = scf.if %some -> (!slot) {
        // expected-error @+1 {{'scf.yield' op expected a slot to be passed to scf.for only}}
        scf.yield %s : !slot
      } else {
        scf.yield %t : !slot
      }
      tile.release %s : !slot
      tile.release %t : !slot
    }
    gpu.return
  }
}

// -----

!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @handed_to_another_loop(%more: i1) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      // expected-error @+1 {{'scf.while' op expected a slot to be passed to scf.for only}}
      %r = scf.while (%h = %s) : (!slot) -> (!slot) {
        scf.condition(%more) %h : !slot
      } do {
      ^bb0(%h: !slot):
        scf.yield %h : !slot
      }
      tile.release %r : !slot
    }
    gpu.return
  }
}

// -----

!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @not_released_in_a_loop(%x: index) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      // expected-error @+1 {{'scf.for' op expected its slot to be released}}
      %r = scf.for %i = %c0 to %x step %c1 iter_args(%h = %s) -> (!slot) {
        %n = tile.wait %ring[%i] : !ring -> !slot
        scf.yield %n : !slot
      }
      tile.release %r : !slot
    }
    gpu.return
  }
}

// -----

!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @not_released_behind_a_loop(%x: index) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      // expected-error @+1 {{'scf.for' op expected its slot to be released}}
      %r = scf.for %i = %c0 to %x step %c1 iter_args(%h = %s) -> (!slot) {
        scf.yield %h : !slot
      }
    }
    gpu.return
  }
}

// -----

!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @released_and_handed_on(%x: index) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      %r = scf.for %i = %c0 to %x step %c1 iter_args(%h = %s) -> (!slot) {
        // expected-error @+1 {{'tile.release' op expected the slot to be released once}}
        tile.release %h : !slot
        scf.yield %h : !slot
      }
      tile.release %r : !slot
    }
    gpu.return
  }
}
