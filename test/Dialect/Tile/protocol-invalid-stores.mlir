// RUN: flashc-opt %s --split-input-file --verify-diagnostics

// The ring protocol of tile.warp_specialize, invariants 3 and 4 of TileProtocol.cpp where a tile is stored through a slot.

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @store_is_not_waited_for(%map: !map, %o: !acc) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
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
  gpu.func @store_is_waited_for_before(%map: !map, %o: !acc) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
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
  gpu.func @store_behind_the_release(%map: !map, %o: !acc) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
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
  gpu.func @store_is_waited_for_behind_the_release(%map: !map, %o: !acc) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
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
  gpu.func @two_stores(%map: !map, %o: !acc) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
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
  gpu.func @store_without_release(%map: !map, %o: !acc) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
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
  gpu.func @store_beside_a_product(%map: !map, %o: !acc) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
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
  gpu.func @product_behind_a_store(%map: !map, %o: !acc) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
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
