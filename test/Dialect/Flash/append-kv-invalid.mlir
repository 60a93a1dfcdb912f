// RUN: %vary %s | flashc-opt --verify-diagnostics --split-input-file

func.func @invalid(%k: memref<2x3x4x24xf32>, %v: memref<2x3x4x8xf32>, %positions: memref<2xi32>,
    %k_cache: memref<2x99x4x24xf32>, %v_cache: memref<2x99x4x8xf32, strided<[?, ?, ?, 2]>>, %k2: memref<2x3x24xf32>,
    %v_cache2: memref<2x99x4x8xf32>, %table: memref<2xi32>, %k_cache2: memref<2x99x4x24xbf16>,
    %positions2: memref<2xi64>, %cos: memref<64x12xbf16>, %sin: memref<64x12xbf16>, %cos2: memref<64x12xf32>,
    %sin2: memref<64x12xf16>, %v2: memref<2x3x4x?xf32>, %cos3: memref<64x?xf32>, %sin3: memref<64x?xf32>,
    %k_cache3: memref<2x99x4x16xf32>, %cos4: memref<64x13xf32>, %sin4: memref<64x13xf32>, %counts: memref<3xi32>,
    %k_cache4: memref<3x99x4x24xf32>, %v3: memref<2x3x2x8xf32>, %table2: memref<2x?xi32>,
    %k_cache5: memref<9x16x4x24xf32>, %v_cache3: memref<8x16x4x8xf32>, %v_cache4: memref<9x32x4x8xf32>,
    %k3: memref<2x3x4x24xi8>, %v4: memref<2x3x4x8xi8>, %k_cache6: memref<2x99x4x24xi8>,
    %v_cache5: memref<2x99x4x8xi8>, %scale: memref<1x1xf32>, %scale2: memref<1x3xf32>, %scale3: memref<4xf32>) {
  // BODY
  return
}

