// Where keys add to dq of the queries that come past, no tile is full beside keys that do not exist: code of a score may
// give them infinite weights, which meet their zeros in the product with K. The tile of keys 64 to 127, of 65, has the
// mask in all of its visits: tiles of queries up to the end are full only if keys end at 65 - 64 or before.
// RUN: flashc-opt %s --flash-differentiate-scores --flash-online-softmax --flash-tile --canonicalize --cse --flash-swap-loops \
// RUN:   --flash-bound-loops --canonicalize --cse | FileCheck %s

// CHECK:       #[[LEFT:.*]] = affine_map<()[s0] -> (-s0 + 1)>
// CHECK:       scf.for %[[KEY:.*]] = %c0 to %c65 step %c64
// CHECK:         %[[REST:.*]] = affine.apply #[[LEFT]]()[%[[KEY]]]
// CHECK:         %[[IS_WHOLE:.*]] = arith.cmpi sge, %[[REST]], %c0
// CHECK:         %[[END:.*]] = arith.select %[[IS_WHOLE]], %{{.*}}, %c0
// CHECK:         scf.for %{{.*}} = %c0 to %[[END]] step %c64
// CHECK:           flash.accumulate_gradients
// CHECK-NOT:       mask
// CHECK:         scf.for %{{.*}} = %[[END]] to
// CHECK:           flash.accumulate_gradients
// CHECK:           mask

!q = tensor<1x1x131x64xbf16>
!k = tensor<1x1x65x64xbf16>
!lse = tensor<1x1x131xf32>

func.func @gradients(%q: !q, %k: !k, %o: !q, %lse: !lse, %do: !q) -> (!q, !k, !k) {
  %g:3 = flash.attention_backward ins(%q, %k, %k, %o, %lse, %do : !q, !k, !k, !q, !lse, !q) {scale = 0.125 : f32}
      -> !q, !k, !k
  return %g#0, %g#1, %g#2 : !q, !k, !k
}
