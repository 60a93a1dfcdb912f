// RUN: split-file %s %t
// RUN: flashc-opt %t/paged.mlir --convert-flash-to-tile --canonicalize --cse | FileCheck %t/paged.mlir
// RUN: flashc-opt %t/parts.mlir --convert-flash-to-tile --canonicalize --cse | FileCheck %t/parts.mlir
// RUN: flashc-opt %t/parts.mlir --convert-flash-to-tile="schedule=merge=kernel" --canonicalize --cse | FileCheck %t/parts.mlir --check-prefix=KERNEL
// RUN: not flashc-opt %t/parts.mlir --convert-flash-to-tile="schedule=splits=4" 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not flashc-opt %t/parts.mlir --convert-flash-to-tile="schedule=consumers=2" 2>&1 | FileCheck %s --check-prefix=FIELD
// RUN: flashc-opt %t/pages.mlir --convert-flash-to-tile --canonicalize --cse | FileCheck %t/pages.mlir
// RUN: flashc-opt %t/parts.mlir --convert-flash-to-tile="target=sm_80 schedule=merge=kernel" --canonicalize --cse | FileCheck %t/parts.mlir --check-prefix=AMPERE
// RUN: not flashc-opt %t/parts.mlir --convert-flash-to-tile="target=sm_80 schedule=merge=cluster" 2>&1 | FileCheck %s --check-prefix=CLUSTER
// RUN: not flashc-opt %t/parts.mlir --convert-flash-to-tile="target=sm_42" 2>&1 | FileCheck %s --check-prefix=TARGET

// OTHER: error: expected 4 parts of the keys (schedule warps=8,stages=2,splits=4,chunk=0,merge=cluster)
// FIELD: error: schedule: expected no consumers for kind=decode: it is a field of kind=forward, column-sums or backward
// CLUSTER: error: schedule: expected merge=kernel on sm_80, which has no clusters
// TARGET: error: expected the target to be one of sm_90a, sm_80, got 'sm_42'

