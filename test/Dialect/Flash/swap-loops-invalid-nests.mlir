// RUN: flashc-opt %s --flash-swap-loops -split-input-file -verify-diagnostics

// What flash-swap-loops cannot prove about the nest as a whole, it refuses: the three states move together, and the nest
// may be rebuilt in front of flash.finalize.

// The row sum of head (b, h) is taken from (h, b): both loops move it, but not as they move acc.
!state4 = tensor<2x2x64x8xf32>
!state3 = tensor<2x2x64xf32>
!tile4 = tensor<1x1x64x8xf32>
!tile3 = tensor<1x1x64xf32>
!kv_tile = tensor<1x1x32x8xf32>
func.func @transposed_l(%q: !state4, %k: !state4, %v: !state4, %acc: !state4, %m: !state3, %l: !state3, %o: !state4, %lse: !state3,
    %bias: memref<64xf32>) -> (!state4, !state3) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  // expected-error @+1 {{cannot swap loops: expected acc, m and l to move with the same loops}}
  %r:3 = scf.for %b = %c0 to %c2 step %c1 iter_args(%acc0 = %acc, %m0 = %m, %l0 = %l) -> (!state4, !state3, !state3) {
    %s:3 = scf.for %h = %c0 to %c2 step %c1 iter_args(%acc1 = %acc0, %m1 = %m0, %l1 = %l0) -> (!state4, !state3, !state3) {
      %t:3 = scf.for %j = %c0 to %c64 step %c32 iter_args(%acc2 = %acc1, %m2 = %m1, %l2 = %l1) -> (!state4, !state3, !state3) {
        %qt = tensor.extract_slice %q[%b, %h, 0, 0] [1, 1, 64, 8] [1, 1, 1, 1] : !state4 to !tile4
        %kt = tensor.extract_slice %k[%b, %h, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !state4 to !kv_tile
        %vt = tensor.extract_slice %v[%b, %h, %j, 0] [1, 1, 32, 8] [1, 1, 1, 1] : !state4 to !kv_tile
        %at = tensor.extract_slice %acc2[%b, %h, 0, 0] [1, 1, 64, 8] [1, 1, 1, 1] : !state4 to !tile4
        %mt = tensor.extract_slice %m2[%b, %h, 0] [1, 1, 64] [1, 1, 1] : !state3 to !tile3
        // expected-note @+1 {{see 'tensor.extract_slice'}}
        %lt = tensor.extract_slice %l2[%h, %b, 0] [1, 1, 64] [1, 1, 1] : !state3 to !tile3
        %a, %n, %p = flash.online_attention ins(%qt, %kt, %vt : !tile4, !kv_tile, !kv_tile)
            outs(%at, %mt, %lt : !tile4, !tile3, !tile3) at(%b, %h, %c0, %j)
            {normalize = #flash.normalize<each_step>, scale = 1.0 : f32} -> !tile4, !tile3, !tile3
        %acc3 = tensor.insert_slice %a into %acc2[%b, %h, 0, 0] [1, 1, 64, 8] [1, 1, 1, 1] : !tile4 into !state4
        %m3 = tensor.insert_slice %n into %m2[%b, %h, 0] [1, 1, 64] [1, 1, 1] : !tile3 into !state3
        %l3 = tensor.insert_slice %p into %l2[%h, %b, 0] [1, 1, 64] [1, 1, 1] : !tile3 into !state3
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

// -----

// What the score reads is overwritten between the nest and flash.finalize, where the new nest would be.
!state4 = tensor<2x2x64x8xf32>
!state3 = tensor<2x2x64xf32>
!tile4 = tensor<1x1x64x8xf32>
!tile3 = tensor<1x1x64xf32>
!kv_tile = tensor<1x1x32x8xf32>
func.func @overwritten(%q: !state4, %k: !state4, %v: !state4, %acc: !state4, %m: !state3, %l: !state3, %o: !state4, %lse: !state3,
    %bias: memref<64xf32>) -> (!state4, !state3) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  // expected-error @+1 {{cannot swap loops: what the nest reads may be written before flash.finalize}}
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
            {normalize = #flash.normalize<each_step>, scale = 1.0 : f32}
            score (%s0: f32, %bb: index, %hh: index, %i: index, %jj: index) {
              %x = memref.load %bias[%jj] : memref<64xf32>
              flash.yield %x : f32
            } -> !tile4, !tile3, !tile3
        %acc3 = tensor.insert_slice %a into %acc2[%b, %h, 0, 0] [1, 1, 64, 8] [1, 1, 1, 1] : !tile4 into !state4
        %m3 = tensor.insert_slice %n into %m2[%b, %h, 0] [1, 1, 64] [1, 1, 1] : !tile3 into !state3
        %l3 = tensor.insert_slice %p into %l2[%b, %h, 0] [1, 1, 64] [1, 1, 1] : !tile3 into !state3
        scf.yield %acc3, %m3, %l3 : !state4, !state3, !state3
      }
      scf.yield %t#0, %t#1, %t#2 : !state4, !state3, !state3
    }
    scf.yield %s#0, %s#1, %s#2 : !state4, !state3, !state3
  }
  %zero = arith.constant 0.0 : f32
  // expected-note @+1 {{see 'scf.for'}}
  scf.for %z = %c0 to %c64 step %c1 {
    memref.store %zero, %bias[%z] : memref<64xf32>
  }
  %o1, %lse1 = flash.finalize ins(%r#0, %r#1, %r#2 : !state4, !state3, !state3) outs(%o, %lse : !state4, !state3)
      {normalize = #flash.normalize<each_step>} -> !state4, !state3
  return %o1, %lse1 : !state4, !state3
}

// -----

// flash.finalize is in a loop: the nest would run several times.
!state4 = tensor<2x2x64x8xf32>
!state3 = tensor<2x2x64xf32>
!tile4 = tensor<1x1x64x8xf32>
!tile3 = tensor<1x1x64xf32>
!kv_tile = tensor<1x1x32x8xf32>
func.func @finalized_elsewhere(%q: !state4, %k: !state4, %v: !state4, %acc: !state4, %m: !state3, %l: !state3, %o: !state4, %lse: !state3,
    %bias: memref<64xf32>) -> (!state4, !state3) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  // expected-error @+1 {{cannot swap loops: expected flash.finalize in the same block}}
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
  %o1, %lse1 = scf.for %z = %c0 to %c64 step %c1 iter_args(%o0 = %o, %lse0 = %lse) -> (!state4, !state3) {
    // expected-note @+1 {{see 'flash.finalize'}}
    %o2, %lse2 = flash.finalize ins(%r#0, %r#1, %r#2 : !state4, !state3, !state3) outs(%o0, %lse0 : !state4, !state3)
        {normalize = #flash.normalize<each_step>} -> !state4, !state3
    scf.yield %o2, %lse2 : !state4, !state3
  }
  return %o1, %lse1 : !state4, !state3
}

// -----

// The accumulator is divided by the row sum at each step, and once more at the end.
!state4 = tensor<2x2x64x8xf32>
!state3 = tensor<2x2x64xf32>
!tile4 = tensor<1x1x64x8xf32>
!tile3 = tensor<1x1x64xf32>
!kv_tile = tensor<1x1x32x8xf32>
func.func @normalized_twice(%q: !state4, %k: !state4, %v: !state4, %acc: !state4, %m: !state3, %l: !state3, %o: !state4, %lse: !state3,
    %bias: memref<64xf32>) -> (!state4, !state3) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  // expected-error @+1 {{cannot swap loops: expected flash.finalize to normalize as flash.online_attention does}}
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
  // expected-note @+1 {{see 'flash.finalize'}}
  %o1, %lse1 = flash.finalize ins(%r#0, %r#1, %r#2 : !state4, !state3, !state3) outs(%o, %lse : !state4, !state3)
      {normalize = #flash.normalize<deferred>} -> !state4, !state3
  return %o1, %lse1 : !state4, !state3
}

