// RUN: flashc-opt %s --flash-decompose --canonicalize --cse | FileCheck %s

// Algorithm 0. Grouped heads read their key head through the indexing map; S, m, P, l and acc are f32.

// CHECK-DAG:   #[[QD:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d4)>
// CHECK-DAG:   #[[KV:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1 floordiv 4, d3, d4)>
// CHECK-DAG:   #[[S:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>
// CHECK-DAG:   #[[ID4:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
// CHECK-DAG:   #[[ROW:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>

// CHECK-LABEL: func @standard(
// CHECK-SAME:      %[[Q:[^:]*]]: tensor<2x8x32x16xbf16>, %[[K:[^:]*]]: tensor<2x2x?x16xbf16>, %[[V:[^:]*]]: tensor<2x2x?x24xbf16>)
// CHECK-DAG:     %[[SCALE:.*]] = arith.constant 2.500000e-01 : f32
// CHECK-DAG:     %[[NEG_INF:.*]] = arith.constant 0xFF800000 : f32
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-DAG:     %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
//
// CHECK:         %[[QK:.*]] = linalg.generic {indexing_maps = [#[[QD]], #[[KV]], #[[S]]]
// CHECK-SAME:        ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%[[Q]], %[[K]]
// CHECK:           ^bb0(%[[QE:.*]]: bf16, %[[KE:.*]]: bf16, %[[SE:.*]]: f32):
// CHECK:             %[[QX:.*]] = arith.extf %[[QE]]
// CHECK:             %[[KX:.*]] = arith.extf %[[KE]]
// CHECK:             %[[QKE:.*]] = arith.mulf %[[QX]], %[[KX]] : f32
// CHECK:             arith.addf %[[SE]], %[[QKE]] : f32
//
// CHECK:         %[[SCORES:.*]] = linalg.generic {indexing_maps = [#[[ID4]]]{{.*}} outs(%[[QK]] : tensor<2x8x32x?xf32>)
// CHECK:             arith.mulf %{{.*}}, %[[SCALE]] : f32
//
// CHECK:         %[[M0:.*]] = linalg.fill ins(%[[NEG_INF]]
// CHECK:         %[[M:.*]] = linalg.generic {indexing_maps = [#[[ID4]], #[[ROW]]]
// CHECK-SAME:        ins(%[[SCORES]] : tensor<2x8x32x?xf32>) outs(%[[M0]]
// CHECK:             arith.maximumf
//
// CHECK:         %[[P:.*]] = linalg.generic {indexing_maps = [#[[ID4]], #[[ROW]], #[[ID4]]]{{.*}} ins(%[[SCORES]], %[[M]]
// CHECK:           ^bb0(%[[X:.*]]: f32, %[[ME:.*]]: f32, %{{.*}}: f32):
// CHECK:             %[[EMPTY:.*]] = arith.cmpf oeq, %[[ME]], %[[NEG_INF]]
// CHECK:             %[[SHIFT:.*]] = arith.select %[[EMPTY]], %[[ZERO]], %[[ME]]
// CHECK:             %[[D:.*]] = arith.subf %[[X]], %[[SHIFT]]
// CHECK:             math.exp %[[D]]
//
// CHECK:         %[[L:.*]] = linalg.generic {{.*}} ins(%[[P]] : tensor<2x8x32x?xf32>)
// CHECK:             arith.addf
//
// CHECK:         %[[ACC:.*]] = linalg.generic {indexing_maps = [#[[S]], #[[KV]], #[[QD]]]
// CHECK-SAME:        ["parallel", "parallel", "parallel", "reduction", "parallel"]} ins(%[[P]], %[[V]]
// CHECK:           ^bb0(%[[PE:.*]]: f32, %[[VE:.*]]: bf16, %[[AE:.*]]: f32):
// CHECK:             %[[PR:.*]] = arith.truncf %[[PE]] : f32 to bf16
// CHECK:             %[[PX:.*]] = arith.extf %[[PR]]
// CHECK:             %[[VX:.*]] = arith.extf %[[VE]]
// CHECK:             %[[PV:.*]] = arith.mulf %[[PX]], %[[VX]] : f32
// A weight of 0 adds nothing, not even NaN.
// CHECK:             %[[SUM:.*]] = arith.addf %[[AE]], %[[PV]] : f32
// CHECK:             %[[HIDDEN:.*]] = arith.cmpf oeq, %[[PX]], %[[ZERO]] : f32
// CHECK:             arith.select %[[HIDDEN]], %[[AE]], %[[SUM]] : f32
//
// CHECK:         %[[O:.*]] = linalg.generic {{.*}} ins(%[[ACC]], %[[L]] : {{.*}} outs({{.*}} : tensor<2x8x32x24xbf16>)
// CHECK:           ^bb0(%[[AE:.*]]: f32, %[[LE:.*]]: f32, %{{.*}}: bf16):
// CHECK:             %[[NONE:.*]] = arith.cmpf oeq, %[[LE]], %[[ZERO]]
// CHECK:             %[[DIV:.*]] = arith.select %[[NONE]], %[[ONE]], %[[LE]]
// CHECK:             %[[OE:.*]] = arith.divf %[[AE]], %[[DIV]]
// CHECK:             arith.truncf %[[OE]] : f32 to bf16
//
// CHECK:         %[[LSE:.*]] = linalg.generic {{.*}} ins(%[[M]], %[[L]] :
// CHECK:             math.log
// CHECK:         return %[[O]], %[[LSE]]
func.func @standard(%q: tensor<2x8x32x16xbf16>, %k: tensor<2x2x?x16xbf16>, %v: tensor<2x2x?x24xbf16>)
    -> (tensor<2x8x32x24xbf16>, tensor<2x8x32xf32>) {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<2x8x32x16xbf16>, tensor<2x2x?x16xbf16>, tensor<2x2x?x24xbf16>)
    {scale = 2.500000e-01 : f32} -> tensor<2x8x32x24xbf16>, tensor<2x8x32xf32>
  return %o, %lse : tensor<2x8x32x24xbf16>, tensor<2x8x32xf32>
}

