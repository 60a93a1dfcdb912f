// What of a score does not vary along a thread's columns becomes the map's second result.
// DEFINE: %{l1} = --flash-online-softmax --flash-tile="q-tile=128 kv-tile=64" --canonicalize --cse --flash-swap-loops --flash-bound-loops --flash-parallelize --canonicalize --cse
// RUN: %vary %s | flashc-opt --split-input-file %{l1} --convert-flash-to-tile=schedule=consumers=2,kv-tile=64,persistent=false,max=running --canonicalize --cse | FileCheck %s

!t = tensor<2x8x256x64xbf16>
!lse = tensor<2x8x256xf32>
func.func @NAME(%q: !t, %k: !t, %v: !t, %biases: tensor<8x256xf32>, %table: tensor<256x256xf32>, %weights: tensor<256xf32>,
                %slopes: tensor<8xf32>) -> !t {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %r = arith.addf %s, %s : f32 // BODY
      flash.yield %r : f32
    } -> !t, !lse
  return %o : !t
}

// What is added to whole rows costs nothing for an element, and the scale goes to the exponent.
// CHECK-LABEL: gpu.func @row_bias(
// CHECK:         arith.constant 8.000000e+00 : f32
// CHECK:         %[[BIAS:.*]] = tile.rows at(
// CHECK:         scf.for
// CHECK:         } else {
// CHECK-NEXT:    tile.map %{{.*}} rows(%[[BIAS]] : tensor<64xf32, #tile.row>) at(
// CHECK-NEXT:    ^bb0(%[[S:.*]]: f32, %{{.*}}: index, %{{.*}}: index, %[[B:.*]]: f32):
// CHECK-NEXT:      %[[H:.*]] = arith.mulf %[[B]], %{{.*}} : f32
// CHECK-NEXT:      tile.yield %[[S]], %[[H]] : f32, f32
// VARY row_bias
//     %x = tensor.extract %biases[%h, %i] : tensor<8x256xf32>
//     %r = arith.addf %s, %x : f32

// Terms on either side of others: the slopes are added, -2 * 0.25 / 3 and the weight of the row. What is read for every key
// stays, and so does the scale with it; the factor in front of all goes to the exponent.
// CHECK-LABEL: gpu.func @terms(
// CHECK-DAG:     arith.constant dense<2.885390e+00> : tensor<64x64xf32, #tile.acc>
// CHECK-DAG:     %[[SLOPE:.*]] = arith.constant -0.166666672 : f32
// CHECK-DAG:     %[[SCALE:.*]] = arith.constant 1.250000e-01 : f32
// CHECK:         scf.for
// CHECK:         } else {
// CHECK-NEXT:    tile.map
// CHECK-NEXT:    ^bb0(%[[S:.*]]: f32, %[[I:.*]]: index, %[[J:.*]]: index, %[[W:.*]]: f32):
// CHECK:           %[[TABLE:.*]] = memref.load
// CHECK:           %[[REST:.*]] = math.fma %[[S]], %[[SCALE]], %[[TABLE]]
// CHECK:           tile.first_column %[[J]]
// CHECK:           %[[SUM:.*]] = arith.addf %[[W]], %[[SLOPE]] fastmath<contract>
// CHECK:           %[[R:.*]] = math.fma %[[SUM]], %{{.*}}, %[[REST]]
// CHECK-NEXT:      tile.yield %[[R]], %
// VARY terms
//     %two = arith.constant 2.0 : f32
//     %three = arith.constant 3.0 : f32
//     %half = arith.constant -0.25 : f32
//     %c2 = arith.constant 2 : index
//     %bias = tensor.extract %table[%i, %j] : tensor<256x256xf32>
//     %weight = tensor.extract %weights[%i] : tensor<256xf32>
//     %j2 = arith.muli %j, %c2 : index
//     %d = arith.subi %j2, %i : index
//     %d32 = arith.index_cast %d : index to i32
//     %x = arith.sitofp %d32 : i32 to f32
//     %j32 = arith.index_cast %j : index to i32
//     %y = arith.sitofp %j32 : i32 to f32
//     %part = arith.mulf %x, %half : f32
//     %quotient = arith.divf %part, %three : f32
//     %product = arith.mulf %weight, %y : f32
//     %minus = arith.negf %product : f32
//     %a = arith.addf %quotient, %s : f32
//     %c = arith.addf %a, %bias : f32
//     %e = arith.subf %c, %minus : f32
//     %r = arith.mulf %e, %two : f32

