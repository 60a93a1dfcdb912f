// The weights of keys: queries are streamed past a resident tile of keys. Those of a group's heads are added up by a
// kernel after the main one, out of the workspace.
// RUN: flashc-opt %s --flash-online-softmax --flash-tile="q-tile=128 kv-tile=192" --canonicalize --cse --flash-swap-loops \
// RUN:   --flash-bound-loops --flash-parallelize --canonicalize --cse \
// RUN:   --convert-flash-to-tile=schedule=consumers=3,kv-tile=128,stages=2,persistent=false --canonicalize --cse \
// RUN:   | FileCheck %s

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
!q = tensor<2x4x?x64xbf16>
!k = tensor<2x2x?x64xbf16>
func.func @sums(%q: !q, %k: !k, %lse: tensor<2x4x?xf32>) -> tensor<2x2x?xf32> {
  %c = flash.column_sums ins(%q, %k, %lse : !q, !k, tensor<2x4x?xf32>) {scale = 0.125 : f32, sum_groups}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      } -> tensor<2x2x?xf32>
  return %c : tensor<2x2x?xf32>
}
