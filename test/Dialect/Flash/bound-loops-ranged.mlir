// Masks over arrays that nothing is known of: the least and the greatest value that each side has in a tile decide at run
// time which tiles are visited.
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
// All heads are alike.
// CHECK:         %[[CLASSES:.*]] = flash.tile_classes(%c2, %c1, %[[NQ]], %[[NQ]]) tiles(16, 32) {
// CHECK:         ^bb0(%[[B:[^:]*]]: index, %{{.*}}: index, %[[I0:[^:]*]]: index, %[[J0:[^:]*]]: index):
// CHECK:           %[[LOW_I:.*]], %[[HIGH_I:.*]] = flash.tile_range(%[[B]], %c0, %[[I0]] below %[[NQ]]) tile 16 {
// CHECK:           ^bb0(%[[BATCH:[^:]*]]: index, %{{.*}}: index, %[[P:[^:]*]]: index):
// CHECK:             %[[INSIDE:.*]] = arith.minsi %[[P]],
// CHECK:             %[[PLACE:.*]] = arith.maxsi %[[INSIDE]],
// CHECK:             %[[ID:.*]] = tensor.extract %[[IDS]][%[[BATCH]], %[[PLACE]]]
// CHECK:             flash.yield %[[ID]] : i32
// CHECK:           %[[LOW_J:.*]], %[[HIGH_J:.*]] = flash.tile_range(%[[B]], %c0, %[[J0]] below %[[NQ]]) tile 32 {
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

// What is computed from elements of both sides may wrap around: then it has any value of its type. Of one side it is run.
// CHECK-LABEL: func @wraps
// CHECK:         flash.tile_classes
// CHECK:           %[[LOW_J:.*]], %[[HIGH_J:.*]] = flash.tile_range(%c0, %c0, %{{.*}} below %{{.*}}) tile 32 {
// CHECK:             arith.addi %{{.*}}, %c100_i8 : i8
// CHECK:           %[[LOW_I:.*]], %[[HIGH_I:.*]] = flash.tile_range(%c0, %c0, %{{.*}} below %{{.*}}) tile 16 {
// CHECK:           arith.addi %[[LOW_J]], %[[LOW_I]] : i64
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
        %z = memref.load %ids[%i] : memref<?xi8>
        %sum = arith.addi %y, %z : i8
        %keep = arith.cmpi sgt, %sum, %c0 : i8
        flash.yield %keep : i1
      } -> !q, !r
  return %o : !q
}

// Conditions of one position are run as they are, floating point, too; those of keys for each batch and head.
// CHECK-LABEL: func @flags
// CHECK:         flash.tile_classes(%c2, %c4,
// CHECK:         ^bb0(%[[B:[^:]*]]: index, %[[H:[^:]*]]: index, %[[I0:[^:]*]]: index, %[[J0:[^:]*]]: index):
// CHECK:           %[[LOW_J:.*]], %[[HIGH_J:.*]] = flash.tile_range(%[[B]], %[[H]], %[[J0]] below %{{.*}}) tile 32 {
// CHECK:             flash.yield %{{.*}} : i1
// CHECK:           %[[MAY_J:.*]] = arith.cmpi ne, %[[HIGH_J]], %c0_i64
// CHECK:           %[[MAY_NOT_J:.*]] = arith.cmpi eq, %[[LOW_J]], %c0_i64
// CHECK:           %[[LOW_I:.*]], %[[HIGH_I:.*]] = flash.tile_range(%c0, %c0, %[[I0]] below %{{.*}}) tile 16 {
// CHECK:             arith.cmpf ogt
// CHECK:             flash.yield %{{.*}} : i1
// CHECK:           %[[MAY_I:.*]] = arith.cmpi ne, %[[HIGH_I]], %c0_i64
// CHECK:           %[[MAY_NOT_I:.*]] = arith.cmpi eq, %[[LOW_I]], %c0_i64
// CHECK:           arith.andi %[[MAY_J]], %[[MAY_I]]
// CHECK:           arith.ori %[[MAY_NOT_J]], %[[MAY_NOT_I]]
// CHECK:           flash.yield %{{.*}} : i32
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
// CHECK:         flash.tile_classes
// CHECK:           flash.tile_range
// CHECK:             %[[SORTED:.*]] = flash.assume_sorted %[[IDS]]
// CHECK:             tensor.extract %[[SORTED]]
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

