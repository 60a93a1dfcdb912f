// RUN: flashc-opt %s --flash-swap-loops -split-input-file -verify-diagnostics

// What flash-swap-loops cannot prove, it refuses: one nest, one flaw in its slices at a time.

// Tiles of 64 queries, every 32 queries.
!state4 = tensor<1x1x128x8xf32>
!state3 = tensor<1x1x128xf32>
!tile4 = tensor<1x1x64x8xf32>
!tile3 = tensor<1x1x64xf32>
!kv = tensor<1x1x64x8xf32>
!kv_tile = tensor<1x1x32x8xf32>
func.func @overlapping_query_tiles(%q: !state4, %k: !kv, %v: !kv, %acc: !state4, %m: !state3, %l: !state3, %o: !state4, %lse: !state3)
    -> (!state4, !state3) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %s:3 = scf.for %j = %c0 to %c64 step %c32 iter_args(%acc0 = %acc, %m0 = %m, %l0 = %l) -> (!state4, !state3, !state3) {
    %kt = tensor.extract_slice %k[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    %vt = tensor.extract_slice %v[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    // expected-error @+1 {{cannot swap loops: the iterations do not own their slices of acc: expected tiles as large as the loop step 32, clamped at the loop's end in dimension 2}}
    %r:3 = scf.for %i = %c0 to %c128 step %c32 iter_args(%acc1 = %acc0, %m1 = %m0, %l1 = %l0) -> (!state4, !state3, !state3) {
      %qt = tensor.extract_slice %q[0, 0, %i, 0] [1, 1, 64, 8] [1, 1, 1, 1] : !state4 to !tile4
      // expected-note @+1 {{see 'tensor.extract_slice'}}
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

// -----

// The last query tile would keep its initial state: the loop must cover all of it.
!state4 = tensor<1x1x128x8xf32>
!state3 = tensor<1x1x128xf32>
!tile4 = tensor<1x1x64x8xf32>
!tile3 = tensor<1x1x64xf32>
!kv = tensor<1x1x64x8xf32>
!kv_tile = tensor<1x1x32x8xf32>
func.func @not_all_queries(%q: !state4, %k: !kv, %v: !kv, %acc: !state4, %m: !state3, %l: !state3, %o: !state4, %lse: !state3)
    -> (!state4, !state3) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %s:3 = scf.for %j = %c0 to %c64 step %c32 iter_args(%acc0 = %acc, %m0 = %m, %l0 = %l) -> (!state4, !state3, !state3) {
    %kt = tensor.extract_slice %k[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    %vt = tensor.extract_slice %v[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    // expected-error @+1 {{cannot swap loops: the iterations do not own their slices of acc: expected the loop to run from 0 to the extent of the dimension in dimension 2}}
    %r:3 = scf.for %i = %c0 to %c64 step %c64 iter_args(%acc1 = %acc0, %m1 = %m0, %l1 = %l0) -> (!state4, !state3, !state3) {
      %qt = tensor.extract_slice %q[0, 0, %i, 0] [1, 1, 64, 8] [1, 1, 1, 1] : !state4 to !tile4
      // expected-note @+1 {{see 'tensor.extract_slice'}}
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

// -----

// acc is written where it was not read.
!state4 = tensor<1x1x128x8xf32>
!state3 = tensor<1x1x128xf32>
!tile4 = tensor<1x1x64x8xf32>
!tile3 = tensor<1x1x64xf32>
!kv = tensor<1x1x64x8xf32>
!kv_tile = tensor<1x1x32x8xf32>
func.func @written_elsewhere(%q: !state4, %k: !kv, %v: !kv, %acc: !state4, %m: !state3, %l: !state3, %o: !state4, %lse: !state3)
    -> (!state4, !state3) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %s:3 = scf.for %j = %c0 to %c64 step %c32 iter_args(%acc0 = %acc, %m0 = %m, %l0 = %l) -> (!state4, !state3, !state3) {
    %kt = tensor.extract_slice %k[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    %vt = tensor.extract_slice %v[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    // expected-error @+1 {{cannot swap loops: the iterations do not own their slices of acc: expected the whole extent in dimension 2}}
    %r:3 = scf.for %i = %c0 to %c128 step %c64 iter_args(%acc1 = %acc0, %m1 = %m0, %l1 = %l0) -> (!state4, !state3, !state3) {
      %qt = tensor.extract_slice %q[0, 0, %i, 0] [1, 1, 64, 8] [1, 1, 1, 1] : !state4 to !tile4
      %at = tensor.extract_slice %acc1[0, 0, %i, 0] [1, 1, 64, 8] [1, 1, 1, 1] : !state4 to !tile4
      %mt = tensor.extract_slice %m1[0, 0, %i] [1, 1, 64] [1, 1, 1] : !state3 to !tile3
      %lt = tensor.extract_slice %l1[0, 0, %i] [1, 1, 64] [1, 1, 1] : !state3 to !tile3
      %a, %n, %p = flash.online_attention ins(%qt, %kt, %vt : !tile4, !kv_tile, !kv_tile)
          outs(%at, %mt, %lt : !tile4, !tile3, !tile3) at(%c0, %c0, %i, %j)
          {normalize = #flash.normalize<each_step>, scale = 1.0 : f32} -> !tile4, !tile3, !tile3
      // expected-note @+1 {{see 'tensor.insert_slice'}}
      %acc2 = tensor.insert_slice %a into %acc1[0, 0, %c0, 0] [1, 1, 64, 8] [1, 1, 1, 1] : !tile4 into !state4
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

// -----

// The tile of m has another use.
!state4 = tensor<1x1x128x8xf32>
!state3 = tensor<1x1x128xf32>
!tile4 = tensor<1x1x64x8xf32>
!tile3 = tensor<1x1x64xf32>
!kv = tensor<1x1x64x8xf32>
!kv_tile = tensor<1x1x32x8xf32>
func.func @tile_used_twice(%q: !state4, %k: !kv, %v: !kv, %acc: !state4, %m: !state3, %l: !state3, %o: !state4, %lse: !state3)
    -> (!state4, !state3) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %s:3 = scf.for %j = %c0 to %c64 step %c32 iter_args(%acc0 = %acc, %m0 = %m, %l0 = %l) -> (!state4, !state3, !state3) {
    %kt = tensor.extract_slice %k[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    %vt = tensor.extract_slice %v[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    // expected-error @+1 {{cannot swap loops: m is used by more than this flash.online_attention}}
    %r:3 = scf.for %i = %c0 to %c128 step %c64 iter_args(%acc1 = %acc0, %m1 = %m0, %l1 = %l0) -> (!state4, !state3, !state3) {
      %qt = tensor.extract_slice %q[0, 0, %i, 0] [1, 1, 64, 8] [1, 1, 1, 1] : !state4 to !tile4
      %at = tensor.extract_slice %acc1[0, 0, %i, 0] [1, 1, 64, 8] [1, 1, 1, 1] : !state4 to !tile4
      %mt = tensor.extract_slice %m1[0, 0, %i] [1, 1, 64] [1, 1, 1] : !state3 to !tile3
      %lt = tensor.extract_slice %l1[0, 0, %i] [1, 1, 64] [1, 1, 1] : !state3 to !tile3
      // expected-note @+1 {{see 'arith.negf'}}
      %more = arith.negf %mt : !tile3
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

