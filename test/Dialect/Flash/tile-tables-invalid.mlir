// RUN: %vary %s | flashc-opt --split-input-file --verify-diagnostics

func.func @invalid(%n: index) {
  // BODY
  return
}

// VARY tile
//     %0, %1 = flash.tile_range(%n, %n, %n below %n) tile 0 { | error: expected a positive tile, got 0
//     ^bb0(%b: index, %h: index, %i: index):
//       %c = arith.constant 1 : i32
//       flash.yield %c : i32
//     }
// VARY positions
//     %0, %1 = flash.tile_range(%n, %n, %n below %n) tile 4 {
//     | error: expected the region to take ('index', 'index', 'index'), got ('index')
//     ^bb0(%i: index):
//       %c = arith.constant 1 : i32
//       flash.yield %c : i32
//     }
// VARY real
//     %0, %1 = flash.tile_range(%n, %n, %n below %n) tile 4 {
//     | error: expected the region to yield an i1, an i32 or an i64
//     ^bb0(%b: index, %h: index, %i: index):
//       %c = arith.constant 1.0 : f32
//       flash.yield %c : f32
//     }
// VARY tiles
//     %0 = flash.tile_runs(%n, %n, %n, %n) tiles(16, 0) { | error: expected positive tiles, got 16 and 0
//     ^bb0(%b: index, %h: index, %i: index, %j: index):
//       %c = arith.constant 1 : i32
//       flash.yield %c : i32
//     } : tensor<?x?x?x4x4xi32>
// VARY table
//     %0 = flash.tile_runs(%n, %n, %n, %n) tiles(16, 16) {
//     | error: expected a result of type tensor<?x?x?xRx4xi32>, got 'tensor<?x?x?x?x4xi32>'
//     ^bb0(%b: index, %h: index, %i: index, %j: index):
//       %c = arith.constant 1 : i32
//       flash.yield %c : i32
//     } : tensor<?x?x?x?x4xi32>
// VARY arguments
//     %0 = flash.tile_runs(%n, %n, %n, %n) tiles(16, 16) {
//     | error: expected the region to take ('index', 'index', 'index', 'index'), got ('index')
//     ^bb0(%j: index):
//       %c = arith.constant 1 : i32
//       flash.yield %c : i32
//     } : tensor<?x?x?x4x4xi32>
// VARY class
//     %0 = flash.tile_runs(%n, %n, %n, %n) tiles(16, 16) { | error: expected the region to yield an i32
//     ^bb0(%b: index, %h: index, %i: index, %j: index):
//       %c = arith.constant true
//       flash.yield %c : i1
//     } : tensor<?x?x?x4x4xi32>
// VARY rank
//     %0 = flash.row_table(%n, %n, %n) {
//     | error: expected a result with the extents of the operands, got 'tensor<?x?xi32>'
//     ^bb0(%b: index, %h: index, %i: index):
//       %c = arith.constant 1 : i32
//       flash.yield %c : i32
//     } : tensor<?x?xi32>
// VARY key
//     %0 = flash.row_table(%n, %n, %n) {
//     | error: expected the region to take ('index', 'index', 'index'), got ('index', 'index', 'index', 'index')
//     ^bb0(%b: index, %h: index, %i: index, %j: index):
//       %c = arith.constant 1 : i32
//       flash.yield %c : i32
//     } : tensor<?x?x?xi32>
