// Every refusal of tile-overlap-epilogue. The program below is fine; a test takes lines away (those that end with
// `// NAME`), or adds some (those that begin with `//NAME`).
// DEFINE: %{early} = -e 's/epilogue = product/epilogue = softmax/' -e 's,//SOFTMAX,,' -e '/early-count$/d' -e 's,//EARLIER,,'
// DEFINE: %{edit} =
// DEFINE: %{check} =
// DEFINE: %{refuse} = sed %{edit} %s | not flashc-opt --tile-overlap-epilogue 2>&1 | FileCheck %s --check-prefix=%{check}
// RUN: flashc-opt %s --tile-overlap-epilogue | FileCheck %s --check-prefix=FINE
// FINE: pending = 1

// Nothing is left of the loops over keys where there is one tile of them.
// RUN: sed -e '/copy-keys$/d' -e '/multiply-keys$/d' %s | flashc-opt --tile-overlap-epilogue | FileCheck %s --check-prefix=FINE

// Loops over work tiles that have no loads, no products of their own.
// REDEFINE: %{check} = LOOPS
// REDEFINE: %{edit} = -e '/copy-first$/d' -e '/copy-last$/d'
// RUN: %{refuse}
// REDEFINE: %{edit} = -e '/multiply-first$/d' -e '/wait-first$/d' -e '/multiply-last$/d'
// RUN: %{refuse}
// Two of them.
// REDEFINE: %{edit} = -e '/producer-loop$/,/producer-end$/H' -e '/producer-end$/G'
// RUN: %{refuse}
// REDEFINE: %{edit} = -e '/consumer-loop$/,/consumer-end$/H' -e '/consumer-end$/G'
// RUN: %{refuse}
// LOOPS: error: 'tile.warp_specialize' op cannot overlap the epilogue: expected one loop over work tiles, with loads and with products of its own, on each side

// REDEFINE: %{check} = RESULTS
// REDEFINE: %{edit} = -e 's,//PRODUCER-RESULT,,' -e 's,scf.for \(.*// producer-loop\),%%result:2 = scf.for \1,'
// RUN: %{refuse}
// REDEFINE: %{edit} = -e 's,//CONSUMER-RESULT,,' -e 's,scf.for \(.*// consumer-loop\),%%result:2 = scf.for \1,'
// RUN: %{refuse}
// RESULTS: error: 'scf.for' op cannot overlap the epilogue: expected the loop's results not to be used

// One product too few, one too many.
// REDEFINE: %{check} = PRODUCTS
// REDEFINE: %{edit} = -e '/multiply-first$/d' -e '/wait-first$/d'
// RUN: %{refuse}
// REDEFINE: %{edit} = -e '/multiply-last$/d'
// RUN: %{refuse}
// REDEFINE: %{edit} = -e 's,//ANOTHER,,'
// RUN: %{refuse}
// The first is waited for in a branch, never, behind the loop over keys.
// REDEFINE: %{edit} = -e '/wait-first$/d' -e 's,//BRANCH,,' -e 's/%%k, %%k/%%fixed, %%fixed/'
// RUN: %{refuse}
// REDEFINE: %{edit} = -e '/wait-first$/d' -e 's/%%k, %%k/%%fixed, %%fixed/'
// RUN: %{refuse}
// REDEFINE: %{edit} = -e '/wait-first$/d' -e '/release-first$/d' -e 's,//LATE,,'
// RUN: %{refuse}
// Both stand in front of the loop over keys.
// REDEFINE: %{edit} = -e '/multiply-last$/d' -e 's,//EARLY,,'
// RUN: %{refuse}
// PRODUCTS: error: 'scf.for' op cannot overlap the epilogue: expected one product before the loop over keys, and one after it

// REDEFINE: %{check} = EFFECT
// REDEFINE: %{edit} = -e 's,//EFFECT,,'
// RUN: %{refuse}
// REDEFINE: %{edit} = -e 's,//NESTED-EFFECT,,'
// RUN: %{refuse}
// EFFECT: error: 'scf.for' op cannot overlap the epilogue: expected no effects before the first product
// EFFECT: note: this op has one
// EFFECT-NEXT: {{memref.store|scf.if}}

// REDEFINE: %{check} = TURN
// REDEFINE: %{edit} = -e 's,//TURN-LAST,,'
// RUN: %{refuse}
// TURN: error: 'scf.for' op cannot overlap the epilogue: expected no turn between work tiles but the first product's
// TURN: note: this op belongs to another one
// TURN-NEXT: tile.ping_pong_

