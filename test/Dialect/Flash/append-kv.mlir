// RUN: flashc-opt %s | flashc-opt | FileCheck %s
// RUN: flashc-opt %s --mlir-print-op-generic | flashc-opt | FileCheck %s
// RUN: flashc-opt %s --flash-decompose --canonicalize | FileCheck %s --check-prefix=LOOPS --implicit-check-not=flash.

!new = memref<?x1x8x128xbf16>
!cache = memref<?x16x8x128xbf16, strided<[?, ?, ?, 1], offset: ?>>

// CHECK-LABEL: func @paged
// CHECK: flash.append_kv ins(%{{.*}}, %{{.*}}, %{{.*}} : memref<?x1x8x128xbf16>, memref<?x1x8x128xbf16>, memref<?xi32>) counts(%{{.*}} : memref<?xi32>) table(%{{.*}} : memref<?x?xi32>) rotary(%{{.*}}, %{{.*}} : memref<?x32xf32>, memref<?x32xf32>) outs(%{{.*}}, %{{.*}} : memref<?x16x8x128xbf16, strided<[?, ?, ?, 1], offset: ?>>, memref<?x16x8x128xbf16, strided<[?, ?, ?, 1], offset: ?>>) {interleaved}
// LOOPS-LABEL: func @paged(
// LOOPS-SAME:    %[[K:.*]]: memref<?x1x8x128xbf16>, %[[V:.*]]: memref<?x1x8x128xbf16>, %[[POSITIONS:.*]]: memref<?xi32>, %[[COUNTS:[^:]*]]: memref<?xi32>, %[[TABLE:.*]]: memref<?x?xi32>, %[[COS:.*]]: memref<?x32xf32>, %[[SIN:.*]]: memref<?x32xf32>, %[[KCACHE:.*]]: memref<?x16x8x128xbf16, {{.*}}>, %[[VCACHE:[^:]*]]: memref<
// LOOPS:         scf.for %[[B:.*]] =
// LOOPS:           memref.load %[[POSITIONS]][%[[B]]]
// LOOPS:           memref.load %[[COUNTS]][%[[B]]]
// LOOPS:           %[[BEFORE:.*]] = arith.cmpi ult
// LOOPS:           arith.andi %[[BEFORE]]
// LOOPS:           scf.if
// LOOPS:             %[[READ:.*]] = memref.load %[[TABLE]][%[[B]], %{{.*}}]
// LOOPS:             %[[PAGE:.*]] = arith.index_cast %[[READ]]
// LOOPS:             %[[ISPAGE:.*]] = arith.cmpi ult, %[[PAGE]], %{{.*}}
// LOOPS:             scf.if %[[ISPAGE]]
// LOOPS:               scf.for %[[H:.*]] =
// Pairs of neighbours: 2 c and 2 c + 1.
// LOOPS:                 scf.for %[[C:.*]] = %c0 to %c32
// LOOPS:                   %[[FIRST:.*]] = arith.muli %[[C]], %c2
// LOOPS:                   %[[SECOND:.*]] = arith.addi %[[FIRST]], %c1
// LOOPS:                   memref.load %[[COS]][%{{.*}}, %[[C]]]
// LOOPS:                   memref.store %{{.*}}, %[[KCACHE]][%[[PAGE]], %{{.*}}, %[[H]], %[[FIRST]]]
// LOOPS:                   memref.store %{{.*}}, %[[KCACHE]][%[[PAGE]], %{{.*}}, %[[H]], %[[SECOND]]]
// The columns behind them.
// LOOPS:                 scf.for %{{.*}} = %c64 to %c128
// LOOPS:                 scf.for %{{.*}} = %c0 to %c128
// LOOPS:                   memref.store %{{.*}}, %[[VCACHE]]
func.func @paged(%k: !new, %v: !new, %positions: memref<?xi32>, %counts: memref<?xi32>, %table: memref<?x?xi32>,
                 %cos: memref<?x32xf32>, %sin: memref<?x32xf32>, %k_cache: !cache, %v_cache: !cache) {
  flash.append_kv ins(%k, %v, %positions : !new, !new, memref<?xi32>) counts(%counts : memref<?xi32>)
    table(%table : memref<?x?xi32>) rotary(%cos, %sin : memref<?x32xf32>, memref<?x32xf32>)
    outs(%k_cache, %v_cache : !cache, !cache) {interleaved}
  return
}

