// The weights of keys: queries are streamed past a resident tile of keys. Those of a group's heads are added up by a
// kernel after the main one, out of the workspace.
// RUN: flashc-opt %s --convert-flash-to-tile=schedule=consumers=3,kv-tile=128,stages=2,persistent=false --canonicalize --cse | FileCheck %s

// CHECK:       gpu.func @sums(%[[QMAP:[^:]*]]: !tile.tensor_map<128 x bf16>, %[[KMAP:[^:]*]]: !tile.tensor_map<64 x bf16>, %[[NK:[^:]*]]: index, %[[NQ:[^:]*]]: index, %[[ROWS:[^:]*]]: index, %[[LSE:[^:]*]]: memref<2x4x?xf32, strided<[?, ?, 1]>>, %[[PARTIAL:[^:]*]]: memref<?xf32>)
// CHECK-SAME:    after = [{block = [256, 1, 1], {{.*}}grid = ["mul(mul(ceildiv(arg1.dim2, 256), ceildiv(4, 2)), 2)", "1", "1"], kernel = "sums_groups"
// CHECK-SAME:    grid = ["ceildiv(arg1.dim2, 192)", "4", "2"]
// CHECK-SAME:    workspace = "mul64(16, ceildiv(mul64(mul64(2, 4), arg1.dim2), 4))"
// CHECK-DAG:     %[[NONE:.*]] = arith.constant 0xFF800000 : f32
// CHECK-DAG:     %[[FACTOR:.*]] = arith.constant 0.180336878 : f32
// CHECK-DAG:     %[[LOG2E:.*]] = arith.constant -1.44269502 : f32
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<64xf32, #tile.lane_partial>
// CHECK:         %[[QRING:.*]] = tile.alloc_ring : <2, 128, 64, bf16>
// CHECK:         %[[KRING:.*]] = tile.alloc_ring : <1, 64, 64, bf16, private true>
// CHECK:         tile.program 3
// CHECK:           %[[K:.*]] = tile.load %[[KMAP]][%[[B:.*]], %{{.*}}, %[[ROW:.*]]] into %[[KRING]]
// CHECK:           %[[SUMS:.*]] = scf.for %{{.*}} iter_args(%[[C:.*]] = %[[ZERO]])
// CHECK:             %[[Q:.*]] = tile.load %[[QMAP]][%[[B]], %[[H:.*]], %[[QUERY:.*]]] into %[[QRING]]
// S^T = K Q^T.
// CHECK:             %[[TOKEN:.*]] = tile.mma_async %[[K]], %[[Q]] transpose_b
// CHECK:             %[[S:.*]] = tile.mma_wait %[[TOKEN]]
// CHECK:             %[[MASKED:.*]] = tile.outside
// The log-sum-exp of each column; that of the last query in place of those that do not exist.
// CHECK:             %[[P:.*]] = tile.map %[[S]] at(%[[ROW]], %[[QUERY]])
// CHECK:               %[[LAST:.*]] = arith.subi %[[ROWS]], %c1
// CHECK:               %[[CLAMPED:.*]] = arith.minsi %[[COLUMN:.*]], %[[LAST]]
// CHECK:               %[[PLACE:.*]] = arith.select %[[MASKED]], %[[CLAMPED]], %[[COLUMN]]
// CHECK:               %[[SUM:.*]] = memref.load %[[LSE]][%[[B]], %[[H]], %[[PLACE]]]
// CHECK:               %[[EMPTY:.*]] = arith.cmpf oeq, %[[SUM]], %[[NONE]]
// CHECK:               %[[SCALED:.*]] = arith.mulf %[[SUM]], %[[LOG2E]]
// CHECK:               %[[SHIFT:.*]] = arith.select %[[EMPTY]], %[[NONE]], %[[SCALED]]
// CHECK:               %[[EXPONENT:.*]] = math.fma %{{.*}}, %[[FACTOR]], %[[SHIFT]]
// CHECK:               math.exp2 %[[EXPONENT]]
// CHECK:             scf.if %[[MASKED]]
// CHECK:               %[[CAUSAL:.*]] = arith.cmpi sle, %{{.*}}, %[[I:.*]] : index
// CHECK:               %[[EXISTS:.*]] = arith.cmpi slt, %[[I]], %[[NQ]]
// CHECK:             %[[MORE:.*]] = tile.row_reduce sum
// CHECK:             arith.addf %[[C]], %[[MORE]]
// CHECK:           %[[WHOLE:.*]] = tile.combine %[[SUMS]]
// CHECK:           %[[VIEW:.*]] = memref.reinterpret_cast %[[PARTIAL]] to offset: [0], sizes: [2, 4, %[[NK]]]
// CHECK:           %[[DEST:.*]] = memref.cast %[[VIEW]]
// CHECK:           tile.store %[[WHOLE]], %[[DEST]][%[[B]], %[[H]], %[[ROW]]] limit %[[NK]]

