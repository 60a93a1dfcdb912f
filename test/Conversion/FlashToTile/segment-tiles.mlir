// A kernel whose tiles of queries follow packed sequences.
// DEFINE: %{schedule} = --schedule=consumers=2,kv-tile=128,stages=2,q-stages=2,own-keys=false
// RUN: flashc %s --emit=tile %{schedule},store=own-slot | FileCheck %s
// RUN: flashc %s --emit=tile %{schedule},store=registers | FileCheck %s --check-prefix=DIRECT
// RUN: flashc %s --emit=ptx -o - | FileCheck %s --check-prefix=PTX

!t = tensor<?x2x?x128xbf16>
!lse = tensor<?x2x?xf32>

// As many tiles as there may be, or none without a query: the launcher knows without looking at the offsets. The list of
// tiles has where each one begins and how many rows it has, beside its bounds: no search in this kernel. Rows behind its
// last one are the next sequence's: TMA stores whole tiles only, and none through Q's slot, which the producer fills again
// when one thread says so.
// CHECK:       gpu.func @packed(
// CHECK-SAME:    grid = ["min(sm_count, mul(mul(mul(min(arg0.dim2, 1), add(ceildiv(add(arg0.dim2, 1), 128), arg3.dim1)), 2), arg0.dim0))", "1", "1"]
// CHECK-SAME:    store=own-slot
// CHECK-SAME:    workspace = "mul64(4, add(mul(mul({{[0-9]+}}, mul(min(arg0.dim2, 1), add(ceildiv(add(arg0.dim2, 1), 128), arg3.dim1))), arg0.dim0), 1))"
// CHECK-NOT:     memref.load %{{.*}}[%{{[0-9]+}}, %
// CHECK:         tile.store_async %{{.*}} through %{{.*}} limit %[[END:[a-z0-9]+]] else %{{.*}} : tensor<64x128xf32
// CHECK-NEXT:    tile.store %{{.*}} limit %[[END]] : tensor<64xf32
// CHECK-NOT:     tile.store %
// CHECK:       gpu.func @packed_order(
// CHECK:         memref.load %{{.*}}[%{{[0-9]+}}, %
// DIRECT:      store=registers
// DIRECT-NOT:    tile.store_async
// DIRECT:        tile.store %{{.*}} limit %[[END:[a-z0-9]+]] : tensor<64x128xf32
// PTX: .entry packed_order(
func.func @packed(%q: !t, %k: !t, %v: !t, %offsets: tensor<?x?xi32>) -> (!t, !lse) {
  %c1 = arith.constant 1 : index
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %s = flash.assume_sorted %offsets : tensor<?x?xi32>
      %n = flash.count_le %i in %s[%b] : index, tensor<?x?xi32>
      %sequence = arith.subi %n, %c1 : index
      %begin = flash.nth %sequence in %s[%b] : tensor<?x?xi32>
      %after = arith.cmpi sge, %j, %begin : index
      %seen = arith.cmpi sle, %j, %i : index
      %keep = arith.andi %after, %seen : i1
      flash.yield %keep : i1
    } -> !t, !lse
  return %o, %lse : !t, !lse
}
