// RUN: %vary %s | flashc-opt --flash-differentiate-scores | FileCheck %s

!q = tensor<1x2x8x8xf32>
!lse = tensor<1x2x8xf32>

// 1 / (1 + exp(-s)): r (1 - r).
// CHECK-LABEL: func @sigmoid(
// CHECK:         derivative (%[[S:.*]]: f32, %{{.*}}: index, %{{.*}}: index, %[[I:.*]]: index, %[[J:.*]]: index) {
// CHECK-NEXT:      %[[X:.*]] = arith.negf %[[S]] : f32
// CHECK-NEXT:      %[[E:.*]] = math.exp %[[X]] : f32
// CHECK-NEXT:      %[[SUM:.*]] = arith.addf %[[E]], %{{.*}} : f32
// CHECK-NEXT:      %[[R:.*]] = arith.divf %{{.*}}, %[[SUM]] : f32
// CHECK-NEXT:      %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:      %[[REST:.*]] = arith.subf %[[ONE]], %[[R]] : f32
// CHECK-NEXT:      %[[D:.*]] = arith.mulf %[[REST]], %[[R]] : f32
// CHECK-NEXT:      flash.yield %[[D]] : f32
func.func @sigmoid(%q: !q, %o: !q, %lse: !lse, %bias: tensor<8x8xf32>, %cap: f32) -> !q {
  %one = arith.constant 1.0 : f32
  %dq, %dk, %dv = flash.attention_backward ins(%q, %q, %q, %o, %lse, %o : !q, !q, !q, !q, !lse, !q) {scale = 1.0 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %x = arith.negf %s : f32
      %e = math.exp %x : f32
      %sum = arith.addf %e, %one : f32
      %y = arith.divf %one, %sum : f32
      flash.yield %y : f32
    } -> !q, !q, !q
  return %dq : !q
}

// What nothing reads needs no rule.
// CHECK-LABEL: func @dead(
// CHECK:         derivative (%{{.*}}: f32, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index) {
// CHECK-NEXT:      %[[D:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:      flash.yield %[[D]] : f32
func.func @dead(%q: !q, %o: !q, %lse: !lse, %bias: tensor<8x8xf32>, %cap: f32) -> !q {
  %dq, %dk, %dv = flash.attention_backward ins(%q, %q, %q, %o, %lse, %o : !q, !q, !q, !q, !lse, !q) {scale = 1.0 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %n = arith.bitcast %s : f32 to i32
      flash.yield %s : f32
    } -> !q, !q, !q
  return %dq : !q
}

// A derivative that is there stays.
// CHECK-LABEL: func @given(
// CHECK:         derivative (%[[S:.*]]: f32, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index) {
// CHECK-NEXT:      flash.yield %[[S]] : f32
func.func @given(%q: !q, %o: !q, %lse: !lse, %bias: tensor<8x8xf32>, %cap: f32) -> !q {
  %dq, %dk, %dv = flash.attention_backward ins(%q, %q, %q, %o, %lse, %o : !q, !q, !q, !q, !lse, !q) {scale = 1.0 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %y = arith.addf %s, %cap : f32
      flash.yield %y : f32
    } derivative (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      flash.yield %s : f32
    } -> !q, !q, !q
  return %dq : !q
}

// Without a score there is nothing to differentiate.
// CHECK-LABEL: func @no_score(
// CHECK-NOT: derivative
func.func @no_score(%q: !q, %o: !q, %lse: !lse) -> !q {
  %dq, %dk, %dv = flash.attention_backward ins(%q, %q, %q, %o, %lse, %o : !q, !q, !q, !q, !lse, !q) {scale = 1.0 : f32}
    -> !q, !q, !q
  return %dq : !q
}

// EACH
func.func @NAME(%q: !q, %o: !q, %lse: !lse, %bias: tensor<8x8xf32>, %cap: f32) -> !q {
  %dq, %dk, %dv = flash.attention_backward ins(%q, %q, %q, %o, %lse, %o : !q, !q, !q, !q, !lse, !q) {scale = 1.0 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      // BODY
      flash.yield %y : f32
    } -> !q, !q, !q
  return %dq : !q
}
// EACH

