// Numbers of heads that are known at launch only are an extent of the grid and nothing else: the kernel's parameters do
// not grow, and the key head is computed before the loop over keys.
// DEFINE: %{l1} = --flash-online-softmax --flash-tile="q-tile=128 kv-tile=128" --canonicalize --cse --flash-swap-loops --flash-bound-loops --flash-parallelize --canonicalize --cse
// RUN: flashc-opt %s --split-input-file %{l1} --convert-flash-to-tile --canonicalize --cse | FileCheck %s

!t = tensor<?x?x?x128xbf16>
!lse = tensor<?x?x?xf32>

// CHECK-LABEL: gpu.func @groups_of_four(%{{[^:]*}}: !tile.tensor_map<64 x bf16>, %{{[^:]*}}: !tile.tensor_map<128 x bf16>, %{{[^:]*}}: !tile.tensor_map<128 x bf16>, %{{[^:]*}}: index, %{{[^:]*}}: index, %{{[^:]*}}: memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>, %{{[^:]*}}: memref<?x?x?xf32, strided<[?, ?, 1]>>) kernel
// CHECK-SAME:    grid = ["ceildiv(arg0.dim2, 128)", "arg0.dim1", "arg0.dim0"]
// CHECK-DAG:       %[[H:.*]] = gpu.block_id y
// CHECK-DAG:       %[[B:.*]] = gpu.block_id z
// CHECK:           arith.divsi %{{.*}}, %c4
// CHECK:           %[[HK:.*]] = arith.select
// CHECK:           tile.load %{{.*}}[%[[B]], %[[H]], %{{.*}}]
// CHECK:           scf.for
// CHECK:             tile.load %{{.*}}[%[[B]], %[[HK]], %{{.*}}]
// CHECK:             tile.load %{{.*}}[%[[B]], %[[HK]], %{{.*}}]
// CHECK:           tile.store {{.*}}[%[[B]], %[[H]], %{{.*}}]
func.func @groups_of_four(%q: !t, %k: !t, %v: !t) -> (!t, !lse) {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {group_size = 4, scale = 0.125 : f32} -> !t, !lse
  return %o, %lse : !t, !lse
}

// -----

!t = tensor<?x?x?x128xbf16>
!lse = tensor<?x?x?xf32>

// CHECK-LABEL: gpu.func @groups_of_one(
// CHECK-SAME:    grid = ["ceildiv(arg0.dim2, 128)", "arg0.dim1", "arg0.dim0"]
// CHECK:           %[[H:.*]] = gpu.block_id y
// CHECK-NOT:       arith.divsi %[[H]],
// CHECK:           scf.for
// CHECK:             tile.load %{{.*}}[%{{.*}}, %[[H]], %{{.*}}]
// CHECK:             tile.load %{{.*}}[%{{.*}}, %[[H]], %{{.*}}]
func.func @groups_of_one(%q: !t, %k: !t, %v: !t) -> (!t, !lse) {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {group_size = 1, scale = 0.125 : f32} -> !t, !lse
  return %o, %lse : !t, !lse
}
