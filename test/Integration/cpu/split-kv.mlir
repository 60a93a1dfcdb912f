// Chunks of keys folded side by side and merged: several chunks, one that sticks out, rows that see no key of some
// chunks, and rows that see no key at all.
// RUN: flashc %s --run=cpu --check --dims=B=2,Nq=5,Nk=70 \
// RUN:   --passes='flash-online-softmax,flash-split-kv{kv-chunk=16}' | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --dims=B=2,Nq=5,Nk=70 \
// RUN:   --passes='flash-online-softmax{normalize=each-step},flash-split-kv{kv-chunk=24},flash-tile{q-tile=8 kv-tile=8}' \
// RUN:   | FileCheck %s --implicit-check-not=FAIL

// CHECK: check @early_keys: o: {{.*}} PASS
// CHECK-NEXT: check @early_keys: lse: {{.*}} PASS
func.func @early_keys(%q: tensor<?x4x?x16xbf16>, %k: tensor<?x2x?x16xbf16>, %v: tensor<?x2x?x8xbf16>)
    -> (tensor<?x4x?x8xbf16>, tensor<?x4x?xf32>) {
  %c2 = arith.constant 2 : index
  %o, %lse = flash.attention
      ins(%q, %k, %v : tensor<?x4x?x16xbf16>, tensor<?x2x?x16xbf16>, tensor<?x2x?x8xbf16>)
      {scale = 2.500000e-01 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        // Query i sees 20 (i - 2) keys: none for the first three.
        %c20 = arith.constant 20 : index
        %late = arith.subi %i, %c2 : index
        %end = arith.muli %late, %c20 : index
        %keep = arith.cmpi slt, %j, %end : index
        flash.yield %keep : i1
      } -> tensor<?x4x?x8xbf16>, tensor<?x4x?xf32>
  return %o, %lse : tensor<?x4x?x8xbf16>, tensor<?x4x?xf32>
}
