// What a mask searches for a query is computed by a kernel before the attention's, a thread for each row of a table.
// RUN: flashc %s --emit=tile --schedule=consumers=1,kv-tile=32,q-stages=1,wait-after=0,store=registers -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=TABLES < %t.mlir
// And that finds what it should, with every value of every thread:
// RUN: %python %S/Inputs/run_row_tables.py < %t.mlir | FileCheck %s --check-prefix=ROWS
// ROWS: 5 calls, 0 wrong rows
// RUN: flashc %s --emit=tile --print-decisions -o /dev/null 2>&1 | FileCheck %s --check-prefix=CLASS
// CLASS: mask=several rows=listed: 3 comparisons of the query

// The attention's kernel reads its rows once, in front of the loop over keys, and the mask compares positions.
// CHECK-LABEL: gpu.func @documents(
// CHECK-SAME:    %[[BEGINS:[^ ]*]]: memref<?xi32>, %[[ENDS:[^ ]*]]: memref<?xi32>,
// CHECK-SAME:    before = [{block = [256, 1, 1],
// CHECK-SAME:    kernel = "documents_rows", parameters = [
// CHECK-SAME:    {kind = "mask_map"}
// CHECK-SAME:    {kind = "mask_map", offset = "mul64(128, ceildiv(mul(mul(arg0.dim0, 1), arg0.dim2), 32))"}
// CHECK-SAME:    kernel = "documents_order"
// CHECK:       } consumer {
// CHECK:         tile.rows
// CHECK:           memref.load %[[BEGINS]]
// CHECK:           tile.yield
// CHECK:         tile.rows
// CHECK:           memref.load %[[ENDS]]
// CHECK:           tile.yield
// CHECK:         tile.map %{{.*}} rows(
// CHECK-NOT:       memref.load
// CHECK:           arith.cmpi sge
// CHECK-NOT:       memref.load
// CHECK:         gpu.return

// The list has the rows of the tiles' first and last queries, and searches nothing.
// TABLES-LABEL: gpu.func @documents_order(
// TABLES-SAME:    %[[BEGINS:[^ ]*]]: memref<?xi32>
// TABLES:         arith.cmpi ult
// TABLES:         scf.if
// TABLES-NOT:       scf.for
// TABLES:           memref.load %[[BEGINS]]
// TABLES-NOT:       scf.for
// TABLES:           memref.store

// TABLES-LABEL: gpu.func @documents_rows(
// TABLES-SAME:    %[[IDS:[^:]*]]: memref<?x?xi64
// TABLES:         %[[IS_ROW:.*]] = arith.cmpi ult
// TABLES:         scf.if %[[IS_ROW]]
// TABLES:           %[[X:.*]] = memref.load %[[IDS]]
// TABLES:           scf.for
// TABLES:             %[[Y:.*]] = memref.load
// TABLES:             %[[Z:.*]] = arith.extsi %[[Y]] : i32 to i64
// TABLES:             arith.cmpi slt, %[[Z]], %[[X]] : i64
// TABLES:           memref.store
// TABLES:         %[[IS_ROW:.*]] = arith.cmpi ult
// TABLES:         scf.if %[[IS_ROW]]
// TABLES:           scf.for
// TABLES:             arith.cmpi sle
// TABLES:           memref.store
// TABLES-NOT:     scf.if
func.func @documents(%q: tensor<?x4x?x64xbf16>, %k: tensor<?x2x?x64xbf16>, %v: tensor<?x2x?x64xbf16>,
                     %ids: tensor<?x?xi64>, %key_ids: tensor<?x?xi32>) -> tensor<?x4x?x64xbf16> {
  %s = flash.assume_sorted %ids : tensor<?x?xi64>
  %t = flash.assume_sorted %key_ids : tensor<?x?xi32>
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<?x4x?x64xbf16>, tensor<?x2x?x64xbf16>, tensor<?x2x?x64xbf16>)
      {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %s[%b, %i] : tensor<?x?xi64>
        %y = tensor.extract %t[%b, %j] : tensor<?x?xi32>
        %wide = arith.extsi %y : i32 to i64
        %same = arith.cmpi eq, %x, %wide : i64
        %seen = arith.cmpi sle, %j, %i : index
        %all = arith.andi %same, %seen : i1
        flash.yield %all : i1
      } -> tensor<?x4x?x64xbf16>, tensor<?x4x?xf32>
  return %o : tensor<?x4x?x64xbf16>
}
