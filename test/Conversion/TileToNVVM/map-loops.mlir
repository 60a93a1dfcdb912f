// A map of more code than is emitted for every element: a loop for each of a thread's two rows. It carries the elements
// of the row; the one in turn is the first, and its new value the last, so that all are in their places behind the loop.
// What is the same in the row stands in front.
// RUN: %python %S/Inputs/repeat_line.py %s 400 | flashc-opt --convert-tile-to-nvvm | FileCheck %s
// Less code: none.
// RUN: %python %S/Inputs/repeat_line.py %s 100 | flashc-opt --convert-tile-to-nvvm | FileCheck %s --check-prefix=SMALL

!acc = tensor<64x48xf32, #tile.acc>
#schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @large
  // CHECK-SAME: passthrough = ["flashc-long-code"]
  // CHECK: arith.muli
  // CHECK: %[[END:.*]] = arith.constant 12 : index
  // CHECK: scf.for %[[N:.*]] = %{{.*}} to %[[END]]
  // CHECK-SAME: iter_args(%[[FIRST:[a-z0-9]*]] = %{{[^,]*}}, %[[SECOND:[a-z0-9]*]] = {{.*}} -> (f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)
  // CHECK: %[[BLOCK:.*]] = arith.shrui %[[N]]
  // CHECK: %[[COLUMN:.*]] = arith.muli %[[BLOCK]]
  // CHECK: %[[WORD:.*]] = arith.andi %[[N]]
  // CHECK: arith.addi %[[COLUMN]], %[[WORD]]
  // CHECK: %[[NEW:.*]] = arith.select %{{.*}}, %[[FIRST]], %
  // CHECK-NEXT: scf.yield %[[SECOND]], {{.*}}, %[[NEW]] :
  // CHECK: arith.muli
  // CHECK: scf.for
  // CHECK-NOT: scf.for
  // SMALL-NOT: flashc-long-code
  // SMALL-NOT: scf.for
  gpu.func @large(%n: index, %row: index, %col: index) kernel attributes {tile.schedule = #schedule} {
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %x = arith.constant dense<2.0> : !acc
      %y = tile.map %x at(%row, %col) {
      ^bb0(%s: f32, %i: index, %j: index):
        %cut = arith.constant -1.0 : f32
        %square = arith.muli %i, %i : index
        %x0 = arith.xori %square, %j : index
        // REPEAT %x{next} = arith.addi %x{number}, %j : index
        %keep = arith.cmpi slt, %x{last}, %n : index
        %r = arith.select %keep, %s, %cut : f32
        tile.yield %r : f32
      } : !acc
    }
    gpu.return
  }
}
