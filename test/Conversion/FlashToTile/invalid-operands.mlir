// L1 that the passes of fa2 do not make: inputs, outputs, and what regions capture. One query tile and one
// key tile need no loops.
// RUN: flashc-opt %s --split-input-file --verify-diagnostics --convert-flash-to-tile="schedule=consumers=2,kv-tile=64"

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
func.func @padded_at_the_beginning(%half: tensor<1x1x64x64xbf16>, %k: !k, %v: !k, %eacc: !acc, %em: !m) -> (!q, !m) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  %pad = arith.constant 0.0 : bf16
  %q = tensor.pad %half low[0, 0, 64, 0] high[0, 0, 0, 0] {
  ^bb0(%b: index, %h: index, %i: index, %d: index):
    tensor.yield %pad : bf16
  } : tensor<1x1x64x64xbf16> to !q
  // expected-error @below {{expected a tile of q to be padded at its end only}}
  %s:3 = flash.online_attention ins(%q, %k, %v : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
      at(%c0, %c0, %c0, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
  %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%q, %em : !q, !m)
      {normalize = #flash.normalize<deferred>} -> !q, !m
  return %o, %lse : !q, !m
}

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
func.func @half_of_the_columns(%q: !q, %wide: tensor<1x1x64x128xbf16>, %v: !k, %eacc: !acc, %em: !m) -> (!q, !m) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  %k = tensor.extract_slice %wide[0, 0, 0, 64] [1, 1, 64, 64] [1, 1, 1, 1] : tensor<1x1x64x128xbf16> to !k
  // expected-error @below {{expected a tile of whole rows of k}}
  %s:3 = flash.online_attention ins(%q, %k, %v : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
      at(%c0, %c0, %c0, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
  %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%q, %em : !q, !m)
      {normalize = #flash.normalize<deferred>} -> !q, !m
  return %o, %lse : !q, !m
}

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
func.func @keys_of_another_position(%q: !q, %long: tensor<1x1x128x64xbf16>, %v: !k, %eacc: !acc, %em: !m) -> (!q, !m) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  %k = tensor.extract_slice %long[0, 0, 64, 0] [1, 1, 64, 64] [1, 1, 1, 1] : tensor<1x1x128x64xbf16> to !k
  // expected-error @below {{expected the tile of k to begin at the position of the attention}}
  %s:3 = flash.online_attention ins(%q, %k, %v : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
      at(%c0, %c0, %c0, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
  %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%q, %em : !q, !m)
      {normalize = #flash.normalize<deferred>} -> !q, !m
  return %o, %lse : !q, !m
}

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
!kk = tensor<1x1x128x64xbf16>
func.func @keys_of_two_arguments(%q: !q, %k: !kk, %v: !kk, %eacc: !acc, %em: !m) -> (!q, !m) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  %k0 = tensor.extract_slice %k[0, 0, 0, 0] [1, 1, 64, 64] [1, 1, 1, 1] : !kk to !k
  %v0 = tensor.extract_slice %v[0, 0, 0, 0] [1, 1, 64, 64] [1, 1, 1, 1] : !kk to !k
  %v1 = tensor.extract_slice %v[0, 0, 64, 0] [1, 1, 64, 64] [1, 1, 1, 1] : !kk to !k
  %r:3 = flash.online_attention ins(%q, %k0, %v0 : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
      at(%c0, %c0, %c0, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
  // expected-error @below {{expected all loops over keys to read the same arrays}}
  %s:3 = flash.online_attention ins(%q, %v1, %v1 : !q, !k, !k) outs(%r#0, %r#1, %r#2 : !acc, !m, !m)
      at(%c0, %c0, %c0, %c64) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
  %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%q, %em : !q, !m)
      {normalize = #flash.normalize<deferred>} -> !q, !m
  return %o, %lse : !q, !m
}

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
func.func @first_query_tile_only(%all: tensor<1x1x256x64xbf16>, %k: !k, %v: !k, %eacc: !acc, %em: !m) -> (!q, !m) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  %q = tensor.extract_slice %all[0, 0, 0, 0] [1, 1, 128, 64] [1, 1, 1, 1] : tensor<1x1x256x64xbf16> to !q
  %s:3 = flash.online_attention ins(%q, %k, %v : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
      at(%c0, %c0, %c0, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
  // expected-error @below {{expected a parallel loop over query tiles (algorithm fa2)}}
  %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%q, %em : !q, !m)
      {normalize = #flash.normalize<deferred>} -> !q, !m
  return %o, %lse : !q, !m
}

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
func.func @written_to_a_buffer(%q: !q, %k: !k, %v: !k, %eacc: !acc, %em: !m) -> !m {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  %s:3 = flash.online_attention ins(%q, %k, %v : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
      at(%c0, %c0, %c0, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
  %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%q, %em : !q, !m)
      {normalize = #flash.normalize<deferred>} -> !q, !m
  %buffer = memref.alloc() : memref<1x1x128x64xbf16>
  // expected-error @below {{expected the output to be written to a function argument}}
  bufferization.materialize_in_destination %o in restrict writable %buffer : (!q, memref<1x1x128x64xbf16>) -> ()
  return %lse : !m
}

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
// expected-error @below {{expected the attention's outputs to be returned or written to an argument}}
func.func @written_nowhere(%q: !q, %k: !k, %v: !k, %eacc: !acc, %em: !m) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  %s:3 = flash.online_attention ins(%q, %k, %v : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
      at(%c0, %c0, %c0, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
  %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%q, %em : !q, !m)
      {normalize = #flash.normalize<deferred>} -> !q, !m
  return
}

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
func.func @captures_the_key_position(%q: !q, %k: !q, %eacc: !acc, %em: !m) -> (!q, !m) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  // expected-error @below {{expected a scalar that is known before the loop over keys, got an argument of scf.for}}
  %s:3 = scf.for %key = %c0 to %c128 step %c64 iter_args(%a = %acc, %n = %m, %c = %l) -> (!acc, !m, !m) {
    %kt = tensor.extract_slice %k[0, 0, %key, 0] [1, 1, 64, 64] [1, 1, 1, 1] : !q to !k
    %t:3 = flash.online_attention ins(%q, %kt, %kt : !q, !k, !k) outs(%a, %n, %c : !acc, !m, !m)
        at(%c0, %c0, %c0, %key) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi sle, %key, %i : index
      flash.yield %keep : i1
    } -> !acc, !m, !m
    scf.yield %t#0, %t#1, %t#2 : !acc, !m, !m
  }
  %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%q, %em : !q, !m)
      {normalize = #flash.normalize<deferred>} -> !q, !m
  return %o, %lse : !q, !m
}

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
func.func @dimension_unknown(%q: !q, %k: !k, %v: !k, %eacc: !acc, %em: !m, %x: tensor<?x?xf32>, %d: index) -> (!q, !m) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  // expected-error @below {{expected a constant dimension}}
  %n = tensor.dim %x, %d : tensor<?x?xf32>
  %s:3 = flash.online_attention ins(%q, %k, %v : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
      at(%c0, %c0, %c0, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
    %keep = arith.cmpi slt, %j, %n : index
    flash.yield %keep : i1
  } -> !acc, !m, !m
  %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%q, %em : !q, !m)
      {normalize = #flash.normalize<deferred>} -> !q, !m
  return %o, %lse : !q, !m
}

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
func.func @reads_in_another_way(%q: !q, %k: !k, %v: !k, %eacc: !acc, %em: !m, %x: memref<4xindex>) -> (!q, !m) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  %s:3 = flash.online_attention ins(%q, %k, %v : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
      at(%c0, %c0, %c0, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
    // expected-error @below {{expected scalar code without side effects}}
    %n = affine.load %x[symbol(%c0)] : memref<4xindex>
    %keep = arith.cmpi slt, %j, %n : index
    flash.yield %keep : i1
  } -> !acc, !m, !m
  %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%q, %em : !q, !m)
      {normalize = #flash.normalize<deferred>} -> !q, !m
  return %o, %lse : !q, !m
}

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
func.func @computes_a_tensor(%q: !q, %k: !k, %v: !k, %eacc: !acc, %em: !m) -> (!q, !m) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  %s:3 = flash.online_attention ins(%q, %k, %v : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
      at(%c0, %c0, %c0, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
    // expected-error @below {{expected scalar code in integers of up to 64 bits, f16, bf16, f32 or f64, got 'tensor<4xindex>'}}
    %limits = tensor.from_elements %i, %h, %i, %b : tensor<4xindex>
    %n = tensor.extract %limits[%j] : tensor<4xindex>
    %keep = arith.cmpi slt, %j, %n : index
    flash.yield %keep : i1
  } -> !acc, !m, !m
  %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%q, %em : !q, !m)
      {normalize = #flash.normalize<deferred>} -> !q, !m
  return %o, %lse : !q, !m
}