//--- paged.mlir
// Each warp takes every eighth tile of 16 keys, through the table of pages. What lies behind the sequence becomes zeros.
// CHECK:       gpu.func @decode(
// CHECK-SAME:      block = [256, 1, 1], cluster = [1, 1, 1]
// CHECK-SAME:      grid = ["1", "mul(ceildiv(8, 4), ceildiv(1, 1))", "arg0.dim0"]
// CHECK-DAG:     %[[KRING:.*]] = tile.alloc_ring : <2, 16, 32, bf16, private true>
// CHECK:         tile.warp_program 8 {
// CHECK:         ^bb0(%[[WARP:.*]]: index):
// CHECK:           tile.read_rows {{.*}} heads 4 tokens 1
// CHECK:           %[[FIRST:.*]] = arith.muli %[[WARP]], %c16
// CHECK:           scf.for %[[KEY:.*]] = {{.*}} step %c128
// CHECK:             %[[SLOT:.*]] = arith.divui %[[KEY]], %c64
// CHECK:             %[[ENTRY:.*]] = arith.minui %[[SLOT]]
// CHECK:             memref.load %{{.*}}[%{{.*}}, %[[ENTRY]]]
// CHECK:             %[[ROW:.*]] = arith.remui %[[KEY]], %c64
// CHECK:             %[[K:.*]] = tile.load %{{.*}}[%{{.*}}, %{{.*}}, %[[ROW]]]
// CHECK:             scf.if
// CHECK:               tile.clear_rows %[[K]]
// CHECK:             tile.mma_async {{.*}} transpose_b
// CHECK:             tile.load
// CHECK:           tile.merge_warps
// CHECK-NOT:       tile.merge_cluster
// CHECK:           tile.write_rows
func.func @decode(%q: tensor<?x8x1x32xbf16>, %kc: tensor<?x2x64x32xbf16>, %vc: tensor<?x2x64x32xbf16>, %lengths: tensor<?xi32>,
                  %table: tensor<?x?xi32>) -> tensor<?x8x1x32xbf16> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %batches = tensor.dim %q, %c0 : tensor<?x8x1x32xbf16>
  %o = tensor.empty(%batches) : tensor<?x8x1x32xbf16>
  %e0 = tensor.empty() : tensor<1x4x1x32xf32>
  %acc = linalg.fill ins(%zero : f32) outs(%e0 : tensor<1x4x1x32xf32>) -> tensor<1x4x1x32xf32>
  %e1 = tensor.empty() : tensor<1x4x1xf32>
  %m = linalg.fill ins(%lowest : f32) outs(%e1 : tensor<1x4x1xf32>) -> tensor<1x4x1xf32>
  %l = linalg.fill ins(%zero : f32) outs(%e1 : tensor<1x4x1xf32>) -> tensor<1x4x1xf32>
  %tile = tensor.empty() : tensor<1x4x1x32xbf16>
  %r = scf.forall (%b, %h) = (0, 0) to (%batches, 8) step (1, 4) shared_outs(%out = %o) -> (tensor<?x8x1x32xbf16>) {
    %hk = affine.apply affine_map<(d0) -> (d0 floordiv 4)>(%h)
    %length = tensor.extract %lengths[%b] : tensor<?xi32>
    %end = arith.index_cast %length : i32 to index
    %qt = tensor.extract_slice %q[%b, %h, 0, 0] [1, 4, 1, 32] [1, 1, 1, 1] : tensor<?x8x1x32xbf16> to tensor<1x4x1x32xbf16>
    %s:3 = scf.for %j = %c0 to %end step %c16 iter_args(%a0 = %acc, %m0 = %m, %l0 = %l) -> (tensor<1x4x1x32xf32>, tensor<1x4x1xf32>, tensor<1x4x1xf32>) {
      %k = flash.cache_tile %kc[%b, %hk, %j] lengths(%lengths : tensor<?xi32>) pages(%table : tensor<?x?xi32>): tensor<?x2x64x32xbf16> -> tensor<1x1x16x32xbf16>
      %v = flash.cache_tile %vc[%b, %hk, %j] lengths(%lengths : tensor<?xi32>) pages(%table : tensor<?x?xi32>): tensor<?x2x64x32xbf16> -> tensor<1x1x16x32xbf16>
      %a1, %m1, %l1 = flash.online_attention ins(%qt, %k, %v : tensor<1x4x1x32xbf16>, tensor<1x1x16x32xbf16>, tensor<1x1x16x32xbf16>)
        outs(%a0, %m0, %l0 : tensor<1x4x1x32xf32>, tensor<1x4x1xf32>, tensor<1x4x1xf32>) at(%b, %h, %c0, %j)
        {normalize = #flash.normalize<deferred>, scale = 1.0 : f32}
        mask (%mb: index, %mh: index, %mi: index, %mj: index) {
          %n = tensor.extract %lengths[%mb] : tensor<?xi32>
          %ni = arith.index_cast %n : i32 to index
          %keep = arith.cmpi slt, %mj, %ni : index
          flash.yield %keep : i1
        } -> tensor<1x4x1x32xf32>, tensor<1x4x1xf32>, tensor<1x4x1xf32>
      scf.yield %a1, %m1, %l1 : tensor<1x4x1x32xf32>, tensor<1x4x1xf32>, tensor<1x4x1xf32>
    }
    %ot, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : tensor<1x4x1x32xf32>, tensor<1x4x1xf32>, tensor<1x4x1xf32>)
      outs(%tile, %e1 : tensor<1x4x1x32xbf16>, tensor<1x4x1xf32>) {normalize = #flash.normalize<deferred>} -> tensor<1x4x1x32xbf16>, tensor<1x4x1xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %ot into %out[%b, %h, 0, 0] [1, 4, 1, 32] [1, 1, 1, 1] : tensor<1x4x1x32xbf16> into tensor<?x8x1x32xbf16>
    }
  }
  return %r : tensor<?x8x1x32xbf16>
}

