// The keys' weights by the algorithm fa2: keys are resident, queries are streamed, and the mask bounds the loop over queries.
// RUN: flashc-opt %s --flash-fa2 | FileCheck %s

!q = tensor<1x4x256x16xf32>
!k = tensor<1x2x256x16xf32>
!lse = tensor<1x4x256xf32>
!c = tensor<1x4x256xf32>

// Causal: tiles of queries in front of the keys are not visited, those at the diagonal are masked, later ones are not.
// The last loop, for queries that stick out, has no iteration here. The sums are a tile that the loops carry, from 0 on.

// CHECK-LABEL: func @causal(
// CHECK-SAME:      %[[Q:[^:]*]]: {{[^,]*}}, %[[K:[^:]*]]: {{[^,]*}}, %[[LSE:[^:]*]]: {{[^)]*}})
// CHECK:         %[[OUT:.*]] = tensor.empty() : tensor<1x4x256xf32>
// CHECK:         %[[C:.*]] = scf.forall (%[[H:[^,]*]], %[[J:[^)]*]]) = (0, 0) to (4, 256) step (1, 64) shared_outs(%[[SHARED:.*]] = %[[OUT]])
// CHECK:           %[[KT:.*]] = tensor.extract_slice %[[K]][0, %{{.*}}, %[[J]], 0] [1, 1, 64, 16]
// CHECK:           %[[ZERO:.*]] = linalg.fill ins(%{{.*}}) outs(%{{.*}} : tensor<1x1x64xf32>)
// CHECK:           %[[DIAGONAL:.*]] = scf.for %[[I:[^ ]*]] = %{{[^ ]*}} to %[[FULL:[^ ]*]] step %{{[^ ]*}} iter_args(%[[SUMS:[^ ]*]] = %[[ZERO]])
// CHECK:             flash.accumulate_column_sums ins(%{{[^ ]*}}, %[[KT]], %{{[^ ]*}} :
// CHECK-SAME:            outs(%[[SUMS]] : tensor<1x1x64xf32>) at(%c0, %[[H]], %[[I]], %[[J]])
// CHECK-SAME:            mask
// CHECK:           %[[WHOLE:.*]] = scf.for %{{.*}} = %[[FULL]] to %{{.*}} step %{{.*}} iter_args(%{{.*}} = %[[DIAGONAL]])
// CHECK:             flash.accumulate_column_sums
// CHECK-NOT:         mask
// CHECK:           %[[REST:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %[[WHOLE]])
// CHECK:           scf.forall.in_parallel
// CHECK-NEXT:        tensor.parallel_insert_slice %[[REST]] into %[[SHARED]][0, %[[H]], %[[J]]] [1, 1, 64]
// CHECK:         return %[[C]]
func.func @causal(%q: !q, %k: !k, %lse: !lse) -> !c {
  %c = flash.column_sums ins(%q, %k, %lse : !q, !k, !lse) {scale = 0.25 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi sle, %j, %i : index
      flash.yield %keep : i1
    } -> !c
  return %c : !c
}

// A single tile of each: no loops are left.

// CHECK-LABEL: func @one_tile(
// CHECK-NOT:     scf
// CHECK:         %[[ZERO:.*]] = linalg.fill ins(%{{.*}}) outs(%{{.*}} : tensor<1x1x64xf32>)
// CHECK:         %[[C:.*]] = flash.accumulate_column_sums {{.*}} outs(%[[ZERO]] : tensor<1x1x64xf32>)
// CHECK:         tensor.extract_slice %[[C]][0, 0, 0] [1, 1, 40]
func.func @one_tile(%q: tensor<1x1x50x16xf32>, %k: tensor<1x1x40x16xf32>, %lse: tensor<1x1x50xf32>)
    -> tensor<1x1x40xf32> {
  %c = flash.column_sums ins(%q, %k, %lse : tensor<1x1x50x16xf32>, tensor<1x1x40x16xf32>, tensor<1x1x50xf32>)
    {scale = 0.25 : f32} -> tensor<1x1x40xf32>
  return %c : tensor<1x1x40xf32>
}
