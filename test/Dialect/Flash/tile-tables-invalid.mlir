// RUN: flashc-opt %s --split-input-file --verify-diagnostics

func.func @tile(%n: index) {
  // expected-error @+1 {{expected a positive tile, got 0}}
  %0, %1 = flash.tile_range(%n, %n, %n below %n) tile 0 {
  ^bb0(%b: index, %h: index, %i: index):
    %c = arith.constant 1 : i32
    flash.yield %c : i32
  }
  return
}

// -----

func.func @positions(%n: index) {
  // expected-error @+1 {{expected the region to take ('index', 'index', 'index'), got ('index')}}
  %0, %1 = flash.tile_range(%n, %n, %n below %n) tile 4 {
  ^bb0(%i: index):
    %c = arith.constant 1 : i32
    flash.yield %c : i32
  }
  return
}

// -----

func.func @real(%n: index) {
  // expected-error @+1 {{expected the region to yield an i1, an i32 or an i64}}
  %0, %1 = flash.tile_range(%n, %n, %n below %n) tile 4 {
  ^bb0(%b: index, %h: index, %i: index):
    %c = arith.constant 1.0 : f32
    flash.yield %c : f32
  }
  return
}

// -----

func.func @tiles(%n: index) {
  // expected-error @+1 {{expected positive tiles, got 16 and 0}}
  %0 = flash.tile_runs(%n, %n, %n, %n) tiles(16, 0) {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %c = arith.constant 1 : i32
    flash.yield %c : i32
  } : tensor<?x?x?x4x4xi32>
  return
}

// -----

func.func @table(%n: index) {
  // expected-error @+1 {{expected a result of type tensor<?x?x?xRx4xi32>, got 'tensor<?x?x?x?x4xi32>'}}
  %0 = flash.tile_runs(%n, %n, %n, %n) tiles(16, 16) {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %c = arith.constant 1 : i32
    flash.yield %c : i32
  } : tensor<?x?x?x?x4xi32>
  return
}

// -----

func.func @arguments(%n: index) {
  // expected-error @+1 {{expected the region to take ('index', 'index', 'index', 'index'), got ('index')}}
  %0 = flash.tile_runs(%n, %n, %n, %n) tiles(16, 16) {
  ^bb0(%j: index):
    %c = arith.constant 1 : i32
    flash.yield %c : i32
  } : tensor<?x?x?x4x4xi32>
  return
}

// -----

func.func @class(%n: index) {
  // expected-error @+1 {{expected the region to yield an i32}}
  %0 = flash.tile_runs(%n, %n, %n, %n) tiles(16, 16) {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %c = arith.constant true
    flash.yield %c : i1
  } : tensor<?x?x?x4x4xi32>
  return
}

// -----

func.func @rank(%n: index) {
  // expected-error @+1 {{expected a result with the extents of the operands, got 'tensor<?x?xi32>'}}
  %0 = flash.row_table(%n, %n, %n) {
  ^bb0(%b: index, %h: index, %i: index):
    %c = arith.constant 1 : i32
    flash.yield %c : i32
  } : tensor<?x?xi32>
  return
}

// -----

func.func @key(%n: index) {
  // expected-error @+1 {{expected the region to take ('index', 'index', 'index'), got ('index', 'index', 'index', 'index')}}
  %0 = flash.row_table(%n, %n, %n) {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %c = arith.constant 1 : i32
    flash.yield %c : i32
  } : tensor<?x?x?xi32>
  return
}

