// RUN: flashc-opt %s --flash-swap-loops -split-input-file -verify-diagnostics

// What flash-swap-loops cannot prove about the loops, it refuses; about the slices: see swap-loops-invalid.mlir.

// The maximum is used behind the loops, where it will not exist.
!state4 = tensor<1x1x128x8xf32>
!state3 = tensor<1x1x128xf32>
!tile4 = tensor<1x1x64x8xf32>
!tile3 = tensor<1x1x64xf32>
!kv = tensor<1x1x64x8xf32>
!kv_tile = tensor<1x1x32x8xf32>
func.func @state_outlives_nest(%q: !state4, %k: !kv, %v: !kv, %acc: !state4, %m: !state3, %l: !state3, %o: !state4, %lse: !state3)
    -> (!state4, !state3) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  // expected-error @+1 {{cannot swap loops: expected m to be used by one flash.finalize only}}
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
  // expected-note @+1 {{see 'arith.negf'}}
  %more = arith.negf %s#1 : !state3
  %o1, %lse1 = flash.finalize ins(%s#0, %s#1, %s#2 : !state4, !state3, !state3) outs(%o, %lse : !state4, !state3)
      {normalize = #flash.normalize<each_step>} -> !state4, !state3
  return %o1, %lse1 : !state4, !state3
}

// -----

// The query loop's bound is computed from the key position.
!state4 = tensor<1x1x128x8xf32>
!state3 = tensor<1x1x128xf32>
!tile4 = tensor<1x1x64x8xf32>
!tile3 = tensor<1x1x64xf32>
!kv = tensor<1x1x64x8xf32>
!kv_tile = tensor<1x1x32x8xf32>
func.func @bound_depends_on_keys(%q: !state4, %k: !kv, %v: !kv, %acc: !state4, %m: !state3, %l: !state3, %o: !state4, %lse: !state3)
    -> (!state4, !state3) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %s:3 = scf.for %j = %c0 to %c64 step %c32 iter_args(%acc0 = %acc, %m0 = %m, %l0 = %l) -> (!state4, !state3, !state3) {
    %kt = tensor.extract_slice %k[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    %vt = tensor.extract_slice %v[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    %t = arith.addi %j, %c128 : index
    // expected-note @+1 {{see 'arith.subi'}}
    %end = arith.subi %t, %j : index
    // expected-error @+1 {{cannot swap loops: the loop's bounds depend on the loops around it}}
    %r:3 = scf.for %i = %c0 to %end step %c64 iter_args(%acc1 = %acc0, %m1 = %m0, %l1 = %l0) -> (!state4, !state3, !state3) {
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

// -----

// A store in the key loop would run in another order.
!state4 = tensor<1x1x128x8xf32>
!state3 = tensor<1x1x128xf32>
!tile4 = tensor<1x1x64x8xf32>
!tile3 = tensor<1x1x64xf32>
!kv = tensor<1x1x64x8xf32>
!kv_tile = tensor<1x1x32x8xf32>
func.func @side_effect(%q: !state4, %k: !kv, %v: !kv, %acc: !state4, %m: !state3, %l: !state3, %o: !state4, %lse: !state3,
    %buffer: memref<1xf32>, %x: f32)
    -> (!state4, !state3) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  // expected-error @+1 {{cannot swap loops: expected a loop body without side effects}}
  %s:3 = scf.for %j = %c0 to %c64 step %c32 iter_args(%acc0 = %acc, %m0 = %m, %l0 = %l) -> (!state4, !state3, !state3) {
    %kt = tensor.extract_slice %k[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    %vt = tensor.extract_slice %v[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    // expected-note @+1 {{see 'memref.store'}}
    memref.store %x, %buffer[%c0] : memref<1xf32>
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

// -----

// The key loop carries a count beside the state.
!state4 = tensor<1x1x128x8xf32>
!state3 = tensor<1x1x128xf32>
!tile4 = tensor<1x1x64x8xf32>
!tile3 = tensor<1x1x64xf32>
!kv = tensor<1x1x64x8xf32>
!kv_tile = tensor<1x1x32x8xf32>
func.func @carries_more(%q: !state4, %k: !kv, %v: !kv, %acc: !state4, %m: !state3, %l: !state3, %o: !state4, %lse: !state3)
    -> (!state4, !state3) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  // expected-error @+1 {{cannot swap loops: expected the loop to carry acc, m and l only, got 4 values}}
  %s:4 = scf.for %j = %c0 to %c64 step %c32 iter_args(%acc0 = %acc, %m0 = %m, %l0 = %l, %count = %c0) -> (!state4, !state3, !state3, index) {
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
    %count1 = arith.addi %count, %c32 : index
    scf.yield %r#0, %r#1, %r#2, %count1 : !state4, !state3, !state3, index
  }
  %o1, %lse1 = flash.finalize ins(%s#0, %s#1, %s#2 : !state4, !state3, !state3) outs(%o, %lse : !state4, !state3)
      {normalize = #flash.normalize<each_step>} -> !state4, !state3
  return %o1, %lse1 : !state4, !state3
}

// -----

// m and l trade places from one query tile to the next.
!state4 = tensor<1x1x128x8xf32>
!state3 = tensor<1x1x128xf32>
!tile4 = tensor<1x1x64x8xf32>
!tile3 = tensor<1x1x64xf32>
!kv = tensor<1x1x64x8xf32>
!kv_tile = tensor<1x1x32x8xf32>
func.func @swapped_state(%q: !state4, %k: !kv, %v: !kv, %acc: !state4, %m: !state3, %l: !state3, %o: !state4, %lse: !state3)
    -> (!state4, !state3) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %s:3 = scf.for %j = %c0 to %c64 step %c32 iter_args(%acc0 = %acc, %m0 = %m, %l0 = %l) -> (!state4, !state3, !state3) {
    %kt = tensor.extract_slice %k[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    %vt = tensor.extract_slice %v[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    // expected-error @+1 {{cannot swap loops: expected the loop to yield m as the step inside leaves it}}
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
      // expected-note @+1 {{see 'scf.yield'}}
      scf.yield %acc2, %l2, %m2 : !state4, !state3, !state3
    }
    scf.yield %r#0, %r#1, %r#2 : !state4, !state3, !state3
  }
  %o1, %lse1 = flash.finalize ins(%s#0, %s#1, %s#2 : !state4, !state3, !state3) outs(%o, %lse : !state4, !state3)
      {normalize = #flash.normalize<each_step>} -> !state4, !state3
  return %o1, %lse1 : !state4, !state3
}

// -----

// Two loops fold into the same state: which one goes inside is not decided here.
!state4 = tensor<1x1x128x8xf32>
!state3 = tensor<1x1x128xf32>
!tile4 = tensor<1x1x64x8xf32>
!tile3 = tensor<1x1x64xf32>
!kv = tensor<1x1x64x8xf32>
!kv_tile = tensor<1x1x32x8xf32>
func.func @two_key_loops(%q: !state4, %k: !kv, %v: !kv, %acc: !state4, %m: !state3, %l: !state3, %o: !state4, %lse: !state3)
    -> (!state4, !state3) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  // expected-note @+1 {{see 'scf.for'}}
  %s:3 = scf.for %j = %c0 to %c64 step %c32 iter_args(%acc0 = %acc, %m0 = %m, %l0 = %l) -> (!state4, !state3, !state3) {
    %kt = tensor.extract_slice %k[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    %vt = tensor.extract_slice %v[0, 0, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !kv to !kv_tile
    // expected-error @+1 {{cannot swap loops: expected one loop that carries a state tile from step to step, got two}}
    %u:3 = scf.for %again = %c0 to %c64 step %c32 iter_args(%acc9 = %acc0, %m9 = %m0, %l9 = %l0) -> (!state4, !state3, !state3) {
    %r:3 = scf.for %i = %c0 to %c128 step %c64 iter_args(%acc1 = %acc9, %m1 = %m9, %l1 = %l9) -> (!state4, !state3, !state3) {
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
    scf.yield %u#0, %u#1, %u#2 : !state4, !state3, !state3
  }
  %o1, %lse1 = flash.finalize ins(%s#0, %s#1, %s#2 : !state4, !state3, !state3) outs(%o, %lse : !state4, !state3)
      {normalize = #flash.normalize<each_step>} -> !state4, !state3
  return %o1, %lse1 : !state4, !state3
}
