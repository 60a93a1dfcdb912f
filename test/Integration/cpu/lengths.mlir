// Lengths around the tile size of 64 and far from it, dynamic: 1, 63, 64, 65, primes; queries and keys unequal.
// RUN: flashc %s --check --dims=Nq=1,Nk=1 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --check --dims=Nq=1,Nk=131 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --check --dims=Nq=131,Nk=1 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --check --dims=B=3,Nq=63,Nk=65 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --check --dims=Nq=65,Nk=63 --algorithm=fa1 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --check --dims=Nq=64,Nk=64 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --check --dims=Nq=64,Nk=64 --seed=7 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --check --dims=Nq=128,Nk=192 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --check --shape=q=2x2x97x16,k=2x1x211x16 --algorithm=fa1 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --check --shape=q=2x2x97x16,k=2x1x211x16 --q-tile=32 | FileCheck %s --implicit-check-not=FAIL

// CHECK: check @attention: o: {{.*}} PASS
// CHECK-NEXT: check @attention: lse: {{.*}} PASS
func.func @attention(%q: tensor<?x2x?x16xbf16>, %k: tensor<?x1x?x16xbf16>, %v: tensor<?x1x?x8xbf16>)
    -> (tensor<?x2x?x8xbf16>, tensor<?x2x?xf32>) {
  %o, %lse = flash.attention
      ins(%q, %k, %v : tensor<?x2x?x16xbf16>, tensor<?x1x?x16xbf16>, tensor<?x1x?x8xbf16>)
      {scale = 2.500000e-01 : f32} -> tensor<?x2x?x8xbf16>, tensor<?x2x?xf32>
  return %o, %lse : tensor<?x2x?x8xbf16>, tensor<?x2x?xf32>
}
