// Several runs of key tiles, with a mask or without, are numbered so that one loop visits them: the masked ones first, and
// of each kind the last keys first.
// RUN: split-file %s %t
// Nothing says here that each row sees a key: the number of tiles may be 0.
// RUN: sed 's/DIM/64/g' %t/sink-window.mlir | flashc - --emit=loops --q-tile=128 --kv-tile=112 | sed "s/no_empty_rows, //" > %t/loops.mlir
// RUN: flashc-opt %t/loops.mlir --convert-flash-to-tile=schedule=consumers=2,kv-tile=112,own-keys=false --canonicalize --cse | FileCheck %t/sink-window.mlir
// RUN: flashc %t/loops.mlir --passes=canonicalize --schedule=consumers=2,kv-tile=112,own-keys=false --emit=tile | FileCheck %t/sink-window.mlir --check-prefix=SPLIT
// RUN: %vary %t/gaps.mlir | flashc-opt --split-input-file --convert-flash-to-tile=schedule=consumers=2,kv-tile=64,persistent=false --canonicalize --cse | FileCheck %t/gaps.mlir

//--- sink-window.mlir
// Sink tokens and a window: four runs, three of them masked. B0 to B2 count the visits before each piece.
// CHECK-LABEL: gpu.func @sink_window(
// CHECK:         %[[B0:.*]] = arith.divui
// CHECK:         %[[N1:.*]] = arith.divui
// CHECK-NEXT:    %[[B1:.*]] = arith.addi %[[B0]], %[[N1]]
// CHECK:         %[[N2:.*]] = arith.divui
// CHECK-NEXT:    %[[MASKED:.*]] = arith.addi %[[B1]], %[[N2]]
// CHECK:         %[[N3:.*]] = arith.divui
// CHECK-NEXT:    %[[COUNT:.*]] = arith.addi %[[MASKED]], %[[N3]]
// CHECK:         %[[TOTAL:.*]] = arith.maxsi %[[COUNT]], %c1
// CHECK:         %[[EMPTY:.*]] = arith.cmpi eq, %[[COUNT]], %c0
// CHECK:         %[[SINK:.*]] = arith.select %[[EMPTY]], %c0, %{{.*}} : index
// CHECK:         scf.for %[[U:.*]] = %c0 to %[[TOTAL]]
// CHECK:           %[[DISTANCE:.*]] = arith.muli %[[U]], %c112
// CHECK:           %[[IS1:.*]] = arith.cmpi sge, %[[U]], %[[B0]]
// CHECK:           %[[KEY1:.*]] = arith.select %[[IS1]], %{{.*}}, %{{.*}} : index
// CHECK:           %[[IS2:.*]] = arith.cmpi sge, %[[U]], %[[B1]]
// CHECK:           %[[KEY2:.*]] = arith.select %[[IS2]], %[[SINK]], %[[KEY1]] : index
// CHECK:           %[[OUTSIDE:.*]] = tile.outside %[[U]] of[%[[MASKED]], %[[COUNT]])
// CHECK:           %[[FROM:.*]] = arith.select %[[OUTSIDE]], %[[KEY2]], %{{.*}} : index
// CHECK:           %[[KEY:.*]] = arith.subi %[[FROM]], %[[DISTANCE]]
// CHECK:           %[[K:.*]] = tile.load %{{.*}}[%{{.*}}, %{{.*}}, %[[KEY]]]
// CHECK:           scf.if %[[OUTSIDE]]
// CHECK:             tile.map %{{.*}} at(%{{.*}}, %[[KEY]])
// CHECK:           %[[V:.*]] = tile.load %{{.*}}[%{{.*}}, %{{.*}}, %[[KEY]]]

// The producer asks in its loop, the consumers have one loop of each kind. Without a score region the one without a mask
// needs no key.
// SPLIT-LABEL: gpu.func @sink_window(
// SPLIT:         producer
// SPLIT:           tile.outside
// SPLIT:         consumer
// SPLIT:           tile.map
// SPLIT:           scf.for %[[U:.*]] = %c1 to %[[MASKED:[^ ]*]] step
// SPLIT-NOT:         tile.outside
// SPLIT:             arith.cmpi sge, %[[U]], %
// SPLIT-NEXT:        arith.select
// SPLIT-NEXT:        arith.cmpi sge, %[[U]], %
// SPLIT-NEXT:        arith.select
// SPLIT-NEXT:        arith.subi
// SPLIT:             tile.map
// SPLIT:           scf.for %{{.*}} = %[[MASKED]] to %
// SPLIT-NOT:         arith.select {{.*}} : index
// SPLIT-NOT:         tile.map
// SPLIT-NOT:       scf.for
// SPLIT:           tile.store
!t = tensor<2x16x2688xDIMxbf16>
func.func @sink_window(%q: !t, %k: !t, %v: !t) -> !t {
  %width = arith.constant 1000 : index
  %c4 = arith.constant 4 : index
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %oldest = arith.subi %i, %width : index
        %causal = arith.cmpi sle, %j, %i : index
        %recent = arith.cmpi sge, %j, %oldest : index
        %sinks = arith.cmpi slt, %j, %c4 : index
        %or = arith.ori %recent, %sinks : i1
        %keep = arith.andi %causal, %or : i1
        flash.yield %keep : i1
      } -> !t, tensor<2x16x2688xf32>
  return %o : !t
}

