// RUN: flashc-opt %s --split-input-file --verify-diagnostics

// The ring protocol of tile.warp_specialize, invariants 1 to 4 of TileProtocol.cpp in this order, then its regions.

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @consumers_only(%map: !map, %x: index) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
      // expected-error @+1 {{'tile.wait' op expected in the consumer only}}
      %s = tile.wait %ring[%c0] : !ring -> !slot
    } consumer {
    ^bb0(%w: index):
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @turn_in_producer(%map: !map, %x: index) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
      // expected-error @+1 {{'tile.turn_wait' op expected in the consumer only}}
      tile.turn_wait %c0
    } consumer {
    ^bb0(%w: index):
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @producer_only(%map: !map, %x: index) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      // expected-error @+1 {{'tile.acquire' op expected in the producer only}}
      tile.acquire %ring[%c0] : !ring
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @copy_without_acquire(%map: !map, %x: index) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
      // expected-error @+1 {{'tile.copy_async' op expected the slot to be acquired right before it is filled}}
      tile.copy_async %map[%c0, %c0, %c0] into %ring[%c0] : !map, !ring
    } consumer {
    ^bb0(%w: index):
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @copy_of_another_count(%map: !map, %x: index) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
      tile.acquire %ring[%c0] : !ring
      // expected-error @+1 {{'tile.copy_async' op expected the slot to be acquired right before it is filled}}
      tile.copy_async %map[%c0, %c0, %c0] into %ring[%c1] : !map, !ring
    } consumer {
    ^bb0(%w: index):
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @copy_for_another_owner(%map: !map, %x: index) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
      tile.acquire %ring[%c0] : !ring
      // expected-error @+1 {{'tile.copy_async' op expected the slot to be acquired right before it is filled}}
      tile.copy_async %map[%c0, %c0, %c0] into %ring[%c0] owner 1 : !map, !ring
    } consumer {
    ^bb0(%w: index):
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @never_released(%map: !map, %x: index) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
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

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @released_twice(%map: !map, %x: index) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
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

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @released_in_a_loop(%map: !map, %x: index) kernel {
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

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @released_in_flight(%map: !map, %x: index) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
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
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @never_waited_for(%map: !map, %x: index) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
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
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @waited_for_in_a_branch(%map: !map, %x: index) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
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
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @handed_on_and_released(%map: !map, %x: index) kernel {
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

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @handed_on_twice(%map: !map, %x: index) kernel {
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

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @handed_on_in_a_loop(%map: !map, %x: index) kernel {
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

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @handed_to_a_branch(%map: !map, %x: index) kernel {
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
        // expected-error @+1 {{'scf.yield' op expected a slot to be handed to scf.for only}}
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

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @handed_to_another_loop(%map: !map, %x: index, %more: i1) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      // expected-error @+1 {{'scf.while' op expected a slot to be handed to scf.for only}}
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

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @not_released_in_a_loop(%map: !map, %x: index) kernel {
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

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @not_released_behind_a_loop(%map: !map, %x: index) kernel {
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

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @released_and_handed_on(%map: !map, %x: index) kernel {
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

// -----

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @handed_on_in_flight(%map: !map, %x: index) kernel {
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
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @yielded_in_flight(%map: !map, %x: index) kernel {
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
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @read_by_its_owner_before(%map: !map, %x: index) kernel {
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

// -----

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @store_in_producer(%map: !map, %x: index, %o: !acc, %slot: !slot) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
      // expected-error @+1 {{'tile.store_async' op expected in the consumer only}}
      tile.store_async %o, %map[%c0, %c0, %c0] through %slot : !acc, !map, !slot
    } consumer {
    ^bb0(%w: index):
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @store_wait_in_producer(%map: !map, %x: index, %o: !acc) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
      // expected-error @+1 {{'tile.store_wait' op expected in the consumer only}}
      tile.store_wait
    } consumer {
    ^bb0(%w: index):
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @store_is_not_waited_for(%map: !map, %x: index, %o: !acc) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      // expected-error @+1 {{'tile.store_async' op expected a tile.store_wait between it and the release of its slot}}
      tile.store_async %o, %map[%c0, %c0, %c0] through %s : !acc, !map, !slot
      tile.release %s : !slot
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @store_is_waited_for_before(%map: !map, %x: index, %o: !acc) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      tile.store_wait
      // expected-error @+1 {{'tile.store_async' op expected a tile.store_wait between it and the release of its slot}}
      tile.store_async %o, %map[%c0, %c0, %c0] through %s : !acc, !map, !slot
      tile.release %s : !slot
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @store_behind_the_release(%map: !map, %x: index, %o: !acc) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      tile.release %s : !slot
      // expected-error @+1 {{'tile.store_async' op expected a tile.store_wait between it and the release of its slot}}
      tile.store_async %o, %map[%c0, %c0, %c0] through %s : !acc, !map, !slot
      tile.store_wait
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @store_is_waited_for_behind_the_release(%map: !map, %x: index, %o: !acc) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      // expected-error @+1 {{'tile.store_async' op expected a tile.store_wait between it and the release of its slot}}
      tile.store_async %o, %map[%c0, %c0, %c0] through %s : !acc, !map, !slot
      tile.release %s : !slot
      tile.store_wait
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @store_is_waited_for_in_a_loop(%map: !map, %x: index, %o: !acc) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      // expected-error @+1 {{'tile.store_async' op expected a tile.store_wait between it and the release of its slot}}
      tile.store_async %o, %map[%c0, %c0, %c0] through %s : !acc, !map, !slot
      scf.for %i = %c0 to %x step %c1 {
        tile.store_wait
      }
      tile.release %s : !slot
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @store_in_a_loop(%map: !map, %x: index, %o: !acc) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      scf.for %i = %c0 to %x step %c1 {
        // expected-error @+1 {{'tile.store_async' op expected a tile.store_wait between it and the release of its slot}}
        tile.store_async %o, %map[%c0, %c0, %c0] through %s : !acc, !map, !slot
        tile.store_wait
      }
      tile.release %s : !slot
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @two_stores(%map: !map, %x: index, %o: !acc) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      // expected-error @+1 {{'tile.store_async' op expected one tile to pass through the slot}}
      tile.store_async %o, %map[%c0, %c0, %c0] through %s : !acc, !map, !slot
      tile.store_wait
      tile.store_async %o, %map[%c0, %c0, %c0] through %s : !acc, !map, !slot
      tile.release %s : !slot
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @store_without_release(%map: !map, %x: index, %o: !acc) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      // expected-error @+1 {{'tile.wait' op expected its slot to be released}}
      %s = tile.wait %ring[%c0] : !ring -> !slot
      tile.store_async %o, %map[%c0, %c0, %c0] through %s : !acc, !map, !slot
      tile.store_wait
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @store_beside_a_product(%map: !map, %x: index, %o: !acc) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      // expected-note @+1 {{this product has not been waited for}}
      %t = tile.mma_async %s, %s transpose_b : !slot, !slot -> !tile.token<!acc>
      // expected-error @+1 {{'tile.store_async' op expected no product in flight that reads the slot}}
      tile.store_async %o, %map[%c0, %c0, %c0] through %s : !acc, !map, !slot
      %v = tile.mma_wait %t : !tile.token<!acc> -> !acc
      tile.store_wait
      tile.release %s : !slot
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @product_behind_a_store(%map: !map, %x: index, %o: !acc) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      // expected-error @+1 {{'tile.store_async' op expected no product in flight that reads the slot}}
      tile.store_async %o, %map[%c0, %c0, %c0] through %s : !acc, !map, !slot
      tile.store_wait
      // expected-note @+1 {{this product has not been waited for}}
      %t = tile.mma_async %s, %s transpose_b : !slot, !slot -> !tile.token<!acc>
      %v = tile.mma_wait %t : !tile.token<!acc> -> !acc
      tile.release %s : !slot
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @store_before_it_is_handed_on(%map: !map, %x: index, %o: !acc) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %s = tile.wait %ring[%c0] : !ring -> !slot
      // expected-error @+1 {{'tile.store_async' op expected a tile.store_wait between it and the release of its slot}}
      tile.store_async %o, %map[%c0, %c0, %c0] through %s : !acc, !map, !slot
      %r = scf.for %i = %c0 to %x step %c1 iter_args(%h = %s) -> (!slot) {
        scf.yield %h : !slot
      }
      tile.store_wait
      tile.release %r : !slot
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @producer_argument() kernel {
    // expected-error @+1 {{'tile.warp_specialize' op expected no producer argument}}
    tile.warp_specialize 2 registers(24, 240) producer {
    ^bb0(%t: index):
    } consumer {
    ^bb0(%w: index):
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @consumer_argument() kernel {
    // expected-error @+1 {{'tile.warp_specialize' op expected one consumer argument, the warpgroup (index)}}
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    }
    gpu.return
  }
}
