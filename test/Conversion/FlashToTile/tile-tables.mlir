// Tables of tiles are computed by kernels before the attention's, which looks its visits up in the last one.
// RUN: flashc %s --emit=tile --schedule=consumers=1,kv-tile=32,q-stages=1,store=registers -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=TABLES < %t.mlir
// And they say what they should, with every value of every thread:
// RUN: %python %S/Inputs/run_tables.py < %t.mlir | FileCheck %s --check-prefix=VISITS
// VISITS: sorted visits {{[1-9][0-9]*}} tiles, those with a kept pair
// VISITS: blocks visits {{[1-9][0-9]*}} tiles, those with a kept pair
// VISITS: shuffled visits {{[1-9][0-9]*}} tiles, those with a kept pair

// CHECK-LABEL: gpu.func @documents(
// CHECK-SAME:    %[[RUNS:[^ ]*]]: memref<?xi32>, %[[KEEP:[^ ]*]]: memref<?x?xi1
// CHECK-SAME:    %[[LIST:[^ ]*]]: memref<?xi32>) kernel
// CHECK-SAME:    kernel = "documents_classes"
// CHECK-SAME:    kernel = "documents_runs"
// CHECK-SAME:    kernel = "documents_order"
// CHECK-SAME:    sorted = "the bounds of the keys read an array"
// The producer reads from the list how many tiles it visits next, and the key of each from the table.
// CHECK:         tile.warp_specialize
// CHECK:         %[[TOTAL_AT:.*]] = arith.addi %{{.*}}, %c3
// CHECK:         %[[TOTAL32:.*]] = memref.load %[[LIST]][%[[TOTAL_AT]]]
// CHECK:         %[[TOTAL:.*]] = arith.index_cast %[[TOTAL32]]
// CHECK:         scf.for {{.*}}%[[TOTAL_NOW:[a-z0-9]+]] = %[[TOTAL]]
// CHECK:         %[[LIMIT:.*]] = arith.maxsi %[[TOTAL_NOW]], %c1
// CHECK:         scf.for %[[U:.*]] = %c1 to %[[LIMIT]]
// CHECK-COUNT-2:   memref.load %[[RUNS]]
// CHECK-NOT:       memref.load
// CHECK:           tile.copy_async
// CHECK:           tile.copy_async
// CHECK:           scf.yield
// A consumer reads it only where it masks, while products are in flight.
// CHECK:       } consumer {
// CHECK:         scf.for
// CHECK:         scf.for
// CHECK:           tile.mma_async
// CHECK:           memref.load %[[RUNS]]
// CHECK:           tile.mma_wait
// CHECK:           memref.load %[[KEEP]]
// CHECK:         scf.for
// CHECK:           tile.mma_async
// CHECK-NOT:       memref.load
// CHECK:           scf.yield

// The list has the numbers of visits from the table: those with a mask, all, and at least one for the loop.
// TABLES-LABEL: gpu.func @documents_order(
// TABLES-SAME:    %[[RUNS:[^ ]*]]: memref<?xi32>,{{.*}} %[[LIST:[^ ]*]]: memref<?xi32>) kernel
// TABLES:         scf.if
// TABLES:           arith.divui
// TABLES:           %[[TILES:.*]] = arith.ceildivui %{{.*}}, %c32
// TABLES:           %[[SIZE:.*]] = arith.addi %[[TILES]], %c3
// TABLES:           %[[ROW:.*]] = arith.muli %{{.*}}, %[[SIZE]]
// TABLES:           %[[TOTAL_AT:.*]] = arith.addi %[[ROW]], %c1
// TABLES:           %[[TOTAL:.*]] = memref.load %[[RUNS]][%[[TOTAL_AT]]]
// TABLES:           %[[COUNT:.*]] = arith.index_cast %[[TOTAL]]
// TABLES:           %[[LIMIT:.*]] = arith.maxsi %[[COUNT]], %c1
// TABLES:           %[[MASKED:.*]] = memref.load %[[RUNS]][%[[ROW]]]
// TABLES:           memref.store %[[MASKED]], %[[LIST]]
// TABLES:           memref.store %[[TOTAL]], %[[LIST]]
// TABLES:           %[[LIMIT32:.*]] = arith.index_cast %[[LIMIT]]
// TABLES:           memref.store %[[LIMIT32]], %[[LIST]]

