// RUN: flashc-opt %s --split-input-file --tile-order --verify-diagnostics

#schedule = #tile.schedule<consumers = 1, kv_tile = 64, stages = 2, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>

gpu.module @kernels {
  gpu.func @by_warpgroup(%n: index, %map: !tile.tensor_map<64 x bf16>) kernel attributes {tile.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %ring = tile.alloc_ring : !tile.ring<2, 64, 64, bf16>
    // expected-error @below {{'tile.program' op cannot sort its points: expected the loop over keys to be as long as scalar code says}}
    tile.program 1 grid(%n, %n, %n) sorted {
    // expected-note @below {{it depends on this value}}
    ^bb0(%w: index):
      %total = arith.addi %w, %c1 : index
      scf.for %u = %c0 to %total step %c1 {
        %k = tile.load %map[%c0, %c0, %u] into %ring : !tile.tensor_map<64 x bf16>, !tile.ring<2, 64, 64, bf16> -> !tile.slot<64, 64, bf16>
      }
    }
    gpu.return
  }
}

// -----

#schedule = #tile.schedule<consumers = 1, kv_tile = 64, stages = 2, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>

gpu.module @kernels {
  gpu.func @in_steps(%n: index, %map: !tile.tensor_map<64 x bf16>) kernel attributes {tile.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %ring = tile.alloc_ring : !tile.ring<2, 64, 64, bf16>
    // expected-error @below {{'tile.program' op cannot sort its points: expected a loop over keys in steps of one}}
    tile.program 1 grid(%n, %n, %n) sorted {
    ^bb0(%w: index):
      scf.for %u = %c0 to %n step %c2 {
        %k = tile.load %map[%c0, %c0, %u] into %ring : !tile.tensor_map<64 x bf16>, !tile.ring<2, 64, 64, bf16> -> !tile.slot<64, 64, bf16>
      }
    }
    gpu.return
  }
}
