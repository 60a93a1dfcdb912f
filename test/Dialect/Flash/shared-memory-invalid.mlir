// Outputs that share memory with what an op reads, or with each other.
// RUN: flashc-opt %s --verify-diagnostics --split-input-file

!q = memref<2x4x33x64xf16>
!k = memref<2x4x50x64xf16>

// expected-note @+2 {{o is this}}
// expected-note @+1 {{q is this}}
func.func @queries(%q: !q, %k: !k, %v: !k, %lse: memref<2x4x33xf32>) {
  // expected-error @+1 {{expected o to share no memory with q, got one array (C14)}}
  flash.attention ins(%q, %k, %v : !q, !k, !k) outs(%q, %lse : !q, memref<2x4x33xf32>) {scale = 0.125 : f32}
  return
}

// -----

!t = memref<2x4x640x64xf16>

// expected-note @+2 {{o is this}}
// expected-note @+1 {{v is this}}
func.func @values(%q: !t, %k: !t, %v: !t, %lse: memref<2x4x640xf32>) {
  // expected-error @+1 {{expected o to share no memory with v, got one array (C14)}}
  flash.attention ins(%q, %k, %v : !t, !t, !t) outs(%v, %lse : !t, memref<2x4x640xf32>) {scale = 0.125 : f32}
  return
}

// -----

!t = memref<2x4x64x64xf32>

func.func @through_casts(%q: !t, %k: !t, %v: !t, %lse: memref<2x4x64xf32>) {
  // expected-note @+1 {{k is this}}
  %cast = memref.cast %k : !t to memref<?x4x?x64xf32>
  // expected-note @+1 {{o is this}}
  %moved = memref.transpose %k (a, b, c, d) -> (a, b, c, d) : !t to memref<2x4x64x64xf32, strided<[16384, 4096, 64, 1]>>
  // expected-error @+1 {{expected o to share no memory with k, got views of one array that are not known to be apart (C14)}}
  flash.attention ins(%q, %cast, %v : !t, memref<?x4x?x64xf32>, !t)
    outs(%moved, %lse : memref<2x4x64x64xf32, strided<[16384, 4096, 64, 1]>>, memref<2x4x64xf32>) {scale = 0.125 : f32}
  return
}

// -----

!t = memref<1x1x16x8xf32>
!part = memref<1x1x16x8xf32, strided<[256, 256, 8, 1], offset: ?>>

func.func @unknown_offsets(%all: memref<1x1x32x8xf32>, %k: !t, %lse: memref<1x1x16xf32>, %i: index, %j: index) {
  // expected-note @+1 {{q is this}}
  %q = memref.subview %all[0, 0, %i, 0] [1, 1, 16, 8] [1, 1, 1, 1] : memref<1x1x32x8xf32> to !part
  // expected-note @+1 {{o is this}}
  %o = memref.subview %all[0, 0, %j, 0] [1, 1, 16, 8] [1, 1, 1, 1] : memref<1x1x32x8xf32> to !part
  // expected-error @+1 {{expected o to share no memory with q, got views}}
  flash.attention ins(%q, %k, %k : !part, !t, !t) outs(%o, %lse : !part, memref<1x1x16xf32>) {scale = 0.125 : f32}
  return
}

// -----

!t = memref<1x1x16x8xf32>

func.func @bytes_that_overlap(%all: memref<4096xi8>, %k: !t, %lse: memref<1x1x16xf32>) {
  %c0 = arith.constant 0 : index
  %c508 = arith.constant 508 : index
  // expected-note @+1 {{q is this}}
  %q = memref.view %all[%c0][] : memref<4096xi8> to !t
  // expected-note @+1 {{o is this}}
  %o = memref.view %all[%c508][] : memref<4096xi8> to !t
  // expected-error @+1 {{expected o to share no memory with q, got views}}
  flash.attention ins(%q, %k, %k : !t, !t, !t) outs(%o, %lse : !t, memref<1x1x16xf32>) {scale = 0.125 : f32}
  return
}

// -----

!t = memref<1x1x16x8xf32>

// expected-note @+1 {{q is this}}
func.func @selected(%q: !t, %k: !t, %other: !t, %lse: memref<1x1x16xf32>, %which: i1) {
  // expected-note @+1 {{o is this}}
  %o = arith.select %which, %q, %other : !t
  // expected-error @+1 {{expected o to share no memory with q, got views}}
  flash.attention ins(%q, %k, %k : !t, !t, !t) outs(%o, %lse : !t, memref<1x1x16xf32>) {scale = 0.125 : f32}
  return
}

