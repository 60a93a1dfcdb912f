// L1 that the passes of fa2 do not make: the state and the loops over keys. No bigger than each refusal needs: one
// query tile has no parallel loop, one key tile no loop over keys; the state is filled where that is looked at.
// RUN: flashc-opt %s --split-input-file --verify-diagnostics --convert-flash-to-tile="schedule=consumers=2,kv-tile=64"

// expected-error @below {{expected the module to hold one function with a body, got none}}
module {}

// -----

// expected-error @below {{expected a function of one block}}
func.func @blocks() {
  cf.br ^bb1
^bb1:
  return
}

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
func.func @state_begins_with_one(%q: !q, %k: !k, %v: !k, %eacc: !acc, %em: !m) -> (!q, !m) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 1.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  %s:3 = flash.online_attention ins(%q, %k, %v : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
      at(%c0, %c0, %c0, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
  // expected-error @below {{expected the state to begin as linalg.fill with 0, -inf and 0 in a parallel loop over query tiles (algorithm fa2)}}
  %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%q, %em : !q, !m)
      {normalize = #flash.normalize<deferred>} -> !q, !m
  return %o, %lse : !q, !m
}

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
func.func @state_in_another_order(%q: !q, %k: !k, %v: !k, %acc: !acc, %m: !m, %l: !m) -> (!q, !m) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{expected acc, m and l, in this order, to be the results}}
  %s:3 = flash.online_attention ins(%q, %k, %v : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
      at(%c0, %c0, %c0, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
  %o, %lse = flash.finalize ins(%s#0, %s#2, %s#1 : !acc, !m, !m) outs(%q, %m : !q, !m)
      {normalize = #flash.normalize<deferred>} -> !q, !m
  return %o, %lse : !q, !m
}

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
func.func @loop_swaps_the_state(%q: !q, %k: !k, %v: !k, %acc: !acc, %m: !m, %l: !m) -> (!q, !m) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  // expected-error @below {{expected a loop over keys that carries acc, m and l through one flash.online_attention}}
  %s:3 = scf.for %j = %c0 to %c128 step %c64 iter_args(%a = %acc, %b = %m, %c = %l) -> (!acc, !m, !m) {
    %t:3 = flash.online_attention ins(%q, %k, %v : !q, !k, !k) outs(%a, %b, %c : !acc, !m, !m)
        at(%c0, %c0, %c0, %j) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
    scf.yield %t#0, %t#2, %t#1 : !acc, !m, !m
  }
  %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%q, %m : !q, !m)
      {normalize = #flash.normalize<deferred>} -> !q, !m
  return %o, %lse : !q, !m
}

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
func.func @loop_of_another_step(%q: !q, %k: !k, %v: !k, %acc: !acc, %m: !m, %l: !m) -> (!q, !m) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  // expected-error @below {{expected a step of one key tile (64)}}
  %s:3 = scf.for %j = %c0 to %c128 step %c128 iter_args(%a = %acc, %b = %m, %c = %l) -> (!acc, !m, !m) {
    %t:3 = flash.online_attention ins(%q, %k, %v : !q, !k, !k) outs(%a, %b, %c : !acc, !m, !m)
        at(%c0, %c0, %c0, %j) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
    scf.yield %t#0, %t#1, %t#2 : !acc, !m, !m
  }
  %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%q, %m : !q, !m)
      {normalize = #flash.normalize<deferred>} -> !q, !m
  return %o, %lse : !q, !m
}

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
func.func @key_position_unknown(%q: !q, %k: !k, %v: !k, %acc: !acc, %m: !m, %l: !m, %j: index) -> (!q, !m) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{expected the key position to be a loop's induction variable or a constant}}
  %s:3 = flash.online_attention ins(%q, %k, %v : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
      at(%c0, %c0, %c0, %j) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
  %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%q, %m : !q, !m)
      {normalize = #flash.normalize<deferred>} -> !q, !m
  return %o, %lse : !q, !m
}

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
func.func @normalizes_each_step(%q: !q, %k: !k, %v: !k, %eacc: !acc, %em: !m) -> (!q, !m) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  // expected-error @below {{expected normalize = deferred (algorithm fa2)}}
  %s:3 = flash.online_attention ins(%q, %k, %v : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
      at(%c0, %c0, %c0, %c0) {normalize = #flash.normalize<each_step>, scale = 1.0 : f32} -> !acc, !m, !m
  %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%q, %em : !q, !m)
      {normalize = #flash.normalize<deferred>} -> !q, !m
  return %o, %lse : !q, !m
}

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
func.func @two_scales(%q: !q, %k: !k, %v: !k, %eacc: !acc, %em: !m) -> (!q, !m) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  %r:3 = flash.online_attention ins(%q, %k, %v : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
      at(%c0, %c0, %c0, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
  // expected-error @below {{expected all loops over keys to have the same tiles, position, scale and score region}}
  %s:3 = flash.online_attention ins(%q, %k, %v : !q, !k, !k) outs(%r#0, %r#1, %r#2 : !acc, !m, !m)
      at(%c0, %c0, %c0, %c64) {normalize = #flash.normalize<deferred>, scale = 2.0 : f32} -> !acc, !m, !m
  %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%q, %em : !q, !m)
      {normalize = #flash.normalize<deferred>} -> !q, !m
  return %o, %lse : !q, !m
}

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
func.func @two_masks(%q: !q, %k: !k, %v: !k, %eacc: !acc, %em: !m) -> (!q, !m) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  %r:3 = flash.online_attention ins(%q, %k, %v : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
      at(%c0, %c0, %c0, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
    %keep = arith.cmpi sle, %j, %i : index
    flash.yield %keep : i1
  } -> !acc, !m, !m
  // expected-error @below {{expected all masked loops over keys to have the same mask region}}
  %s:3 = flash.online_attention ins(%q, %k, %v : !q, !k, !k) outs(%r#0, %r#1, %r#2 : !acc, !m, !m)
      at(%c0, %c0, %c0, %c64) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
    %keep = arith.cmpi slt, %j, %i : index
    flash.yield %keep : i1
  } -> !acc, !m, !m
  %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%q, %em : !q, !m)
      {normalize = #flash.normalize<deferred>} -> !q, !m
  return %o, %lse : !q, !m
}
