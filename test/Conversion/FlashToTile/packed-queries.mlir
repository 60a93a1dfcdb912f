// Packed queries against a cache with pages: the rows of a tile are of one sequence, whose keys they see.
// RUN: flashc %s --algorithm=fa2 --emit=tile --schedule=heads=4,consumers=2 | FileCheck %s
// RUN: flashc %s --algorithm=fa2 --emit=tile --schedule=splits=2 | FileCheck %s --check-prefix=PARTS
// RUN: flashc %s --algorithm=fa2 --emit=tile --schedule=heads=4,consumers=1,kv-tile=128,splits=8,persistent=true | FileCheck %s --check-prefix=WORK
// RUN: sed -e 's/32x?x128/32x64x128/g; s/32x?xf32/32x64xf32/g' %s | not flashc - --algorithm=fa2 2>&1 | FileCheck %s --check-prefix=KNOWN
// RUN: sed -e 's/<?x32x?x128/<1x32x?x128/g; s/<?x32x?xf32/<1x32x?xf32/g' %s | not flashc - --algorithm=fa2 2>&1 | FileCheck %s --check-prefix=KNOWN
// RUN: not flashc %s --algorithm=split-kv 2>&1 | FileCheck %s --check-prefix=KNOWN
// KNOWN: error: expected the batch and the number of queries of packed queries to be known at the launch only, and the algorithm fa2: flash-pack-rows has left flash.unpack_rows
// RUN: not flashc %s --algorithm=fa2 --emit=tile --schedule=heads=4,consumers=2,stages=2,store=own-slot 2>&1 | FileCheck %s --check-prefix=STORE
// RUN: flashc %s --print-decisions --emit=tile -o /dev/null 2>&1 | FileCheck %s --check-prefix=CHOICE

// CHECK:       gpu.func @attention(
// CHECK-SAME:    grid = ["min(sm_count, mul(mul(mul(min(arg0.dim2, 1), add(ceildiv(add(arg0.dim2, 1), 32), arg5.dim0)), ceildiv(32, 4)), 1))", "1", "1"]
// CHECK-SAME:    requires = [{{.*}}["arg5.dim0", "add(arg3.dim0, 1)"]
// CHECK-SAME:    store=registers
// CHECK:         tile.copy_async %arg1[%[[B:[a-z0-9]+]], %{{.*}}] pages(
// CHECK:         tile.copy_async %arg0[%c0, %
// CHECK:         tile.store %{{.*}} heads 4 of 16
// CHECK:       gpu.func @attention_order(
// PARTS:       gpu.func @attention(
// PARTS-SAME:    workspace = "add64({{.*}}mul64(mul64(mul64(2, 1), 32), arg0.dim2)
// WORK:        gpu.func @attention(
// WORK-SAME:     grid = ["min(sm_count, mul(mul(mul(mul(min(arg0.dim2, 1), add(ceildiv(add(arg0.dim2, 1), 16), arg5.dim0)), 8), ceildiv(32, 4)), 1))", "1", "1"]
// WORK:          scf.if %{{.*}} {
// WORK:            tile.store %{{.*}}, %{{.*}} : tensor<64xf32, #tile.row>
// WORK:            tile.store %{{.*}} : tensor<64x128xf32, #tile.acc>
// WORK-SAME:         bf16
// WORK:          } else {
// WORK:            scf.for
// WORK:              tile.store %cst
// WORK:        gpu.func @attention_order(
// WORK:          nvvm.shfl.sync  idx
// WORK:        gpu.func @attention_merge(
// WORK:          arith.cmpf une
// STORE:       expected store=registers for tiles of several heads that begin at packed sequences, got store=own-slot
// CHOICE:      sequences have queries of different numbers
func.func @attention(%q: tensor<1x32x?x128xbf16>, %k: tensor<?x8x16x128xbf16>, %v: tensor<?x8x16x128xbf16>, %lengths: tensor<?xi32> {flash.name = "lengths"}, %table: tensor<?x?xi32> {flash.name = "table"}, %offsets: tensor<?xi32> {flash.name = "offsets"})
    -> (tensor<1x32x?x128xbf16>, tensor<1x32x?xf32>) {
  %cu = flash.assume_sorted %offsets : tensor<?xi32>
  %qs = flash.unpack_rows %q by %cu : tensor<1x32x?x128xbf16>, tensor<?xi32> -> tensor<?x32x?x128xbf16>
  %keys = flash.cache_view %k lengths(%lengths : tensor<?xi32>) pages(%table : tensor<?x?xi32>) : tensor<?x8x16x128xbf16> -> tensor<?x8x?x128xbf16>
  %values = flash.cache_view %v lengths(%lengths : tensor<?xi32>) pages(%table : tensor<?x?xi32>) : tensor<?x8x16x128xbf16> -> tensor<?x8x?x128xbf16>
  %c1 = arith.constant 1 : index
  %o, %lse = flash.attention ins(%qs, %keys, %values : tensor<?x32x?x128xbf16>, tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>)
      {scale = 0.0883883461 : f32}
      mask (%b: index, %h: index, %i0: index, %j: index) {
        %n1 = arith.addi %b, %c1 : index
        %first32 = tensor.extract %offsets[%b] : tensor<?xi32>
        %first = arith.index_cast %first32 : i32 to index
        %last32 = tensor.extract %offsets[%n1] : tensor<?xi32>
        %last = arith.index_cast %last32 : i32 to index
        %length = tensor.extract %lengths[%b] : tensor<?xi32>
        %nk = arith.index_cast %length : i32 to index
        %from = arith.subi %nk, %last : index
        %i = arith.addi %i0, %from : index
        %k0 = arith.cmpi sge, %i0, %first : index
        %k1 = arith.cmpi slt, %i0, %last : index
        %k2 = arith.cmpi slt, %j, %nk : index
        %k3 = arith.cmpi sle, %j, %i : index
        %k01 = arith.andi %k0, %k1 : i1
        %k23 = arith.andi %k2, %k3 : i1
        %keep = arith.andi %k01, %k23 : i1
        flash.yield %keep : i1
      }
      -> tensor<?x32x?x128xbf16>, tensor<?x32x?xf32>
  %po = flash.pack_rows %o by %cu : tensor<?x32x?x128xbf16>, tensor<?xi32> -> tensor<1x32x?x128xbf16>
  %pl = flash.pack_rows %lse by %cu : tensor<?x32x?xf32>, tensor<?xi32> -> tensor<1x32x?xf32>
  return %po, %pl : tensor<1x32x?x128xbf16>, tensor<1x32x?xf32>
}
