// RUN: flashc-opt %s --flash-fa2 --flash-split-key-loops=splits=3 --canonicalize --cse | FileCheck %s
// One part is what there was.
// RUN: flashc-opt %s --flash-fa2 > %t.before
// RUN: flashc-opt %s --flash-fa2 --flash-split-key-loops=splits=1 | diff - %t.before

// With by-work the launch says how many tiles a part has.
// RUN: flashc-opt %s --flash-fa2 --flash-split-key-loops="splits=3 by-work" --canonicalize --cse | FileCheck %s --check-prefix=WORK
// RUN: flashc-opt %s --flash-fa2 --flash-split-key-loops="splits=3 by-work" --flash-decompose --canonicalize --cse | FileCheck %s --check-prefix=CPU
// WORK-DAG:      #[[TILES:.*]] = affine_map<(d0) -> (d0 ceildiv 64)>
// WORK-DAG:      #[[CUT:.*]] = affine_map<(d0, d1) -> (d1 * 64, d0)>
// WORK-LABEL:    func.func @causal(
// WORK:            scf.forall (%{{.*}}, %{{.*}}, %{{.*}}, %[[P:.*]]) = (0, 0, 0, 0) to (2, 4, %{{.*}}, 3)
// WORK:              %[[END:.*]] = affine.max
// WORK:              %[[N:.*]] = affine.apply #[[TILES]](%[[END]])
// WORK:              %[[SIZE:.*]] = flash.part_size of %[[N]] most 3
// WORK:              %[[AT:.*]] = arith.muli %[[P]], %[[SIZE]]
// WORK:              arith.minsi %[[AT]], %[[N]]
// WORK:              %[[NEXT:.*]] = arith.muli %{{.*}}, %[[SIZE]]
// WORK:              %[[CUT_AT:.*]] = arith.minsi %[[NEXT]], %[[N]]
// WORK:              affine.min #[[CUT]](%{{.*}}, %[[CUT_AT]])
// WORK:            flash.merge_states
// CPU-LABEL:     func.func @causal(
// CPU-NOT:         flash.part_size
// CPU:             %[[LEAST:.*]] = arith.ceildivsi %{{.*}}, %c3
// CPU:             arith.maxsi %[[LEAST]], %c2

// A causal mask: the loop without a mask and the one with it are cut at the same keys.
// CHECK-DAG:   #[[TILES:.*]] = affine_map<(d0) -> (d0 ceildiv 64)>
// CHECK-DAG:   #[[PLACE:.*]] = affine_map<(d0) -> ((d0 floordiv 3) * 64)>
// CHECK-DAG:   #[[CUT:.*]] = affine_map<(d0, d1) -> (d0, (d1 floordiv 3) * 64)>
// CHECK-LABEL: func.func @causal(
// CHECK-SAME:      %{{.*}}: tensor<2x4x?x32xbf16>, %{{.*}}: {{.*}}, %{{.*}}: {{.*}}, %[[SINKS:.*]]: tensor<4xf32>)
// CHECK:         %[[PARTS:.*]]:2 = scf.forall (%[[B:.*]], %[[H:.*]], %[[I:.*]], %[[P:.*]]) = (0, 0, 0, 0) to (2, 4, %{{.*}}, 3) step (1, 1, 64, 1)
// CHECK-SAME:        -> (tensor<3x2x4x?x32xf32>, tensor<3x2x4x?xf32>)
// CHECK:           %[[END:.*]] = affine.max
// CHECK:           %[[N:.*]] = affine.apply #[[TILES]](%[[END]])
// CHECK:           %[[AT:.*]] = arith.muli %[[N]], %[[P]]
// CHECK:           %[[NEXT:.*]] = arith.muli %[[N]], %{{.*}}
// CHECK:           %[[FROM:.*]] = affine.apply #[[PLACE]](%[[AT]])
// CHECK:           %[[MIDDLE:.*]] = affine.min #[[CUT]](%{{.*}}, %[[NEXT]])
// CHECK:           %[[TO:.*]] = affine.min #[[CUT]](%[[END]], %[[NEXT]])
// CHECK:           scf.for %{{.*}} = %[[FROM]] to %[[MIDDLE]] step
// CHECK:           scf.for %{{.*}} = %[[MIDDLE]] to %[[TO]] step
// CHECK:             mask (
// Sinks join where parts are merged, once.
// CHECK:           flash.finalize ins({{[^)]*}}) outs({{[^)]*}}) {normalize = {{[^}]*}}} -> tensor<1x1x64x32xf32>, tensor<1x1x64xf32>
// CHECK:           tensor.parallel_insert_slice %{{.*}} into %{{.*}}[%[[P]], %[[B]], %[[H]], %[[I]], 0]
// CHECK:           tensor.parallel_insert_slice %{{.*}} into %{{.*}}[%[[P]], %[[B]], %[[H]], %[[I]]]
// CHECK:         flash.merge_states ins(%[[PARTS]]#0, %[[PARTS]]#1 : {{.*}}) sinks(%[[SINKS]] : tensor<4xf32>)
func.func @causal(%q: tensor<2x4x?x32xbf16>, %k: tensor<2x4x?x32xbf16>, %v: tensor<2x4x?x32xbf16>, %sinks: tensor<4xf32>) -> tensor<2x4x?x32xbf16> {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<2x4x?x32xbf16>, tensor<2x4x?x32xbf16>, tensor<2x4x?x32xbf16>)
    sinks(%sinks : tensor<4xf32>) {scale = 0.125 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi sle, %j, %i : index
      flash.yield %keep : i1
    } -> tensor<2x4x?x32xbf16>, tensor<2x4x?xf32>
  return %o : tensor<2x4x?x32xbf16>
}

