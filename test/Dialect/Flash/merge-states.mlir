// RUN: flashc-opt %s | flashc-opt | FileCheck %s
// RUN: flashc-opt %s --mlir-print-op-generic | flashc-opt | FileCheck %s
// RUN: flashc-opt %s --flash-decompose | FileCheck %s --check-prefix=LINALG --implicit-check-not=flash.

// CHECK-LABEL: func @tensors
// CHECK: %{{.*}}:2 = flash.merge_states ins(%{{.*}}, %{{.*}} : tensor<?x2x8x128x64xf32>, tensor<?x2x8x128xf32>) sinks(%{{.*}} : tensor<8xf32>) -> tensor<2x8x128x64xbf16>, tensor<2x8x128xf32>
// LINALG-LABEL: func @tensors
// The sinks are the first maximum, and the first sum.
// LINALG:         %[[FIRST:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<8xf32>)
// LINALG:         %[[M:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[LSE:.*]] : tensor<?x2x8x128xf32>) outs(%[[FIRST]]
// LINALG:           arith.maximumf
// LINALG:         %[[SINKS:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[M]] : tensor<8xf32>, tensor<2x8x128xf32>)
// LINALG:         %[[L:.*]] = linalg.generic {{.*}} ins(%[[LSE]], %[[M]] {{.*}} outs(%[[SINKS]]
// LINALG:           math.exp
// LINALG:         %[[ACC:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[LSE]], %[[M]] : tensor<?x2x8x128x64xf32>
// LINALG:           %[[PRODUCT:.*]] = arith.mulf
// LINALG:           arith.select %{{.*}}, %{{.*}}, %[[PRODUCT]]
// LINALG:         linalg.generic {{.*}} ins(%[[ACC]], %[[L]]
// LINALG:           arith.divf
// LINALG:           arith.truncf
// LINALG:         linalg.generic {{.*}} ins(%[[L]] : {{.*}} outs(%[[M]]
// LINALG:           math.log
func.func @tensors(%o: tensor<?x2x8x128x64xf32>, %lse: tensor<?x2x8x128xf32>, %sinks: tensor<8xf32>)
    -> (tensor<2x8x128x64xbf16>, tensor<2x8x128xf32>) {
  %0:2 = flash.merge_states ins(%o, %lse : tensor<?x2x8x128x64xf32>, tensor<?x2x8x128xf32>) sinks(%sinks : tensor<8xf32>)
    -> tensor<2x8x128x64xbf16>, tensor<2x8x128xf32>
  return %0#0, %0#1 : tensor<2x8x128x64xbf16>, tensor<2x8x128xf32>
}

!parts = memref<3x?x?x?x40xf16, strided<[?, ?, ?, ?, 1], offset: ?>>
!lses = memref<3x?x?x?xf32>

// CHECK-LABEL: func @memrefs
// CHECK: flash.merge_states ins(%{{.*}}, %{{.*}} : memref<3x?x?x?x40xf16, strided<[?, ?, ?, ?, 1], offset: ?>>, memref<3x?x?x?xf32>) outs(%{{.*}}, %{{.*}} : memref<?x?x?x40xf32>, memref<?x?x?xf32>)
// LINALG-LABEL: func @memrefs
// LINALG-COUNT-2: bufferization.to_tensor
// LINALG-COUNT-2: bufferization.materialize_in_destination
func.func @memrefs(%parts: !parts, %lses: !lses, %o: memref<?x?x?x40xf32>, %lse: memref<?x?x?xf32>) {
  flash.merge_states ins(%parts, %lses : !parts, !lses) outs(%o, %lse : memref<?x?x?x40xf32>, memref<?x?x?xf32>)
  return
}
