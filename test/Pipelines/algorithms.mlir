// The order of the loops: keys outermost in FlashAttention (Algorithm 1), which carries the state of all queries through
// them; queries outermost in FlashAttention-2, in a parallel loop, with the state of one tile inside.
// RUN: flashc %flashc_src/examples/causal.mlir --emit=loops --algorithm=fa1 | FileCheck %s --check-prefix=FA1
// RUN: flashc %flashc_src/examples/causal.mlir --emit=loops --algorithm=fa2 | FileCheck %s --check-prefix=FA2

// FA1:     %[[NQ:.*]] = tensor.dim %arg0, %c2
// FA1:     %[[NK:.*]] = tensor.dim %arg1, %c2
// FA1:     scf.for %{{.*}} = %c0 to %{{.*}} step %c1
// FA1:     scf.for %{{.*}} = %c0 to %c8 step %c1
// FA1:     scf.for %[[J:.*]] = %c0 to %[[NK]] step %c64 {{.*}} -> (tensor<?x8x?x128xf32>,
// FA1:     scf.for %[[I:.*]] = %c0 to %[[NQ]] step %c64 {{.*}} -> (tensor<?x8x?x128xf32>,
// FA1-DAG: tensor.extract_slice %arg0[%{{.*}}, %{{.*}}, %[[I]], 0]
// FA1-DAG: tensor.extract_slice %arg1[%{{.*}}, %{{.*}}, %[[J]], 0]
// FA1:     flash.online_attention
// FA1-NOT: flash.online_attention
// FA1:     flash.finalize

// The mask bounds the keys: a loop without it, then one with it, both with the state of a tile.
// FA2:     %[[NQ:.*]] = tensor.dim %arg0, %c2
// FA2:     scf.forall (%{{.*}}, %{{.*}}, %[[I:.*]]) = (0, 0, 0) to (%{{.*}}, 8, %[[NQ]]) step (1, 1, 64)
// FA2:     tensor.extract_slice %arg0[%{{.*}}, %{{.*}}, %[[I]], 0]
// FA2:     scf.for %[[J:.*]] = %c0 to %[[FULL:.*]] step %c64 {{.*}} -> (tensor<1x1x64x128xf32>, tensor<1x1x64xf32>, tensor<1x1x64xf32>)
// FA2:     tensor.extract_slice %arg1[%{{.*}}, %{{.*}}, %[[J]], 0]
// FA2:     flash.online_attention
// FA2-NOT: arith.cmpi
// FA2:     scf.for %{{.*}} = %[[FULL]] to %{{.*}} step %c64 {{.*}} -> (tensor<1x1x64x128xf32>,
// FA2:     flash.online_attention
// FA2:     arith.cmpi sle
// FA2-NOT: flash.online_attention
// FA2:     flash.finalize
// FA2-NOT: scf.for
// FA2:     scf.forall.in_parallel
