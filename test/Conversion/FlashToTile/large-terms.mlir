// Scores that are split from their terms are computed as they are written in a warp for which a term is large. Thirteen
// stages leave shared memory no room for slopes on the tensor cores.
// DEFINE: %{l1} = --flash-online-softmax --flash-tile="q-tile=128 kv-tile=64" --flash-page-kv --canonicalize --cse --flash-swap-loops --flash-bound-loops --flash-parallelize --canonicalize --cse
// RUN: flashc-opt %s --split-input-file %{l1} --convert-flash-to-tile=schedule=consumers=2,kv-tile=64,persistent=false,stages=13 --canonicalize --cse | FileCheck %s

!t = tensor<2x8x256x64xbf16>
!lse = tensor<2x8x256xf32>

// What is large is 2^20 / scale, as the terms are.
// CHECK-LABEL: gpu.func @alibi(
// CHECK-DAG:     %[[LARGE:.*]] = arith.constant dense<0x4B000000> : tensor<64xf32, #tile.lane_partial>
// CHECK-DAG:     %[[LN2:.*]] = arith.constant dense<0.693147182> : tensor<64xf32, #tile.row>
// CHECK-DAG:     %[[SCALE:.*]] = arith.constant 1.250000e-01 : f32
// The terms at the first key and behind the last, for this warpgroup's rows: in front of the loop, and without scores.
// CHECK:         %{{.*}}, %[[FIRST:.*]] = tile.map %{{.*}} at(%[[ROW:.*]], %c0) {
// CHECK-NOT:       math.fma
// CHECK:         %[[SIZE:.*]] = math.absf %[[FIRST]]
// CHECK:         %[[IS:.*]] = arith.cmpf ugt, %[[SIZE]], %[[LARGE]]
// CHECK:         %{{.*}}, %[[LAST:.*]] = tile.map %{{.*}} at(%[[ROW]], %c256) {
// CHECK:         %[[SIZE2:.*]] = math.absf %[[LAST]]
// CHECK:         %[[IS2:.*]] = arith.cmpf ugt, %[[SIZE2]], %[[LARGE]]
// CHECK:         %[[EITHER:.*]] = arith.ori %[[IS]], %[[IS2]]
// CHECK:         %[[ANY:.*]] = tile.vote_any %[[EITHER]]
// CHECK:         %[[R:.*]]:3 = scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %[[M:.*]] = %{{.*}}, %{{.*}} = %{{.*}})
// CHECK:           %[[RAW:.*]] = tile.mma_wait
// CHECK:           %[[X:.*]]:5 = scf.if %[[ANY]]
// CHECK:             %[[S:.*]] = tile.map %[[RAW]]
// CHECK:               arith.mulf %{{.*}}, %[[SCALE]] : f32
// CHECK:               arith.addf
// The maximum is the scores' own.
// CHECK:             %[[MAX:.*]] = tile.row_reduce max %[[S]]
// CHECK:             arith.subf %[[MAX]], %[[M]]
// CHECK:             %[[DIFFERENCES:.*]] = arith.subf %[[S]], %
// CHECK:             %[[UNSCALED:.*]] = arith.mulf %[[DIFFERENCES]], %
// CHECK:             scf.yield %[[UNSCALED]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}
// CHECK:           } else {
// CHECK:             %{{.*}}, %[[TERM:.*]] = tile.map %[[RAW]]
// CHECK:             tile.row_reduce max_of_bits
// CHECK:           math.fma %[[X]]#0, %
// And so is the log-sum-exp's: not to be scaled.
// CHECK:         %[[SCALED:.*]] = arith.mulf %[[R]]#1, %
// CHECK:         %[[BASE:.*]] = arith.select %[[ANY]], %[[R]]#1, %[[SCALED]]
// CHECK:         math.fma %{{.*}}, %[[LN2]], %[[BASE]]
func.func @alibi(%q: !t, %k: !t, %v: !t, %slopes: tensor<8xf32>) -> (!t, !lse) {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %slope = tensor.extract %slopes[%h] : tensor<8xf32>
      %back = arith.subi %j, %i : index
      %back32 = arith.index_cast %back : index to i32
      %distance = arith.sitofp %back32 : i32 to f32
      %bias = arith.mulf %slope, %distance : f32
      %r = arith.addf %s, %bias : f32
      flash.yield %r : f32
    } -> !t, !lse
  return %o, %lse : !t, !lse
}

// -----

!t = tensor<2x8x256x64xbf16>
!lse = tensor<2x8x256xf32>

// The last key of a paged cache is that of the sequence's last page, whatever its length is.
// CHECK-LABEL: gpu.func @paged(
// CHECK-SAME:      %[[PAGES:[^:]*]]: index, %{{[^:]*}}: memref<2xi32, strided<[1]>>, %{{[^:]*}}: memref<2x?xi32,
// CHECK:         %[[ROWS:.*]] = arith.muli %[[PAGES]], %c64 : index
// CHECK:         tile.map %{{.*}} at(%[[ROW:.*]], %c0) {
// CHECK:         tile.map %{{.*}} at(%[[ROW]], %[[ROWS]]) {
// CHECK:         tile.vote_any
func.func @paged(%q: !t, %kc: tensor<?x8x64x64xbf16>, %vc: tensor<?x8x64x64xbf16>, %lengths: tensor<2xi32>,
                 %table: tensor<2x?xi32>, %slopes: tensor<8xf32>) -> !t {
  %k = flash.cache_view %kc lengths(%lengths : tensor<2xi32>) pages(%table : tensor<2x?xi32>) : tensor<?x8x64x64xbf16> -> tensor<2x8x?x64xbf16>
  %v = flash.cache_view %vc lengths(%lengths : tensor<2xi32>) pages(%table : tensor<2x?xi32>) : tensor<?x8x64x64xbf16> -> tensor<2x8x?x64xbf16>
  %o, %lse = flash.attention ins(%q, %k, %v : !t, tensor<2x8x?x64xbf16>, tensor<2x8x?x64xbf16>) {scale = 0.125 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %slope = tensor.extract %slopes[%h] : tensor<8xf32>
      %back = arith.subi %j, %i : index
      %back32 = arith.index_cast %back : index to i32
      %distance = arith.sitofp %back32 : i32 to f32
      %bias = arith.mulf %slope, %distance : f32
      %r = arith.addf %s, %bias : f32
      flash.yield %r : f32
    } -> !t, !lse
  return %o : !t
}