//--- parts.mlir
// Two parts of the keys are a cluster of two CTAs, which merge what they have; or another kernel merges them.
// CHECK:       gpu.func @decode(
// CHECK-SAME:      cluster = [2, 1, 1]
// CHECK-SAME:      grid = ["2",
// CHECK:         tile.warp_program 8 cluster 2 {
// CHECK:           tile.merge_warps
// CHECK:           tile.merge_cluster
// CHECK:           tile.write_rows {{.*}} memref<1x4x3x32xbf16, strided<[?, ?, ?, 1]>>
// AMPERE:      gpu.module @flashc_kernels [#nvvm.target<chip = "sm_80"
// AMPERE:        tile.load_rows %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] limit %c512 into
// AMPERE-NOT:    tile.load %
// KERNEL:      gpu.func @decode(
// KERNEL-SAME:     after = [
// KERNEL-SAME:     kernel = "decode_merge"
// KERNEL-SAME:     cluster = [1, 1, 1]
// KERNEL:        tile.warp_program 8 {
// KERNEL-NOT:      tile.merge_cluster
// KERNEL-COUNT-2:  tile.write_rows {{.*}} memref<?x?x?{{.*}}xf32
// KERNEL:      gpu.func @decode_merge(
func.func @decode(%q: tensor<1x4x3x32xbf16>, %k: tensor<1x2x512x32xbf16>, %v: tensor<1x2x512x32xbf16>) -> tensor<1x4x3x32xbf16>
    attributes {flashc.schedule = {kind = "decode", splits = 2}} {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %po = tensor.empty() : tensor<2x1x4x3x32xf32>
  %pl = tensor.empty() : tensor<2x1x4x3xf32>
  %e0 = tensor.empty() : tensor<1x2x3x32xf32>
  %acc = linalg.fill ins(%zero : f32) outs(%e0 : tensor<1x2x3x32xf32>) -> tensor<1x2x3x32xf32>
  %e1 = tensor.empty() : tensor<1x2x3xf32>
  %m = linalg.fill ins(%lowest : f32) outs(%e1 : tensor<1x2x3xf32>) -> tensor<1x2x3xf32>
  %l = linalg.fill ins(%zero : f32) outs(%e1 : tensor<1x2x3xf32>) -> tensor<1x2x3xf32>
  %r:2 = scf.forall (%h, %s) = (0, 0) to (4, 2) step (2, 1) shared_outs(%oo = %po, %ol = %pl) -> (tensor<2x1x4x3x32xf32>, tensor<2x1x4x3xf32>) {
    %hk = affine.apply affine_map<(d0) -> (d0 floordiv 2)>(%h)
    %begin = affine.apply affine_map<(d0) -> (d0 * 256)>(%s)
    %end = affine.apply affine_map<(d0) -> (d0 * 256 + 256)>(%s)
    %qt = tensor.extract_slice %q[0, %h, 0, 0] [1, 2, 3, 32] [1, 1, 1, 1] : tensor<1x4x3x32xbf16> to tensor<1x2x3x32xbf16>
    %st:3 = scf.for %j = %begin to %end step %c16 iter_args(%a0 = %acc, %m0 = %m, %l0 = %l) -> (tensor<1x2x3x32xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>) {
      %kt = tensor.extract_slice %k[0, %hk, %j, 0] [1, 1, 16, 32] [1, 1, 1, 1] : tensor<1x2x512x32xbf16> to tensor<1x1x16x32xbf16>
      %vt = tensor.extract_slice %v[0, %hk, %j, 0] [1, 1, 16, 32] [1, 1, 1, 1] : tensor<1x2x512x32xbf16> to tensor<1x1x16x32xbf16>
      %a1, %m1, %l1 = flash.online_attention ins(%qt, %kt, %vt : tensor<1x2x3x32xbf16>, tensor<1x1x16x32xbf16>, tensor<1x1x16x32xbf16>)
        outs(%a0, %m0, %l0 : tensor<1x2x3x32xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>) at(%c0, %h, %c0, %j)
        {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> tensor<1x2x3x32xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>
      scf.yield %a1, %m1, %l1 : tensor<1x2x3x32xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>
    }
    %ot, %lse = flash.finalize ins(%st#0, %st#1, %st#2 : tensor<1x2x3x32xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>)
      outs(%e0, %e1 : tensor<1x2x3x32xf32>, tensor<1x2x3xf32>) {normalize = #flash.normalize<deferred>} -> tensor<1x2x3x32xf32>, tensor<1x2x3xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %ot into %oo[%s, 0, %h, 0, 0] [1, 1, 2, 3, 32] [1, 1, 1, 1, 1] : tensor<1x2x3x32xf32> into tensor<2x1x4x3x32xf32>
      tensor.parallel_insert_slice %lse into %ol[%s, 0, %h, 0] [1, 1, 2, 3] [1, 1, 1, 1] : tensor<1x2x3xf32> into tensor<2x1x4x3xf32>
    }
  }
  %o, %lse = flash.merge_states ins(%r#0, %r#1 : tensor<2x1x4x3x32xf32>, tensor<2x1x4x3xf32>) -> tensor<1x4x3x32xbf16>, tensor<1x4x3xf32>
  return %o : tensor<1x4x3x32xbf16>
}

//--- pages.mlir
// Pages that are smaller than a tile: lanes copy its rows, each from its own page.
// CHECK:       gpu.func @decode(
// CHECK:         %[[RING:.*]] = tile.alloc_ring
// CHECK:         scf.for %[[KEY:[^ ]*]] =
// CHECK:           %[[PAGES:.*]] = tile.read_pages %{{.*}}[%{{.*}}, %[[KEY]]] of %c4 size 8
// CHECK:           tile.load_rows %{{.*}}[%[[PAGES]], %c0{{.*}}, %[[KEY]]] size 8 limit %c32
// CHECK-NOT:     tile.clear_rows
func.func @decode(%q: tensor<1x1x1x32xbf16>, %kc: tensor<?x1x8x32xbf16>, %table: tensor<1x4xi32>) -> tensor<1x1x1x32xbf16> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %e0 = tensor.empty() : tensor<1x1x1x32xf32>
  %acc = linalg.fill ins(%zero : f32) outs(%e0 : tensor<1x1x1x32xf32>) -> tensor<1x1x1x32xf32>
  %e1 = tensor.empty() : tensor<1x1x1xf32>
  %m = linalg.fill ins(%lowest : f32) outs(%e1 : tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
  %l = linalg.fill ins(%zero : f32) outs(%e1 : tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
  %tile = tensor.empty() : tensor<1x1x1x32xbf16>
  %s:3 = scf.for %j = %c0 to %c32 step %c16 iter_args(%a0 = %acc, %m0 = %m, %l0 = %l) -> (tensor<1x1x1x32xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) {
    %k = flash.cache_tile %kc[%c0, %c0, %j] pages(%table : tensor<1x4xi32>): tensor<?x1x8x32xbf16> -> tensor<1x1x16x32xbf16>
    %a1, %m1, %l1 = flash.online_attention ins(%q, %k, %k : tensor<1x1x1x32xbf16>, tensor<1x1x16x32xbf16>, tensor<1x1x16x32xbf16>)
      outs(%a0, %m0, %l0 : tensor<1x1x1x32xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) at(%c0, %c0, %c0, %j)
      {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> tensor<1x1x1x32xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>
    scf.yield %a1, %m1, %l1 : tensor<1x1x1x32xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>
  }
  %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : tensor<1x1x1x32xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>)
    outs(%tile, %e1 : tensor<1x1x1x32xbf16>, tensor<1x1x1xf32>) {normalize = #flash.normalize<deferred>} -> tensor<1x1x1x32xbf16>, tensor<1x1x1xf32>
  return %o : tensor<1x1x1x32xbf16>
}
