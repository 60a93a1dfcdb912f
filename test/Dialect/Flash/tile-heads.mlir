// A tile of several query heads of a group, which read one key head. The number of heads is a multiple of the group, so
// that no tile of heads is cut.
// RUN: flashc-opt %s --flash-online-softmax --flash-tile="q-tile=16 kv-tile=32 head-tile=4" --canonicalize --cse | FileCheck %s
// RUN: not flashc-opt %s --flash-online-softmax --flash-tile="head-tile=3" 2>&1 | FileCheck %s --check-prefix=GROUP
// GROUP: error: {{.*}}expected an attention whose group is a multiple of head-tile=3
// RUN: not flashc-opt %s --flash-online-softmax --flash-tile="head-tile=0" 2>&1 | FileCheck %s --check-prefix=POSITIVE
// POSITIVE: error: {{.*}}expected a positive tile size, got 0

!t = tensor<1x?x?x32xf32>

// CHECK: #[[KEYHEAD:.*]] = affine_map<(d0) -> (d0 floordiv 8)>
// CHECK-LABEL: func @group
// CHECK:         scf.for %[[H:[^ ]*]] = %{{.*}} to %{{.*}} step %c4
// CHECK:           %[[HK:.*]] = affine.apply #[[KEYHEAD]](%[[H]])
// CHECK:           tensor.extract_slice %{{.*}}[0, %[[H]], %{{.*}}, 0] [1, 4, %{{.*}}, 32]
// CHECK:           tensor.extract_slice %{{.*}}[0, %[[HK]], %{{.*}}, 0] [1, 1, %{{.*}}, 32]
// CHECK:           flash.online_attention ins({{.*}} : tensor<1x4x16x32xf32>, tensor<1x1x32x32xf32>, tensor<1x1x32x32xf32>)
// CHECK-NOT:       group_size
// CHECK:           scf.yield
func.func @group(%q: !t, %k: !t, %v: !t) -> !t {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.2 : f32, group_size = 8 : i64}
    -> !t, tensor<1x?x?xf32>
  return %o : !t
}