// CHECK-LABEL: func @contiguous
// CHECK: flash.append_kv ins(%{{.*}}, %{{.*}}, %{{.*}} : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>) outs(%{{.*}}, %{{.*}} : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
// LOOPS-LABEL: func @contiguous
// LOOPS-NOT:     arith.mulf
func.func @contiguous(%k: memref<2x3x4x24xf32>, %v: memref<2x3x4x8xf32>, %positions: memref<2xi32>,
                      %k_cache: memref<2x99x4x24xf32>, %v_cache: memref<2x99x4x8xf32>) {
  flash.append_kv ins(%k, %v, %positions : memref<2x3x4x24xf32>, memref<2x3x4x8xf32>, memref<2xi32>)
    outs(%k_cache, %v_cache : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
  return
}

// Packed tokens: the loop over a sequence's tokens ends at the next offset, and a row that k does not have is not read.
// CHECK-LABEL: func @packed
// CHECK: flash.append_kv ins(%{{.*}}, %{{.*}}, %{{.*}} : memref<?x4x24xf32>, memref<?x4x8xf32>, memref<2xi32>) offsets(%{{.*}} : memref<3xi32>) outs(
// LOOPS-LABEL: func @packed(
// LOOPS-SAME:    %[[K:.*]]: memref<?x4x24xf32>, %{{.*}}: memref<?x4x8xf32>, %{{.*}}: memref<2xi32>, %[[OFFSETS:[^:]*]]: memref<3xi32>
// LOOPS:         scf.for %[[B:.*]] = %c0 to %c2
// LOOPS:           %[[FIRST32:.*]] = memref.load %[[OFFSETS]][%[[B]]]
// LOOPS:           %[[FIRST:.*]] = arith.index_cast %[[FIRST32]]
// LOOPS:           %[[COUNT:.*]] = arith.subi %{{.*}}, %[[FIRST]]
// LOOPS:           scf.for %[[T:.*]] = %c0 to %[[COUNT]]
// LOOPS:             %[[ROW:.*]] = arith.addi %[[FIRST]], %[[T]]
// LOOPS:             arith.cmpi ult, %[[ROW]], %{{.*}}
// LOOPS:             memref.load %[[K]][%{{.*}}, %{{.*}}, %{{.*}}]
func.func @packed(%k: memref<?x4x24xf32>, %v: memref<?x4x8xf32>, %positions: memref<2xi32>, %offsets: memref<3xi32>,
                  %k_cache: memref<2x99x4x24xf32>, %v_cache: memref<2x99x4x8xf32>) {
  flash.append_kv ins(%k, %v, %positions : memref<?x4x24xf32>, memref<?x4x8xf32>, memref<2xi32>)
    offsets(%offsets : memref<3xi32>) outs(%k_cache, %v_cache : memref<2x99x4x24xf32>, memref<2x99x4x8xf32>)
  return
}

// Sequences that begin at a row of their own, and a cache of 8 bits with a scale for each page and key head.
// CHECK-LABEL: func @eight_bits
// CHECK: leftpad(%{{.*}} : memref<?xi32>) rotary(%{{.*}}, %{{.*}} : memref<?x32xf32>, memref<?x32xf32>) scales(%{{.*}}, %{{.*}} : memref<?x8xf32>, memref<?x8xf32>) outs(%{{.*}}, %{{.*}} : memref<?x16x8x128xf8E4M3FN>, memref<?x16x8x128xf8E4M3FN>)
// LOOPS-LABEL: func @eight_bits(
// LOOPS-SAME:    %[[LEFTPAD:[^ :]*]]: memref<?xi32>, %[[COS:[^ :]*]]: memref<?x32xf32>, %[[SIN:[^ :]*]]: memref<?x32xf32>, %[[KSCALE:[^ :]*]]: memref<?x8xf32>, %[[VSCALE:[^ :]*]]: memref<?x8xf32>, %[[KCACHE:[^ :]*]]: memref<?x16x8x128xf8E4M3FN>
// LOOPS:           %[[READ:.*]] = memref.load %[[LEFTPAD]]
// LOOPS:           %[[FIRST:.*]] = arith.index_cast %[[READ]]
// LOOPS:           %[[ANGLE:.*]] = arith.subi %{{.*}}, %[[FIRST]]
// LOOPS:           arith.cmpi ult, %[[ANGLE]]
// LOOPS:             memref.load %[[COS]][%[[ANGLE]],
// LOOPS:             %[[SCALE:.*]] = memref.load %[[KSCALE]][%[[PAGE:.*]], %[[H:.*]]]
// LOOPS:             arith.divf %{{.*}}, %[[SCALE]] : f32
// LOOPS:             %[[BITS:.*]] = arith.trunci %{{.*}} : i32 to i8
// LOOPS:             %[[STORED:.*]] = arith.bitcast %[[BITS]] : i8 to f8E4M3FN
// LOOPS:             memref.store %[[STORED]], %[[KCACHE]][%[[PAGE]], %{{.*}}, %[[H]],
// LOOPS:             memref.load %[[VSCALE]][%[[PAGE]], %[[H]]]
func.func @eight_bits(%k: !new, %v: !new, %positions: memref<?xi32>, %table: memref<?x?xi32>, %leftpad: memref<?xi32>,
                      %cos: memref<?x32xf32>, %sin: memref<?x32xf32>, %k_scale: memref<?x8xf32>, %v_scale: memref<?x8xf32>,
                      %k_cache: memref<?x16x8x128xf8E4M3FN>, %v_cache: memref<?x16x8x128xf8E4M3FN>) {
  flash.append_kv ins(%k, %v, %positions : !new, !new, memref<?xi32>) table(%table : memref<?x?xi32>)
    leftpad(%leftpad : memref<?xi32>) rotary(%cos, %sin : memref<?x32xf32>, memref<?x32xf32>)
    scales(%k_scale, %v_scale : memref<?x8xf32>, memref<?x8xf32>)
    outs(%k_cache, %v_cache : memref<?x16x8x128xf8E4M3FN>, memref<?x16x8x128xf8E4M3FN>)
  return
}
