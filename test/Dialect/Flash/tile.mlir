// RUN: flashc-opt %s --flash-tile --canonicalize --cse --split-input-file | FileCheck %s
// RUN: flashc-opt %s --flash-tile="q-tile=128 kv-tile=32" --canonicalize --cse --split-input-file | FileCheck %s --check-prefix=SIZES
// RUN: flashc-opt %s --flash-tile --flash-tile --canonicalize --cse --split-input-file | FileCheck %s

!q = tensor<2x8x256x64xbf16>
!k = tensor<2x2x128x64xbf16>
!v = tensor<2x2x128x32xbf16>
!acc = tensor<2x8x256x32xf32>
!row = tensor<2x8x256xf32>

// Lengths are multiples of the tiles: no padding, no mask. Keys are the outer of the two sequence loops.

// CHECK:       #[[GROUP:.*]] = affine_map<(d0) -> (d0 floordiv 4)>
// CHECK-LABEL: func @whole_tiles(
// CHECK-SAME:      %[[Q:[^:]*]]: {{[^,]*}}, %[[K:[^:]*]]: {{[^,]*}}, %[[V:[^:]*]]: {{[^,]*}}, %[[ACC:[^:]*]]: {{[^,]*}}, %[[M:[^:]*]]: {{[^,]*}}, %[[L:[^:]*]]: {{[^)]*}})
// CHECK-DAG:     %[[C2:.*]] = arith.constant 2 : index
// CHECK-DAG:     %[[C8:.*]] = arith.constant 8 : index
// CHECK-DAG:     %[[C64:.*]] = arith.constant 64 : index
// CHECK-DAG:     %[[C128:.*]] = arith.constant 128 : index
// CHECK-DAG:     %[[C256:.*]] = arith.constant 256 : index
// CHECK:         %[[S:.*]]:3 = scf.for %[[B:[^ ]*]] = %{{.*}} to %[[C2]] step %{{.*}} iter_args(%{{.*}} = %[[ACC]], %{{.*}} = %[[M]], %{{.*}} = %[[L]])
// CHECK:           scf.for %[[H:[^ ]*]] = %{{.*}} to %[[C8]] step
// CHECK:             scf.for %[[J:[^ ]*]] = %{{.*}} to %[[C128]] step %[[C64]] iter_args
// CHECK:               scf.for %[[I:[^ ]*]] = %{{.*}} to %[[C256]] step %[[C64]] iter_args(%[[A0:[^ ]*]] = %{{.*}}, %[[M0:[^ ]*]] = %{{.*}}, %[[L0:[^ ]*]] = %{{.*}})
// CHECK-NOT:             tensor.pad
// CHECK-DAG:             %[[HK:.*]] = affine.apply #[[GROUP]](%[[H]])
// CHECK-DAG:             %[[QT:.*]] = tensor.extract_slice %[[Q]][%[[B]], %[[H]], %[[I]], 0] [1, 1, 64, 64]
// CHECK-DAG:             %[[KT:.*]] = tensor.extract_slice %[[K]][%[[B]], %[[HK]], %[[J]], 0] [1, 1, 64, 64]
// CHECK-DAG:             %[[VT:.*]] = tensor.extract_slice %[[V]][%[[B]], %[[HK]], %[[J]], 0] [1, 1, 64, 32]
// CHECK-DAG:             %[[AT:.*]] = tensor.extract_slice %[[A0]][%[[B]], %[[H]], %[[I]], 0] [1, 1, 64, 32]
// CHECK-DAG:             %[[MT:.*]] = tensor.extract_slice %[[M0]][%[[B]], %[[H]], %[[I]]] [1, 1, 64]
// CHECK-DAG:             %[[LT:.*]] = tensor.extract_slice %[[L0]][%[[B]], %[[H]], %[[I]]] [1, 1, 64]
// CHECK:                 %[[A1:.*]], %[[M1:.*]], %[[L1:.*]] = flash.online_attention ins(%[[QT]], %[[KT]], %[[VT]] :
// CHECK-SAME:                outs(%[[AT]], %[[MT]], %[[LT]] :
// CHECK-SAME:                at(%[[B]], %[[H]], %[[I]], %[[J]]) {normalize = #flash.normalize<each_step>, scale = 1.250000e-01 : f32}
// CHECK-SAME:                -> tensor<1x1x64x32xf32>, tensor<1x1x64xf32>, tensor<1x1x64xf32>
// CHECK-DAG:             tensor.insert_slice %[[A1]] into %[[A0]][%[[B]], %[[H]], %[[I]], 0] [1, 1, 64, 32]
// CHECK-DAG:             tensor.insert_slice %[[M1]] into %[[M0]][%[[B]], %[[H]], %[[I]]] [1, 1, 64]
// CHECK-DAG:             tensor.insert_slice %[[L1]] into %[[L0]][%[[B]], %[[H]], %[[I]]] [1, 1, 64]
// CHECK:         return %[[S]]#0, %[[S]]#1, %[[S]]#2