// Regions are inlined at linalg.index; captured values stay where they are. f32 needs no rounding, and a
// result that declares less of B than q knows gets a cast.

// CHECK-LABEL: func @regions(
// CHECK-SAME:      %[[BIAS:[^:]*]]: tensor<?x?xf32>)
// CHECK:         linalg.generic {{.*}} outs(%{{.*}} : tensor<2x2x?x?xf32>)
// CHECK:             %[[SCALED:.*]] = arith.mulf
// CHECK:             %[[I:.*]] = linalg.index 2
// CHECK:             %[[J:.*]] = linalg.index 3
// CHECK:             %[[E:.*]] = tensor.extract %[[BIAS]][%[[I]], %[[J]]]
// CHECK:             %[[T:.*]] = arith.addf %[[SCALED]], %[[E]]
// CHECK:             %[[KEEP:.*]] = arith.cmpi sle, %[[J]], %[[I]]
// CHECK:             arith.select %[[KEEP]], %[[T]], %{{.*}} : f32
// CHECK-NOT:     arith.truncf
// CHECK:         tensor.cast %{{.*}} : tensor<2x2x?x8xf32> to tensor<?x2x?x8xf32>
func.func @regions(%q: tensor<2x2x?x8xf32>, %k: tensor<2x2x?x8xf32>, %bias: tensor<?x?xf32>)
    -> (tensor<?x2x?x8xf32>, tensor<2x2x?xf32>) {
  %o, %lse = flash.attention ins(%q, %k, %k : tensor<2x2x?x8xf32>, tensor<2x2x?x8xf32>, tensor<2x2x?x8xf32>)
    {scale = 2.500000e-01 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %e = tensor.extract %bias[%i, %j] : tensor<?x?xf32>
      %t = arith.addf %s, %e : f32
      flash.yield %t : f32
    }
    mask (%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi sle, %j, %i : index
      flash.yield %keep : i1
    } -> tensor<?x2x?x8xf32>, tensor<2x2x?xf32>
  return %o, %lse : tensor<?x2x?x8xf32>, tensor<2x2x?xf32>
}

!t = tensor<1x1x16x8xf32>
!r = tensor<1x1x16xf32>

// A step folds into the state that it is given: m' starts at m, l' at exp(m - m') l, acc' at exp(m - m') acc; its
// regions see absolute positions.

// CHECK-LABEL: func @deferred_step(
// CHECK-SAME:      %[[Q:[^:]*]]: {{[^,]*}}, %[[ACC:[^:]*]]: {{[^,]*}}, %[[M:[^:]*]]: {{[^,]*}}, %[[L:[^:]*]]: {{[^,]*}}, %[[I0:[^:]*]]: index, %[[J0:[^:]*]]: index)
// CHECK:             %[[I:.*]] = linalg.index 2
// CHECK:             %[[AI:.*]] = arith.addi %[[I0]], %[[I]]
// CHECK:             %[[J:.*]] = linalg.index 3
// CHECK:             %[[AJ:.*]] = arith.addi %[[J0]], %[[J]]
// CHECK:             arith.cmpi sle, %[[AJ]], %[[AI]]
// CHECK:         %[[M1:.*]] = linalg.generic {{.*}} outs(%[[M]] :
// CHECK:             arith.maximumf
// CHECK:         %[[P:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[M1]] :
// CHECK:             math.exp
// CHECK:         %[[C:.*]] = linalg.generic {{.*}} ins(%[[M]], %[[M1]] :
// CHECK:             math.exp
// CHECK:         %[[CL:.*]] = linalg.generic {{.*}} ins(%[[C]] :{{.*}} outs(%[[L]] :
// CHECK:         %[[L1:.*]] = linalg.generic {{.*}} ins(%[[P]] :{{.*}} outs(%[[CL]] :
// CHECK:         %[[CACC:.*]] = linalg.generic {{.*}} ins(%[[C]] :{{.*}} outs(%[[ACC]] :
// CHECK:             arith.mulf
// CHECK:         %[[ACC1:.*]] = linalg.generic {{.*}} outs(%[[CACC]] :
// CHECK:         return %[[ACC1]], %[[M1]], %[[L1]]
func.func @deferred_step(%q: !t, %acc: !t, %m: !r, %l: !r, %i0: index, %j0: index) -> (!t, !r, !r) {
  %c0 = arith.constant 0 : index
  %0:3 = flash.online_attention ins(%q, %q, %q : !t, !t, !t) outs(%acc, %m, %l : !t, !r, !r) at(%c0, %c0, %i0, %j0)
    {normalize = #flash.normalize<deferred>, scale = 1.0 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi sle, %j, %i : index
      flash.yield %keep : i1
    } -> !t, !r, !r
  return %0#0, %0#1, %0#2 : !t, !r, !r
}