// An element of a table of pairs is known where its place is the same in the whole tile; else it may be any.
// CHECK-LABEL: func @pairs
// CHECK-SAME:    %[[PAIRS:[^:]*]]: tensor<?x?xi1>
// CHECK:         flash.tile_classes
// CHECK:         ^bb0(%{{.*}}: index, %{{.*}}: index, %[[I0:[^:]*]]: index, %[[J0:[^:]*]]: index):
// CHECK:           %[[ONE_I:.*]] = arith.cmpi eq
// A remainder does not ascend.
// CHECK:           %[[LOW_J:.*]], %[[HIGH_J:.*]] = flash.tile_range(%c0, %c0, %[[J0]] below %{{.*}}) tile 32 {
// CHECK:             arith.remui
// CHECK:             arith.index_cast %{{.*}} : index to i64
// CHECK:             flash.yield %{{.*}} : i64
// CHECK:           %[[ONE_J:.*]] = arith.cmpi eq
// CHECK:           %[[ONE:.*]] = arith.andi %[[ONE_I]], %[[ONE_J]]
// CHECK:           %[[X:.*]] = arith.select %[[ONE]], %{{.*}}, %c0_i64
// CHECK:           %[[PLACE_X:.*]] = arith.index_cast %[[X]]
// CHECK:           %[[Y:.*]] = arith.select %[[ONE]], %{{.*}}, %c0_i64
// CHECK:           %[[PLACE_Y:.*]] = arith.index_cast %[[Y]]
// CHECK:           %[[FLAG:.*]] = tensor.extract %[[PAIRS]][%[[PLACE_X]], %[[PLACE_Y]]]
// CHECK:           %[[WIDE:.*]] = arith.extui %[[FLAG]]
// CHECK:           arith.select %[[ONE]], %[[WIDE]], %c0_i64
// CHECK:           arith.select %[[ONE]], %[[WIDE]], %c1_i64
// CHECK:         } keeps {
func.func @pairs(%q: !q, %pairs: tensor<?x?xi1>) -> !q {
  %c16 = arith.constant 16 : index
  %c24 = arith.constant 24 : index
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = arith.divui %i, %c16 : index
        %y = arith.remui %j, %c24 : index
        %flag = tensor.extract %pairs[%x, %y] : tensor<?x?xi1>
        flash.yield %flag : i1
      } -> !q, !r
  return %o : !q
}

// Values that were run may be of any size, and their sum wraps around like one of elements.
// CHECK-LABEL: func @sums
// CHECK:         flash.tile_classes
// CHECK:           flash.tile_range
// CHECK:             arith.muli
// CHECK:           flash.tile_range
// CHECK:           %[[SUM:.*]] = arith.addi %{{.*}}, %{{.*}} : i64
// CHECK:           arith.select %{{.*}}, %{{.*}}, %c-2147483648_i64
// CHECK:           arith.select %{{.*}}, %{{.*}}, %c2147483647_i64
// CHECK:         } keeps {
func.func @sums(%q: !q) -> !q {
  %zero = arith.constant 0 : i32
  %c16 = arith.constant 16 : i32
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %i32 = arith.index_cast %i : index to i32
        %j32 = arith.index_cast %j : index to i32
        %x = arith.shli %i32, %c16 : i32
        %x2 = arith.muli %x, %i32 : i32
        %y = arith.shli %j32, %c16 : i32
        %y2 = arith.muli %y, %j32 : i32
        %sum = arith.addi %x2, %y2 : i32
        %keep = arith.cmpi sgt, %sum, %zero : i32
        flash.yield %keep : i1
      } -> !q, !r
  return %o : !q
}

// Floating point of both positions says nothing about a tile: the mask does.
// CHECK-LABEL: func @opaque
// CHECK:         flash.tile_classes
// CHECK-NOT:       arith.cmpf
// CHECK:         } keeps {
// CHECK:           arith.cmpf
// CHECK:         flash.tile_runs
func.func @opaque(%q: !q, %weights: tensor<?xf32>) -> !q {
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %weights[%i] : tensor<?xf32>
        %y = tensor.extract %weights[%j] : tensor<?xf32>
        %keep = arith.cmpf ogt, %x, %y : f32
        flash.yield %keep : i1
      } -> !q, !r
  return %o : !q
}
