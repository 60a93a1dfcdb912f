// Which tiles a mask skips.
// RUN: sed s/x64x/x128x/g %s | flashc - --function=causal --explain --dims=B=2,Nq=300,Nk=500 | FileCheck %s --check-prefix=CAUSAL
// RUN: flashc %s --function=causal --explain --dims=B=2,Nq=300,Nk=500 --q-tile=32 --kv-tile=64 | FileCheck %s --check-prefix=ASKED
// RUN: flashc %s --function=causal --explain --dims=Nq=5000,Nk=500 | FileCheck %s --check-prefix=LONG
// RUN: flashc %s --function=causal --explain --dims=Nq=64,Nk=64 --algorithm=fa1 | FileCheck %s --check-prefix=FA1
// RUN: flashc %s --function=causal --explain --dims=Nq=64,Nk=64 --passes='func.func(flash-online-softmax,flash-tile{q-tile=16 kv-tile=16})' | FileCheck %s --check-prefix=PASSES

// Everything but the two products of q, k, v is known before a launch: extents of the call, tiles of its kernel.
// CAUSAL:      explain @causal (B = 2, Hq = 4, Nq = 300, Nk = 500)
// CAUSAL-NEXT: mask: exact
// CAUSAL:        j <= i + Nk - Nq
// CAUSAL:        j <= Nk - 1
// CAUSAL:      visits the keys, for queries i0 to i0 + rows - 1
// CAUSAL-NEXT:   kept
// CAUSAL:      tiles: 128 queries x 128 keys, by the schedule for sm_90a of up to 4096 queries (built-in schedule table, line {{[0-9]+}}: d<=128 {{.*}} queries<=4096: {{.*}})
// CAUSAL-NEXT: of 96 tiles (8 heads of 3 x 4)
// CAUSAL-NEXT:   skipped            8     8.3 %
// CAUSAL-NEXT:   partial           40    41.7 %
// CAUSAL-NEXT:   full              48    50.0 %
// CAUSAL-NOT:  each

// ASKED: tiles: 32 queries x 64 keys, as asked for
// ASKED: of 640 tiles (8 heads of 10 x 8)
// LONG: tiles: {{[0-9]+}} queries x {{[0-9]+}} keys, by the schedule for sm_90a (built-in schedule table, line {{[0-9]+}}: d<=64

// More rows of tiles than are run: a sample of them, which says so.
// RUN: flashc %s --function=causal --explain --dims=Nq=2147483647,Nk=2147483647 --q-tile=128 --kv-tile=64 | FileCheck %s --check-prefix=VAST
// VAST: of 2251799813685248 tiles (4 heads of 16777216 x 33554432), estimated from 262144 rows of each head
// VAST-NEXT: skipped {{[0-9]+}} 50.0 %
// VAST-NEXT: partial    134217728 0.0 %
// VAST-NEXT: full {{[0-9]+}} 50.0 %

// Loops that nobody bounded visit every tile.
// FA1: mask: opaque
// FA1-NEXT: because the passes do not bound loops (flash-bound-loops)
// FA1: tiles: 64 queries x 64 keys, by default, since there is no GPU kernel
// FA1: partial            4   100.0 %
// PASSES: mask: opaque
// PASSES: tiles: 16 queries x 16 keys, by the passes
// PASSES: partial           64   100.0 %
func.func @causal(%q: tensor<?x4x?x64xbf16>, %k: tensor<?x4x?x64xbf16>, %v: tensor<?x4x?x64xbf16>)
    -> tensor<?x4x?x64xbf16> {
  %c2 = arith.constant 2 : index
  %nq = tensor.dim %q, %c2 : tensor<?x4x?x64xbf16>
  %nk = tensor.dim %k, %c2 : tensor<?x4x?x64xbf16>
  %shift = arith.subi %nk, %nq : index
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<?x4x?x64xbf16>, tensor<?x4x?x64xbf16>, tensor<?x4x?x64xbf16>)
      {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %last = arith.addi %i, %shift : index
        %keep = arith.cmpi sle, %j, %last : index
        flash.yield %keep : i1
      } -> tensor<?x4x?x64xbf16>, tensor<?x4x?xf32>
  return %o : tensor<?x4x?x64xbf16>
}
