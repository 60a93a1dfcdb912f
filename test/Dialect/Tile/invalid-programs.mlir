// RUN: flashc-opt %s --split-input-file --verify-diagnostics

// Every constraint of tile.program. Those of the schedule are in schedule-invalid.mlir.

gpu.module @kernels {
  gpu.func @program_argument() kernel {
    // expected-error @+1 {{'tile.program' op expected one region argument, the warpgroup (index)}}
    tile.program 2 {
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @program_grid(%n: index) kernel {
    // expected-error @+1 {{'tile.program' op expected a grid of three extents, got 2}}
    tile.program 2 grid(%n, %n) {
    ^bb0(%w: index):
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @program_sorted() kernel {
    // expected-error @+1 {{'tile.program' op expected a grid together with a distribution of its work tiles}}
    tile.program 2 by <sorted> {
    ^bb0(%w: index):
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @program_two_orders(%n: index, %list: memref<?xi32>) kernel {
    // expected-error @+1 {{'tile.program' op expected a list and work tiles distributed by it, or neither}}
    tile.program 2 grid(%n, %n, %n) list(%list : memref<?xi32>) by <sorted> {
    ^bb0(%w: index):
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @program_numbers(%n: index) kernel {
    // expected-error @+1 {{expected a list for precomputed numbers, got 2 without one}}
    tile.program 2 grid(%n, %n, %n) by <sorted numbers 2> {
    ^bb0(%w: index):
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @program_number(%n: index, %list: memref<?xi32>) kernel {
    tile.program 2 grid(%n, %n, %n) list(%list : memref<?xi32>) by <list numbers 2> {
    ^bb0(%w: index):
      // expected-error @+1 {{'tile.list_number' op expected a number of the 2 in the list, got 2}}
      %x = tile.list_number 2
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @program_own(%n: index) kernel {
    // expected-error @+1 {{expected counts of at least 0, got -1}}
    tile.program 2 grid(%n, %n, %n) by <list own -1> {
    ^bb0(%w: index):
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @program_single(%n: index) kernel {
    // expected-error @+1 {{'tile.program' op expected work tiles of a single grid to be paired, sorted or of a list}}
    tile.program 2 single grid(%n, %n, %n) by <grouped> {
    ^bb0(%w: index):
    }
    gpu.return
  }
}

