// Runs of tiles are on a grid: what a mask divides by a multiple of the tile is the same for all of it, and so is the
// element of a table of blocks there. It is read once, in front of the map, and not for every pair.
// RUN: flashc %s --emit=tile --schedule=consumers=2,kv-tile=64,q-stages=1,store=registers | FileCheck %s
// Where a tile is larger than a block, or blocks end inside of one, each pair reads its own.
// RUN: flashc %s --emit=tile --schedule=consumers=2,kv-tile=128,q-stages=1,store=registers | FileCheck %s --check-prefix=PAIRS
// RUN: sed 's/constant 64/constant 96/' %s | flashc - --emit=tile --schedule=consumers=2,kv-tile=64,q-stages=1,store=registers | FileCheck %s --check-prefix=PAIRS

!q = tensor<1x4x?x64xbf16>

// CHECK-LABEL: gpu.func @blocks(
// CHECK-SAME:    %[[BLOCKS:[^ ]*]]: memref<?x?xi1
// CHECK:       } consumer {
// CHECK:         tile.mma_async
// CHECK:         tile.mma_wait
// CHECK-DAG:     %[[X:.*]] = arith.divui %[[ROW:.*]], %c64
// CHECK-DAG:     %[[Y:.*]] = arith.divui %[[COL:.*]], %c64
// CHECK-DAG:     %[[X_LEAST:.*]] = arith.minsi %[[X]]
// CHECK-DAG:     %[[X_INSIDE:.*]] = arith.maxsi %[[X_LEAST]]
// CHECK-DAG:     %[[Y_LEAST:.*]] = arith.minsi %[[Y]]
// CHECK-DAG:     %[[Y_INSIDE:.*]] = arith.maxsi %[[Y_LEAST]]
// CHECK:         memref.load %[[BLOCKS]][%[[X_INSIDE]], %[[Y_INSIDE]]]
// CHECK:         tile.map %{{.*}} at(%[[ROW]], %[[COL]]) {
// What hangs on the key alone is in a table (flash-tabulate-columns).
// CHECK-NOT:       memref<?x?xi1
// CHECK:           %[[EARLY:.*]] = arith.trunci %{{.*}} : i32 to i1
// CHECK:           arith.andi %{{.*}}, %[[EARLY]]
// CHECK:           tile.yield

// PAIRS-LABEL: gpu.func @blocks(
// PAIRS:         tile.mma_wait
// PAIRS-NOT:     memref.load
// PAIRS:         tile.map
// PAIRS:           memref.load %{{.*}} : memref<?x?xi1
// PAIRS:           tile.yield
func.func @blocks(%q: !q, %k: !q, %v: !q, %blocks: tensor<?x?xi1>) -> !q {
  %c64 = arith.constant 64 : index
  %c7 = arith.constant 7 : index
  %c5 = arith.constant 5 : index
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = arith.divui %i, %c64 : index
        %y = arith.divui %j, %c64 : index
        %block = tensor.extract %blocks[%x, %y] : tensor<?x?xi1>
        %place = arith.remui %j, %c7 : index
        %early = arith.cmpi ult, %place, %c5 : index
        %keep = arith.andi %block, %early : i1
        flash.yield %keep : i1
      } -> !q, tensor<1x4x?xf32>
  return %o : !q
}
