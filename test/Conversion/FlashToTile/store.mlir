// What goes through Q's slot: the first output of O, if it has the inputs' type.
// RUN: rm -rf %t && split-file %s %t
// RUN: flashc %t/two.mlir --emit=tile --schedule=store=q-slot | FileCheck %t/two.mlir
// RUN: flashc %t/two.mlir --emit=tile --schedule=store=registers | FileCheck %t/two.mlir --check-prefix=DIRECT
// RUN: flashc %t/two.mlir --emit=tile | FileCheck %t/two.mlir --check-prefix=OWN
// RUN: flashc %t/f32.mlir --emit=tile | FileCheck %t/f32.mlir
// RUN: not flashc %t/f32.mlir --emit=tile --schedule=store=q-slot 2>&1 | FileCheck %t/f32.mlir --check-prefix=REFUSED
// RUN: flashc %t/lse.mlir --emit=tile | FileCheck %t/lse.mlir

//--- two.mlir
// The second output of O goes straight from registers: it has no slot. Each has its own parameter.
// CHECK: gpu.func @two(%{{[^:]*}}: !tile.tensor_map<64 x bf16>, %{{[^:]*}}: !tile.tensor_map<128 x bf16>, %{{[^:]*}}: !tile.tensor_map<128 x bf16>,
// CHECK-SAME: %[[MAP:[^:]*]]: !tile.tensor_map<64 x bf16>, %[[DEST:[^:]*]]: memref<2x2x400x128xbf16, strided<[?, ?, ?, 1]>>)
// CHECK-SAME: {argument = [[FIRST:[34]]] : i64, box = [64, 64, 1, 1], kind = "tensor_map"
// CHECK-NOT: {alignment = 16 : i64, argument = [[FIRST]] :
// CHECK-SAME: {alignment = 16 : i64, argument = {{[34]}} : i64, kind = "pointer"
// CHECK: tile.store_async %[[O:.*]], %[[MAP]][%[[B:.*]], %[[H:.*]], %[[ROW:.*]]] through %[[Q:.*]] :
// CHECK-NEXT: tile.store %[[O]], %[[DEST]][%[[B]], %[[H]], %[[ROW]]] limit %c400
// CHECK-NEXT: tile.store_wait
// CHECK-NEXT: tile.release %[[Q]]
// CHECK-NOT: tile.store{{(_async|_wait)?}} %
// Through a slot of its own; the other one is of the work tile behind the last.
// OWN: %[[O:.*]] = tile.alloc_slot output : <64, 128, bf16>
// OWN: tile.store_wait all
// OWN-NEXT: tile.store_async %{{.*}} through %[[O]] :
// OWN: scf.yield
// OWN: tile.release %{{.*}} : <64, 128, bf16>
// OWN-NEXT: tile.store_wait{{$}}
// DIRECT-NOT: tile.store_
// DIRECT-COUNT-2: tile.store %
// DIRECT-NOT: tile.store
!q = tensor<2x2x400x128xbf16>
func.func @two(%q: !q, %k: !q, %v: !q) -> (!q, !q) {
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 0.125 : f32} -> !q, tensor<2x2x400xf32>
  return %o, %o : !q, !q
}
//--- f32.mlir
// CHECK: store=registers
// CHECK-NOT: tile.store_
// CHECK: tile.store %{{.*}} memref<2x2x400x128xf32,
// CHECK-NOT: tile.store
// REFUSED: error: schedule: expected an output of bf16 for store=q-slot
!q = tensor<2x2x400x128xbf16>
!o = tensor<2x2x400x128xf32>
func.func @f32(%q: !q, %k: !q, %v: !q) -> !o {
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 0.125 : f32} -> !o, tensor<2x2x400xf32>
  return %o : !o
}
//--- lse.mlir
// The log-sum-exp, which is f32 always, is no reason not to.
// CHECK: store={{(q|own)-slot}}
// CHECK: tile.store_async %
// CHECK: tile.store %{{.*}} memref<2x2x400xf32,
!q = tensor<2x2x400x128xbf16>
!lse = tensor<2x2x400xf32>
func.func @lse(%q: !q, %k: !q, %v: !q) -> (!q, !lse) {
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 0.125 : f32} -> !q, !lse
  return %o, %lse : !q, !lse
}
