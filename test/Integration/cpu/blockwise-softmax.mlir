// The identity that FlashAttention rests on: the softmax of [x1, x2] from the softmaxes of x1 = [2, 4, 6] and
// x2 = [1, 3, 5]. One query q = [1] and one-dimensional keys make S = k; the values are the rows of the identity matrix,
// so that the output is the softmax itself.
//
// By hand: m(x1) = 6, l(x1) = e(-4) + e(-2) + 1 = 1.15365; m(x2) = 5, l(x2) = the same; m = 6 and
// l = l(x1) + e(5 - 6) l(x2) = 1.15365 (1 + e(-1)) = 1.57806; lse = 6 + log 1.57806 = 6.45619. The softmax is
// e(x - 6) / l = [0.0183156, 0.135335, 1, 0.00673795, 0.0497871, 0.367879] / 1.57806.

// RUN: split-file %s %t
// RUN: flashc %t/blocks.mlir --run=cpu --print-results --algorithm=standard | FileCheck %t/blocks.mlir
// RUN: flashc %t/whole.mlir --run=cpu --print-results --algorithm=standard | FileCheck %t/whole.mlir
// RUN: flashc %t/whole.mlir --run=cpu --print-results --algorithm=fa1 --q-tile=1 --kv-tile=3 | FileCheck %t/whole.mlir
// RUN: flashc %t/whole.mlir --run=cpu --print-results --algorithm=fa2 --q-tile=1 --kv-tile=3 | FileCheck %t/whole.mlir

//--- blocks.mlir
// CHECK: run @blocks: result0: 1x1x1xf32 = {{\[\[\[}}6]]]
// CHECK: run @blocks: result1: 1x1x1xf32 = {{\[\[\[}}1.15365]]]
// CHECK: run @blocks: result2: 1x1x1xf32 = {{\[\[\[}}6]]]
// CHECK: run @blocks: result3: 1x1x1xf32 = {{\[\[\[}}1.57806]]]
// CHECK: run @blocks: o: 1x1x1x6xf32 = {{\[\[\[\[}}0.0116065, 0.0857608, 0.633691, 0.00426978, 0.0315496, 0.233122]]]]
// CHECK: run @blocks: lse: 1x1x1xf32 = {{\[\[\[}}6.45619]]]
func.func @blocks() -> (tensor<1x1x1xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>,
                        tensor<1x1x1x6xf32>, tensor<1x1x1xf32>) {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %q = arith.constant dense<1.0> : tensor<1x1x1x1xf32>
  %x1 = arith.constant dense<[[[[2.0], [4.0], [6.0]]]]> : tensor<1x1x3x1xf32>
  %x2 = arith.constant dense<[[[[1.0], [3.0], [5.0]]]]> : tensor<1x1x3x1xf32>
  %v1 = arith.constant dense<[[[[1.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0, 0.0],
                                [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]]]]> : tensor<1x1x3x6xf32>
  %v2 = arith.constant dense<[[[[0.0, 0.0, 0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0, 0.0],
                                [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]]]> : tensor<1x1x3x6xf32>
  %acc = arith.constant dense<0.0> : tensor<1x1x1x6xf32>
  %m = arith.constant dense<0xFF800000> : tensor<1x1x1xf32>
  %l = arith.constant dense<0.0> : tensor<1x1x1xf32>
  %s1:3 = flash.online_attention
      ins(%q, %x1, %v1 : tensor<1x1x1x1xf32>, tensor<1x1x3x1xf32>, tensor<1x1x3x6xf32>)
      outs(%acc, %m, %l : tensor<1x1x1x6xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>)
      at(%c0, %c0, %c0, %c0) {normalize = #flash.normalize<deferred>, scale = 1.000000e+00 : f32}
      -> tensor<1x1x1x6xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>
  %s2:3 = flash.online_attention
      ins(%q, %x2, %v2 : tensor<1x1x1x1xf32>, tensor<1x1x3x1xf32>, tensor<1x1x3x6xf32>)
      outs(%s1#0, %s1#1, %s1#2 : tensor<1x1x1x6xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>)
      at(%c0, %c0, %c0, %c3) {normalize = #flash.normalize<deferred>, scale = 1.000000e+00 : f32}
      -> tensor<1x1x1x6xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>
  %eo = tensor.empty() : tensor<1x1x1x6xf32>
  %el = tensor.empty() : tensor<1x1x1xf32>
  %o, %lse = flash.finalize ins(%s2#0, %s2#1, %s2#2 : tensor<1x1x1x6xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>)
      outs(%eo, %el : tensor<1x1x1x6xf32>, tensor<1x1x1xf32>) {normalize = #flash.normalize<deferred>}
      -> tensor<1x1x1x6xf32>, tensor<1x1x1xf32>
  return %s1#1, %s1#2, %s2#1, %s2#2, %o, %lse : tensor<1x1x1xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>,
      tensor<1x1x1xf32>, tensor<1x1x1x6xf32>, tensor<1x1x1xf32>
}

//--- whole.mlir
// The same by flash.attention over all six keys, which the tiled algorithms cut into the two blocks.
// CHECK: run @whole: o: 1x1x1x6xf32 = {{\[\[\[\[}}0.0116065, 0.0857608, 0.633691, 0.00426978, 0.0315496, 0.233122]]]]
// CHECK: run @whole: lse: 1x1x1xf32 = {{\[\[\[}}6.45619]]]
func.func @whole() -> (tensor<1x1x1x6xf32>, tensor<1x1x1xf32>) {
  %q = arith.constant dense<1.0> : tensor<1x1x1x1xf32>
  %x = arith.constant dense<[[[[2.0], [4.0], [6.0], [1.0], [3.0], [5.0]]]]> : tensor<1x1x6x1xf32>
  %v = arith.constant dense<[[[[1.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0, 0.0],
                               [0.0, 0.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 0.0, 0.0],
                               [0.0, 0.0, 0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]]]> : tensor<1x1x6x6xf32>
  %o, %lse = flash.attention ins(%q, %x, %v : tensor<1x1x1x1xf32>, tensor<1x1x6x1xf32>, tensor<1x1x6x6xf32>)
      {scale = 1.000000e+00 : f32} -> tensor<1x1x1x6xf32>, tensor<1x1x1xf32>
  return %o, %lse : tensor<1x1x1x6xf32>, tensor<1x1x1xf32>
}
