// RUN: %vary %s | flashc-opt --split-input-file --verify-diagnostics -o /dev/null \
// RUN:   --convert-flash-to-tile="schedule=consumers=2,kv-tile=64"

// L1 that the passes of fa2 do not make. One query tile needs no parallel loop, one key tile no loop over keys.

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
func.func @one_tile(%q: !q, %k: !k, %v: !k, %eacc: !acc, %em: !m, %half: !k, %wide: tensor<1x1x64x128xbf16>, %long: !q,
    %all: tensor<1x1x256x64xbf16>, %x: tensor<?x?xf32>, %y: memref<4xindex>, %n: index) -> (!q, !m) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  %s:3 = flash.online_attention ins(%q, %k, %v : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
      at(%c0, %c0, %c0, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
  %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%q, %em : !q, !m)
      {normalize = #flash.normalize<deferred>} -> !q, !m
  return %o, %lse : !q, !m
}

// VARY state_begins_with_one
//   0.0 => 1.0
//   %o, %lse = | error: expected the state to begin as linalg.fill with 0, -inf and 0 in a parallel loop over query tiles (algorithm fa2)
// VARY state_in_another_order
//   %s:3 | error: expected acc, m and l, in this order, to be the results
//   %s#1, %s#2 => %s#2, %s#1
// VARY key_position_unknown
//   %s:3 | error: expected the key position to be a loop's induction variable or a constant
//   at(%c0, %c0, %c0, %c0) => at(%c0, %c0, %c0, %n)
// VARY normalizes_each_step
//   %s:3 | error: expected normalize = deferred (algorithm fa2)
//   <deferred>, => <each_step>,
// VARY padded_at_the_beginning
//   %s:3 =>
//     %pad = arith.constant 0.0 : bf16
//     %qt = tensor.pad %half low[0, 0, 64, 0] high[0, 0, 0, 0] {
//     ^bb0(%b: index, %h: index, %i: index, %d: index):
//       tensor.yield %pad : bf16
//     } : !k to !q
//     %s:3
//   ins(%q, => ins(%qt, | error: expected a tile of q to be padded at its end only
// VARY half_of_the_columns
//   %s:3 =>
//     %kt = tensor.extract_slice %wide[0, 0, 0, 64] [1, 1, 64, 64] [1, 1, 1, 1] : tensor<1x1x64x128xbf16> to !k
//     %s:3
//   %k, %v : => %kt, %v : | error: expected a tile of whole rows of k
// VARY keys_of_another_position
//   %s:3 =>
//     %kt = tensor.extract_slice %long[0, 0, 64, 0] [1, 1, 64, 64] [1, 1, 1, 1] : !q to !k
//     %s:3
//   %k, %v : => %kt, %v : | error: expected the tile of k to begin at the position of the attention
// VARY first_query_tile_only
//   %s:3 =>
//     %qt = tensor.extract_slice %all[0, 0, 0, 0] [1, 1, 128, 64] [1, 1, 1, 1] : tensor<1x1x256x64xbf16> to !q
//     %s:3
//   ins(%q, => ins(%qt,
//   outs(%q, => outs(%qt, | error: expected a parallel loop over query tiles (algorithm fa2)
// VARY written_to_a_buffer
//   return %o => %buffer = memref.alloc() : memref<1x1x128x64xbf16>
//     bufferization.materialize_in_destination %o in restrict writable %buffer : (!q, memref<1x1x128x64xbf16>) -> ()
//     | error: expected the output to be written to a function argument
//     return %q
// VARY written_nowhere
//   func.func | error: expected the attention's outputs to be returned or written to an argument
//   -> (!q, !m) { => {
//   return %o, %lse : !q, !m => return
// VARY dimension_unknown
//   %s:3 =>
//     %d = tensor.dim %x, %n : tensor<?x?xf32> | error: expected a constant dimension
//     %s:3
//   -> !acc, !m, !m => mask (%b: index, %h: index, %i: index, %j: index) {
//       %keep = arith.cmpi slt, %j, %d : index
//       flash.yield %keep : i1
//     } -> !acc, !m, !m
// VARY reads_in_another_way
//   -> !acc, !m, !m => mask (%b: index, %h: index, %i: index, %j: index) {
//       %d = affine.load %y[symbol(%c0)] : memref<4xindex> | error: expected scalar code without side effects
//       %keep = arith.cmpi slt, %j, %d : index
//       flash.yield %keep : i1
//     } -> !acc, !m, !m
// VARY computes_a_tensor
//   -> !acc, !m, !m => mask (%b: index, %h: index, %i: index, %j: index) {
//       %limits = tensor.from_elements %i, %h, %i, %b : tensor<4xindex>
//       | error: expected scalar code in integers of up to 64 bits, f16, bf16, f32 or f64, got 'tensor<4xindex>'
//       %d = tensor.extract %limits[%j] : tensor<4xindex>
//       %keep = arith.cmpi slt, %j, %d : index
//       flash.yield %keep : i1
//     } -> !acc, !m, !m

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
func.func @loop_over_keys(%q: !q, %k: !q, %eacc: !acc, %em: !m) -> (!q, !m) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  %s:3 = scf.for %key = %c0 to %c128 step %c64 iter_args(%a = %acc, %n = %m, %c = %l) -> (!acc, !m, !m) {
    %kt = tensor.extract_slice %k[0, 0, %key, 0] [1, 1, 64, 64] [1, 1, 1, 1] : !q to !k
    %t:3 = flash.online_attention ins(%q, %kt, %kt : !q, !k, !k) outs(%a, %n, %c : !acc, !m, !m)
        at(%c0, %c0, %c0, %key) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
    scf.yield %t#0, %t#1, %t#2 : !acc, !m, !m
  }
  %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%q, %em : !q, !m)
      {normalize = #flash.normalize<deferred>} -> !q, !m
  return %o, %lse : !q, !m
}

