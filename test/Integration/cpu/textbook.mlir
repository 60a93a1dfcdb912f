// The textbook example of FlashAttention: N = 4, d = 2, blocks of 2 x 2 (an on-chip memory of M = 16 numbers), scale 1,
//
//     Q = [[1,2],[3,4],[5,6],[7,8]]   K = [[1,1],[2,2],[3,3],[4,4]]   V = Q
//
// By hand: row i of Q sums to 3, 7, 11, 15, and S_ij = (sum of row i) * (j + 1), so that
//
//     S = [[3,6,9,12],[7,14,21,28],[11,22,33,44],[15,30,45,60]]
//
// Keys are outermost (Algorithm 1), so the four steps are the blocks (rows 0-1, keys 0-1), (2-3, 0-1), (0-1, 2-3),
// (2-3, 2-3). With e = exp:
//   step 1  m = [6, 14,   .,  .]   l = [1 + e(-3), 1 + e(-7), 0, 0]                  = [1.04979, 1.00091, 0, 0]
//   step 2  m = [6, 14,  22, 30]   l = [.., 1 + e(-11), 1 + e(-15)]                  = [.., 1.00002, 1]
//   step 3  m = [12, 28, 22, 30]   l = [(1 + e(-3))(1 + e(-6)), (1 + e(-7))(1 + e(-14)), ..] = [1.05239, 1.00091, ..]
//   step 4  m = [12, 28, 44, 60]   l = [.., (1 + e(-11))(1 + e(-22)), (1 + e(-15))(1 + e(-30))] = [.., 1.00002, 1]
// and each output is normalised in each step: row 0 of O is (e(-3) [1,2] + [3,4]) / (1 + e(-3)) = [2.90515, 3.90515]
// after step 1. The digits of O were computed in f64 with numpy (one of them, 7.998175, rounds either way).

// RUN: flashc %s --function=steps --run=cpu --print-results --algorithm=standard | FileCheck %s
// RUN: flashc %s --function=attention --run=cpu --print-results --algorithm=standard | FileCheck %s --check-prefix=WHOLE
// RUN: flashc %s --function=attention --run=cpu --print-results --algorithm=fa1 --q-tile=2 --kv-tile=2 \
// RUN:   | FileCheck %s --check-prefix=WHOLE
// RUN: flashc %s --function=attention --run=cpu --print-results --algorithm=fa2 --q-tile=2 --kv-tile=2 \
// RUN:   | FileCheck %s --check-prefix=WHOLE

