// RUN: flashc-opt %s --cse --canonicalize | FileCheck %s

// On tensors attention is a function of its operands: unused, it goes away. On memrefs it writes, and stays.

!t = tensor<1x1x8x8xf32>

// CHECK-LABEL: func @unused_on_tensors(
// CHECK-NEXT:    return
func.func @unused_on_tensors(%q: !t) {
  %0:2 = flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      } -> !t, tensor<1x1x8xf32>
  return
}

// CHECK-LABEL: func @twice_on_tensors(
// CHECK:         %[[A:.*]]:2 = flash.attention
// CHECK-NOT:     flash.attention
// CHECK:         return %[[A]]#0, %[[A]]#0
func.func @twice_on_tensors(%q: !t) -> (!t, !t) {
  %0:2 = flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32} -> !t, tensor<1x1x8xf32>
  %1:2 = flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32} -> !t, tensor<1x1x8xf32>
  return %0#0, %1#0 : !t, !t
}

// CHECK-LABEL: func @on_memrefs(
// CHECK:         flash.attention
func.func @on_memrefs(%q: memref<1x1x8x8xf32>, %o: memref<1x1x8x8xf32>, %lse: memref<1x1x8xf32>) {
  flash.attention ins(%q, %q, %q : memref<1x1x8x8xf32>, memref<1x1x8x8xf32>, memref<1x1x8x8xf32>)
      outs(%o, %lse : memref<1x1x8x8xf32>, memref<1x1x8xf32>) {scale = 1.0 : f32}
  return
}
