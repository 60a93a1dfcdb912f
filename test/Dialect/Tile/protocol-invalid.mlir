// RUN: %vary %s | flashc-opt --split-input-file --verify-diagnostics

// The ring protocol of tile.warp_specialize: the invariants of TileProtocol.cpp.

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
!slopes = !tile.slot<64, 16, bf16>
gpu.module @kernels {
  gpu.func @kernel(%map: !map, %o: !acc, %x: index, %more: i1, %rows: tensor<64xf32, #tile.row>, %slot: !slot) kernel {
    %slopes = tile.alloc_slot slopes : !slopes
    %ring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
      // PRODUCER
    } consumer {
    ^bb0(%w: index):
      // BODY
    }
    gpu.return
  }
}


// Invariants 1 and 2: what each role does, and what the producer does in which order. Then the regions of the roles.

// VARY consumers_only
//   // PRODUCER => %s = tile.wait %ring[%c0] : !ring -> !slot | error: 'tile.wait' op expected in the consumer only
// VARY slopes_in_producer
//   // PRODUCER =>
//     tile.store_slopes %rows into %slopes : tensor<64xf32, #tile.row>, !slopes
//     | error: 'tile.store_slopes' op expected in the consumer only
// VARY turn_in_producer
//   // PRODUCER => tile.ping_pong_wait %c0 | error: 'tile.ping_pong_wait' op expected in the consumer only
// VARY producer_only
//     tile.acquire %ring[%c0] : !ring | error: 'tile.acquire' op expected in the producer only
// VARY copy_without_acquire
//   // PRODUCER =>
//     tile.copy_async %map[%c0, %c0, %c0] into %ring[%c0] : !map, !ring
//     | error: 'tile.copy_async' op expected the slot to be acquired right before it is filled
// VARY copy_of_another_count
//   // PRODUCER =>
//     tile.acquire %ring[%c0] : !ring
//     tile.copy_async %map[%c0, %c0, %c0] into %ring[%c1] : !map, !ring
//     | error: 'tile.copy_async' op expected the slot to be acquired right before it is filled
// VARY copy_for_another_owner
//   // PRODUCER =>
//     tile.acquire %ring[%c0] : !ring
//     tile.copy_async %map[%c0, %c0, %c0] into %ring[%c0] owner 1 : !map, !ring
//     | error: 'tile.copy_async' op expected the slot to be acquired right before it is filled
// VARY store_in_producer
//   // PRODUCER =>
//     tile.store_async %o, %map[%c0, %c0, %c0] through %slot : !acc, !map, !slot
//     | error: 'tile.store_async' op expected in the consumer only
// VARY store_wait_in_producer
//   // PRODUCER => tile.store_wait | error: 'tile.store_wait' op expected in the consumer only
// VARY producer_argument
//   tile.warp_specialize | error: 'tile.warp_specialize' op expected no producer argument
//   // PRODUCER => ^bb0(%t: index):
// VARY consumer_argument
//   tile.warp_specialize | error: 'tile.warp_specialize' op expected one consumer argument, the warpgroup (index)
//   ^bb0(%w: index): =>

// Invariant 3: a slot is released once, where it is waited for or in the loop that it is handed to.

