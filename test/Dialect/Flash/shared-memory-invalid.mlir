// Outputs that share memory with what an op reads, or with each other.
// RUN: %vary %s | flashc-opt --verify-diagnostics --split-input-file

!q = memref<2x4x33x64xf16>
!k = memref<2x4x50x64xf16>
!t = memref<2x4x64x64xf16>
!row = memref<2x4x64xf32>
!one = memref<1x1x16x8xf32>
!part = memref<1x1x16x8xf32, strided<[256, 256, 8, 1], offset: ?>>
!parts = memref<2x1x4x32x16xf32>
!o = memref<1x4x32x16xf32, strided<[2048, 512, 16, 1]>>
!cache = memref<2x99x4x24xf32>
!new = memref<2x3x4x24xf32, strided<[9504, 96, 24, 1]>>
memref.global "private" @buffer : !one
func.func @shared(%q: !q, %k: !k, %lse: memref<2x4x33xf32>,
    %x: !t, %y: !t, %z: !t, %r: !row, %dq: !t, %dk: !t, %dv: !t,
    %a: !one,
    %b: !one,
    %c: !one, %s: memref<1x1x16xf32>,
    %all: memref<1x1x32x8xf32>, %bytes: memref<4096xi8>, %i: index, %j: index, %which: i1,
    %p: !parts, %lses: memref<2x1x4x32xf32>, %merged: memref<1x4x32xf32>,
    %sinks: memref<1xf32>, %q1: memref<1x1x1x8xf32>, %o1: memref<1x1x1x8xf32>,
    %k_cache: !cache, %v_cache: !cache,
    %new: !new, %positions: memref<2xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c508 = arith.constant 508 : index
  // BODY
  return
}

