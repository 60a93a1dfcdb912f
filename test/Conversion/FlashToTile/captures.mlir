// Memrefs, score regions, and what regions capture.
// DEFINE: %{l1} = --flash-to-tensors --flash-online-softmax --flash-tile="q-tile=128 kv-tile=128" --canonicalize --cse --flash-swap-loops --flash-bound-loops --flash-parallelize --canonicalize --cse
// RUN: flashc-opt %s --split-input-file %{l1} --convert-flash-to-tile="target=sm_90a schedule=consumers=2,kv-tile=128,stages=2,persistent=false" --canonicalize --cse | FileCheck %s

!q = memref<?x8x?x128xf16, strided<[?, ?, ?, 1]>>
!k = memref<?x2x?x128xf16>
!v = memref<?x2x?x64xf16>
!o = memref<?x8x?x64xf32>
!lse = memref<?x8x?xf32>

// Parameters come in the order of first use; an index is an i64 scalar, unlike an extent. Strides are the launch's.
// CHECK-LABEL: gpu.func @alibi_softcap_lengths(
// CHECK-SAME:      %[[NQ:[^:]*]]: index, %[[CAP:[^:]*]]: f32, %[[SLOPES:[^:]*]]: memref<8xf32, strided<[1]>>, %[[W64:[^:]*]]: i64,
// CHECK-SAME:      %[[NK:[^:]*]]: index, %[[LENGTHS:[^:]*]]: memref<?xi32, strided<[1]>>,
// CHECK-SAME:      %{{[^:]*}}: memref<?x8x?x64xf32, strided<[?, ?, ?, 1]>>, %{{[^:]*}}: memref<?x8x?xf32, strided<[?, ?, 1]>>) kernel
// CHECK-SAME:    {dtype = "f16", name = "v", role = "input", shape = [-1, 2, -1, 64]}
// CHECK-SAME:    {dtype = "f32", name = "o", role = "output", shape = [-1, 8, -1, 64]}, {dtype = "f32", name = "lse", role = "output", shape = [-1, 8, -1]}
// CHECK-SAME:    {dtype = "f32", name = "arg5", role = "input", shape = [8]}, {dtype = "index", name = "arg6", role = "input", shape = []}
// CHECK-SAME:    {argument = 0 : i64, dim = 2 : i64, kind = "extent"}, {argument = 8 : i64, kind = "scalar"}, {argument = 5 : i64, kind = "pointer"}, {argument = 6 : i64, kind = "scalar"}, {argument = 1 : i64, dim = 2 : i64, kind = "extent"}, {argument = 7 : i64, kind = "pointer"}, {alignment = 16 : i64, argument = 3 : i64, kind = "pointer"},
// CHECK-SAME:    target = "sm_90a"

// The exponent's factor is log2(e), since the score map scales.
// CHECK-DAG:     arith.constant dense<1.44269502> : tensor<64x128xf32, #tile.acc>
// CHECK-DAG:     %[[SCALE:.*]] = arith.constant 1.000000e-01 : f32
// CHECK-DAG:     %[[H:.*]] = gpu.block_id y
// CHECK-DAG:     %[[B:.*]] = gpu.block_id z
// CHECK-DAG:     %[[SLOPE:.*]] = memref.load %[[SLOPES]][%[[H]]]
// CHECK-DAG:     %[[WIDTH:.*]] = arith.index_cast %[[W64]] : i64 to index
// CHECK-DAG:     %[[LENGTH32:.*]] = memref.load %[[LENGTHS]][%[[B]]]
// CHECK-DAG:     %[[LENGTH:.*]] = arith.index_cast %[[LENGTH32]]
// CHECK:         %[[INVERSE:.*]] = arith.divf %{{.*}}, %[[CAP]]
// CHECK:         scf.for
// CHECK:           %[[RAW:.*]] = tile.mma_wait
// CHECK:           %[[SCORES:.*]] = tile.map %[[RAW]] at(
// CHECK:           ^bb0(%[[S:.*]]: f32, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK:             %[[SCALED:.*]] = arith.mulf %[[S]], %[[SCALE]]
// CHECK:             arith.subi %[[J]], %[[I]]
// CHECK:             math.fma %[[SLOPE]], %{{.*}}, %[[SCALED]]
// CHECK:             arith.mulf %{{.*}}, %[[INVERSE]]
// CHECK:             %[[SCORE:.*]] = arith.mulf %{{.*}}, %[[CAP]]
// CHECK:             tile.yield %[[SCORE]]
// CHECK:           tile.outside
// CHECK:           scf.if
// CHECK:             tile.map %[[SCORES]] at(
// CHECK:             ^bb0(%{{.*}}: f32, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK:               %[[OLDEST:.*]] = arith.subi %[[I]], %[[WIDTH]]
// CHECK:               %[[LAST:.*]] = arith.addi %[[LENGTH]], %c-1
// CHECK:               %[[LASTKEY:.*]] = arith.addi %[[NK]], %c-1
// CHECK:               %[[NEAREST:.*]] = arith.minsi %[[LAST]], %[[LASTKEY]]
// CHECK:               arith.cmpi sle, %[[J]], %[[NEAREST]]
// CHECK:             scf.yield
// CHECK:           } else {
// CHECK:             scf.yield %[[SCORES]]
// CHECK:           tile.row_reduce max %
// CHECK:         tile.store {{.*}} limit %[[NQ]] : tensor<64x64xf32, #tile.acc>
func.func @alibi_softcap_lengths(%q: !q, %k: !k, %v: !v, %o: !o, %lse: !lse, %slopes: tensor<8xf32>, %width: index,
                                 %lengths: memref<?xi32>, %cap: f32) {
  flash.attention ins(%q, %k, %v : !q, !k, !v) outs(%o, %lse : !o, !lse) {scale = 0.1 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %slope = tensor.extract %slopes[%h] : tensor<8xf32>
      %distance = arith.subi %j, %i : index
      %distance32 = arith.index_cast %distance : index to i32
      %bias = arith.sitofp %distance32 : i32 to f32
      %biased = math.fma %slope, %bias, %s : f32
      %x = arith.divf %biased, %cap : f32
      %y = math.tanh %x : f32
      %z = arith.mulf %y, %cap : f32
      flash.yield %z : f32
    }
    mask (%b: index, %h: index, %i: index, %j: index) {
      %length32 = memref.load %lengths[%b] : memref<?xi32>
      %length = arith.index_cast %length32 : i32 to index
      %oldest = arith.subi %i, %width : index
      %exists = arith.cmpi slt, %j, %length : index
      %isRecent = arith.cmpi sge, %j, %oldest : index
      %keep = arith.andi %exists, %isRecent : i1
      flash.yield %keep : i1
    }
  return
}

