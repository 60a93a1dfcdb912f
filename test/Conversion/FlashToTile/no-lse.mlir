// A log-sum-exp that is no output costs nothing: neither loops nor kernel compute or write it.
// RUN: flashc %s --emit=tile | FileCheck %s
// RUN: flashc %s -o %t.ptx && FileCheck %s --check-prefix=PTX < %t.ptx && FileCheck %s --check-prefix=MANIFEST < %t.json
// RUN: flashc %s --algorithm=standard --check | FileCheck %s --check-prefix=RIGHT
// RUN: flashc %s --algorithm=fa1 --check | FileCheck %s --check-prefix=RIGHT
// RUN: flashc %s --check-each-pass | FileCheck %s --check-prefix=RIGHT
// RUN: flashc %s --print-cost --dims=B=3,Nq=128,Nk=128 | FileCheck %s --check-prefix=COST

// CHECK-LABEL: gpu.func @attention
// CHECK: tile.store_async
// CHECK-NOT: {{tile.store(_async)? }}
// CHECK-NOT: math.log
// PTX: .entry attention(
// PTX-NOT: lg2
// MANIFEST: "name": "o"
// MANIFEST-NOT: "name": "lse"
// MANIFEST-NOT: "argument": 4
// RIGHT: @attention: o{{:?}} {{.*}}PASS
// RIGHT-NOT: lse
// 3 * 8 * 128 * 128 elements of two bytes.
// COST: bytes written 786432,
func.func @attention(%q: tensor<?x8x?x128xbf16>, %k: tensor<?x2x?x128xbf16>, %v: tensor<?x2x?x128xbf16>)
    -> tensor<?x8x?x128xbf16> {
  %o, %lse = flash.attention
      ins(%q, %k, %v : tensor<?x8x?x128xbf16>, tensor<?x2x?x128xbf16>, tensor<?x2x?x128xbf16>) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      }
      -> tensor<?x8x?x128xbf16>, tensor<?x8x?xf32>
  return %o : tensor<?x8x?x128xbf16>
}
