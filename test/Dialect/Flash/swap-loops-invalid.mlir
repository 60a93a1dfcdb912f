// RUN: %vary %s | flashc-opt --flash-swap-loops -split-input-file -verify-diagnostics

// Nests that flash-swap-loops refuses, since it cannot prove that the swapped nest would compute the same: about its slices
// and loops, about padded tiles, and about the nest as a whole.

!state4 = tensor<1x1x128x8xf32>
!state3 = tensor<1x1x128xf32>
!tile4 = tensor<1x1x64x8xf32>
!tile3 = tensor<1x1x64xf32>
!kv = tensor<1x1x64x8xf32>
!kv_tile = tensor<1x1x32x8xf32>
func.func @nest(%q: !state4, %k: !kv, %v: !kv, %acc: !state4, %m: !state3, %l: !state3, %o: !state4, %lse: !state3,
    %buffer: memref<1xf32>, %x: f32)
    -> (!state4, !state3) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %s:3 = scf.for %j = %c0 to %c64 step %c32 iter_args(%acc0 = %acc, %m0 = %m, %l0 = %l) -> (!state4, !state3, !state3) {
    %kt = tensor.extract_slice %k[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    %vt = tensor.extract_slice %v[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    %r:3 = scf.for %i = %c0 to %c128 step %c64 iter_args(%acc1 = %acc0, %m1 = %m0, %l1 = %l0) -> (!state4, !state3, !state3) {
      %qt = tensor.extract_slice %q[0, 0, %i, 0] [1, 1, 64, 8] [1, 1, 1, 1] : !state4 to !tile4
      %at = tensor.extract_slice %acc1[0, 0, %i, 0] [1, 1, 64, 8] [1, 1, 1, 1] : !state4 to !tile4
      %mt = tensor.extract_slice %m1[0, 0, %i] [1, 1, 64] [1, 1, 1] : !state3 to !tile3
      %lt = tensor.extract_slice %l1[0, 0, %i] [1, 1, 64] [1, 1, 1] : !state3 to !tile3
      %a, %n, %p = flash.online_attention ins(%qt, %kt, %vt : !tile4, !kv_tile, !kv_tile)
          outs(%at, %mt, %lt : !tile4, !tile3, !tile3) at(%c0, %c0, %i, %j)
          {normalize = #flash.normalize<each_step>, scale = 1.0 : f32} -> !tile4, !tile3, !tile3
      %acc2 = tensor.insert_slice %a into %acc1[0, 0, %i, 0] [1, 1, 64, 8] [1, 1, 1, 1] : !tile4 into !state4
      %m2 = tensor.insert_slice %n into %m1[0, 0, %i] [1, 1, 64] [1, 1, 1] : !tile3 into !state3
      %l2 = tensor.insert_slice %p into %l1[0, 0, %i] [1, 1, 64] [1, 1, 1] : !tile3 into !state3
      scf.yield %acc2, %m2, %l2 : !state4, !state3, !state3
    }
    scf.yield %r#0, %r#1, %r#2 : !state4, !state3, !state3
  }
  %o1, %lse1 = flash.finalize ins(%s#0, %s#1, %s#2 : !state4, !state3, !state3) outs(%o, %lse : !state4, !state3)
      {normalize = #flash.normalize<each_step>} -> !state4, !state3
  return %o1, %lse1 : !state4, !state3
}

// VARY overlapping_query_tiles: Tiles of 64 queries, every 32 queries.
//   %c64 iter_args => %c32 iter_args
//     | error: cannot swap loops: the iterations do not own their slices of acc: expected tiles as large as the loop step 32, clamped at the loop's end in dimension 2
//   %at = | note: see 'tensor.extract_slice'
// VARY not_all_queries: The last query tile would keep its initial state: the loop must cover all of it.
//   %c128 step => %c64 step
//     | error: cannot swap loops: the iterations do not own their slices of acc: expected the loop to run from 0 to the extent of the dimension in dimension 2
//   %at = | note: see 'tensor.extract_slice'
// VARY written_elsewhere: acc is written where it was not read.
//   %r:3
//     | error: cannot swap loops: the iterations do not own their slices of acc: expected the whole extent in dimension 2
//   %acc1[0, 0, %i, 0] [1, 1, 64, 8] [1, 1, 1, 1] : !tile4 => %acc1[0, 0, %c0, 0] [1, 1, 64, 8] [1, 1, 1, 1] : !tile4
//     | note: see 'tensor.insert_slice'
// VARY tile_used_twice: The tile of m has another use.
//   %r:3 | error: cannot swap loops: m is used by more than this flash.online_attention
//   %a, =>
//     %more = arith.negf %mt : !tile3 | note: see 'arith.negf'
//     %a,
// VARY state_outlives_nest: the maximum is used after the loops, where it will not exist.
//   %s:3 | error: cannot swap loops: expected m to be used by one flash.finalize only
//   %o1, %lse1 = =>
//     %more = arith.negf %s#1 : !state3 | note: see 'arith.negf'
//     %o1, %lse1 =
// VARY bound_depends_on_keys: The query loop's bound is computed from the key position.
//   %r:3 =>
//     %t = arith.addi %j, %c128 : index
//     %end = arith.subi %t, %j : index | note: see 'arith.subi'
//     %r:3
//   %c128 step => %end step | error: cannot swap loops: the loop's bounds depend on the loops around it
// VARY side_effect: A store in the key loop would run in another order.
//   %s:3 | error: cannot swap loops: expected a loop body without side effects
//   %r:3 =>
//     memref.store %x, %buffer[%c0] : memref<1xf32> | note: see 'memref.store'
//     %r:3
// VARY carries_more: the key loop carries a count together with the state.
//   3 = scf.for %j = %c0 to %c64 step %c32 iter_args(%acc0 = %acc, %m0 = %m, %l0 = %l) -> (!state4, !state3, !state3) => 4 = scf.for %j = %c0 to %c64 step %c32 iter_args(%acc0 = %acc, %m0 = %m, %l0 = %l, %count = %c0) -> (!state4, !state3, !state3, index)
//     | error: cannot swap loops: expected the loop to carry acc, m and l only, got 4 values
//   scf.yield %r#0, =>
//     %count1 = arith.addi %count, %c32 : index
//     scf.yield %r#0,
//   %r#2 : !state4, !state3, !state3 => %r#2, %count1 : !state4, !state3, !state3, index
// VARY swapped_state: m and l trade places from one query tile to the next.
//   %r:3 | error: cannot swap loops: expected the loop to yield m as the step inside leaves it
//   %m2, %l2 => %l2, %m2 | note: see 'scf.yield'
// VARY two_key_loops: Two loops fold into the same state: which one goes inside is not decided here.
//   %s:3 | note: see 'scf.for'
//   %r:3 => %u:3 = scf.for %again = %c0 to %c64 step %c32 iter_args(%acc9 = %acc0, %m9 = %m0, %l9 = %l0) -> (!state4, !state3, !state3) {
//     | error: cannot swap loops: expected one loop that carries a state tile from step to step, got two
//     %r:3
//   %acc0, %m1 = %m0, %l1 = %l0 => %acc9, %m1 = %m9, %l1 = %l9
//   %r#2 : !state4, !state3, !state3 =>
//     %r#2 : !state4, !state3, !state3
//     }
//     scf.yield %u#0, %u#1, %u#2 : !state4, !state3, !state3

// -----

!state4 = tensor<1x1x100x8xf32>
!state3 = tensor<1x1x100xf32>
!cut4 = tensor<1x1x?x8xf32>
!cut3 = tensor<1x1x?xf32>
!tile4 = tensor<1x1x64x8xf32>
!tile3 = tensor<1x1x64xf32>
!kv = tensor<1x1x64x8xf32>
!kv_tile = tensor<1x1x32x8xf32>
func.func @padded(%q: !tile4, %k: !kv, %v: !kv, %acc: !state4, %m: !state3, %l: !state3, %o: !state4, %lse: !state3)
    -> (!state4, !state3) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c100 = arith.constant 100 : index
  %zero = arith.constant 0.0 : f32
  %s:3 = scf.for %j = %c0 to %c64 step %c32 iter_args(%acc0 = %acc, %m0 = %m, %l0 = %l) -> (!state4, !state3, !state3) {
    %kt = tensor.extract_slice %k[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    %vt = tensor.extract_slice %v[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    %r:3 = scf.for %i = %c0 to %c100 step %c64 iter_args(%acc1 = %acc0, %m1 = %m0, %l1 = %l0) -> (!state4, !state3, !state3) {
      %n = affine.min affine_map<(d0) -> (64, 100 - d0)>(%i)
      %pad = affine.apply affine_map<(d0) -> (64 - d0)>(%n)
      %as = tensor.extract_slice %acc1[0, 0, %i, 0] [1, 1, %n, 8] [1, 1, 1, 1] : !state4 to !cut4
      %at = tensor.pad %as low[0, 0, 0, 0] high[0, 0, %pad, 0] {
      ^bb0(%d0: index, %d1: index, %d2: index, %d3: index):
        tensor.yield %zero : f32
      } : !cut4 to !tile4
      %ms = tensor.extract_slice %m1[0, 0, %i] [1, 1, %n] [1, 1, 1] : !state3 to !cut3
      %mt = tensor.pad %ms low[0, 0, 0] high[0, 0, %pad] {
      ^bb0(%d0: index, %d1: index, %d2: index):
        tensor.yield %zero : f32
      } : !cut3 to !tile3
      %ls = tensor.extract_slice %l1[0, 0, %i] [1, 1, %n] [1, 1, 1] : !state3 to !cut3
      %lt = tensor.pad %ls low[0, 0, 0] high[0, 0, %pad] {
      ^bb0(%d0: index, %d1: index, %d2: index):
        tensor.yield %zero : f32
      } : !cut3 to !tile3
      %t:3 = flash.online_attention ins(%q, %kt, %vt : !tile4, !kv_tile, !kv_tile)
          outs(%at, %mt, %lt : !tile4, !tile3, !tile3) at(%c0, %c0, %i, %j)
          {normalize = #flash.normalize<each_step>, scale = 1.0 : f32} -> !tile4, !tile3, !tile3
      %ac = tensor.extract_slice %t#0[0, 0, 0, 0] [1, 1, %n, 8] [1, 1, 1, 1] : !tile4 to !cut4
      %mc = tensor.extract_slice %t#1[0, 0, 0] [1, 1, %n] [1, 1, 1] : !tile3 to !cut3
      %lc = tensor.extract_slice %t#2[0, 0, 0] [1, 1, %n] [1, 1, 1] : !tile3 to !cut3
      %acc2 = tensor.insert_slice %ac into %acc1[0, 0, %i, 0] [1, 1, %n, 8] [1, 1, 1, 1] : !cut4 into !state4
      %m2 = tensor.insert_slice %mc into %m1[0, 0, %i] [1, 1, %n] [1, 1, 1] : !cut3 into !state3
      %l2 = tensor.insert_slice %lc into %l1[0, 0, %i] [1, 1, %n] [1, 1, 1] : !cut3 into !state3
      scf.yield %acc2, %m2, %l2 : !state4, !state3, !state3
    }
    scf.yield %r#0, %r#1, %r#2 : !state4, !state3, !state3
  }
  %o1, %lse1 = flash.finalize ins(%s#0, %s#1, %s#2 : !state4, !state3, !state3) outs(%o, %lse : !state4, !state3)
      {normalize = #flash.normalize<each_step>} -> !state4, !state3
  return %o1, %lse1 : !state4, !state3
}

// VARY cut_with_stride: Every second row is written back.
//   %r:3 | error: cannot swap loops: expected the padding of acc to be cut from its end only
//   [1, 1, 1, 1] : !tile4 => [1, 1, 2, 1] : !tile4 | note: see 'tensor.extract_slice'
// VARY cut_too_large: The cut takes another number of rows than the slice has.
//   %s:3 | error: cannot swap loops: expected the cut of m to be as large as its slice
//   %t#1[0, 0, 0] [1, 1, %n] [1, 1, 1] : !tile3 to !cut3 => %t#1[0, 0, 0] [1, 1, %c64] [1, 1, 1] : !tile3 to !cut3
//     | note: see 'tensor.extract_slice'
// VARY padding_first: the padding comes first.
//   %r:3 | error: cannot swap loops: expected acc to be padded at its end only
//   low[0, 0, 0, 0] high[0, 0, %pad, 0] => low[0, 0, %pad, 0] high[0, 0, 0, 0] | note: see 'tensor.pad'
// VARY overlapping_to_the_end: The slices reach to the end of the tensor: the first tile overlaps the second.
//   %r:3
//     | error: cannot swap loops: the iterations do not own their slices of acc: expected tiles as large as the loop step 64, clamped at the loop's end in dimension 2
//   64, 100 => 100
//   %as = | note: see 'tensor.extract_slice'
// VARY slice_moves_with_keys: How many rows a slice has depends on the key: it cannot be read before the key loop.
//   %r:3 | error: cannot swap loops: the slice of the state depends on the kv loop
//   affine_map<(d0) -> (64, 100 - d0)>(%i) => affine_map<(d0, d1) -> (64, 100 - d0, 100 - d0 + d1 - d1)>(%i, %j)
//   %as = | note: see 'tensor.extract_slice'

// -----

!state4 = tensor<2x2x64x8xf32>
!state3 = tensor<2x2x64xf32>
!tile4 = tensor<1x1x64x8xf32>
!tile3 = tensor<1x1x64xf32>
!kv_tile = tensor<1x1x32x8xf32>
func.func @batches(%q: !state4, %k: !state4, %v: !state4, %acc: !state4, %m: !state3, %l: !state3, %o: !state4, %lse: !state3,
    %bias: memref<64xf32>) -> (!state4, !state3) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %r:3 = scf.for %b = %c0 to %c2 step %c1 iter_args(%acc0 = %acc, %m0 = %m, %l0 = %l) -> (!state4, !state3, !state3) {
    %s:3 = scf.for %h = %c0 to %c2 step %c1 iter_args(%acc1 = %acc0, %m1 = %m0, %l1 = %l0) -> (!state4, !state3, !state3) {
      %t:3 = scf.for %j = %c0 to %c64 step %c32 iter_args(%acc2 = %acc1, %m2 = %m1, %l2 = %l1) -> (!state4, !state3, !state3) {
        %qt = tensor.extract_slice %q[%b, %h, 0, 0] [1, 1, 64, 8] [1, 1, 1, 1] : !state4 to !tile4
        %kt = tensor.extract_slice %k[%b, %h, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !state4 to !kv_tile
        %vt = tensor.extract_slice %v[%b, %h, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !state4 to !kv_tile
        %at = tensor.extract_slice %acc2[%b, %h, 0, 0] [1, 1, 64, 8] [1, 1, 1, 1] : !state4 to !tile4
        %mt = tensor.extract_slice %m2[%b, %h, 0] [1, 1, 64] [1, 1, 1] : !state3 to !tile3
        %lt = tensor.extract_slice %l2[%b, %h, 0] [1, 1, 64] [1, 1, 1] : !state3 to !tile3
        %a, %n, %p = flash.online_attention ins(%qt, %kt, %vt : !tile4, !kv_tile, !kv_tile)
            outs(%at, %mt, %lt : !tile4, !tile3, !tile3) at(%b, %h, %c0, %j)
            {normalize = #flash.normalize<each_step>, scale = 1.0 : f32} -> !tile4, !tile3, !tile3
        %acc3 = tensor.insert_slice %a into %acc2[%b, %h, 0, 0] [1, 1, 64, 8] [1, 1, 1, 1] : !tile4 into !state4
        %m3 = tensor.insert_slice %n into %m2[%b, %h, 0] [1, 1, 64] [1, 1, 1] : !tile3 into !state3
        %l3 = tensor.insert_slice %p into %l2[%b, %h, 0] [1, 1, 64] [1, 1, 1] : !tile3 into !state3
        scf.yield %acc3, %m3, %l3 : !state4, !state3, !state3
      }
      scf.yield %t#0, %t#1, %t#2 : !state4, !state3, !state3
    }
    scf.yield %s#0, %s#1, %s#2 : !state4, !state3, !state3
  }
  %o1, %lse1 = flash.finalize ins(%r#0, %r#1, %r#2 : !state4, !state3, !state3) outs(%o, %lse : !state4, !state3)
      {normalize = #flash.normalize<each_step>} -> !state4, !state3
  return %o1, %lse1 : !state4, !state3
}

// VARY transposed_l: The row sum of head (b, h) is taken from (h, b): both loops move it, but not as they move acc.
//   %r:3 | error: cannot swap loops: expected acc, m and l to move with the same loops
//   %l2[%b, %h, 0] [1, 1, 64] [1, 1, 1] : !state3 => %l2[%h, %b, 0] [1, 1, 64] [1, 1, 1] : !state3
//     | note: see 'tensor.extract_slice'
//   %l2[%b, %h, 0] [1, 1, 64] [1, 1, 1] : !tile3 => %l2[%h, %b, 0] [1, 1, 64] [1, 1, 1] : !tile3
// VARY overwritten: the array that the score reads is written between the nest and flash.finalize.
//   %r:3 | error: cannot swap loops: what the nest reads may be written before flash.finalize
//   scale = 1.0 : f32} =>
//     scale = 1.0 : f32} score (%s0: f32, %bb: index, %hh: index, %i: index, %jj: index) {
//       %x = memref.load %bias[%jj] : memref<64xf32>
//       flash.yield %x : f32
//     }
//   %o1, %lse1 = =>
//     %zero = arith.constant 0.0 : f32
//     scf.for %z = %c0 to %c64 step %c1 { | note: see 'scf.for'
//       memref.store %zero, %bias[%z] : memref<64xf32>
//     }
//     %o1, %lse1 =
// VARY finalized_elsewhere: flash.finalize is in a loop: the nest would run several times.
//   %r:3 | error: cannot swap loops: expected flash.finalize in the same block
//   %o1, %lse1 = =>
//     %o1, %lse1 = scf.for %z = %c0 to %c64 step %c1 iter_args(%o0 = %o, %lse0 = %lse) -> (!state4, !state3) {
//     %o2, %lse2 = | note: see 'flash.finalize'
//   return =>
//     scf.yield %o2, %lse2 : !state4, !state3
//     }
//     return
// VARY normalized_twice: The accumulator is divided by the row sum at each step, and once more at the end.
//   %r:3 | error: cannot swap loops: expected flash.finalize to normalize as flash.online_attention does
//   %o1, %lse1 = | note: see 'flash.finalize'
//   {normalize = #flash.normalize<each_step>} => {normalize = #flash.normalize<deferred>}

// -----

// Tiles that are not padded have a shape that changes from tile to tile.
!state4 = tensor<1x1x100x8xf32>
!state3 = tensor<1x1x100xf32>
!tile4 = tensor<1x1x?x8xf32>
!tile3 = tensor<1x1x?xf32>
!kv = tensor<1x1x64x8xf32>
!kv_tile = tensor<1x1x32x8xf32>
func.func @dynamic_tiles(%q: !tile4, %k: !kv, %v: !kv, %acc: !state4, %m: !state3, %l: !state3, %o: !state4, %lse: !state3)
    -> (!state4, !state3) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c100 = arith.constant 100 : index
  // expected-error @+1 {{cannot swap loops: expected tiles of static shape}}
  %s:3 = scf.for %j = %c0 to %c64 step %c32 iter_args(%acc0 = %acc, %m0 = %m, %l0 = %l) -> (!state4, !state3, !state3) {
    %kt = tensor.extract_slice %k[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    %vt = tensor.extract_slice %v[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    %r:3 = scf.for %i = %c0 to %c100 step %c64 iter_args(%acc1 = %acc0, %m1 = %m0, %l1 = %l0) -> (!state4, !state3, !state3) {
      %n = affine.min affine_map<(d0) -> (64, 100 - d0)>(%i)
      %at = tensor.extract_slice %acc1[0, 0, %i, 0] [1, 1, %n, 8] [1, 1, 1, 1] : !state4 to !tile4
      %mt = tensor.extract_slice %m1[0, 0, %i] [1, 1, %n] [1, 1, 1] : !state3 to !tile3
      %lt = tensor.extract_slice %l1[0, 0, %i] [1, 1, %n] [1, 1, 1] : !state3 to !tile3
      // expected-note @+1 {{see 'flash.online_attention'}}
      %t:3 = flash.online_attention ins(%q, %kt, %vt : !tile4, !kv_tile, !kv_tile)
          outs(%at, %mt, %lt : !tile4, !tile3, !tile3) at(%c0, %c0, %i, %j)
          {normalize = #flash.normalize<each_step>, scale = 1.0 : f32} -> !tile4, !tile3, !tile3
      %acc2 = tensor.insert_slice %t#0 into %acc1[0, 0, %i, 0] [1, 1, %n, 8] [1, 1, 1, 1] : !tile4 into !state4
      %m2 = tensor.insert_slice %t#1 into %m1[0, 0, %i] [1, 1, %n] [1, 1, 1] : !tile3 into !state3
      %l2 = tensor.insert_slice %t#2 into %l1[0, 0, %i] [1, 1, %n] [1, 1, 1] : !tile3 into !state3
      scf.yield %acc2, %m2, %l2 : !state4, !state3, !state3
    }
    scf.yield %r#0, %r#1, %r#2 : !state4, !state3, !state3
  }
  %o1, %lse1 = flash.finalize ins(%s#0, %s#1, %s#2 : !state4, !state3, !state3) outs(%o, %lse : !state4, !state3)
      {normalize = #flash.normalize<each_step>} -> !state4, !state3
  return %o1, %lse1 : !state4, !state3
}
