// What a score region costs for every element: constants go to the exponent, what depends on i alone in front of the loop.
// Thirteen stages leave shared memory no room for slopes on the tensor cores.
// DEFINE: %{l1} = --flash-online-softmax --flash-tile="q-tile=128 kv-tile=64" --canonicalize --cse --flash-swap-loops --flash-bound-loops=maps=false --flash-parallelize --canonicalize --cse
// RUN: %vary %s | flashc-opt --split-input-file %{l1} --convert-flash-to-tile=schedule=consumers=2,kv-tile=64,persistent=false,max=running,stages=13,tensor-sums=false --canonicalize --cse | FileCheck %s

!t = tensor<2x8x256x64xbf16>
!lse = tensor<2x8x256xf32>
func.func @NAME(%q: !t, %k: !t, %v: !t, %slopes: tensor<8xf32>, %table: tensor<256x256xf32>) -> !t {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %r = arith.addf %s, %s : f32 // BODY
      flash.yield %r : f32
    } -> !t, !lse
  return %o : !t
}

// The bias is divided by the scale, which costs something for every head, and the exponent takes the scale: 0.18 is
// 0.125 log2(e). Of the distance only what varies within the thread's columns is in the score.
// CHECK-LABEL: gpu.func @alibi(
// CHECK-DAG:     arith.constant dense<0.180336878> : tensor<64x64xf32, #tile.acc>
// CHECK-DAG:     %[[EIGHT:.*]] = arith.constant 8.000000e+00 : f32
// CHECK:         scf.for
// CHECK:         } else {
// CHECK-NEXT:    tile.map
// CHECK:         ^bb0(%[[S:.*]]: f32, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK-DAG:       %[[FIRST:.*]] = tile.first_column %[[J]]
// CHECK-DAG:       %[[SCALED:.*]] = arith.mulf %[[SLOPE:.*]], %[[EIGHT]] fastmath<contract>
// CHECK-DAG:       %[[DISTANCE:.*]] = arith.subi %[[FIRST]], %[[I]] : index
// CHECK:           %[[D:.*]] = arith.sitofp
// CHECK:           %[[H:.*]] = arith.mulf %[[SCALED]], %[[D]] fastmath<contract>
// CHECK-NEXT:      %[[COLUMN:.*]] = arith.subi %[[J]], %[[FIRST]] : index
// CHECK:           %[[C:.*]] = arith.sitofp
// CHECK-NEXT:      %[[R:.*]] = math.fma %[[SCALED]], %[[C]], %[[S]]
// CHECK-NEXT:      tile.yield %[[R]], %[[H]]
// The maximum takes the rest before the lanes exchange it, the exponential as part of its offset.
// CHECK:         arith.subf %{{.*}}, %[[OFFSET:.*]] : tensor<64xf32, #tile.lane_partial>
// CHECK-NEXT:    tile.row_reduce max_of_bits %[[U:.*]] : tensor<64x64xf32, #tile.acc> -> tensor<64xf32, #tile.lane_partial>
// CHECK:         %[[NEW:.*]]:5 = scf.if
// CHECK-NEXT:      %[[LOCAL:.*]] = tile.row_reduce max %[[U]] :
// CHECK-NEXT:      %[[SUM:.*]] = arith.addf %[[LOCAL]], %[[OFFSET]]
// CHECK-NEXT:      tile.combine max %[[SUM]]
// CHECK:         } else {
// CHECK:         } else {
// CHECK-NEXT:      %[[SAME:.*]] = tile.broadcast %{{.*}} : tensor<64xf32, #tile.row> -> tensor<64xf32, #tile.lane_partial>
// CHECK-NEXT:      %[[LESS:.*]] = arith.subf %[[OFFSET]], %[[SAME]]
// CHECK-NEXT:      %[[X:.*]] = arith.mulf %[[LESS]], %{{.*}} : tensor<64xf32, #tile.lane_partial>
// CHECK-NEXT:      scf.yield %[[U]], %[[X]]
// CHECK:         scf.yield %[[NEW]]#0, %[[NEW]]#1
// VARY alibi
//     %slope = tensor.extract %slopes[%h] : tensor<8xf32>
//     %back = arith.subi %j, %i : index
//     %back32 = arith.index_cast %back : index to i32
//     %distance = arith.sitofp %back32 : i32 to f32
//     %bias = arith.mulf %slope, %distance : f32
//     %r = arith.addf %s, %bias : f32