// A bias is a constant: it is not read again.
// CHECK-LABEL: func @bias(
// CHECK:         derivative (%{{.*}}: f32, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index) {
// CHECK-NEXT:      %[[D:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:      flash.yield %[[D]] : f32
// VARY bias
//     %x = tensor.extract %bias[%i, %j] : tensor<8x8xf32>
//     %y = arith.addf %s, %x : f32

// Constant factors meet, and a divisor meets its factor.
// CHECK-LABEL: func @factors(
// CHECK:         derivative (%{{.*}}: f32, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index) {
// CHECK-NEXT:      %[[D:.*]] = arith.constant -1.500000e+00 : f32
// CHECK-NEXT:      flash.yield %[[D]] : f32
// VARY factors
//     %x = tensor.extract %bias[%i, %j] : tensor<8x8xf32>
//     %half = arith.constant 0.5 : f32
//     %three = arith.constant 3.0 : f32
//     %a = arith.mulf %s, %half : f32
//     %c = arith.divf %a, %cap : f32
//     %d = arith.mulf %c, %three : f32
//     %e = arith.mulf %d, %cap : f32
//     %y = arith.subf %x, %e : f32

// A captured factor is read, and its bias is not.
// CHECK-LABEL: func @captured_factor(
// CHECK:         derivative (%[[S:.*]]: f32, %{{.*}}: index, %{{.*}}: index, %[[I:.*]]: index, %[[J:.*]]: index) {
// CHECK-NEXT:      %[[X:.*]] = tensor.extract %{{.*}}[%[[I]], %[[J]]]
// CHECK-NEXT:      flash.yield %[[X]] : f32
// VARY captured_factor
//     %x = tensor.extract %bias[%i, %j] : tensor<8x8xf32>
//     %z = tensor.extract %bias[%j, %i] : tensor<8x8xf32>
//     %a = arith.mulf %s, %x : f32
//     %y = arith.addf %a, %z : f32

// Where both agree there is no choice.
// CHECK-LABEL: func @choice(
// CHECK:         derivative (%{{.*}}: f32, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index) {
// CHECK-NEXT:      %[[D:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:      flash.yield %[[D]] : f32
// VARY choice
//     %half = arith.constant 0.5 : f32
//     %near = arith.cmpi sle, %j, %i : index
//     %a = arith.subf %s, %half : f32
//     %y = arith.select %near, %s, %a : f32

// Where both cancel nothing is left.
// CHECK-LABEL: func @zero(
// CHECK:         derivative (%{{.*}}: f32, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index) {
// CHECK-NEXT:      %[[D:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      flash.yield %[[D]] : f32
// VARY zero
//     %t = math.exp %s : f32
//     %a = arith.subf %t, %cap : f32
//     %y = arith.subf %a, %t : f32

// A soft cap is 1 - tanh^2 of what the score computes.
// CHECK-LABEL: func @soft_cap(
// CHECK-SAME:      %[[CAP:[^ ]*]]: f32)
// CHECK:         derivative (%[[S:.*]]: f32, %{{.*}}: index, %{{.*}}: index, %[[I:.*]]: index, %[[J:.*]]: index) {
// CHECK-NEXT:      %[[X:.*]] = arith.divf %[[S]], %[[CAP]] : f32
// CHECK-NEXT:      %[[T:.*]] = math.tanh %[[X]] : f32
// CHECK-NEXT:      %[[SQUARE:.*]] = arith.mulf %[[T]], %[[T]] : f32
// CHECK-NEXT:      %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:      %[[D:.*]] = arith.subf %[[ONE]], %[[SQUARE]] : f32
// CHECK-NEXT:      flash.yield %[[D]] : f32
// VARY soft_cap
//     %x = arith.divf %s, %cap : f32
//     %t = math.tanh %x : f32
//     %y = arith.mulf %t, %cap : f32

// So it is for a constant whose reciprocal times itself is not 1.
// CHECK-LABEL: func @soft_cap_of_constant(
// CHECK:         derivative (%[[S:.*]]: f32, %{{.*}}: index, %{{.*}}: index, %[[I:.*]]: index, %[[J:.*]]: index) {
// CHECK-NEXT:      %[[CAP:.*]] = arith.constant 4.900000e+01 : f32
// CHECK-NEXT:      %[[X:.*]] = arith.divf %[[S]], %[[CAP]] : f32
// CHECK-NEXT:      %[[T:.*]] = math.tanh %[[X]] : f32
// CHECK-NEXT:      %[[SQUARE:.*]] = arith.mulf %[[T]], %[[T]] : f32
// CHECK-NEXT:      %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:      %[[D:.*]] = arith.subf %[[ONE]], %[[SQUARE]] : f32
// CHECK-NEXT:      flash.yield %[[D]] : f32
// VARY soft_cap_of_constant
//     %cap1 = arith.constant 49.0 : f32
//     %x = arith.divf %s, %cap1 : f32
//     %t = math.tanh %x : f32
//     %y = arith.mulf %cap1, %t : f32