// SIZES-LABEL: func @whole_tiles(
// SIZES:         flash.online_attention ins({{.*}} : tensor<1x1x128x64xbf16>, tensor<1x1x32x64xbf16>, tensor<1x1x32x32xbf16>)
func.func @whole_tiles(%q: !q, %k: !k, %v: !v, %acc: !acc, %m: !row, %l: !row) -> (!acc, !row, !row) {
  %c0 = arith.constant 0 : index
  %0:3 = flash.online_attention ins(%q, %k, %v : !q, !k, !v) outs(%acc, %m, %l : !acc, !row, !row)
    at(%c0, %c0, %c0, %c0) {normalize = #flash.normalize<each_step>, scale = 1.250000e-01 : f32} -> !acc, !row, !row
  return %0#0, %0#1, %0#2 : !acc, !row, !row
}

// -----

!q = tensor<1x1x?x16xf32>
!k = tensor<1x1x?x16xf32>
!row = tensor<1x1x?xf32>

// Tiles that may stick out are padded and cut back; a mask keeps out the keys past the end.

// CHECK:       #[[SIZE:.*]] = affine_map<(d0)[s0] -> (-d0 + s0, 64)>
// CHECK:       #[[MISSING:.*]] = affine_map<(d0) -> (-d0 + 64)>
// CHECK-LABEL: func @tails(
// CHECK-SAME:      %[[Q:[^:]*]]: {{[^,]*}}, %[[K:[^:]*]]: {{[^,]*}}, %[[ACC:[^:]*]]: {{[^,]*}}, %[[M:[^:]*]]: {{[^,]*}}, %[[L:[^:]*]]: {{[^)]*}})
// CHECK-DAG:     %[[NEG_INF:.*]] = arith.constant 0xFF800000 : f32
// CHECK-DAG:     %[[NQ:.*]] = tensor.dim %[[Q]], %
// CHECK-DAG:     %[[NK:.*]] = tensor.dim %[[K]], %
// CHECK:         scf.for %[[J:[^ ]*]] = %{{.*}} to %[[NK]] step
// CHECK:           scf.for %[[I:[^ ]*]] = %{{.*}} to %[[NQ]] step {{.*}} iter_args(%[[A0:[^ ]*]] = %{{.*}}, %[[M0:[^ ]*]] = %{{.*}}, %[[L0:[^ ]*]] = %{{.*}})
// CHECK-DAG:         %[[KEYS:.*]] = affine.min #[[SIZE]](%[[J]])[%[[NK]]]
// CHECK-DAG:         %[[ROWS:.*]] = affine.min #[[SIZE]](%[[I]])[%[[NQ]]]
// CHECK:             %[[NO_ROWS:.*]] = affine.apply #[[MISSING]](%[[ROWS]])
// CHECK:             %[[MS:.*]] = tensor.extract_slice %[[M0]]
// CHECK:             %[[MT:.*]] = tensor.pad %[[MS]]
// CHECK:               tensor.yield %[[NEG_INF]] : f32
// CHECK:             %[[QS:.*]] = tensor.extract_slice %[[Q]][0, 0, %[[I]], 0] [1, 1, %[[ROWS]], 16]
// CHECK:             %[[QT:.*]] = tensor.pad %[[QS]] low[0, 0, 0, 0] high[0, 0, %[[NO_ROWS]], 0]
// CHECK:             %[[KS:.*]] = tensor.extract_slice %[[K]][0, 0, %[[J]], 0] [1, 1, %[[KEYS]], 16]
// CHECK:             %[[NO_KEYS:.*]] = affine.apply #[[MISSING]](%[[KEYS]])
// CHECK:             %[[KT:.*]] = tensor.pad %[[KS]] low[0, 0, 0, 0] high[0, 0, %[[NO_KEYS]], 0]
// CHECK:             flash.online_attention ins(%[[QT]], %[[KT]], %[[KT]] : tensor<1x1x64x16xf32>, tensor<1x1x64x16xf32>, tensor<1x1x64x16xf32>)
// CHECK-SAME:            mask (%{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %[[KEY:.*]]: index) {
// CHECK-NEXT:              %[[INSIDE:.*]] = arith.cmpi slt, %[[KEY]], %[[NK]] : index
// CHECK-NEXT:              flash.yield %[[INSIDE]] : i1
// CHECK:             %[[RESULT:.*]] = tensor.extract_slice %{{.*}}[0, 0, 0, 0] [1, 1, %[[ROWS]], 16]
// CHECK:             tensor.insert_slice %[[RESULT]] into %[[A0]][0, 0, %[[I]], 0] [1, 1, %[[ROWS]], 16]
func.func @tails(%q: !q, %k: !k, %acc: !q, %m: !row, %l: !row) -> (!q, !row, !row) {
  %c0 = arith.constant 0 : index
  %0:3 = flash.online_attention ins(%q, %k, %k : !q, !k, !k) outs(%acc, %m, %l : !q, !row, !row)
    at(%c0, %c0, %c0, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !q, !row, !row
  return %0#0, %0#1, %0#2 : !q, !row, !row
}

// -----

!q = tensor<1x1x128x16xf32>
!k = tensor<1x1x100x16xf32>
!row = tensor<1x1x128xf32>

// The op is a part of a larger attention, from key %j0 on: positions are absolute, and so is the end of its keys. Reads
// at positions past the end stay inside what they read; those that do not depend on j are not touched.

// CHECK-LABEL: func @absolute_positions(
// CHECK-SAME:      %[[J0:[^:]*]]: index, %[[LENGTHS:[^:]*]]: tensor<?xindex>, %[[BIAS:[^:]*]]: tensor<228x?xf32>)
// CHECK-DAG:     %[[LAST:.*]] = arith.constant 227 : index
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0 : index
// CHECK:         scf.for %[[J:[^ ]*]] =
// CHECK:           scf.for %[[I:[^ ]*]] =
// CHECK:             %[[AJ:.*]] = affine.apply #{{.*}}(%[[J]])[%[[J0]]]
// CHECK:             %[[END:.*]] = arith.addi %[[J0]], %{{.*}} : index
// CHECK:             flash.online_attention {{.*}} at(%{{.*}}, %{{.*}}, %[[I]], %[[AJ]])
// CHECK-SAME:          score (%{{.*}}: f32, %{{.*}}: index, %{{.*}}: index, %[[SI:.*]]: index, %[[SJ:.*]]: index) {
// CHECK-NEXT:            %[[LOW:.*]] = arith.minsi %[[SJ]], %[[LAST]]
// CHECK-NEXT:            %[[IN:.*]] = arith.maxsi %[[LOW]], %[[ZERO]]
// CHECK-NEXT:            tensor.extract %[[BIAS]][%[[IN]], %[[SI]]]
// CHECK:               } mask (%[[B:.*]]: index, %{{.*}}: index, %{{.*}}: index, %[[MJ:.*]]: index) {
// CHECK-NEXT:            %[[N:.*]] = tensor.extract %[[LENGTHS]][%[[B]]]
// CHECK-NEXT:            %[[USER:.*]] = arith.cmpi slt, %[[MJ]], %[[N]]
// CHECK-NEXT:            %[[INSIDE:.*]] = arith.cmpi slt, %[[MJ]], %[[END]]
// CHECK-NEXT:            %[[BOTH:.*]] = arith.andi %[[USER]], %[[INSIDE]]
// CHECK-NEXT:            flash.yield %[[BOTH]]
func.func @absolute_positions(%q: !q, %k: !k, %m: !row, %j0: index, %lengths: tensor<?xindex>, %bias: tensor<228x?xf32>)
    -> !q {
  %c0 = arith.constant 0 : index
  %0:3 = flash.online_attention ins(%q, %k, %k : !q, !k, !k) outs(%q, %m, %m : !q, !row, !row)
    at(%c0, %c0, %c0, %j0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %e = tensor.extract %bias[%j, %i] : tensor<228x?xf32>
      %t = arith.addf %s, %e : f32
      flash.yield %t : f32
    }
    mask (%b: index, %h: index, %i: index, %j: index) {
      %n = tensor.extract %lengths[%b] : tensor<?xindex>
      %keep = arith.cmpi slt, %j, %n : index
      flash.yield %keep : i1
    } -> !q, !row, !row
  return %0#0 : !q
}

// -----

!q = tensor<1x1x100x16xf32>
!row = tensor<1x1x100xf32>

// A divisor that is computed from a position is replaced where it is 0, which may be so behind the end only. Others are
// the program's own.
// CHECK-LABEL: func @divisions(
// CHECK-SAME:      %[[BLOCK:[^:]*]]: index)
// CHECK:         mask (%{{.*}}: index, %{{.*}}: index, %[[I:.*]]: index, %[[J:.*]]: index) {
// CHECK-NEXT:      %[[REST:.*]] = arith.subi %{{.*}}, %[[J]] : index
// CHECK-NEXT:      %[[IS_ZERO:.*]] = arith.cmpi eq, %[[REST]], %c0
// CHECK-NEXT:      %[[DIVISOR:.*]] = arith.select %[[IS_ZERO]], %c1, %[[REST]] : index
// CHECK-NEXT:      arith.remsi %[[I]], %[[DIVISOR]]
// CHECK-NEXT:      arith.divsi %[[J]], %[[BLOCK]]
func.func @divisions(%q: !q, %m: !row, %block: index) -> !q {
  %c0 = arith.constant 0 : index
  %0:3 = flash.online_attention ins(%q, %q, %q : !q, !q, !q) outs(%q, %m, %m : !q, !row, !row)
    at(%c0, %c0, %c0, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %c100 = arith.constant 100 : index
      %rest = arith.subi %c100, %j : index
      %x = arith.remsi %i, %rest : index
      %y = arith.divsi %j, %block : index
      %keep = arith.cmpi sle, %x, %y : index
      flash.yield %keep : i1
    } -> !q, !row, !row
  return %0#0 : !q
}
