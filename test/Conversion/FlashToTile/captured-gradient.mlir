// Gradients of what scores read, as kernels, by sums of rows and columns: one that sums score gradients, and others that add its sums up.
// RUN: flashc-opt %s --split-input-file --flash-fa2 --convert-flash-to-tile="schedule=consumers=1" --canonicalize --cse | FileCheck %s

!q = tensor<2x4x?x64xbf16>
!k = tensor<2x2x?x64xbf16>
!lse = tensor<2x4x?xf32>

// Rows: the sums stay in registers along all keys of a query.
// CHECK-LABEL: gpu.func @slopes(
// CHECK-SAME:    after = [{{.*}}kernel = "slopes_scatter"
// CHECK-SAME:    before = [{{.*}}kernel = "slopes_delta"
// CHECK:         tile.program 1
// CHECK:           %[[SUMS:.*]] = scf.for {{.*}} iter_args(%[[SUM:.*]] = %{{.*}}) -> (tensor<64x
// CHECK:             tile.mma_async
// CHECK:             tile.mma_async
// The derivative is not rounded, as it is for products.
// CHECK-NOT:         tile.to_operand_a
// CHECK:             %[[ADDED:.*]] = tile.row_reduce sum %{{.*}}
// CHECK:             arith.addf %[[SUM]], %[[ADDED]]
// CHECK:           tile.combine
// CHECK:           tile.store
// A CTA for each element: all queries add to it, in an order that hangs on the thread's number.
// CHECK-LABEL: gpu.func @slopes_scatter(
// CHECK:         scf.for
// CHECK:         nvvm.shfl.sync bfly
// CHECK:         nvvm.barrier0
func.func @slopes(%q: !q, %k: !k, %v: !k, %o: !q, %lse: !lse, %do: !q, %slopes: tensor<4xf32>) -> tensor<4xf32> {
  %d = flash.captured_gradient ins(%q, %k, %v, %o, %lse, %do : !q, !k, !k, !q, !lse, !q) of(%slopes : tensor<4xf32>)
      {scale = 0.125 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %slope = tensor.extract %slopes[%h] : tensor<4xf32>
        %t = arith.mulf %s, %slope : f32
        flash.yield %t : f32
      } -> tensor<4xf32>
  return %d : tensor<4xf32>
}

// -----

!q = tensor<?x4x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
!lse = tensor<?x4x?xf32>

// Two reads: two nests, whose sums are added up one behind the other.
// CHECK-LABEL: gpu.func @twice(
// CHECK-SAME:    after = [{{.*}}kernel = "twice_columns"{{.*}}kernel = "twice_scatter"{{.*}}kernel = "twice_scatter1"
func.func @twice(%q: !q, %k: !k, %v: !k, %o: !q, %lse: !lse, %do: !q, %bias: tensor<4x?xf32>) -> tensor<4x?xf32> {
  %d = flash.captured_gradient ins(%q, %k, %v, %o, %lse, %do : !q, !k, !k, !q, !lse, !q) of(%bias : tensor<4x?xf32>)
      {scale = 0.125 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %bias[%h, %i] : tensor<4x?xf32>
        %y = tensor.extract %bias[%h, %j] : tensor<4x?xf32>
        %sum = arith.addf %x, %y : f32
        %t = arith.addf %s, %sum : f32
        flash.yield %t : f32
      } -> tensor<4x?xf32>
  return %d : tensor<4x?xf32>
}
