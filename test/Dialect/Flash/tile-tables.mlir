// The tables of what is known at run time: round trip, and the loops that they become on the CPU.
// RUN: flashc-opt %s | flashc-opt | FileCheck %s
// RUN: flashc-opt %s --canonicalize | FileCheck %s --check-prefix=CANON
// RUN: flashc-opt %s --flash-decompose --canonicalize | FileCheck %s --check-prefix=LOOPS

// CHECK-LABEL: func @range
// CHECK: %least, %greatest = flash.tile_range(%{{.*}}, %{{.*}}, %{{.*}} below %{{.*}}) tile 16 {
// CHECK: flash.yield %{{.*}} : i32
// CHECK: flash.tile_range
// CHECK: flash.yield %{{.*}} : i1

// A tile at the end may be shorter. An i1 is 0 or 1.
// LOOPS-LABEL: func @range(
// LOOPS-SAME:      %[[B:[^:]*]]: index, %{{[^:]*}}: index, %[[FIRST:[^:]*]]: index, %[[N:[^:]*]]: index, %[[A:[^:]*]]: tensor<2x?xi32>
// LOOPS:         %[[BEHIND:.*]] = arith.addi %[[FIRST]], %c16
// LOOPS:         %[[END:.*]] = arith.minsi %[[BEHIND]], %[[N]]
// LOOPS:         scf.for %[[X:[^ ]*]] = %[[FIRST]] to %[[END]]
// LOOPS:           %[[E:.*]] = tensor.extract %[[A]][%[[B]], %[[X]]]
// LOOPS:           %[[WIDE:.*]] = arith.extsi %[[E]]
// LOOPS:           arith.minsi %{{.*}}, %[[WIDE]]
// LOOPS:           arith.maxsi %{{.*}}, %[[WIDE]]
// LOOPS:         scf.for
// LOOPS:           arith.extui %{{.*}} : i1 to i64
func.func @range(%b: index, %h: index, %first: index, %n: index, %a: tensor<2x?xi32>) -> (i64, i64, i64, i64) {
  %low, %high = flash.tile_range(%b, %h, %first below %n) tile 16 {
  ^bb0(%batch: index, %head: index, %i: index):
    %x = tensor.extract %a[%batch, %i] : tensor<2x?xi32>
    flash.yield %x : i32
  }
  %none, %all = flash.tile_range(%b, %h, %first below %n) tile 16 {
  ^bb0(%batch: index, %head: index, %i: index):
    %early = arith.cmpi sle, %i, %head : index
    flash.yield %early : i1
  }
  return %low, %high, %none, %all : i64, i64, i64, i64
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
