// Programs that are right but unusual: results that share a buffer, functions of the C library, loops.
// RUN: flashc %s --run=cpu --check | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --q-tile=4 --kv-tile=4 | FileCheck %s --implicit-check-not=FAIL

!q = tensor<1x1x8x8xf32>
!lse = tensor<1x1x8xf32>

// CHECK: check @twice: o: {{.*}} PASS
// CHECK-NEXT: check @twice: o: {{.*}} PASS
func.func @twice(%q: !q) -> (!q, !q) {
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 0.5 : f32} -> !q, !lse
  return %o, %o : !q, !q
}

// Named like what math.exp calls; math.erf is itself a call.
// CHECK: check @exp: o: {{.*}} PASS
func.func @exp(%q: !q) -> !q {
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 0.5 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %e = math.erf %s : f32
        flash.yield %e : f32
      } -> !q, !lse
  return %o : !q
}

// CHECK: check @a name of "any" kind: o: {{.*}} PASS
func.func @"a name of \22any\22 kind"(%q: !q) -> !q {
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 0.5 : f32} -> !q, !lse
  return %o : !q
}

// Attention in a loop, which is the program's own and stays.
// CHECK: check @refined: result0: {{.*}} PASS
func.func @refined(%q: !q, %k: !q) -> !q {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r = scf.for %t = %c0 to %c3 step %c1 iter_args(%x = %q) -> !q {
    %o, %lse = flash.attention ins(%x, %k, %k : !q, !q, !q) {scale = 0.5 : f32} -> !q, !lse
    scf.yield %o : !q
  }
  return %r : !q
}
