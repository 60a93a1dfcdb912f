// Some exponentials on the FMA pipe: P is a tile.exp2, and the maximum sees NaN, which a polynomial does not.
// DEFINE: %{schedule} =
// DEFINE: %{input} = %flashc_src/examples/causal.mlir
// DEFINE: %{convert} = flashc-opt %{input} --flash-online-softmax --flash-tile="q-tile=128 kv-tile=128" --canonicalize --cse \
// DEFINE:   --flash-swap-loops --flash-bound-loops --flash-parallelize --canonicalize --cse \
// DEFINE:   --convert-flash-to-tile=schedule=consumers=2,kv-tile=128,stages=2,%{schedule}
// REDEFINE: %{schedule} = fma-exponentials=4
// RUN: %{convert} | FileCheck %s --check-prefixes=SOME,PLAIN
// REDEFINE: %{input} = %flashc_src/examples/alibi.mlir
// RUN: %{convert} | FileCheck %s --check-prefixes=SOME,SCORE
// REDEFINE: %{input} = %flashc_src/examples/causal.mlir
// REDEFINE: %{schedule} = fma-exponentials=0
// RUN: %{convert} | FileCheck %s --check-prefix=NONE

// SOME: fma-exponentials=4
// SOME: scf.for
// PLAIN: tile.row_reduce maximum %
// SCORE-NOT: tile.row_reduce max_of_bits
// SCORE: tile.row_reduce maximum
// SCORE: tile.combine maximum
// NaN is a new maximum.
// SOME: arith.cmpf ugt, %{{.*}}, %{{.*}} : tensor<64xf32, #tile.row>
// SOME-NOT: math.exp2 %{{.*}} : tensor<64x128xf32, #tile.acc>
// PLAIN: %[[P:.*]] = tile.exp2 %{{.*}}#0, %{{.*}}#1 {factor = {{.*}} : f32, fma = 4 : i64} : tensor<64x128xf32, #tile.acc>, tensor<64xf32, #tile.row>
// SCORE: %[[P:.*]] = tile.exp2 %{{.*}}#0, %{{.*}}#1 {factor = {{.*}} : f32, fma = 4 : i64} : tensor<64x128xf32, #tile.acc>, tensor<64xf32, #tile.row_partial>
// SOME: tile.to_operand_a %[[P]]
// A sum of 0 is that of an empty row, or of a polynomial of inf - inf: the maximum tells.
// SOME: %[[EMPTY:.*]] = arith.cmpf oeq, %{{.*}} : tensor<64xf32, #tile.row>
// SOME: %[[REAL:.*]] = arith.cmpf olt, %{{.*}} : tensor<64xf32, #tile.row>
// SOME: arith.andi %[[EMPTY]], %[[REAL]]

// NONE: tile.row_reduce max %
// NONE: arith.cmpf ogt
// NONE-NOT: tile.exp2
