// The tables of what is known at run time: round trip, and the loops that they become on the CPU.
// RUN: flashc-opt %s | flashc-opt | FileCheck %s
// RUN: flashc-opt %s --canonicalize | FileCheck %s --check-prefix=CANON
// RUN: flashc-opt %s --flash-decompose --canonicalize | FileCheck %s --check-prefix=LOOPS

// CHECK-LABEL: func @minmax
// CHECK: flash.tile_minmax %{{.*}} along 1 tiles 16 : tensor<2x?xi32> -> tensor<2x?x2xi64>
// CHECK: flash.tile_minmax %{{.*}} along 0 tiles 16 : memref<40x3xi1> -> tensor<3x3x2xi64>

// A tile at the end may be shorter. An i1 is 0 or 1.
// LOOPS-LABEL: func @minmax
// LOOPS:         %[[N:.*]] = tensor.dim %[[A:.*]], %c1
// LOOPS:         %[[TILES:.*]] = arith.ceildivsi %[[N]], %c16
// LOOPS:         scf.for %[[B:[^ ]*]] = %{{.*}} to %c2
// LOOPS:           scf.for %[[T:[^ ]*]] = %{{.*}} to %[[TILES]]
// LOOPS:             %[[BEGIN:.*]] = arith.muli %[[T]], %c16
// LOOPS:             %[[BEHIND:.*]] = arith.addi %[[BEGIN]], %c16
// LOOPS:             %[[END:.*]] = arith.minsi %[[BEHIND]], %
// LOOPS:             scf.for %[[X:[^ ]*]] = %[[BEGIN]] to %[[END]]
// LOOPS:               %[[E:.*]] = tensor.extract %[[A]][%[[B]], %[[X]]]
// LOOPS:               %[[WIDE:.*]] = arith.extsi %[[E]]
// LOOPS:               arith.minsi %{{.*}}, %[[WIDE]]
// LOOPS:               arith.maxsi %{{.*}}, %[[WIDE]]
// LOOPS:             tensor.insert
// LOOPS:             tensor.insert
// LOOPS:         memref.load
// LOOPS:         arith.extui
func.func @minmax(%a: tensor<2x?xi32>, %m: memref<40x3xi1>) -> (tensor<2x?x2xi64>, tensor<3x3x2xi64>) {
  %0 = flash.tile_minmax %a along 1 tiles 16 : tensor<2x?xi32> -> tensor<2x?x2xi64>
  %1 = flash.tile_minmax %m along 0 tiles 16 : memref<40x3xi1> -> tensor<3x3x2xi64>
  return %0, %1 : tensor<2x?x2xi64>, tensor<3x3x2xi64>
}

// CHECK-LABEL: func @runs
// CHECK: flash.tile_runs(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) tiles(16, 32) {
// CHECK: flash.yield %{{.*}} : i32
// CHECK: } : tensor<?x?x?x2x4xi32>

// Two runs of four keys, and the two ends of the row of full tiles that is seen now.
// LOOPS-LABEL: func @runs
// LOOPS:         scf.for %[[B:[^ ]*]] =
// LOOPS:         scf.for %[[H:[^ ]*]] =
// LOOPS:         scf.for %[[X:[^ ]*]] =
// LOOPS:           %[[I0:.*]] = arith.muli %[[X]], %c16
// LOOPS:           %{{.*}}:10 = scf.for %[[J0:[^ ]*]] = %{{.*}} step %c32
// LOOPS:             %[[CLASS:.*]] = arith.select
// LOOPS:             %[[IS_FULL:.*]] = arith.cmpi eq, %[[CLASS]], %c2_i32
// LOOPS:             %[[IS_VISITED:.*]] = arith.cmpi ne, %[[CLASS]], %c0_i32
// LOOPS:             scf.if %[[IS_VISITED]]
// LOOPS:               arith.addi %[[J0]], %c32
// LOOPS-COUNT-8:     tensor.insert
func.func @runs(%B: index, %H: index, %Nq: index, %Nk: index) -> tensor<?x?x?x2x4xi32> {
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %runs = flash.tile_runs(%B, %H, %Nq, %Nk) tiles(16, 32) {
  ^bb0(%b: index, %h: index, %i0: index, %j0: index):
    %isEarly = arith.cmpi sle, %j0, %i0 : index
    %class = arith.select %isEarly, %one, %two : i32
    flash.yield %class : i32
  } : tensor<?x?x?x2x4xi32>
  return %runs : tensor<?x?x?x2x4xi32>
}

// CHECK-LABEL: func @rows
// CHECK: flash.row_table(%{{.*}}, %{{.*}}, %{{.*}}) {
// CHECK: flash.yield %{{.*}} : i32
// CHECK: } : tensor<?x1x?xi32>

// LOOPS-LABEL: func @rows(
// LOOPS-SAME:      %[[B:[^:]*]]: index, %[[N:[^:]*]]: index, %{{[^:]*}}: index)
// LOOPS:         tensor.empty(%[[B]], %[[N]]) : tensor<?x1x?xi32>
// LOOPS:         scf.for %[[X:[^ ]*]] = %c0 to %[[B]]
// LOOPS:           scf.for %[[Z:[^ ]*]] = %c0 to %[[N]]
// LOOPS:             %[[SUM:.*]] = arith.addi %[[X]], %[[Z]]
// LOOPS:             %[[VALUE:.*]] = arith.index_cast %[[SUM]]
// LOOPS:             tensor.insert %[[VALUE]] into %{{.*}}[%[[X]], %c0, %[[Z]]]

// The extents are operands; one that is not known at compile time stays a question.
// CANON-LABEL: func @rows(
// CANON-SAME:      %[[B:[^:]*]]: index, %[[N:[^:]*]]: index, %[[DIM:[^:]*]]: index)
// CANON:         %[[ANY:.*]] = tensor.dim %{{.*}}, %[[DIM]]
// CANON:         return %{{.*}}, %[[B]], %[[N]], %[[ANY]]
func.func @rows(%B: index, %N: index, %dim: index) -> (tensor<?x1x?xi32>, index, index, index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %rows = flash.row_table(%B, %c1, %N) {
  ^bb0(%b: index, %h: index, %i: index):
    %sum = arith.addi %b, %i : index
    %value = arith.index_cast %sum : index to i32
    flash.yield %value : i32
  } : tensor<?x1x?xi32>
  %batches = tensor.dim %rows, %c0 : tensor<?x1x?xi32>
  %queries = tensor.dim %rows, %c2 : tensor<?x1x?xi32>
  %any = tensor.dim %rows, %dim : tensor<?x1x?xi32>
  return %rows, %batches, %queries, %any : tensor<?x1x?xi32>, index, index, index
}
