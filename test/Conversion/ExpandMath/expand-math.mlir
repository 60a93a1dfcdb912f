// RUN: flashc-opt %s --expand-math | FileCheck %s --implicit-check-not=math.asin --implicit-check-not=math.acos
// RUN: flashc-opt %s --expand-math=libm=true | FileCheck %s --check-prefix=LIBM

// What sm_90a has stays as it is.
// CHECK-LABEL: func @instructions
// CHECK: math.tanh
// CHECK-NEXT: math.exp2
// CHECK-NEXT: math.floor
// CHECK-NEXT: math.isnan
// CHECK-NEXT: math.sqrt {{.*}} : f64
func.func @instructions(%x: f32, %d: f64) -> (f32, i1, f64) {
  %t = math.tanh %x : f32
  %e = math.exp2 %t : f32
  %f = math.floor %e : f32
  %c = math.isnan %f : f32
  %s = math.sqrt %d : f64
  return %f, %c, %s : f32, i1, f64
}

// A series around 0, the definition elsewhere.
// CHECK-LABEL: func @expm1(
// CHECK-SAME: %[[X:.*]]: f32
// CHECK: math.fma
// CHECK: %[[SMALL:.*]] = arith.mulf %[[X]], %{{.*}} : f32
// CHECK: %[[E:.*]] = math.exp %[[X]]
// CHECK: %[[LARGE:.*]] = arith.subf %[[E]]
// CHECK: %[[R:.*]] = arith.select %{{.*}}, %[[SMALL]], %[[LARGE]]
// CHECK: return %[[R]]
// LIBM-LABEL: func @expm1(
// LIBM-NOT: math.expm1
// LIBM: return
func.func @expm1(%x: f32) -> f32 {
  %y = math.expm1 %x : f32
  return %y : f32
}

// A polynomial in the square around 0, a power of two elsewhere.
// CHECK-LABEL: func @erf(
// CHECK-SAME: %[[X:.*]]: f32
// CHECK-DAG: %[[SQUARE:.*]] = arith.mulf %[[X]], %[[X]]
// CHECK-DAG: %[[MAGNITUDE:.*]] = math.absf %[[X]]
// CHECK-DAG: %[[SMALL:.*]] = math.fma %{{.*}}, %[[X]], %[[X]]
// CHECK-DAG: %[[POWER:.*]] = math.exp2
// CHECK: %[[LARGE:.*]] = math.copysign %{{.*}}, %[[X]]
// CHECK: %[[R:.*]] = arith.select %{{.*}}, %[[SMALL]], %[[LARGE]]
// CHECK: return %[[R]]
func.func @erf(%x: f32) -> f32 {
  %y = math.erf %x : f32
  return %y : f32
}

// Upstream's polynomials and expansions.
// CHECK-LABEL: func @upstream
// CHECK-NOT: math.{{(atan|cbrt|erfc|cosh|tan|acosh)}}
// CHECK: return
// LIBM-LABEL: func @upstream
// LIBM: math.acosh
func.func @upstream(%x: f32) -> f32 {
  %a = math.acos %x : f32
  %b = math.asin %a : f32
  %c = math.atan %b : f32
  %d = math.cbrt %c : f32
  %f = math.erfc %d : f32
  %g = math.cosh %f : f32
  %h = math.tan %g : f32
  %i = math.acosh %h : f32
  return %i : f32
}

// CHECK-LABEL: func @own
// CHECK-NOT: math.{{(atan|log1p|sinh|asinh|atanh|sincos)}}
// CHECK: return
func.func @own(%x: f32) -> (f32, f32) {
  %a = math.log1p %x : f32
  %b = math.sinh %a : f32
  %c = math.asinh %b : f32
  %d = math.atanh %c : f32
  %e = math.atan2 %d, %x : f32
  %s, %t = math.sincos %e : f32
  return %s, %t : f32, f32
}

// f16 and bf16 compute in f32.
// CHECK-LABEL: func @half
// CHECK: %[[WIDE:.*]] = arith.extf %{{.*}} : f16 to f32
// CHECK: %[[E:.*]] = math.exp %[[WIDE]] : f32
// CHECK: arith.truncf %[[E]] : f32 to f16
// CHECK-NOT: math.erf
// CHECK: return
func.func @half(%x: f16, %y: bf16) -> (f16, bf16) {
  %a = math.exp %x : f16
  %b = math.erf %y : bf16
  return %a, %b : f16, bf16
}

// A constant whole exponent is products, also in f64; another is 2^(y log2 |x|) with the sign of the power.
// CHECK-LABEL: func @powers(
// CHECK-SAME: %[[X:[^:]*]]: f32, %[[Y:[^:]*]]: f32, %[[N:[^:]*]]: i32
// CHECK: %[[SQUARE:.*]] = arith.mulf %[[X]], %[[X]] : f32
// CHECK: %[[CUBE:.*]] = arith.mulf %[[SQUARE]], %[[X]] : f32
// CHECK: arith.mulf %{{.*}} : f64
// CHECK: %[[MAGNITUDE:.*]] = math.absf %[[CUBE]]
// CHECK: math.log2 %[[MAGNITUDE]]
// CHECK: math.exp2
// CHECK: arith.sitofp %[[N]] : i32 to f32
// CHECK: math.exp2
// LIBM-LABEL: func @powers(
// LIBM: math.powf
// LIBM: math.powf
// LIBM: math.powf
// LIBM: math.powf
// LIBM-NOT: math.fpowi
func.func @powers(%x: f32, %y: f32, %n: i32, %d: f64) -> (f32, f64) {
  %three = arith.constant 3.0 : f32
  %two = arith.constant 2.0 : f64
  %a = math.powf %x, %three : f32
  %e = math.powf %d, %two : f64
  %b = math.powf %a, %y : f32
  %c = math.fpowi %b, %n : f32, i32
  return %c, %e : f32, f64
}

// What libm does not have either.
// CHECK-LABEL: func @for_all
// CHECK: scf.while
// CHECK-NOT: math.{{(clampf|ipowi|isinf|isnormal)}}
// CHECK: return
// LIBM-LABEL: func @for_all
// LIBM: scf.while
// LIBM-NOT: math.{{(clampf|ipowi|isinf|isnormal)}}
// LIBM: return
func.func @for_all(%x: f32, %y: f32, %m: i32, %n: i32) -> (i32, f32, i1, i1) {
  %a = math.ipowi %m, %n : i32
  %b = math.clampf %x to [%x, %y] : f32
  %c = math.isinf %x : f32
  %d = math.isnormal %x : f32
  return %a, %b, %c, %d : i32, f32, i1, i1
}

// There is no code for functions of f64.
// CHECK-LABEL: func @double
// CHECK: math.erf %{{.*}} : f64
func.func @double(%x: f64) -> f64 {
  %y = math.erf %x : f64
  return %y : f64
}