// -----

!t = memref<1x1x16x8xf32>

// What a loop carries is either of two arrays.
func.func @swapped(%x: !t, %y: !t, %k: !t, %lse: memref<1x1x16xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  // expected-note @+2 {{o is this}}
  // expected-note @+1 {{q is this}}
  %r:2 = scf.for %i = %c0 to %c4 step %c1 iter_args(%from = %x, %to = %y) -> (!t, !t) {
    // expected-error @+1 {{expected o to share no memory with q, got views}}
    flash.attention ins(%from, %k, %k : !t, !t, !t) outs(%to, %lse : !t, memref<1x1x16xf32>) {scale = 0.125 : f32}
    scf.yield %to, %from : !t, !t
  }
  return
}

// -----

!t = memref<1x1x16x8xf32>

// expected-note @+1 {{k is this}}
func.func @of_a_branch(%q: !t, %k: !t, %other: !t, %lse: memref<1x1x16xf32>, %which: i1) {
  cf.cond_br %which, ^bb1(%q : !t), ^bb1(%other : !t)
// expected-note @+1 {{o is this}}
^bb1(%o: !t):
  // expected-error @+1 {{expected o to share no memory with k, got views}}
  flash.attention ins(%k, %q, %k : !t, !t, !t) outs(%o, %lse : !t, memref<1x1x16xf32>) {scale = 0.125 : f32}
  return
}

// -----

!t = memref<1x1x16x8xf32>

memref.global "private" @buffer : !t

func.func @global(%k: !t, %lse: memref<1x1x16xf32>) {
  // expected-note @+1 {{q is this}}
  %q = memref.get_global @buffer : !t
  // expected-note @+1 {{o is this}}
  %o = memref.get_global @buffer : !t
  // expected-error @+1 {{expected o to share no memory with q, got views}}
  flash.attention ins(%q, %k, %k : !t, !t, !t) outs(%o, %lse : !t, memref<1x1x16xf32>) {scale = 0.125 : f32}
  return
}

// -----

!t = memref<1x1x16x8xf32>

// expected-note @+1 {{lse is this}}
func.func @read_by_a_score(%q: !t, %k: !t, %o: !t, %bias: memref<1x1x16xf32>) {
  // expected-error @+1 {{expected lse to share no memory with the operand of 'memref.load', got one array (C14)}}
  flash.attention ins(%q, %k, %k : !t, !t, !t) outs(%o, %bias : !t, memref<1x1x16xf32>) {scale = 0.125 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      // expected-note @+1 {{the operand of 'memref.load' is here}}
      %x = memref.load %bias[%b, %h, %i] : memref<1x1x16xf32>
      %t = arith.addf %s, %x : f32
      flash.yield %t : f32
    }
  return
}

// -----

!t = memref<1x1x16x8xf32>

// expected-note @+1 {{lse is this}}
func.func @read_by_a_mask_as_a_tensor(%q: !t, %k: !t, %o: !t, %bias: memref<1x1x16xf32>) {
  %tensor = bufferization.to_tensor %bias restrict : memref<1x1x16xf32> to tensor<1x1x16xf32>
  %any = tensor.cast %tensor : tensor<1x1x16xf32> to tensor<?x1x16xf32>
  // expected-error @+1 {{expected lse to share no memory with the operand of 'tensor.extract', got views}}
  flash.attention ins(%q, %k, %k : !t, !t, !t) outs(%o, %bias : !t, memref<1x1x16xf32>) {scale = 0.125 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      // expected-note @+1 {{the operand of 'tensor.extract' is here}}
      %x = tensor.extract %any[%b, %h, %i] : tensor<?x1x16xf32>
      %zero = arith.constant 0.0 : f32
      %keep = arith.cmpf olt, %x, %zero : f32
      flash.yield %keep : i1
    }
  return
}

// -----

// expected-note @+1 {{sinks is this}}
func.func @sinks(%q: memref<1x1x1x8xf32>, %k: memref<1x1x16x8xf32>, %o: memref<1x1x1x8xf32>, %sinks: memref<1xf32>) {
  // expected-note @+1 {{lse is this}}
  %lse = memref.expand_shape %sinks [[0, 1, 2]] output_shape [1, 1, 1] : memref<1xf32> into memref<1x1x1xf32>
  // expected-error @+1 {{expected lse to share no memory with sinks, got views}}
  flash.attention ins(%q, %k, %k : memref<1x1x1x8xf32>, memref<1x1x16x8xf32>, memref<1x1x16x8xf32>)
    sinks(%sinks : memref<1xf32>) outs(%o, %lse : memref<1x1x1x8xf32>, memref<1x1x1xf32>) {scale = 0.125 : f32}
  return
}

