// What is rounded for the product with values is dropped, the sums of rows have all of P, and what is kept is divided at
// the end. Where keys are resident masks are transposed, and both products with P or dP have them.
// RUN: split-file %s %t
// RUN: flashc %t/attention.mlir --emit=tile --schedule=consumers=1,kv-tile=48,persistent=false,epilogue=plain \
// RUN:   | FileCheck %s --check-prefix=ATTENTION
// RUN: flashc %t/gradients.mlir --emit=tile --schedule=split-gradients=queries | FileCheck %s --check-prefix=GRADIENTS
// RUN: flashc %t/attention.mlir --print-decisions -o %t/a.ptx | FileCheck %s --check-prefix=DECISIONS
// RUN: not flashc %t/attention.mlir -o %t/a.ptx --schedule=tensor-sums=true 2>&1 | FileCheck %s --check-prefix=SUMS
// RUN: flashc %t/whole.mlir --emit=loops | sed 's/dropout(%arg3/dropout(%made/' \
// RUN:   | sed 's/func.func .* {$/&\n    %made = arith.constant dense<7> : tensor<2xi64>/' > %t/made.mlir
// RUN: not flashc-opt %t/made.mlir --convert-flash-to-tile="schedule=consumers=1,kv-tile=64" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=MADE
// RUN: flashc %t/whole.mlir --emit=loops --schedule=kv-tile=64 | sed 's/scf.for \(%arg[0-9]*\) = %c0 to %c512/scf.for \1 = %c8 to %c456/' \
// RUN:   | sed 's/func.func .* {$/&\n    %c8 = arith.constant 8 : index\n    %c456 = arith.constant 456 : index/' > %t/moved.mlir
// RUN: not flashc-opt %t/moved.mlir --convert-flash-to-tile="schedule=consumers=1,kv-tile=64" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=MOVED

// ATTENTION: gpu.func @attention({{.*}}name = "philox", role = "input", shape = [2]
// 256 / 230.
// ATTENTION-DAG: %[[SCALE:.*]] = arith.constant dense<1.11304{{[0-9]*}}> : tensor<64xf32, #tile.row>
// ATTENTION-DAG: %[[SEED:.*]] = memref.load %[[PHILOX:.*]][%c0{{.*}}] : memref<2xi64
// ATTENTION-DAG: %[[OFFSET:.*]] = memref.load %[[PHILOX]][%c1{{.*}}] : memref<2xi64
// ATTENTION: } consumer {
// ATTENTION: math.exp2 %{{.*}} : tensor<64x48xf32, #tile.acc>
// ATTENTION: tile.row_reduce sum
// ATTENTION: %[[P:.*]] = tile.to_operand_a
// ATTENTION: %[[KEPT:.*]] = tile.dropout_mask %[[SEED]], %[[OFFSET]] at(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) least 26 : tensor<64x48xi1, #tile.flags>
// ATTENTION: %[[DROPPED:.*]] = tile.keep %[[P]] where %[[KEPT]]
// ATTENTION: scf.for {{.*}}%[[CARRIED:[^ ]*]] = %[[DROPPED]],
// ATTENTION: tile.mma_async %[[CARRIED]],
// ATTENTION: arith.divf %[[SCALE]], %{{.*}} : tensor<64xf32, #tile.row>

// GRADIENTS: %[[KEPT:.*]] = tile.dropout_mask {{.*}} transposed : tensor<64x64xi1, #tile.flags>
// GRADIENTS: %[[P:.*]] = tile.to_operand_a
// GRADIENTS: %[[DROPPED:.*]] = tile.keep %{{.*}} where %[[KEPT]] : tensor<64x64xbf16, #tile.operand_a>
// GRADIENTS: tile.mma_async %[[DROPPED]],
// GRADIENTS: tile.keep %{{.*}} where %[[KEPT]] : tensor<64x64xf32, #tile.acc>
// GRADIENTS: gpu.func @gradients_dq(
// GRADIENTS: %[[KEPT:.*]] = tile.dropout_mask {{.*}} least 26 : tensor<64x64xi1, #tile.flags>
// GRADIENTS: tile.keep %{{.*}} where %[[KEPT]] : tensor<64x64xf32, #tile.acc>

// DECISIONS: dropout=true
// DECISIONS: tensor-sums = false
// SUMS: error: schedule: expected no dropout for tensor-sums: row sums include the dropped elements of P

// MADE: error: expected a captured array to be a function argument
// MOVED: error: expected tiles from a multiple of 32 on for dropout, got 8

//--- attention.mlir
!q = tensor<?x?x?x64xbf16>
func.func @attention(%q: !q, %k: !q, %v: !q, %philox: tensor<2xi64>) -> !q {
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) dropout(%philox : tensor<2xi64>)
      {dropout_p = 0.1 : f32, group_size = 1 : i64, scale = 0.125 : f32} -> !q, tensor<?x?x?xf32>
  return %o : !q
}

//--- whole.mlir
!q = tensor<1x1x512x64xbf16>
func.func @attention(%q: !q, %k: !q, %v: !q, %philox: tensor<2xi64>) -> !q {
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) dropout(%philox : tensor<2xi64>)
      {dropout_p = 0.1 : f32, scale = 0.125 : f32} -> !q, tensor<1x1x512xf32>
  return %o : !q
}

//--- gradients.mlir
!q = tensor<?x4x?x64xbf16>
!lse = tensor<?x4x?xf32>
func.func @gradients(%q: !q, %k: !q, %v: !q, %o: !q, %lse: !lse, %do: !q, %philox: tensor<2xi64>) -> (!q, !q, !q) {
  %g:3 = flash.attention_backward ins(%q, %k, %v, %o, %lse, %do : !q, !q, !q, !q, !lse, !q)
      dropout(%philox : tensor<2xi64>) {dropout_p = 0.1 : f32, scale = 0.125 : f32} -> !q, !q, !q
  return %g#0, %g#1, %g#2 : !q, !q, !q
}
