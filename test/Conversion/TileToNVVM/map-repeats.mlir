// A condition that repeats along the keys is the bits of words (MapOp), and means what it means element by element: the
// program before and after is run for tiles near and far. It is computed for the elements before it repeats, and no others.
// RUN: %vary %s | flashc-opt --mlir-print-unique-ssa-ids > %t.before
// RUN: %vary %s | flashc-opt --convert-tile-to-nvvm --mlir-print-unique-ssa-ids | %python %S/Inputs/run_maps.py %t.before 48
// A tile of two words in each row.
// RUN: sed 's/64x48/64x144/' %s > %t.wide
// RUN: %vary %t.wide | flashc-opt --mlir-print-unique-ssa-ids > %t.before
// RUN: %vary %t.wide | flashc-opt --convert-tile-to-nvvm --mlir-print-unique-ssa-ids \
// RUN:   | %python %S/Inputs/run_maps.py %t.before 144 third
// RUN: %vary %s | flashc-opt --convert-tile-to-nvvm --canonicalize --cse | FileCheck %s

!acc = tensor<64x48xf32, #tile.acc>
#schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>

gpu.module @kernels {
  func.func private @visit(index, index, f32)

  // s mod 2 = j mod 2, of the score s, which is another one at every key: element by element
  // CHECK-LABEL: gpu.func @of_score_near
  // CHECK-COUNT-12: arith.fptosi
  // CHECK-NOT: arith.fptosi
  gpu.func @of_score_near(%n: index, %m: index, %row: index, %col: index) kernel attributes {tile.schedule = #schedule} {
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %x = arith.constant dense<2.0> : !acc
      %scores = tile.map %x at(%row, %col) {
      ^bb0(%s: f32, %i: index, %j: index):
        %c = arith.constant 3 : index
        %third = arith.floordivsi %j, %c : index
        %third32 = arith.index_cast %third : index to i32
        %r = arith.sitofp %third32 : i32 to f32
        tile.yield %r : f32
      } : !acc
      %y = tile.map %scores at(%row, %col) {
      ^bb0(%s: f32, %i: index, %j: index):
        %cut = arith.constant -1.0 : f32
        %c1 = arith.constant 1 : i32
        %score = arith.fptosi %s : f32 to i32
        %key = arith.index_cast %j : index to i32
        %ofScore = arith.andi %score, %c1 : i32
        %ofKey = arith.andi %key, %c1 : i32
        %keep = arith.cmpi eq, %ofScore, %ofKey : i32
        %r = arith.select %keep, %s, %cut : f32
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

// (i - j) mod 2 = 0 and j <= n: one element of each column, for both rows of a thread the same
// CHECK-LABEL: gpu.func @even
// CHECK-COUNT-4: arith.andi {{.*}} : index
// CHECK-NOT: arith.andi {{.*}} : index
// VARY even
//     %c0 = arith.constant 0 : index
//     %distance = arith.subi %i, %j : index
//     %c1 = arith.constant 1 : index
//     %rest = arith.andi %distance, %c1 : index
//     %same = arith.cmpi eq, %rest, %c0 : index
//     %a = arith.cmpi sle, %j, %n : index
//     %keep = arith.andi %same, %a : i1

// (i - j) mod 3 = 0, or j < m: three blocks of two columns, in two rows
// CHECK-LABEL: gpu.func @third
// CHECK-COUNT-12: arith.floordivsi
// CHECK-NOT: arith.floordivsi
// VARY third
//     %c0 = arith.constant 0 : index
//     %distance = arith.subi %i, %j : index
//     %c = arith.constant 3 : index
//     %quotient = arith.floordivsi %distance, %c : index
//     %product = arith.muli %quotient, %c : index
//     %rest = arith.subi %distance, %product : index
//     %same = arith.cmpi eq, %rest, %c0 : index
//     %a = arith.cmpi slt, %j, %m : index
//     %keep = arith.ori %same, %a : i1

// (2 j + i) mod 5 < 2, of a coefficient and a comparison of order
// CHECK-LABEL: gpu.func @fifth_near
// CHECK-COUNT-20: arith.floordivsi
// CHECK-NOT: arith.floordivsi
// VARY fifth_near
//     %c0 = arith.constant 0 : index
//     %c2 = arith.constant 2 : index
//     %double = arith.muli %j, %c2 : index
//     %sum = arith.addi %double, %i : index
//     %c = arith.constant 5 : index
//     %quotient = arith.floordivsi %sum, %c : index
//     %product = arith.muli %quotient, %c : index
//     %rest = arith.subi %sum, %product : index
//     %keep = arith.cmpi slt, %rest, %c2 : index

// j rem 12 != 0 and i >= m: three blocks again
// CHECK-LABEL: gpu.func @divisible
// CHECK-COUNT-6: arith.remsi
// CHECK-NOT: arith.remsi
// VARY divisible
//     %c0 = arith.constant 0 : index
//     %c12 = arith.constant 12 : index
//     %rest = arith.remsi %j, %c12 : index
//     %other = arith.cmpi ne, %rest, %c0 : index
//     %a = arith.cmpi sge, %i, %m : index
//     %keep = arith.andi %other, %a : i1

// j mod 3 = i mod 2: a comparison of what repeats with what is the same in a row
// CHECK-LABEL: gpu.func @both
// CHECK-COUNT-8: arith.floordivsi
// CHECK-NOT: arith.floordivsi
// VARY both
//     %c0 = arith.constant 0 : index
//     %jc = arith.constant 3 : index
//     %jquotient = arith.floordivsi %j, %jc : index
//     %jproduct = arith.muli %jquotient, %jc : index
//     %jrest = arith.subi %j, %jproduct : index
//     %ic = arith.constant 2 : index
//     %iquotient = arith.floordivsi %i, %ic : index
//     %iproduct = arith.muli %iquotient, %ic : index
//     %irest = arith.subi %i, %iproduct : index
//     %keep = arith.cmpi eq, %jrest, %irest : index

// j mod 7 = 0 repeats after seven blocks, of six in the tile: element by element
// CHECK-LABEL: gpu.func @long
// CHECK-COUNT-12: arith.floordivsi
// CHECK-NOT: arith.floordivsi
// VARY long
//     %c0 = arith.constant 0 : index
//     %c = arith.constant 7 : index
//     %quotient = arith.floordivsi %j, %c : index
//     %product = arith.muli %quotient, %c : index
//     %rest = arith.subi %j, %product : index
//     %keep = arith.cmpi eq, %rest, %c0 : index

// (i - j) rem 3 = -1 depends on the sign: element by element
// CHECK-LABEL: gpu.func @sign
// CHECK-COUNT-24: arith.remsi
// CHECK-NOT: arith.remsi
// VARY sign
//     %c0 = arith.constant 0 : index
//     %c3 = arith.constant 3 : index
//     %least = arith.constant -1 : index
//     %distance = arith.subi %i, %j : index
//     %rest = arith.remsi %distance, %c3 : index
//     %negative = arith.cmpi eq, %rest, %least : index
//     %a = arith.cmpi sle, %j, %n : index
//     %keep = arith.ori %negative, %a : i1

// j rem 3 != n rem 3: a key is not negative
// CHECK-LABEL: gpu.func @remainder_of_key
// CHECK-COUNT-7: arith.remsi
// CHECK-NOT: arith.remsi
// VARY remainder_of_key
//     %c0 = arith.constant 0 : index
//     %c3 = arith.constant 3 : index
//     %rest = arith.remsi %j, %c3 : index
//     %other = arith.remsi %n, %c3 : index
//     %keep = arith.cmpi ne, %rest, %other : index
