// RUN: flashc-opt %s --flash-fuse | FileCheck %s
// RUN: flashc-opt %s --flash-fuse --remark-format=emitRemark --remarks-filter-missed=flash -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK --implicit-check-not=Missed

// Reads that stay, and the remark that says why.

#diagonal = affine_map<(d0) -> (d0, d0)>

// What a reduction computes stays; what is elementwise above it moves.
// CHECK-LABEL: func @reduction
// CHECK: %[[SUM:.*]] = linalg.reduce
// CHECK-NOT: math.exp %{{.*}} : tensor
// CHECK: flash.attention
// CHECK: %[[X:.*]] = tensor.extract %[[SUM]][%{{.*}}] : tensor<9xf32>
// CHECK-NEXT: math.exp %[[X]] : f32
// REMARK: [Missed] fuse {{.*}} Remark="'linalg.reduce' stays in memory: its loops are not all parallel"
func.func @reduction(%a: tensor<9x9xf32>, %q: tensor<1x1x9x8xf32>) -> tensor<1x1x9x8xf32> {
  %zero = arith.constant dense<0.0> : tensor<9xf32>
  %sum = linalg.reduce { arith.addf } ins(%a : tensor<9x9xf32>) outs(%zero : tensor<9xf32>) dimensions = [1]
  %exp = math.exp %sum : tensor<9xf32>
  %o, %lse = flash.attention ins(%q, %q, %q : tensor<1x1x9x8xf32>, tensor<1x1x9x8xf32>, tensor<1x1x9x8xf32>)
      {scale = 1.000000e+00 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %exp[%i] : tensor<9xf32>
        flash.yield %x : f32
      } -> tensor<1x1x9x8xf32>, tensor<1x1x9xf32>
  return %o : tensor<1x1x9x8xf32>
}

// What is computed in any case is read.
// CHECK-LABEL: func @returned
// CHECK: %[[EXP:.*]] = math.exp
// CHECK: tensor.extract %[[EXP]]
// REMARK: [Missed] fuse {{.*}} Remark="'math.exp' stays in memory: it is used by more than scores and masks"
func.func @returned(%a: tensor<9xf32>, %q: tensor<1x1x9x8xf32>) -> (tensor<1x1x9x8xf32>, tensor<9xf32>) {
  %exp = math.exp %a : tensor<9xf32>
  %o, %lse = flash.attention ins(%q, %q, %q : tensor<1x1x9x8xf32>, tensor<1x1x9x8xf32>, tensor<1x1x9x8xf32>)
      {scale = 1.000000e+00 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %exp[%i] : tensor<9xf32>
        flash.yield %x : f32
      } -> tensor<1x1x9x8xf32>, tensor<1x1x9xf32>
  return %o, %exp : tensor<1x1x9x8xf32>, tensor<9xf32>
}

// REMARK: [Missed] fuse {{.*}} Remark="'linalg.generic' stays in memory: the indexing map of its result is not a permutation"
func.func @diagonal(%a: tensor<9xf32>, %into: tensor<9x9xf32>, %q: tensor<1x1x9x8xf32>) -> tensor<1x1x9x8xf32> {
  %m = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, #diagonal], iterator_types = ["parallel"]}
      ins(%a : tensor<9xf32>) outs(%into : tensor<9x9xf32>) {
  ^bb0(%x: f32, %unused: f32):
    linalg.yield %x : f32
  } -> tensor<9x9xf32>
  %o, %lse = flash.attention ins(%q, %q, %q : tensor<1x1x9x8xf32>, tensor<1x1x9x8xf32>, tensor<1x1x9x8xf32>)
      {scale = 1.000000e+00 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %m[%i, %j] : tensor<9x9xf32>
        flash.yield %x : f32
      } -> tensor<1x1x9x8xf32>, tensor<1x1x9xf32>
  return %o : tensor<1x1x9x8xf32>
}

// Memory may have changed when the attention runs.
// REMARK: [Missed] fuse {{.*}} Remark="'linalg.generic' stays in memory: its body has side effects"
func.func @load(%a: memref<9xf32>, %into: tensor<9xf32>, %q: tensor<1x1x9x8xf32>) -> tensor<1x1x9x8xf32> {
  %m = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      outs(%into : tensor<9xf32>) {
  ^bb0(%unused: f32):
    %i = linalg.index 0 : index
    %x = memref.load %a[%i] : memref<9xf32>
    linalg.yield %x : f32
  } -> tensor<9xf32>
  %o, %lse = flash.attention ins(%q, %q, %q : tensor<1x1x9x8xf32>, tensor<1x1x9x8xf32>, tensor<1x1x9x8xf32>)
      {scale = 1.000000e+00 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %m[%i] : tensor<9xf32>
        flash.yield %x : f32
      } -> tensor<1x1x9x8xf32>, tensor<1x1x9xf32>
  return %o : tensor<1x1x9x8xf32>
}

// REMARK: [Missed] fuse {{.*}} Remark="'arith.constant' stays in memory: its elements differ"
// REMARK: [Missed] fuse {{.*}} Remark="'tensor.expand_shape' stays in memory: it splits a dimension"
// REMARK: [Missed] fuse {{.*}} Remark="'tensor.collapse_shape' stays in memory: it joins dimensions"
// REMARK: [Missed] fuse {{.*}} Remark="'tensor.insert' stays in memory: it is not elementwise"
func.func @others(%a: tensor<18xf32>, %c: tensor<3x3xf32>, %p: f32, %q: tensor<1x1x9x8xf32>) -> tensor<1x1x9x8xf32> {
  %c0 = arith.constant 0 : index
  %table = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %split = tensor.expand_shape %a [[0, 1]] output_shape [2, 9] : tensor<18xf32> into tensor<2x9xf32>
  %joined = tensor.collapse_shape %c [[0, 1]] : tensor<3x3xf32> into tensor<9xf32>
  %inserted = tensor.insert %p into %a[%c0] : tensor<18xf32>
  %o, %lse = flash.attention ins(%q, %q, %q : tensor<1x1x9x8xf32>, tensor<1x1x9x8xf32>, tensor<1x1x9x8xf32>)
      {scale = 1.000000e+00 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %w = tensor.extract %table[%h] : tensor<2xf32>
        %x = tensor.extract %split[%h, %j] : tensor<2x9xf32>
        %y = tensor.extract %joined[%j] : tensor<9xf32>
        %z = tensor.extract %inserted[%j] : tensor<18xf32>
        %wx = arith.addf %w, %x : f32
        %yz = arith.addf %y, %z : f32
        %t = arith.addf %wx, %yz : f32
        flash.yield %t : f32
      } -> tensor<1x1x9x8xf32>, tensor<1x1x9xf32>
  return %o : tensor<1x1x9x8xf32>
}
