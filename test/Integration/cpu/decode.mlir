// Flash-Decoding on caches, after every pass, against Algorithm 0.
// RUN: flashc %s --check-each-pass --algorithm=split-kv --schedule=splits=3 --shape=lengths=3,table=3x5,kc=80x2x4x16,vc=80x2x4x16 \
// RUN:   --dims=B=3,Nq=3 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --check --algorithm=fa2 --q-tile=8 --kv-tile=8 --shape=lengths=3,table=3x5,kc=80x2x4x16,vc=80x2x4x16 --dims=B=3,Nq=3 \
// RUN:   | FileCheck %s --check-prefix=FA2
// CHECK: after flash-split-kv: {{.*}} PASS
// CHECK: after flash-page-kv: {{.*}} PASS
// FA2: check @decode: o: {{.*}} PASS
func.func @decode(%q: tensor<?x4x?x16xf32>, %kc: tensor<?x2x4x16xf32> {flash.name = "kc"}, %vc: tensor<?x2x4x16xf32> {flash.name = "vc"},
                  %lengths: tensor<?xi32> {flash.name = "lengths"}, %table: tensor<?x?xi32> {flash.name = "table"})
    -> (tensor<?x4x?x16xf32>, tensor<?x4x?xf32>) {
  %k = flash.cache_view %kc lengths(%lengths : tensor<?xi32>) pages(%table : tensor<?x?xi32>): tensor<?x2x4x16xf32> -> tensor<?x2x?x16xf32>
  %v = flash.cache_view %vc lengths(%lengths : tensor<?xi32>) pages(%table : tensor<?x?xi32>): tensor<?x2x4x16xf32> -> tensor<?x2x?x16xf32>
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<?x4x?x16xf32>, tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>) {scale = 0.25 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %n = tensor.extract %lengths[%b] : tensor<?xi32>
      %length = arith.index_cast %n : i32 to index
      %keep = arith.cmpi slt, %j, %length : index
      flash.yield %keep : i1
    } -> tensor<?x4x?x16xf32>, tensor<?x4x?xf32>
  return %o, %lse : tensor<?x4x?x16xf32>, tensor<?x4x?xf32>
}
