// A forward kernel whose keys and values lie in pages: a tile of 80 keys is five boxes of 16 rows, or two of 40.
// DEFINE: %{lower} = flashc-opt --flash-online-softmax --flash-tile="q-tile=128 kv-tile=80" --flash-page-kv --canonicalize --cse --flash-swap-loops --flash-bound-loops --flash-parallelize --canonicalize --cse --convert-flash-to-tile=schedule=consumers=2,kv-tile=80,stages=2,persistent=false --canonicalize --cse
// RUN: %{lower} %s | FileCheck %s
// RUN: sed 's/x64x128xbf16/x120x128xbf16/g' %s | %{lower} | FileCheck %s --check-prefix=FORTY
// Without pages it is one box of the array; rows behind the length are there, and cleared.
// RUN: sed 's/ pages(.table : tensor<?x?xi32>)//; s/x64x128xbf16/x?x128xbf16/g' %s | %{lower} | FileCheck %s --check-prefix=ARRAY
// Without lengths sequences fill their pages: nothing is cleared, and the end is that of the table.
// RUN: sed 's/ lengths(.lengths : tensor<?xi32>)//' %s | %{lower} | FileCheck %s --check-prefix=FULL

// CHECK:       gpu.func @prefill(
// CHECK-SAME:      !tile.tensor_map<64 x bf16>, %[[KMAP:[^:]*]]: !tile.tensor_map<16 x bf16>, %[[VMAP:[^:]*]]: !tile.tensor_map<16 x bf16>,
// CHECK-SAME:      {argument = 1 : i64, box = [64, 16, 1, 1], kind = "tensor_map", swizzle = 128 : i64}
// CHECK-SAME:      "arg4.dim0"
// CHECK:         tile.program 2 {
// CHECK-DAG:       %[[H:.*]] = gpu.block_id y
// CHECK-DAG:       %[[B:.*]] = gpu.block_id z
// CHECK-DAG:       %[[HK:.*]] = arith.shrsi %[[H]], %c2
// CHECK-DAG:       %[[N:.*]] = memref.load %{{.*}}[%[[B]]]
// CHECK-DAG:       %[[LENGTH:.*]] = arith.index_cast %[[N]]
// CHECK-DAG:       %[[SAME:.*]] = tile.uniform %[[LENGTH]]
// CHECK-DAG:       %[[NONNEGATIVE:.*]] = arith.maxsi %[[SAME]], %c0
// CHECK-DAG:       %[[END:.*]] = arith.minsi %[[NONNEGATIVE]]
// CHECK:           scf.for
// CHECK:             %[[LEFT:.*]] = arith.subi %[[END]], %[[J:.*]] : index
// CHECK-NEXT:        tile.load %[[KMAP]][%[[B]], %[[HK]], %[[J]]] pages(%[[TABLE:.*]] : memref<?x?xi32, strided<[?, 1]>>) of 64 until %[[END]] into %{{.*}} clear from %[[LEFT]]
// CHECK:             tile.load %[[VMAP]][%[[B]], %[[HK]], %[[J]]] pages(%[[TABLE]] : {{.*}}) of 64 until %[[END]] into %{{.*}} clear from %

// FORTY:       box = [64, 40, 1, 1]
// FORTY:       tile.load {{.*}} of 120 until

// ARRAY:       box = [64, 80, 1, 1]
// ARRAY:       tile.load %{{.*}}[%{{.*}}, %{{.*}}, %[[J:.*]]] into %{{.*}} clear from %

// FULL-COUNT-2: tile.load {{.*}} of 64 until %{{[0-9]+}} into %{{[0-9]+}} : !tile.tensor_map<16 x bf16>
func.func @prefill(%q: tensor<?x8x?x128xbf16>, %kc: tensor<?x2x64x128xbf16>, %vc: tensor<?x2x64x128xbf16>, %lengths: tensor<?xi32>,
                   %table: tensor<?x?xi32>) -> tensor<?x8x?x128xbf16> {
  %k = flash.cache_view %kc lengths(%lengths : tensor<?xi32>) pages(%table : tensor<?x?xi32>) : tensor<?x2x64x128xbf16> -> tensor<?x2x?x128xbf16>
  %v = flash.cache_view %vc lengths(%lengths : tensor<?xi32>) pages(%table : tensor<?x?xi32>) : tensor<?x2x64x128xbf16> -> tensor<?x2x?x128xbf16>
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<?x8x?x128xbf16>, tensor<?x2x?x128xbf16>, tensor<?x2x?x128xbf16>) {scale = 0.125 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %n = tensor.extract %lengths[%b] : tensor<?xi32>
      %length = arith.index_cast %n : i32 to index
      %keep = arith.cmpi slt, %j, %length : index
      flash.yield %keep : i1
    } -> tensor<?x8x?x128xbf16>, tensor<?x8x?xf32>
  return %o : tensor<?x8x?x128xbf16>
}
