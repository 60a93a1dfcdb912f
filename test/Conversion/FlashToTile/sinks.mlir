// The sink of a tile's head is read in front of the loop over keys, and divides the rows behind it; its gradient is a
// kernel behind the others.
// RUN: split-file %s %t
// RUN: flashc %t/attention.mlir --emit=tile --schedule=consumers=1,kv-tile=64,persistent=false,epilogue=plain \
// RUN:   | FileCheck %s --check-prefix=ATTENTION
// RUN: flashc %t/gradients.mlir --emit=tile | FileCheck %s --check-prefix=GRADIENTS
// RUN: flashc %t/attention.mlir --emit=loops \
// RUN:   | sed 's/\(extract_slice %arg3\)\[%arg[0-9]*\]/\1[0]/' > %t/moved.mlir
// RUN: not flashc-opt %t/moved.mlir --convert-flash-to-tile="schedule=consumers=1,kv-tile=64" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=MOVED

// ATTENTION: gpu.func @attention({{.*}}name = "sinks", role = "input", shape = [-1]
// ATTENTION-SAME: "arg3.dim0"
// ATTENTION: } consumer {
// ATTENTION: %[[SINK:.*]] = memref.load %{{.*}}[%{{.*}}] : memref<?xf32, strided<[1]>>
// ATTENTION: %[[ROWS:.*]] = tile.rows at(
// ATTENTION: tile.yield %[[SINK]] : f32
// ATTENTION: %[[SUM:.*]] = tile.combine
// ATTENTION: %[[LSE:.*]] = math.fma
// ATTENTION: %[[EMPTY:.*]] = arith.cmpf oeq, %[[SUM]]
// ATTENTION: %[[LESS:.*]] = arith.subf %[[ROWS]], %[[LSE]]
// ATTENTION: arith.maxnumf %[[LSE]], %[[ROWS]]
// ATTENTION: arith.select %[[EMPTY]], %[[ROWS]]
// ATTENTION: tile.scale_rows

// MOVED: error: expected the sink of the tile's head

// GRADIENTS: gpu.func @gradients({{.*}}kernel = "gradients_dsinks"
// GRADIENTS-SAME: name = "dsinks", role = "output", shape = [4]
// GRADIENTS: gpu.func @gradients_dsinks(
// GRADIENTS: %[[STATISTICS:.*]] = memref.reinterpret_cast
// GRADIENTS: griddepcontrol
// GRADIENTS: scf.for %{{.*}} = %thread_id_x to %{{.*}} step %c512
// GRADIENTS: math.exp2
// GRADIENTS: nvvm.barrier
// GRADIENTS: memref.store

//--- attention.mlir
!q = tensor<?x?x?x64xbf16>
!lse = tensor<?x?x?xf32>
func.func @attention(%q: !q, %k: !q, %v: !q, %sinks: tensor<?xf32>) -> (!q, !lse) {
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) sinks(%sinks : tensor<?xf32>)
      {group_size = 1 : i64, scale = 0.125 : f32} -> !q, !lse
  return %o, %lse : !q, !lse
}

//--- gradients.mlir
!q = tensor<?x4x?x64xbf16>
!lse = tensor<?x4x?xf32>
func.func @gradients(%q: !q, %k: !q, %v: !q, %o: !q, %lse: !lse, %do: !q, %sinks: tensor<4xf32>)
    -> (!q, !q, !q, tensor<4xf32>) {
  %g:4 = flash.attention_backward ins(%q, %k, %v, %o, %lse, %do : !q, !q, !q, !q, !lse, !q)
      sinks(%sinks : tensor<4xf32>) {scale = 0.125 : f32} -> !q, !q, !q, tensor<4xf32>
  return %g#0, %g#1, %g#2, %g#3 : !q, !q, !q, tensor<4xf32>
}
