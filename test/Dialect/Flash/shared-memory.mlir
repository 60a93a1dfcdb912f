// Outputs that are parts of the buffer that an op reads other parts of: by extents, by bytes.
// RUN: flashc-opt %s | FileCheck %s

!t = memref<1x2x16x8xf32>
!l = memref<1x2x16xf32>
!part = memref<1x2x16x8xf32, strided<[1024, 8, 64, 1], offset: ?>>

// Queries, keys, values and outputs of each token stand next to each other.
// CHECK-LABEL: func @packed(
// CHECK:         flash.attention
func.func @packed(%all: memref<1x16x4x2x8xf32>, %lse: !l) {
  %q = memref.subview %all[0, 0, 0, 0, 0] [1, 16, 1, 2, 8] [1, 1, 1, 1, 1]
    : memref<1x16x4x2x8xf32> to memref<1x16x2x8xf32, strided<[1024, 64, 8, 1]>>
  %k = memref.subview %all[0, 0, 1, 0, 0] [1, 16, 1, 2, 8] [1, 1, 1, 1, 1]
    : memref<1x16x4x2x8xf32> to memref<1x16x2x8xf32, strided<[1024, 64, 8, 1], offset: 16>>
  %v = memref.subview %all[0, 0, 2, 0, 0] [1, 16, 1, 2, 8] [1, 1, 1, 1, 1]
    : memref<1x16x4x2x8xf32> to memref<1x16x2x8xf32, strided<[1024, 64, 8, 1], offset: 32>>
  %o = memref.subview %all[0, 0, 3, 0, 0] [1, 16, 1, 2, 8] [1, 1, 1, 1, 1]
    : memref<1x16x4x2x8xf32> to memref<1x16x2x8xf32, strided<[1024, 64, 8, 1], offset: 48>>
  %qh = memref.transpose %q (b, n, h, d) -> (b, h, n, d) : memref<1x16x2x8xf32, strided<[1024, 64, 8, 1]>> to memref<1x2x16x8xf32, strided<[1024, 8, 64, 1]>>
  %kh = memref.transpose %k (b, n, h, d) -> (b, h, n, d) : memref<1x16x2x8xf32, strided<[1024, 64, 8, 1], offset: 16>> to memref<1x2x16x8xf32, strided<[1024, 8, 64, 1], offset: 16>>
  %vh = memref.transpose %v (b, n, h, d) -> (b, h, n, d) : memref<1x16x2x8xf32, strided<[1024, 64, 8, 1], offset: 32>> to memref<1x2x16x8xf32, strided<[1024, 8, 64, 1], offset: 32>>
  %oh = memref.transpose %o (b, n, h, d) -> (b, h, n, d) : memref<1x16x2x8xf32, strided<[1024, 64, 8, 1], offset: 48>> to memref<1x2x16x8xf32, strided<[1024, 8, 64, 1], offset: 48>>
  flash.attention
    ins(%qh, %kh, %vh : memref<1x2x16x8xf32, strided<[1024, 8, 64, 1]>>, memref<1x2x16x8xf32, strided<[1024, 8, 64, 1], offset: 16>>, memref<1x2x16x8xf32, strided<[1024, 8, 64, 1], offset: 32>>)
    outs(%oh, %lse : memref<1x2x16x8xf32, strided<[1024, 8, 64, 1], offset: 48>>, !l) {scale = 0.125 : f32}
  return
}

// CHECK-LABEL: func @bytes(
// CHECK:         flash.attention
func.func @bytes(%all: memref<3072xi8>, %k: !t) {
  %c0 = arith.constant 0 : index
  %c1024 = arith.constant 1024 : index
  %c2048 = arith.constant 2048 : index
  %q = memref.view %all[%c0][] : memref<3072xi8> to !t
  %o = memref.view %all[%c1024][] : memref<3072xi8> to !t
  %lse = memref.view %all[%c2048][] : memref<3072xi8> to !l
  flash.attention ins(%q, %k, %k : !t, !t, !t) outs(%o, %lse : !t, !l) {scale = 0.125 : f32}
  return
}

// A mask asks how long an output is, and reads nothing of it.
// CHECK-LABEL: func @length_of_an_output(
// CHECK:         flash.attention
func.func @length_of_an_output(%q: memref<?x1x?x8xf32>, %k: memref<?x1x?x8xf32>, %o: memref<?x1x?x8xf32>, %lse: memref<?x1x?xf32>) {
  flash.attention ins(%q, %k, %k : memref<?x1x?x8xf32>, memref<?x1x?x8xf32>, memref<?x1x?x8xf32>)
    outs(%o, %lse : memref<?x1x?x8xf32>, memref<?x1x?xf32>) {scale = 0.125 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %c2 = arith.constant 2 : index
      %n = memref.dim %o, %c2 : memref<?x1x?x8xf32>
      %keep = arith.cmpi slt, %j, %n : index
      flash.yield %keep : i1
    }
  return
}

// Caches of keys and values are two views of one allocation; inputs may share memory.
// CHECK-LABEL: func @interleaved_caches(
// CHECK:         flash.append_kv
func.func @interleaved_caches(%new: memref<2x3x4x8xf32>, %positions: memref<2xi32>, %all: memref<6x2x16x4x8xf32>,
                              %table: memref<2x3xi32>) {
  %k_cache = memref.subview %all[0, 0, 0, 0, 0] [6, 1, 16, 4, 8] [1, 1, 1, 1, 1]
    : memref<6x2x16x4x8xf32> to memref<6x16x4x8xf32, strided<[1024, 32, 8, 1]>>
  %v_cache = memref.subview %all[0, 1, 0, 0, 0] [6, 1, 16, 4, 8] [1, 1, 1, 1, 1]
    : memref<6x2x16x4x8xf32> to memref<6x16x4x8xf32, strided<[1024, 32, 8, 1], offset: 512>>
  flash.append_kv ins(%new, %new, %positions : memref<2x3x4x8xf32>, memref<2x3x4x8xf32>, memref<2xi32>)
    table(%table : memref<2x3xi32>)
    outs(%k_cache, %v_cache : memref<6x16x4x8xf32, strided<[1024, 32, 8, 1]>>, memref<6x16x4x8xf32, strided<[1024, 32, 8, 1], offset: 512>>)
  return
}
