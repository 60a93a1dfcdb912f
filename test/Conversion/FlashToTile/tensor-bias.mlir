// What a score adds to s that grows along the keys is left to the product, as slopes of rows times numbers of columns.
// DEFINE: %{l1} = --flash-online-softmax --flash-tile="q-tile=128 kv-tile=64" --canonicalize --cse --flash-swap-loops --flash-bound-loops --flash-parallelize --canonicalize --cse
// DEFINE: %{convert} = --convert-flash-to-tile=schedule=consumers=2,kv-tile=64,persistent=false --canonicalize --cse
// RUN: flashc-opt %s --split-input-file %{l1} %{convert} | FileCheck %s
// The next work tile's slopes are written with its first product, behind this work tile's last one.
// RUN: flashc-opt %s --split-input-file %{l1} --convert-flash-to-tile=schedule=consumers=2,kv-tile=64,q-stages=2,epilogue=product --canonicalize --cse \
// RUN:   --tile-pipeline --tile-persist --tile-ping-pong --tile-specialize --tile-place-waits --canonicalize --cse --tile-overlap-epilogue | FileCheck %s --check-prefix=NEXT

!t = tensor<2x8x256x64xbf16>
!lse = tensor<2x8x256xf32>

// CHECK-LABEL: gpu.func @alibi(
// CHECK:         %[[SCALED:.*]] = arith.constant dense<8.000000e+00> : tensor<64xf32, #tile.row>
// CHECK:         %[[SLOT:.*]] = tile.alloc_slot slopes : <64, 16, bf16>
// CHECK-NEXT:    %[[COLUMNS:.*]] = tile.alloc_slot columns : <64, 16, bf16>
// CHECK:           %[[SLOPE:.*]] = memref.load
// CHECK:           %[[ROWS:.*]] = tile.rows at(%[[ROW:.*]]) {
// CHECK-NEXT:      ^bb0
// CHECK-NEXT:        tile.yield %[[SLOPE]] : f32
// CHECK:           %[[SLOPES:.*]] = arith.mulf %[[ROWS]], %[[SCALED]] : tensor<64xf32, #tile.row>
// Where terms are large the score region adds them (large-terms.mlir).
// CHECK:           %[[LARGE:.*]] = tile.vote_any
// CHECK-NEXT:      %[[ADDED:.*]] = arith.select %[[LARGE]], %{{.*}}, %[[SLOPES]] : tensor<64xf32, #tile.row>
// CHECK-NEXT:      tile.store_slopes %[[ADDED]] into %[[SLOT]] : tensor<64xf32, #tile.row>, <64, 16, bf16>
// CHECK-NEXT:      scf.for
// CHECK:             %[[KEY:.*]] = arith.muli
// CHECK:             tile.mma_async %{{.*}}, %{{.*}} slopes %[[SLOT]] times %[[COLUMNS]] : !tile.slot<64, 16, bf16>, !tile.slot<64, 16, bf16> transpose_b
// The rest is what the bias is at the tile's first column.
// CHECK:             scf.if %[[LARGE]]
// CHECK:             } else {
// CHECK-NEXT:          tile.map %{{.*}} at(%[[ROW]], %[[KEY]])
// CHECK-NEXT:        ^bb0(%[[S:.*]]: f32, %[[I:.*]]: index, %{{.*}}: index):
// CHECK:               arith.subi %[[KEY]], %[[I]] : index
// CHECK-NOT:           math.fma
// CHECK:               tile.yield %[[S]], %{{.*}} : f32, f32
// CHECK:             tile.mma_async
// CHECK-NOT:         slopes
// CHECK:             gpu.return

// NEXT-LABEL: gpu.func @alibi(
// NEXT:         consumer {
// NEXT:           tile.store_slopes
// NEXT:           tile.mma_async {{.*}} slopes
// NEXT:           scf.for
// NEXT:             scf.for
// NEXT-NOT:           tile.store_slopes
// NEXT:               tile.mma_async {{.*}} slopes
// NEXT:               tile.mma_wait {{.*}} {pending = 1 : i64}
// NEXT:             tile.ping_pong_wait
// NEXT:             %[[T:.*]] = tile.mma_async {{.*}} ones
// NEXT-NOT:         tile.mma_wait
// NEXT:             tile.store_slopes
// NEXT:             tile.mma_async {{.*}} slopes
// NEXT:             tile.mma_wait %[[T]] {pending = 1 : i64}
func.func @alibi(%q: !t, %k: !t, %v: !t, %slopes: tensor<8xf32>) -> !t {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %slope = tensor.extract %slopes[%h] : tensor<8xf32>
      %d = arith.subi %j, %i : index
      %d32 = arith.index_cast %d : index to i32
      %distance = arith.sitofp %d32 : i32 to f32
      %bias = arith.mulf %slope, %distance : f32
      %r = arith.addf %s, %bias : f32
      flash.yield %r : f32
    } -> !t, !lse
  return %o : !t
}

// -----

!t = tensor<2x8x256x64xf16>
!lse = tensor<2x8x256xf32>

// Slopes that depend on the row: what is read of it, and what is computed of its position, times 8 and -8.
// CHECK-LABEL: gpu.func @of_rows(
// CHECK-DAG:     %[[PLUS:.*]] = arith.constant dense<8.000000e+00> : tensor<64xf32, #tile.row>
// CHECK-DAG:     %[[MINUS:.*]] = arith.constant dense<-8.000000e+00> : tensor<64xf32, #tile.row>
// CHECK:           %[[WEIGHTS:.*]] = tile.rows at(
// CHECK:             memref.load
// CHECK:           %[[X:.*]] = arith.mulf %[[WEIGHTS]], %[[MINUS]] : tensor<64xf32, #tile.row>
// CHECK-NEXT:      %[[FAR:.*]] = tile.rows at(
// CHECK-NEXT:      ^bb0(%[[I:.*]]: index):
// CHECK-NEXT:        arith.subi %{{.*}}, %[[I]] : index
// CHECK:             arith.sitofp
// CHECK:           %[[Y:.*]] = arith.mulf %[[FAR]], %[[PLUS]] : tensor<64xf32, #tile.row>
// CHECK-NEXT:      %[[SLOPES:.*]] = arith.addf %[[X]], %[[Y]] : tensor<64xf32, #tile.row>
// CHECK:           %[[ADDED:.*]] = arith.select %{{.*}}, %{{.*}}, %[[SLOPES]] : tensor<64xf32, #tile.row>
// CHECK-NEXT:      tile.store_slopes %[[ADDED]] into %{{.*}} : tensor<64xf32, #tile.row>, <64, 16, f16>
func.func @of_rows(%q: !t, %k: !t, %v: !t, %weights: tensor<256xf32>) -> !t {
  %c100 = arith.constant 100 : index
  %c2 = arith.constant 2 : index
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %weight = tensor.extract %weights[%i] : tensor<256xf32>
      %j32 = arith.index_cast %j : index to i32
      %x = arith.sitofp %j32 : i32 to f32
      %far = arith.subi %c100, %i : index
      %far32 = arith.index_cast %far : index to i32
      %y = arith.sitofp %far32 : i32 to f32
      %a = arith.mulf %x, %weight : f32
      %c = arith.mulf %y, %x : f32
      %e = arith.subf %s, %a : f32
      %r = arith.addf %e, %c : f32
      flash.yield %r : f32
    } -> !t, !lse
  return %o : !t
}
