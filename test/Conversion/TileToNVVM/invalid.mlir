// RUN: flashc-opt %s --convert-tile-to-nvvm --verify-diagnostics

gpu.module @kernels {
  gpu.func @not_specialized() kernel attributes {tile.schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>} {
    // expected-error @+1 {{expected a tile.warp_specialize, got a program: run tile-specialize first}}
    tile.program 1 {
    ^bb0(%w: index):
    }
    gpu.return
  }
}
