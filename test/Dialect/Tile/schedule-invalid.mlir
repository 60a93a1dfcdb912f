// RUN: %vary %s | flashc-opt --split-input-file --verify-diagnostics

// What a schedule asks for must be there: registers, shared memory.

// expected-error @+1 {{unknown attribute 'tile.plan' of the tile dialect}}
func.func private @unknown_attribute() attributes {tile.plan = 1 : i64}

// -----

gpu.module @kernels [#nvvm.target<chip = "sm_90a">] {
  gpu.func @kernel() kernel
      attributes {tile.schedule = #tile.schedule<consumers = 2, producer_registers = 24,
                                 consumer_registers = 240, overlap = true, ping_pong = true>} {
    // BODY
    gpu.return
  }
}

// VARY too_many_consumers
//   gpu.func | error: expected 1 to 4 consumer warpgroups, got 5
//   consumers = 2 => consumers = 5
// VARY registers_below_24
//   gpu.func | error: expected 24 to 256 registers in steps of 8, got 16
//   producer_registers = 24 => producer_registers = 16
// VARY shared_memory_budget: Q, once per consumer: 2 * (64 * 128 * 2 + 16); K and V: 4 * (128 * 128 * 2 + 16) each; 1024 for
// the alignment.
//     %q = tile.alloc_ring : !tile.ring<1, 64, 128, bf16, private true>
//     %k = tile.alloc_ring : !tile.ring<4, 128, 128, bf16>
//     %v = tile.alloc_ring : !tile.ring<4, 128, 128, bf16>
//   gpu.func | error: expected at most 232448 bytes of shared memory, got 296096
// VARY unknown_target
//   gpu.func | error: expected the target of the gpu.module to be one of sm_90a, sm_80, got 'sm_42'
//   sm_90a => sm_42
// VARY slot_without_role: The budget of shared memory is summed before the ops inside are verified.
//     %slot = "tile.alloc_slot"() : () -> !tile.slot<16, 64, bf16> | error: 'tile.alloc_slot' op requires attribute 'role'
// VARY warpgroups
//   gpu.func | error: expected a target whose warpgroups compute products, got sm_80
//   sm_90a => sm_80

// -----

gpu.module @kernels {
  // expected-error @+1 {{expected 'tile.schedule' to be a #tile.schedule on a gpu.func}}
  gpu.func @schedule_is_a_number() kernel attributes {tile.schedule = 1 : i64} {
    gpu.return
  }
}
