// RUN: flashc-opt %s | flashc-opt | FileCheck %s
// RUN: flashc-opt %s --emit-bytecode | flashc-opt | FileCheck %s

// Every op, type and attribute, printed and parsed again. The shapes are those of the lowering.

!acc = tensor<64x128xf32, #tile.acc>
!row = tensor<64xf32, #tile.row>
!yes = tensor<64xi1, #tile.row>
!part = tensor<64xf32, #tile.lane_partial>
!a = tensor<64x128xf16, #tile.operand_a>
!summed = tensor<64x72xf32, #tile.acc>
!columns = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<128 x f16>
!qmap = !tile.tensor_map<64 x f16>
!qring = !tile.ring<1, 64, 64, f16, private true>
!ring = !tile.ring<2, 128, 64, f16>
!vring = !tile.ring<2, 128, 128, f16>
!qslot = !tile.slot<64, 64, f16>
!slot = !tile.slot<128, 64, f16>
!vslot = !tile.slot<128, 128, f16>

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @program(
  // CHECK-SAME:      !tile.tensor_map<64 x f16>
  // CHECK-SAME:      tile.schedule = #tile.schedule<consumers = 1, producer_registers = 24,
  // CHECK-SAME:      consumer_registers = 240, overlap = true, ping_pong = false>
  gpu.func @program(%qmap: !qmap, %o: memref<1x8x?x128xf16>, %lse: memref<1x8x?xf32>, %i: index) kernel
      attributes {tile.schedule = #tile.schedule<consumers = 1, producer_registers = 24,
                                                 consumer_registers = 240, overlap = true, ping_pong = false>} {
    // CHECK:         %[[RING:.*]] = tile.alloc_ring : <1, 64, 64, f16, private true>
    // CHECK-NEXT:    tile.alloc_ring {note = "kept"} : <2, 128, 64, f16>
    %qring = tile.alloc_ring : !qring
    %ring = tile.alloc_ring {note = "kept"} : !ring
    // CHECK-NEXT:    tile.program 1 {
    // CHECK-NEXT:    ^bb0(%{{.*}}: index):
    // CHECK-NEXT:      tile.load %{{.*}}[%[[I:.*]], %[[I]], %[[I]]] into %[[RING]] :
    // CHECK-SAME:          !tile.tensor_map<64 x f16>, <1, 64, 64, f16, private true> -> <64, 64, f16>
    tile.program 1 {
    ^bb0(%w: index):
      %q = tile.load %qmap[%i, %i, %i] into %qring : !qmap, !qring -> !qslot
      %s = arith.constant dense<1.0> : !acc
      %need = arith.constant dense<true> : !yes
      // CHECK:           %[[OUT:.*]] = tile.outside %[[I]] of[%[[I]], %[[I]])
      // CHECK-NEXT:      %[[MAP:.*]] = tile.map %{{.*}} at(%[[I]], %[[OUT2:.*]]) {
      // CHECK-NEXT:      ^bb0(%{{.*}}: f32, %{{.*}}: index, %{{.*}}: index):
      // CHECK-NEXT:        tile.yield %{{.*}} : f32
      // CHECK-NEXT:      } : tensor<64x128xf32, #tile.acc>
      %out = tile.outside %i of [%i, %i)
      %x = tile.map %s at(%i, %w) {
      ^bb0(%e: f32, %row: index, %col: index):
        tile.yield %e : f32
      } : !acc
      // CHECK-NEXT:      %[[SPLIT:.*]], %[[OFFSET:.*]] = tile.map %{{.*}} at(%[[I]], %[[OUT2]]) {
      // CHECK-NEXT:      ^bb0(%[[E:.*]]: f32, %{{.*}}: index, %[[J:.*]]: index):
      // CHECK-NEXT:        tile.first_column %[[J]]
      // CHECK-NEXT:        %[[H:.*]] = arith.constant
      // CHECK-NEXT:        tile.yield %[[E]], %[[H]] : f32, f32
      // CHECK-NEXT:      } : tensor<64x128xf32, #tile.acc>, tensor<64xf32, #tile.lane_partial>
      // CHECK-NEXT:      tile.row_reduce max %[[SPLIT]] : {{.*}} -> tensor<64xf32, #tile.lane_partial>
      // CHECK-NEXT:      tile.combine max %[[OFFSET]] : tensor<64xf32, #tile.lane_partial> -> tensor<64xf32, #tile.row>
      // CHECK-NEXT:      tile.broadcast %[[OFFSET]] : tensor<64xf32, #tile.lane_partial> -> tensor<64x128xf32, #tile.acc>
      %split, %offset = tile.map %s at(%i, %w) {
      ^bb0(%e: f32, %row: index, %col: index):
        %first = tile.first_column %col
        %h = arith.constant 1.0 : f32
        tile.yield %e, %h : f32, f32
      } : !acc, !part
      %ofLane = tile.row_reduce max %split : !acc -> !part
      %ofRow = tile.combine max %offset : !part -> !row
      %wideOffset = tile.broadcast %offset : !part -> !acc
      // CHECK-NEXT:      %[[MAX:.*]] = tile.row_reduce max %[[MAP]] : {{.*}} -> tensor<64xf32, #tile.row>
      // CHECK-NEXT:      %[[SUM:.*]] = tile.row_reduce sum %[[MAP]] : {{.*}} -> tensor<64xf32, #tile.lane_partial>
      // CHECK-NEXT:      tile.combine %[[SUM]] : tensor<64xf32, #tile.lane_partial> -> tensor<64xf32, #tile.row>
      // CHECK-NEXT:      tile.broadcast %[[MAX]] : tensor<64xf32, #tile.row> -> tensor<64x128xf32, #tile.acc>
      // CHECK-NEXT:      tile.broadcast %[[MAX]] : tensor<64xf32, #tile.row> -> tensor<64xf32, #tile.lane_partial>
      // CHECK-NEXT:      tile.row_reduce max_of_bits %[[MAP]] : {{.*}} -> tensor<64xf32, #tile.lane_partial>
      // CHECK-NEXT:      tile.scale_rows %[[MAP]], %[[MAX]] : tensor<64x128xf32, #tile.acc>, tensor<64xf32, #tile.row>
      // CHECK-NEXT:      tile.scale_rows %[[SUM]], %[[MAX]] : tensor<64xf32, #tile.lane_partial>, tensor<64xf32, #tile.row>
      // CHECK-NEXT:      tile.to_operand_a %[[MAP]] : {{.*}} -> tensor<64x128xf16, #tile.operand_a>
      // CHECK-NEXT:      tile.vote_any %{{.*}} : tensor<64xi1, #tile.row>
      // CHECK-NEXT:      tile.all_within %[[MAP]] {limit = 2.500000e-01 : f32} : tensor<64x128xf32, #tile.acc>
      %max = tile.row_reduce max %x : !acc -> !row
      %sum = tile.row_reduce sum %x : !acc -> !part
      %total = tile.combine %sum : !part -> !row
      %wide = tile.broadcast %max : !row -> !acc
      %inLanes = tile.broadcast %max : !row -> !part
      %bits = tile.row_reduce max_of_bits %x : !acc -> !part
      %scaled = tile.scale_rows %x, %max : !acc, !row
      %scaled_sum = tile.scale_rows %sum, %max : !part, !row
      %p = tile.to_operand_a %x : !acc -> !a
      %any = tile.vote_any %need : !yes
      %within = tile.all_within %x {limit = 0.25 : f32} : !acc
      // CHECK-NEXT:      tile.store %[[MAP]], %{{.*}}[%[[I]], %[[I]], %[[I]]] limit %[[I]] : {{.*}}, memref<1x8x?x128xf16>
      // CHECK-NEXT:      tile.store %[[MAX]], %{{.*}}[%[[I]], %[[I]], %[[I]]] limit %[[I]] : {{.*}}, memref<1x8x?xf32>
      tile.store %x, %o[%i, %i, %i] limit %i : !acc, memref<1x8x?x128xf16>
      tile.store %max, %lse[%i, %i, %i] limit %i : !row, memref<1x8x?xf32>
    }
    gpu.return
  }

  // A bias on the tensor cores: slopes of rows times numbers of columns.
  // CHECK-LABEL: gpu.func @bias(
  gpu.func @bias(%q: !tile.slot<64, 64, f16>, %k: !tile.slot<128, 64, f16>, %rows: !row) kernel {
    // CHECK-NEXT:    %[[SLOPES:.*]] = tile.alloc_slot slopes : <64, 16, f16>
    // CHECK-NEXT:    %[[COLUMNS:.*]] = tile.alloc_slot columns : <128, 16, f16>
    // CHECK-NEXT:    tile.store_slopes %{{.*}} into %[[SLOPES]] : tensor<64xf32, #tile.row>, <64, 16, f16>
    // CHECK-NEXT:    tile.mma_async %{{.*}}, %{{.*}} slopes %[[SLOPES]] times %[[COLUMNS]] : !tile.slot<64, 16, f16>, !tile.slot<128, 16, f16> transpose_b :
    // CHECK-SAME:        !tile.slot<64, 64, f16>, <128, 64, f16> -> <tensor<64x128xf32, #tile.acc>>
    %slopes = tile.alloc_slot slopes : !tile.slot<64, 16, f16>
    %columns = tile.alloc_slot columns : !tile.slot<128, 16, f16>
    tile.store_slopes %rows into %slopes : !row, !tile.slot<64, 16, f16>
    %t = tile.mma_async %q, %k slopes %slopes times %columns : !tile.slot<64, 16, f16>, !tile.slot<128, 16, f16> transpose_b
        : !tile.slot<64, 64, f16>, !tile.slot<128, 64, f16> -> !tile.token<!acc>
    gpu.return
  }

  // Row sums on the tensor cores: B has eight more columns, of ones.
  // CHECK-LABEL: gpu.func @sums(
  gpu.func @sums(%p: !a, %q: !tile.slot<64, 128, f16>, %v: !slot, %acc: !summed) kernel {
    // CHECK-NEXT:    %[[ONES:.*]] = tile.alloc_slot ones : <16, 64, f16>
    // CHECK-NEXT:    %[[T:.*]] = tile.mma_async %{{.*}}, %[[V:.*]] ones %[[ONES]] : !tile.slot<16, 64, f16> into %{{.*}} : tensor<64x72xf32, #tile.acc> :
    // CHECK-SAME:        tensor<64x128xf16, #tile.operand_a>, <128, 64, f16> -> <tensor<64x72xf32, #tile.acc>>
    // CHECK-NEXT:    tile.mma_async %{{.*}}, %[[V]] ones %[[ONES]] : !tile.slot<16, 64, f16> :
    // CHECK-SAME:        !tile.slot<64, 128, f16>, <128, 64, f16> -> <tensor<64x72xf32, #tile.acc>>
    // CHECK-NEXT:    %[[O:.*]] = tile.mma_wait %[[T]]
    // CHECK-NEXT:    %columns, %sums = tile.split_sums %[[O]] : tensor<64x72xf32, #tile.acc>
    // CHECK-SAME:        -> tensor<64x64xf32, #tile.acc>, tensor<64xf32, #tile.row>
    %ones = tile.alloc_slot ones : !tile.slot<16, 64, f16>
    %t = tile.mma_async %p, %v ones %ones : !tile.slot<16, 64, f16> into %acc : !summed : !a, !slot -> !tile.token<!summed>
    %from_zero = tile.mma_async %q, %v ones %ones : !tile.slot<16, 64, f16>
        : !tile.slot<64, 128, f16>, !slot -> !tile.token<!summed>
    %o = tile.mma_wait %t : !tile.token<!summed> -> !summed
    %columns, %sums = tile.split_sums %o : !summed -> !columns, !row
    gpu.return
  }

  // CHECK-LABEL: gpu.func @roles(
  gpu.func @roles(%qmap: !qmap, %kmap: !map, %vmap: !map, %p: !a, %acc: !acc, %g: index) kernel {
    // CHECK:         %[[QRING:.*]] = tile.alloc_ring
    // CHECK-NEXT:    %[[KRING:.*]] = tile.alloc_ring
    // CHECK-NEXT:    %[[VRING:.*]] = tile.alloc_ring
    %qring = tile.alloc_ring : !qring
    %kring = tile.alloc_ring : !ring
    %vring = tile.alloc_ring : !vring
    // CHECK-NEXT:    tile.warp_specialize 2 registers(24, 240) producer {
    // CHECK-NEXT:      tile.acquire %[[QRING]][%[[G:.*]]] owner 1 : <1, 64, 64, f16, private true>
    // CHECK-NEXT:      tile.copy_async %{{.*}}[%[[G]], %[[G]], %[[G]]] into %[[QRING]][%[[G]]] owner 1 :
    // CHECK-NEXT:      tile.acquire %[[KRING]][%[[G]]] : <2, 128, 64, f16>
    // CHECK-NEXT:      tile.copy_async %{{.*}}[%[[G]], %[[G]], %[[G]]] into %[[KRING]][%[[G]]] : !tile.tensor_map<128 x f16>, <2,
    // CHECK-NEXT:    } consumer {
    // CHECK-NEXT:    ^bb0(%[[W:.*]]: index):
    tile.warp_specialize 2 registers(24, 240) producer {
      tile.acquire %qring[%g] owner 1 : !qring
      tile.copy_async %qmap[%g, %g, %g] into %qring[%g] owner 1 : !qmap, !qring
      tile.acquire %kring[%g] : !ring
      tile.copy_async %kmap[%g, %g, %g] into %kring[%g] : !map, !ring
    } consumer {
    ^bb0(%w: index):
      // CHECK-NEXT:      %[[Q:.*]] = tile.wait %[[QRING]][%[[G]]] : <1, 64, 64, f16, private true> -> <64, 64, f16>
      // CHECK-NEXT:      %[[K:.*]] = tile.wait %[[KRING]][%[[G]]] : <2, 128, 64, f16> -> <128, 64, f16>
      // CHECK-NEXT:      %[[V:.*]] = tile.wait %[[VRING]][%[[G]]]
      // CHECK-NEXT:      tile.ping_pong_wait %[[W]]
      // CHECK-NEXT:      %[[TS:.*]] = tile.mma_async %[[Q]], %[[K]] transpose_b : !tile.slot<64, 64, f16>, <128, 64, f16>
      // CHECK-SAME:          -> <tensor<64x128xf32, #tile.acc>>
      // CHECK-NEXT:      %[[TO:.*]] = tile.mma_async %{{.*}}, %[[V]] into %{{.*}} : tensor<64x128xf32, #tile.acc> :
      // CHECK-SAME:          tensor<64x128xf16, #tile.operand_a>, <128, 128, f16> -> <tensor<64x128xf32, #tile.acc>>
      // CHECK-NEXT:      tile.ping_pong_pass %[[W]]
      // CHECK-NEXT:      tile.mma_wait %[[TS]] {pending = 1 : i64} :
      // CHECK-NEXT:      tile.mma_wait %[[TO]] : <tensor<64x128xf32, #tile.acc>> -> tensor<64x128xf32, #tile.acc>
      // CHECK-NEXT:      tile.warpgroup_barrier
      // CHECK-NEXT:      tile.release %[[Q]] : <64, 64, f16>
      %q = tile.wait %qring[%g] : !qring -> !qslot
      %k = tile.wait %kring[%g] : !ring -> !slot
      %v = tile.wait %vring[%g] : !vring -> !vslot
      tile.ping_pong_wait %w
      %ts = tile.mma_async %q, %k transpose_b : !qslot, !slot -> !tile.token<!acc>
      %to = tile.mma_async %p, %v into %acc : !acc : !a, !vslot -> !tile.token<!acc>
      tile.ping_pong_pass %w
      %s = tile.mma_wait %ts {pending = 1 : i64} : !tile.token<!acc> -> !acc
      %o = tile.mma_wait %to : !tile.token<!acc> -> !acc
      tile.warpgroup_barrier
      tile.release %q : !qslot
      tile.release %k : !slot
      tile.release %v : !vslot
    }
    gpu.return
  }
  // A tile leaves through the slot of Q, whose release waits for the copy. A release may stand behind elements of a tile.
  // CHECK-LABEL: gpu.func @stored(
  // CHECK-SAME:      %[[MAP:.*]]: !tile.tensor_map<64 x f16>, %[[X:.*]]: tensor<64x64xf32, #tile.acc>, %[[G:.*]]: index, %[[DEST:.*]]: memref<2x2x?x64xf16>)
  gpu.func @stored(%map: !qmap, %x: !columns, %g: index, %dest: memref<2x2x?x64xf16>) kernel {
    // CHECK:         %[[OUT:.*]] = tile.alloc_slot output : <64, 64, f16>
    %qring = tile.alloc_ring : !qring
    %kring = tile.alloc_ring : !ring
    %out = tile.alloc_slot output : !qslot
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      // CHECK:           %[[Q:.*]] = tile.wait
      // CHECK-NEXT:      %[[K:.*]] = tile.wait
      // CHECK-NEXT:      tile.release %[[K]] after %[[X]] : tensor<64x64xf32, #tile.acc> {elements = 12 : i64} : <128, 64, f16>
      // CHECK-NEXT:      tile.store_async %[[X]], %[[MAP]][%[[G]], %[[W:.*]], %[[G]]] through %[[Q]] {note = "kept"} :
      // CHECK-SAME:          tensor<64x64xf32, #tile.acc>, <64 x f16>, <64, 64, f16>
      // CHECK-NEXT:      tile.store_wait {note = "kept"}
      // CHECK-NEXT:      tile.release %[[Q]] : <64, 64, f16>
      // CHECK-NEXT:      tile.store_wait all {note = "kept"}
      // CHECK-NEXT:      tile.store_async %[[X]], %[[MAP]][%[[G]], %[[W]], %[[G]]] through %[[OUT]] :
      %q = tile.wait %qring[%g] : !qring -> !qslot
      %k = tile.wait %kring[%g] : !ring -> !slot
      tile.release %k after %x : !columns {elements = 12} : !slot
      tile.store_async %x, %map[%g, %w, %g] through %q {note = "kept"} : !columns, !qmap, !qslot
      tile.store_wait {note = "kept"}
      tile.release %q : !qslot
      tile.store_wait all {note = "kept"}
      tile.store_async %x, %map[%g, %w, %g] through %out : !columns, !qmap, !qslot
      // CHECK:           tile.store_async %[[X]], %[[MAP]][%[[G]], %[[W]], %[[G]]] through %[[OUT]] limit %[[G]] else %[[DEST]] :
      // CHECK-SAME:          tensor<64x64xf32, #tile.acc>, <64 x f16>, <64, 64, f16>, memref<2x2x?x64xf16>
      tile.store_wait all
      tile.store_async %x, %map[%g, %w, %g] through %out limit %g else %dest : !columns, !qmap, !qslot, memref<2x2x?x64xf16>
    }
    gpu.return
  }

  // A slot may be handed to a loop and from one iteration to the next; the last one comes out of the loop.
  // CHECK-LABEL: gpu.func @handed_on(
  gpu.func @handed_on(%g: index, %n: index) kernel {
    %ring = tile.alloc_ring : !ring
    %c1 = arith.constant 1 : index
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      // CHECK:           %[[FIRST:.*]] = tile.wait
      // CHECK-NEXT:      %[[LAST:.*]] = scf.for {{.*}} iter_args(%[[HELD:.*]] = %[[FIRST]]) -> (!tile.slot<128, 64, f16>) {
      // CHECK-NEXT:        %[[NEXT:.*]] = tile.wait
      // CHECK-NEXT:        tile.release %[[HELD]]
      // CHECK-NEXT:        scf.yield %[[NEXT]] : !tile.slot<128, 64, f16>
      // CHECK-NEXT:      }
      // CHECK-NEXT:      %[[KEPT:.*]] = scf.for {{.*}} iter_args(%[[SAME:.*]] = %[[LAST]])
      // CHECK-NEXT:        scf.yield %[[SAME]]
      // CHECK-NEXT:      }
      // CHECK-NEXT:      tile.release %[[KEPT]]
      %first = tile.wait %ring[%g] : !ring -> !slot
      %last = scf.for %i = %g to %n step %c1 iter_args(%held = %first) -> (!slot) {
        %next = tile.wait %ring[%i] : !ring -> !slot
        tile.release %held : !slot
        scf.yield %next : !slot
      }
      %kept = scf.for %i = %g to %n step %c1 iter_args(%same = %last) -> (!slot) {
        scf.yield %same : !slot
      }
      tile.release %kept : !slot
    }
    gpu.return
  }
}