// A soft cap and decay by a constant, 0.1 / 20.
// CHECK-LABEL: gpu.func @cap_and_decay(
// CHECK-DAG:     %[[DECAY:.*]] = arith.constant 5.000000e-03 : f32
// CHECK:         scf.for
// CHECK:         } else {
// CHECK-NEXT:    tile.map
// CHECK:           %[[T:.*]] = math.tanh
// CHECK:           %[[R:.*]] = math.fma %[[DECAY]], %{{.*}}, %[[T]] : f32
// CHECK-NEXT:      tile.yield %[[R]], %
// VARY cap_and_decay
//     %cap = arith.constant 20.0 : f32
//     %decay = arith.constant 0.1 : f32
//     %x = arith.divf %s, %cap : f32
//     %t = math.tanh %x : f32
//     %capped = arith.mulf %t, %cap : f32
//     %d = arith.subi %i, %j : index
//     %d32 = arith.index_cast %d : index to i32
//     %distance = arith.sitofp %d32 : i32 to f32
//     %bias = arith.mulf %distance, %decay : f32
//     %r = arith.subf %capped, %bias : f32

// Not affine in j, or not a function of the score at all: as it was.
// CHECK-LABEL: gpu.func @symmetric(
// CHECK-NOT:     tile.first_column
// CHECK:         tile.yield %{{.*}} : f32
// CHECK-NOT:     acc>, tensor<64xf32, #tile.lane_partial>
// VARY symmetric
//     %slope = tensor.extract %slopes[%h] : tensor<8xf32>
//     %d = arith.subi %i, %j : index
//     %d32 = arith.index_cast %d : index to i32
//     %size = math.absi %d32 : i32
//     %distance = arith.sitofp %size : i32 to f32
//     %bias = arith.mulf %slope, %distance : f32
//     %r = arith.subf %s, %bias : f32

// CHECK-LABEL: gpu.func @positions_only(
// CHECK-NOT:     tile.first_column
// CHECK:         tile.yield %{{.*}} : f32
// CHECK-NOT:     acc>, tensor<64xf32, #tile.lane_partial>
// VARY positions_only
//     %d = arith.subi %j, %i : index
//     %d32 = arith.index_cast %d : index to i32
//     %r = arith.sitofp %d32 : i32 to f32

// -----

!t = tensor<2x8x256x64xbf16>
!lse = tensor<2x8x256xf32>
func.func @NAME(%q: !t, %k: !t, %v: !t, %rows: tensor<8x256xf32>, %length: index) -> (!t, !lse) {
  %zero = arith.constant 0 : index
  %decay = arith.constant 0.5 : f32
  %c50 = arith.constant 50 : index
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %d = arith.subi %i, %j : index
      %minus = arith.subi %zero, %d : index
      %largest = arith.maxsi %minus, %d : index
      %size = arith.index_cast %largest : index to i32
      %distance = arith.sitofp %size : i32 to f32
      %bias = arith.mulf %distance, %decay : f32
      %r = arith.subf %s, %bias : f32
      flash.yield %r : f32
    }
    mask (%b: index, %h: index, %i: index, %j: index) {
      %last = arith.addi %i, %c50 : index
      %keep = arith.cmpi slt, %j, %last : index
      flash.yield %keep : i1
    } -> !t, !lse
  return %o, %lse : !t, !lse
}

// The mask keeps keys on either side of a query.
// CHECK-LABEL: gpu.func @NAME(
// CHECK-NOT:     tile.first_column
// CHECK:         math.absi
// CHECK-NOT:     tile.first_column
// CHECK:         tile.row_reduce