// A slot of the first product that is held to the end is fine if its ring has another.
// RUN: sed -e '/release-first$/d' -e 's,//HELD,,' %s | flashc-opt --tile-overlap-epilogue | FileCheck %s --check-prefix=FINE
// REDEFINE: %{check} = HELD
// REDEFINE: %{edit} = -e '/release-first$/d' -e 's,//HELD,,' -e 's/!ring = !tile.ring<2/!ring = !tile.ring<1/'
// RUN: %{refuse}
// HELD: error: 'scf.for' op cannot overlap the epilogue: expected a ring of two slots or more for a slot that a work tile holds
// HELD: note: the next work tile would wait for this release, and this one for the next
// HELD-NEXT: tile.release %k :

// REDEFINE: %{check} = CARRIED
// REDEFINE: %{edit} = -e '/early-count$/d' -e 's,//BEHIND,,'
// RUN: %{refuse}
// CARRIED: error: 'scf.for' op cannot overlap the epilogue: expected the values that the next work tile reads to be computed before the last product is waited for
// CARRIED: note: this op is after the wait
// CARRIED-NEXT: %gv1 = arith.addi

// One load less than the consumers wait for, one more, one from another ring.
// REDEFINE: %{check} = LOADS
// REDEFINE: %{edit} = -e '/copy-first$/d'
// RUN: %{refuse}
// REDEFINE: %{edit} = -e 's,//MORE,,'
// RUN: %{refuse}
// REDEFINE: %{edit} = -e '/copy-first$/s,%%kring,%%vring,'
// RUN: %{refuse}
// LOADS: error: 'scf.for' op cannot overlap the epilogue: expected it to load before its loop over keys what the consumers wait for before their first product

// REDEFINE: %{check} = RING
// REDEFINE: %{edit} = -e '/copy-last$/s,%%vring,%%kring,'
// RUN: %{refuse}
// RING: error: 'scf.for' op cannot overlap the epilogue: expected rings of their own for the loads after the loop over keys
// RING: note: the next work tile's first load into this ring would come before this one
// RING-NEXT: tile.copy_async {{.*}} into %kring

// With an early softmax the next work tile begins in front of the last product.
// RUN: sed %{early} %s | flashc-opt --tile-overlap-epilogue | FileCheck %s --check-prefix=FINE
// RUN: sed %{early} -e '/copy-keys$/d' -e '/multiply-keys$/d' %s | flashc-opt --tile-overlap-epilogue | FileCheck %s --check-prefix=FINE
// REDEFINE: %{check} = CARRIED-EARLY
// REDEFINE: %{edit} = %{early} -e '/earlier-count$/d' -e 's,//BETWEEN,,'
// RUN: %{refuse}
// CARRIED-EARLY: error: 'scf.for' op cannot overlap the epilogue: expected the values that the next work tile reads to be computed before the last product is issued
// CARRIED-EARLY: note: this op is after the product
// CARRIED-EARLY-NEXT: %gv1 = arith.addi

// REDEFINE: %{check} = HELD
// REDEFINE: %{edit} = %{early} -e '/release-first$/d' -e 's,//UNDER,,' -e 's/!ring = !tile.ring<2/!ring = !tile.ring<1/'
// RUN: %{refuse}

// REDEFINE: %{check} = EFFECT-RESULT
// REDEFINE: %{edit} = %{early} -e 's,//STORE-RESULT,,'
// RUN: %{refuse}
// EFFECT-RESULT: error: 'scf.for' op cannot overlap the epilogue: expected no effects before the first product's result
// EFFECT-RESULT: note: this op has one
// EFFECT-RESULT-NEXT: memref.store
// REDEFINE: %{check} = EFFECT-SOFTMAX
// REDEFINE: %{edit} = %{early} -e 's,//STORE-SOFTMAX,,'
// RUN: %{refuse}
// EFFECT-SOFTMAX: error: 'scf.for' op cannot overlap the epilogue: expected no effects before the loop over keys
// EFFECT-SOFTMAX: note: this op has one
// EFFECT-SOFTMAX-NEXT: memref.store

// REDEFINE: %{check} = PACKED
// REDEFINE: %{edit} = %{early} -e '/probabilities$/d'
// RUN: %{refuse}
// PACKED: error: 'scf.for' op cannot overlap the epilogue: expected a tile.to_operand_a before the loop over keys, for its softmax to be early

!acc = tensor<64x64xf32, #tile.acc>
!a = tensor<64x64xbf16, #tile.operand_a>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
#schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240,
                           overlap = true, ping_pong = false, epilogue = product>