// VARY strided
//     flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>)
//     | error: expected v_cache to be contiguous in the innermost dimension, got 'memref<2x99x4x8xf32, strided<[?, ?, ?, 2]>>' (C1)
//       outs(%k_cache, %v_cache : memref<2x99x4x24xf32>, memref<2x99x4x8xf32, strided<[?, ?, ?, 2]>>)
// VARY rank
//     flash.append_kv ins(%k2, %v, %positions : memref<2x3x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>)
//     | error: expected k of rank 4, got 'memref<2x3x24xf32>' (C2)
//       outs(%k_cache, %v_cache2 : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
// VARY rank_of_packed
//     flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>) offsets(%counts : memref<3xi32>)
//     | error: expected k of rank 3, got 'memref<2x3x4x24xf32>' (C2)
//       outs(%k_cache, %v_cache2 : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
// VARY counts_of_packed
//     flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>) offsets(%counts : memref<3xi32>)
//     | error: expected no 'counts' together with 'offsets', which give each sequence its tokens (C13)
//       counts(%positions : memref<2xi32>) outs(%k_cache, %v_cache2 : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
// VARY rank_of_table
//     flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>) table(%table : memref<2xi32>)
//     | error: expected table of rank 2, got 'memref<2xi32>' (C2)
//       outs(%k_cache, %v_cache2 : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
// VARY element_of_cache
//     flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>)
//     | error: expected k_cache of element type 'f32', got 'bf16' (C3)
//       outs(%k_cache2, %v_cache2 : memref<2x99x4x24xbf16>, memref<2x99x4x8xf32>)
// VARY positions
//     flash.append_kv ins(%k, %v, %positions2 : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi64>)
//     | error: expected positions of element type 'i32', got 'i64' (C3)
//       outs(%k_cache, %v_cache2 : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
// VARY angles
//     flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>) rotary(%cos, %sin : memref<64x12xbf16>, memref<64x12xbf16>)
//     | error: expected cos of element type 'f32' or f32, got 'bf16' (C3)
//       outs(%k_cache, %v_cache2 : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
// VARY angles_differ
//     flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>) rotary(%cos2, %sin2 : memref<64x12xf32>, memref<64x12xf16>)
//     | error: expected sin of element type 'f32', got 'f16' (C3)
//       outs(%k_cache, %v_cache2 : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
// VARY dynamic_depth
//     flash.append_kv ins(%k, %v2, %positions : memref<2x3x4x24xf32>, memref<2x3x4x?xf32>, memref<2xi32>)
//     | error: expected a static, positive Dv, got v of type 'memref<2x3x4x?xf32>' (C4)
//       outs(%k_cache, %v_cache2 : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
// VARY dynamic_angles
//     flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>) rotary(%cos3, %sin3 : memref<64x?xf32>, memref<64x?xf32>)
//     | error: expected a static, positive R2 / 2, got cos of type 'memref<64x?xf32>' (C4)
//       outs(%k_cache, %v_cache2 : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
// VARY depth
//     flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>)
//     | error: expected k and k_cache to agree on D, got 24 and 16 (C4)
//       outs(%k_cache3, %v_cache2 : memref<2x99x4x16xf32>, memref<2x99x4x8xf32>)
// VARY rotated
//     flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>) rotary(%cos4, %sin4 : memref<64x13xf32>, memref<64x13xf32>)
//     | error: expected R2 to be at most D, got 26 and 24 (C4)
//       outs(%k_cache, %v_cache2 : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
// VARY batch
//     flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>) counts(%counts : memref<3xi32>)
//     | error: expected k and counts to agree on B, got 2 and 3 (C6)
//       outs(%k_cache, %v_cache2 : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
// VARY batch_of_cache
//     flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>)
//     | error: expected k and k_cache to agree on B, got 2 and 3 (C6)
//       outs(%k_cache4, %v_cache2 : memref<3x99x4x24xf32>, memref<2x99x4x8xf32>)
// VARY heads
//     flash.append_kv ins(%k, %v3, %positions : memref<2x3x4x24xf32>, memref<2x3x2x8xf32>, memref<2xi32>)
//     | error: expected k and v to agree on Hk, got 4 and 2 (C6)
//       outs(%k_cache, %v_cache2 : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
// VARY pages
//     flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>) table(%table2 : memref<2x?xi32>)
//     | error: expected k_cache and v_cache to agree on P, got 9 and 8 (C6)
//       outs(%k_cache5, %v_cache3 : memref<9x16x4x24xf32>, memref<8x16x4x8xf32>)
// VARY rows
//     flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>) table(%table2 : memref<2x?xi32>)
//     | error: expected k_cache and v_cache to agree on R, got 16 and 32 (C6)
//       outs(%k_cache5, %v_cache4 : memref<9x16x4x24xf32>, memref<9x32x4x8xf32>)
// VARY interleaved
//     flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>)
//     | error: expected 'interleaved' together with 'rotary' only (C13)
//       outs(%k_cache, %v_cache2 : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>) {interleaved}
// VARY element
//     flash.append_kv ins(%k3, %v4, %positions : memref<2x3x4x24xi8>, memref<2x3x4x8xi8>, memref<2xi32>)
//     | error: expected k of element type bf16, f16 or f32, got 'i8' (C3)
//       outs(%k_cache6, %v_cache5 : memref<2x99x4x24xi8>, memref<2x99x4x8xi8>)
// VARY leftpad
//     flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>)
//     | error: expected 'leftpad' together with 'rotary' only (C13)
//       leftpad(%positions : memref<2xi32>) outs(%k_cache, %v_cache2 : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
// VARY element_with_scales
//     flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>)
//     | error: expected k_cache of element type f8E4M3FN or i8 where there are scales, got 'f32' (C3)
//       scales(%scale, %scale : memref<1x1xf32>, memref<1x1xf32>)
//       outs(%k_cache, %v_cache2 : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
// VARY heads_of_scales
//     flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>)
//     | error: expected k_scale of one or all key heads, got 'memref<1x3xf32>' (C15)
//       scales(%scale2, %scale2 : memref<1x3xf32>, memref<1x3xf32>)
//       outs(%k_cache6, %v_cache5 : memref<2x99x4x24xi8>, memref<2x99x4x8xi8>)
// VARY type_of_scales
//     flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>)
//     | error: expected k_scale of rank 2 and f32, contiguous in the innermost dimension, got 'memref<4xf32>' (C15)
//       scales(%scale3, %scale3 : memref<4xf32>, memref<4xf32>)
//       outs(%k_cache6, %v_cache5 : memref<2x99x4x24xi8>, memref<2x99x4x8xi8>)
