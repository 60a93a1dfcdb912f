// RUN: flashc-opt %s --tile-ping-pong | FileCheck %s
// RUN: flashc-opt %s --tile-ping-pong --remark-format=emitRemark --remarks-filter-missed=tile -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK

// Turns at the tensor cores, and where there are none.

!acc = tensor<64x64xf32, #tile.acc>
!a = tensor<64x64xbf16, #tile.operand_a>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
#turns = #tile.schedule<consumers = 2, producer_registers = 24, consumer_registers = 240,
                        overlap = true, ping_pong = true>
#none = #tile.schedule<consumers = 2, producer_registers = 24, consumer_registers = 240,
                       overlap = true, ping_pong = false>

gpu.module @kernels {
  // One turn for what is issued together, another behind a wait; what is left out hands its turns on. A product from
  // registers alone has none.
  // CHECK-LABEL: gpu.func @turns(
  // CHECK:         tile.program 2 {
  // CHECK-NEXT:    ^bb0(%[[W:.*]]: index):
  // CHECK-NEXT:      tile.advance_ring %{{.*}} of %{{.*}} {turns}
  // CHECK-NEXT:      tile.ping_pong_wait %[[W]]
  // CHECK-NEXT:      %[[S:.*]] = tile.mma_async
  // CHECK-NEXT:      %[[X:.*]] = tile.mma_async
  // CHECK-NEXT:      tile.ping_pong_pass %[[W]]
  // CHECK-NEXT:      tile.mma_wait %[[S]]
  // CHECK-NEXT:      tile.mma_wait %[[X]]
  // CHECK-NEXT:      %[[Y:.*]] = tile.mma_async
  // CHECK-NEXT:      tile.mma_wait %[[Y]]
  // CHECK-NEXT:      tile.ping_pong_wait %[[W]]
  // CHECK-NEXT:      tile.mma_async
  // CHECK-NEXT:      tile.ping_pong_pass %[[W]]
  // CHECK-NEXT:      tile.mma_wait
  gpu.func @turns(%q: !slot, %p: !a, %n: index) kernel attributes {tile.schedule = #turns} {
    %ring = tile.alloc_ring : !ring
    tile.program 2 {
    ^bb0(%w: index):
      tile.advance_ring %n of %ring : !ring
      %ts = tile.mma_async %q, %q transpose_b : !slot, !slot -> !tile.token<!acc>
      %tx = tile.mma_async %p, %q : !a, !slot -> !tile.token<!acc>
      %s = tile.mma_wait %ts {pending = 1} : !tile.token<!acc> -> !acc
      %x = tile.mma_wait %tx : !tile.token<!acc> -> !acc
      %ty = tile.mma_async %p, %q : !a, !slot -> !tile.token<!acc>
      %y = tile.mma_wait %ty : !tile.token<!acc> -> !acc
      %tz = tile.mma_async %q, %q transpose_b : !slot, !slot -> !tile.token<!acc>
      %z = tile.mma_wait %tz : !tile.token<!acc> -> !acc
    }
    gpu.return
  }

  // REMARK: [[@LINE+5]]:5: remark: [Missed] ping-pong | Category:tile | Remark="expected several consumers to take turns, got one"
  // CHECK-LABEL: gpu.func @solo(
  // CHECK-NOT:     tile.ping_pong
  // CHECK:         gpu.return
  gpu.func @solo(%q: !slot) kernel attributes {tile.schedule = #turns} {
    tile.program 1 {
    ^bb0(%w: index):
      %ts = tile.mma_async %q, %q transpose_b : !slot, !slot -> !tile.token<!acc>
      %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
    }
    gpu.return
  }

  // REMARK: [[@LINE+6]]:5: remark: [Missed] ping-pong | Category:tile | Remark="no product of slots begins a turn"
  // CHECK-LABEL: gpu.func @registers(
  // CHECK-NOT:     turn
  // CHECK:         gpu.return
  gpu.func @registers(%q: !slot, %p: !a, %n: index) kernel attributes {tile.schedule = #turns} {
    %ring = tile.alloc_ring : !ring
    tile.program 2 {
    ^bb0(%w: index):
      tile.advance_ring %n of %ring : !ring
      %ty = tile.mma_async %p, %q : !a, !slot -> !tile.token<!acc>
      %y = tile.mma_wait %ty : !tile.token<!acc> -> !acc
    }
    gpu.return
  }

  // REMARK-NOT: remark
  // CHECK-LABEL: gpu.func @not_asked_for(
  // CHECK-NOT:     tile.ping_pong
  // CHECK:         gpu.return
  gpu.func @not_asked_for(%q: !slot) kernel attributes {tile.schedule = #none} {
    tile.program 2 {
    ^bb0(%w: index):
      %ts = tile.mma_async %q, %q transpose_b : !slot, !slot -> !tile.token<!acc>
      %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
    }
    gpu.return
  }
}
