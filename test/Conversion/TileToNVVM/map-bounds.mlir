// What tile.map means stays what it is, whatever the bounds on j are merged to and compared with: the program before and
// after is run for limits near the tile and far from it, on some threads.
// RUN: %vary %s | flashc-opt --mlir-print-unique-ssa-ids > %t.before
// RUN: %vary %s | flashc-opt --convert-tile-to-nvvm --mlir-print-unique-ssa-ids | %python %S/Inputs/run_maps.py %t.before
// RUN: %vary %s | flashc-opt --canonicalize --convert-tile-to-nvvm --mlir-print-unique-ssa-ids \
// RUN:   | %python %S/Inputs/run_maps.py %t.before

!acc = tensor<64x16xf32, #tile.acc>
#schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>

gpu.module @kernels {
  func.func private @visit(index, index, f32)

  // n > j, i >= j, j > m, j >= i - 5, and s > 100
  gpu.func @both_sides(%n: index, %m: index, %row: index, %col: index) kernel attributes {tile.schedule = #schedule} {
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %zero = arith.constant dense<0.0> : !acc
      %x = tile.map %zero at(%row, %col) {
      ^bb0(%s: f32, %i: index, %j: index):
        %c5 = arith.constant 5 : index
        %c37 = arith.constant 37 : index
        %c255 = arith.constant 255 : index
        %i5 = arith.muli %i, %c5 : index
        %j37 = arith.muli %j, %c37 : index
        %sum = arith.addi %i5, %j37 : index
        %low = arith.andi %sum, %c255 : index
        %low32 = arith.index_cast %low : index to i32
        %value = arith.sitofp %low32 : i32 to f32
        tile.yield %value : f32
      } : !acc
      %y = tile.map %x at(%row, %col) {
      ^bb0(%s: f32, %i: index, %j: index):
        %cut = arith.constant -1.0 : f32
        %many = arith.constant 100 : i32
        %c5 = arith.constant 5 : index
        %oldest = arith.subi %i, %c5 : index
        %s32 = arith.fptosi %s : f32 to i32
        %a = arith.cmpi sgt, %n, %j : index
        %b = arith.cmpi sge, %i, %j : index
        %c = arith.cmpi sgt, %j, %m : index
        %d = arith.cmpi sge, %j, %oldest : index
        %e = arith.cmpi sgt, %s32, %many : i32
        %ac = arith.andi %a, %c : i1
        %eb = arith.andi %e, %b : i1
        %ebd = arith.andi %eb, %d : i1
        %all = arith.andi %ac, %ebd : i1
        %r = arith.select %all, %s, %cut : f32
        func.call @visit(%i, %j, %r) : (index, index, f32) -> ()
        tile.yield %r : f32
      } : !acc
    }
    gpu.return
  }

  // j <= s and j <= n: a limit that differs within a row.
  gpu.func @limit_of_element(%n: index, %m: index, %row: index, %col: index) kernel attributes {tile.schedule = #schedule} {
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %zero = arith.constant dense<0.0> : !acc
      %x = tile.map %zero at(%row, %col) {
      ^bb0(%s: f32, %i: index, %j: index):
        %c37 = arith.constant 37 : index
        %c31 = arith.constant 31 : index
        %j37 = arith.muli %j, %c37 : index
        %low = arith.andi %j37, %c31 : index
        %near = arith.addi %low, %col : index
        %near32 = arith.index_cast %near : index to i32
        %value = arith.sitofp %near32 : i32 to f32
        tile.yield %value : f32
      } : !acc
      %y = tile.map %x at(%row, %col) {
      ^bb0(%s: f32, %i: index, %j: index):
        %cut = arith.constant -1.0 : f32
        %s32 = arith.fptosi %s : f32 to i32
        %limit = arith.index_cast %s32 : i32 to index
        %a = arith.cmpi sle, %j, %limit : index
        %b = arith.cmpi sle, %j, %n : index
        %ab = arith.andi %a, %b : i1
        %r = arith.select %ab, %s, %cut : f32
        func.call @visit(%i, %j, %r) : (index, index, f32) -> ()
        tile.yield %r : f32
      } : !acc
    }
    gpu.return
  }

  // not (j <= i or j < n), and i > m: bounds beside what is the same in a row, as words; joined with s > 100, as bits.
  gpu.func @words(%n: index, %m: index, %row: index, %col: index) kernel attributes {tile.schedule = #schedule} {
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %zero = arith.constant dense<0.0> : !acc
      %x = tile.map %zero at(%row, %col) {
      ^bb0(%s: f32, %i: index, %j: index):
        %c37 = arith.constant 37 : index
        %c255 = arith.constant 255 : index
        %j37 = arith.muli %j, %c37 : index
        %low = arith.andi %j37, %c255 : index
        %low32 = arith.index_cast %low : index to i32
        %value = arith.sitofp %low32 : i32 to f32
        tile.yield %value : f32
      } : !acc
      %y = tile.map %x at(%row, %col) {
      ^bb0(%s: f32, %i: index, %j: index):
        %cut = arith.constant -1.0 : f32
        %true = arith.constant true
        %many = arith.constant 20 : i32
        %s32 = arith.fptosi %s : f32 to i32
        %a = arith.cmpi sle, %j, %i : index
        %b = arith.cmpi slt, %j, %n : index
        %ab = arith.ori %a, %b : i1
        %not = arith.xori %ab, %true : i1
        %c = arith.cmpi sgt, %i, %m : index
        %d = arith.cmpi sgt, %s32, %many : i32
        %row_wise = arith.xori %not, %c : i1
        %all = arith.andi %row_wise, %d : i1
        %r = arith.select %all, %s, %cut : f32
        func.call @visit(%i, %j, %r) : (index, index, f32) -> ()
        tile.yield %r : f32
      } : !acc
    }
    gpu.return
  }

  // A distance as a number, where j <= i + n; its magnitude beyond.
  gpu.func @positions(%n: index, %m: index, %row: index, %col: index) kernel attributes {tile.schedule = #schedule} {
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %x = arith.constant dense<2.0> : !acc
      %y = tile.map %x at(%row, %col) {
      ^bb0(%s: f32, %i: index, %j: index):
        %cut = arith.constant -1.0 : f32
        %c3 = arith.constant 3 : index
        %i3 = arith.muli %i, %c3 : index
        %c2 = arith.constant 2 : index
        %jm = arith.muli %j, %c2 : index
        %difference = arith.subi %jm, %i3 : index
        %wide = arith.index_cast %difference : index to i64
        %distance = arith.index_cast %wide : i64 to index
        %distance32 = arith.index_cast %distance : index to i32
        %number = arith.sitofp %distance32 : i32 to f32
        %magnitude32 = math.absi %distance32 : i32
        %magnitude = arith.sitofp %magnitude32 : i32 to f32
        %c0 = arith.constant 0 : index
        %other = arith.subi %i, %j : index
        %minus = arith.subi %c0, %other : index
        %largest = arith.maxsi %minus, %other : index
        %largest64 = arith.index_cast %largest : index to i64
        %size = arith.sitofp %largest64 : i64 to f32
        %sum = arith.addf %number, %size : f32
        %a = arith.cmpi sle, %j, %n : index
        %b = arith.cmpi sge, %j, %m : index
        %t = arith.select %a, %sum, %cut : f32
        %r = arith.select %b, %t, %magnitude : f32
        func.call @visit(%i, %j, %r) : (index, index, f32) -> ()
        tile.yield %r : f32
      } : !acc
    }
    gpu.return
  }

  // EACH
  gpu.func @NAME(%n: index, %m: index, %row: index, %col: index) kernel attributes {tile.schedule = #schedule} {
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %x = arith.constant dense<2.0> : !acc
      %y = tile.map %x at(%row, %col) {
      ^bb0(%s: f32, %i: index, %j: index):
        %cut = arith.constant -1.0 : f32
        // BODY
        %r = arith.select %keep, %s, %cut : f32
        func.call @visit(%i, %j, %r) : (index, index, f32) -> ()
        tile.yield %r : f32
      } : !acc
    }
    gpu.return
  }
  // EACH
}

