// The keys' weights, by every algorithm, with lengths and tiles that do not fit each other. Where lse is an argument it
// is about that of as many keys, and -inf in some rows.
// RUN: flashc %s --run=cpu --check --algorithm=standard | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --algorithm=fa1 --q-tile=16 --kv-tile=8 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --check-each-pass --function=causal --q-tile=8 --kv-tile=16 \
// RUN:   | FileCheck %s --check-prefix=EACH --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --q-tile=8 --kv-tile=16 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --q-tile=16 --kv-tile=8 --dims=B=2,Nq=29,Nk=17 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --q-tile=8 --kv-tile=16 --dims=Nq=17,Nk=100 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --q-tile=8 --kv-tile=16 --dims=Nq=1,Nk=1 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --function=causal --print-cost --q-tile=8 --kv-tile=16 --dims=Nq=64,Nk=64 | FileCheck %s --check-prefix=COST

// EACH: after flash-online-softmax: @causal: {{.*}} PASS
// EACH: after flash-tile: @causal: {{.*}} PASS
// EACH: after flash-swap-loops: @causal: {{.*}} PASS
// EACH: after flash-bound-loops: @causal: {{.*}} PASS
// EACH: after flash-parallelize: @causal: {{.*}} PASS

// The mask leaves 8 + 6 + 4 + 2 of 4 x 8 tiles (keys x queries) in each of 4 heads. A tile has 2 * 8 * 16 * 8 FLOPs.
// COST: cost @causal by fa2 {{.*}} matmul FLOPs 163840,

// CHECK: check @causal: c: {{.*}} PASS
func.func @causal(%q: tensor<?x4x?x8xf32>, %k: tensor<?x2x?x8xf32>, %lse: tensor<?x4x?xf32>) -> tensor<?x4x?xf32> {
  %c = flash.column_sums ins(%q, %k, %lse : tensor<?x4x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x4x?xf32>)
      {scale = 0.35 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      } -> tensor<?x4x?xf32>
  return %c : tensor<?x4x?xf32>
}

// The log-sum-exp of the same attention, summed over the heads of a group: c adds up to Hq * Nq.
// CHECK-NEXT: check @of_attention: c: {{.*}} PASS
func.func @of_attention(%q: tensor<?x4x?x8xbf16>, %k: tensor<?x2x?x8xbf16>, %v: tensor<?x2x?x8xbf16>)
    -> tensor<?x2x?xf32> {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<?x4x?x8xbf16>, tensor<?x2x?x8xbf16>, tensor<?x2x?x8xbf16>)
      {scale = 0.35 : f32} -> tensor<?x4x?x8xbf16>, tensor<?x4x?xf32>
  %c = flash.column_sums ins(%q, %k, %lse : tensor<?x4x?x8xbf16>, tensor<?x2x?x8xbf16>, tensor<?x4x?xf32>)
      {scale = 0.35 : f32, sum_groups} -> tensor<?x2x?xf32>
  return %c : tensor<?x2x?xf32>
}

// Keys beyond a length give exp(-inf), and rows that see nothing have lse = -inf; a bias is read inside its tensor.
// CHECK-NEXT: check @window_and_bias: c: {{.*}} PASS
func.func @window_and_bias(%q: tensor<?x2x?x16xf16>, %k: tensor<?x2x?x16xf16>, %lse: tensor<?x2x?xf32>,
                           %bias: tensor<?x?xf32>) -> tensor<?x2x?xf32> {
  %c3 = arith.constant 3 : index
  %c9 = arith.constant 9 : index
  %c = flash.column_sums ins(%q, %k, %lse : tensor<?x2x?x16xf16>, tensor<?x2x?x16xf16>, tensor<?x2x?xf32>)
      {scale = 0.25 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %bias[%i, %j] : tensor<?x?xf32>
        %t = arith.addf %s, %x : f32
        flash.yield %t : f32
      }
      mask (%b: index, %h: index, %i: index, %j: index) {
        %left = arith.subi %i, %c9 : index
        %right = arith.addi %i, %c3 : index
        %from = arith.cmpi sge, %j, %left : index
        %to = arith.cmpi sle, %j, %right : index
        %keep = arith.andi %from, %to : i1
        flash.yield %keep : i1
      } -> tensor<?x2x?xf32>
  return %c : tensor<?x2x?xf32>
}

// CHECK-NEXT: check @dynamic_heads: c: {{.*}} PASS
func.func @dynamic_heads(%q: tensor<?x?x?x8xf32>, %k: tensor<?x?x?x8xf32>, %lse: tensor<?x?x?xf32>)
    -> tensor<?x?x?xf32> {
  %c = flash.column_sums ins(%q, %k, %lse : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?x?x?xf32>)
      {scale = 0.35 : f32, group_size = 3, sum_groups} -> tensor<?x?x?xf32>
  return %c : tensor<?x?x?xf32>
}

// CHECK-NEXT: check @on_memrefs: c: {{.*}} PASS
func.func @on_memrefs(%q: memref<?x2x?x8xbf16, strided<[?, ?, ?, 1]>>, %k: memref<?x1x?x8xbf16>,
                      %lse: memref<?x2x?xf32>, %c: memref<?x1x?xf32>) {
  flash.column_sums
      ins(%q, %k, %lse : memref<?x2x?x8xbf16, strided<[?, ?, ?, 1]>>, memref<?x1x?x8xbf16>, memref<?x2x?xf32>)
      outs(%c : memref<?x1x?xf32>) {scale = 0.35 : f32, sum_groups}
  return
}
