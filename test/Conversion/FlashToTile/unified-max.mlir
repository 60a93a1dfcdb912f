// No running maximum, where the score region bounds the scores.
// DEFINE: %{score} =
// DEFINE: %{schedule} =
// DEFINE: %{type} = bf16
// DEFINE: %{source} = sed -e 's/SCORE/%{score}/' -e 's/TYPE/%{type}/g' %s
// DEFINE: %{convert} = flashc-opt --flash-online-softmax \
// DEFINE:   --flash-tile="q-tile=128 kv-tile=128" --canonicalize --cse --flash-swap-loops --flash-bound-loops \
// DEFINE:   --flash-parallelize --canonicalize --cse --convert-flash-to-tile=schedule=consumers=2,kv-tile=128,stages=2,max=unified%{schedule} \
// DEFINE:   --canonicalize --cse

// The loop carries the output with its sums; masks put zeros between the exponentials; empty rows have a sum of zero.
// REDEFINE: %{score} = %v2 = arith.mulf %v1, %v_cap : f32
// RUN: %{source} | %{convert} | FileCheck %s
// CHECK: max=unified
// CHECK-NOT: tile.row_reduce max
// CHECK: %[[R:.*]] = scf.for {{.*}} iter_args(%[[ACC:.*]] = %{{.*}}) -> (tensor<64x72xf32, #tile.acc>) {
// CHECK: %[[S:.*]] = tile.map
// CHECK: %[[X:.*]] = arith.mulf %[[S]], %{{.*}} : tensor<64x128xf32, #tile.acc>
// CHECK-NEXT: %[[E:.*]] = math.exp2 %[[X]] : tensor<64x128xf32, #tile.acc>
// CHECK: %[[P:.*]] = scf.if
// CHECK: tile.map %[[E]]
// CHECK: arith.select %{{.*}}, %{{.*}}, %cst{{.*}} : f32
// CHECK: tile.to_operand_a %[[P]]
// CHECK-NOT: tile.vote_any
// CHECK: tile.mma_async %{{.*}}, %{{.*}} into %[[ACC]]
// CHECK: %{{.*}}, %[[TOTAL:.*]] = tile.split_sums %[[R]]
// CHECK: %[[EMPTY:.*]] = arith.cmpf oeq, %[[TOTAL]], %{{.*}} : tensor<64xf32, #tile.row>
// CHECK: arith.select %[[EMPTY]]
// CHECK-NOT: math.log2

// Wider values have the same.
// RUN: %{source} | sed s/x64x/x128x/g | %{convert} | FileCheck %s --check-prefix=WIDE
// WIDE: %[[R:.*]] = scf.for {{.*}} iter_args(%[[ACC:.*]] = %{{.*}}) -> (tensor<64x136xf32, #tile.acc>) {
// WIDE-NOT: tile.row_reduce
// WIDE: tile.mma_async %{{.*}} ones %{{.*}} into %[[ACC]] : tensor<64x136xf32, #tile.acc>

// Other bounds: of constants 20, 3 and 0.5 and functions of at most 1.
// REDEFINE: %{schedule} =
// REDEFINE: %{score} = %v3 = arith.mulf %v1, %v_cap : f32 %v4 = arith.subf %v3, %v_three : f32 %v2 = arith.divf %v4, %v_half : f32
// RUN: %{source} | %{convert} | FileCheck %s --check-prefix=BOUNDED
// REDEFINE: %{score} = %v3 = math.sin %v0 : f32 %v4 = arith.negf %v3 : f32 %v5 = arith.cmpf olt, %v0, %v1 : f32 %v2 = arith.select %v5, %v4, %v_cap : f32
// RUN: %{source} | %{convert} | FileCheck %s --check-prefix=BOUNDED
// BOUNDED: max=unified
// No maximum takes what is the same in a row, here -3: it stays in the score.
// BOUNDED-NOT: tile.yield %{{.*}}, %{{.*}} : f32, f32

// REDEFINE: %{score} = %v2 = arith.addf %v1, %v0 : f32
// RUN: %{source} | not %{convert} 2>&1 | FileCheck %s --check-prefix=UNBOUNDED
// REDEFINE: %{score} = %v2 = arith.divf %v_cap, %v1 : f32
// RUN: %{source} | not %{convert} 2>&1 | FileCheck %s --check-prefix=UNBOUNDED
// UNBOUNDED: error: schedule: expected a score region whose values have a known bound for max=unified
// REDEFINE: %{score} = %v3 = arith.mulf %v1, %v_cap : f32 %v2 = arith.mulf %v3, %v_three : f32
// RUN: %{source} | not %{convert} 2>&1 | FileCheck %s --check-prefix=LARGE
// LARGE: error: schedule: expected scores of at most 5.545177e+01 for max=unified, got 6.000000e+01
// REDEFINE: %{score} = %v2 = arith.mulf %v1, %v_cap : f32
// REDEFINE: %{type} = f16
// RUN: %{source} | not %{convert} 2>&1 | FileCheck %s --check-prefix=F16
// F16: error: schedule: expected bf16 for max=unified, got 'f16'

// The tensor cores sum what they multiply: weights rounded to 16 bits.
// REDEFINE: %{type} = bf16
// REDEFINE: %{schedule} = ,tensor-sums=false
// RUN: %{source} | not %{convert} 2>&1 | FileCheck %s --check-prefix=SUMS
// RUN: %{source} | sed s/x64x/x128x/g | not %{convert} 2>&1 | FileCheck %s --check-prefix=SUMS
// REDEFINE: %{schedule} =
// RUN: %{source} | sed s/x64x/x96x/g | not %{convert} 2>&1 | FileCheck %s --check-prefix=SUMS
// RUN: not flashc %flashc_src/examples/causal.mlir --schedule=max=unified 2>&1 | FileCheck %s --check-prefix=SUMS
// SUMS: error: schedule: expected tensor-sums for max=unified

func.func @capped(%q: tensor<1x2x300x64xTYPE>, %k: tensor<1x2x300x64xTYPE>, %v: tensor<1x2x300x64xTYPE>) -> tensor<1x2x300x64xTYPE> {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<1x2x300x64xTYPE>, tensor<1x2x300x64xTYPE>, tensor<1x2x300x64xTYPE>) {scale = 0.125 : f32}
      score (%v0: f32, %b: index, %h: index, %i: index, %j: index) {
        %v_cap = arith.constant 20.0 : f32
        %v_three = arith.constant 3.0 : f32
        %v_half = arith.constant 0.5 : f32
        %v1 = math.sin %v0 : f32
        SCORE
        flash.yield %v2 : f32
      }
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi slt, %j, %i : index
        flash.yield %keep : i1
      } -> tensor<1x2x300x64xTYPE>, tensor<1x2x300xf32>
  return %o : tensor<1x2x300x64xTYPE>
}
