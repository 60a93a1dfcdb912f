// RUN: flashc-opt %s --split-input-file --verify-diagnostics --tile-specialize

func.func @no_loop(%list: memref<?xi32>, %n: index) {
  // expected-error @+1 {{'tile.draw' op expects parent op 'scf.for'}}
  %next = tile.draw %list[%n] from %n below %n : memref<?xi32> -> index {
  ^bb0(%number: index):
    tile.drawn %number : index
  }
  return
}

// -----

func.func @no_number(%list: memref<?xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 iter_args(%x = %n) -> index {
    // expected-error @+1 {{'tile.draw' op expected one region argument, the number (index)}}
    %next = tile.draw %list[%n] from %n below %n : memref<?xi32> -> index {
      tile.drawn %n : index
    }
    scf.yield %next : index
  }
  return
}

// -----

func.func @other_turns(%list: memref<?xi32>, %n: index) {
  scf.for %i = %n to %n step %n iter_args(%x = %n) -> index {
    // expected-error @+1 {{'tile.draw' op expected a loop from 0 with step 1, whose index is the number of the turn}}
    %next = tile.draw %list[%n] from %n below %n : memref<?xi32> -> index {
    ^bb0(%number: index):
      tile.drawn %number : index
    }
    scf.yield %next : index
  }
  return
}

// -----

func.func @too_few(%list: memref<?xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 iter_args(%x = %n) -> index {
    %next = tile.draw %list[%n] from %n below %n : memref<?xi32> -> index {
    ^bb0(%number: index):
      // expected-error @+1 {{'tile.drawn' op expected 1 values, got 0}}
      tile.drawn
    }
    scf.yield %next : index
  }
  return
}

// -----

func.func @too_many_words(%exists: i1, %x: index) {
  // expected-error @+1 {{'tile.publish' op expected at most 15 values, got 16}}
  tile.publish %exists, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x in %x
  return
}

// -----

func.func @repeats_nothing(%exists: i1) {
  // expected-error @+1 {{'tile.repeat_if' op expects parent op 'scf.for'}}
  tile.repeat_if %exists
  return
}

// -----

gpu.module @kernels {
  gpu.func @heard_by_the_producer() kernel {
    %c0 = arith.constant 0 : index
    tile.warp_specialize 2 registers(24, 240) producer {
      // expected-error @+1 {{'tile.published' op expected in the consumer only}}
      %exists = tile.published %c0
    } consumer {
    ^bb0(%w: index):
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @published_by_a_consumer(%exists: i1) kernel {
    %c0 = arith.constant 0 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      // expected-error @+1 {{'tile.publish' op expected in the producer only}}
      tile.publish %exists in %c0
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @taken_by_a_consumer(%list: memref<?xi32>) kernel {
    %c0 = arith.constant 0 : index
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      // expected-error @+1 {{'tile.consume' op expected in the producer only}}
      %number = tile.consume %list[%c0] : memref<?xi32>
    }
    gpu.return
  }
}

// -----

#schedule = #tile.schedule<consumers = 2, producer_registers = 24, consumer_registers = 240,
                           overlap = false, ping_pong = false>

// The producer draws once for all.
gpu.module @kernels {
  gpu.func @drawn_by_tiles(%map: !tile.tensor_map<64 x bf16>, %list: memref<?xi32>, %n: index, %k: !tile.slot<64, 64, bf16>)
      kernel attributes {tile.schedule = #schedule} {
    %ring = tile.alloc_ring : !tile.ring<2, 64, 64, bf16, private true>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.program 2 {
    ^bb0(%w: index):
      // expected-note @+1 {{it depends on this value}}
      %x0:2 = tile.published %c0 : index
      scf.for %i = %c0 to %n step %c1 iter_args(%x = %n) -> index {
        // expected-error @+1 {{cannot specialize: expected to depend on loop indices and scalar code only}}
        %next = tile.draw %list[%n] from %n below %n : memref<?xi32> -> index {
        ^bb0(%number: index):
          %x1 = arith.addi %number, %x0#1 : index
          tile.drawn %x1 : index
        }
        %q = tile.load %map[%c0, %c0, %x] into %ring : !tile.tensor_map<64 x bf16>, !tile.ring<2, 64, 64, bf16, private true> -> !tile.slot<64, 64, bf16>
        %t = tile.mma_async %q, %k transpose_b : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
        %s = tile.mma_wait %t : !tile.token<tensor<64x64xf32, #tile.acc>> -> tensor<64x64xf32, #tile.acc>
        scf.yield %next : index
      }
    }
    gpu.return
  }
}

// -----

#schedule = #tile.schedule<consumers = 2, producer_registers = 24, consumer_registers = 240,
                           overlap = false, ping_pong = false>

// Nothing keeps the producer from publishing four work tiles ahead.
gpu.module @kernels {
  gpu.func @runs_ahead(%map: !tile.tensor_map<64 x bf16>, %list: memref<?xi32>, %n: index, %k: !tile.slot<64, 64, bf16>)
      kernel attributes {tile.schedule = #schedule} {
    %ring = tile.alloc_ring : !tile.ring<4, 64, 64, bf16, private true>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.program 2 {
    ^bb0(%w: index):
      scf.for %i = %c0 to %n step %c1 iter_args(%x = %n) -> index {
        // expected-error @+1 {{cannot specialize: expected a load into fewer than 4 slots of each consumer in every iteration}}
        %next = tile.draw %list[%n] from %n below %n : memref<?xi32> -> index {
        ^bb0(%number: index):
          tile.drawn %number : index
        }
        %q = tile.load %map[%c0, %c0, %x] into %ring : !tile.tensor_map<64 x bf16>, !tile.ring<4, 64, 64, bf16, private true> -> !tile.slot<64, 64, bf16>
        %t = tile.mma_async %q, %k transpose_b : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
        %s = tile.mma_wait %t : !tile.token<tensor<64x64xf32, #tile.acc>> -> tensor<64x64xf32, #tile.acc>
        scf.yield %next : index
      }
    }
    gpu.return
  }
}
