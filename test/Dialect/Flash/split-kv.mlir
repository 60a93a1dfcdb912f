// RUN: flashc-opt %s --flash-split-kv=kv-chunk=128 --canonicalize --cse --split-input-file | FileCheck %s
// RUN: flashc-opt %s --flash-split-kv=kv-chunk=128 --flash-tile="q-tile=16 kv-tile=64" --canonicalize --cse --split-input-file | FileCheck %s --check-prefix=TILED

!q = tensor<1x8x4x16xbf16>
!k = tensor<1x2x?x16xbf16>
!acc = tensor<1x8x4x16xf32>
!row = tensor<1x8x4xf32>

// Every chunk folds into a state of its own; the states are scaled to the common maximum and added to the op's own.

// CHECK:       #[[CHUNKS:.*]] = affine_map<()[s0] -> (s0 ceildiv 128)>
// CHECK-LABEL: func @deferred(
// CHECK-SAME:      %[[Q:[^:]*]]: {{[^,]*}}, %[[K:[^:]*]]: {{[^,]*}}, %[[ACC:[^:]*]]: {{[^,]*}}, %[[M:[^:]*]]: {{[^,]*}}, %[[L:[^:]*]]: {{[^)]*}})
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-DAG:     %[[NEG_INF:.*]] = arith.constant 0xFF800000 : f32
// CHECK:         %[[NK:.*]] = tensor.dim %[[K]]
// CHECK:         affine.apply #[[CHUNKS]]()[%[[NK]]]
// CHECK:         %[[ACCS:.*]] = linalg.fill ins(%[[ZERO]] : f32) outs(%{{.*}} : tensor<?x1x8x4x16xf32>)
// CHECK:         %[[MS:.*]] = linalg.fill ins(%[[NEG_INF]] : f32) outs(%{{.*}} : tensor<?x1x8x4xf32>)
// CHECK:         %[[LS:.*]] = linalg.fill ins(%[[ZERO]] : f32) outs(%{{.*}} : tensor<?x1x8x4xf32>)
// CHECK:         %[[P:.*]]:3 = scf.forall (%[[J:.*]]) = (0) to (%[[NK]]) step (128) shared_outs(%[[A0:.*]] = %[[ACCS]], %[[M0:.*]] = %[[MS]], %[[L0:.*]] = %[[LS]])
// CHECK:           %[[CHUNK:.*]] = affine.apply #{{.*}}()[%[[J]]]
// CHECK:           %[[AT:.*]] = tensor.extract_slice %[[A0]][%[[CHUNK]], 0, 0, 0, 0] [1, 1, 8, 4, 16]
// CHECK:           %[[MT:.*]] = tensor.extract_slice %[[M0]][%[[CHUNK]], 0, 0, 0] [1, 1, 8, 4]
// CHECK:           %[[LT:.*]] = tensor.extract_slice %[[L0]][%[[CHUNK]], 0, 0, 0] [1, 1, 8, 4]
// CHECK:           %[[KT:.*]] = tensor.pad
// CHECK:           %[[A1:.*]], %[[M1:.*]], %[[L1:.*]] = flash.online_attention ins(%[[Q]], %[[KT]], %[[KT]] : {{.*}}, tensor<1x2x128x16xbf16>, tensor<1x2x128x16xbf16>)
// CHECK-SAME:          outs(%[[AT]], %[[MT]], %[[LT]] :
// CHECK-SAME:          at(%{{.*}}, %{{.*}}, %{{.*}}, %[[J]])
// CHECK:                 arith.cmpi slt, %{{.*}}, %[[NK]]
// CHECK:           tensor.parallel_insert_slice %[[A1]] into %[[A0]][%[[CHUNK]], 0, 0, 0, 0] [1, 1, 8, 4, 16]
// CHECK:           tensor.parallel_insert_slice %[[M1]] into %[[M0]][%[[CHUNK]], 0, 0, 0] [1, 1, 8, 4]
// CHECK:           tensor.parallel_insert_slice %[[L1]] into %[[L0]][%[[CHUNK]], 0, 0, 0] [1, 1, 8, 4]
// CHECK:         %[[MAX:.*]] = linalg.generic {{.*}} ins(%[[P]]#1 :{{.*}} outs(%[[M]] :
// CHECK:           arith.maximumf
// CHECK:         %[[W:.*]] = linalg.generic {{.*}} ins(%[[P]]#1, %[[MAX]] :
// CHECK:           math.exp
// CHECK:         %[[WL:.*]] = linalg.generic {{.*}} ins(%[[W]] :{{.*}} outs(%[[P]]#2 :
// CHECK:         %[[C:.*]] = linalg.generic {{.*}} ins(%[[M]], %[[MAX]] :
// CHECK:           math.exp
// CHECK:         %[[CL:.*]] = linalg.generic {{.*}} ins(%[[C]] :{{.*}} outs(%[[L]] :
// CHECK:         %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[WL]] :{{.*}} outs(%[[CL]] :
// CHECK:         %[[CACC:.*]] = linalg.generic {{.*}} ins(%[[C]] :{{.*}} outs(%[[ACC]] :
// CHECK:         %[[OUT:.*]] = linalg.generic {{.*}} ins(%[[W]], %[[P]]#0 :{{.*}} outs(%[[CACC]] :
// CHECK-NOT:     arith.divf
// CHECK:         return %[[OUT]], %[[MAX]], %[[SUM]]

// The tile pass tiles the chunk.
// TILED-LABEL: func @deferred(
// TILED:         scf.forall
// TILED:           scf.for
// TILED:           flash.online_attention ins({{.*}} : tensor<1x1x16x16xbf16>, tensor<1x1x64x16xbf16>, tensor<1x1x64x16xbf16>)
func.func @deferred(%q: !q, %k: !k, %acc: !acc, %m: !row, %l: !row) -> (!acc, !row, !row) {
  %c0 = arith.constant 0 : index
  %0:3 = flash.online_attention ins(%q, %k, %k : !q, !k, !k) outs(%acc, %m, %l : !acc, !row, !row)
    at(%c0, %c0, %c0, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !row, !row
  return %0#0, %0#1, %0#2 : !acc, !row, !row
}

// -----

!t = tensor<1x1x256x16xf32>
!row = tensor<1x1x256xf32>

// A normalised accumulator counts by its row sum, and the merged one is divided by the whole. The number of chunks is
// static when the number of keys is, and chunks that fit need no mask.

// CHECK-LABEL: func @each_step(
// CHECK:         %[[P:.*]]:3 = scf.forall {{.*}} -> (tensor<2x1x1x256x16xf32>, tensor<2x1x1x256xf32>, tensor<2x1x1x256xf32>)
// CHECK-NOT:       tensor.pad
// CHECK-NOT:       mask
// CHECK:         %[[WL:.*]] = linalg.generic {{.*}} outs(%[[P]]#2 :
// CHECK:         linalg.generic {{.*}} ins(%[[WL]], %[[P]]#0 :
// CHECK:         arith.divf
func.func @each_step(%t: !t, %m: !row, %l: !row) -> (!t, !row, !row) {
  %c0 = arith.constant 0 : index
  %0:3 = flash.online_attention ins(%t, %t, %t : !t, !t, !t) outs(%t, %m, %l : !t, !row, !row)
    at(%c0, %c0, %c0, %c0) {normalize = #flash.normalize<each_step>, scale = 1.0 : f32} -> !t, !row, !row
  return %0#0, %0#1, %0#2 : !t, !row, !row
}