// A lane has every 32nd position of a tile: two of 64 queries, and one of 32 keys. Of 64 bits the upper ones come first.
// TABLES-LABEL: gpu.func @documents_classes(
// TABLES:         scf.if
// TABLES-COUNT-2:   memref.load %{{.*}} : memref<?x?xi64
// TABLES:           nvvm.redux.sync min
// TABLES:           nvvm.redux.sync umin
// TABLES:           nvvm.redux.sync max
// TABLES:           nvvm.redux.sync umax
// TABLES:           memref.load %{{.*}} : memref<?x?xi64
// TABLES:           nvvm.redux.sync min
// TABLES:           nvvm.redux.sync umin
// TABLES:           nvvm.redux.sync max
// TABLES:           nvvm.redux.sync umax
// TABLES:           memref.load %{{.*}} : memref<?x?xi1
// TABLES:           nvvm.redux.sync min
// TABLES:           nvvm.redux.sync max
// If a tile's class is not known, its warp evaluates the mask for eight queries that are eight apart.
// TABLES:           scf.if %{{.*}} -> (i1)
// TABLES-COUNT-8:     arith.minui
// TABLES-COUNT-2:     nvvm.vote.sync ballot
// TABLES-NOT:         nvvm.vote.sync
// What is open then all warps run, if there is such a tile in the CTA.
// TABLES:         nvvm.barrier #nvvm.reduction<or>
// TABLES:         scf.if %{{.*}} -> (i32)
// TABLES:           scf.for %{{.*}} = %c0 to %c8 step %c1
// TABLES:             nvvm.barrier #nvvm.reduction<or>
// TABLES:             scf.if %{{.*}} -> (i32)
// TABLES:               scf.while
// TABLES:                 scf.condition
// TABLES-COUNT-8:         arith.minui
// TABLES-COUNT-2:         nvvm.barrier #nvvm.reduction<or>
// TABLES-NOT:             nvvm.vote.sync
// TABLES:       gpu.func @documents_runs(
// Twice: how many tiles are visited with a mask and without, and where each has its place.
// TABLES:         scf.for %{{.*}} step %c1024
// TABLES-COUNT-2:   nvvm.vote.sync ballot
// TABLES-COUNT-2:   llvm.intr.ctpop
// TABLES:         scf.for %{{.*}} step %c1024
// TABLES-COUNT-2:   nvvm.vote.sync ballot
// TABLES-COUNT-2:   memref.store
// TABLES-COUNT-3: memref.store
func.func @documents(%q: tensor<?x4x?x64xbf16>, %k: tensor<?x2x?x64xbf16>, %v: tensor<?x2x?x64xbf16>, %doc: tensor<?x?xi64>,
                     %keep: tensor<?x?xi1>) -> tensor<?x4x?x64xbf16> {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<?x4x?x64xbf16>, tensor<?x2x?x64xbf16>, tensor<?x2x?x64xbf16>)
      {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %doc[%b, %i] : tensor<?x?xi64>
        %y = tensor.extract %doc[%b, %j] : tensor<?x?xi64>
        %same = arith.cmpi eq, %x, %y : i64
        %flag = tensor.extract %keep[%b, %j] : tensor<?x?xi1>
        %seen = arith.cmpi sle, %j, %i : index
        %both = arith.andi %same, %flag : i1
        %all = arith.andi %both, %seen : i1
        flash.yield %all : i1
      } -> tensor<?x4x?x64xbf16>, tensor<?x4x?xf32>
  return %o : tensor<?x4x?x64xbf16>
}
