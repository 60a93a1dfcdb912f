// Query tiles that no key is visited for: o = 0 and lse = -inf, whatever lies where the keys would be.
// REQUIRES: gpu
// RUN: flashc %s --run=gpu --check | FileCheck %s
// RUN: flashc %flashc_src/examples/causal.mlir --run=gpu --check --dims=B=1,Nq=700,Nk=10 | FileCheck %s --check-prefix=CAUSAL

// CHECK-DAG: check @beyond_the_last_key: o: {{.*}}: PASS
// CHECK-DAG: check @beyond_the_last_key: lse: {{.*}}: PASS
// CAUSAL: check @causal: o: {{.*}}: PASS
// CAUSAL: check @causal: lse: {{.*}}: PASS
!t = tensor<1x2x256x128xbf16>
!lse = tensor<1x2x256xf32>
func.func @beyond_the_last_key(%q: !t, %k: !t, %v: !t) -> (!t, !lse) {
  %c1000 = arith.constant 1000 : index
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.1 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %first = arith.addi %i, %c1000 : index
      %keep = arith.cmpi sge, %j, %first : index
      flash.yield %keep : i1
    } -> !t, !lse
  return %o, %lse : !t, !lse
}
