// All gradients in one kernel: consumers pass dX^T on, and dq is added up in the workspace, which the kernel before clears
// and the one after rounds. The mask of keys that do not exist keeps their exponentials out of the sums.
// RUN: flashc %s --emit=tile | FileCheck %s
// RUN: flashc %s --print-decisions | FileCheck %s --check-prefix=DECISIONS
// RUN: sed 's/{scale/{deterministic, scale/' %s | flashc - --print-decisions | FileCheck %s --check-prefix=DETERMINISTIC
// RUN: sed 's/{scale/{deterministic, scale/' %s | not flashc - --emit=tile --schedule=split-gradients=none 2>&1 \
// RUN:   | FileCheck %s --check-prefix=ORDER
// RUN: not flashc %s --emit=tile --schedule=kv-tile=48 2>&1 | FileCheck %s --check-prefix=ROWS
// RUN: not flashc %s --emit=tile --schedule=consumers=3 2>&1 | FileCheck %s --check-prefix=REGISTERS
// RUN: flashc %s --emit=tile --schedule=consumers=1 | FileCheck %s --check-prefix=LARGEST

// DECISIONS: split-gradients = none (row)
// DECISIONS: workspace: {{.*}} bytes
// DECISIONS-NEXT: dq: added up in device memory, in any order
// DETERMINISTIC: mask=none deterministic
// DETERMINISTIC: split-gradients = queries
// DETERMINISTIC: dq: added up in registers, with the same bits in every launch
// ORDER: error: schedule: expected split-gradients=queries or each for a deterministic backward pass, got none
// ROWS: error: schedule: expected a kv-tile in steps of 64 for split-gradients=none, got 48
// REGISTERS: error: {{.*}}expected at most {{[0-9]+}} registers{{.*}}got
// The reducer warpgroup, which adds dq up, has at most the registers that it is launched with.
// LARGEST: tile.warp_specialize 1 registers(24, 240, 168) producer

// CHECK:         gpu.func @grads(
// CHECK-SAME:      after = [{{.*}}kernel = "grads_dq"
// CHECK-SAME:      before = [{{.*}}kernel = "grads_delta"
// CHECK-SAME:      block = [512, 1, 1]
// CHECK:           tile.alloc_ring : <2, 128, 64, bf16>
// CHECK:           %[[K:.*]] = tile.alloc_ring : <1, 64, 64, bf16, private true>
// CHECK:           %[[STATISTICS:.*]] = tile.alloc_ring : <2, 2, 128, f32>
// CHECK:           %[[SHARED:.*]] = tile.alloc_ring : <2, 64, 128, bf16, private true>
// CHECK:           tile.warp_specialize 2 registers(32, 208, 64) producer {
// CHECK:             tile.copy_async {{.*}} into %[[STATISTICS]]{{.*}} : memref<2x?x?x?xf32
// CHECK:           } consumer {
// CHECK:             scf.for
// CHECK:               tile.from_operand_a
// CHECK:               tile.share %[[DX:.*]] into %[[SHARED]]
// CHECK:               tile.mma_async %[[DX]],
// CHECK:           } reducer {
// CHECK:             %[[K0:.*]] = tile.wait %[[K]][%{{.*}}] owner 0
// CHECK:             %[[K1:.*]] = tile.wait %[[K]][%{{.*}}] owner 1
// CHECK:             scf.for
// CHECK:               %[[DX0:.*]] = tile.wait %[[SHARED]][%[[COUNT:.*]]] owner 0
// CHECK:               %[[DX1:.*]] = tile.wait %[[SHARED]][%[[COUNT]]] owner 1
// 128 queries by 64 columns: two pieces, each of the keys of both consumers.
// CHECK:               scf.for %[[PIECE:.*]] = %{{.*}} to %c2
// CHECK:                 %[[A0:.*]] = tile.panel %[[DX0]]
// CHECK:                 %[[B0:.*]] = tile.panel %[[K0]]
// CHECK:                 %[[FIRST:.*]] = tile.mma_async %[[A0]], %[[B0]] transpose_a
// CHECK:                 %[[BOTH:.*]] = tile.mma_async %{{.*}}, %{{.*}} into %[[FIRST]] : {{.*}}transpose_a
// CHECK:                 %[[SUM:.*]] = tile.mma_wait %[[BOTH]]
// CHECK:                 %[[SCALED:.*]] = arith.mulf %[[SUM]]
// CHECK:                 tile.atomic_add %[[SCALED]] to
// CHECK:               tile.release %[[DX0]]
// CHECK:               tile.release %[[DX1]]
// CHECK:             tile.release %[[K0]]
// CHECK:         gpu.func @grads_delta(
// CHECK:           vector.store {{.*}} : memref<{{.*}}x4096xf32
// CHECK:         gpu.func @grads_dq(
// CHECK:           vector.load {{.*}} : memref<{{.*}}x4096xf32
// CHECK:           vector.store {{.*}} vector<8xbf16>
func.func @grads(%q: tensor<?x4x?x64xbf16>, %k: tensor<?x4x?x64xbf16>, %v: tensor<?x4x?x64xbf16>,
                 %o: tensor<?x4x?x64xbf16>, %lse: tensor<?x4x?xf32>, %do: tensor<?x4x?x64xbf16>)
    -> (tensor<?x4x?x64xbf16>, tensor<?x4x?x64xbf16>, tensor<?x4x?x64xbf16>) {
  %g:3 = flash.attention_backward
      ins(%q, %k, %v, %o, %lse, %do : tensor<?x4x?x64xbf16>, tensor<?x4x?x64xbf16>, tensor<?x4x?x64xbf16>,
          tensor<?x4x?x64xbf16>, tensor<?x4x?xf32>, tensor<?x4x?x64xbf16>) {scale = 0.125 : f32}
      -> tensor<?x4x?x64xbf16>, tensor<?x4x?x64xbf16>, tensor<?x4x?x64xbf16>
  return %g#0, %g#1, %g#2 : tensor<?x4x?x64xbf16>, tensor<?x4x?x64xbf16>, tensor<?x4x?x64xbf16>
}
