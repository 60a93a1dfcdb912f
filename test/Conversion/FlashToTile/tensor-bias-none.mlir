// Scores that leave nothing to the product of queries and keys.
// DEFINE: %{score} =
// DEFINE: %{convert} = sed -e 's/SCORE/%{score}/' %s | flashc-opt --flash-online-softmax \
// DEFINE:   --flash-tile="q-tile=128 kv-tile=64" --canonicalize --cse --flash-swap-loops --flash-bound-loops \
// DEFINE:   --flash-parallelize --canonicalize --cse --convert-flash-to-tile=schedule=consumers=2,kv-tile=64

// No slope.
// REDEFINE: %{score} = %r = arith.addf %v0, %fi : f32
// RUN: %{convert} | FileCheck %s --implicit-check-not=slopes
// A function of the score beside the slope.
// REDEFINE: %{score} = %y = math.tanh %v0 : f32 %r = arith.addf %y, %fj : f32
// RUN: %{convert} | FileCheck %s --implicit-check-not=slopes
// Something else beside it.
// REDEFINE: %{score} = %x = arith.mulf %fj, %fj : f32 %y = arith.addf %v0, %x : f32 %r = arith.addf %y, %fj : f32
// RUN: %{convert} | FileCheck %s --implicit-check-not=slopes
// CHECK: gpu.func @scores(
// CHECK: tile.mma_async

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