// CHECK-LABEL: func.func @reads(
func.func @reads(%m: memref<?x4xbf16>, %flags: memref<?xi1>, %i: index) {
  // CHECK: tile.is_aligned %{{.*}}[%{{.*}}, %{{.*}}] to 4 : memref<?x4xbf16>
  %aligned = tile.is_aligned %m[%i, %i] to 4 : memref<?x4xbf16>
  // CHECK: tile.read_pair %{{.*}}[%{{.*}}, %{{.*}}] : memref<?x4xbf16> -> vector<2xbf16>
  %a = tile.read_pair %m[%i, %i] : memref<?x4xbf16> -> vector<2xbf16>
  // CHECK: tile.read_pair %{{.*}}[%{{.*}}] : memref<?xi1> -> i16
  %b = tile.read_pair %flags[%i] : memref<?xi1> -> i16
  return
}

!own = !tile.ring<1, 64, 64, f16, private true>
!shared = !tile.ring<2, 64, 128, f16, private true>
!numbers = !tile.ring<2, 2, 128, f32>
!sums = memref<?x?x?x1x4096xf32>
gpu.module @adding {
  // CHECK-LABEL: gpu.func @add(
  gpu.func @add(%array: memref<2x?x?x?xf32>, %sums: !sums, %i: index) kernel
      attributes {tile.schedule = #tile.schedule<consumers = 1, producer_registers = 32, consumer_registers = 208, overlap = false, ping_pong = false>} {
    %own = tile.alloc_ring : !own
    %shared = tile.alloc_ring : !shared
    // CHECK:         tile.alloc_ring : <2, 2, 128, f32>
    %numbers = tile.alloc_ring : !numbers
    // CHECK:         tile.warp_specialize 1 registers(32, 208, 64) producer {
    // CHECK:           tile.copy_async {{.*}} : memref<2x?x?x?xf32>, <2, 2, 128, f32>
    // CHECK:         } consumer {
    tile.warp_specialize 1 registers(32, 208, 64) producer {
      tile.acquire %numbers[%i] : !numbers
      tile.copy_async %array[%i, %i, %i] into %numbers[%i] : memref<2x?x?x?xf32>, !numbers
    } consumer {
    ^bb0(%w: index):
      // CHECK:           %[[TWO:.*]] = tile.wait {{.*}} -> <2, 128, f32>
      // CHECK-NEXT:      tile.read_columns %[[TWO]][1] : <2, 128, f32> -> tensor<128xf32, #tile.col>
      %two = tile.wait %numbers[%i] : !numbers -> !tile.slot<2, 128, f32>
      %columns = tile.read_columns %two[1] : !tile.slot<2, 128, f32> -> tensor<128xf32, #tile.col>
      tile.release %two : !tile.slot<2, 128, f32>
      %x = arith.constant dense<1.0> : !acc
      // CHECK:           tile.map %{{.*}} rows(%{{.*}} : tensor<128xf32, #tile.col>) at
      %y = tile.map %x rows(%columns : tensor<128xf32, #tile.col>) at(%i, %i) {
      ^bb0(%e: f32, %r: index, %c: index, %column: f32):
        tile.yield %column : f32
      } : !acc
      %a = tile.to_operand_a %y : !acc -> !a
      // CHECK:           tile.from_operand_a %[[A:.*]] : tensor<64x128xf16, #tile.operand_a> -> tensor<64x128xf32, #tile.acc>
      // CHECK-NEXT:      tile.share %[[A]] into %{{.*}}[%{{.*}}] : tensor<64x128xf16, #tile.operand_a>, <2, 64, 128, f16, private true>
      // CHECK:           %[[KEPT:.*]] = tile.dropout_mask %c7_i64, %c7_i64 at(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) least 26 : tensor<64x128xi1, #tile.flags>
      // CHECK-NEXT:      tile.dropout_mask {{.*}} least 255 transposed : tensor<64x48xi1, #tile.flags>
      // CHECK-NEXT:      tile.keep %[[A]] where %[[KEPT]] : tensor<64x128xf16, #tile.operand_a>, tensor<64x128xi1, #tile.flags>
      // CHECK-NEXT:      tile.keep %{{.*}} where %[[KEPT]] : tensor<64x128xf32, #tile.acc>, tensor<64x128xi1, #tile.flags>
      %again = tile.from_operand_a %a : !a -> !acc
      tile.share %a into %shared[%i] : !a, !shared
      %seed = arith.constant 7 : i64
      %kept = tile.dropout_mask %seed, %seed at(%i, %i, %i, %i) least 26 : tensor<64x128xi1, #tile.flags>
      %turned = tile.dropout_mask %seed, %seed at(%i, %i, %i, %i) least 255 transposed : tensor<64x48xi1, #tile.flags>
      %less = tile.keep %a where %kept : !a, tensor<64x128xi1, #tile.flags>
      %both = tile.keep %again where %kept : !acc, tensor<64x128xi1, #tile.flags>
      // CHECK:         } reducer {
    } reducer {
      // CHECK:           %[[SHARED:.*]] = tile.wait %{{.*}}[%{{.*}}] owner 0
      // CHECK:           tile.panel %[[SHARED]][%{{.*}}] : <64, 128, f16> -> <64, 64, f16>
      // CHECK-NEXT:      %[[ONE:.*]] = tile.mma_async {{.*}} transpose_a : !tile.slot<64, 64, f16>
      // CHECK-NEXT:      %[[BOTH:.*]] = tile.mma_async {{.*}} into %[[ONE]] : !tile.token<tensor<64x64xf32, #tile.acc>> transpose_a
      // CHECK-NEXT:      %[[SUM:.*]] = tile.mma_wait %[[BOTH]]
      // CHECK-NEXT:      tile.atomic_add %[[SUM]] to %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}] : tensor<64x64xf32, #tile.acc>, memref<?x?x?x1x4096xf32>
      %full = tile.wait %shared[%i] owner 0 : !shared -> !tile.slot<64, 128, f16>
      %k = tile.wait %own[%i] owner 0 : !own -> !qslot
      %panel = tile.panel %full[%i] : !tile.slot<64, 128, f16> -> !qslot
      %t = tile.mma_async %panel, %k transpose_a : !qslot, !qslot -> !tile.token<!columns>
      %u = tile.mma_async %panel, %k into %t : !tile.token<!columns> transpose_a : !qslot, !qslot -> !tile.token<!columns>
      %sum = tile.mma_wait %u : !tile.token<!columns> -> !columns
      tile.atomic_add %sum to %sums[%i, %i, %i, %i] : !columns, !sums
      tile.release %full : !tile.slot<64, 128, f16>
      tile.release %k : !qslot
    }
    gpu.return
  }

  // CHECK-LABEL: gpu.func @add_product(
  gpu.func @add_product(%a: !a, %k: !qslot, %sums: !sums, %i: index) kernel {
    %shared = tile.alloc_ring : !shared
    // CHECK: tile.add_product %{{.*}} through %{{.*}}, %{{.*}} to %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] {scale = 2.000000e+00 : f32}
    tile.add_product %a through %shared, %k to %sums[%i, %i, %i] {scale = 2.0 : f32} : !a, !shared, !qslot, !sums
    gpu.return
  }
}
