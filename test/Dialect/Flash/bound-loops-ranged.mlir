// Masks over arrays that nothing is known of: the least and the greatest element of each tile decide at run time which
// tiles are visited.
// DEFINE: %{l1} = --flash-online-softmax --flash-tile="q-tile=16 kv-tile=32" --canonicalize --cse --flash-swap-loops --flash-bound-loops
// RUN: flashc-opt %s %{l1} --canonicalize --cse | FileCheck %s
// RUN: flashc-opt %s %{l1} --remark-format=emitRemark --remarks-filter-passed=flash -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK
// REMARK: [Passed] bound-loops | Category:flash | Remark="by running the mask, where the range of %arg1 in each tile leaves it open"

!q = tensor<2x4x?x8xf32>
!r = tensor<2x4x?xf32>

// CHECK-LABEL: func @documents
// CHECK-SAME:    %[[Q:[^:]*]]: tensor<2x4x?x8xf32>, %[[IDS:[^:]*]]: tensor<2x?xi32>
// CHECK-DAG:     %[[NQ:.*]] = tensor.dim %[[Q]], %c2
// CHECK-DAG:     %[[ROWS:.*]] = flash.tile_minmax %[[IDS]] along 1 tiles 16 : tensor<2x?xi32> -> tensor<2x?x2xi64>
// CHECK-DAG:     %[[COLS:.*]] = flash.tile_minmax %[[IDS]] along 1 tiles 32 : tensor<2x?xi32> -> tensor<2x?x2xi64>
// All heads are alike.
// CHECK:         %[[CLASSES:.*]] = flash.tile_classes(%c2, %c1, %[[NQ]], %[[NQ]]) tiles(16, 32) {
// CHECK:         ^bb0(%[[B:[^:]*]]: index, %{{.*}}: index, %[[I0:[^:]*]]: index, %[[J0:[^:]*]]: index):
// CHECK:           %[[X:.*]] = arith.divui %[[I0]], %c16
// CHECK:           %[[LOW_I:.*]] = tensor.extract %[[ROWS]][%[[B]], %[[X]], %c0]
// CHECK:           %[[HIGH_I:.*]] = tensor.extract %[[ROWS]][%[[B]], %[[X]], %c1]
// CHECK:           %[[Y:.*]] = arith.divui %[[J0]], %c32
// CHECK:           %[[LOW_J:.*]] = tensor.extract %[[COLS]][%[[B]], %[[Y]], %c0]
// CHECK:           %[[HIGH_J:.*]] = tensor.extract %[[COLS]][%[[B]], %[[Y]], %c1]
// Some pair may be of one document, and some may not.
// CHECK-DAG:       %[[A:.*]] = arith.cmpi sle, %[[LOW_I]], %[[HIGH_J]]
// CHECK-DAG:       %[[C:.*]] = arith.cmpi sle, %[[LOW_J]], %[[HIGH_I]]
// CHECK-DAG:       arith.andi %[[A]], %[[C]]
// CHECK-DAG:       %[[D:.*]] = arith.cmpi ne, %[[LOW_I]], %[[HIGH_J]]
// CHECK-DAG:       %[[E:.*]] = arith.cmpi ne, %[[HIGH_I]], %[[LOW_J]]
// CHECK-DAG:       arith.ori %[[D]], %[[E]]
// CHECK:           %[[VISITED:.*]] = arith.select %{{.*}}, %c1_i32, %c2_i32
// CHECK:           %[[CLASS:.*]] = arith.select %{{.*}}, %[[VISITED]], %c0_i32
// What is understood, j < Nk, bounds the runs, too.
// CHECK:           %[[END:.*]] = affine.max
// CHECK:           arith.cmpi slt, %[[J0]], %[[END]]
// CHECK:           %[[INSIDE:.*]] = arith.select %{{.*}}, %[[CLASS]], %c0_i32
// CHECK:           flash.yield %[[INSIDE]]
// Where that leaves a tile open, the mask is run.
// CHECK:         } keeps {
// CHECK:         ^bb0(%[[B1:[^:]*]]: index, %{{.*}}: index, %[[I:[^:]*]]: index, %[[J:[^:]*]]: index):
// CHECK:           arith.minsi %[[I]],
// CHECK:           tensor.extract %[[IDS]][%[[B1]], %
// CHECK:           arith.minsi %[[J]],
// CHECK:           tensor.extract %[[IDS]][%[[B1]], %
// CHECK:           flash.yield %{{.*}} : i1
// CHECK:         %[[RUNS:.*]] = flash.tile_runs(%c2, %c1, %[[NQ]], %[[NQ]]) tiles(16, 32) {
// CHECK:         ^bb0(%[[B2:[^:]*]]: index, %{{.*}}: index, %[[I2:[^:]*]]: index, %[[J2:[^:]*]]: index):
// CHECK:           tensor.extract %[[CLASSES]][%[[B2]], %
// Five runs: masked, full, masked.
// CHECK:         %[[BEGIN32:.*]] = tensor.extract %[[RUNS]][%[[B:.*]], %c0, %{{.*}}, %c0, %c0]
// CHECK:         %[[BEGIN:.*]] = arith.index_cast %[[BEGIN32]]
// CHECK:         %[[FULL32:.*]] = tensor.extract %[[RUNS]][%[[B]], %c0, %{{.*}}, %c0, %c1]
// CHECK:         %[[FULL:.*]] = arith.index_cast %[[FULL32]]
// CHECK:         scf.for %{{.*}} = %[[BEGIN]] to %[[FULL]] step %c32
// CHECK:           flash.online_attention {{.*}} mask
// CHECK:         scf.for %{{.*}} = %[[FULL]] to %[[FULL_END:.*]] step %c32
// CHECK:           flash.online_attention
// CHECK-NOT:       mask
// CHECK:         scf.for %{{.*}} = %[[FULL_END]] to %{{.*}} step %c32
// CHECK-COUNT-12: scf.for
// CHECK-NOT:     scf.for
func.func @documents(%q: !q, %ids: tensor<2x?xi32>) -> !q {
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %ids[%b, %i] : tensor<2x?xi32>
        %y = tensor.extract %ids[%b, %j] : tensor<2x?xi32>
        %keep = arith.cmpi eq, %x, %y : i32
        flash.yield %keep : i1
      } -> !q, !r
  return %o : !q
}

