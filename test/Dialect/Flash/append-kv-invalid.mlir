// RUN: flashc-opt %s --verify-diagnostics --split-input-file

func.func @strided(%k: memref<2x3x4x24xf32>, %v: memref<2x3x4x8xf32>, %positions: memref<2xi32>, %k_cache:
                   memref<2x99x4x24xf32>, %v_cache: memref<2x99x4x8xf32, strided<[?, ?, ?, 2]>>) {
  // expected-error @+1 {{expected v_cache to be contiguous in the innermost dimension, got 'memref<2x99x4x8xf32, strided<[?, ?, ?, 2]>>' (C1)}}
  flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>)
    outs(%k_cache, %v_cache : memref<2x99x4x24xf32>, memref<2x99x4x8xf32, strided<[?, ?, ?, 2]>>)
  return
}

// -----

func.func @rank(%k: memref<2x3x24xf32>, %v: memref<2x3x4x8xf32>, %positions: memref<2xi32>, %k_cache:
                memref<2x99x4x24xf32>, %v_cache: memref<2x99x4x8xf32>) {
  // expected-error @+1 {{expected k of rank 4, got 'memref<2x3x24xf32>' (C2)}}
  flash.append_kv ins(%k, %v, %positions : memref<2x3x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>)
    outs(%k_cache, %v_cache : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
  return
}

// -----

func.func @rank_of_table(%k: memref<2x3x4x24xf32>, %v: memref<2x3x4x8xf32>, %positions: memref<2xi32>, %table:
                         memref<2xi32>, %k_cache: memref<2x99x4x24xf32>, %v_cache: memref<2x99x4x8xf32>) {
  // expected-error @+1 {{expected table of rank 2, got 'memref<2xi32>' (C2)}}
  flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>) table(%table : memref<2xi32>)
    outs(%k_cache, %v_cache : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
  return
}

// -----

func.func @element_of_cache(%k: memref<2x3x4x24xf32>, %v: memref<2x3x4x8xf32>, %positions: memref<2xi32>, %k_cache:
                            memref<2x99x4x24xbf16>, %v_cache: memref<2x99x4x8xf32>) {
  // expected-error @+1 {{expected k_cache of element type 'f32', got 'bf16' (C3)}}
  flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>)
    outs(%k_cache, %v_cache : memref<2x99x4x24xbf16>, memref<2x99x4x8xf32>)
  return
}

// -----

func.func @positions(%k: memref<2x3x4x24xf32>, %v: memref<2x3x4x8xf32>, %positions: memref<2xi64>, %k_cache:
                     memref<2x99x4x24xf32>, %v_cache: memref<2x99x4x8xf32>) {
  // expected-error @+1 {{expected positions of element type 'i32', got 'i64' (C3)}}
  flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi64>)
    outs(%k_cache, %v_cache : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
  return
}

// -----

func.func @angles(%k: memref<2x3x4x24xf32>, %v: memref<2x3x4x8xf32>, %positions: memref<2xi32>, %cos:
                  memref<64x12xbf16>, %sin: memref<64x12xbf16>, %k_cache: memref<2x99x4x24xf32>, %v_cache:
                  memref<2x99x4x8xf32>) {
  // expected-error @+1 {{expected cos of element type 'f32' or f32, got 'bf16' (C3)}}
  flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>) rotary(%cos, %sin : memref<64x12xbf16>, memref<64x12xbf16>)
    outs(%k_cache, %v_cache : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
  return
}

// -----

func.func @angles_differ(%k: memref<2x3x4x24xf32>, %v: memref<2x3x4x8xf32>, %positions: memref<2xi32>, %cos:
                         memref<64x12xf32>, %sin: memref<64x12xf16>, %k_cache: memref<2x99x4x24xf32>, %v_cache:
                         memref<2x99x4x8xf32>) {
  // expected-error @+1 {{expected sin of element type 'f32', got 'f16' (C3)}}
  flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>) rotary(%cos, %sin : memref<64x12xf32>, memref<64x12xf16>)
    outs(%k_cache, %v_cache : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
  return
}

// -----