// VARY never_released
//     %s = tile.wait %ring[%c0] : !ring -> !slot | error: 'tile.wait' op expected its slot to be released
// VARY released_twice
//     %s = tile.wait %ring[%c0] : !ring -> !slot
//     tile.release %s : !slot | error: 'tile.release' op expected the slot to be released once
//     tile.release %s : !slot
// VARY released_in_a_loop
//     %s = tile.wait %ring[%c0] : !ring -> !slot
//     scf.for %i = %c0 to %x step %c1 {
//       tile.release %s : !slot | error: 'tile.release' op expected in the block that waits for the slot
//     }
// VARY handed_on_and_released
//     %s = tile.wait %ring[%c0] : !ring -> !slot
//     tile.release %s : !slot | error: 'tile.release' op expected the slot to be released once
//     %r = scf.for %i = %c0 to %x step %c1 iter_args(%h = %s) -> (!slot) {
//       scf.yield %h : !slot
//     }
//     tile.release %r : !slot
// VARY handed_on_twice
//     %s = tile.wait %ring[%c0] : !ring -> !slot
//     %r:2 = scf.for %i = %c0 to %x step %c1 iter_args(%g = %s, %h = %s) -> (!slot, !slot) {
//     | error: 'scf.for' op expected the slot to be released once
//       scf.yield %g, %h : !slot, !slot
//     }
//     tile.release %r#0 : !slot
//     tile.release %r#1 : !slot
// VARY handed_on_in_a_loop
//     %s = tile.wait %ring[%c0] : !ring -> !slot
//     scf.for %i = %c0 to %x step %c1 {
//       %r = scf.for %j = %c0 to %x step %c1 iter_args(%h = %s) -> (!slot) {
//       | error: 'scf.for' op expected in the block that waits for the slot
//         scf.yield %h : !slot
//       }
//       tile.release %r : !slot
//     }
// VARY handed_to_a_branch
//     %s = tile.wait %ring[%c0] : !ring -> !slot
//     %some = arith.cmpi eq, %x, %c0 : index
//     %t = tile.wait %ring[%c1] : !ring -> !slot
//     %r = scf.if %some -> (!slot) {
//       scf.yield %s : !slot | error: 'scf.yield' op expected a slot to be passed to scf.for only
//     } else {
//       scf.yield %t : !slot
//     }
//     tile.release %s : !slot
//     tile.release %t : !slot
// VARY handed_to_another_loop
//     %s = tile.wait %ring[%c0] : !ring -> !slot
//     %r = scf.while (%h = %s) : (!slot) -> (!slot) {
//     | error: 'scf.while' op expected a slot to be passed to scf.for only
//       scf.condition(%more) %h : !slot
//     } do {
//     ^bb0(%h: !slot):
//       scf.yield %h : !slot
//     }
//     tile.release %r : !slot
// VARY not_released_in_a_loop
//     %s = tile.wait %ring[%c0] : !ring -> !slot
//     %r = scf.for %i = %c0 to %x step %c1 iter_args(%h = %s) -> (!slot) {
//     | error: 'scf.for' op expected its slot to be released
//       %n = tile.wait %ring[%i] : !ring -> !slot
//       scf.yield %n : !slot
//     }
//     tile.release %r : !slot
// VARY not_released_after_a_loop
//     %s = tile.wait %ring[%c0] : !ring -> !slot
//     %r = scf.for %i = %c0 to %x step %c1 iter_args(%h = %s) -> (!slot) {
//     | error: 'scf.for' op expected its slot to be released
//       scf.yield %h : !slot
//     }
// VARY released_and_handed_on
//     %s = tile.wait %ring[%c0] : !ring -> !slot
//     %r = scf.for %i = %c0 to %x step %c1 iter_args(%h = %s) -> (!slot) {
//       tile.release %h : !slot | error: 'tile.release' op expected the slot to be released once
//       scf.yield %h : !slot
//     }
//     tile.release %r : !slot

// Invariants 3 and 4 where a tile is stored through a slot.

// VARY store_is_not_waited_for
//     %s = tile.wait %ring[%c0] : !ring -> !slot
//     tile.store_async %o, %map[%c0, %c0, %c0] through %s : !acc, !map, !slot
//     | error: 'tile.store_async' op expected a tile.store_wait between it and the release of its slot
//     tile.release %s : !slot
// VARY store_is_waited_for_before
//     %s = tile.wait %ring[%c0] : !ring -> !slot
//     tile.store_wait
//     tile.store_async %o, %map[%c0, %c0, %c0] through %s : !acc, !map, !slot
//     | error: 'tile.store_async' op expected a tile.store_wait between it and the release of its slot
//     tile.release %s : !slot
// VARY store_after_the_release
//     %s = tile.wait %ring[%c0] : !ring -> !slot
//     tile.release %s : !slot
//     tile.store_async %o, %map[%c0, %c0, %c0] through %s : !acc, !map, !slot
//     | error: 'tile.store_async' op expected a tile.store_wait between it and the release of its slot
//     tile.store_wait
// VARY store_is_waited_for_after_the_release
//     %s = tile.wait %ring[%c0] : !ring -> !slot
//     tile.store_async %o, %map[%c0, %c0, %c0] through %s : !acc, !map, !slot
//     | error: 'tile.store_async' op expected a tile.store_wait between it and the release of its slot
//     tile.release %s : !slot
//     tile.store_wait
// VARY store_is_waited_for_in_a_loop
//     %s = tile.wait %ring[%c0] : !ring -> !slot
//     tile.store_async %o, %map[%c0, %c0, %c0] through %s : !acc, !map, !slot
//     | error: 'tile.store_async' op expected a tile.store_wait between it and the release of its slot
//     scf.for %i = %c0 to %x step %c1 {
//       tile.store_wait
//     }
//     tile.release %s : !slot
// VARY store_in_a_loop
//     %s = tile.wait %ring[%c0] : !ring -> !slot
//     scf.for %i = %c0 to %x step %c1 {
//       tile.store_async %o, %map[%c0, %c0, %c0] through %s : !acc, !map, !slot
//       | error: 'tile.store_async' op expected a tile.store_wait between it and the release of its slot
//       tile.store_wait
//     }
//     tile.release %s : !slot
// VARY two_stores
//     %s = tile.wait %ring[%c0] : !ring -> !slot
//     tile.store_async %o, %map[%c0, %c0, %c0] through %s : !acc, !map, !slot
//     | error: 'tile.store_async' op expected one tile to pass through the slot
//     tile.store_wait
//     tile.store_async %o, %map[%c0, %c0, %c0] through %s : !acc, !map, !slot
//     tile.release %s : !slot
// VARY store_without_release
//     %s = tile.wait %ring[%c0] : !ring -> !slot | error: 'tile.wait' op expected its slot to be released
//     tile.store_async %o, %map[%c0, %c0, %c0] through %s : !acc, !map, !slot
//     tile.store_wait
// VARY store_during_a_product
//     %s = tile.wait %ring[%c0] : !ring -> !slot
//     %t = tile.mma_async %s, %s transpose_b : !slot, !slot -> !tile.token<!acc>
//     | note: this product has not been waited for
//     tile.store_async %o, %map[%c0, %c0, %c0] through %s : !acc, !map, !slot
//     | error: 'tile.store_async' op expected no product in flight that reads the slot
//     %v = tile.mma_wait %t : !tile.token<!acc> -> !acc
//     tile.store_wait
//     tile.release %s : !slot
// VARY product_after_a_store
//     %s = tile.wait %ring[%c0] : !ring -> !slot
//     tile.store_async %o, %map[%c0, %c0, %c0] through %s : !acc, !map, !slot
//     | error: 'tile.store_async' op expected no product in flight that reads the slot
//     tile.store_wait
//     %t = tile.mma_async %s, %s transpose_b : !slot, !slot -> !tile.token<!acc>
//     | note: this product has not been waited for
//     %v = tile.mma_wait %t : !tile.token<!acc> -> !acc
//     tile.release %s : !slot
// VARY store_before_it_is_handed_on
//     %s = tile.wait %ring[%c0] : !ring -> !slot
//     tile.store_async %o, %map[%c0, %c0, %c0] through %s : !acc, !map, !slot
//     | error: 'tile.store_async' op expected a tile.store_wait between it and the release of its slot
//     %r = scf.for %i = %c0 to %x step %c1 iter_args(%h = %s) -> (!slot) {
//       scf.yield %h : !slot
//     }
//     tile.store_wait
//     tile.release %r : !slot