// -----

!t = memref<2x4x64x64xf16>
!row = memref<2x4x64xf32>

// expected-note @+2 {{dv is this}}
// expected-note @+1 {{dk is this}}
func.func @gradients_that_are_one(%q: !t, %k: !t, %v: !t, %o: !t, %lse: !row, %do: !t, %dq: !t, %dkv: !t) {
  // expected-error @+1 {{expected dv to share no memory with dk, got one array (C14)}}
  flash.attention_backward ins(%q, %k, %v, %o, %lse, %do : !t, !t, !t, !t, !row, !t) outs(%dq, %dkv, %dkv : !t, !t, !t)
    {scale = 0.125 : f32}
  return
}

// -----

!t = memref<2x4x64x64xf16>
!row = memref<2x4x64xf32>

// expected-note @+2 {{dq is this}}
// expected-note @+1 {{do is this}}
func.func @gradient_that_is_read(%q: !t, %k: !t, %v: !t, %o: !t, %lse: !row, %do: !t, %dk: !t, %dv: !t) {
  // expected-error @+1 {{expected dq to share no memory with do, got one array (C14)}}
  flash.attention_backward ins(%q, %k, %v, %o, %lse, %do : !t, !t, !t, !t, !row, !t) outs(%do, %dk, %dv : !t, !t, !t)
    {scale = 0.125 : f32}
  return
}

// -----

!t = memref<2x4x64x64xf16>
!row = memref<2x4x64xf32>

// expected-note @+2 {{c is this}}
// expected-note @+1 {{lse is this}}
func.func @column_sums(%q: !t, %k: !t, %lse: !row) {
  // expected-error @+1 {{expected c to share no memory with lse, got one array (C14)}}
  flash.column_sums ins(%q, %k, %lse : !t, !t, !row) outs(%lse : !row) {scale = 0.125 : f32}
  return
}

// -----

!o = memref<1x4x32x16xf32>
!lse = memref<1x4x32xf32>

func.func @merged_into_a_part(%parts: memref<2x1x4x32x16xf32>, %lses: memref<2x1x4x32xf32>, %lse: !lse) {
  // expected-note @-1 {{o_parts is this}}
  // expected-note @+1 {{o is this}}
  %o = memref.subview %parts[0, 0, 0, 0, 0] [1, 1, 4, 32, 16] [1, 1, 1, 1, 1]
    : memref<2x1x4x32x16xf32> to memref<1x4x32x16xf32, strided<[2048, 512, 16, 1]>>
  // expected-error @+1 {{expected o to share no memory with o_parts, got views}}
  flash.merge_states ins(%parts, %lses : memref<2x1x4x32x16xf32>, memref<2x1x4x32xf32>)
    outs(%o, %lse : memref<1x4x32x16xf32, strided<[2048, 512, 16, 1]>>, !lse)
  return
}

// -----

!new = memref<2x3x4x24xf32>
!cache = memref<2x99x4x24xf32>

// expected-note @+2 {{v_cache is this}}
// expected-note @+1 {{k_cache is this}}
func.func @one_cache(%k: !new, %v: !new, %positions: memref<2xi32>, %cache: !cache) {
  // expected-error @+1 {{expected v_cache to share no memory with k_cache, got one array (C14)}}
  flash.append_kv ins(%k, %v, %positions : !new, !new, memref<2xi32>) outs(%cache, %cache : !cache, !cache)
  return
}

// -----

!new = memref<2x3x4x24xf32, strided<[9504, 96, 24, 1]>>
!cache = memref<2x99x4x24xf32>

func.func @tokens_of_the_cache(%v: !new, %positions: memref<2xi32>, %k_cache: !cache, %v_cache: !cache) {
  // expected-note @-1 {{k_cache is this}}
  // expected-note @+1 {{k is this}}
  %k = memref.subview %k_cache[0, 0, 0, 0] [2, 3, 4, 24] [1, 1, 1, 1] : !cache to !new
  // expected-error @+1 {{expected k_cache to share no memory with k, got views}}
  flash.append_kv ins(%k, %v, %positions : !new, !new, memref<2xi32>) outs(%k_cache, %v_cache : !cache, !cache)
  return
}