// CHECK-LABEL: func @normalized_step(
// CHECK-SAME:      %[[Q:[^:]*]]: {{[^,]*}}, %[[ACC:[^:]*]]: {{[^,]*}}, %[[M:[^:]*]]: {{[^,]*}}, %[[L:[^:]*]]: {{[^)]*}})
// CHECK:         %[[CL:.*]] = linalg.generic {{.*}} outs(%[[L]] :
// CHECK:         %[[L1:.*]] = linalg.generic {{.*}} outs(%[[CL]] :
// CHECK:         %[[CACC:.*]] = linalg.generic {{.*}} ins(%[[CL]] :{{.*}} outs(%[[ACC]] :
// CHECK:         %[[PV:.*]] = linalg.generic {{.*}} outs(%[[CACC]] :
// CHECK:         %[[ACC1:.*]] = linalg.generic {{.*}} ins(%[[L1]] :{{.*}} outs(%[[PV]] :
// CHECK:             arith.divf
// CHECK:         return %[[ACC1]], %{{.*}}, %[[L1]]
func.func @normalized_step(%q: !t, %acc: !t, %m: !r, %l: !r) -> (!t, !r, !r) {
  %c0 = arith.constant 0 : index
  %0:3 = flash.online_attention ins(%q, %q, %q : !t, !t, !t) outs(%acc, %m, %l : !t, !r, !r) at(%c0, %c0, %c0, %c0)
    {normalize = #flash.normalize<each_step>, scale = 1.0 : f32} -> !t, !r, !r
  return %0#0, %0#1, %0#2 : !t, !r, !r
}

!o = tensor<1x1x16x8xf16>

// CHECK-LABEL: func @finalize(
// CHECK:         arith.divf
// CHECK:         arith.truncf %{{.*}} : f32 to f16
// CHECK:         math.log
// CHECK-NOT:     arith.divf
// CHECK:         arith.truncf %{{.*}} : f32 to f16
// CHECK-NOT:     arith.divf
func.func @finalize(%acc: !t, %m: !r, %l: !r, %o: !o, %lse: !r) -> (!o, !r, !o) {
  %0:2 = flash.finalize ins(%acc, %m, %l : !t, !r, !r) outs(%o, %lse : !o, !r)
    {normalize = #flash.normalize<deferred>} -> !o, !r
  %1:2 = flash.finalize ins(%acc, %m, %l : !t, !r, !r) outs(%o, %lse : !o, !r)
    {normalize = #flash.normalize<each_step>} -> !o, !r
  return %0#0, %0#1, %1#0 : !o, !r, !o
}

// A sum of 0 is guarded against, whether or not the mask keeps a key of every row: scores may be -inf.
// CHECK-LABEL: func @guarded(
// CHECK:         arith.select
// CHECK-LABEL: func @no_empty_rows(
// CHECK:         arith.select
func.func @guarded(%acc: !t, %m: !r, %l: !r, %o: !t, %lse: !r) -> (!t, !r) {
  %0:2 = flash.finalize ins(%acc, %m, %l : !t, !r, !r) outs(%o, %lse : !t, !r)
    {normalize = #flash.normalize<deferred>} -> !t, !r
  return %0#0, %0#1 : !t, !r
}
func.func @no_empty_rows(%acc: !t, %m: !r, %l: !r, %o: !t, %lse: !r) -> (!t, !r) {
  %0:2 = flash.finalize ins(%acc, %m, %l : !t, !r, !r) outs(%o, %lse : !t, !r)
    {no_empty_rows, normalize = #flash.normalize<deferred>} -> !t, !r
  return %0#0, %0#1 : !t, !r
}

// CHECK-LABEL: func @memrefs(
// CHECK-COUNT-8: linalg.generic
// CHECK:         bufferization.materialize_in_destination
// CHECK-NOT:     flash.
func.func @memrefs(%q: memref<1x1x8x8xf32>, %o: memref<1x1x8x8xf32>, %lse: memref<1x1x8xf32>) {
  flash.attention ins(%q, %q, %q : memref<1x1x8x8xf32>, memref<1x1x8x8xf32>, memref<1x1x8x8xf32>)
    outs(%o, %lse : memref<1x1x8x8xf32>, memref<1x1x8xf32>) {scale = 5.000000e-01 : f32}
  return
}
