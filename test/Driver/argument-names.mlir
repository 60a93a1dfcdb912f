// An argument that is captured can have a name: in options, in messages, in the manifest. The CPU's lowering drops it
// without a warning.
// RUN: flashc %s --check --shape=bias=63x65 2>&1 | FileCheck %s
// RUN: not flashc %s --check --shape=bias=7 2>&1 | FileCheck %s --check-prefix=SHAPE
// RUN: flashc %s -o %t.ptx && FileCheck %s --check-prefix=MANIFEST < %t.json
// CHECK-NOT: warning
// CHECK: check @attention: o: {{.*}} PASS
// SHAPE: error: expected a shape for bias that fits 'tensor<?x?xf32>', got 7
// MANIFEST: "name": "bias"

func.func @attention(%q: tensor<?x1x?x8xbf16>, %bias: tensor<?x?xf32> {flash.name = "bias"})
    -> tensor<?x1x?x8xbf16> {
  %o, %lse = flash.attention ins(%q, %q, %q : tensor<?x1x?x8xbf16>, tensor<?x1x?x8xbf16>, tensor<?x1x?x8xbf16>)
      {scale = 1.000000e+00 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %bias[%i, %j] : tensor<?x?xf32>
        %t = arith.addf %s, %x : f32
        flash.yield %t : f32
      } -> tensor<?x1x?x8xbf16>, tensor<?x1x?xf32>
  return %o : tensor<?x1x?x8xbf16>
}
