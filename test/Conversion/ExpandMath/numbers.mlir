// The code of every function, against libm in f64, as a score: the log-sum-exp over one key is the score itself.
// RUN: %vary %s > %t.mlir
// RUN: flashc %t.mlir --check --dims=Nq=40,Nk=1 --passes='expand-math,flash-online-softmax' > %t
// RUN: FileCheck %s --implicit-check-not=FAIL < %t
// RUN: flashc %t.mlir --check --dims=Nq=40,Nk=1 --seed=7 | FileCheck %s --implicit-check-not=FAIL

!q = tensor<1x1x?x8xf32>
!row = tensor<1x1x?xf32>
// EACH
func.func @NAME(%q: !q, %k: !q, %v: !q) -> (!q, !row) {
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 5.000000e-01 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        // BODY
        flash.yield %y : f32
      } -> !q, !row
  return %o, %lse : !q, !row
}
// EACH

// CHECK: check @of_acos: lse: {{.*}} PASS
// VARY of_acos
//     %x = math.tanh %s : f32
//     %y = math.acos %x : f32
// CHECK: check @of_acosh: lse: {{.*}} PASS
// VARY of_acosh
//     %one = arith.constant 1.0 : f32
//     %a = math.absf %s : f32
//     %x = arith.addf %a, %one : f32
//     %y = math.acosh %x : f32
// CHECK: check @of_asin: lse: {{.*}} PASS
// VARY of_asin
//     %x = math.tanh %s : f32
//     %y = math.asin %x : f32
// CHECK: check @of_asinh: lse: {{.*}} PASS
// VARY of_asinh
//     %x0 = arith.mulf %s, %s : f32
//     %x = arith.mulf %x0, %s : f32
//     %y = math.asinh %x : f32
// CHECK: check @of_atan: lse: {{.*}} PASS
// VARY of_atan
//     %x0 = arith.mulf %s, %s : f32
//     %x = arith.mulf %x0, %s : f32
//     %y = math.atan %x : f32
// CHECK: check @of_atanh: lse: {{.*}} PASS
// VARY of_atanh
//     %x = math.tanh %s : f32
//     %y = math.atanh %x : f32
// CHECK: check @of_cbrt: lse: {{.*}} PASS
// VARY of_cbrt
//     %x0 = arith.mulf %s, %s : f32
//     %x = arith.mulf %x0, %s : f32
//     %y = math.cbrt %x : f32
// CHECK: check @of_cosh: lse: {{.*}} PASS
// VARY of_cosh
//     %y = math.cosh %s : f32
// CHECK: check @of_erf: lse: {{.*}} PASS
// VARY of_erf
//     %y = math.erf %s : f32
// CHECK: check @of_erfc: lse: {{.*}} PASS
// VARY of_erfc
//     %y = math.erfc %s : f32
// CHECK: check @of_expm1: lse: {{.*}} PASS
// VARY of_expm1
//     %y = math.expm1 %s : f32
// CHECK: check @of_log1p: lse: {{.*}} PASS
// VARY of_log1p
//     %x = math.absf %s : f32
//     %y = math.log1p %x : f32
// CHECK: check @of_sinh: lse: {{.*}} PASS
// VARY of_sinh
//     %y = math.sinh %s : f32
// CHECK: check @of_tan: lse: {{.*}} PASS
// VARY of_tan
//     %x = math.tanh %s : f32
//     %y = math.tan %x : f32
// CHECK: check @of_atan2: lse: {{.*}} PASS
// VARY of_atan2
//     %c = arith.constant 20 : index
//     %d = arith.subi %i, %c : index
//     %d32 = arith.index_cast %d : index to i32
//     %x = arith.sitofp %d32 : i32 to f32
//     %y = math.atan2 %s, %x : f32
// CHECK: check @of_powf: lse: {{.*}} PASS
// VARY of_powf
//     %a = math.absf %s : f32
//     %c = arith.constant 1.7 : f32
//     %p = math.powf %a, %c : f32
//     %n = math.floor %a : f32
//     %r = math.powf %s, %n : f32
//     %y = arith.addf %p, %r : f32
// CHECK: check @of_fpowi: lse: {{.*}} PASS
// VARY of_fpowi
//     %three = arith.constant 3 : index
//     %e = arith.remsi %i, %three : index
//     %n = arith.index_cast %e : index to i32
//     %y = math.fpowi %s, %n : f32, i32
// CHECK: check @of_ipowi: lse: {{.*}} PASS
// VARY of_ipowi
//     %seven = arith.constant 7 : index
//     %three = arith.constant 3 : index
//     %e = arith.remsi %i, %seven : index
//     %f = arith.subi %e, %three : index
//     %n = arith.index_cast %f : index to i32
//     %minus = arith.constant -2 : i32
//     %even = arith.constant 1 : i32
//     %bit = arith.andi %n, %even : i32
//     %x = arith.addi %minus, %bit : i32
//     %p = math.ipowi %x, %n : i32
//     %pf = arith.sitofp %p : i32 to f32
//     %y = arith.addf %s, %pf : f32
// CHECK: check @of_classes: lse: {{.*}} PASS
// VARY of_classes
//     %zero = arith.constant 0.0 : f32
//     %one = arith.constant 1.0 : f32
//     %inverse = arith.divf %one, %zero : f32
//     %a = math.isinf %inverse : f32
//     %n = math.isnormal %s : f32
//     %m = math.isnormal %zero : f32
//     %x = math.clampf %s to [%zero, %one] : f32
//     %ai = arith.uitofp %a : i1 to f32
//     %ni = arith.uitofp %n : i1 to f32
//     %mi = arith.uitofp %m : i1 to f32
//     %t = arith.addf %ai, %x : f32
//     %u = arith.mulf %ni, %t : f32
//     %y = arith.subf %u, %mi : f32
// CHECK: check @of_sincos: lse: {{.*}} PASS
// VARY of_sincos
//     %a, %c = math.sincos %s : f32
//     %y = arith.divf %a, %c : f32
