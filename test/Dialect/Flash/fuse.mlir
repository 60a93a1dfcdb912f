// RUN: flashc-opt %s --flash-fuse --split-input-file | FileCheck %s

// A mask that linalg computes becomes code, whatever the order of its loops; nothing is left of the tensor.
// CHECK-LABEL: func @mask_of_indices
// CHECK-NOT: linalg
// CHECK-NOT: tensor.empty
// CHECK: mask (%{{.*}}: index, %{{.*}}: index, %[[I:.*]]: index, %[[J:.*]]: index)
// CHECK-NEXT: %[[KEEP:.*]] = arith.cmpi sle, %[[J]], %[[I]] : index
// CHECK-NEXT: flash.yield %[[KEEP]]
#out = affine_map<(d0, d1) -> (d1, d0)>
func.func @mask_of_indices(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>)
    -> tensor<1x2x9x8xf32> {
  %empty = tensor.empty() : tensor<9x9xi1>
  %m = linalg.generic {indexing_maps = [#out], iterator_types = ["parallel", "parallel"]}
      outs(%empty : tensor<9x9xi1>) {
  ^bb0(%unused: i1):
    %j = linalg.index 0 : index
    %i = linalg.index 1 : index
    %keep = arith.cmpi sle, %j, %i : index
    linalg.yield %keep : i1
  } -> tensor<9x9xi1>
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      {scale = 1.000000e+00 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = tensor.extract %m[%i, %j] : tensor<9x9xi1>
        flash.yield %keep : i1
      } -> tensor<1x2x9x8xf32>, tensor<1x2x9xf32>
  return %o : tensor<1x2x9x8xf32>
}

// -----

// Named ops, ops on tensors, splats and broadcasts, one behind the other: what is left are reads of arguments.
// CHECK-LABEL: func @chain
// CHECK-SAME: %[[SLOPES:[^ ]*]]: tensor<2xf16>, %[[BIAS:[^ ]*]]: tensor<9x9xf32>, %[[P:[^ ]*]]: f32
// CHECK-NOT: linalg
// CHECK: score (%[[S:.*]]: f32, %{{.*}}: index, %[[H:.*]]: index, %[[I:.*]]: index, %[[J:.*]]: index)
// CHECK-DAG: %[[SLOPE:.*]] = tensor.extract %[[SLOPES]][%[[H]]] : tensor<2xf16>
// CHECK-DAG: %[[WIDE:.*]] = arith.extf %[[SLOPE]] : f16 to f32
// CHECK-DAG: %[[E:.*]] = math.exp %[[WIDE]] : f32
// CHECK-DAG: %[[X:.*]] = tensor.extract %[[BIAS]][%[[I]], %[[J]]] : tensor<9x9xf32>
// CHECK-DAG: %[[PRODUCT:.*]] = arith.mulf %[[E]], %[[X]] : f32
// CHECK-DAG: %[[SUM:.*]] = arith.addf %[[PRODUCT]], %[[P]] : f32
// CHECK-DAG: %[[TWO:.*]] = arith.constant 2.0{{.*}} : f32
// CHECK-DAG: %[[MOST:.*]] = arith.maximumf %[[SUM]], %[[TWO]] : f32
// CHECK: arith.addf %[[S]], %[[MOST]]
func.func @chain(%slopes: tensor<2xf16>, %bias: tensor<9x9xf32>, %p: f32, %q: tensor<1x2x9x8xf32>,
                 %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>) -> tensor<1x2x9x8xf32> {
  %wide = arith.extf %slopes : tensor<2xf16> to tensor<2xf32>
  %small = tensor.empty() : tensor<2xf32>
  %exp = linalg.exp ins(%wide : tensor<2xf32>) outs(%small : tensor<2xf32>) -> tensor<2xf32>
  %large = tensor.empty() : tensor<2x9x9xf32>
  %heads = linalg.broadcast ins(%exp : tensor<2xf32>) outs(%large : tensor<2x9x9xf32>) dimensions = [1, 2]
  %turned = tensor.empty() : tensor<9x2x9xf32>
  %rows = linalg.broadcast ins(%bias : tensor<9x9xf32>) outs(%turned : tensor<9x2x9xf32>) dimensions = [1]
  %square = linalg.transpose ins(%rows : tensor<9x2x9xf32>) outs(%large : tensor<2x9x9xf32>) permutation = [1, 0, 2]
  %product = linalg.map { arith.mulf } ins(%heads, %square : tensor<2x9x9xf32>, tensor<2x9x9xf32>)
      outs(%large : tensor<2x9x9xf32>)
  %filled = linalg.fill ins(%p : f32) outs(%large : tensor<2x9x9xf32>) -> tensor<2x9x9xf32>
  %sum = linalg.add ins(%product, %filled : tensor<2x9x9xf32>, tensor<2x9x9xf32>)
      outs(%large : tensor<2x9x9xf32>) -> tensor<2x9x9xf32>
  %two = arith.constant dense<2.0> : tensor<2x9x9xf32>
  %most = arith.maximumf %sum, %two : tensor<2x9x9xf32>
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      {scale = 1.000000e+00 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %most[%h, %i, %j] : tensor<2x9x9xf32>
        %t = arith.addf %s, %x : f32
        flash.yield %t : f32
      } -> tensor<1x2x9x8xf32>, tensor<1x2x9xf32>
  return %o : tensor<1x2x9x8xf32>
}

// -----

// What only moves elements becomes arithmetic on indices.
// CHECK-LABEL: func @views
// CHECK-SAME: %[[TABLE:[^ ]*]]: tensor<2x40xf32>
// CHECK: score (%{{.*}}: f32, %{{.*}}: index, %[[H:.*]]: index, %{{.*}}: index, %[[J:.*]]: index)
// CHECK: %[[TWICE:.*]] = arith.muli %[[J]], %{{.*}} : index
// CHECK: %[[AT:.*]] = arith.addi %[[TWICE]], %{{.*}} : index
// CHECK: tensor.extract %[[TABLE]][%[[H]], %[[AT]]] : tensor<2x40xf32>
// CHECK: arith.sitofp
func.func @views(%table: tensor<2x40xf32>, %q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>,
                 %v: tensor<1x2x9x8xf32>) -> tensor<1x2x9x8xf32> {
  %c9 = arith.constant 9 : index
  %slice = tensor.extract_slice %table[0, 3] [2, 9] [1, 2] : tensor<2x40xf32> to tensor<2x9xf32>
  %heads = tensor.expand_shape %slice [[0, 1], [2, 3]] output_shape [2, 1, 1, 9]
      : tensor<2x9xf32> into tensor<2x1x1x9xf32>
  %flat = tensor.collapse_shape %heads [[0], [1, 2], [3]] : tensor<2x1x1x9xf32> into tensor<2x1x9xf32>
  %any = tensor.cast %flat : tensor<2x1x9xf32> to tensor<?x1x?xf32>
  %rows = tensor.generate %c9 {
  ^bb0(%i: index):
    %wide = arith.index_cast %i : index to i64
    %x = arith.sitofp %wide : i64 to f32
    tensor.yield %x : f32
  } : tensor<?xf32>
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      {scale = 1.000000e+00 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %c0 = arith.constant 0 : index
        %x = tensor.extract %any[%h, %c0, %j] : tensor<?x1x?xf32>
        %y = tensor.extract %rows[%i] : tensor<?xf32>
        %t = arith.addf %x, %y : f32
        flash.yield %t : f32
      } -> tensor<1x2x9x8xf32>, tensor<1x2x9xf32>
  return %o : tensor<1x2x9x8xf32>
}

// -----

// A tensor that two others read, one of them in another attention, is nobody's when both have moved. A read in a branch
// is code in that branch.
// CHECK-LABEL: func @shared
// CHECK-NOT: linalg
// CHECK: flash.attention
// CHECK: scf.if
// CHECK-NEXT: tensor.extract
// CHECK-NEXT: math.exp
// CHECK: flash.attention
// CHECK: math.exp
// CHECK: math.sin
func.func @shared(%table: tensor<9xf32>, %q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>)
    -> (tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>) {
  %exp = math.exp %table : tensor<9xf32>
  %sin = math.sin %exp : tensor<9xf32>
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      {scale = 1.000000e+00 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %c = arith.cmpi slt, %i, %j : index
        %t = scf.if %c -> f32 {
          %x = tensor.extract %exp[%i] : tensor<9xf32>
          scf.yield %x : f32
        } else {
          scf.yield %s : f32
        }
        flash.yield %t : f32
      } -> tensor<1x2x9x8xf32>, tensor<1x2x9xf32>
  %p, %lse2 = flash.attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      {scale = 1.000000e+00 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %sin[%i] : tensor<9xf32>
        %y = tensor.extract %exp[%j] : tensor<9xf32>
        %t = arith.addf %x, %y : f32
        flash.yield %t : f32
      } -> tensor<1x2x9x8xf32>, tensor<1x2x9xf32>
  return %o, %p : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>
}
