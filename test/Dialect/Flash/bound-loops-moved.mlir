// Tiles that begin at the first key that the tile of queries may keep, where that is anywhere: where they are moved, and
// where they stay on the loop's grid.
// RUN: %vary %s | flashc-opt --split-input-file --flash-bound-loops --canonicalize --cse | FileCheck %s
// RUN: %vary %s | flashc-opt --split-input-file --flash-print-mask-bounds -o /dev/null | FileCheck %s --check-prefix=PRINT

!q = tensor<1x1x16x8xf32>
!k = tensor<1x1x32x8xf32>
!m = tensor<1x1x16xf32>
func.func @NAME(%q: !q, %k: !k, %acc: !q, %left: index, %m: !m, %from: index, %to: index, %nk: index, %i0: index) -> !q {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %r:3 = scf.for %j0 = %c0 to %nk step %c32 iter_args(%a = %acc, %b = %m, %c = %m) -> (!q, !m, !m) {
    %t:3 = flash.online_attention ins(%q, %k, %k : !q, !k, !k) outs(%a, %b, %c : !q, !m, !m)
        at(%c0, %c0, %i0, %j0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32}
        mask (%mb: index, %h: index, %i: index, %j: index) {
          %keep = arith.cmpi slt, %j, %nk : index // BODY
          flash.yield %keep : i1
        } -> !q, !m, !m
    scf.yield %t#0, %t#1, %t#2 : !q, !m, !m
  }
  return %r#0 : !q
}

// Without the left masked loop's tiles if all queries begin at the same key: the first full tile is the first tile.
// CHECK-DAG:   #[[CEIL:.*]] = affine_map<()[s0, s1] -> (s0 + ((-s0 + s1) ceildiv 32) * 32)>
// CHECK-DAG:   #[[FLOOR:.*]] = affine_map<()[s0, s1, s2] -> (s0 + ((-s0 + s1) floordiv 32) * 32, s0 + ((-s0 + s2) ceildiv 32) * 32)>
// CHECK-LABEL: func @between(
// CHECK-SAME:      %[[FROM:[^:]*]]: index, %[[TO:[^:]*]]: index, %[[NK:[^:]*]]: index, %[[I:[^:]*]]: index)
// CHECK-DAG:     %[[BEHIND:.*]] = affine.min #{{.*}}()[%[[NK]], %[[TO]]]
// CHECK-DAG:     %[[LOW:.*]] = affine.max #{{.*}}()[%[[FROM]]]
// CHECK-DAG:     %[[BEGIN:.*]] = affine.min #{{.*}}()[%[[LOW]], %[[NK]], %[[TO]]]
// CHECK-DAG:     %[[END:.*]] = affine.apply #[[CEIL]]()[%[[BEGIN]], %[[BEHIND]]]
// CHECK-DAG:     affine.min #[[FLOOR]]()[%[[BEGIN]], %[[BEHIND]], %[[BEHIND]]]
// CHECK:         scf.for %{{.*}} = %[[BEGIN]] to %[[FULL:.*]] step %c32
// CHECK:           mask (
// CHECK:         scf.for %{{.*}} = %[[FULL]] to %[[LAST:.*]] step %c32
// CHECK-NOT:       mask (
// CHECK:         scf.for %{{.*}} = %[[LAST]] to %[[END]] step %c32
// CHECK:           mask (
// PRINT-LABEL: mask in @between:
// PRINT:       kept [%{{.*}}, min(%{{.*}}, %{{.*}})) if
// PRINT-NEXT:  cut [begin, %{{.*}}) or [%{{.*}}, end) or [%{{.*}}, end)
// PRINT-NEXT:  origin %[[FROM:arg[0-9]+]]
// PRINT-NEXT:  class exact
// VARY between
//     %x = arith.cmpi sge, %j, %from : index
//     %y = arith.cmpi slt, %j, %to : index
//     %xy = arith.andi %x, %y : i1
//     %z = arith.cmpi slt, %j, %nk : index
//     %keep = arith.andi %xy, %z : i1

