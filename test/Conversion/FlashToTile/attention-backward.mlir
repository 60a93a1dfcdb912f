// The gradients of attention in the split form: two nests, and so two kernels of one launch. Before them one computes
// delta; after them one for each of dk and dv adds up the heads of groups.
// RUN: flashc-opt %s --convert-flash-to-tile="schedule=split-gradients=queries,kv-tile=64" --canonicalize --cse \
// RUN:   | FileCheck %s

// CHECK:       gpu.func @grads(
// CHECK-SAME:    after = [{{.*}}kernel = "grads_dq"{{.*}}kernel = "grads_dk_groups"{{.*}}kernel = "grads_dv_groups"
// CHECK-SAME:    before = [{{.*}}kernel = "grads_delta"
// CHECK-SAME:    kernel = "grads"
// CHECK:         %[[QRING:.*]] = tile.alloc_ring : <2, 64, 64, bf16>
// CHECK:         %[[KRING:.*]] = tile.alloc_ring : <1, 64, 64, bf16, private true>
// CHECK:         %[[VRING:.*]] = tile.alloc_ring : <1, 64, 64, bf16, private true>
// CHECK:         %[[DORING:.*]] = tile.alloc_ring : <2, 64, 64, bf16>
// What belongs to the queries of a tile: shifts of exponents and deltas.
// CHECK:         %[[STATISTICS:.*]] = tile.alloc_ring : <2, 2, 64, f32>
// CHECK:         tile.program 2
// CHECK:           %[[K:.*]] = tile.load {{.*}} into %[[KRING]]
// CHECK:           %[[V:.*]] = tile.load {{.*}} into %[[VRING]]
// CHECK:           %[[SUMS:.*]]:2 = scf.for {{.*}} iter_args(%[[DK:.*]] = %{{.*}}, %[[DV:.*]] = %{{.*}})
// CHECK:             %[[Q:.*]] = tile.load {{.*}} into %[[QRING]]
// CHECK:             %[[DO:.*]] = tile.load {{.*}} into %[[DORING]]
// CHECK:             %[[NUMBERS:.*]] = tile.load {{.*}} into %[[STATISTICS]]
// CHECK:             %[[S:.*]] = tile.mma_async %[[K]], %[[Q]] transpose_b
// CHECK:             %[[X:.*]] = tile.mma_wait %[[S]] :
// The score's derivative, of the same products; it is held rounded.
// CHECK:             %[[DERIVATIVE:.*]] = tile.map %[[X]]
// CHECK:               %[[T:.*]] = math.tanh
// CHECK:               arith.mulf %[[T]], %[[T]]
// CHECK:             %[[SLOPES:.*]] = tile.to_operand_a %[[DERIVATIVE]]
// CHECK:             %[[SHIFTS:.*]] = tile.read_columns %[[NUMBERS]][0]
// CHECK:             tile.map %[[X]]
// CHECK:               math.tanh
// CHECK:             tile.map {{.*}} rows(%[[SHIFTS]] : tensor<64xf32, #tile.col>)
// CHECK:               math.exp2
// dP begins behind the exponentials, and dv runs beside what follows.
// CHECK:             %[[DP:.*]] = tile.mma_async %[[V]], %[[DO]] transpose_b
// CHECK:             %[[PA:.*]] = tile.to_operand_a
// CHECK:             %[[DVTOKEN:.*]] = tile.mma_async %[[PA]], %[[DO]] into %[[DV]]
// CHECK:             %[[DPTILE:.*]] = tile.mma_wait %[[DP]] {pending = 1 : i64}
// CHECK:             %[[P:.*]] = tile.from_operand_a %[[PA]]
// CHECK:             %[[DELTAS:.*]] = tile.read_columns %[[NUMBERS]][1]
// CHECK:             tile.map %[[DPTILE]] rows(%[[DELTAS]]
// CHECK:               arith.subf
// CHECK:             tile.from_operand_a %[[SLOPES]]
// CHECK:             arith.cmpf oeq, %[[P]]
// CHECK:             %[[DXA:.*]] = tile.to_operand_a
// CHECK:             %[[DKTOKEN:.*]] = tile.mma_async %[[DXA]], %[[Q]] into %[[DK]]
// CHECK:             tile.mma_wait %[[DVTOKEN]] {pending = 1 : i64}
// CHECK:             tile.mma_wait %[[DKTOKEN]] :
// dk and dv of each query head go to the workspace, dk with the scale.
// CHECK:           %[[SCALED:.*]] = arith.mulf %[[SUMS]]#0
// CHECK:           tile.store %[[SCALED]]
// CHECK:           tile.store %[[SUMS]]#1

