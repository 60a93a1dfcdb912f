// RUN: %vary %s | flashc-opt --split-input-file --verify-diagnostics

// Every constraint of tile.program. Those of the schedule are in schedule-invalid.mlir.

gpu.module @kernels {
  gpu.func @invalid(%n: index, %list: memref<?xi32>) kernel {
    // BODY
    gpu.return
  }
}

// VARY program_argument
//     tile.program 2 { | error: 'tile.program' op expected one region argument, the warpgroup (index)
//     }
// VARY program_grid
//     tile.program 2 grid(%n, %n) { | error: 'tile.program' op expected a grid of three extents, got 2
//     ^bb0(%w: index):
//     }
// VARY program_sorted
//     tile.program 2 by <sorted> { | error: 'tile.program' op expected a grid together with a distribution of its work tiles
//     ^bb0(%w: index):
//     }
// VARY program_two_orders
//     tile.program 2 grid(%n, %n, %n) list(%list : memref<?xi32>) by <sorted> {
//     | error: 'tile.program' op expected a list and work tiles distributed by it, or neither
//     ^bb0(%w: index):
//     }
// VARY parts_without_a_list
//     tile.program 2 grid(%n, %n, %n) by <paired parts 2> { | error: expected one part of each query tile, or several of a list, got 2
//     ^bb0(%w: index):
//     }
// VARY no_parts
//     tile.program 2 grid(%n, %n, %n) by <sorted parts 0> { | error: expected one part of each query tile, or several of a list, got 0
//     ^bb0(%w: index):
//     }
// VARY program_numbers
//     tile.program 2 grid(%n, %n, %n) by <sorted numbers 2> {
//     | error: expected a list for precomputed numbers, got 2 without one
//     ^bb0(%w: index):
//     }
// VARY program_number
//     tile.program 2 grid(%n, %n, %n) list(%list : memref<?xi32>) by <list numbers 2> {
//     ^bb0(%w: index):
//       %x = tile.list_number 2 | error: 'tile.list_number' op expected a number of the 2 in the list, got 2
//     }
// VARY program_own
//     tile.program 2 grid(%n, %n, %n) by <list own -1> { | error: expected counts of at least 0, got -1
//     ^bb0(%w: index):
//     }
// VARY program_single
//     tile.program 2 single grid(%n, %n, %n) by <grouped> {
//     | error: 'tile.program' op expected work tiles of a single grid to be paired, sorted or of a list
//     ^bb0(%w: index):
//     }
