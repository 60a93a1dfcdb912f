// Numbers of heads that are known at launch only, in groups of four and of one, and a captured array that is not
// contiguous: its rows have a gap between them, which the kernel steps over by the launch's strides.
// REQUIRES: gpu
// DEFINE: %{group4} = sed -e s/GROUP/4/ %s
// DEFINE: %{group1} = sed -e s/GROUP/1/ %s
// RUN: %{group4} | flashc - --run=gpu --check | FileCheck %s
// RUN: %{group4} | flashc - --run=gpu --check --dims=B=2,Hk=3,Nq=300,Nk=129 | FileCheck %s
// RUN: %{group4} | flashc - --run=gpu --check --dims=Hk=1,Nq=1,Nk=257 | FileCheck %s
// RUN: %{group1} | flashc - --run=gpu --check --dims=B=2,Hk=5,Nq=129,Nk=300 | FileCheck %s

// CHECK: check @attention: o: {{.*}}: PASS
// CHECK: check @attention: lse: {{.*}}: PASS
!t = tensor<?x?x?x128xbf16>
!lse = tensor<?x?x?xf32>
func.func @attention(%q: !t, %k: !t, %v: !t, %bias: memref<?x?xf32, strided<[?, 1]>>) -> (!t, !lse) {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {group_size = GROUP, scale = 0.1 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %x = memref.load %bias[%h, %j] : memref<?x?xf32, strided<[?, 1]>>
        %t = arith.addf %s, %x : f32
        flash.yield %t : f32
      } -> !t, !lse
  return %o, %lse : !t, !lse
}
