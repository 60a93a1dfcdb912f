// Numbers of heads that are known at launch only are an extent of the grid and nothing else: the kernel's parameters do
// not grow, and the key head is computed before the loop over keys.
// DEFINE: %{l1} = --flash-online-softmax --flash-tile="q-tile=128 kv-tile=128" --canonicalize --cse --flash-swap-loops --flash-bound-loops --flash-parallelize --canonicalize --cse
// RUN: flashc-opt %s --split-input-file %{l1} --convert-flash-to-tile=schedule=consumers=2,kv-tile=128,stages=2,persistent=false --canonicalize --cse | FileCheck %s

!t = tensor<?x?x?x128xbf16>
!lse = tensor<?x?x?xf32>

// CHECK-LABEL: gpu.func @groups_of_four(%{{[^:]*}}: !tile.tensor_map<64 x bf16>, %{{[^:]*}}: !tile.tensor_map<128 x bf16>, %{{[^:]*}}: !tile.tensor_map<128 x bf16>, %{{[^:]*}}: index, %{{[^:]*}}: index, %{{[^:]*}}: memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>, %{{[^:]*}}: memref<?x?x?xf32, strided<[?, ?, 1]>>) kernel
// CHECK-SAME:    grid = ["ceildiv(arg0.dim2, 128)", "arg0.dim1", "arg0.dim0"]
// CHECK-SAME{LITERAL}: requires = [["arg0.dim0", "arg1.dim0"], ["arg0.dim1", "mul(arg1.dim1, 4)"], ["arg1.dim0", "arg2.dim0"], ["arg1.dim1", "arg2.dim1"], ["arg1.dim2", "arg2.dim2"], ["arg0.dim0", "arg3.dim0"], ["arg0.dim1", "arg3.dim1"], ["arg0.dim2", "arg3.dim2"], ["arg0.dim0", "arg4.dim0"], ["arg0.dim1", "arg4.dim1"], ["arg0.dim2", "arg4.dim2"]]
// CHECK-DAG:       %[[H:.*]] = gpu.block_id y
// CHECK-DAG:       %[[B:.*]] = gpu.block_id z
// A quotient of a power of two is a shift.
// CHECK:           %[[HK:.*]] = arith.shrsi %[[H]], %c2
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
// CHECK-SAME:    ["arg0.dim1", "arg1.dim1"]
// CHECK:           %[[H:.*]] = gpu.block_id y
// CHECK-NOT:       arith.{{divsi|shrsi}} %[[H]],
// CHECK:           scf.for
// CHECK:             tile.load %{{.*}}[%{{.*}}, %[[H]], %{{.*}}]
// CHECK:             tile.load %{{.*}}[%{{.*}}, %[[H]], %{{.*}}]
func.func @groups_of_one(%q: !t, %k: !t, %v: !t) -> (!t, !lse) {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {group_size = 1, scale = 0.125 : f32} -> !t, !lse
  return %o, %lse : !t, !lse
}

// -----

!q = tensor<?x8x?x128xbf16>
!k = tensor<?x?x?x128xbf16>
!lse = tensor<?x8x?xf32>

// One number of heads is known. k is v, and needs no comparison with itself.
// CHECK-LABEL: gpu.func @mixed(
// CHECK-SAME:    grid = ["ceildiv(arg0.dim2, 128)", "8", "arg0.dim0"]
// CHECK-SAME{LITERAL}: requires = [["arg0.dim0", "arg1.dim0"], ["arg0.dim1", "mul(arg1.dim1, 2)"], ["arg0.dim0", "arg2.dim0"], ["arg0.dim2", "arg2.dim2"]]
func.func @mixed(%q: !q, %k: !k) -> !q {
  %o, %lse = flash.attention ins(%q, %k, %k : !q, !k, !k) {group_size = 2, scale = 0.125 : f32} -> !q, !lse
  return %o : !q
}

// -----

!t = tensor<2x8x384x128xbf16>
!lse = tensor<2x8x384xf32>

// All is static.
// CHECK-LABEL: gpu.func @static(
// CHECK-SAME:    requires = []
func.func @static(%q: !t, %k: !t, %v: !t) -> (!t, !lse) {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32} -> !t, !lse
  return %o, %lse : !t, !lse
}