// The derivative of f16 code is f32: operands are widened.
// CHECK-LABEL: func @narrow(
// CHECK:         derivative (%[[S:.*]]: f32, %{{.*}}: index, %{{.*}}: index, %[[I:.*]]: index, %[[J:.*]]: index) {
// CHECK-NEXT:      %[[X:.*]] = arith.truncf %[[S]] : f32 to f16
// CHECK-NEXT:      %[[WIDE:.*]] = arith.extf %[[X]] : f16 to f32
// CHECK-NEXT:      %[[D:.*]] = math.cos %[[WIDE]] : f32
// CHECK-NEXT:      flash.yield %[[D]] : f32
// VARY narrow
//     %x = arith.truncf %s : f32 to f16
//     %t = math.sin %x : f16
//     %y = arith.extf %t : f16 to f32

// A branch yields the derivative in place of the score.
// CHECK-LABEL: func @branch(
// CHECK:         derivative (%[[S:.*]]: f32, %{{.*}}: index, %{{.*}}: index, %[[I:.*]]: index, %[[J:.*]]: index) {
// CHECK-NEXT:      %[[NEAR:.*]] = arith.cmpi sle, %[[J]], %[[I]] : index
// CHECK-NEXT:      %[[D:.*]] = scf.if %[[NEAR]] -> (f32) {
// CHECK-NEXT:        %[[E:.*]] = math.exp %[[S]] : f32
// CHECK-NEXT:        scf.yield %[[E]] : f32
// CHECK-NEXT:      } else {
// CHECK-NEXT:        scf.yield %{{.*}} : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      flash.yield %[[D]] : f32
// VARY branch
//     %near = arith.cmpi sle, %j, %i : index
//     %y = scf.if %near -> f32 {
//       %e = math.exp %s : f32
//       scf.yield %e : f32
//     } else {
//       %a = arith.mulf %s, %cap : f32
//       scf.yield %a : f32
//     }

// A loop carries the derivative beside the score.
// CHECK-LABEL: func @loop(
// CHECK:         derivative (%[[S:.*]]: f32, %{{.*}}: index, %{{.*}}: index, %[[I:.*]]: index, %[[J:.*]]: index) {
// CHECK:           %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:      %[[R:.*]]:2 = scf.for %{{.*}} iter_args(%[[X:.*]] = %[[S]], %[[DX:.*]] = %[[ONE]]) -> (f32, f32) {
// CHECK-NEXT:        %[[SIN:.*]] = math.sin %[[X]] : f32
// CHECK-NEXT:        %[[COS:.*]] = math.cos %[[X]] : f32
// CHECK-NEXT:        %[[NEXT:.*]] = arith.mulf %[[DX]], %[[COS]] : f32
// CHECK-NEXT:        scf.yield %[[SIN]], %[[NEXT]] : f32, f32
// CHECK-NEXT:      }
// CHECK-NEXT:      flash.yield %[[R]]#1 : f32
// VARY loop
//     %c0 = arith.constant 0 : index
//     %c1 = arith.constant 1 : index
//     %y = scf.for %n = %c0 to %i step %c1 iter_args(%x = %s) -> f32 {
//       %a = math.sin %x : f32
//       scf.yield %a : f32
//     }

// A position that the score decides is constant between jumps.
// CHECK-LABEL: func @gather(
// CHECK:         derivative (%{{.*}}: f32, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index) {
// CHECK-NEXT:      %[[D:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:      flash.yield %[[D]] : f32
// VARY gather
//     %n = arith.fptosi %s : f32 to i32
//     %k = arith.index_cast %n : i32 to index
//     %x = tensor.extract %bias[%k, %j] : tensor<8x8xf32>
//     %y = arith.addf %s, %x : f32