//--- gaps.mlir
// Full tiles apart from each other: no mask, and the last one first.
// CHECK-LABEL: gpu.func @gap_between_loops(
// CHECK:         scf.for %[[U:.*]] = %c0 to %c3 step %c1
// CHECK:           %[[DISTANCE:.*]] = arith.muli %[[U]], %c64
// CHECK:           %[[IS1:.*]] = arith.cmpi sge, %[[U]], %c2
// CHECK:           %[[FROM:.*]] = arith.select %[[IS1]], %c128, %c256
// CHECK:           arith.subi %[[FROM]], %[[DISTANCE]]
// CHECK-NOT:       tile.outside
// CHECK-NOT:       tile.map
// CHECK:         tile.store
!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!keys = tensor<1x1x320x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
func.func @gap_between_loops(%q: !q, %k: !keys, %v: !keys) -> !q {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c192 = arith.constant 192 : index
  %c320 = arith.constant 320 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %eo = tensor.empty() : !q
  %eacc = tensor.empty() : !acc
  %em = tensor.empty() : !m
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  %k0 = tensor.extract_slice %k[0, 0, 0, 0] [1, 1, 64, 64] [1, 1, 1, 1] : !keys to !k
  %v0 = tensor.extract_slice %v[0, 0, 0, 0] [1, 1, 64, 64] [1, 1, 1, 1] : !keys to !k
  %r:3 = flash.online_attention ins(%q, %k0, %v0 : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
      at(%c0, %c0, %c0, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
  %s:3 = scf.for %j = %c192 to %c320 step %c64 iter_args(%xa = %r#0, %xm = %r#1, %xl = %r#2) -> (!acc, !m, !m) {
    %k1 = tensor.extract_slice %k[0, 0, %j, 0] [1, 1, 64, 64] [1, 1, 1, 1] : !keys to !k
    %v1 = tensor.extract_slice %v[0, 0, %j, 0] [1, 1, 64, 64] [1, 1, 1, 1] : !keys to !k
    %y:3 = flash.online_attention ins(%q, %k1, %v1 : !q, !k, !k) outs(%xa, %xm, %xl : !acc, !m, !m)
      at(%c0, %c0, %c0, %j) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
    scf.yield %y#0, %y#1, %y#2 : !acc, !m, !m
  }
  %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%eo, %em : !q, !m)
      {normalize = #flash.normalize<deferred>} -> !q, !m
  return %o : !q
}

// -----

// Nothing says whether there is a tile: without one the first tile of keys is masked as a whole.
// CHECK-LABEL: gpu.func @NAME(
// CHECK:         %[[N0:.*]] = arith.divui
// CHECK:         %[[N1:.*]] = arith.divui
// CHECK-NEXT:    %[[COUNT:.*]] = arith.addi %[[N0]], %[[N1]]
// CHECK:         arith.maxsi %[[COUNT]], %c1
// CHECK:         %[[EMPTY:.*]] = arith.cmpi eq, %[[COUNT]], %c0
// CHECK:         arith.select %[[EMPTY]], %c0
// CHECK:         scf.for
// CHECK:           tile.outside %{{.*}} of[%c0, %[[COUNT]])
// CHECK:         arith.cmpf oeq
// CHECK:         tile.store

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!keys = tensor<1x1x320x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
func.func @NAME(%q: !q, %k: !keys, %v: !keys, %x: index, %y: index, %z: index) -> (!q, !m) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %eo = tensor.empty() : !q
  %eacc = tensor.empty() : !acc
  %em = tensor.empty() : !m
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  %r:3 = scf.for %j = %c0 to %x step %c64 iter_args(%xa = %acc, %xm = %m, %xl = %l) -> (!acc, !m, !m) {
    %k0 = tensor.extract_slice %k[0, 0, %j, 0] [1, 1, 64, 64] [1, 1, 1, 1] : !keys to !k
    %v0 = tensor.extract_slice %v[0, 0, %j, 0] [1, 1, 64, 64] [1, 1, 1, 1] : !keys to !k
    %y0:3 = flash.online_attention ins(%q, %k0, %v0 : !q, !k, !k) outs(%xa, %xm, %xl : !acc, !m, !m)
      at(%c0, %c0, %c0, %j) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
    scf.yield %y0#0, %y0#1, %y0#2 : !acc, !m, !m
  }
  %s:3 = scf.for %j = %y to %z step %c64 iter_args(%xa = %r#0, %xm = %r#1, %xl = %r#2) -> (!acc, !m, !m) {
    %k1 = tensor.extract_slice %k[0, 0, %j, 0] [1, 1, 64, 64] [1, 1, 1, 1] : !keys to !k
    %v1 = tensor.extract_slice %v[0, 0, %j, 0] [1, 1, 64, 64] [1, 1, 1, 1] : !keys to !k
    %y1:3 = flash.online_attention ins(%q, %k1, %v1 : !q, !k, !k) outs(%xa, %xm, %xl : !acc, !m, !m)
      at(%c0, %c0, %c0, %j) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
    scf.yield %y1#0, %y1#1, %y1#2 : !acc, !m, !m
  }
  %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%eo, %em : !q, !m)
      {normalize = #flash.normalize<deferred>} -> !q, !m
  return %o, %lse : !q, !m
}

// A row's promise of a key is one of a tile as well.
// CHECK-LABEL: gpu.func @never_empty(
// CHECK-NOT:     arith.cmpi eq
// CHECK:         scf.for
// CHECK-NOT:       tile.outside
// CHECK-NOT:       tile.map
// CHECK:         tile.store
// VARY never_empty
//   deferred>} -> !q, !m => deferred>, no_empty_rows} -> !q, !m
