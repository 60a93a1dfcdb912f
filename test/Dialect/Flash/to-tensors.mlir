// RUN: flashc-opt %s --flash-to-tensors | FileCheck %s

!mem = memref<2x4x32x16xf32, strided<[2048, 16, 64, 1]>>
!kv = memref<2x2x?x16xf32>
!row = memref<2x4x32xf32>

// CHECK-LABEL: func @strided_memrefs(
// CHECK-SAME:      %[[Q:[^:]*]]: memref<2x4x32x16xf32, strided<[2048, 16, 64, 1]>>, %[[K:[^:]*]]: memref<2x2x?x16xf32>,
// CHECK-SAME:      %[[V:[^:]*]]: memref<2x2x?x16xf32>, %[[O:[^:]*]]: memref<{{.*}}>, %[[LSE:[^:]*]]: memref<2x4x32xf32>)
// CHECK:         %[[TQ:.*]] = bufferization.to_tensor %[[Q]] restrict : memref<2x4x32x16xf32, strided<[2048, 16, 64, 1]>> to tensor<2x4x32x16xf32>
// CHECK:         %[[TK:.*]] = bufferization.to_tensor %[[K]] restrict
// CHECK:         %[[TV:.*]] = bufferization.to_tensor %[[V]] restrict
// CHECK:         %[[A:.*]]:2 = flash.attention ins(%[[TQ]], %[[TK]], %[[TV]] : tensor<2x4x32x16xf32>, tensor<2x2x?x16xf32>, tensor<2x2x?x16xf32>)
// CHECK-SAME:        {scale = 2.500000e-01 : f32} score ({{.*}}) {
// CHECK:               arith.negf
// CHECK:             } mask ({{.*}}) {
// CHECK:               arith.cmpi sle
// CHECK:             } -> tensor<2x4x32x16xf32>, tensor<2x4x32xf32>
// CHECK:         bufferization.materialize_in_destination %[[A]]#0 in restrict writable %[[O]]
// CHECK:         bufferization.materialize_in_destination %[[A]]#1 in restrict writable %[[LSE]]
// CHECK-NOT:     flash.attention
func.func @strided_memrefs(%q: !mem, %k: !kv, %v: !kv, %o: !mem, %lse: !row) {
  flash.attention ins(%q, %k, %v : !mem, !kv, !kv) outs(%o, %lse : !mem, !row) {scale = 2.500000e-01 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %t = arith.negf %s : f32
      flash.yield %t : f32
    }
    mask (%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi sle, %j, %i : index
      flash.yield %keep : i1
    }
  return
}

// Two restrict tensors of one memref would contradict each other.
// CHECK-LABEL: func @keys_are_values(
// CHECK:         %[[TQ:.*]] = bufferization.to_tensor
// CHECK:         %[[TKV:.*]] = bufferization.to_tensor
// CHECK-NOT:     bufferization.to_tensor
// CHECK:         flash.attention ins(%[[TQ]], %[[TKV]], %[[TKV]] :
func.func @keys_are_values(%q: memref<2x4x32x16xf32>, %kv: !kv, %o: memref<2x4x32x16xf32>, %lse: !row) {
  flash.attention ins(%q, %kv, %kv : memref<2x4x32x16xf32>, !kv, !kv) outs(%o, %lse : memref<2x4x32x16xf32>, !row)
    {scale = 2.500000e-01 : f32}
  return
}

// CHECK-LABEL: func @tensors_stay(
// CHECK-NOT:     bufferization
// CHECK:         flash.attention
func.func @tensors_stay(%q: tensor<1x1x8x8xf32>) -> (tensor<1x1x8x8xf32>, tensor<1x1x8xf32>) {
  %o, %lse = flash.attention ins(%q, %q, %q : tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>)
    {scale = 1.0 : f32} -> tensor<1x1x8x8xf32>, tensor<1x1x8xf32>
  return %o, %lse : tensor<1x1x8x8xf32>, tensor<1x1x8xf32>
}
