// Prefill through caches by FlashAttention-2, after every pass, against Algorithm 0: pages of fewer rows than a tile, and
// queries at negative positions.
// RUN: flashc %s --check-each-pass --algorithm=fa2 --q-tile=8 --kv-tile=8 --shape=lengths=3,table=3x5,kc=80x2x4x16,vc=80x2x4x16 \
// RUN:   --dims=B=3,Nq=21 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --check-each-pass --algorithm=fa2 --schedule=splits=3 --q-tile=8 --kv-tile=8 --dims=B=3,Nq=21 \
// RUN:   --shape=lengths=3,table=3x5,kc=80x2x4x16,vc=80x2x4x16 | FileCheck %s --check-prefixes=CHECK,SPLIT --implicit-check-not=FAIL
// RUN: flashc %s --check-each-pass --algorithm=fa2 --schedule=splits=3,persistent=true --q-tile=8 --kv-tile=8 --dims=B=3,Nq=21 \
// RUN:   --shape=lengths=3,table=3x5,kc=80x2x4x16,vc=80x2x4x16 | FileCheck %s --check-prefixes=CHECK,SPLIT --implicit-check-not=FAIL
// RUN: not flashc %s --check --schedule=splits=x 2>&1 | FileCheck %s --check-prefix=NUMBER
// NUMBER: schedule: expected an integer for 'splits', got 'x'
// CHECK: after flash-page-kv: {{.*}} PASS
// CHECK: after flash-parallelize: {{.*}} PASS
// SPLIT: after flash-split-key-loops: {{.*}} PASS
func.func @prefill(%q: tensor<?x4x?x16xf32>, %kc: tensor<?x2x4x16xf32> {flash.name = "kc"}, %vc: tensor<?x2x4x16xf32> {flash.name = "vc"},
                   %lengths: tensor<?xi32> {flash.name = "lengths"}, %table: tensor<?x?xi32> {flash.name = "table"})
    -> (tensor<?x4x?x16xf32>, tensor<?x4x?xf32>) {
  %c2 = arith.constant 2 : index
  %nq = tensor.dim %q, %c2 : tensor<?x4x?x16xf32>
  %k = flash.cache_view %kc lengths(%lengths : tensor<?xi32>) pages(%table : tensor<?x?xi32>): tensor<?x2x4x16xf32> -> tensor<?x2x?x16xf32>
  %v = flash.cache_view %vc lengths(%lengths : tensor<?xi32>) pages(%table : tensor<?x?xi32>): tensor<?x2x4x16xf32> -> tensor<?x2x?x16xf32>
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<?x4x?x16xf32>, tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>) {scale = 0.25 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %n = tensor.extract %lengths[%b] : tensor<?xi32>
      %length = arith.index_cast %n : i32 to index
      %past = arith.subi %length, %nq : index
      %position = arith.addi %i, %past : index
      %exists = arith.cmpi slt, %j, %length : index
      %sees = arith.cmpi sle, %j, %position : index
      %keep = arith.andi %exists, %sees : i1
      flash.yield %keep : i1
    } -> tensor<?x4x?x16xf32>, tensor<?x4x?xf32>
  return %o, %lse : tensor<?x4x?x16xf32>, tensor<?x4x?xf32>
}