// What is computed from elements may wrap around: then it has any value of its type.
// CHECK-LABEL: func @wraps
// CHECK:         flash.tile_classes
// CHECK:           %[[SUM:.*]] = arith.addi %{{.*}}, %c100_i64 : i64
// CHECK:           arith.cmpi sge, %{{.*}}, %c-128_i64
// CHECK:           %[[FITS:.*]] = arith.cmpi sle, %{{.*}}, %c127_i64
// CHECK:           arith.select %{{.*}}, %{{.*}}, %c-128_i64
// CHECK:           arith.select %{{.*}}, %{{.*}}, %c127_i64
func.func @wraps(%q: !q, %ids: memref<?xi8>) -> !q {
  %c100 = arith.constant 100 : i8
  %c0 = arith.constant 0 : i8
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = memref.load %ids[%j] : memref<?xi8>
        %y = arith.addi %x, %c100 : i8
        %keep = arith.cmpi sgt, %y, %c0 : i8
        flash.yield %keep : i1
      } -> !q, !r
  return %o : !q
}

// One table for a flag of each batch and head. What is not understood may hold and may not.
// CHECK-LABEL: func @flags
// CHECK:         %[[TABLE:.*]] = flash.tile_minmax %{{.*}} along 2 tiles 32 : tensor<2x4x?xi1> -> tensor<2x4x?x2xi64>
// CHECK:         flash.tile_classes(%c2, %c4,
// CHECK:         ^bb0(%[[B:[^:]*]]: index, %[[H:[^:]*]]: index,
// CHECK:           %[[HIGH:.*]] = tensor.extract %[[TABLE]][%[[B]], %[[H]], %{{.*}}, %c1]
// CHECK:           arith.cmpi ne, %[[HIGH]], %c0_i64
// CHECK-NOT:       arith.select %{{.*}}, %c1_i32, %c2_i32
// CHECK:           flash.yield
func.func @flags(%q: !q, %keys: tensor<2x4x?xi1>, %weights: tensor<?xf32>) -> !q {
  %zero = arith.constant 0.0 : f32
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %flag = tensor.extract %keys[%b, %h, %j] : tensor<2x4x?xi1>
        %w = tensor.extract %weights[%i] : tensor<?xf32>
        %positive = arith.cmpf ogt, %w, %zero : f32
        %keep = arith.andi %flag, %positive : i1
        flash.yield %keep : i1
      } -> !q, !r
  return %o : !q
}