// j <= i and j < n
// VARY two_upper
//     %a = arith.cmpi sle, %j, %i : index
//     %b = arith.cmpi slt, %j, %n : index
//     %keep = arith.andi %a, %b : i1

// i - n < j and m <= j
// VARY two_lower
//     %oldest = arith.subi %i, %n : index
//     %a = arith.cmpi slt, %oldest, %j : index
//     %b = arith.cmpi sle, %m, %j : index
//     %keep = arith.andi %a, %b : i1

// n > j or j > m: bounds that are not merged.
// VARY either
//     %a = arith.cmpi sgt, %n, %j : index
//     %b = arith.cmpi sgt, %j, %m : index
//     %keep = arith.ori %a, %b : i1

// j + 3 < n and m <= j - 2, or j = i - 4: bounds on functions of j. The canonicalizer takes positions to be below 2^30.
// VARY functions_of_j_near
//     %c2 = arith.constant 2 : index
//     %c3 = arith.constant 3 : index
//     %c4 = arith.constant 4 : index
//     %behind = arith.addi %j, %c3 : index
//     %before = arith.subi %j, %c2 : index
//     %a = arith.cmpi slt, %behind, %n : index
//     %b = arith.cmpi sle, %m, %before : index
//     %both = arith.andi %a, %b : i1
//     %distance = arith.subi %i, %j : index
//     %c = arith.cmpi eq, %distance, %c4 : index
//     %keep = arith.ori %both, %c : i1
