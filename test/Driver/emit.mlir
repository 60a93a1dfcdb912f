// What --emit writes, and where.
// RUN: flashc %s --emit=flash | FileCheck %s --check-prefix=FLASH
// RUN: flashc - --emit=flash < %s | FileCheck %s --check-prefix=FLASH
// FLASH: func.func @attention
// FLASH: flash.attention

// RUN: flashc %s --emit=loops --algorithm=standard | FileCheck %s --check-prefix=STANDARD --implicit-check-not=scf.for
// STANDARD-COUNT-2: linalg.generic {{.*}}"reduction"
// STANDARD-NOT: flash.

// RUN: flashc %s --emit=loops --algorithm=fa1 --q-tile=32 --kv-tile=16 | FileCheck %s --check-prefix=FA1
// FA1: scf.for %{{.*}} = %c0 to %{{.*}} step %c16
// FA1: scf.for %{{.*}} = %c0 to %{{.*}} step %c32
// FA1: flash.online_attention {{.*}} tensor<1x1x32x8xbf16>, tensor<1x1x16x8xbf16>
// FA1-SAME: each_step
// FA1: flash.finalize

// The default is fa2 with tiles of 64; -o writes the same to a file and leaves nothing else there.
// RUN: rm -rf %t && mkdir %t
// RUN: flashc %s --emit=loops | FileCheck %s --check-prefix=FA2
// RUN: flashc %s --emit=loops -o %t/loops.mlir | count 0
// RUN: FileCheck %s --check-prefix=FA2 < %t/loops.mlir
// RUN: flashc %s --emit=loops -o %t/loops.mlir
// RUN: ls %t | FileCheck %s --check-prefix=FILES
// FILES: loops.mlir
// FILES-NOT: {{.}}
// FA2: scf.forall
// FA2: scf.for
// FA2: flash.online_attention {{.*}} tensor<1x1x64x8xbf16>, tensor<1x1x64x8xbf16>
// FA2-SAME: deferred

// What is written can be read again, and run.
// RUN: flashc %t/loops.mlir --run=cpu --check --passes=flash-decompose | FileCheck %s --check-prefix=AGAIN
// AGAIN: check @attention: result0: {{.*}} PASS

// RUN: flashc %s --emit=loops --mlir-print-ir-after-all 2>&1 | FileCheck %s --check-prefix=AFTER-ALL
// AFTER-ALL: IR Dump After {{.*}} (flash-to-tensors)
// AFTER-ALL: IR Dump After {{.*}} (flash-online-softmax)
// AFTER-ALL: IR Dump After {{.*}} (flash-tile)
// AFTER-ALL: IR Dump After {{.*}} (flash-swap-loops)
// AFTER-ALL: IR Dump After {{.*}} (flash-parallelize)

// RUN: flashc %s --emit=loops --time -o %t/loops.mlir 2>&1 | FileCheck %s --check-prefix=TIME
// TIME: Execution time report
// TIME: parse
// TIME: algorithm

func.func @attention(%q: tensor<?x1x?x8xbf16>, %k: tensor<?x1x?x8xbf16>, %v: tensor<?x1x?x8xbf16>)
    -> (tensor<?x1x?x8xbf16>, tensor<?x1x?xf32>) {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<?x1x?x8xbf16>, tensor<?x1x?x8xbf16>, tensor<?x1x?x8xbf16>)
      {scale = 1.000000e+00 : f32} -> tensor<?x1x?x8xbf16>, tensor<?x1x?xf32>
  return %o, %lse : tensor<?x1x?x8xbf16>, tensor<?x1x?xf32>
}
