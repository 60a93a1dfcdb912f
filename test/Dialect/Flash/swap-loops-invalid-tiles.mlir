// RUN: flashc-opt %s --flash-swap-loops -split-input-file -verify-diagnostics

// What flash-swap-loops cannot prove about padded tiles, it refuses.

// Every second row is written back.
!state4 = tensor<1x1x100x8xf32>
!state3 = tensor<1x1x100xf32>
!cut4 = tensor<1x1x?x8xf32>
!cut3 = tensor<1x1x?xf32>
!tile4 = tensor<1x1x64x8xf32>
!tile3 = tensor<1x1x64xf32>
!kv = tensor<1x1x64x8xf32>
!kv_tile = tensor<1x1x32x8xf32>
func.func @cut_with_stride(%q: !tile4, %k: !kv, %v: !kv, %acc: !state4, %m: !state3, %l: !state3, %o: !state4, %lse: !state3)
    -> (!state4, !state3) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c100 = arith.constant 100 : index
  %zero = arith.constant 0.0 : f32
  %s:3 = scf.for %j = %c0 to %c64 step %c32 iter_args(%acc0 = %acc, %m0 = %m, %l0 = %l) -> (!state4, !state3, !state3) {
    %kt = tensor.extract_slice %k[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    %vt = tensor.extract_slice %v[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    // expected-error @+1 {{cannot swap loops: expected the padding of acc to be cut from its end only}}
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
      // expected-note @+1 {{see 'tensor.extract_slice'}}
      %ac = tensor.extract_slice %t#0[0, 0, 0, 0] [1, 1, %n, 8] [1, 1, 2, 1] : !tile4 to !cut4
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

// -----

// The cut takes another number of rows than the slice has.
!state4 = tensor<1x1x100x8xf32>
!state3 = tensor<1x1x100xf32>
!cut4 = tensor<1x1x?x8xf32>
!cut3 = tensor<1x1x?xf32>
!tile4 = tensor<1x1x64x8xf32>
!tile3 = tensor<1x1x64xf32>
!kv = tensor<1x1x64x8xf32>
!kv_tile = tensor<1x1x32x8xf32>
func.func @cut_too_large(%q: !tile4, %k: !kv, %v: !kv, %acc: !state4, %m: !state3, %l: !state3, %o: !state4, %lse: !state3)
    -> (!state4, !state3) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c100 = arith.constant 100 : index
  %zero = arith.constant 0.0 : f32
  // expected-error @+1 {{cannot swap loops: expected the cut of m to be as large as its slice}}
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
      // expected-note @+1 {{see 'tensor.extract_slice'}}
      %mc = tensor.extract_slice %t#1[0, 0, 0] [1, 1, %c64] [1, 1, 1] : !tile3 to !cut3
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

// -----

// The padding comes first.
!state4 = tensor<1x1x100x8xf32>
!state3 = tensor<1x1x100xf32>
!cut4 = tensor<1x1x?x8xf32>
!cut3 = tensor<1x1x?xf32>
!tile4 = tensor<1x1x64x8xf32>
!tile3 = tensor<1x1x64xf32>
!kv = tensor<1x1x64x8xf32>
!kv_tile = tensor<1x1x32x8xf32>
func.func @padded_in_front(%q: !tile4, %k: !kv, %v: !kv, %acc: !state4, %m: !state3, %l: !state3, %o: !state4, %lse: !state3)
    -> (!state4, !state3) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c100 = arith.constant 100 : index
  %zero = arith.constant 0.0 : f32
  %s:3 = scf.for %j = %c0 to %c64 step %c32 iter_args(%acc0 = %acc, %m0 = %m, %l0 = %l) -> (!state4, !state3, !state3) {
    %kt = tensor.extract_slice %k[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    %vt = tensor.extract_slice %v[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    // expected-error @+1 {{cannot swap loops: expected acc to be padded at its end only}}
    %r:3 = scf.for %i = %c0 to %c100 step %c64 iter_args(%acc1 = %acc0, %m1 = %m0, %l1 = %l0) -> (!state4, !state3, !state3) {
      %n = affine.min affine_map<(d0) -> (64, 100 - d0)>(%i)
      %pad = affine.apply affine_map<(d0) -> (64 - d0)>(%n)
      %as = tensor.extract_slice %acc1[0, 0, %i, 0] [1, 1, %n, 8] [1, 1, 1, 1] : !state4 to !cut4
      // expected-note @+1 {{see 'tensor.pad'}}
      %at = tensor.pad %as low[0, 0, %pad, 0] high[0, 0, 0, 0] {
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

// -----

// The slices reach to the end of the tensor: the first tile overlaps the second.
!state4 = tensor<1x1x100x8xf32>
!state3 = tensor<1x1x100xf32>
!cut4 = tensor<1x1x?x8xf32>
!cut3 = tensor<1x1x?xf32>
!tile4 = tensor<1x1x64x8xf32>
!tile3 = tensor<1x1x64xf32>
!kv = tensor<1x1x64x8xf32>
!kv_tile = tensor<1x1x32x8xf32>
func.func @overlapping_to_the_end(%q: !tile4, %k: !kv, %v: !kv, %acc: !state4, %m: !state3, %l: !state3, %o: !state4, %lse: !state3)
    -> (!state4, !state3) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c100 = arith.constant 100 : index
  %zero = arith.constant 0.0 : f32
  %s:3 = scf.for %j = %c0 to %c64 step %c32 iter_args(%acc0 = %acc, %m0 = %m, %l0 = %l) -> (!state4, !state3, !state3) {
    %kt = tensor.extract_slice %k[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    %vt = tensor.extract_slice %v[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    // expected-error @+1 {{cannot swap loops: the iterations do not own their slices of acc: expected tiles as large as the loop step 64, clamped at the loop's end in dimension 2}}
    %r:3 = scf.for %i = %c0 to %c100 step %c64 iter_args(%acc1 = %acc0, %m1 = %m0, %l1 = %l0) -> (!state4, !state3, !state3) {
      %n = affine.min affine_map<(d0) -> (100 - d0)>(%i)
      %pad = affine.apply affine_map<(d0) -> (64 - d0)>(%n)
      // expected-note @+1 {{see 'tensor.extract_slice'}}
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

// -----

// How many rows a slice has depends on the key: it cannot be read in front of the key loop.
!state4 = tensor<1x1x100x8xf32>
!state3 = tensor<1x1x100xf32>
!cut4 = tensor<1x1x?x8xf32>
!cut3 = tensor<1x1x?xf32>
!tile4 = tensor<1x1x64x8xf32>
!tile3 = tensor<1x1x64xf32>
!kv = tensor<1x1x64x8xf32>
!kv_tile = tensor<1x1x32x8xf32>
func.func @slice_moves_with_keys(%q: !tile4, %k: !kv, %v: !kv, %acc: !state4, %m: !state3, %l: !state3, %o: !state4, %lse: !state3)
    -> (!state4, !state3) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c100 = arith.constant 100 : index
  %zero = arith.constant 0.0 : f32
  %s:3 = scf.for %j = %c0 to %c64 step %c32 iter_args(%acc0 = %acc, %m0 = %m, %l0 = %l) -> (!state4, !state3, !state3) {
    %kt = tensor.extract_slice %k[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    %vt = tensor.extract_slice %v[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    // expected-error @+1 {{cannot swap loops: the slice of the state depends on the kv loop}}
    %r:3 = scf.for %i = %c0 to %c100 step %c64 iter_args(%acc1 = %acc0, %m1 = %m0, %l1 = %l0) -> (!state4, !state3, !state3) {
      %n = affine.min affine_map<(d0, d1) -> (64, 100 - d0, 100 - d0 + d1 - d1)>(%i, %j)
      %pad = affine.apply affine_map<(d0) -> (64 - d0)>(%n)
      // expected-note @+1 {{see 'tensor.extract_slice'}}
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