// CHECK:       gpu.func @grads_dq(
// CHECK:         tile.program 2
// CHECK:           %[[Q:.*]] = tile.load
// CHECK:           %[[DO:.*]] = tile.load
// The log-sum-exp and delta of each row.
// CHECK:           %[[LSE:.*]] = tile.rows
// CHECK:           %[[DELTA:.*]] = tile.rows
// CHECK:           scf.for {{.*}} iter_args(%[[DQ:.*]] = %{{.*}})
// CHECK:             %[[K:.*]] = tile.load
// CHECK:             %[[V:.*]] = tile.load
// CHECK:             %[[S:.*]] = tile.mma_async %[[Q]], %[[K]] transpose_b
// CHECK:             %[[DP:.*]] = tile.mma_async %[[DO]], %[[V]] transpose_b
// CHECK:             tile.mma_wait %[[S]] {pending = 1 : i64}
// CHECK:             tile.map {{.*}} rows(%[[LSE]]
// CHECK:             tile.mma_wait %[[DP]] :
// CHECK:             tile.map {{.*}} rows(%[[DELTA]]
// CHECK:             tile.mma_async %{{.*}}, %[[K]] into %[[DQ]]
// CHECK:           tile.store {{.*}} memref<2x4x?x64xbf16

// CHECK:       gpu.func @grads_delta(
// A shift of -inf where there is no query, or one that sees nothing.
// CHECK:         vector.load
// CHECK:         vector.load
// CHECK:           math.fma
// CHECK:         nvvm.shfl.sync
// CHECK:         arith.cmpf oeq
// CHECK:         arith.mulf
// CHECK:         arith.select
// CHECK:         arith.subf
// CHECK:         memref.store {{.*}} memref<2x2x4x?xf32
// CHECK:         memref.store {{.*}} memref<2x2x4x?xf32

// CHECK:       gpu.func @grads_dk_groups(
// CHECK:         arith.truncf {{.*}} : vector<8xf32> to vector<8xbf16>
// CHECK:         vector.store {{.*}} : memref<2x2x?x64xbf16
// CHECK:       gpu.func @grads_dv_groups(