// Two arrays.
// CHECK-LABEL: func @times
// REMARK: Remark="by running the mask, where the range of %arg2 and %arg1 in each tile leaves it open"
func.func @times(%q: !q, %now: tensor<?xi64>, %then: tensor<?xi32>) -> !q {
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %now[%i] : tensor<?xi64>
        %y32 = tensor.extract %then[%j] : tensor<?xi32>
        %y = arith.extsi %y32 : i32 to i64
        %keep = arith.cmpi sle, %y, %x : i64
        flash.yield %keep : i1
      } -> !q, !r
  return %o : !q
}

// A declaration inside of the mask. What it gives bounds the runs.
// CHECK-LABEL: func @declared
// CHECK-SAME:    %[[Q:[^:]*]]: tensor<1x1x?x8xf32>, %[[IDS:[^:]*]]: tensor<?xi32>
// CHECK:         flash.tile_minmax %[[IDS]] along 0 tiles 16
// CHECK:         flash.tile_classes
// CHECK:           flash.count_le
// CHECK:           flash.yield
func.func @declared(%q: tensor<1x1x?x8xf32>, %ids: tensor<?xi32>, %flags: tensor<?xi1>) -> tensor<1x1x?x8xf32> {
  %o, %lse = flash.attention ins(%q, %q, %q : tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %sorted = flash.assume_sorted %ids : tensor<?xi32>
        %x = tensor.extract %sorted[%i] : tensor<?xi32>
        %y = tensor.extract %sorted[%j] : tensor<?xi32>
        %same = arith.cmpi eq, %x, %y : i32
        %flag = tensor.extract %flags[%j] : tensor<?xi1>
        %keep = arith.andi %same, %flag : i1
        flash.yield %keep : i1
      } -> tensor<1x1x?x8xf32>, tensor<1x1x?xf32>
  return %o : tensor<1x1x?x8xf32>
}

// A bound that hangs on the head makes the heads differ.
// CHECK-LABEL: func @window
// CHECK:         flash.tile_classes(%c1, %c4,
// CHECK:         ^bb0(%{{.*}}: index, %[[H:[^:]*]]: index, %[[I0:[^:]*]]: index, %[[J0:[^:]*]]: index):
// CHECK:           %[[END:.*]] = affine.max
// CHECK:           arith.cmpi slt, %[[J0]], %[[END]]
// CHECK:           %[[INSIDE:.*]] = arith.select %{{.*}}, %{{.*}}, %c0_i32
// CHECK:           flash.yield %[[INSIDE]]
func.func @window(%q: !q, %flags: tensor<?xi8>, %widths: tensor<4xindex>) -> !q {
  %zero = arith.constant 0 : i8
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %flag = tensor.extract %flags[%j] : tensor<?xi8>
        %isSet = arith.cmpi ne, %flag, %zero : i8
        %width = tensor.extract %widths[%h] : tensor<4xindex>
        %last = arith.addi %i, %width : index
        %isNear = arith.cmpi sle, %j, %last : index
        %keep = arith.andi %isSet, %isNear : i1
        flash.yield %keep : i1
      } -> !q, !r
  return %o : !q
}

// A table of pairs, an element beside the position, and floating point say nothing about a tile: the mask does.
// CHECK-LABEL: func @opaque
// CHECK-NOT:     = flash.tile_minmax
// CHECK:         flash.tile_classes
// CHECK:         } keeps {
// CHECK:           arith.cmpf
// CHECK:         flash.tile_runs
func.func @opaque(%q: !q, %pairs: tensor<?x?xi1>, %ids: tensor<?xi32>, %weights: tensor<?xf32>) -> !q {
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %flag = tensor.extract %pairs[%i, %j] : tensor<?x?xi1>
        %next = arith.addi %j, %c1 : index
        %x = tensor.extract %ids[%i] : tensor<?xi32>
        %y = tensor.extract %ids[%next] : tensor<?xi32>
        %same = arith.cmpi eq, %x, %y : i32
        %w = tensor.extract %weights[%j] : tensor<?xf32>
        %positive = arith.cmpf ogt, %w, %zero : f32
        %both = arith.andi %flag, %same : i1
        %keep = arith.andi %both, %positive : i1
        flash.yield %keep : i1
      } -> !q, !r
  return %o : !q
}
