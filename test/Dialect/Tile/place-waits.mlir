// Where the wait for the product of P and V stands: `wait_after` exponentials behind the wait for the scores. K's
// release moves in front of it and reads them.
// DEFINE: %{edit} =
// DEFINE: %{check} =
// DEFINE: %{run} = sed %{edit} %S/Inputs/causal.mlir | flashc-opt --tile-pipeline --tile-ping-pong --tile-specialize --tile-place-waits \
// DEFINE:   | FileCheck %s --check-prefix=%{check}

// REDEFINE: %{edit} = 's/ping_pong = true/ping_pong = true, wait_after = 12/'
// REDEFINE: %{check} = MOVED
// RUN: %{run}
// The first product's K, and the last product, stay as they are.
// MOVED: consumer {
// MOVED: %[[K0:.*]] = tile.wait {{.*}} : <2, 64, 64, bf16> ->
// MOVED: tile.mma_wait
// MOVED-NEXT: tile.release %[[K0]] :
// MOVED: scf.for
// MOVED: %[[K:.*]] = tile.wait
// MOVED: %[[TS:.*]] = tile.mma_async %{{.*}}, %[[K]] transpose_b
// MOVED: %[[V:.*]] = tile.wait
// MOVED: %[[TO:.*]] = tile.mma_async
// MOVED: tile.mma_wait %[[TS]] {pending = 1 : i64}
// MOVED-NOT: tile.release
// MOVED: %[[P:.*]] = math.exp2 {{.*}} : tensor<64x64xf32, #tile.acc>
// MOVED-NOT: tile.release
// MOVED: tile.release %[[K]] after %[[P]] : tensor<64x64xf32, #tile.acc> {elements = 12 : i64} :
// MOVED-NEXT: tile.mma_wait %[[TO]]
// MOVED-NEXT: tile.release %[[V]] :
// MOVED-NOT: {{ after }}

// A thread holds 32 of 64 columns.
// REDEFINE: %{edit} = 's/ping_pong = true/ping_pong = true, wait_after = 33/'
// REDEFINE: %{check} = CLAMPED
// RUN: %{run}
// CLAMPED: {elements = 32 : i64}

// The release stays where it was without exponentials of scores in front of the wait (the factors of the rows are
// others), without the overlap (one product at a time), and without the option.
// REDEFINE: %{check} = STAYS
// REDEFINE: %{edit} = -e 's/ping_pong = true/ping_pong = true, wait_after = 12/' -e 's/math.exp2 %%e :/math.absf %%e :/'
// RUN: %{run}
// REDEFINE: %{edit} = ''
// RUN: %{run}
// STAYS: consumer {
// STAYS: scf.for
// STAYS: %[[K:.*]] = tile.wait
// STAYS: tile.mma_wait {{.*}} {pending = 1 : i64}
// STAYS-NEXT: tile.release %[[K]] :
// STAYS-NOT: {{ after }}
// REDEFINE: %{check} = SINGLE
// REDEFINE: %{edit} = -e 's/ping_pong = true/ping_pong = true, wait_after = 12/' -e 's/overlap = true/overlap = false/'
// RUN: %{run}
// SINGLE: tile.release
// SINGLE-NOT: {{ after }}
// RUN: sed %{edit} %S/Inputs/causal.mlir | flashc-opt --tile-pipeline --tile-specialize --tile-place-waits -o /dev/null \
// RUN:   --remark-format=emitRemark --remarks-filter-missed=tile 2>&1 | FileCheck %s --check-prefix=REMARK
// REMARK: remark: [Missed] place-waits | Category:tile | Remark="no loop has two products in flight, and exponentials between their waits"