// One step on rows i0, i0 + 1 and keys j0, j0 + 1: a tile of the loops that flash-tile makes.
func.func private @step(%i0: index, %j0: index, %acc: tensor<1x1x4x2xf32>, %m: tensor<1x1x4xf32>,
                        %l: tensor<1x1x4xf32>) -> (tensor<1x1x4x2xf32>, tensor<1x1x4xf32>, tensor<1x1x4xf32>) {
  %c0 = arith.constant 0 : index
  %q = arith.constant dense<[[[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]]]> : tensor<1x1x4x2xf32>
  %k = arith.constant dense<[[[[1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [4.0, 4.0]]]]> : tensor<1x1x4x2xf32>
  %qt = tensor.extract_slice %q[0, 0, %i0, 0] [1, 1, 2, 2] [1, 1, 1, 1] : tensor<1x1x4x2xf32> to tensor<1x1x2x2xf32>
  %kt = tensor.extract_slice %k[0, 0, %j0, 0] [1, 1, 2, 2] [1, 1, 1, 1] : tensor<1x1x4x2xf32> to tensor<1x1x2x2xf32>
  %vt = tensor.extract_slice %q[0, 0, %j0, 0] [1, 1, 2, 2] [1, 1, 1, 1] : tensor<1x1x4x2xf32> to tensor<1x1x2x2xf32>
  %at = tensor.extract_slice %acc[0, 0, %i0, 0] [1, 1, 2, 2] [1, 1, 1, 1] : tensor<1x1x4x2xf32> to tensor<1x1x2x2xf32>
  %mt = tensor.extract_slice %m[0, 0, %i0] [1, 1, 2] [1, 1, 1] : tensor<1x1x4xf32> to tensor<1x1x2xf32>
  %lt = tensor.extract_slice %l[0, 0, %i0] [1, 1, 2] [1, 1, 1] : tensor<1x1x4xf32> to tensor<1x1x2xf32>
  %s:3 = flash.online_attention
      ins(%qt, %kt, %vt : tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>)
      outs(%at, %mt, %lt : tensor<1x1x2x2xf32>, tensor<1x1x2xf32>, tensor<1x1x2xf32>)
      at(%c0, %c0, %i0, %j0) {normalize = #flash.normalize<each_step>, scale = 1.000000e+00 : f32}
      -> tensor<1x1x2x2xf32>, tensor<1x1x2xf32>, tensor<1x1x2xf32>
  %acc1 = tensor.insert_slice %s#0 into %acc[0, 0, %i0, 0] [1, 1, 2, 2] [1, 1, 1, 1]
      : tensor<1x1x2x2xf32> into tensor<1x1x4x2xf32>
  %m1 = tensor.insert_slice %s#1 into %m[0, 0, %i0] [1, 1, 2] [1, 1, 1] : tensor<1x1x2xf32> into tensor<1x1x4xf32>
  %l1 = tensor.insert_slice %s#2 into %l[0, 0, %i0] [1, 1, 2] [1, 1, 1] : tensor<1x1x2xf32> into tensor<1x1x4xf32>
  return %acc1, %m1, %l1 : tensor<1x1x4x2xf32>, tensor<1x1x4xf32>, tensor<1x1x4xf32>
}

// CHECK: run @steps: result0: 1x1x4xf32 = {{\[\[\[}}6, 14, -inf, -inf]]]
// CHECK: run @steps: result1: 1x1x4xf32 = {{\[\[\[}}1.04979, 1.00091, 0, 0]]]
// CHECK: run @steps: result2: 1x1x4x2xf32 = {{\[\[\[\[}}2.90515, 3.90515], [2.99818, 3.99818], [0, 0], [0, 0]]]]
// CHECK: run @steps: result3: 1x1x4xf32 = {{\[\[\[}}6, 14, 22, 30]]]
// CHECK: run @steps: result4: 1x1x4xf32 = {{\[\[\[}}1.04979, 1.00091, 1.00002, 1]]]
// CHECK: run @steps: result5: 1x1x4x2xf32 = {{\[\[\[\[}}2.90515, 3.90515], [2.99818, 3.99818], [2.99997, 3.99997], [3, 4]]]]
// CHECK: run @steps: result6: 1x1x4xf32 = {{\[\[\[}}12, 28, 22, 30]]]
// CHECK: run @steps: result7: 1x1x4xf32 = {{\[\[\[}}1.05239, 1.00091, 1.00002, 1]]]
// CHECK: run @steps: result8: 1x1x4x2xf32 = {{\[\[\[\[}}6.89526, 7.89526], [6.99817, 7.9981{{[78]}}], [2.99997, 3.99997], [3, 4]]]]
// CHECK: run @steps: result9: 1x1x4xf32 = {{\[\[\[}}12, 28, 44, 60]]]
// CHECK: run @steps: result10: 1x1x4xf32 = {{\[\[\[}}1.05239, 1.00091, 1.00002, 1]]]
// CHECK: run @steps: result11: 1x1x4x2xf32 = {{\[\[\[\[}}6.89526, 7.89526], [6.99817, 7.9981{{[78]}}], [6.99997, 7.99997], [7, 8]]]]
func.func @steps() -> (tensor<1x1x4xf32>, tensor<1x1x4xf32>, tensor<1x1x4x2xf32>,
                       tensor<1x1x4xf32>, tensor<1x1x4xf32>, tensor<1x1x4x2xf32>,
                       tensor<1x1x4xf32>, tensor<1x1x4xf32>, tensor<1x1x4x2xf32>,
                       tensor<1x1x4xf32>, tensor<1x1x4xf32>, tensor<1x1x4x2xf32>) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %acc = arith.constant dense<0.0> : tensor<1x1x4x2xf32>
  %m = arith.constant dense<0xFF800000> : tensor<1x1x4xf32>
  %l = arith.constant dense<0.0> : tensor<1x1x4xf32>
  %1:3 = func.call @step(%c0, %c0, %acc, %m, %l) : (index, index, tensor<1x1x4x2xf32>, tensor<1x1x4xf32>, tensor<1x1x4xf32>) -> (tensor<1x1x4x2xf32>, tensor<1x1x4xf32>, tensor<1x1x4xf32>)
  %2:3 = func.call @step(%c2, %c0, %1#0, %1#1, %1#2) : (index, index, tensor<1x1x4x2xf32>, tensor<1x1x4xf32>, tensor<1x1x4xf32>) -> (tensor<1x1x4x2xf32>, tensor<1x1x4xf32>, tensor<1x1x4xf32>)
  %3:3 = func.call @step(%c0, %c2, %2#0, %2#1, %2#2) : (index, index, tensor<1x1x4x2xf32>, tensor<1x1x4xf32>, tensor<1x1x4xf32>) -> (tensor<1x1x4x2xf32>, tensor<1x1x4xf32>, tensor<1x1x4xf32>)
  %4:3 = func.call @step(%c2, %c2, %3#0, %3#1, %3#2) : (index, index, tensor<1x1x4x2xf32>, tensor<1x1x4xf32>, tensor<1x1x4xf32>) -> (tensor<1x1x4x2xf32>, tensor<1x1x4xf32>, tensor<1x1x4xf32>)
  return %1#1, %1#2, %1#0, %2#1, %2#2, %2#0, %3#1, %3#2, %3#0, %4#1, %4#2, %4#0
      : tensor<1x1x4xf32>, tensor<1x1x4xf32>, tensor<1x1x4x2xf32>, tensor<1x1x4xf32>, tensor<1x1x4xf32>,
        tensor<1x1x4x2xf32>, tensor<1x1x4xf32>, tensor<1x1x4xf32>, tensor<1x1x4x2xf32>, tensor<1x1x4xf32>,
        tensor<1x1x4xf32>, tensor<1x1x4x2xf32>
}

// The whole of it, by every algorithm: O as after step 4, lse = m + log(l) = [12 + log 1.05239, 28 + log 1.00091, 44, 60].
// WHOLE: run @attention: o: 1x1x4x2xf32 = {{\[\[\[\[}}6.89526, 7.89526], [6.99817, 7.9981{{[78]}}], [6.99997, 7.99997], [7, 8]]]]
// WHOLE: run @attention: lse: 1x1x4xf32 = {{\[\[\[}}12.0511, 28.0009, 44, 60]]]
func.func @attention() -> (tensor<1x1x4x2xf32>, tensor<1x1x4xf32>) {
  %q = arith.constant dense<[[[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]]]> : tensor<1x1x4x2xf32>
  %k = arith.constant dense<[[[[1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [4.0, 4.0]]]]> : tensor<1x1x4x2xf32>
  %o, %lse = flash.attention ins(%q, %k, %q : tensor<1x1x4x2xf32>, tensor<1x1x4x2xf32>, tensor<1x1x4x2xf32>)
      {scale = 1.000000e+00 : f32} -> tensor<1x1x4x2xf32>, tensor<1x1x4xf32>
  return %o, %lse : tensor<1x1x4x2xf32>, tensor<1x1x4xf32>
}
