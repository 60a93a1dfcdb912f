// Scores without anything that tensor-bias could leave to the product.
// DEFINE: %{score} =
// DEFINE: %{schedule} = tensor-bias=true
// DEFINE: %{convert} = sed -e 's/SCORE/%{score}/' %s | not flashc-opt --flash-online-softmax \
// DEFINE:   --flash-tile="q-tile=128 kv-tile=64" --canonicalize --cse --flash-swap-loops --flash-bound-loops \
// DEFINE:   --flash-parallelize --canonicalize --cse --convert-flash-to-tile=schedule=consumers=2,kv-tile=64,%{schedule} 2>&1

// No slope.
// REDEFINE: %{score} = %r = arith.addf %v0, %fi : f32
// RUN: %{convert} | FileCheck %s
// A function of the score beside the slope.
// REDEFINE: %{score} = %y = math.tanh %v0 : f32 %r = arith.addf %y, %fj : f32
// RUN: %{convert} | FileCheck %s
// Something else beside it.
// REDEFINE: %{score} = %x = arith.mulf %fj, %fj : f32 %y = arith.addf %v0, %x : f32 %r = arith.addf %y, %fj : f32
// RUN: %{convert} | FileCheck %s
// No score region.
// RUN: not flashc %flashc_src/examples/causal.mlir --schedule=tensor-bias=true 2>&1 | FileCheck %s
// CHECK: error: schedule: expected a score that adds terms to s which are affine in j, with a slope, for tensor-bias

// REDEFINE: %{score} = %r = math.tanh %v0 : f32
// REDEFINE: %{schedule} = tensor-bias=true,max=unified
// RUN: %{convert} | FileCheck %s --check-prefix=FIXED
// FIXED: error: schedule: expected max=running for tensor-bias: the maximum includes the part of the bias that is constant in a row

!t = tensor<2x8x256x64xbf16>
!lse = tensor<2x8x256xf32>

func.func @scores(%q: !t, %k: !t, %v: !t) -> !t {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
    score (%v0: f32, %b: index, %h: index, %i: index, %j: index) {
      %i32 = arith.index_cast %i : index to i32
      %fi = arith.sitofp %i32 : i32 to f32
      %j32 = arith.index_cast %j : index to i32
      %fj = arith.sitofp %j32 : i32 to f32
      SCORE
      flash.yield %r : f32
    } -> !t, !lse
  return %o : !t
}