func.func @dynamic_depth(%k: memref<2x3x4x24xf32>, %v: memref<2x3x4x?xf32>, %positions: memref<2xi32>, %k_cache:
                         memref<2x99x4x24xf32>, %v_cache: memref<2x99x4x8xf32>) {
  // expected-error @+1 {{expected a static, positive Dv, got v of type 'memref<2x3x4x?xf32>' (C4)}}
  flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x?xf32>, memref<2xi32>)
    outs(%k_cache, %v_cache : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
  return
}

// -----

func.func @dynamic_angles(%k: memref<2x3x4x24xf32>, %v: memref<2x3x4x8xf32>, %positions: memref<2xi32>, %cos:
                          memref<64x?xf32>, %sin: memref<64x?xf32>, %k_cache: memref<2x99x4x24xf32>, %v_cache:
                          memref<2x99x4x8xf32>) {
  // expected-error @+1 {{expected a static, positive R2 / 2, got cos of type 'memref<64x?xf32>' (C4)}}
  flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>) rotary(%cos, %sin : memref<64x?xf32>, memref<64x?xf32>)
    outs(%k_cache, %v_cache : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
  return
}

// -----

func.func @depth(%k: memref<2x3x4x24xf32>, %v: memref<2x3x4x8xf32>, %positions: memref<2xi32>, %k_cache:
                 memref<2x99x4x16xf32>, %v_cache: memref<2x99x4x8xf32>) {
  // expected-error @+1 {{expected k and k_cache to agree on D, got 24 and 16 (C4)}}
  flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>)
    outs(%k_cache, %v_cache : memref<2x99x4x16xf32>, memref<2x99x4x8xf32>)
  return
}

// -----

func.func @rotated(%k: memref<2x3x4x24xf32>, %v: memref<2x3x4x8xf32>, %positions: memref<2xi32>, %cos:
                   memref<64x13xf32>, %sin: memref<64x13xf32>, %k_cache: memref<2x99x4x24xf32>, %v_cache:
                   memref<2x99x4x8xf32>) {
  // expected-error @+1 {{expected R2 to be at most D, got 26 and 24 (C4)}}
  flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>) rotary(%cos, %sin : memref<64x13xf32>, memref<64x13xf32>)
    outs(%k_cache, %v_cache : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
  return
}

// -----

func.func @batch(%k: memref<2x3x4x24xf32>, %v: memref<2x3x4x8xf32>, %positions: memref<2xi32>, %counts: memref<3xi32>,
                 %k_cache: memref<2x99x4x24xf32>, %v_cache: memref<2x99x4x8xf32>) {
  // expected-error @+1 {{expected k and counts to agree on B, got 2 and 3 (C6)}}
  flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>) counts(%counts : memref<3xi32>)
    outs(%k_cache, %v_cache : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
  return
}

// -----

func.func @batch_of_cache(%k: memref<2x3x4x24xf32>, %v: memref<2x3x4x8xf32>, %positions: memref<2xi32>, %k_cache:
                          memref<3x99x4x24xf32>, %v_cache: memref<2x99x4x8xf32>) {
  // expected-error @+1 {{expected k and k_cache to agree on B, got 2 and 3 (C6)}}
  flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>)
    outs(%k_cache, %v_cache : memref<3x99x4x24xf32>, memref<2x99x4x8xf32>)
  return
}

// -----

func.func @heads(%k: memref<2x3x4x24xf32>, %v: memref<2x3x2x8xf32>, %positions: memref<2xi32>, %k_cache:
                 memref<2x99x4x24xf32>, %v_cache: memref<2x99x4x8xf32>) {
  // expected-error @+1 {{expected k and v to agree on Hk, got 4 and 2 (C6)}}
  flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x2x8xf32>, memref<2xi32>)
    outs(%k_cache, %v_cache : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
  return
}

// -----

func.func @pages(%k: memref<2x3x4x24xf32>, %v: memref<2x3x4x8xf32>, %positions: memref<2xi32>, %table:
                 memref<2x?xi32>, %k_cache: memref<9x16x4x24xf32>, %v_cache: memref<8x16x4x8xf32>) {
  // expected-error @+1 {{expected k_cache and v_cache to agree on P, got 9 and 8 (C6)}}
  flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>) table(%table : memref<2x?xi32>)
    outs(%k_cache, %v_cache : memref<9x16x4x24xf32>, memref<8x16x4x8xf32>)
  return
}

