// Ops with scores other than attention are explained, too. If an op streams queries past resident keys, the bounds are
// those of the loop over queries. For gradients the explained nest is the first one, that of the main kernel.
// RUN: flashc %s --function=grads --explain --dims=B=2,Nq=256,Nk=256 --q-tile=64 --kv-tile=64 | FileCheck %s
// RUN: flashc %s --function=grads --explain --dims=B=2,Nq=256,Nk=256 --schedule=split-gradients=queries,kv-tile=32 \
// RUN:   | FileCheck %s --check-prefix=SPLIT
// RUN: flashc %s --function=grads --explain --dims=B=1,Nq=5000,Nk=3000 | FileCheck %s --check-prefix=SIZES
// RUN: flashc %s --function=grads --explain --dims=B=1,Nq=70,Nk=70 --algorithm=fa1 --q-tile=16 --kv-tile=16 \
// RUN:   | FileCheck %s --check-prefix=FA1
// RUN: flashc %s --function=sums --explain --dims=B=1,Nq=200,Nk=384 | FileCheck %s --check-prefix=SUMS

// CHECK:      explain @grads (B = 2, Hq = 2, Nq = 256, Nk = 256)
// CHECK-NEXT: mask: exact
// CHECK-NEXT: keeps the pairs (i, j) with
// CHECK-NEXT:   i >= j{{$}}
// CHECK:      visits the queries, for keys j0 to j0 + keys - 1
// CHECK-NEXT:   kept [(j0 floordiv 64) * 64, end)
// CHECK-NEXT:   cut [begin, ((j0 + keys - 1) ceildiv 64) * 64)
// CHECK-NEXT: tiles: 64 queries x 64 keys, as asked for
// CHECK-NEXT: of 64 tiles (4 heads of 4 x 4)
// CHECK-NEXT:   skipped 24
// CHECK-NEXT:   partial 16
// CHECK-NEXT:   full 24

// 2 tiles of 128 keys, 8 of 32 queries: of the first 4 are cut, of the second 4 are skipped and 4 cut.
// SPLIT:      tiles: 32 queries x 128 keys, by the schedule for sm_90a
// SPLIT-NEXT: of 64 tiles (4 heads of 2 x 8)
// SPLIT-NEXT:   skipped 16
// SPLIT-NEXT:   partial 32
// SPLIT-NEXT:   full 16

// SIZES:      visits the queries, for keys
// SIZES:      tiles: 128 queries x 128 keys, by the schedule for sm_90a
// SIZES-NEXT: of 1920 tiles (2 heads of 24 x 40)

// FA1:      tiles: 16 queries x 16 keys
// FA1-NEXT: of 50 tiles (2 heads of 5 x 5)

// SUMS:      explain @sums
// SUMS:      visits the queries, for keys
// SUMS:      tiles: 128 queries x 192 keys
// SUMS-NEXT: of 4 tiles (1 heads of 2 x 2)
// SUMS-NEXT:   skipped 1
// SUMS-NEXT:   partial 3

!q = tensor<?x2x?x64xbf16>
!k = tensor<?x1x?x64xbf16>
func.func @grads(%q: !q, %k: !k, %v: !k, %o: !q, %lse: tensor<?x2x?xf32>, %do: !q) -> (!q, !k, !k) {
  %g:3 = flash.attention_backward ins(%q, %k, %v, %o, %lse, %do : !q, !k, !k, !q, tensor<?x2x?xf32>, !q) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      } -> !q, !k, !k
  return %g#0, %g#1, %g#2 : !q, !k, !k
}

func.func @sums(%q: tensor<?x1x?x64xbf16>, %k: tensor<?x1x?x64xbf16>, %lse: tensor<?x1x?xf32>) -> tensor<?x1x?xf32> {
  %c = flash.column_sums ins(%q, %k, %lse : tensor<?x1x?x64xbf16>, tensor<?x1x?x64xbf16>, tensor<?x1x?xf32>) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      } -> tensor<?x1x?xf32>
  return %c : tensor<?x1x?xf32>
}
