// Masks over data that is declared sorted, by every algorithm, with lengths and tiles that do not fit each other. The
// random arrays ascend from 0 to the larger of Nq and Nk (Execution/Inputs.h), so every position has a segment.
// RUN: flashc %s --run=cpu --check --algorithm=standard | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --algorithm=fa1 --q-tile=16 --kv-tile=8 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --check-each-pass --function=packed --q-tile=8 --kv-tile=16 \
// RUN:   | FileCheck %s --check-prefix=EACH --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --q-tile=8 --kv-tile=16 --dims=B=2,Nq=29,Nk=17 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --q-tile=8 --kv-tile=16 --dims=Nq=17,Nk=31 --seed=3 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --q-tile=8 --kv-tile=16 --dims=Nq=1,Nk=1 | FileCheck %s --implicit-check-not=FAIL

// Tiles of queries on their grid, as where sequences are short: several sequences in one.
// DEFINE: %{grid} = flash-tabulate-rows,flash-online-softmax{normalize=each-step},flash-tile{q-tile=16 kv-tile=8},flash-swap-loops,flash-bound-loops,flash-parallelize
// RUN: flashc %s --run=cpu --check --passes='%{grid}' --dims=Nq=29,Nk=31 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --passes='%{grid}' --dims=Nq=40,Nk=23 --seed=5 | FileCheck %s --implicit-check-not=FAIL

// EACH: after flash-align-queries: @packed: {{.*}} PASS
// EACH: after flash-bound-loops: @packed: {{.*}} PASS
// EACH: after flash-parallelize: @packed: {{.*}} PASS

!t = tensor<?x2x?x8xbf16>
!r = tensor<?x2x?xf32>

// Documents by their ids, a line for each batch; i8 ids reach 127.
// CHECK: check @documents: o: {{.*}} PASS
// CHECK-NEXT: check @documents: lse: {{.*}} PASS
func.func @documents(%q: !t, %k: !t, %v: !t, %ids: tensor<?x?xi8>) -> (!t, !r) {
  %sorted = flash.assume_sorted %ids : tensor<?x?xi8>
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %sorted[%b, %i] : tensor<?x?xi8>
        %y = tensor.extract %sorted[%b, %j] : tensor<?x?xi8>
        %keep = arith.cmpi eq, %x, %y : i8
        flash.yield %keep : i1
      } -> !t, !r
  return %o, %lse : !t, !r
}

// Packed sequences by offsets for queries and keys, causal within each, aligned with its last key.
// CHECK-NEXT: check @packed: o: {{.*}} PASS
// CHECK-NEXT: check @packed: lse: {{.*}} PASS
func.func @packed(%q: !t, %k: !t, %v: !t, %offsets_q: tensor<5xi32>, %offsets_k: memref<5xi64>) -> (!t, !r) {
  %c1 = arith.constant 1 : index
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %cu_q = flash.assume_sorted %offsets_q : tensor<5xi32>
        %cu_k = flash.assume_sorted %offsets_k : memref<5xi64>
        %n = flash.count_le %i in %cu_q : index, tensor<5xi32>
        %m = flash.count_le %j in %cu_k : index, memref<5xi64>
        %same = arith.cmpi eq, %n, %m : index
        %end_q32 = tensor.extract %cu_q[%n] : tensor<5xi32>
        %end_q = arith.index_cast %end_q32 : i32 to index
        %end_k64 = memref.load %cu_k[%n] : memref<5xi64>
        %end_k = arith.index_cast %end_k64 : i64 to index
        %shift = arith.subi %end_k, %end_q : index
        %last = arith.addi %i, %shift : index
        %seen = arith.cmpi sle, %j, %last : index
        %keep = arith.andi %same, %seen : i1
        flash.yield %keep : i1
      } -> !t, !r
  return %o, %lse : !t, !r
}

// Searches that stay searches, for every element, in a score and a mask; values of more bits than the elements.
// CHECK-NEXT: check @searched: o: {{.*}} PASS
// CHECK-NEXT: check @searched: lse: {{.*}} PASS
func.func @searched(%q: !t, %k: !t, %v: !t, %data: tensor<?xi32>) -> (!t, !r) {
  %c2 = arith.constant 2 : index
  %c7 = arith.constant 7 : i64
  %s = flash.assume_sorted %data : tensor<?xi32>
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 1.0 : f32}
      score (%x: f32, %b: index, %h: index, %i: index, %j: index) {
        %sum = arith.addi %i, %j : index
        %half = arith.divsi %sum, %c2 : index
        %n = flash.count_le %half in %s : index, tensor<?xi32>
        %e = flash.nth %sum in %s : tensor<?xi32>
        %d = arith.addi %n, %e : index
        %d32 = arith.index_cast %d : index to i32
        %f = arith.sitofp %d32 : i32 to f32
        %c = arith.constant 4.656613e-10 : f32
        %y = math.fma %f, %c, %x : f32
        flash.yield %y : f32
      }
      mask (%b: index, %h: index, %i: index, %j: index) {
        %twice = arith.muli %j, %c2 : index
        %n = flash.count_le %twice in %s : index, tensor<?xi32>
        %few = flash.count_le %c7 in %s : i64, tensor<?xi32>
        %far = arith.cmpi sge, %n, %i : index
        %near = arith.cmpi sge, %i, %few : index
        %keep = arith.ori %far, %near : i1
        flash.yield %keep : i1
      } -> !t, !r
  return %o, %lse : !t, !r
}
