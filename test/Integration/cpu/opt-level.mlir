// FLASHC_CPU_OPT_LEVEL: the numbers of both levels are right, and there are no others.
// RUN: env FLASHC_CPU_OPT_LEVEL=0 flashc %s --check | FileCheck %s
// RUN: env FLASHC_CPU_OPT_LEVEL=1 flashc %s --check | FileCheck %s
// RUN: not env FLASHC_CPU_OPT_LEVEL=2 flashc %s --check 2>&1 | FileCheck %s --check-prefix=LEVEL

// CHECK: check @causal: o: {{.*}}: PASS
// LEVEL: error: running on the CPU failed: expected FLASHC_CPU_OPT_LEVEL to be 0 or 1, got '2'

!t = tensor<?x2x?x8xbf16>

func.func @causal(%q: !t, %k: !t, %v: !t) -> (!t, tensor<?x2x?xf32>) {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.35 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi sle, %j, %i : index
      flash.yield %keep : i1
    } -> !t, tensor<?x2x?xf32>
  return %o, %lse : !t, tensor<?x2x?xf32>
}
