// Partial results, merged, with every eighth log-sum-exp -inf; of attentions over parts of the keys the merge is the
// attention over all.
// RUN: flashc %s --run=cpu --check | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --dims=B=2,Hq=3,Nq=65 --shape=o_parts=7x2x3x65x8 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --dims=Nq=1 --shape=o_parts=1x1x1x1x8 | FileCheck %s --implicit-check-not=FAIL

// CHECK: check @tensors: o: {{.*}} PASS
// CHECK-NEXT: check @tensors: lse: {{.*}} PASS
func.func @tensors(%o_parts: tensor<?x?x?x?x8xbf16>, %lse_parts: tensor<?x?x?x?xf32>, %sinks: tensor<?xf32>)
    -> (tensor<?x?x?x8xbf16>, tensor<?x?x?xf32>) {
  %0:2 = flash.merge_states ins(%o_parts, %lse_parts : tensor<?x?x?x?x8xbf16>, tensor<?x?x?x?xf32>)
    sinks(%sinks : tensor<?xf32>) -> tensor<?x?x?x8xbf16>, tensor<?x?x?xf32>
  return %0#0, %0#1 : tensor<?x?x?x8xbf16>, tensor<?x?x?xf32>
}

// CHECK-NEXT: check @memrefs: o: {{.*}} PASS
// CHECK-NEXT: check @memrefs: lse: {{.*}} PASS
func.func @memrefs(%parts: memref<?x?x?x?x8xf32, strided<[?, ?, ?, ?, 1], offset: ?>>, %lses: memref<?x?x?x?xf32>,
                   %o: memref<?x?x?x8xf16, strided<[?, ?, ?, 1], offset: ?>>, %lse: memref<?x?x?xf32>) {
  flash.merge_states
    ins(%parts, %lses : memref<?x?x?x?x8xf32, strided<[?, ?, ?, ?, 1], offset: ?>>, memref<?x?x?x?xf32>)
    outs(%o, %lse : memref<?x?x?x8xf16, strided<[?, ?, ?, 1], offset: ?>>, memref<?x?x?xf32>)
  return
}