// One product before the sine, none after it: 28.85 is 20 log2(e).
// CHECK-LABEL: gpu.func @sine(
// CHECK-DAG:     arith.constant dense<2.885390e+01> : tensor<64x64xf32, #tile.acc>
// CHECK-DAG:     %[[INNER:.*]] = arith.constant 6.250000e-03 : f32
// CHECK:         tile.map
// CHECK:         ^bb0(%[[S:.*]]: f32,
// CHECK-NEXT:      %[[X:.*]] = arith.mulf %[[S]], %[[INNER]]
// CHECK-NEXT:      %[[T:.*]] = math.sin %[[X]]
// CHECK-NEXT:      tile.yield %[[T]]
// VARY sine
//     %cap = arith.constant 20.0 : f32
//     %x = arith.divf %s, %cap : f32
//     %t = math.sin %x : f32
//     %r = arith.mulf %t, %cap : f32

// A difference with what is read for every element: one instruction scales and subtracts.
// CHECK-LABEL: gpu.func @bias(
// CHECK-DAG:     arith.constant dense<1.44269502> : tensor<64x64xf32, #tile.acc>
// CHECK-DAG:     %[[SCALE:.*]] = arith.constant 1.250000e-01 : f32
// CHECK:         ^bb0(%[[S:.*]]: f32,
// CHECK:           %[[B:.*]] = memref.load
// CHECK:           %[[N:.*]] = arith.negf %[[B]]
// CHECK:           %[[R:.*]] = math.fma %[[S]], %[[SCALE]], %[[N]]
// CHECK:           tile.yield %[[R]]
// VARY bias
//     %x = tensor.extract %table[%i, %j] : tensor<256x256xf32>
//     %r = arith.subf %s, %x : f32

// A negative factor would turn the maximum around: it stays, beside the scale.
// CHECK-LABEL: gpu.func @negative(
// CHECK-DAG:     arith.constant dense<1.44269502> : tensor<64x64xf32, #tile.acc>
// CHECK-DAG:     %[[FACTOR:.*]] = arith.constant -2.500000e-01 : f32
// CHECK:         ^bb0(%[[S:.*]]: f32,
// CHECK-NEXT:      %[[R:.*]] = arith.mulf %[[S]], %[[FACTOR]]
// CHECK-NEXT:      tile.yield %[[R]]
// VARY negative
//     %minus = arith.constant -2.0 : f32
//     %r = arith.mulf %s, %minus : f32

// -----

!t = tensor<2x8x256x64xbf16>
!lse = tensor<2x8x256xf32>

// What is read for a row is read once, in front of the loop, by score and mask each for themselves. An addition is not
// worth registers through the loop.
// CHECK-LABEL: gpu.func @rows(
// CHECK:         %[[WEIGHT:.*]] = tile.rows at(%[[ROW:.*]]) {
// CHECK:         ^bb0(%[[I:.*]]: index):
// CHECK:           %[[W:.*]] = memref.load %{{.*}}[%{{.*}}, %[[I]]]
// CHECK:           %[[ROOT:.*]] = math.sqrt %[[W]]
// CHECK:           tile.yield %[[ROOT]]
// CHECK:         %[[LAST:.*]] = tile.rows at(%[[ROW]]) {
// CHECK:           memref.load
// CHECK:           %[[INDEX:.*]] = arith.index_cast
// CHECK:           tile.yield %[[INDEX]]
// CHECK:         scf.for
// CHECK-NOT:       memref.load
// CHECK:           tile.map %{{.*}} rows(%[[WEIGHT]] : tensor<64xf32, #tile.row>) at(%[[ROW]], %{{.*}}) {
// CHECK:           ^bb0(%{{.*}}: f32, %{{.*}}: index, %{{.*}}: index, %[[R:.*]]: f32):
// CHECK:             arith.mulf %{{.*}}, %[[R]]
// CHECK:           tile.map %{{.*}} rows(%[[LAST]] : tensor<64xindex, #tile.row>) at(
// CHECK:           ^bb0(%{{.*}}: f32, %[[I:.*]]: index, %[[J:.*]]: index, %[[L:.*]]: index):
// CHECK-DAG:         arith.cmpi sle, %[[J]], %[[L]]
// CHECK-DAG:         arith.addi %[[I]],
func.func @rows(%q: !t, %k: !t, %v: !t, %weights: tensor<2x256xf32>, %last: tensor<256xf32>) -> !t {
  %c5 = arith.constant 5 : index
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %w = tensor.extract %weights[%b, %i] : tensor<2x256xf32>
      %root = math.sqrt %w : f32
      %r = arith.mulf %s, %root : f32
      flash.yield %r : f32
    }
    mask (%b: index, %h: index, %i: index, %j: index) {
      %lastF32 = tensor.extract %last[%i] : tensor<256xf32>
      %last32 = arith.fptosi %lastF32 : f32 to i32
      %limit = arith.index_cast %last32 : i32 to index
      %first = arith.addi %i, %c5 : index
      %isEarly = arith.cmpi sle, %j, %limit : index
      %isOther = arith.cmpi ne, %j, %first : index
      %keep = arith.andi %isEarly, %isOther : i1
      flash.yield %keep : i1
    } -> !t, !lse
  return %o : !t
}