// A magnitude of a distance whose sign the mask knows, where it matters: slopes of 0.5 / 0.125 and the opposite.
// CHECK-LABEL: gpu.func @past(
// CHECK-DAG:     %[[SLOPE:.*]] = arith.constant 4.000000e+00 : f32
// CHECK:         tile.map
// CHECK:           math.fma %[[SLOPE]], %{{.*}}, %{{.*}} : f32
// CHECK:         tile.row_reduce
// VARY past
//   %size = arith.index_cast %largest : index to i32 =>
//     %d32 = arith.index_cast %d : index to i32
//     %size = math.absi %d32 : i32
//   slt, %j, %last => sle, %j, %i

// CHECK-LABEL: gpu.func @future(
// CHECK-DAG:     %[[SLOPE:.*]] = arith.constant -4.000000e+00 : f32
// CHECK:         tile.map
// CHECK:           math.fma %[[SLOPE]], %{{.*}}, %{{.*}} : f32
// CHECK:         tile.row_reduce
// VARY future
//   %keep = arith.cmpi slt, %j, %last : index =>
//     %isBehind = arith.cmpi slt, %i, %j : index
//     %isNear = arith.cmpi slt, %j, %last : index
//     %keep = arith.andi %isBehind, %isNear : i1

// What is taken out may be NaN, or infinite, where the mask keeps nothing of a row: in a masked tile a thread without a
// kept column leaves it out.
// CHECK-LABEL: gpu.func @masked_rows(
// CHECK-DAG:     %[[LOWEST:.*]] = arith.constant dense<0xFF800000> : tensor<64xf32, #tile.lane_partial>
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<64xf32, #tile.lane_partial>
// CHECK:         scf.for
// CHECK:         %[[S:.*]], %[[C:.*]] = tile.map %{{.*}} rows(
// CHECK:         tile.outside
// CHECK-NEXT:    %[[IF:.*]]:2 = scf.if
// CHECK-NEXT:      %[[KEPT:.*]] = tile.map %[[S]]
// CHECK:           %[[MOST:.*]] = tile.row_reduce max %[[KEPT]]
// CHECK-NEXT:      %[[EMPTY:.*]] = arith.cmpf oeq, %[[MOST]], %[[LOWEST]]
// CHECK-NEXT:      %[[REST:.*]] = arith.select %[[EMPTY]], %[[ZERO]], %[[C]]
// CHECK-NEXT:      scf.yield %[[KEPT]], %[[REST]]
// CHECK-NEXT:    } else {
// CHECK-NEXT:      scf.yield %[[S]], %[[C]]
// CHECK:         %[[LIMIT:.*]] = arith.subf %{{.*}}, %[[IF]]#1
// CHECK:         %[[BITS:.*]] = tile.row_reduce max_of_bits %[[IF]]#0
// CHECK:         %[[LIMIT_BITS:.*]] = arith.bitcast %[[LIMIT]]
// CHECK:         %[[OTHER:.*]] = arith.cmpi ugt, %[[LIMIT_BITS]],
// CHECK:         %[[LIMIT2:.*]] = arith.select %[[OTHER]], %[[LOWEST]], %[[LIMIT]]
// CHECK:         arith.cmpf uge, %[[BITS]], %[[LIMIT2]]
// CHECK:         %[[MOST:.*]] = tile.row_reduce max %[[IF]]#0
// CHECK:         %[[SUM:.*]] = arith.addf %[[MOST]], %[[IF]]#1
// CHECK:         tile.combine max %[[SUM]]
// CHECK:         arith.subf %[[IF]]#1, %
// CHECK:         scf.yield %[[IF]]#0, %
// VARY masked_rows
//   %r = arith.subf %s, %bias : f32 =>
//     %x = tensor.extract %rows[%h, %i] : tensor<8x256xf32>
//     %r = arith.addf %s, %x : f32
//   %last = arith.addi %i, %c50 : index => %last = arith.minsi %i, %length : index
