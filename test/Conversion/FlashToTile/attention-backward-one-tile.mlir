// Few queries, a single head, or one tile of each: kernels like those of any extent; o may have another type than do.
// RUN: split-file %s %t
// RUN: flashc %t/few.mlir --emit=tile | FileCheck %s
// RUN: flashc %t/head.mlir --emit=tile | FileCheck %s
// RUN: flashc %t/tile.mlir --emit=tile | FileCheck %s

// CHECK: gpu.func @grads(
// CHECK:   tile.warp_specialize 2
// CHECK:   } reducer {
// CHECK:     tile.atomic_add
// In the kernel before, a vector is 16 bytes of the wider type.
// CHECK: gpu.func @grads_delta(
// CHECK-DAG: vector.load {{.*}} : memref<{{.*}}xf32{{.*}}>, vector<4xf32>
// CHECK-DAG: vector.load {{.*}} : memref<{{.*}}xbf16{{.*}}>, vector<4xbf16>
// CHECK: gpu.func @grads_dq(

//--- few.mlir
!q = tensor<2x4x100x64xbf16>
!k = tensor<2x4x1024x64xbf16>
!o = tensor<2x4x100x64xf32>
!lse = tensor<2x4x100xf32>
func.func @grads(%q: !q, %k: !k, %v: !k, %o: !o, %lse: !lse, %do: !q) -> (!q, !k, !k) {
  %g:3 = flash.attention_backward ins(%q, %k, %v, %o, %lse, %do : !q, !k, !k, !o, !lse, !q) {scale = 0.125 : f32}
      -> !q, !k, !k
  return %g#0, %g#1, %g#2 : !q, !k, !k
}

//--- head.mlir
!q = tensor<1x1x257x64xbf16>
!k = tensor<1x1x1024x64xbf16>
!o = tensor<1x1x257x64xf32>
!lse = tensor<1x1x257xf32>
func.func @grads(%q: !q, %k: !k, %v: !k, %o: !o, %lse: !lse, %do: !q) -> (!q, !k, !k) {
  %g:3 = flash.attention_backward ins(%q, %k, %v, %o, %lse, %do : !q, !k, !k, !o, !lse, !q) {scale = 0.125 : f32}
      -> !q, !k, !k
  return %g#0, %g#1, %g#2 : !q, !k, !k
}

//--- tile.mlir
!q = tensor<1x1x63x64xbf16>
!k = tensor<1x1x65x64xbf16>
!o = tensor<1x1x63x64xf32>
!lse = tensor<1x1x63xf32>
func.func @grads(%q: !q, %k: !k, %v: !k, %o: !o, %lse: !lse, %do: !q) -> (!q, !k, !k) {
  %g:3 = flash.attention_backward ins(%q, %k, %v, %o, %lse, %do : !q, !k, !k, !o, !lse, !q) {scale = 0.125 : f32}
      -> !q, !k, !k
  return %g#0, %g#1, %g#2 : !q, !k, !k
}