// VARY loop_swaps_the_state
//   %s:3 | error: expected a loop over keys that carries acc, m and l through one flash.online_attention
//   %t#1, %t#2 => %t#2, %t#1
// VARY loop_of_another_step
//   step %c64 => step %c128 | error: expected a step of one key tile (64)
// VARY captures_the_key_position
//   %s:3 | error: expected a scalar that is known before the loop over keys, got an argument of scf.for
//   -> !acc, !m, !m => mask (%b: index, %h: index, %i: index, %j: index) {
//       %keep = arith.cmpi sle, %key, %i : index
//       flash.yield %keep : i1
//     } -> !acc, !m, !m

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
func.func @two_tiles_of_keys(%q: !q, %k: !q, %v: !q, %eacc: !acc, %em: !m) -> (!q, !m) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  %k0 = tensor.extract_slice %k[0, 0, 0, 0] [1, 1, 64, 64] [1, 1, 1, 1] : !q to !k
  %k1 = tensor.extract_slice %k[0, 0, 64, 0] [1, 1, 64, 64] [1, 1, 1, 1] : !q to !k
  %v0 = tensor.extract_slice %v[0, 0, 0, 0] [1, 1, 64, 64] [1, 1, 1, 1] : !q to !k
  %v1 = tensor.extract_slice %v[0, 0, 64, 0] [1, 1, 64, 64] [1, 1, 1, 1] : !q to !k
  %r:3 = flash.online_attention ins(%q, %k0, %v0 : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m) at(%c0, %c0, %c0, %c0)
      {normalize = #flash.normalize<deferred>, scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
    %keep = arith.cmpi sle, %j, %i : index
    flash.yield %keep : i1
  } -> !acc, !m, !m
  %s:3 = flash.online_attention ins(%q, %k1, %v1 : !q, !k, !k) outs(%r#0, %r#1, %r#2 : !acc, !m, !m) at(%c0, %c0, %c0, %c64)
      {scale = 1.0 : f32, normalize = #flash.normalize<deferred>}
      mask (%b: index, %h: index, %i: index, %j: index) {
    %same = arith.cmpi sle, %j, %i : index
    flash.yield %same : i1
  } -> !acc, !m, !m
  %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%q, %em : !q, !m)
      {normalize = #flash.normalize<deferred>} -> !q, !m
  return %o, %lse : !q, !m
}

// VARY two_scales
//   %s:3 | error: expected all loops over keys to have the same tiles, position, scale and score region
//   {scale = 1.0 => {scale = 2.0
// VARY two_masks
//   %s:3 | error: expected all masked loops over keys to have the same mask region
//   %same = arith.cmpi sle => %same = arith.cmpi slt
// VARY keys_of_two_arguments
//   %k1, => %v1, | error: expected all loops over keys to read the same arrays

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
!all = tensor<1x4x256x64xbf16>
func.func @parallel(%q: !all, %k: !k, %v: !k, %eacc: !acc, %em: !m, %n: index, %flag: memref<f32>, %out: !all) -> !all {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  %r = scf.forall (%h, %i) = (0, 0) to (4, 256) step (1, 128) shared_outs(%all = %out) -> (!all) {
    %qt = tensor.extract_slice %q[0, %h, %i, 0] [1, 1, 128, 64] [1, 1, 1, 1] : !all to !q
    %s:3 = flash.online_attention ins(%qt, %k, %v : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
        at(%c0, %h, %i, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
    %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%qt, %em : !q, !m)
        {normalize = #flash.normalize<deferred>} -> !q, !m
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %o into %all[0, %h, %i, 0] [1, 1, 128, 64] [1, 1, 1, 1] : !q into !all
    }
  }
  return %r : !all
}

// VARY heads_from_one
//   (0, 0) => (1, 0) | error: expected a parallel loop from 0 in constant steps
// VARY two_heads_a_step
//   (1, 128) => (2, 128)
//   %s:3 | error: expected one batch and one head per tile
// VARY half_a_tile_a_step
//   (1, 128) => (1, 64)
//   %s:3 | error: expected the parallel loop to step by one query tile (128), got 64
// VARY extent_unknown
//   (4, 256) => (4, %n)
//   %o, %lse | error: expected the extents of the parallel loop to be constants or extents of arguments
// VARY finalize_in_a_nested_loop
//   %o, %lse = => %f = scf.execute_region -> !q {
//     %o, %lse = | error: expected flash.finalize directly in the parallel loop
//   scf.forall.in_parallel => scf.yield %o : !q
//     }
//     scf.forall.in_parallel
//   %o into => %f into
// VARY side_effect
//   %qt = => memref.store %zero, %flag[] : memref<f32>
//     | error: expected a function that computes an attention only, got another side effect
//     %qt =

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
!all = tensor<1x1x?x64xbf16>
func.func @segments(%q: !all, %k: !k, %v: !k, %eacc: !acc, %em: !m, %n: index, %out: !all, %offsets: tensor<4xi32>) -> !all {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  %sorted = flash.assume_sorted %offsets : tensor<4xi32>
  %r = scf.forall (%t) in (%n) shared_outs(%all = %out) -> (!all) {
    // expected-error @below {{expected tiles of 128 queries, got 64}}
    %i, %rows, %segment = flash.segment_tile %t of %sorted length %n tiles 64 : tensor<4xi32>
    %qt = tensor.extract_slice %q[0, 0, %i, 0] [1, 1, 128, 64] [1, 1, 1, 1] : !all to !q
    %s:3 = flash.online_attention ins(%qt, %k, %v : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
        at(%c0, %c0, %i, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
    %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%qt, %em : !q, !m)
        {normalize = #flash.normalize<deferred>} -> !q, !m
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %o into %all[0, 0, %i, 0] [1, 1, 128, 64] [1, 1, 1, 1] : !q into !all
    }
  }
  return %r : !all
}

// -----

// expected-error @below {{expected the module to hold one function with a body, got none}}
module {}

// -----

// expected-error @below {{expected a function of one block}}
func.func @blocks() {
  cf.br ^bb1
^bb1:
  return
}