// CHECK:       gpu.func @sums_groups(%[[COLUMNS:[^:]*]]: index, %[[INPUT:[^:]*]]: memref<?xf32>, %[[OUT:[^:]*]]: memref<2x2x?xf32, strided<[?, ?, 1]>>) kernel attributes {flashc.threads = 256 : i32}
// CHECK:         %[[FROM:.*]] = memref.reinterpret_cast %[[INPUT]]
// CHECK:         scf.if
// CHECK:           %[[ADDED:.*]] = scf.for %[[G:[^ ]*]] = %c0 to %c2
// CHECK:             %[[FIRST:.*]] = arith.muli %[[HEAD:[^ ]*]], %c2
// CHECK:             %[[MEMBER:.*]] = arith.addi %[[FIRST]], %[[G]]
// CHECK:             memref.load %[[FROM]][%[[BATCH:[^ ]*]], %[[MEMBER]], %[[POSITION:.*]]] :
// CHECK:           memref.store %[[ADDED]], %[[OUT]][%[[BATCH]], %[[HEAD]], %[[POSITION]]]
#map = affine_map<(d0)[s0] -> (-d0 + s0, 192)>
#map1 = affine_map<(d0) -> (-d0 + 192)>
#map2 = affine_map<(d0) -> (d0 floordiv 2)>
#map3 = affine_map<()[s0] -> (0, (s0 floordiv 128) * 128)>
#map4 = affine_map<(d0)[s0] -> (d0, (s0 ceildiv 128) * 128)>
#map5 = affine_map<(d0)[s0] -> ((s0 ceildiv 128) * 128, d0)>
#map6 = affine_map<()[s0, s1] -> (-s0 + s1 - 1)>
#map7 = affine_map<(d0)[s0, s1] -> (((s0 + s1 - 1) ceildiv 128) * 128, d0)>
#map8 = affine_map<(d0, d1) -> (d1, d0)>
#map9 = affine_map<(d0)[s0] -> ((s0 floordiv 128) * 128, d0)>
#map10 = affine_map<(d0)[s0] -> (-d0 + s0, 128)>
#map11 = affine_map<(d0) -> (-d0 + 128)>
#map12 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map13 = affine_map<(d0, d1, d2) -> (d0, d1 floordiv 2, d2)>
module {
  func.func @sums(%arg0: tensor<2x4x?x64xbf16>, %arg1: tensor<2x2x?x64xbf16>, %arg2: tensor<2x4x?xf32>) -> tensor<2x2x?xf32> {
    %cst = arith.constant 0.000000e+00 : bf16
    %c128 = arith.constant 128 : index
    %c0 = arith.constant 0 : index
    %cst_0 = arith.constant 0.000000e+00 : f32
    %c2 = arith.constant 2 : index
    %dim = tensor.dim %arg1, %c2 : tensor<2x2x?x64xbf16>
    %dim_1 = tensor.dim %arg0, %c2 : tensor<2x4x?x64xbf16>
    %0 = tensor.empty(%dim) : tensor<2x4x?xf32>
    %1 = scf.forall (%arg3, %arg4, %arg5) = (0, 0, 0) to (2, 4, %dim) step (1, 1, 192) shared_outs(%arg6 = %0) -> (tensor<2x4x?xf32>) {
      %5 = affine.min #map(%arg5)[%dim]
      %6 = affine.apply #map1(%5)
      %7 = affine.apply #map2(%arg4)
      %extracted_slice = tensor.extract_slice %arg1[%arg3, %7, %arg5, 0] [1, 1, %5, 64] [1, 1, 1, 1] : tensor<2x2x?x64xbf16> to tensor<1x1x?x64xbf16>
      %padded = tensor.pad %extracted_slice low[0, 0, 0, 0] high[0, 0, %6, 0] {
      ^bb0(%arg7: index, %arg8: index, %arg9: index, %arg10: index):
        tensor.yield %cst : bf16
      } : tensor<1x1x?x64xbf16> to tensor<1x1x192x64xbf16>
      %8 = tensor.empty() : tensor<1x1x192xf32>
      %9 = linalg.fill ins(%cst_0 : f32) outs(%8 : tensor<1x1x192xf32>) -> tensor<1x1x192xf32>
      %10 = affine.max #map3()[%arg5]
      %11 = affine.min #map4(%10)[%dim_1]
      %12 = affine.max #map5(%11)[%dim_1]
      %13 = affine.apply #map6()[%arg5, %dim_1]
      %14 = arith.cmpi sge, %13, %c0 : index
      %15 = arith.select %14, %12, %11 : index
      %16 = affine.max #map7(%11)[%arg5, %5]
      %17 = affine.min #map8(%16, %15)
      %18 = affine.min #map9(%15)[%dim_1]
      %19 = affine.max #map8(%18, %17)
      %20 = scf.for %arg7 = %11 to %17 step %c128 iter_args(%arg8 = %9) -> (tensor<1x1x192xf32>) {
        %23 = affine.min #map10(%arg7)[%dim_1]
        %extracted_slice_3 = tensor.extract_slice %arg0[%arg3, %arg4, %arg7, 0] [1, 1, %23, 64] [1, 1, 1, 1] : tensor<2x4x?x64xbf16> to tensor<1x1x?x64xbf16>
        %24 = affine.apply #map11(%23)
        %padded_4 = tensor.pad %extracted_slice_3 low[0, 0, 0, 0] high[0, 0, %24, 0] {
        ^bb0(%arg9: index, %arg10: index, %arg11: index, %arg12: index):
          tensor.yield %cst : bf16
        } : tensor<1x1x?x64xbf16> to tensor<1x1x128x64xbf16>
        %extracted_slice_5 = tensor.extract_slice %arg2[%arg3, %arg4, %arg7] [1, 1, %23] [1, 1, 1] : tensor<2x4x?xf32> to tensor<1x1x?xf32>
        %padded_6 = tensor.pad %extracted_slice_5 low[0, 0, 0] high[0, 0, %24] {
        ^bb0(%arg9: index, %arg10: index, %arg11: index):
          tensor.yield %cst_0 : f32
        } : tensor<1x1x?xf32> to tensor<1x1x128xf32>
        %25 = flash.accumulate_column_sums ins(%padded_4, %padded, %padded_6 : tensor<1x1x128x64xbf16>, tensor<1x1x192x64xbf16>, tensor<1x1x128xf32>) outs(%arg8 : tensor<1x1x192xf32>) at(%arg3, %arg4, %arg7, %arg5) {scale = 1.250000e-01 : f32} mask (%arg9: index, %arg10: index, %arg11: index, %arg12: index) {
          %26 = arith.cmpi sle, %arg12, %arg11 : index
          %27 = arith.cmpi slt, %arg11, %dim_1 : index
          %28 = arith.andi %26, %27 : i1
          flash.yield %28 : i1
        } -> tensor<1x1x192xf32>
        scf.yield %25 : tensor<1x1x192xf32>
      }
      %21 = scf.for %arg7 = %17 to %19 step %c128 iter_args(%arg8 = %20) -> (tensor<1x1x192xf32>) {
        %extracted_slice_3 = tensor.extract_slice %arg0[%arg3, %arg4, %arg7, 0] [1, 1, 128, 64] [1, 1, 1, 1] : tensor<2x4x?x64xbf16> to tensor<1x1x128x64xbf16>
        %extracted_slice_4 = tensor.extract_slice %arg2[%arg3, %arg4, %arg7] [1, 1, 128] [1, 1, 1] : tensor<2x4x?xf32> to tensor<1x1x128xf32>
        %23 = flash.accumulate_column_sums ins(%extracted_slice_3, %padded, %extracted_slice_4 : tensor<1x1x128x64xbf16>, tensor<1x1x192x64xbf16>, tensor<1x1x128xf32>) outs(%arg8 : tensor<1x1x192xf32>) at(%arg3, %arg4, %arg7, %arg5) {scale = 1.250000e-01 : f32} -> tensor<1x1x192xf32>
        scf.yield %23 : tensor<1x1x192xf32>
      }
      %22 = scf.for %arg7 = %19 to %15 step %c128 iter_args(%arg8 = %21) -> (tensor<1x1x192xf32>) {
        %23 = affine.min #map10(%arg7)[%dim_1]
        %extracted_slice_3 = tensor.extract_slice %arg0[%arg3, %arg4, %arg7, 0] [1, 1, %23, 64] [1, 1, 1, 1] : tensor<2x4x?x64xbf16> to tensor<1x1x?x64xbf16>
        %24 = affine.apply #map11(%23)
        %padded_4 = tensor.pad %extracted_slice_3 low[0, 0, 0, 0] high[0, 0, %24, 0] {
        ^bb0(%arg9: index, %arg10: index, %arg11: index, %arg12: index):
          tensor.yield %cst : bf16
        } : tensor<1x1x?x64xbf16> to tensor<1x1x128x64xbf16>
        %extracted_slice_5 = tensor.extract_slice %arg2[%arg3, %arg4, %arg7] [1, 1, %23] [1, 1, 1] : tensor<2x4x?xf32> to tensor<1x1x?xf32>
        %padded_6 = tensor.pad %extracted_slice_5 low[0, 0, 0] high[0, 0, %24] {
        ^bb0(%arg9: index, %arg10: index, %arg11: index):
          tensor.yield %cst_0 : f32
        } : tensor<1x1x?xf32> to tensor<1x1x128xf32>
        %25 = flash.accumulate_column_sums ins(%padded_4, %padded, %padded_6 : tensor<1x1x128x64xbf16>, tensor<1x1x192x64xbf16>, tensor<1x1x128xf32>) outs(%arg8 : tensor<1x1x192xf32>) at(%arg3, %arg4, %arg7, %arg5) {scale = 1.250000e-01 : f32} mask (%arg9: index, %arg10: index, %arg11: index, %arg12: index) {
          %26 = arith.cmpi sle, %arg12, %arg11 : index
          %27 = arith.cmpi slt, %arg11, %dim_1 : index
          %28 = arith.andi %26, %27 : i1
          flash.yield %28 : i1
        } -> tensor<1x1x192xf32>
        scf.yield %25 : tensor<1x1x192xf32>
      }
      %extracted_slice_2 = tensor.extract_slice %22[0, 0, 0] [1, 1, %5] [1, 1, 1] : tensor<1x1x192xf32> to tensor<1x1x?xf32>
      scf.forall.in_parallel {
        tensor.parallel_insert_slice %extracted_slice_2 into %arg6[%arg3, %arg4, %arg5] [1, 1, %5] [1, 1, 1] : tensor<1x1x?xf32> into tensor<2x4x?xf32>
      }
    }
    %2 = tensor.empty(%dim) : tensor<2x2x?xf32>
    %3 = linalg.fill ins(%cst_0 : f32) outs(%2 : tensor<2x2x?xf32>) -> tensor<2x2x?xf32>
    %4 = linalg.generic {indexing_maps = [#map12, #map13], iterator_types = ["parallel", "reduction", "parallel"]} ins(%1 : tensor<2x4x?xf32>) outs(%3 : tensor<2x2x?xf32>) {
    ^bb0(%in: f32, %out: f32):
      %5 = arith.addf %out, %in : f32
      linalg.yield %5 : f32
    } -> tensor<2x2x?xf32>
    return %4 : tensor<2x2x?xf32>
  }
}

