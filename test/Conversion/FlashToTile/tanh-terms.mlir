// A soft cap's tanh as a polynomial where a warp's scores of the tile are small.
// DEFINE: %{score} =
// DEFINE: %{schedule} =
// DEFINE: %{type} = bf16
// DEFINE: %{source} = sed -e 's/SCORE/%{score}/' -e 's/TYPE/%{type}/g' %s
// DEFINE: %{convert} = flashc-opt --flash-online-softmax \
// DEFINE:   --flash-tile="q-tile=128 kv-tile=128" --canonicalize --cse --flash-swap-loops --flash-bound-loops \
// DEFINE:   --flash-parallelize --canonicalize --cse --convert-flash-to-tile=schedule=consumers=2,kv-tile=128,stages=2%{schedule} \
// DEFINE:   --canonicalize --cse

// The tanh's argument is s / 160: 0.35 * 160 = 56. The exponent multiplies with 20 log2(e) 0.3177 / 160^3 = 2.24e-6.
// REDEFINE: %{score} = %x = arith.divf %e, %cap : f32 %u = math.tanh %x : f32 %r = arith.mulf %u, %cap : f32
// Three terms where two do not do: 0.75 * 160 = 120.
// REDEFINE: %{schedule} = ,wait-after=12
// RUN: %{source} | %{convert} | FileCheck %s --check-prefixes=CHECK,FIXED
// REDEFINE: %{schedule} = ,max=running
// RUN: %{source} | %{convert} | FileCheck %s --check-prefixes=CHECK,MAX
// REDEFINE: %{type} = f16
// RUN: %{source} | %{convert} | FileCheck %s --check-prefixes=CHECK,MAX
// REDEFINE: %{type} = bf16
// CHECK-LABEL: gpu.func @capped(
// CHECK-DAG:     %[[K:.*]] = arith.constant 6.250000e-03 : f32
// CHECK-DAG:     %[[C:.*]] = arith.constant 0x4B44BA94 : f32
// CHECK-DAG:     %[[F:.*]] = arith.constant dense<2.23{{.*}}E-6> : tensor<64x128xf32, #tile.acc>
// CHECK-DAG:     %[[B:.*]] = arith.constant 80561.{{.*}} : f32
// CHECK-DAG:     %[[SHIFT:.*]] = arith.constant -42900.{{.*}} : f32
// CHECK-DAG:     %[[REST:.*]] = arith.constant 4.889{{.*}}E+9 : f32
// CHECK-DAG:     %[[RATIO:.*]] = arith.constant 1.197{{.*}}E-5 : f32
// CHECK:         %[[S:.*]] = tile.mma_wait
// CHECK-NEXT:    %[[SMALL:.*]] = tile.all_within %[[S]] {limit = 5.600000e+01 : f32} : tensor<64x128xf32, #tile.acc>
// CHECK-NEXT:    %[[Y:.*]] = scf.if %[[SMALL]] -> (tensor<64x128xf32, #tile.acc>) {
// CHECK-NEXT:      %[[FAST:.*]] = tile.map %[[S]]
// CHECK-NEXT:      ^bb0(%[[E:.*]]: f32, %{{.*}}: index, %{{.*}}: index):
// CHECK-NEXT:        %[[MINUS:.*]] = arith.negf %[[E]] : f32
// CHECK-NEXT:        %[[P:.*]] = math.fma %[[MINUS]], %[[E]], %[[B]] : f32
// CHECK-NEXT:        %[[R:.*]] = arith.mulf %[[E]], %[[P]] : f32
// CHECK-NEXT:        tile.yield %[[R]] : f32
// CHECK:           scf.yield %[[FAST]]
// CHECK-NEXT:    } else {
// CHECK-NEXT:      %[[NEXT:.*]] = tile.all_within %[[S]] {limit = 1.200000e+02 : f32} : tensor<64x128xf32, #tile.acc>
// CHECK-NEXT:      %[[IN_ELSE:.*]] = scf.if %[[NEXT]] -> (tensor<64x128xf32, #tile.acc>) {
// CHECK-NEXT:        %[[THREE:.*]] = tile.map %[[S]]
// CHECK-NEXT:        ^bb0(%[[E:.*]]: f32, %{{.*}}: index, %{{.*}}: index):
// CHECK-NEXT:          %[[SHIFTED:.*]] = math.fma %[[E]], %[[E]], %[[SHIFT]] : f32
// CHECK-NEXT:          %[[P:.*]] = math.fma %[[SHIFTED]], %[[SHIFTED]], %[[REST]] : f32
// CHECK-NEXT:          %[[SCALED:.*]] = arith.mulf %[[E]], %[[RATIO]] : f32
// CHECK-NEXT:          %[[R:.*]] = arith.mulf %[[SCALED]], %[[P]] : f32
// CHECK-NEXT:          tile.yield %[[R]] : f32
// CHECK:             scf.yield %[[THREE]]
// CHECK-NEXT:      } else {
// CHECK-NEXT:      %[[SLOW:.*]] = tile.map %[[S]]
// CHECK-NEXT:      ^bb0(%[[E:.*]]: f32, %{{.*}}: index, %{{.*}}: index):
// CHECK-NEXT:        %[[U:.*]] = arith.mulf %[[E]], %[[K]] : f32
// CHECK-NEXT:        %[[T:.*]] = math.tanh %[[U]] : f32
// CHECK-NEXT:        %[[R:.*]] = arith.mulf %[[T]], %[[C]] : f32
// CHECK-NEXT:        tile.yield %[[R]] : f32
// CHECK:           scf.yield %[[SLOW]]
// CHECK:           scf.yield %[[IN_ELSE]]
// MAX:           tile.row_reduce max %{{.*}} : tensor<64x128xf32, #tile.acc>
// FIXED:         %[[X:.*]] = arith.mulf %[[Y]], %[[F]] : tensor<64x128xf32, #tile.acc>
// FIXED-NEXT:    math.exp2 %[[X]]