// A window and sink tokens: there is a gap between the loops. A part has tiles of all loops by their numbers, so the gap
// counts for none. The first loop begins at key 0, and ends after the tiles of the part that are its own.
// CHECK-LABEL: func.func @two_runs(
// CHECK:         scf.forall (%{{.*}}, %{{.*}}, %[[P:.*]]) = (0, 0, 0) to (2, %{{.*}}, 3)
// CHECK:           %[[FIRST:.*]] = affine.apply #[[TILES]](
// CHECK:           %[[TWO:.*]] = arith.addi %[[FIRST]], %{{.*}} : index
// CHECK:           %[[THREE:.*]] = arith.addi %[[TWO]], %{{.*}} : index
// CHECK:           %[[ALL:.*]] = arith.addi %[[THREE]], %{{.*}} : index
// CHECK:           %[[AT:.*]] = arith.muli %[[ALL]], %[[P]]
// CHECK:           %[[FROM:.*]] = affine.apply #{{.*}}(%[[AT]])
// CHECK:           %[[OWN:.*]] = arith.maxsi %[[FROM]], %[[FIRST]]
// CHECK:           %[[NUMBER:.*]] = arith.subi %[[OWN]], %[[FIRST]]
// CHECK:           affine.min #{{.*}}(%{{.*}}, %[[NUMBER]], %{{.*}})
// CHECK:         flash.merge_states
// WORK-LABEL:    func.func @two_runs(
// WORK:            %[[TWO:.*]] = arith.addi %{{.*}} : index
// WORK:            %[[THREE:.*]] = arith.addi %[[TWO]], %{{.*}} : index
// WORK:            %[[SUM:.*]] = arith.addi %[[THREE]], %{{.*}} : index
// WORK-NEXT:       %[[SIZE:.*]] = flash.part_size of %[[SUM]] most 3
func.func @two_runs(%q: tensor<1x2x?x32xbf16>, %k: tensor<1x2x?x32xbf16>, %v: tensor<1x2x?x32xbf16>) -> (tensor<1x2x?x32xbf16>, tensor<1x2x?xf32>) {
  %c4 = arith.constant 4 : index
  %c200 = arith.constant 200 : index
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<1x2x?x32xbf16>, tensor<1x2x?x32xbf16>, tensor<1x2x?x32xbf16>) {scale = 0.125 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %causal = arith.cmpi sle, %j, %i : index
      %far = arith.subi %i, %j : index
      %near = arith.cmpi slt, %far, %c200 : index
      %first = arith.cmpi slt, %j, %c4 : index
      %some = arith.ori %near, %first : i1
      %keep = arith.andi %some, %causal : i1
      flash.yield %keep : i1
    } -> tensor<1x2x?x32xbf16>, tensor<1x2x?xf32>
  return %o, %lse : tensor<1x2x?x32xbf16>, tensor<1x2x?xf32>
}