// -----

!t = tensor<1x2x?x128xbf16>
!lse = tensor<1x2x?xf32>

// A bias of any extents, which flash-tile has clamped the positions to. Control flow is copied too.
// CHECK-LABEL: gpu.func @bias(
// CHECK-SAME:      %[[BIAS:[^:]*]]: memref<?x?xf32, strided<[?, 1]>>
// Its rows are as far apart as the launch says: an array that is not contiguous is read by its strides.
// CHECK-SAME:    {argument = 3 : i64, kind = "pointer"}, {argument = 3 : i64, dim = 0 : i64, kind = "stride"}
// CHECK:         tile.map
// CHECK:         ^bb0(%[[S:.*]]: f32, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK:           %[[IS_FAR:.*]] = arith.cmpi sgt, %[[J]], %[[I]]
// CHECK:           %[[ADDEND:.*]] = scf.if %[[IS_FAR]] -> (f32) {
// CHECK:             %[[ROW_MIN:.*]] = arith.minsi %[[I]], %
// CHECK:             %[[ROW:.*]] = arith.maxsi %[[ROW_MIN]], %c0
// CHECK:             %[[COL_MIN:.*]] = arith.minsi %[[J]], %
// CHECK:             %[[COL:.*]] = arith.maxsi %[[COL_MIN]], %c0
// CHECK:             %[[X:.*]] = memref.load %[[BIAS]][%[[ROW]], %[[COL]]]
// CHECK:             scf.yield %[[X]]
// CHECK:           } else {
// CHECK:             scf.yield %{{.*}} : f32
// CHECK:           math.fma %[[S]], %{{.*}}, %[[ADDEND]]
func.func @bias(%q: !t, %k: !t, %v: !t, %bias: tensor<?x?xf32>) -> (!t, !lse) {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %zero = arith.constant 0.0 : f32
      %isFar = arith.cmpi sgt, %j, %i : index
      %addend = scf.if %isFar -> f32 {
        %x = tensor.extract %bias[%i, %j] : tensor<?x?xf32>
        scf.yield %x : f32
      } else {
        scf.yield %zero : f32
      }
      %t = arith.addf %s, %addend : f32
      flash.yield %t : f32
    } -> !t, !lse
  return %o, %lse : !t, !lse
}

// -----

!t = tensor<1x2x256x128xbf16>
!lse = tensor<1x2x256xf32>

// A negative scale would turn the maximum of unscaled scores into a minimum: it goes into a map.
// CHECK-LABEL: gpu.func @negative_scale(
// CHECK-DAG:     arith.constant dense<1.44269502> : tensor<64x128xf32, #tile.acc>
// CHECK-DAG:     %[[SCALE:.*]] = arith.constant -1.250000e-01 : f32
// CHECK:         tile.map
// CHECK:         ^bb0(%[[S:.*]]: f32,
// CHECK:           %[[SCALED:.*]] = arith.mulf %[[S]], %[[SCALE]]
// CHECK:           tile.yield %[[SCALED]]
func.func @negative_scale(%q: !t, %k: !t, %v: !t) -> (!t, !lse) {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = -0.125 : f32} -> !t, !lse
  return %o, %lse : !t, !lse
}

// -----

!t = tensor<1x2x256x128xbf16>
!lse = tensor<1x2x256xf32>

// A tensor of indices has 64 bits an element, also where an index of the kernel has 32.
// CHECK-LABEL: gpu.func @index_lengths(
// CHECK:         %[[LENGTH:.*]] = memref.load %{{.*}}[%{{.*}}] : memref<?xi64, strided<[1]>>
// CHECK:         arith.index_cast %[[LENGTH]] : i64 to index
func.func @index_lengths(%q: !t, %k: !t, %v: !t, %lengths: tensor<?xindex>) -> (!t, !lse) {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %length = tensor.extract %lengths[%b] : tensor<?xindex>
      %keep = arith.cmpi slt, %j, %length : index
      flash.yield %keep : i1
    } -> !t, !lse
  return %o, %lse : !t, !lse
}
