// Finite factors may leave a row nothing but -inf: it is empty, although the mask keeps a key of every row.
// RUN: flashc %s --run=cpu --print-results --q-tile=2 --kv-tile=2 | FileCheck %s
// RUN: flashc %s --emit=loops --q-tile=2 --kv-tile=2 | FileCheck %s --check-prefix=LOOPS
// CHECK: o: {{.*}}0, 0, 0, 0
// CHECK-NOT: nan
// LOOPS: flash.finalize {{.*}}no_empty_rows

!t = tensor<1x1x4x4xf32>
!lse = tensor<1x1x4xf32>
func.func @lost(%q: !t, %k: !t, %v: !t) -> (!t, !lse) {
  %zero = arith.constant 0.0 : f32
  %two = arith.constant 2.0 : f32
  %large = arith.constant 3.0e38 : f32
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.25 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %nothing = arith.mulf %s, %zero : f32
      %below = arith.subf %nothing, %two : f32
      %r = arith.mulf %below, %large : f32
      flash.yield %r : f32
    }
    mask (%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi sle, %j, %i : index
      flash.yield %keep : i1
    } -> !t, !lse
  return %o, %lse : !t, !lse
}
