// A mask that is run, of a step that streams queries: runs of tiles of queries for each tile of keys.
// RUN: flashc-opt %s --flash-online-softmax --flash-tile --canonicalize --cse --flash-swap-loops --flash-bound-loops --canonicalize \
// RUN:   --cse | FileCheck %s

!x = tensor<1x2x?x64xbf16>
!lse = tensor<1x2x?xf32>

// CHECK-LABEL: func @product
// CHECK:         %[[CLASSES:.*]] = flash.tile_classes(%c1, %c1, %[[NQ:.*]], %[[NK:.*]]) tiles([[Q:[0-9]+]], [[KV:[0-9]+]]) {
// CHECK:         } keeps {
// CHECK:           arith.muli
// CHECK:         %[[RUNS:.*]] = flash.tile_runs dual(%c1, %c1, %[[NQ]], %[[NK]]) tiles([[Q]], [[KV]]) {
// CHECK:         ^bb0(%{{.*}}: index, %{{.*}}: index, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK-DAG:       %[[ROW:.*]] = arith.divui %[[I]], %c[[Q]]
// CHECK-DAG:       %[[COLUMN:.*]] = arith.divui %[[J]], %c[[KV]]
// CHECK:           %[[CLASS:.*]] = tensor.extract %[[CLASSES]][%{{.*}}, %{{.*}}, %[[ROW]], %[[COLUMN]]]
// A tile of queries that sticks out is not full.
// CHECK:           %[[END:.*]] = arith.addi %[[I]], %c[[Q]]
// CHECK:           %[[STICKS_OUT:.*]] = arith.cmpi sgt, %[[END]], %[[NQ]]
// CHECK:           %[[MASKED:.*]] = arith.minsi %[[CLASS]], %c1_i32
// CHECK:           arith.select %[[STICKS_OUT]], %[[MASKED]], %[[CLASS]]
// CHECK:         } : tensor<?x?x?x5x4xi32>
// The keys are the outer loop, whose row of the table bounds the inner ones.
// CHECK:         scf.for %[[J0:.*]] = %c0 to %[[NK]]
// CHECK:           %[[NUMBER:.*]] = arith.divui %[[J0]], %c[[KV]]
// CHECK:           tensor.extract %[[RUNS]][%c0, %c0, %[[NUMBER]], %c0, %c0]
// CHECK:           scf.for
// CHECK:             flash.accumulate_gradients {{.*}} mask
// CHECK:           scf.for
// CHECK:             flash.accumulate_gradients
// CHECK-NOT:         mask
// CHECK:           scf.for
// CHECK:             flash.accumulate_gradients {{.*}} mask
func.func @product(%q: !x, %k: !x, %v: !x, %o: !x, %lse: !lse, %do: !x) -> (!x, !x, !x) {
  %c77 = arith.constant 77 : index
  %c20 = arith.constant 20 : index
  %dq, %dk, %dv = flash.attention_backward ins(%q, %k, %v, %o, %lse, %do : !x, !x, !x, !x, !lse, !x) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %product = arith.muli %i, %j : index
        %rest = arith.remui %product, %c77 : index
        %keep = arith.cmpi ult, %rest, %c20 : index
        flash.yield %keep : i1
      } -> !x, !x, !x
  return %dq, %dk, %dv : !x, !x, !x
}
