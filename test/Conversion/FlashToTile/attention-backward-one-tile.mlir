// Few queries, a single head, or one tile of each: kernels like those of any extent; o may have another type than do.
// RUN: split-file %s %t
// RUN: flashc %t/few.mlir --emit=tile | FileCheck %s
// RUN: flashc %t/head.mlir --emit=tile | FileCheck %s
// RUN: flashc %t/tile.mlir --emit=tile | FileCheck %s
// RUN: not flashc %t/any.mlir --emit=tile 2>&1 | FileCheck %s --check-prefix=ANY
// RUN: flashc %t/any.mlir --emit=tile --schedule=split-gradients=queries -o /dev/null
// RUN: flashc %t/head.mlir --emit=loops --q-tile=128 --kv-tile=128 > %t/loops.mlir
// RUN: flashc-opt %t/loops.mlir --convert-flash-to-tile="schedule=split-gradients=none,kv-tile=128" -o /dev/null
// RUN: sed '/tensor.insert_slice/s/\[0, 0, 256, 0\]/[0, 0, 0, 0]/' %t/loops.mlir > %t/moved.mlir
// RUN: not flashc-opt %t/moved.mlir --convert-flash-to-tile="schedule=split-gradients=none,kv-tile=128" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=MOVED

// One tile of keys without a loop beside any number of queries is not read.
// ANY: error: expected the state to begin as linalg.fill with 0, 0 and 0 in a parallel loop over key tiles (algorithm fa2)
// MOVED: error: expected the tiles that it adds to to be put back where they come from

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

//--- any.mlir
!q = tensor<1x1x?x64xbf16>
!k = tensor<1x1x65x64xbf16>
!lse = tensor<1x1x?xf32>
func.func @grads(%q: !q, %k: !k, %v: !k, %o: !q, %lse: !lse, %do: !q) -> (!q, !k, !k) {
  %g:3 = flash.attention_backward ins(%q, %k, %v, %o, %lse, %do : !q, !k, !k, !q, !lse, !q) {scale = 0.125 : f32}
      -> !q, !k, !k
  return %g#0, %g#1, %g#2 : !q, !k, !k
}
