// The numbers after each pass where a tile has the rows of a group's heads (flash-tile with head-tile): a score with a
// slope for each head, a causal mask, and numbers of heads, queries and keys that the types do not have.
// DEFINE: %{dims} = Nq=7,Nk=70,Hq=8,Hk=2
// DEFINE: %{check} = flashc %s --run=cpu --check-each-pass --dims=%{dims} \
// DEFINE:   --passes='flash-fuse,flash-online-softmax{normalize=each-step},flash-tile{q-tile=16 kv-tile=32 head-tile=4},canonicalize,cse,flash-swap-loops,flash-bound-loops,flash-parallelize,canonicalize'
// RUN: %{check} | FileCheck %s --implicit-check-not=FAIL
// REDEFINE: %{dims} = Nq=63,Nk=61,Hq=12,Hk=3
// RUN: %{check} | FileCheck %s --implicit-check-not=FAIL
// CHECK: after flash-tile: @slopes: o error {{.*}} PASS
// CHECK: after flash-swap-loops: @slopes: o error {{.*}} PASS
// CHECK: after flash-bound-loops: @slopes: o error {{.*}} PASS
// CHECK: after flash-parallelize: @slopes: o error {{.*}} PASS
!t = tensor<2x?x?x32xf32>
func.func @slopes(%q: !t, %k: !t, %v: !t, %slope: tensor<?xf32>) -> (!t, tensor<2x?x?xf32>) {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.2 : f32, group_size = 4 : i64}
    score (%x: f32, %b: index, %h: index, %i: index, %j: index) {
      %s = tensor.extract %slope[%h] : tensor<?xf32>
      %d = arith.subi %j, %i : index
      %n = arith.index_cast %d : index to i32
      %f = arith.sitofp %n : i32 to f32
      %term = arith.mulf %s, %f : f32
      %y = arith.addf %x, %term : f32
      flash.yield %y : f32
    }
    mask (%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi sle, %j, %i : index
      flash.yield %keep : i1
    } -> !t, tensor<2x?x?xf32>
  return %o, %lse : !t, tensor<2x?x?xf32>
}
