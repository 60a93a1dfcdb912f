// flash.column_sums as linalg, as one step over all queries, and in tiles.
// RUN: flashc-opt %s --flash-decompose | FileCheck %s --check-prefix=STANDARD
// RUN: flashc-opt %s --flash-fuse | FileCheck %s --check-prefix=FUSE
// RUN: flashc-opt %s --flash-online-softmax | FileCheck %s --check-prefix=STEP
// RUN: flashc-opt %s --flash-online-softmax --flash-tile="q-tile=16 kv-tile=32" --canonicalize --cse | FileCheck %s --check-prefix=TILE

!q = tensor<1x4x?x8xf32>
!k = tensor<1x2x64x8xf32>
!lse = tensor<1x4x?xf32>

// A row of lse = -inf adds 0, and so does a score of -inf, whatever lse is; then groups are added up.
// STANDARD:       #[[GROUP:.*]] = affine_map<(d0, d1, d2) -> (d0, d1 floordiv 2, d2)>
// STANDARD-LABEL: func @group_sums(
// STANDARD-SAME:      %{{[^:]*}}: {{[^,]*}}, %{{[^:]*}}: {{[^,]*}}, %[[LSE:[^:]*]]: {{[^)]*}})
// STANDARD:         linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction", "parallel"]} ins(%{{.*}}, %[[LSE]] :
// STANDARD:           ^bb0(%[[S:.*]]: f32, %[[L:.*]]: f32, %[[C:.*]]: f32):
// STANDARD-DAG:         %[[NONE:.*]] = arith.cmpf oeq, %[[L]], %{{.*}} : f32
// STANDARD-DAG:         %[[HIDDEN:.*]] = arith.cmpf oeq, %[[S]], %{{.*}} : f32
// STANDARD-DAG:         %[[EMPTY:.*]] = arith.ori %[[NONE]], %[[HIDDEN]] : i1
// STANDARD-DAG:         %[[D:.*]] = arith.subf %[[S]], %[[L]] : f32
// STANDARD-DAG:         %[[E:.*]] = math.exp %[[D]] : f32
// STANDARD:             %[[W:.*]] = arith.select %[[EMPTY]], %{{.*}}, %[[E]] : f32
// STANDARD:             arith.addf %[[C]], %[[W]] : f32
// STANDARD:         linalg.generic {indexing_maps = [#{{.*}}, #[[GROUP]]], iterator_types = ["parallel", "reduction", "parallel"]}
// STANDARD-NOT:     flash.

// STEP-LABEL: func @group_sums(
// STEP:         %[[ZERO:.*]] = linalg.fill
// STEP:         %[[C:.*]] = flash.accumulate_column_sums ins({{.*}}) outs(%[[ZERO]] : tensor<1x4x64xf32>)
// STEP-SAME:        at(%c0, %c0, %c0, %c0) {scale = 1.000000e+00 : f32} mask
// STEP:         %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[C]] : tensor<1x4x64xf32>)
// STEP:         return %[[SUM]]

// Queries are streamed and may stick out: what is beyond them is not added. Keys are whole tiles.
// TILE-LABEL: func @group_sums(
// TILE-SAME:      %[[Q:[^:]*]]: {{[^,]*}}, %[[K:[^:]*]]: {{[^,]*}}, %[[LSE:[^:]*]]: {{[^)]*}})
// TILE:         %[[NQ:.*]] = tensor.dim %[[Q]]
// TILE:         scf.for %[[H:[^ ]*]] = %{{.*}} to %c4
// TILE:           scf.for %[[J:[^ ]*]] = %{{.*}} to %c64
// TILE:             scf.for %[[I:[^ ]*]] = %{{.*}} to %[[NQ]]
// TILE-DAG:           tensor.extract_slice %[[LSE]][0, %[[H]], %[[I]]] [1, 1, %{{.*}}]
// TILE-DAG:           tensor.extract_slice %[[K]][0, %{{.*}}, %[[J]], 0] [1, 1, 32, 8]
// TILE:               flash.accumulate_column_sums ins({{.*}} : tensor<1x1x16x8xf32>, tensor<1x1x32x8xf32>, tensor<1x1x16xf32>)
// TILE-SAME:              outs(%{{.*}} : tensor<1x1x32xf32>) at(%{{.*}}, %[[H]], %[[I]], %[[J]])
// TILE-SAME:              mask (%{{[^:]*}}: index, %{{[^:]*}}: index, %[[QUERY:[^:]*]]: index, %[[KEY:[^:]*]]: index)
// TILE:                 %[[CAUSAL:.*]] = arith.cmpi sle, %[[KEY]], %[[QUERY]]
// TILE:                 %[[INSIDE:.*]] = arith.cmpi slt, %[[QUERY]], %[[NQ]]
// TILE:                 arith.andi %[[CAUSAL]], %[[INSIDE]]
// TILE:               tensor.insert_slice %{{.*}} into %{{.*}}[0, %[[H]], %[[J]]] [1, 1, 32]
func.func @group_sums(%q: !q, %k: !k, %lse: !lse) -> tensor<1x2x64xf32> {
  %c = flash.column_sums ins(%q, %k, %lse : !q, !k, !lse) {scale = 1.0 : f32, sum_groups}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi sle, %j, %i : index
      flash.yield %keep : i1
    } -> tensor<1x2x64xf32>
  return %c : tensor<1x2x64xf32>
}

// What computes a captured tensor becomes code of the score.
// FUSE-LABEL: func @fused_score(
// FUSE-NOT:     tensor.splat
// FUSE:         score (%[[S:[^:]*]]: f32,
// FUSE:           arith.addf %[[S]], %{{.*}} : f32
func.func @fused_score(%q: !q, %k: !k, %lse: !lse, %x: f32) -> tensor<1x4x64xf32> {
  %bias = tensor.splat %x : tensor<64xf32>
  %c = flash.column_sums ins(%q, %k, %lse : !q, !k, !lse) {scale = 1.0 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %y = tensor.extract %bias[%j] : tensor<64xf32>
      %t = arith.addf %s, %y : f32
      flash.yield %t : f32
    } -> tensor<1x4x64xf32>
  return %c : tensor<1x4x64xf32>
}
