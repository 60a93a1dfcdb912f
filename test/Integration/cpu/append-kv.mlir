// New tokens of a cache, at random positions and pages, some of which do not exist.
// RUN: flashc %s --run=cpu --check | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --dims=B=3,Nq=17,Hk=2 | FileCheck %s --implicit-check-not=FAIL

!new = memref<?x?x?x16xbf16, strided<[?, ?, ?, 1], offset: ?>>

// CHECK: check @paged: k_cache: max error {{.*}} PASS
// CHECK-NEXT: check @paged: v_cache: max error 0.00e+00, {{.*}} PASS
func.func @paged(%k: !new, %v: !new, %positions: memref<?xi32>, %counts: memref<?xi32>, %table: memref<?x?xi32>,
                 %cos: memref<?x4xf32>, %sin: memref<?x4xf32>, %k_cache: !new, %v_cache: !new) {
  flash.append_kv ins(%k, %v, %positions : !new, !new, memref<?xi32>) counts(%counts : memref<?xi32>)
    table(%table : memref<?x?xi32>) rotary(%cos, %sin : memref<?x4xf32>, memref<?x4xf32>)
    outs(%k_cache, %v_cache : !new, !new)
  return
}

// CHECK-NEXT: check @packed: k_cache: max error {{.*}} PASS
// CHECK-NEXT: check @packed: v_cache: max error 0.00e+00, {{.*}} PASS
func.func @packed(%k: memref<?x?x16xf32>, %v: memref<?x?x8xf32>, %positions: memref<3xi32>, %offsets: memref<4xi32>,
                  %k_cache: memref<3x?x?x16xf32>, %v_cache: memref<3x?x?x8xf32>) {
  flash.append_kv ins(%k, %v, %positions : memref<?x?x16xf32>, memref<?x?x8xf32>, memref<3xi32>)
    offsets(%offsets : memref<4xi32>) outs(%k_cache, %v_cache : memref<3x?x?x16xf32>, memref<3x?x?x8xf32>)
  return
}

// CHECK-NEXT: check @contiguous: k_cache: max error {{.*}} PASS
// CHECK-NEXT: check @contiguous: v_cache: max error 0.00e+00, {{.*}} PASS
func.func @contiguous(%k: memref<?x?x?x16xf32>, %v: memref<?x?x?x8xf32>, %positions: memref<?xi32>,
                      %cos: memref<?x8xf32>, %sin: memref<?x8xf32>, %k_cache: memref<?x?x?x16xf32>,
                      %v_cache: memref<?x?x?x8xf32>) {
  flash.append_kv ins(%k, %v, %positions : memref<?x?x?x16xf32>, memref<?x?x?x8xf32>, memref<?xi32>)
    rotary(%cos, %sin : memref<?x8xf32>, memref<?x8xf32>)
    outs(%k_cache, %v_cache : memref<?x?x?x16xf32>, memref<?x?x?x8xf32>) {interleaved}
  return
}
