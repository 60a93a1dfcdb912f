// RUN: flashc-opt %s --tile-specialize --verify-diagnostics

// Every refusal of tile-specialize.

!acc = tensor<64x64xf32, #tile.acc>
!yes = tensor<64xi1, #tile.row>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
#schedule = #tile.schedule<consumers = 2, producer_registers = 24, consumer_registers = 240,
                           overlap = false, ping_pong = true>

gpu.module @kernels {
  gpu.func @has_a_grid(%n: index) kernel attributes {tile.schedule = #schedule} {
    // expected-error @+1 {{'tile.program' op expected the launch's own grid (tile-persist runs before)}}
    tile.program 2 grid(%n, %n, %n) {
    ^bb0(%w: index):
    }
    gpu.return
  }

  gpu.func @position_is_carried(%map: !map, %q: !slot, %c0: index, %c1: index, %n: index) kernel
      attributes {tile.schedule = #schedule} {
    %ring = tile.alloc_ring : !ring
    tile.program 2 {
    ^bb0(%w: index):
      // expected-note @+1 {{it depends on this value}}
      %r = scf.for %u = %c0 to %n step %c1 iter_args(%j = %c0) -> (index) {
        // expected-error @+1 {{'tile.load' op cannot specialize: expected to depend on loop indices and scalar code only}}
        %k = tile.load %map[%c0, %c0, %j] into %ring : !map, !ring -> !slot
        %j2 = arith.addi %j, %c1 : index
        scf.yield %j2 : index
      }
    }
    gpu.return
  }

  gpu.func @bound_comes_from_a_tile(%map: !map, %q: !slot, %c0: index, %c1: index, %n: index, %need: !yes) kernel
      attributes {tile.schedule = #schedule} {
    %ring = tile.alloc_ring : !ring
    tile.program 2 {
    ^bb0(%w: index):
      // expected-note @+1 {{it depends on this value}}
      %any = tile.vote_any %need : !yes
      %end = arith.select %any, %n, %c1 : index
      // expected-error @+1 {{'scf.for' op cannot specialize: expected to depend on loop indices and scalar code only}}
      scf.for %u = %c0 to %end step %c1 {
        %k = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
      }
    }
    gpu.return
  }

  gpu.func @load_in_branch(%map: !map, %q: !slot, %c0: index, %c1: index, %n: index, %yes: i1) kernel
      attributes {tile.schedule = #schedule} {
    %ring = tile.alloc_ring : !ring
    tile.program 2 {
    ^bb0(%w: index):
      // expected-note @+1 {{this op decides whether it runs}}
      scf.if %yes {
        // expected-error @+1 {{'tile.load' op cannot specialize: expected in loops only}}
        %k = tile.load %map[%c0, %c0, %n] into %ring : !map, !ring -> !slot
      }
    }
    gpu.return
  }

  gpu.func @turn_in_branch(%map: !map, %q: !slot, %c0: index, %c1: index, %n: index, %yes: i1) kernel
      attributes {tile.schedule = #schedule} {
    %ring = tile.alloc_ring : !ring
    tile.program 2 {
    ^bb0(%w: index):
      // expected-note @+1 {{this op decides whether it runs}}
      scf.if %yes {
        // expected-error @+1 {{'tile.ping_pong_wait' op cannot specialize: expected in loops only}}
        tile.ping_pong_wait %w
        %t = tile.mma_async %q, %q transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %t : !tile.token<!acc> -> !acc
      }
    }
    gpu.return
  }

  gpu.func @bound_depends_on_warpgroup(%map: !map, %q: !slot, %c0: index, %c1: index, %n: index) kernel
      attributes {tile.schedule = #schedule} {
    %ring = tile.alloc_ring : !ring
    tile.program 2 {
    ^bb0(%w: index):
      // expected-error @+1 {{'scf.for' op cannot specialize: expected bounds that do not depend on the warpgroup}}
      scf.for %u = %c0 to %w step %c1 {
        // expected-note @+1 {{every consumer must run this op equally often}}
        %k = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
      }
    }
    gpu.return
  }

  gpu.func @own_visits_without_skip(%map: !map, %q: !slot, %c0: index, %c1: index, %n: index) kernel
      attributes {tile.schedule = #schedule} {
    %ring = tile.alloc_ring : !ring
    tile.program 2 {
    ^bb0(%w: index):
      // expected-error @+1 {{'tile.own_visits' op cannot specialize: expected tile.advance_ring of its begin, and of its total less its end}}
      %begin, %end = tile.own_visits %w to %n of %n
      scf.for %u = %begin to %end step %c1 {
        %k = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
      }
    }
    gpu.return
  }

  gpu.func @shared_ring_of_private_rows(%map: !map, %q: !slot, %c0: index, %c1: index, %n: index) kernel
      attributes {tile.schedule = #schedule} {
    %ring = tile.alloc_ring : !ring
    tile.program 2 {
    ^bb0(%w: index):
      %row = arith.addi %w, %n : index
      // expected-error @+1 {{'tile.load' op cannot specialize: expected the position in a shared ring not to depend on the warpgroup}}
      %k = tile.load %map[%c0, %c0, %row] into %ring : !map, !ring -> !slot
    }
    gpu.return
  }

  gpu.func @ring_in_program(%map: !map, %q: !slot, %c0: index, %c1: index, %n: index) kernel
      attributes {tile.schedule = #schedule} {
    %ring = tile.alloc_ring : !ring
    tile.program 2 {
    ^bb0(%w: index):
      %inner = tile.alloc_ring : !ring
      // expected-error @+1 {{'tile.load' op cannot specialize: expected its ring and its tensor map to come from outside of the program}}
      %k = tile.load %map[%c0, %c0, %c0] into %inner : !map, !ring -> !slot
    }
    gpu.return
  }

  gpu.func @slot_is_yielded(%map: !map, %q: !slot, %c0: index, %c1: index, %n: index, %yes: i1) kernel
      attributes {tile.schedule = #schedule} {
    %ring = tile.alloc_ring : !ring
    tile.program 2 {
    ^bb0(%w: index):
      // expected-error @+1 {{'tile.load' op cannot specialize: expected its slot to be read by products only, got scf.yield}}
      %k = tile.load %map[%c0, %c0, %c0] into %ring : !map, !ring -> !slot
      %either = scf.if %yes -> (!slot) {
        scf.yield %k : !slot
      } else {
        scf.yield %q : !slot
      }
    }
    gpu.return
  }

  gpu.func @store_in_branch(%map: !map, %out: !acc, %c0: index, %yes: i1) kernel attributes {tile.schedule = #schedule} {
    %ring = tile.alloc_ring : !ring
    tile.program 2 {
    ^bb0(%w: index):
      // expected-error @+1 {{'tile.load' op cannot specialize: expected its slot to be read by products only, got tile.store_async}}
      %k = tile.load %map[%c0, %c0, %c0] into %ring : !map, !ring -> !slot
      scf.if %yes {
        tile.store_async %out, %map[%c0, %c0, %c0] through %k : !acc, !map, !slot
      }
    }
    gpu.return
  }

  gpu.func @product_ends_in_branch(%map: !map, %q: !slot, %c0: index, %c1: index, %n: index, %yes: i1) kernel
      attributes {tile.schedule = #schedule} {
    %ring = tile.alloc_ring : !ring
    tile.program 2 {
    ^bb0(%w: index):
      // expected-error @+1 {{'tile.load' op cannot specialize: expected the products that read it to end where they start}}
      %k = tile.load %map[%c0, %c0, %c0] into %ring : !map, !ring -> !slot
      // expected-note @+1 {{this product does not}}
      %t = tile.mma_async %q, %k transpose_b : !slot, !slot -> !tile.token<!acc>
      scf.if %yes {
        %s = tile.mma_wait %t : !tile.token<!acc> -> !acc
      }
    }
    gpu.return
  }

  gpu.func @no_schedule(%map: !map, %q: !slot, %c0: index, %c1: index, %n: index) kernel {
    %ring = tile.alloc_ring : !ring
    // expected-error @+1 {{'tile.program' op expected a 'tile.schedule' on its kernel}}
    tile.program 2 {
    ^bb0(%w: index):
    }
    gpu.return
  }

  gpu.func @other_number_of_consumers(%map: !map, %q: !slot, %c0: index, %c1: index, %n: index) kernel
      attributes {tile.schedule = #schedule} {
    %ring = tile.alloc_ring : !ring
    // expected-error @+1 {{'tile.program' op expected 2 consumers as in the schedule, got 3}}
    tile.program 3 {
    ^bb0(%w: index):
    }
    gpu.return
  }
}
