// What a score region reads at the key stays inside its array in masked tiles, where keys may lie behind the last one. In
// the loop over full tiles it is not asked.
// DEFINE: %{l1} = --flash-online-softmax --flash-tile="q-tile=64 kv-tile=64" --canonicalize --cse --flash-swap-loops --flash-bound-loops --flash-parallelize --canonicalize --cse
// DEFINE: %{tile} = --convert-flash-to-tile=schedule=consumers=1,kv-tile=64,persistent=false
// RUN: %vary %s | flashc-opt --split-input-file %{l1} %{tile} --canonicalize --cse | FileCheck %s
// RUN: %vary %s | flashc-opt --split-input-file %{l1} %{tile} --tile-ping-pong --tile-specialize --tile-place-waits --tile-split-loops --canonicalize --cse | FileCheck %s --check-prefix=SPLIT

!t = tensor<1x2x?x64xbf16>
!lse = tensor<1x2x?xf32>

// CHECK-LABEL: gpu.func @NAME(
// CHECK:         %[[MASKED:.*]] = tile.outside
// CHECK:         tile.map
// CHECK:         ^bb0(%{{.*}}: f32, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK-DAG:       %[[ROW:.*]] = arith.maxsi %{{.*}}, %c0 {flash.tile_clamp}
// CHECK:           %[[LEAST:.*]] = arith.minsi %[[J]], %{{.*}} : index
// CHECK:           %[[COL:.*]] = arith.maxsi %[[LEAST]], %c0 {flash.tile_clamp}
// CHECK:           %[[KEPT:.*]] = arith.select %[[MASKED]], %[[COL]], %[[J]] : index
// CHECK:           memref.load %{{.*}}[%[[ROW]], %[[KEPT]]]
// SPLIT-LABEL: gpu.func @NAME(
// SPLIT:         scf.for
// SPLIT:           tile.map
// SPLIT:           ^bb0(%{{.*}}: f32, %{{.*}}: index, %[[J:.*]]: index):
// SPLIT:             arith.minsi %[[J]],
// SPLIT:         scf.for
// SPLIT:           tile.map
// SPLIT:           ^bb0(%{{.*}}: f32, %{{.*}}: index, %[[J:.*]]: index):
// SPLIT-NOT:         arith.minsi %[[J]],
// SPLIT:             memref.load %{{.*}}[%{{.*}}, %[[J]]]
func.func @NAME(%q: !t, %k: !t, %v: !t, %bias: tensor<?x?xf32>) -> !t {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %x = tensor.extract %bias[%i, %j] : tensor<?x?xf32>
      %r = arith.addf %s, %x : f32
      flash.yield %r : f32
    } -> !t, !lse
  return %o : !t
}

// A place that depends on the query too may be outside where the last tile of queries sticks out.
// CHECK-LABEL: gpu.func @relative(
// CHECK:         tile.map
// CHECK:           %[[CLAMPED:.*]] = arith.maxsi %{{.*}}, %c0 {flash.tile_clamp}
// CHECK-NOT:       arith.select
// CHECK:           memref.load %{{.*}}[%[[CLAMPED]]]
// SPLIT-LABEL: gpu.func @relative(
// VARY relative
//   %bias: tensor<?x?xf32> => %bias: tensor<?xf32>, %zero: index
//   %x = tensor.extract %bias[%i, %j] : tensor<?x?xf32> =>
//     %far = arith.addi %i, %zero : index
//     %back = arith.subi %far, %j : index
//     %x = tensor.extract %bias[%back] : tensor<?xf32>

// -----

!t = tensor<1x2x128x64xbf16>
!lse = tensor<1x2x128xf32>

// Where no tile sticks out, nothing is kept inside anything.
// CHECK-LABEL: gpu.func @whole(
// CHECK-NOT:     flash.tile_clamp
// SPLIT-LABEL: gpu.func @whole(
func.func @whole(%q: !t, %k: !t, %v: !t, %bias: tensor<128xf32>) -> !t {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %x = tensor.extract %bias[%j] : tensor<128xf32>
      %r = arith.addf %s, %x : f32
      flash.yield %r : f32
    } -> !t, !lse
  return %o : !t
}
