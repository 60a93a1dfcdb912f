// Which key tiles are visited, in which order, and which of them are masked.
// DEFINE: %{l1} = --flash-online-softmax --flash-tile="q-tile=192 kv-tile=128" --canonicalize --cse --flash-swap-loops --flash-bound-loops=maps=false --flash-parallelize --canonicalize --cse
// RUN: flashc-opt %s --split-input-file %{l1} --convert-flash-to-tile=schedule=consumers=3,kv-tile=128,persistent=false,own-keys=false --canonicalize --cse | FileCheck %s

!t = tensor<2x8x384x64xbf16>
!lse = tensor<2x8x384xf32>

// Nothing is masked: forwards.
// CHECK-LABEL: gpu.func @dense(
// CHECK-SAME:    grid = ["ceildiv(384, 192)", "8", "2"]
// CHECK:         scf.for %[[U:.*]] = %c0 to %c3 step %c1
// CHECK:           %[[KEY:.*]] = arith.muli %[[U]], %c128
// CHECK:           %[[K:.*]] = tile.load %{{.*}}[%{{.*}}, %{{.*}}, %[[KEY]]]
// CHECK:           %[[TOKEN:.*]] = tile.mma_async %{{.*}}, %[[K]]
// CHECK:           %[[S:.*]] = tile.mma_wait %[[TOKEN]]
// CHECK:           tile.row_reduce max_of_bits %[[S]]
// CHECK:         tile.store {{.*}} limit %c384
func.func @dense(%q: !t, %k: !t, %v: !t) -> (!t, !lse) {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32} -> !t, !lse
  return %o, %lse : !t, !lse
}

// -----

!q = tensor<1x4x300x64xbf16>
!k = tensor<1x2x300x64xbf16>
!lse = tensor<1x4x300xf32>

// The last tile sticks out of the keys and is visited first. One batch: its loop is gone. Results in another order.
// CHECK-LABEL: gpu.func @odd_lengths(
// CHECK-SAME:    {dtype = "f32", name = "lse", role = "output", shape = [1, 4, 300]}, {dtype = "bf16", name = "o", role = "output", shape = [1, 4, 300, 64]}
// CHECK-SAME:    grid = ["ceildiv(300, 192)", "4", "1"]
// CHECK:         tile.load %{{.*}}[%c0, %block_id_y, %{{.*}}]
// CHECK:         scf.for %[[U:.*]] = %c0 to %c3 step %c1
// CHECK:           %[[DISTANCE:.*]] = arith.muli %[[U]], %c128
// CHECK:           arith.subi %c256, %[[DISTANCE]]
// CHECK:           %[[NEEDS:.*]] = tile.outside %[[U]] of[%c1, %c3)
// CHECK:           scf.if %[[NEEDS]]
// CHECK:             arith.cmpi slt, %{{.*}}, %c300
func.func @odd_lengths(%q: !q, %k: !k, %v: !k) -> (!lse, !q) {
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !k, !k) {scale = 0.125 : f32} -> !q, !lse
  return %lse, %o : !lse, !q
}

// -----

!q = tensor<1x1x100x64xbf16>
!k = tensor<1x1x128x64xbf16>
!lse = tensor<1x1x100xf32>

// Every loop of L1 had one iteration and is gone.
// CHECK-LABEL: gpu.func @one_tile(
// CHECK-SAME:    grid = ["ceildiv(100, 192)", "1", "1"]
// CHECK-NOT:     scf.for
// CHECK:         tile.store {{.*}} limit %c100
// CHECK-NOT:     tile.store
func.func @one_tile(%q: !q, %k: !k, %v: !k) -> !q {
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !k, !k) {scale = 0.125 : f32} -> !q, !lse
  return %o : !q
}

// -----

!t = tensor<2x2x384x64xbf16>
!lse = tensor<2x2x384xf32>

// A window: the first visited tile is the last one that is kept. If none is, it is the first of all, which the mask
// excludes, and not one beside it, of which the mask may keep what does not exist.
// CHECK-LABEL: gpu.func @window(
// CHECK:         %[[COUNT:.*]] = arith.divui
// CHECK:         %[[TOTAL:.*]] = arith.maxsi %[[COUNT]], %c1
// CHECK:         %[[LAST:.*]] = arith.subi %[[TOTAL]], %c1
// CHECK:         %[[DISTANCE:.*]] = arith.muli %[[LAST]], %c128
// CHECK:         %[[LAST_KEY:.*]] = arith.addi %[[BEGIN:.*]], %[[DISTANCE]]
// CHECK:         %[[EMPTY:.*]] = arith.cmpi eq, %[[COUNT]], %c0
// CHECK:         %[[FIRST_KEY:.*]] = arith.select %[[EMPTY]], %c0, %[[LAST_KEY]]
// CHECK:         %[[FULL_BEGIN:.*]] = arith.subi %[[COUNT]], %
// CHECK:         %[[FULL_END:.*]] = arith.subi %[[COUNT]], %
// CHECK:         scf.for %[[U:.*]] = %c0 to %[[TOTAL]]
// CHECK:           tile.outside %[[U]] of[%[[FULL_BEGIN]], %[[FULL_END]])
func.func @window(%q: !t, %k: !t, %v: !t, %width: index) -> !t {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %oldest = arith.subi %i, %width : index
      %isCausal = arith.cmpi sle, %j, %i : index
      %isRecent = arith.cmpi sge, %j, %oldest : index
      %keep = arith.andi %isCausal, %isRecent : i1
      flash.yield %keep : i1
    } -> !t, !lse
  return %o : !t
}

// -----

!q = tensor<2x2x384x64xbf16>
!k = tensor<2x2x256x64xbf16>
!lse = tensor<2x2x384xf32>

// A mask that is not understood: every tile is masked, so there is nothing to ask. The scalar part is computed once.
// Keys are values: one map serves both.
// CHECK-LABEL: gpu.func @opaque_mask(
// CHECK-SAME:    %[[SEGMENTS:[^:]*]]: memref<2x256xf32, strided<[?, 1]>>, %{{[^:]*}}: memref<2x2x384x64xbf16, strided<[?, ?, ?, 1]>>) kernel
// CHECK-DAG:     %[[B:.*]] = gpu.block_id z
// CHECK-DAG:     %[[SEGMENT:.*]] = memref.load %[[SEGMENTS]][%[[B]], %c0]
// CHECK:         scf.for {{.*}} = %c0 to %c2 step %c1
// CHECK-NOT:       tile.outside
// CHECK:           tile.map
// CHECK:           ^bb0(%[[S:.*]]: f32, %{{.*}}: index, %[[J:.*]]: index):
// CHECK:             %[[OTHER:.*]] = memref.load %[[SEGMENTS]][%[[B]], %[[J]]]
// CHECK:             %[[KEEP:.*]] = arith.cmpf oeq, %[[OTHER]], %[[SEGMENT]]
// CHECK:             arith.select %[[KEEP]], %[[S]], %
// CHECK-NOT:       tile.map
func.func @opaque_mask(%q: !q, %kv: !k, %segments: tensor<2x256xf32>) -> !q {
  %c0 = arith.constant 0 : index
  %o, %lse = flash.attention ins(%q, %kv, %kv : !q, !k, !k) {scale = 0.125 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %own = tensor.extract %segments[%b, %c0] : tensor<2x256xf32>
      %other = tensor.extract %segments[%b, %j] : tensor<2x256xf32>
      %keep = arith.cmpf oeq, %other, %own : f32
      flash.yield %keep : i1
    } -> !q, !lse
  return %o : !q
}
