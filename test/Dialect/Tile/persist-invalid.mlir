// RUN: flashc-opt %s --tile-persist --verify-diagnostics


#schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>

gpu.module @kernels {
  gpu.func @no_list(%n: index, %map: !tile.tensor_map<64 x bf16>) kernel attributes {tile.schedule = #schedule} {
    // expected-error @below {{'tile.program' op expected a list of its work tiles, which tile-order makes}}
    tile.program 1 grid(%n, %n, %n) by <sorted> {
    ^bb0(%w: index):
      %x = gpu.block_id x
    }
    gpu.return
  }
}