// VARY queries
//     flash.attention ins(%q, %k, %k : !q, !k, !k) outs(%q, %lse : !q, memref<2x4x33xf32>) {scale = 0.125 : f32}
//     | error: expected o to share no memory with q, got one array (C14)
//   %q: !q | note: o is this | note: q is this
// VARY values
//     flash.attention ins(%x, %y, %z : !t, !t, !t) outs(%z, %r : !t, !row) {scale = 0.125 : f32}
//     | error: expected o to share no memory with v, got one array (C14)
//   %x: !t | note: o is this | note: v is this
// VARY through_casts
//     %cast = memref.cast %y : !t to memref<?x4x?x64xf16> | note: k is this
//     %moved = memref.transpose %y (a, b, c, d) -> (a, b, c, d) : !t to memref<2x4x64x64xf16, strided<[16384, 4096, 64, 1]>>
//     | note: o is this
//     flash.attention ins(%x, %cast, %z : !t, memref<?x4x?x64xf16>, !t)
//     | error: expected o to share no memory with k, got views of one array that are not known to be apart (C14)
//       outs(%moved, %r : memref<2x4x64x64xf16, strided<[16384, 4096, 64, 1]>>, !row) {scale = 0.125 : f32}
// VARY unknown_offsets
//     %from = memref.subview %all[0, 0, %i, 0] [1, 1, 16, 8] [1, 1, 1, 1] : memref<1x1x32x8xf32> to !part
//     | note: q is this
//     %to = memref.subview %all[0, 0, %j, 0] [1, 1, 16, 8] [1, 1, 1, 1] : memref<1x1x32x8xf32> to !part
//     | note: o is this
//     flash.attention ins(%from, %a, %a : !part, !one, !one) outs(%to, %s : !part, memref<1x1x16xf32>) {scale = 0.125 : f32}
//     | error: expected o to share no memory with q, got views
// VARY bytes_that_overlap
//     %from = memref.view %bytes[%c0][] : memref<4096xi8> to !one | note: q is this
//     %to = memref.view %bytes[%c508][] : memref<4096xi8> to !one | note: o is this
//     flash.attention ins(%from, %a, %a : !one, !one, !one) outs(%to, %s : !one, memref<1x1x16xf32>) {scale = 0.125 : f32}
//     | error: expected o to share no memory with q, got views
// VARY selected
//     %to = arith.select %which, %b, %c : !one | note: o is this
//     flash.attention ins(%b, %a, %a : !one, !one, !one) outs(%to, %s : !one, memref<1x1x16xf32>) {scale = 0.125 : f32}
//     | error: expected o to share no memory with q, got views
//   %b: !one | note: q is this
// VARY swapped: what a loop carries is either of two arrays.
//     %r2:2 = scf.for %n = %c0 to %i step %c1 iter_args(%from = %a, %to = %b) -> (!one, !one) {
//     | note: o is this | note: q is this
//       flash.attention ins(%from, %c, %c : !one, !one, !one) outs(%to, %s : !one, memref<1x1x16xf32>) {scale = 0.125 : f32}
//       | error: expected o to share no memory with q, got views
//       scf.yield %to, %from : !one, !one
//     }
// VARY of_a_branch
//     cf.cond_br %which, ^bb1(%a : !one), ^bb1(%c : !one)
//     ^bb1(%to: !one): | note: o is this
//     flash.attention ins(%b, %a, %b : !one, !one, !one) outs(%to, %s : !one, memref<1x1x16xf32>) {scale = 0.125 : f32}
//     | error: expected o to share no memory with k, got views
//   %a: !one | note: k is this
// VARY global
//     %from = memref.get_global @buffer : !one | note: q is this
//     %to = memref.get_global @buffer : !one | note: o is this
//     flash.attention ins(%from, %a, %a : !one, !one, !one) outs(%to, %s : !one, memref<1x1x16xf32>) {scale = 0.125 : f32}
//     | error: expected o to share no memory with q, got views
// VARY read_by_a_score
//     flash.attention ins(%a, %b, %b : !one, !one, !one) outs(%c, %s : !one, memref<1x1x16xf32>) {scale = 0.125 : f32}
//     | error: expected lse to share no memory with the operand of 'memref.load', got one array (C14)
//       score (%score: f32, %batch: index, %h: index, %query: index, %key: index) {
//         %e = memref.load %s[%batch, %h, %query] : memref<1x1x16xf32> | note: the operand of 'memref.load' is here
//         %t = arith.addf %score, %e : f32
//         flash.yield %t : f32
//       }
//   %c: !one, %s | note: lse is this
// VARY read_by_a_mask_as_a_tensor
//     %tensor = bufferization.to_tensor %s restrict : memref<1x1x16xf32> to tensor<1x1x16xf32>
//     %any = tensor.cast %tensor : tensor<1x1x16xf32> to tensor<?x1x16xf32>
//     flash.attention ins(%a, %b, %b : !one, !one, !one) outs(%c, %s : !one, memref<1x1x16xf32>) {scale = 0.125 : f32}
//     | error: expected lse to share no memory with the operand of 'tensor.extract', got views
//       mask (%batch: index, %h: index, %query: index, %key: index) {
//         %e = tensor.extract %any[%batch, %h, %query] : tensor<?x1x16xf32> | note: the operand of 'tensor.extract' is here
//         %zero = arith.constant 0.0 : f32
//         %keep = arith.cmpf olt, %e, %zero : f32
//         flash.yield %keep : i1
//       }
//   %c: !one, %s | note: lse is this
// VARY sinks
//     %l = memref.expand_shape %sinks [[0, 1, 2]] output_shape [1, 1, 1] : memref<1xf32> into memref<1x1x1xf32>
//     | note: lse is this
//     flash.attention ins(%q1, %a, %a : memref<1x1x1x8xf32>, !one, !one) sinks(%sinks : memref<1xf32>)
//     | error: expected lse to share no memory with sinks, got views
//       outs(%o1, %l : memref<1x1x1x8xf32>, memref<1x1x1xf32>) {scale = 0.125 : f32}
//   %sinks: | note: sinks is this
// VARY gradients_that_are_one
//     flash.attention_backward ins(%x, %y, %z, %x, %r, %y : !t, !t, !t, !t, !row, !t) outs(%dq, %dk, %dk : !t, !t, !t)
//     | error: expected dv to share no memory with dk, got one array (C14)
//       {scale = 0.125 : f32}
//   %x: !t | note: dv is this | note: dk is this
// VARY gradient_that_is_read
//     flash.attention_backward ins(%x, %y, %z, %x, %r, %dq : !t, !t, !t, !t, !row, !t) outs(%dq, %dk, %dv : !t, !t, !t)
//     | error: expected dq to share no memory with do, got one array (C14)
//       {scale = 0.125 : f32}
//   %x: !t | note: dq is this | note: do is this
// VARY column_sums
//     flash.column_sums ins(%x, %y, %r : !t, !t, !row) outs(%r : !row) {scale = 0.125 : f32}
//     | error: expected c to share no memory with lse, got one array (C14)
//   %x: !t | note: c is this | note: lse is this
// VARY merged_into_a_part
//     %o = memref.subview %p[0, 0, 0, 0, 0] [1, 1, 4, 32, 16] [1, 1, 1, 1, 1] : !parts to !o | note: o is this
//     flash.merge_states ins(%p, %lses : !parts, memref<2x1x4x32xf32>) outs(%o, %merged : !o, memref<1x4x32xf32>)
//     | error: expected o to share no memory with o_parts, got views
//   %p: !parts | note: o_parts is this
// VARY one_cache
//     flash.append_kv ins(%new, %new, %positions : !new, !new, memref<2xi32>) outs(%k_cache, %k_cache : !cache, !cache)
//     | error: expected v_cache to share no memory with k_cache, got one array (C14)
//   %k_cache: | note: v_cache is this | note: k_cache is this
// VARY tokens_of_the_cache
//     %tokens = memref.subview %k_cache[0, 0, 0, 0] [2, 3, 4, 24] [1, 1, 1, 1] : !cache to !new | note: k is this
//     flash.append_kv ins(%tokens, %new, %positions : !new, !new, memref<2xi32>) outs(%k_cache, %v_cache : !cache, !cache)
//     | error: expected k_cache to share no memory with k, got views
//   %k_cache: !cache | note: k_cache is this
