// Keys whose first one is known begin with the first tile, but where they lie in pages: a tile on the grid is one of pages, too,
// and the tile that the first key is in is cut by the mask.
// RUN: flashc %s --emit=loops | FileCheck %s
// RUN: sed -e 's/ pages([^)]*)//; s/tensor<?x8x64x128xbf16>/tensor<?x8x?x128xbf16>/g' %s > %t.mlir
// RUN: flashc %t.mlir --emit=loops | FileCheck %t.mlir --check-prefix=PLAIN
// CHECK:     affine.max affine_map<()[s0] -> (0, (s0 floordiv 64) * 64)>
// CHECK:     scf.for
// CHECK:       mask (
// CHECK:     scf.for
// PLAIN:     affine.max affine_map<()[s0] -> (0, s0)>
// PLAIN-NOT: affine.max affine_map<()[s0] -> (0, (s0 floordiv 64) * 64)>
// PLAIN:     scf.for
func.func @decode(%q: tensor<?x16x?x128xbf16>, %kc: tensor<?x8x64x128xbf16>, %vc: tensor<?x8x64x128xbf16>, %lengths: tensor<?xi32>, %table: tensor<?x?xi32>, %first: tensor<?xi32>)
    -> tensor<?x16x?x128xbf16> {
  %k = flash.cache_view %kc lengths(%lengths : tensor<?xi32>) pages(%table : tensor<?x?xi32>): tensor<?x8x64x128xbf16> -> tensor<?x8x?x128xbf16>
  %v = flash.cache_view %vc lengths(%lengths : tensor<?xi32>) pages(%table : tensor<?x?xi32>): tensor<?x8x64x128xbf16> -> tensor<?x8x?x128xbf16>
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<?x16x?x128xbf16>, tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>) {scale = 0.125 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %n = tensor.extract %lengths[%b] : tensor<?xi32>
      %length = arith.index_cast %n : i32 to index
      %keep = arith.cmpi slt, %j, %length : index
      %f = tensor.extract %first[%b] : tensor<?xi32>
      %fi = arith.index_cast %f : i32 to index
      %keep2 = arith.cmpi sge, %j, %fi : index
      %x = arith.andi %keep, %keep2 : i1
      flash.yield %x : i1
    } -> tensor<?x16x?x128xbf16>, tensor<?x16x?xf32>
  return %o : tensor<?x16x?x128xbf16>
}