gpu.module @kernels {
  gpu.func @work_tiles(%map: !map, %fixed: !slot, %out: memref<?xindex>, %n: index, %yes: i1) kernel
      attributes {tile.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %kring = tile.alloc_ring : !ring
    %vring = tile.alloc_ring : !ring
    tile.warp_specialize 1 registers(24, 240) producer {
      scf.for %p = %c0 to %n step %c1 iter_args(%gk = %c0, %gv = %c0) -> (index, index) { // producer-loop
        tile.acquire %kring[%gk] : !ring // copy-first
        tile.copy_async %map[%p, %c0, %c0] into %kring[%gk] : !map, !ring // copy-first
        //MORE tile.acquire %vring[%gv] : !ring
        //MORE tile.copy_async %map[%p, %c0, %c0] into %vring[%gv] : !map, !ring
        %r = scf.for %u = %c1 to %n step %c1 iter_args(%g = %gk) -> (index) {
          %g1 = arith.addi %g, %c1 : index
          tile.acquire %kring[%g1] : !ring // copy-keys
          tile.copy_async %map[%p, %c0, %u] into %kring[%g1] : !map, !ring // copy-keys
          scf.yield %g1 : index
        }
        %gk1 = arith.addi %r, %c1 : index
        tile.acquire %vring[%gv] : !ring // copy-last
        tile.copy_async %map[%p, %c0, %r] into %vring[%gv] : !map, !ring // copy-last
        %gv1 = arith.addi %gv, %c1 : index
        scf.yield %gk1, %gv1 : index, index
      } // producer-end
      //PRODUCER-RESULT memref.store %result#0, %out[%c0] : memref<?xindex>
    } consumer {
    ^bb0(%w: index):
      scf.for %p = %c0 to %n step %c1 iter_args(%gk = %c0, %gv = %c0) -> (index, index) { // consumer-loop
        //EFFECT memref.store %p, %out[%c0] : memref<?xindex>
        //NESTED-EFFECT scf.if %yes {
        //NESTED-EFFECT   memref.store %p, %out[%c0] : memref<?xindex>
        //NESTED-EFFECT }
        %k = tile.wait %kring[%gk] : !ring -> !slot
        %ts = tile.mma_async %k, %k transpose_b : !slot, !slot -> !tile.token<!acc> // multiply-first
        //STORE-RESULT memref.store %p, %out[%c0] : memref<?xindex>
        %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc // wait-first
        //BRANCH scf.if %yes {
        //BRANCH   %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
        //BRANCH }
        tile.release %k : !slot // release-first
        //SOFTMAX %e = math.exp2 %s : !acc
        //STORE-SOFTMAX memref.store %p, %out[%c0] : memref<?xindex>
        //SOFTMAX %pa = tile.to_operand_a %e : !acc -> !a // probabilities
        //EARLY %v = tile.wait %vring[%gv] : !ring -> !slot
        //EARLY %to = tile.mma_async %v, %v : !slot, !slot -> !tile.token<!acc>
        //EARLY %o = tile.mma_wait %to : !tile.token<!acc> -> !acc
        //EARLY tile.release %v : !slot
        %r = scf.for %u = %c1 to %n step %c1 iter_args(%g = %gk) -> (index) {
          %g1 = arith.addi %g, %c1 : index
          %k2 = tile.wait %kring[%g1] : !ring -> !slot // multiply-keys
          %t2 = tile.mma_async %k2, %k2 transpose_b : !slot, !slot -> !tile.token<!acc> // multiply-keys
          %s2 = tile.mma_wait %t2 : !tile.token<!acc> -> !acc // multiply-keys
          tile.release %k2 : !slot // multiply-keys
          scf.yield %g1 : index
        }
        %gk1 = arith.addi %r, %c1 : index
        //ANOTHER %ta = tile.mma_async %fixed, %fixed : !slot, !slot -> !tile.token<!acc>
        //ANOTHER %a = tile.mma_wait %ta : !tile.token<!acc> -> !acc
        //TURN-LAST tile.ping_pong_wait %w
        %v = tile.wait %vring[%gv] : !ring -> !slot // multiply-last
        //EARLIER %gv1 = arith.addi %gv, %c1 : index // earlier-count
        %to = tile.mma_async %v, %v : !slot, !slot -> !tile.token<!acc> // multiply-last
        //BETWEEN %gv1 = arith.addi %gv, %c1 : index
        //UNDER tile.release %k : !slot
        %gv1 = arith.addi %gv, %c1 : index // early-count
        %o = tile.mma_wait %to : !tile.token<!acc> -> !acc // multiply-last
        tile.release %v : !slot // multiply-last
        //LATE %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
        //LATE tile.release %k : !slot
        //HELD tile.release %k : !slot
        //BEHIND %gv1 = arith.addi %gv, %c1 : index
        scf.yield %gk1, %gv1 : index, index
      } // consumer-end
      //CONSUMER-RESULT memref.store %result#0, %out[%c0] : memref<?xindex>
    }
    gpu.return
  }
}
