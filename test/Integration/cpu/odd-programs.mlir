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

// Divisions by numbers that are 0 behind the end of the queries and keys only, where tiles stick out, and by captured
// ones.
// CHECK: check @divisions: o: {{.*}} PASS
func.func @divisions(%q: tensor<1x1x7x8xf32>) -> tensor<1x1x7x8xf32> {
  %c3 = arith.constant 3 : index
  %o, %lse = flash.attention ins(%q, %q, %q : tensor<1x1x7x8xf32>, tensor<1x1x7x8xf32>, tensor<1x1x7x8xf32>)
      {scale = 0.5 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %c7 = arith.constant 7 : index
        %rest = arith.subi %c7, %j : index
        %x = arith.divsi %i, %rest : index
        %x32 = arith.index_cast %x : index to i32
        %y = arith.sitofp %x32 : i32 to f32
        flash.yield %y : f32
      }
      mask (%b: index, %h: index, %i: index, %j: index) {
        %c7 = arith.constant 7 : index
        %rest = arith.subi %c7, %i : index
        %x = arith.remui %j, %rest : index
        %y = arith.ceildivui %j, %rest : index
        %z = arith.floordivsi %j, %rest : index
        %b3 = arith.addi %b, %c3 : index
        %w = arith.divui %i, %b3 : index
        %p = arith.cmpi sle, %x, %y : index
        %r = arith.cmpi sle, %z, %w : index
        %keep = arith.ori %p, %r : i1
        flash.yield %keep : i1
      } -> tensor<1x1x7x8xf32>, tensor<1x1x7xf32>
  return %o : tensor<1x1x7x8xf32>
}
