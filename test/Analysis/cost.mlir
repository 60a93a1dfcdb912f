// FLOPs and device memory traffic against the papers' formulas, for one head of N x N positions, d = dv = 16, bf16
// (2 bytes; S, P and the state are f32, 4 bytes). The products are 2 N^2 (d + dv) FLOPs for every algorithm.
//
// Standard attention, Theta(Nd + N^2): q, k, v are read once (3 * 2Nd). S is written by Q K^T, read and written by the
// scaling, read by the row maximum and the exponential; P is written by the exponential, read by the row sum and P V:
// 5 reads and 3 writes of 4N^2. Row vectors (4N): the maximum is written, and read by the exponential and the lse; the
// sum is written, and read by the division and the lse. The accumulator (4Nd) is written and read; o (2Nd), lse (4N).
//   read = 6Nd + 20N^2 + 16N + 4Nd, written = 12N^2 + 8N + 4Nd + 2Nd + 4N
// RUN: flashc %s --print-cost --algorithm=standard --dims=Nq=128,Nk=128 | FileCheck %s --check-prefix=STANDARD128
// RUN: flashc %s --print-cost --algorithm=standard --dims=Nq=256,Nk=256 | FileCheck %s --check-prefix=STANDARD256
// STANDARD128: cost @head by standard (B = 1, Hq = 1, Nq = 128, Nk = 128): matmul FLOPs 1048576,
// STANDARD128-SAME: bytes read 350208, bytes written 210432, FLOPs per byte
// STANDARD256: matmul FLOPs 4194304, {{.*}} bytes read 1355776, bytes written 814080,

// FlashAttention, Theta(N^2 d^2 / M) with M ~ Bc d on chip: with Tc = N / Bc steps over the keys, k and v are read once
// (4Nd), q in each step (2Nd Tc), the state of 4(d + 2) bytes a row is read and written in each step, after it was
// initialised and before it is finalised (o, lse).
//   read = 4Nd + 2Nd Tc + 4N(d + 2)(Tc + 1), written = 4N(d + 2)(1 + Tc) + 2Nd + 4N
// Halving Bc doubles what is proportional to Tc; the query tile does not matter.
// RUN: flashc %s --print-cost --algorithm=fa1 --dims=Nq=256,Nk=256 | FileCheck %s --check-prefix=FA1-64
// RUN: flashc %s --print-cost --algorithm=fa1 --dims=Nq=256,Nk=256 --q-tile=32 | FileCheck %s --check-prefix=FA1-64
// RUN: flashc %s --print-cost --algorithm=fa1 --dims=Nq=256,Nk=256 --kv-tile=32 | FileCheck %s --check-prefix=FA1-32
// FA1-64: cost @head by fa1 {{.*}}: matmul FLOPs 4194304, {{.*}} bytes read 141312, bytes written 101376,
// FA1-32: cost @head by fa1 {{.*}}: matmul FLOPs 4194304, {{.*}} bytes read 247808, bytes written 175104,

// FlashAttention-2: q is read and o and lse are written once; k and v are read for each of the Tr = N / Br query tiles.
//   read = 2Nd + 4Nd Tr, written = 2Nd + 4N
// RUN: flashc %s --print-cost --dims=Nq=256 --q-tile=64 --kv-tile=64 | FileCheck %s --check-prefix=FA2
// RUN: flashc %s --print-cost --dims=Nq=256,Nk=256 --q-tile=128 --kv-tile=64 | FileCheck %s --check-prefix=FA2-128
// FA2: cost @head by fa2 {{.*}}: matmul FLOPs 4194304, {{.*}} bytes read 73728, bytes written 9216,
// FA2-128: cost @head by fa2 {{.*}}: matmul FLOPs 4194304, {{.*}} bytes read 40960, bytes written 9216,

// Clamped tiles read what is there, and compute on the padding too: 63 queries and 65 keys are 1 and 2 tiles of 64.
//   read = 2 * 63 * 16 + 4 * 65 * 16
// RUN: flashc %s --print-cost --dims=Nq=63,Nk=65 --q-tile=64 --kv-tile=64 | FileCheck %s --check-prefix=RAGGED
// RAGGED: matmul FLOPs 524288, {{.*}} bytes read 6176, bytes written 2268,

// Causal, 4 x 4 tiles: 10 of 16 are visited.
// RUN: flashc %s --print-cost --function=causal --dims=Nk=256 --q-tile=64 --kv-tile=64 | FileCheck %s --check-prefix=CAUSAL
// CAUSAL: cost @causal by fa2 {{.*}}: matmul FLOPs 2621440, {{.*}} bytes read 49152, bytes written 9216,

// 2^31 - 1 of them: 2^25 x 2^25 tiles of 4 * 64 * 64 * 16 FLOPs each; but no more than 2^17 loops of different lengths.
// RUN: flashc %s --print-cost --function=head --dims=Nq=2147483647 --q-tile=64 --kv-tile=64 | FileCheck %s --check-prefix=VAST
// RUN: not flashc %s --print-cost --function=causal --dims=Nq=2147483647 --q-tile=64 --kv-tile=64 2>&1 | FileCheck %s --check-prefix=LOOPS
// VAST: matmul FLOPs 295147905179352825856,
// LOOPS: error: expected at most 131072 iterations to count one by one, got 33554432

// RUN: not flashc %s --print-cost --function=nobody 2>&1 | FileCheck %s --check-prefix=NOBODY
// NOBODY: error: expected a function named 'nobody', got none

func.func @head(%q: tensor<?x1x?x16xbf16>, %k: tensor<?x1x?x16xbf16>, %v: tensor<?x1x?x16xbf16>)
    -> (tensor<?x1x?x16xbf16>, tensor<?x1x?xf32>) {
  %o, %lse = flash.attention
      ins(%q, %k, %v : tensor<?x1x?x16xbf16>, tensor<?x1x?x16xbf16>, tensor<?x1x?x16xbf16>)
      {scale = 2.500000e-01 : f32} -> tensor<?x1x?x16xbf16>, tensor<?x1x?xf32>
  return %o, %lse : tensor<?x1x?x16xbf16>, tensor<?x1x?xf32>
}

func.func @causal(%q: tensor<?x1x?x16xbf16>, %k: tensor<?x1x?x16xbf16>, %v: tensor<?x1x?x16xbf16>)
    -> (tensor<?x1x?x16xbf16>, tensor<?x1x?xf32>) {
  %o, %lse = flash.attention
      ins(%q, %k, %v : tensor<?x1x?x16xbf16>, tensor<?x1x?x16xbf16>, tensor<?x1x?x16xbf16>)
      {scale = 2.500000e-01 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      } -> tensor<?x1x?x16xbf16>, tensor<?x1x?xf32>
  return %o, %lse : tensor<?x1x?x16xbf16>, tensor<?x1x?xf32>
}
