// RUN: flashc-opt %s --flash-parallelize | FileCheck %s
// RUN: flashc-opt %s --flash-online-softmax --flash-tile --flash-swap-loops --flash-parallelize --canonicalize --cse \
// RUN:   | FileCheck %s --check-prefix=PIPE

// Two loops become one; the op between them moves inside. The bounds are constants.
!out4 = tensor<1x2x128x8xf32>
!out3 = tensor<1x2x128xf32>
!tile4 = tensor<1x1x64x8xf32>
!tile3 = tensor<1x1x64xf32>
// CHECK-LABEL: func @two_loops
// CHECK-SAME:    %[[ACC:[a-z0-9]+]]: {{.*}}, %[[O:[a-z0-9]+]]: tensor<1x2x128x8xf32>, %[[LSE:[a-z0-9]+]]: tensor<1x2x128xf32>
// CHECK:         %[[R:.*]]:2 = scf.forall (%[[H:.*]], %[[I:.*]]) = (0, 0) to (2, 128) step (1, 64) shared_outs(%[[OUT:.*]] = %[[O]], %[[LOUT:.*]] = %[[LSE]])
// CHECK:           %[[T:.*]] = arith.addi %[[H]],
// CHECK:           arith.addi %[[T]], %[[I]]
// CHECK:           %[[OT:.*]], %[[LT:.*]] = flash.finalize
// CHECK:           scf.forall.in_parallel {
// CHECK-NEXT:        tensor.parallel_insert_slice %[[OT]] into %[[OUT]][0, %[[H]], %[[I]], 0] [1, 1, 64, 8]
// CHECK-NEXT:        tensor.parallel_insert_slice %[[LT]] into %[[LOUT]][0, %[[H]], %[[I]]] [1, 1, 64]
// CHECK-NEXT:      }
// CHECK-NOT:     scf.for{{ }}
// CHECK:         return %[[R]]#0, %[[R]]#1
func.func @two_loops(%acc: !tile4, %m: !tile3, %o: !out4, %lse: !out3) -> (!out4, !out3) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %r:2 = scf.for %h = %c0 to %c2 step %c1 iter_args(%o0 = %o, %lse0 = %lse) -> (!out4, !out3) {
    %t = arith.addi %h, %c1 : index
    %s:2 = scf.for %i = %c0 to %c128 step %c64 iter_args(%o1 = %o0, %lse1 = %lse0) -> (!out4, !out3) {
      %oe = tensor.empty() : !tile4
      %le = tensor.empty() : !tile3
      %u = arith.addi %t, %i : index
      %ot, %lt = flash.finalize ins(%acc, %m, %m : !tile4, !tile3, !tile3) outs(%oe, %le : !tile4, !tile3)
          {normalize = #flash.normalize<deferred>} -> !tile4, !tile3
      %o2 = tensor.insert_slice %ot into %o1[0, %h, %i, 0] [1, 1, 64, 8] [1, 1, 1, 1] : !tile4 into !out4
      %lse2 = tensor.insert_slice %lt into %lse1[0, %h, %i] [1, 1, 64] [1, 1, 1] : !tile3 into !out3
      scf.yield %o2, %lse2 : !out4, !out3
    }
    scf.yield %s#0, %s#1 : !out4, !out3
  }
  return %r#0, %r#1 : !out4, !out3
}

// The whole pipeline, dynamic: one parallel loop over batch, heads and query tiles, with a sequential loop over keys.
// PIPE-LABEL: func @attention
// PIPE-SAME:    %[[Q:[a-z0-9]+]]: tensor<?x2x?x64xf16>
// PIPE-DAG:     %[[B:.*]] = tensor.dim %[[Q]], %c0
// PIPE-DAG:     %[[NQ:.*]] = tensor.dim %[[Q]], %c2
// PIPE:         scf.forall (%{{.*}}, %{{.*}}, %[[I:.*]]) = (0, 0, 0) to (%[[B]], 2, %[[NQ]]) step (1, 1, 64) shared_outs
// PIPE:           %[[ROWS:.*]] = affine.min #{{.*}}(%[[I]])[%[[NQ]]]
// PIPE:           scf.for
// PIPE:             flash.online_attention
// PIPE:           flash.finalize
// PIPE:           scf.forall.in_parallel {
// PIPE-NEXT:        tensor.parallel_insert_slice %{{.*}} [1, 1, %[[ROWS]], 64]
// PIPE-NEXT:        tensor.parallel_insert_slice %{{.*}} [1, 1, %[[ROWS]]]
func.func @attention(%q: tensor<?x2x?x64xf16>, %k: tensor<?x2x?x64xf16>, %v: tensor<?x2x?x64xf16>)
    -> (tensor<?x2x?x64xf16>, tensor<?x2x?xf32>) {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<?x2x?x64xf16>, tensor<?x2x?x64xf16>, tensor<?x2x?x64xf16>)
      {scale = 0.125 : f32} -> tensor<?x2x?x64xf16>, tensor<?x2x?xf32>
  return %o, %lse : tensor<?x2x?x64xf16>, tensor<?x2x?xf32>
}

// Attention in a loop of the program: only the loops of the attention's own nest become parallel.
// PIPE-LABEL: func @refined
// PIPE:         scf.for
// PIPE:           scf.forall
// PIPE:             flash.finalize
func.func @refined(%q: tensor<1x2x128x64xf16>, %k: tensor<1x2x128x64xf16>) -> tensor<1x2x128x64xf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r = scf.for %t = %c0 to %c3 step %c1 iter_args(%x = %q) -> tensor<1x2x128x64xf16> {
    %o, %lse = flash.attention ins(%x, %k, %k : tensor<1x2x128x64xf16>, tensor<1x2x128x64xf16>, tensor<1x2x128x64xf16>)
        {scale = 0.125 : f32} -> tensor<1x2x128x64xf16>, tensor<1x2x128xf32>
    scf.yield %o : tensor<1x2x128x64xf16>
  }
  return %r : tensor<1x2x128x64xf16>
}

// A loop that carries nothing writes no tile: it is left alone.
// CHECK-LABEL: func @carries_nothing
// CHECK:         scf.for
// CHECK-NEXT:      flash.finalize
func.func @carries_nothing(%acc: tensor<1x1x64x8xf32>, %m: tensor<1x1x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  scf.for %h = %c0 to %c2 step %c1 {
    %o, %lse = flash.finalize ins(%acc, %m, %m : tensor<1x1x64x8xf32>, tensor<1x1x64xf32>, tensor<1x1x64xf32>)
        outs(%acc, %m : tensor<1x1x64x8xf32>, tensor<1x1x64xf32>)
        {normalize = #flash.normalize<deferred>} -> tensor<1x1x64x8xf32>, tensor<1x1x64xf32>
  }
  return
}