// -----

func.func @rows(%k: memref<2x3x4x24xf32>, %v: memref<2x3x4x8xf32>, %positions: memref<2xi32>, %table: memref<2x?xi32>,
                %k_cache: memref<9x16x4x24xf32>, %v_cache: memref<9x32x4x8xf32>) {
  // expected-error @+1 {{expected k_cache and v_cache to agree on R, got 16 and 32 (C6)}}
  flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>) table(%table : memref<2x?xi32>)
    outs(%k_cache, %v_cache : memref<9x16x4x24xf32>, memref<9x32x4x8xf32>)
  return
}

// -----

func.func @interleaved(%k: memref<2x3x4x24xf32>, %v: memref<2x3x4x8xf32>, %positions: memref<2xi32>, %k_cache:
                       memref<2x99x4x24xf32>, %v_cache: memref<2x99x4x8xf32>) {
  // expected-error @+1 {{expected 'interleaved' together with 'rotary' only (C13)}}
  flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>)
    outs(%k_cache, %v_cache : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>) {interleaved}
  return
}

// -----

func.func @element(%k: memref<2x3x4x24xi8>, %v: memref<2x3x4x8xi8>, %positions: memref<2xi32>,
                   %k_cache: memref<2x99x4x24xi8>, %v_cache: memref<2x99x4x8xi8>) {
  // expected-error @+1 {{expected k of element type bf16, f16 or f32, got 'i8' (C3)}}
  flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xi8>, memref<2x3x4x8xi8>, memref<2xi32>)
    outs(%k_cache, %v_cache : memref<2x99x4x24xi8>, memref<2x99x4x8xi8>)
  return
}

// -----

func.func @leftpad(%k: memref<2x3x4x24xf32>, %v: memref<2x3x4x8xf32>, %positions: memref<2xi32>, %k_cache:
                   memref<2x99x4x24xf32>, %v_cache: memref<2x99x4x8xf32>) {
  // expected-error @+1 {{expected 'leftpad' together with 'rotary' only (C13)}}
  flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>)
    leftpad(%positions : memref<2xi32>) outs(%k_cache, %v_cache : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
  return
}

// -----

func.func @element_with_scales(%k: memref<2x3x4x24xf32>, %v: memref<2x3x4x8xf32>, %positions: memref<2xi32>, %scale:
                               memref<1x1xf32>, %k_cache: memref<2x99x4x24xf32>, %v_cache: memref<2x99x4x8xf32>) {
  // expected-error @+1 {{expected k_cache of element type f8E4M3FN or i8 where there are scales, got 'f32' (C3)}}
  flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>)
    scales(%scale, %scale : memref<1x1xf32>, memref<1x1xf32>)
    outs(%k_cache, %v_cache : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
  return
}

// -----

func.func @heads_of_scales(%k: memref<2x3x4x24xf32>, %v: memref<2x3x4x8xf32>, %positions: memref<2xi32>, %scale:
                           memref<1x3xf32>, %k_cache: memref<2x99x4x24xi8>, %v_cache: memref<2x99x4x8xi8>) {
  // expected-error @+1 {{expected k_scale of one or all key heads, got 'memref<1x3xf32>' (C15)}}
  flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>)
    scales(%scale, %scale : memref<1x3xf32>, memref<1x3xf32>)
    outs(%k_cache, %v_cache : memref<2x99x4x24xi8>, memref<2x99x4x8xi8>)
  return
}

// -----

func.func @type_of_scales(%k: memref<2x3x4x24xf32>, %v: memref<2x3x4x8xf32>, %positions: memref<2xi32>, %scale:
                          memref<4xf32>, %k_cache: memref<2x99x4x24xi8>, %v_cache: memref<2x99x4x8xi8>) {
  // expected-error @+1 {{expected k_scale of rank 2 and f32, contiguous in the innermost dimension, got 'memref<4xf32>' (C15)}}
  flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>)
    scales(%scale, %scale : memref<4xf32>, memref<4xf32>)
    outs(%k_cache, %v_cache : memref<2x99x4x24xi8>, memref<2x99x4x8xi8>)
  return
}