#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map2 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
#map3 = affine_map<(d0)[s0] -> (-d0 + s0, 128)>
#map4 = affine_map<(d0) -> (-d0 + 128)>
#map5 = affine_map<(d0) -> (d0 floordiv 2)>
#map6 = affine_map<()[s0] -> ((s0 ceildiv 64) * 64)>
#map7 = affine_map<()[s0] -> ((s0 floordiv 64) * 64, (s0 ceildiv 64) * 64)>
#map8 = affine_map<()[s0] -> (0, s0)>
#map9 = affine_map<(d0)[s0] -> (-d0 + s0, 64)>
#map10 = affine_map<(d0) -> (-d0 + 64)>
#map11 = affine_map<()[s0] -> ((s0 ceildiv 64) * 64, 0)>
#map12 = affine_map<()[s0, s1] -> ((s1 floordiv 64) * 64, s0)>
#map13 = affine_map<(d0, d1, d2, d3) -> (d0, d1 floordiv 2, d2, d3)>
module {
  func.func @grads(%arg0: tensor<2x4x?x64xbf16>, %arg1: tensor<2x2x?x64xbf16>, %arg2: tensor<2x2x?x64xbf16>, %arg3: tensor<2x4x?x64xbf16>, %arg4: tensor<2x4x?xf32>, %arg5: tensor<2x4x?x64xbf16>, %arg6: tensor<2x4x?xf32>) -> (tensor<2x4x?x64xbf16>, tensor<2x2x?x64xbf16>, tensor<2x2x?x64xbf16>) {
    %cst = arith.constant 1.000000e+00 : f32
    %cst_0 = arith.constant 0.000000e+00 : bf16
    %c64 = arith.constant 64 : index
    %c0 = arith.constant 0 : index
    %cst_1 = arith.constant 0.000000e+00 : f32
    %c2 = arith.constant 2 : index
    %dim = tensor.dim %arg3, %c2 : tensor<2x4x?x64xbf16>
    %0 = tensor.empty(%dim) : tensor<2x4x?xf32>
    %1 = linalg.fill ins(%cst_1 : f32) outs(%0 : tensor<2x4x?xf32>) -> tensor<2x4x?xf32>
    %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg6 : tensor<2x4x?xf32>) outs(%1 : tensor<2x4x?xf32>) {
    ^bb0(%in: f32, %out: f32):
      %17 = arith.subf %out, %in : f32
      linalg.yield %17 : f32
    } -> tensor<2x4x?xf32>
    %3 = linalg.generic {indexing_maps = [#map1, #map1, #map2], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%arg3, %arg5 : tensor<2x4x?x64xbf16>, tensor<2x4x?x64xbf16>) outs(%2 : tensor<2x4x?xf32>) {
    ^bb0(%in: bf16, %in_4: bf16, %out: f32):
      %17 = arith.extf %in : bf16 to f32
      %18 = arith.extf %in_4 : bf16 to f32
      %19 = arith.mulf %17, %18 : f32
      %20 = arith.addf %out, %19 : f32
      linalg.yield %20 : f32
    } -> tensor<2x4x?xf32>
    %dim_2 = tensor.dim %arg0, %c2 : tensor<2x4x?x64xbf16>
    %dim_3 = tensor.dim %arg1, %c2 : tensor<2x2x?x64xbf16>
    %4 = tensor.empty(%dim_3) : tensor<2x4x?x64xf32>
    %5:2 = scf.forall (%arg7, %arg8, %arg9) = (0, 0, 0) to (2, 4, %dim_3) step (1, 1, 128) shared_outs(%arg10 = %4, %arg11 = %4) -> (tensor<2x4x?x64xf32>, tensor<2x4x?x64xf32>) {
      %17 = affine.min #map3(%arg9)[%dim_3]
      %18 = affine.apply #map4(%17)
      %19 = affine.apply #map5(%arg8)
      %extracted_slice = tensor.extract_slice %arg1[%arg7, %19, %arg9, 0] [1, 1, %17, 64] [1, 1, 1, 1] : tensor<2x2x?x64xbf16> to tensor<1x1x?x64xbf16>
      %padded = tensor.pad %extracted_slice low[0, 0, 0, 0] high[0, 0, %18, 0] {
      ^bb0(%arg12: index, %arg13: index, %arg14: index, %arg15: index):
        tensor.yield %cst_0 : bf16
      } : tensor<1x1x?x64xbf16> to tensor<1x1x128x64xbf16>
      %extracted_slice_4 = tensor.extract_slice %arg2[%arg7, %19, %arg9, 0] [1, 1, %17, 64] [1, 1, 1, 1] : tensor<2x2x?x64xbf16> to tensor<1x1x?x64xbf16>
      %padded_5 = tensor.pad %extracted_slice_4 low[0, 0, 0, 0] high[0, 0, %18, 0] {
      ^bb0(%arg12: index, %arg13: index, %arg14: index, %arg15: index):
        tensor.yield %cst_0 : bf16
      } : tensor<1x1x?x64xbf16> to tensor<1x1x128x64xbf16>
      %20 = tensor.empty() : tensor<1x1x128x64xf32>
      %21 = linalg.fill ins(%cst_1 : f32) outs(%20 : tensor<1x1x128x64xf32>) -> tensor<1x1x128x64xf32>
      %22 = affine.apply #map6()[%dim_2]
      %23 = affine.min #map7()[%dim_2]
      %24 = affine.max #map8()[%23]
      %25:2 = scf.for %arg12 = %c0 to %24 step %c64 iter_args(%arg13 = %21, %arg14 = %21) -> (tensor<1x1x128x64xf32>, tensor<1x1x128x64xf32>) {
        %extracted_slice_8 = tensor.extract_slice %arg0[%arg7, %arg8, %arg12, 0] [1, 1, 64, 64] [1, 1, 1, 1] : tensor<2x4x?x64xbf16> to tensor<1x1x64x64xbf16>
        %extracted_slice_9 = tensor.extract_slice %arg5[%arg7, %arg8, %arg12, 0] [1, 1, 64, 64] [1, 1, 1, 1] : tensor<2x4x?x64xbf16> to tensor<1x1x64x64xbf16>
        %extracted_slice_10 = tensor.extract_slice %arg4[%arg7, %arg8, %arg12] [1, 1, 64] [1, 1, 1] : tensor<2x4x?xf32> to tensor<1x1x64xf32>
        %extracted_slice_11 = tensor.extract_slice %3[%arg7, %arg8, %arg12] [1, 1, 64] [1, 1, 1] : tensor<2x4x?xf32> to tensor<1x1x64xf32>
        %27:2 = flash.accumulate_gradients ins(%extracted_slice_8, %padded, %padded_5, %extracted_slice_9, %extracted_slice_10, %extracted_slice_11 : tensor<1x1x64x64xbf16>, tensor<1x1x128x64xbf16>, tensor<1x1x128x64xbf16>, tensor<1x1x64x64xbf16>, tensor<1x1x64xf32>, tensor<1x1x64xf32>) outs(%arg13, %arg14 : tensor<1x1x128x64xf32>, tensor<1x1x128x64xf32>) at(%arg7, %arg8, %arg12, %arg9) {gradients = #flash.gradients<dk, dv>, scale = 1.250000e-01 : f32} score (%arg15: f32, %arg16: index, %arg17: index, %arg18: index, %arg19: index) {
          %28 = math.tanh %arg15 : f32
          flash.yield %28 : f32
        } derivative (%arg15: f32, %arg16: index, %arg17: index, %arg18: index, %arg19: index) {
          %28 = math.tanh %arg15 : f32
          %29 = arith.mulf %28, %28 : f32
          %30 = arith.subf %cst, %29 : f32
          flash.yield %30 : f32
        } -> tensor<1x1x128x64xf32>, tensor<1x1x128x64xf32>
        scf.yield %27#0, %27#1 : tensor<1x1x128x64xf32>, tensor<1x1x128x64xf32>
      }
      %26:2 = scf.for %arg12 = %24 to %22 step %c64 iter_args(%arg13 = %25#0, %arg14 = %25#1) -> (tensor<1x1x128x64xf32>, tensor<1x1x128x64xf32>) {
        %27 = affine.min #map9(%arg12)[%dim_2]
        %extracted_slice_8 = tensor.extract_slice %arg0[%arg7, %arg8, %arg12, 0] [1, 1, %27, 64] [1, 1, 1, 1] : tensor<2x4x?x64xbf16> to tensor<1x1x?x64xbf16>
        %28 = affine.apply #map10(%27)
        %padded_9 = tensor.pad %extracted_slice_8 low[0, 0, 0, 0] high[0, 0, %28, 0] {
        ^bb0(%arg15: index, %arg16: index, %arg17: index, %arg18: index):
          tensor.yield %cst_0 : bf16
        } : tensor<1x1x?x64xbf16> to tensor<1x1x64x64xbf16>
        %extracted_slice_10 = tensor.extract_slice %arg5[%arg7, %arg8, %arg12, 0] [1, 1, %27, 64] [1, 1, 1, 1] : tensor<2x4x?x64xbf16> to tensor<1x1x?x64xbf16>
        %padded_11 = tensor.pad %extracted_slice_10 low[0, 0, 0, 0] high[0, 0, %28, 0] {
        ^bb0(%arg15: index, %arg16: index, %arg17: index, %arg18: index):
          tensor.yield %cst_0 : bf16
        } : tensor<1x1x?x64xbf16> to tensor<1x1x64x64xbf16>
        %extracted_slice_12 = tensor.extract_slice %arg4[%arg7, %arg8, %arg12] [1, 1, %27] [1, 1, 1] : tensor<2x4x?xf32> to tensor<1x1x?xf32>
        %padded_13 = tensor.pad %extracted_slice_12 low[0, 0, 0] high[0, 0, %28] {
        ^bb0(%arg15: index, %arg16: index, %arg17: index):
          tensor.yield %cst_1 : f32
        } : tensor<1x1x?xf32> to tensor<1x1x64xf32>
        %extracted_slice_14 = tensor.extract_slice %3[%arg7, %arg8, %arg12] [1, 1, %27] [1, 1, 1] : tensor<2x4x?xf32> to tensor<1x1x?xf32>
        %padded_15 = tensor.pad %extracted_slice_14 low[0, 0, 0] high[0, 0, %28] {
        ^bb0(%arg15: index, %arg16: index, %arg17: index):
          tensor.yield %cst_1 : f32
        } : tensor<1x1x?xf32> to tensor<1x1x64xf32>
        %29:2 = flash.accumulate_gradients ins(%padded_9, %padded, %padded_5, %padded_11, %padded_13, %padded_15 : tensor<1x1x64x64xbf16>, tensor<1x1x128x64xbf16>, tensor<1x1x128x64xbf16>, tensor<1x1x64x64xbf16>, tensor<1x1x64xf32>, tensor<1x1x64xf32>) outs(%arg13, %arg14 : tensor<1x1x128x64xf32>, tensor<1x1x128x64xf32>) at(%arg7, %arg8, %arg12, %arg9) {gradients = #flash.gradients<dk, dv>, scale = 1.250000e-01 : f32} score (%arg15: f32, %arg16: index, %arg17: index, %arg18: index, %arg19: index) {
          %30 = math.tanh %arg15 : f32
          flash.yield %30 : f32
        } mask (%arg15: index, %arg16: index, %arg17: index, %arg18: index) {
          %30 = arith.cmpi slt, %arg17, %dim_2 : index
          flash.yield %30 : i1
        } derivative (%arg15: f32, %arg16: index, %arg17: index, %arg18: index, %arg19: index) {
          %30 = math.tanh %arg15 : f32
          %31 = arith.mulf %30, %30 : f32
          %32 = arith.subf %cst, %31 : f32
          flash.yield %32 : f32
        } -> tensor<1x1x128x64xf32>, tensor<1x1x128x64xf32>
        scf.yield %29#0, %29#1 : tensor<1x1x128x64xf32>, tensor<1x1x128x64xf32>
      }
      %extracted_slice_6 = tensor.extract_slice %26#0[0, 0, 0, 0] [1, 1, %17, 64] [1, 1, 1, 1] : tensor<1x1x128x64xf32> to tensor<1x1x?x64xf32>
      %extracted_slice_7 = tensor.extract_slice %26#1[0, 0, 0, 0] [1, 1, %17, 64] [1, 1, 1, 1] : tensor<1x1x128x64xf32> to tensor<1x1x?x64xf32>
      scf.forall.in_parallel {
        tensor.parallel_insert_slice %extracted_slice_6 into %arg10[%arg7, %arg8, %arg9, 0] [1, 1, %17, 64] [1, 1, 1, 1] : tensor<1x1x?x64xf32> into tensor<2x4x?x64xf32>
        tensor.parallel_insert_slice %extracted_slice_7 into %arg11[%arg7, %arg8, %arg9, 0] [1, 1, %17, 64] [1, 1, 1, 1] : tensor<1x1x?x64xf32> into tensor<2x4x?x64xf32>
      }
    }
    %6 = tensor.empty(%dim_2) : tensor<2x4x?x64xf32>
    %7 = scf.forall (%arg7, %arg8, %arg9) = (0, 0, 0) to (2, 4, %dim_2) step (1, 1, 128) shared_outs(%arg10 = %6) -> (tensor<2x4x?x64xf32>) {
      %17 = affine.min #map3(%arg9)[%dim_2]
      %18 = affine.apply #map4(%17)
      %19 = affine.apply #map5(%arg8)
      %extracted_slice = tensor.extract_slice %arg0[%arg7, %arg8, %arg9, 0] [1, 1, %17, 64] [1, 1, 1, 1] : tensor<2x4x?x64xbf16> to tensor<1x1x?x64xbf16>
      %padded = tensor.pad %extracted_slice low[0, 0, 0, 0] high[0, 0, %18, 0] {
      ^bb0(%arg11: index, %arg12: index, %arg13: index, %arg14: index):
        tensor.yield %cst_0 : bf16
      } : tensor<1x1x?x64xbf16> to tensor<1x1x128x64xbf16>
      %extracted_slice_4 = tensor.extract_slice %arg5[%arg7, %arg8, %arg9, 0] [1, 1, %17, 64] [1, 1, 1, 1] : tensor<2x4x?x64xbf16> to tensor<1x1x?x64xbf16>
      %padded_5 = tensor.pad %extracted_slice_4 low[0, 0, 0, 0] high[0, 0, %18, 0] {
      ^bb0(%arg11: index, %arg12: index, %arg13: index, %arg14: index):
        tensor.yield %cst_0 : bf16
      } : tensor<1x1x?x64xbf16> to tensor<1x1x128x64xbf16>
      %extracted_slice_6 = tensor.extract_slice %arg4[%arg7, %arg8, %arg9] [1, 1, %17] [1, 1, 1] : tensor<2x4x?xf32> to tensor<1x1x?xf32>
      %padded_7 = tensor.pad %extracted_slice_6 low[0, 0, 0] high[0, 0, %18] {
      ^bb0(%arg11: index, %arg12: index, %arg13: index):
        tensor.yield %cst_1 : f32
      } : tensor<1x1x?xf32> to tensor<1x1x128xf32>
      %extracted_slice_8 = tensor.extract_slice %3[%arg7, %arg8, %arg9] [1, 1, %17] [1, 1, 1] : tensor<2x4x?xf32> to tensor<1x1x?xf32>
      %padded_9 = tensor.pad %extracted_slice_8 low[0, 0, 0] high[0, 0, %18] {
      ^bb0(%arg11: index, %arg12: index, %arg13: index):
        tensor.yield %cst_1 : f32
      } : tensor<1x1x?xf32> to tensor<1x1x128xf32>
      %20 = tensor.empty() : tensor<1x1x128x64xf32>
      %21 = linalg.fill ins(%cst_1 : f32) outs(%20 : tensor<1x1x128x64xf32>) -> tensor<1x1x128x64xf32>
      %22 = affine.max #map11()[%dim_3]
      %23 = affine.min #map12()[%22, %dim_3]
      %24 = affine.max #map8()[%23]
      %25 = scf.for %arg11 = %c0 to %24 step %c64 iter_args(%arg12 = %21) -> (tensor<1x1x128x64xf32>) {
        %extracted_slice_11 = tensor.extract_slice %arg1[%arg7, %19, %arg11, 0] [1, 1, 64, 64] [1, 1, 1, 1] : tensor<2x2x?x64xbf16> to tensor<1x1x64x64xbf16>
        %extracted_slice_12 = tensor.extract_slice %arg2[%arg7, %19, %arg11, 0] [1, 1, 64, 64] [1, 1, 1, 1] : tensor<2x2x?x64xbf16> to tensor<1x1x64x64xbf16>
        %27 = flash.accumulate_gradients ins(%padded, %extracted_slice_11, %extracted_slice_12, %padded_5, %padded_7, %padded_9 : tensor<1x1x128x64xbf16>, tensor<1x1x64x64xbf16>, tensor<1x1x64x64xbf16>, tensor<1x1x128x64xbf16>, tensor<1x1x128xf32>, tensor<1x1x128xf32>) outs(%arg12 : tensor<1x1x128x64xf32>) at(%arg7, %arg8, %arg9, %arg11) {gradients = #flash.gradients<dq>, scale = 1.250000e-01 : f32} score (%arg13: f32, %arg14: index, %arg15: index, %arg16: index, %arg17: index) {
          %28 = math.tanh %arg13 : f32
          flash.yield %28 : f32
        } derivative (%arg13: f32, %arg14: index, %arg15: index, %arg16: index, %arg17: index) {
          %28 = math.tanh %arg13 : f32
          %29 = arith.mulf %28, %28 : f32
          %30 = arith.subf %cst, %29 : f32
          flash.yield %30 : f32
        } -> tensor<1x1x128x64xf32>
        scf.yield %27 : tensor<1x1x128x64xf32>
      }
      %26 = scf.for %arg11 = %24 to %22 step %c64 iter_args(%arg12 = %25) -> (tensor<1x1x128x64xf32>) {
        %27 = affine.min #map9(%arg11)[%dim_3]
        %extracted_slice_11 = tensor.extract_slice %arg1[%arg7, %19, %arg11, 0] [1, 1, %27, 64] [1, 1, 1, 1] : tensor<2x2x?x64xbf16> to tensor<1x1x?x64xbf16>
        %28 = affine.apply #map10(%27)
        %padded_12 = tensor.pad %extracted_slice_11 low[0, 0, 0, 0] high[0, 0, %28, 0] {
        ^bb0(%arg13: index, %arg14: index, %arg15: index, %arg16: index):
          tensor.yield %cst_0 : bf16
        } : tensor<1x1x?x64xbf16> to tensor<1x1x64x64xbf16>
        %extracted_slice_13 = tensor.extract_slice %arg2[%arg7, %19, %arg11, 0] [1, 1, %27, 64] [1, 1, 1, 1] : tensor<2x2x?x64xbf16> to tensor<1x1x?x64xbf16>
        %padded_14 = tensor.pad %extracted_slice_13 low[0, 0, 0, 0] high[0, 0, %28, 0] {
        ^bb0(%arg13: index, %arg14: index, %arg15: index, %arg16: index):
          tensor.yield %cst_0 : bf16
        } : tensor<1x1x?x64xbf16> to tensor<1x1x64x64xbf16>
        %29 = flash.accumulate_gradients ins(%padded, %padded_12, %padded_14, %padded_5, %padded_7, %padded_9 : tensor<1x1x128x64xbf16>, tensor<1x1x64x64xbf16>, tensor<1x1x64x64xbf16>, tensor<1x1x128x64xbf16>, tensor<1x1x128xf32>, tensor<1x1x128xf32>) outs(%arg12 : tensor<1x1x128x64xf32>) at(%arg7, %arg8, %arg9, %arg11) {gradients = #flash.gradients<dq>, scale = 1.250000e-01 : f32} score (%arg13: f32, %arg14: index, %arg15: index, %arg16: index, %arg17: index) {
          %30 = math.tanh %arg13 : f32
          flash.yield %30 : f32
        } mask (%arg13: index, %arg14: index, %arg15: index, %arg16: index) {
          %30 = arith.cmpi slt, %arg16, %dim_3 : index
          flash.yield %30 : i1
        } derivative (%arg13: f32, %arg14: index, %arg15: index, %arg16: index, %arg17: index) {
          %30 = math.tanh %arg13 : f32
          %31 = arith.mulf %30, %30 : f32
          %32 = arith.subf %cst, %31 : f32
          flash.yield %32 : f32
        } -> tensor<1x1x128x64xf32>
        scf.yield %29 : tensor<1x1x128x64xf32>
      }
      %extracted_slice_10 = tensor.extract_slice %26[0, 0, 0, 0] [1, 1, %17, 64] [1, 1, 1, 1] : tensor<1x1x128x64xf32> to tensor<1x1x?x64xf32>
      scf.forall.in_parallel {
        tensor.parallel_insert_slice %extracted_slice_10 into %arg10[%arg7, %arg8, %arg9, 0] [1, 1, %17, 64] [1, 1, 1, 1] : tensor<1x1x?x64xf32> into tensor<2x4x?x64xf32>
      }
    }
    %8 = tensor.empty(%dim_3) : tensor<2x2x?x64xf32>
    %9 = linalg.fill ins(%cst_1 : f32) outs(%8 : tensor<2x2x?x64xf32>) -> tensor<2x2x?x64xf32>
    %10 = linalg.generic {indexing_maps = [#map1, #map13], iterator_types = ["parallel", "reduction", "parallel", "parallel"]} ins(%5#0 : tensor<2x4x?x64xf32>) outs(%9 : tensor<2x2x?x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      %17 = arith.addf %out, %in : f32
      linalg.yield %17 : f32
    } -> tensor<2x2x?x64xf32>
    %11 = linalg.generic {indexing_maps = [#map1, #map13], iterator_types = ["parallel", "reduction", "parallel", "parallel"]} ins(%5#1 : tensor<2x4x?x64xf32>) outs(%9 : tensor<2x2x?x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      %17 = arith.addf %out, %in : f32
      linalg.yield %17 : f32
    } -> tensor<2x2x?x64xf32>
    %12 = tensor.empty(%dim_2) : tensor<2x4x?x64xbf16>
    %13 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%7 : tensor<2x4x?x64xf32>) outs(%12 : tensor<2x4x?x64xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %17 = arith.truncf %in : f32 to bf16
      linalg.yield %17 : bf16
    } -> tensor<2x4x?x64xbf16>
    %14 = tensor.empty(%dim_3) : tensor<2x2x?x64xbf16>
    %15 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%10 : tensor<2x2x?x64xf32>) outs(%14 : tensor<2x2x?x64xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %17 = arith.truncf %in : f32 to bf16
      linalg.yield %17 : bf16
    } -> tensor<2x2x?x64xbf16>
    %16 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%11 : tensor<2x2x?x64xf32>) outs(%14 : tensor<2x2x?x64xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %17 = arith.truncf %in : f32 to bf16
      linalg.yield %17 : bf16
    } -> tensor<2x2x?x64xbf16>
    return %13, %15, %16 : tensor<2x4x?x64xbf16>, tensor<2x2x?x64xbf16>, tensor<2x2x?x64xbf16>
  }
}