// Invariant 4: no product reads a slot that is released or handed on.

// VARY released_in_flight
//     %s = tile.wait %ring[%c0] : !ring -> !slot
//     %t = tile.mma_async %s, %s transpose_b : !slot, !slot -> !tile.token<!acc>
//     | note: this product has not been waited for
//     tile.release %s : !slot | error: 'tile.release' op expected no product in flight that reads the slot
//     %v = tile.mma_wait %t : !tile.token<!acc> -> !acc
// VARY never_waited_for
//     %s = tile.wait %ring[%c0] : !ring -> !slot
//     %t = tile.mma_async %s, %s transpose_b : !slot, !slot -> !tile.token<!acc>
//     | note: this product has not been waited for
//     tile.release %s : !slot | error: 'tile.release' op expected no product in flight that reads the slot
// VARY waited_for_in_a_branch
//     %s = tile.wait %ring[%c0] : !ring -> !slot
//     %t = tile.mma_async %s, %s transpose_b : !slot, !slot -> !tile.token<!acc>
//     | note: this product has not been waited for
//     %some = arith.cmpi eq, %x, %c0 : index
//     scf.if %some {
//       %v = tile.mma_wait %t : !tile.token<!acc> -> !acc
//     }
//     tile.release %s : !slot | error: 'tile.release' op expected no product in flight that reads the slot
// VARY handed_on_in_flight
//     %s = tile.wait %ring[%c0] : !ring -> !slot
//     %t = tile.mma_async %s, %s transpose_b : !slot, !slot -> !tile.token<!acc>
//     | note: this product has not been waited for
//     %r = scf.for %i = %c0 to %x step %c1 iter_args(%h = %s) -> (!slot) {
//     | error: 'scf.for' op expected no product in flight that reads the slot
//       scf.yield %h : !slot
//     }
//     %v = tile.mma_wait %t : !tile.token<!acc> -> !acc
//     tile.release %r : !slot
// VARY yielded_in_flight
//     %s = tile.wait %ring[%c0] : !ring -> !slot
//     %r = scf.for %i = %c0 to %x step %c1 iter_args(%h = %s) -> (!slot) {
//       %t = tile.mma_async %h, %h transpose_b : !slot, !slot -> !tile.token<!acc>
//       | note: this product has not been waited for
//       scf.yield %h : !slot | error: 'scf.yield' op expected no product in flight that reads the slot
//     }
//     tile.release %r : !slot
// VARY read_by_its_owner_before
//     %s = tile.wait %ring[%c0] : !ring -> !slot
//     %r = scf.for %i = %c0 to %x step %c1 iter_args(%h = %s) -> (!slot) {
//     | error: 'scf.for' op expected no product in flight that reads the slot
//       %t = tile.mma_async %s, %s transpose_b : !slot, !slot -> !tile.token<!acc>
//       | note: this product has not been waited for
//       %v = tile.mma_wait %t : !tile.token<!acc> -> !acc
//       scf.yield %h : !slot
//     }
//     tile.release %r : !slot