// No tile on the loop's grid sticks out, so that no slice is clamped and no mask ends with the keys.
// PRINT-LABEL: mask in @whole_tiles:
// PRINT:       kept [begin + (({{.*}} - begin) floordiv 32) * 32
// PRINT-NOT:   origin
// PRINT:       class exact
// VARY whole_tiles
//     %x = arith.cmpi sge, %j, %from : index
//     %y = arith.cmpi slt, %j, %to : index
//     %keep = arith.andi %x, %y : i1
//   %r:3 =>
//     %c1024 = arith.constant 1024 : index
//     %r:3
//   %nk step => %c1024 step

// A window begins at a distance from the queries: wherever tiles begin, one of them is cut by its first keys.
// PRINT-LABEL: mask in @window:
// PRINT-NOT:   origin
// PRINT:       class exact
// VARY window
//     %first = arith.subi %i, %left : index
//     %x = arith.cmpi sge, %j, %first : index
//     %z = arith.cmpi slt, %j, %nk : index
//     %keep = arith.andi %x, %z : i1

// Tiles of two intervals would overlap.
// PRINT-LABEL: mask in @two_intervals:
// PRINT-NOT:   origin
// PRINT:       class exact
// VARY two_intervals
//     %x = arith.cmpi slt, %j, %to : index
//     %y = arith.cmpi sge, %j, %from : index
//     %xy = arith.ori %x, %y : i1
//     %z = arith.cmpi slt, %j, %nk : index
//     %keep = arith.andi %xy, %z : i1

// Chunks of whole tiles begin where tiles do; others do not.
// PRINT-LABEL: mask in @chunks_of_whole_tiles:
// PRINT-NOT:   origin
// PRINT:       class exact
// PRINT-LABEL: mask in @chunks_of_48:
// PRINT:       origin (i0 floordiv 48) * 48
// VARY chunks_of_whole_tiles
//     %c64 = arith.constant 64 : index
//     %x = arith.floordivsi %i, %c64 : index
//     %y = arith.floordivsi %j, %c64 : index
//     %xy = arith.cmpi eq, %x, %y : index
//     %z = arith.cmpi slt, %j, %nk : index
//     %keep = arith.andi %xy, %z : i1

// VARY chunks_of_48
//     %c48 = arith.constant 48 : index
//     %x = arith.floordivsi %i, %c48 : index
//     %y = arith.floordivsi %j, %c48 : index
//     %xy = arith.cmpi eq, %x, %y : index
//     %z = arith.cmpi slt, %j, %nk : index
//     %keep = arith.andi %xy, %z : i1

// -----

!q = tensor<1x1x16x8xf32>
!k = tensor<1x1x8x8xf32>
!m = tensor<1x1x16xf32>

// A causal mask ends where a tile of queries does. That is the end of a tile of keys, too, if as many of these fit one of
// queries, all whole: then tiles are visited from there.
// PRINT-LABEL: mask in @NAME:
// PRINT-NOT:   origin
// PRINT:       class exact
func.func @NAME(%q: !q, %k: !k, %acc: !q, %m: !m, %from: index, %nk: index) -> !q {
  %c0 = arith.constant 0 : index
  %step = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %all = scf.for %i0 = %c0 to %nk step %c16 iter_args(%o = %acc) -> !q {
    %r:3 = scf.for %j0 = %c0 to %nk step %step iter_args(%a = %o, %b = %m, %c = %m) -> (!q, !m, !m) {
      %t:3 = flash.online_attention ins(%q, %k, %k : !q, !k, !k)
          outs(%a, %b, %c : !q, !m, !m)
          at(%c0, %c0, %i0, %j0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32}
          mask (%mb: index, %h: index, %i: index, %j: index) {
            %x = arith.cmpi sge, %j, %from : index
            %y = arith.cmpi sle, %j, %i : index
            %xy = arith.andi %x, %y : i1
            %z = arith.cmpi slt, %j, %nk : index
            %keep = arith.andi %xy, %z : i1
            flash.yield %keep : i1
          } -> !q, !m, !m
      scf.yield %t#0, %t#1, %t#2 : !q, !m, !m
    }
    scf.yield %r#0 : !q
  }
  return %all : !q
}

// 32 keys are no part of 16 queries.
// PRINT-LABEL: mask in @causal_16_by_32:
// PRINT:       kept [%{{.*}}, min(i0 + rows, %{{.*}})) if
// PRINT:       origin %arg
// VARY causal_16_by_32
//   !k = tensor<1x1x8x8xf32> => !k = tensor<1x1x32x8xf32>
//   %step = arith.constant 8 => %step = arith.constant 32
