// Parts of keys with a gap between the loops over keys: four sink tokens and a window. Lengths are no multiples of a tile.
// RUN: flashc %s --check-each-pass --algorithm=fa2 --schedule=splits=3 --q-tile=8 --kv-tile=8 --dims=B=1,Nq=61,Nk=61 \
// RUN:   | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --check-each-pass --algorithm=fa2 --schedule=splits=3,persistent=true --q-tile=8 --kv-tile=8 \
// RUN:   --dims=B=1,Nq=61,Nk=61 | FileCheck %s --implicit-check-not=FAIL
// CHECK: after flash-split-key-loops: {{.*}} PASS
func.func @sinks(%q: tensor<?x2x?x16xf32>, %k: tensor<?x2x?x16xf32>, %v: tensor<?x2x?x16xf32>)
    -> (tensor<?x2x?x16xf32>, tensor<?x2x?xf32>) {
  %c4 = arith.constant 4 : index
  %c20 = arith.constant 20 : index
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>) {scale = 0.25 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %causal = arith.cmpi sle, %j, %i : index
      %far = arith.subi %i, %j : index
      %near = arith.cmpi slt, %far, %c20 : index
      %first = arith.cmpi slt, %j, %c4 : index
      %some = arith.ori %near, %first : i1
      %keep = arith.andi %some, %causal : i1
      flash.yield %keep : i1
    } -> tensor<?x2x?x16xf32>, tensor<?x2x?xf32>
  return %o, %lse : tensor<?x2x?x16xf32>, tensor<?x2x?xf32>
}
