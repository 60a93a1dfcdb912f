// RUN: flashc-opt %s --split-input-file --verify-diagnostics

// The ring protocol of tile.warp_specialize, invariants 1 and 2 of TileProtocol.cpp: what each role does, and what the
// producer does in which order. Then the regions of the roles.

!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @consumers_only() kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
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

gpu.module @kernels {
  gpu.func @slopes_in_producer(%rows: tensor<64xf32, #tile.row>) kernel {
    %slopes = tile.alloc_slot slopes : !tile.slot<64, 16, bf16>
    tile.warp_specialize 2 registers(24, 240) producer {
      // expected-error @+1 {{'tile.store_slopes' op expected in the consumer only}}
      tile.store_slopes %rows into %slopes : tensor<64xf32, #tile.row>, !tile.slot<64, 16, bf16>
    } consumer {
    ^bb0(%w: index):
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @turn_in_producer() kernel {
    %c0 = arith.constant 0 : index
    tile.warp_specialize 2 registers(24, 240) producer {
      // expected-error @+1 {{'tile.ping_pong_wait' op expected in the consumer only}}
      tile.ping_pong_wait %c0
    } consumer {
    ^bb0(%w: index):
    }
    gpu.return
  }
}

// -----

!ring = !tile.ring<2, 64, 64, bf16>
gpu.module @kernels {
  gpu.func @producer_only() kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
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

!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
gpu.module @kernels {
  gpu.func @copy_without_acquire(%map: !map) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
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

!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
gpu.module @kernels {
  gpu.func @copy_of_another_count(%map: !map) kernel {
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

!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
gpu.module @kernels {
  gpu.func @copy_for_another_owner(%map: !map) kernel {
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
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
!slot = !tile.slot<64, 64, bf16>
gpu.module @kernels {
  gpu.func @store_in_producer(%map: !map, %o: !acc, %slot: !slot) kernel {
    %c0 = arith.constant 0 : index
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

gpu.module @kernels {
  gpu.func @store_wait_in_producer() kernel {
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

gpu.module @kernels {
  gpu.func @consumer_argument() kernel {
    // expected-error @+1 {{'tile.warp_specialize' op expected one consumer argument, the warpgroup (index)}}
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    }
    gpu.return
  }
}
