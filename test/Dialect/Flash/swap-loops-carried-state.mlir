// RUN: flashc-opt %s --flash-swap-loops --canonicalize | FileCheck %s

// The state may hold keys already: the first tiles are slices of it, and the normalisation stays.
!state4 = tensor<1x1x128x8xf32>
!state3 = tensor<1x1x128xf32>
!tile4 = tensor<1x1x64x8xf32>
!tile3 = tensor<1x1x64xf32>
!kv = tensor<1x1x64x8xf32>
!kv_tile = tensor<1x1x32x8xf32>
// CHECK-LABEL: func @unknown_start
// CHECK-SAME:    %[[ACC:[a-z0-9]+]]: tensor<1x1x128x8xf32>, %[[M:[a-z0-9]+]]: tensor<1x1x128xf32>, %{{[a-z0-9]+}}: tensor<1x1x128xf32>, %[[O:[a-z0-9]+]]: tensor<1x1x128x8xf32>
// CHECK:         scf.for %[[I:[a-z0-9]+]] = {{.*}} iter_args(%{{.*}} = %[[O]],
// CHECK:           %[[ACC0:.*]] = tensor.extract_slice %[[ACC]][0, 0, %[[I]], 0] [1, 1, 64, 8]
// CHECK:           %[[M0:.*]] = tensor.extract_slice %[[M]][0, 0, %[[I]]] [1, 1, 64]
// CHECK:           scf.for {{.*}} iter_args(%{{.*}} = %[[ACC0]], %{{.*}} = %[[M0]],
// CHECK:             flash.online_attention {{.*}} {normalize = #flash.normalize<each_step>
// CHECK:           flash.finalize {{.*}} {normalize = #flash.normalize<each_step>
func.func @unknown_start(%q: !state4, %k: !kv, %v: !kv, %acc: !state4, %m: !state3, %l: !state3, %o: !state4, %lse: !state3)
    -> (!state4, !state3) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %s:3 = scf.for %j = %c0 to %c64 step %c32 iter_args(%acc0 = %acc, %m0 = %m, %l0 = %l) -> (!state4, !state3, !state3) {
    %kt = tensor.extract_slice %k[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    %vt = tensor.extract_slice %v[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    %r:3 = scf.for %i = %c0 to %c128 step %c64 iter_args(%acc1 = %acc0, %m1 = %m0, %l1 = %l0) -> (!state4, !state3, !state3) {
      %qt = tensor.extract_slice %q[0, 0, %i, 0] [1, 1, 64, 8] [1, 1, 1, 1] : !state4 to !tile4
      %at = tensor.extract_slice %acc1[0, 0, %i, 0] [1, 1, 64, 8] [1, 1, 1, 1] : !state4 to !tile4
      %mt = tensor.extract_slice %m1[0, 0, %i] [1, 1, 64] [1, 1, 1] : !state3 to !tile3
      %lt = tensor.extract_slice %l1[0, 0, %i] [1, 1, 64] [1, 1, 1] : !state3 to !tile3
      %a, %n, %p = flash.online_attention ins(%qt, %kt, %vt : !tile4, !kv_tile, !kv_tile)
          outs(%at, %mt, %lt : !tile4, !tile3, !tile3) at(%c0, %c0, %i, %j)
          {normalize = #flash.normalize<each_step>, scale = 1.0 : f32} -> !tile4, !tile3, !tile3
      %acc2 = tensor.insert_slice %a into %acc1[0, 0, %i, 0] [1, 1, 64, 8] [1, 1, 1, 1] : !tile4 into !state4
      %m2 = tensor.insert_slice %n into %m1[0, 0, %i] [1, 1, 64] [1, 1, 1] : !tile3 into !state3
      %l2 = tensor.insert_slice %p into %l1[0, 0, %i] [1, 1, 64] [1, 1, 1] : !tile3 into !state3
      scf.yield %acc2, %m2, %l2 : !state4, !state3, !state3
    }
    scf.yield %r#0, %r#1, %r#2 : !state4, !state3, !state3
  }
  %o1, %lse1 = flash.finalize ins(%s#0, %s#1, %s#2 : !state4, !state3, !state3) outs(%o, %lse : !state4, !state3)
      {normalize = #flash.normalize<each_step>} -> !state4, !state3
  return %o1, %lse1 : !state4, !state3
}