// Without a maximum the exponentials are part of the branches, unless the wait for a product stands between them.
// REDEFINE: %{schedule} = ,max=unified,wait-after=0
// RUN: %{source} | %{convert} | FileCheck %s --check-prefix=INSIDE
// INSIDE: scf.if %{{.*}} -> (tensor<64x128xf32, #tile.acc>) {
// INSIDE:   %[[E:.*]] = math.exp2 %
// INSIDE-NEXT: scf.yield %[[E]]
// INSIDE: } else {
// INSIDE:   scf.if
// INSIDE:     %[[E:.*]] = math.exp2 %
// INSIDE-NEXT: scf.yield %[[E]]
// INSIDE:     math.tanh
// INSIDE:     %[[E:.*]] = math.exp2 %
// INSIDE-NEXT: scf.yield %[[E]]
// INSIDE-NOT: math.exp2 %
// INSIDE: tile.to_operand_a

// An argument that is more than a constant times the score, or a constant out of range, is a map in front.
// REDEFINE: %{schedule} =
// REDEFINE: %{score} = %x = arith.mulf %e, %cap : f32 %y = arith.addf %x, %of_row : f32 %r = math.tanh %y : f32
// RUN: %{source} | %{convert} | FileCheck %s --check-prefixes=FRONT
// REDEFINE: %{score} = %x = arith.mulf %e, %low : f32 %r = math.tanh %x : f32
// RUN: %{source} | %{convert} | FileCheck %s --check-prefixes=FRONT
// REDEFINE: %{score} = %x = arith.negf %e : f32 %r = math.tanh %x : f32
// RUN: %{source} | %{convert} | FileCheck %s --check-prefixes=FRONT
// FRONT: %[[U:.*]] = tile.map
// FRONT-NOT: math.tanh
// FRONT: %[[SMALL:.*]] = tile.all_within %[[U]] {limit = 3.500000e-01 : f32}
// FRONT-NEXT: scf.if %[[SMALL]]
// FRONT-NEXT: tile.map %[[U]]
// FRONT: tile.all_within %[[U]] {limit = 7.500000e-01 : f32}
// FRONT: } else {
// FRONT: tile.map %[[U]]
// FRONT-NEXT: ^bb0(%[[E:.*]]: f32,
// FRONT-NEXT: math.tanh %[[E]]

// Other scores have tanh as it is (twice: with the term of the row, and without).
// REDEFINE: %{score} = %x = math.tanh %e : f32 %r = arith.addf %x, %of_row : f32
// RUN: %{source} | %{convert} | FileCheck %s --check-prefixes=APART
// APART-NOT: tile.all_within
// APART: math.tanh
// APART: } else {
// APART: math.tanh
// APART-NOT: {{math.tanh|tile.all_within}}
// REDEFINE: %{score} = %x = math.tanh %e : f32 %r = arith.mulf %x, %minus : f32
// RUN: %{source} | %{convert} | FileCheck %s --check-prefix=OTHER
// REDEFINE: %{score} = %x = math.tanh %e : f32 %r = arith.mulf %x, %e : f32
// RUN: %{source} | %{convert} | FileCheck %s --check-prefix=OTHER
// REDEFINE: %{score} = %r = math.tanh %of_row : f32
// RUN: %{source} | %{convert} | FileCheck %s --check-prefix=OTHER
// OTHER-NOT: tile.all_within
// OTHER: math.tanh
// OTHER-NOT: tile.all_within

func.func @capped(%q: tensor<1x2x300x64xTYPE>, %k: tensor<1x2x300x64xTYPE>, %v: tensor<1x2x300x64xTYPE>) -> tensor<1x2x300x64xTYPE> {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<1x2x300x64xTYPE>, tensor<1x2x300x64xTYPE>, tensor<1x2x300x64xTYPE>) {scale = 0.125 : f32}
      score (%e: f32, %b: index, %h: index, %i: index, %j: index) {
        %cap = arith.constant 20.0 : f32
        %low = arith.constant 1.0e-6 : f32
        %minus = arith.constant -1.0 : f32
        %row = arith.index_cast %i : index to i32
        %of_row = arith.sitofp %row : i32 to f32
        SCORE
        flash.yield %r : f32
      } -> tensor<1x2x300x64xTYPE>, tensor<1x2x300xf32>
  return %o : tensor<1x2x300x64xTYPE>
}
