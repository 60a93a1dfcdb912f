// RUN: flashc-opt %s --flash-online-softmax --flash-split-kv="splits=2" --canonicalize --cse --split-input-file | FileCheck %s
// RUN: flashc-opt %s --flash-online-softmax --flash-split-kv="splits=1" --canonicalize --cse --split-input-file | FileCheck %s --check-prefix=ONE
// RUN: flashc-opt %s --flash-online-softmax --flash-split-kv="chunk=64" --canonicalize --cse --split-input-file | FileCheck %s --check-prefix=CHUNK

// Four query heads and four tokens are the rows of a tile. The keys that the mask needs are cut into two parts of tiles.
// CHECK-LABEL: func @causal(
// CHECK:         %[[PARTS:.*]]:2 = scf.forall (%[[B:.*]], %[[H:.*]], %[[I:.*]], %[[S:.*]]) = (0, 0, 0, 0) to (%{{.*}}, 8, %{{.*}}, 2) step (1, 4, 4, 1)
// CHECK:           %[[TILES:.*]] = affine.apply
// CHECK:           arith.muli %[[TILES]], %[[S]]
// CHECK:           scf.for %[[J:.*]] = %{{.*}} to %{{.*}} step %c16
// CHECK:             flash.online_attention ins(%{{.*}} : tensor<1x4x4x32xbf16>, tensor<1x1x16x32xbf16>, tensor<1x1x16x32xbf16>)
// CHECK-SAME:            at(%[[B]], %[[H]], %[[I]], %[[J]])
// CHECK:           flash.finalize {{.*}} outs(%{{.*}} : tensor<1x4x4x32xf32>, tensor<1x4x4xf32>)
// CHECK:           tensor.parallel_insert_slice %{{.*}} into %{{.*}}[%[[S]], %[[B]], %[[H]], %[[I]], 0]
// CHECK:         flash.merge_states ins(%[[PARTS]]#0, %[[PARTS]]#1 : tensor<2x?x8x?x32xf32>, tensor<2x?x8x?xf32>)
// CHECK-SAME:        -> tensor<?x8x?x32xbf16>, tensor<?x8x?xf32>

// One part is the result.
// ONE-LABEL: func @causal(
// ONE:         scf.forall (%{{.*}}, %{{.*}}, %{{.*}}) = (0, 0, 0) to (%{{.*}}, 8, %{{.*}}) step (1, 4, 4)
// ONE:           flash.finalize {{.*}} outs(%{{.*}} : tensor<1x4x4x32xbf16>, tensor<1x4x4xf32>)
// ONE-NOT:     flash.merge_states

// Parts of 64 keys are as many as the array has.
// CHUNK:       #[[CHUNKS:.*]] = affine_map<()[s0] -> (s0 ceildiv 64)>
// CHUNK-LABEL: func @causal(
// CHUNK:         %[[COUNT:.*]] = affine.apply #[[CHUNKS]]()
// CHUNK:         scf.forall {{.*}} to (%{{.*}}, 8, %{{.*}}, %[[COUNT]]) step (1, 4, 4, 1)
// CHUNK:           affine.max
// CHUNK:           affine.min
// CHUNK:         flash.merge_states
func.func @causal(%q: tensor<?x8x?x32xbf16>, %k: tensor<?x2x?x32xbf16>) -> (tensor<?x8x?x32xbf16>, tensor<?x8x?xf32>) {
  %o, %lse = flash.attention ins(%q, %k, %k : tensor<?x8x?x32xbf16>, tensor<?x2x?x32xbf16>, tensor<?x2x?x32xbf16>)
    {scale = 1.0 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi sle, %j, %i : index
      flash.yield %keep : i1
    } -> tensor<?x8x?x32xbf16>, tensor<?x8x?xf32>
  return %o, %lse : tensor<?x8x?x32xbf16>, tensor<?x8x?xf32>
}

// -----

// What a head needs is not what another one does: all keys are visited. Sinks join once, when parts are merged.
// CHECK-LABEL: func @heads(
// CHECK:         scf.forall (%{{.*}}, %{{.*}}) = (0, 0) to (24, 2) step (12, 1)
// CHECK-NOT:       affine.min
// CHECK:           scf.for
// CHECK:           flash.finalize
// CHECK-NOT:       sinks
// CHECK:         flash.merge_states {{.*}} sinks(%{{.*}} : tensor<24xf32>)
// ONE-LABEL: func @heads(
// ONE:         scf.forall (%[[H:.*]]) = (0) to (24) step (12)
// ONE:           %[[SINKS:.*]] = tensor.extract_slice %{{.*}}[%[[H]]] [12] [1] : tensor<24xf32> to tensor<12xf32>
// ONE:           flash.finalize {{.*}} sinks(%[[SINKS]] : tensor<12xf32>)
func.func @heads(%q: tensor<1x24x1x32xbf16>, %k: tensor<1x1x64x32xbf16>, %sinks: tensor<24xf32>) -> tensor<1x24x1x32xbf16> {
  %o, %lse = flash.attention ins(%q, %k, %k : tensor<1x24x1x32xbf16>, tensor<1x1x64x32xbf16>, tensor<1x1x64x32xbf16>)
    sinks(%sinks : tensor<24xf32>) {scale = 1.0 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi sge, %j, %h : index
      flash.yield %keep : i1
    } -> tensor<1x24x1x32xbf16>, tensor<1x24x1xf32>
  return %o : tensor<1x24x1x32xbf16>
}
