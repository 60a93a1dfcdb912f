// Tiles are those of the kernel that a launch takes: of 256 queries for D = 16, and what --schedule says. With Br queries
// q is read once, and k and v for each of the N / Br tiles of queries: 2 N D + 4 N D (N / Br) bytes. Nk follows Nq.
// RUN: flashc %s --print-cost --function=all --dims=Nq=4096 | FileCheck %s --check-prefix=KERNEL
// RUN: flashc %s --print-cost --function=all --dims=Nk=4096 --q-tile=256 --kv-tile=64 | FileCheck %s --check-prefix=KERNEL
// RUN: flashc %s --print-cost --function=all --dims=Nq=4096 --schedule=consumers=2 | FileCheck %s --check-prefix=TWO
// KERNEL: cost @all by fa2 (B = 1, Hq = 1, Nq = 4096, Nk = 4096): matmul FLOPs 1073741824, {{.*}} bytes read 4325376, bytes written 147456,
// TWO: bytes read 8519680, bytes written 147456,

// Consumers that visit their own keys compute tiles of 64 queries, and load what all four see: causal, with 64 keys a tile,
// 64 * 65 / 2 tiles of 4 * 64 * 64 * 16 FLOPs, and keys for 256, 512, ... queries. Otherwise 544 tiles of four times as many.
// RUN: flashc %s --print-cost --function=causal --dims=Nq=4096 | FileCheck %s --check-prefix=OWN
// RUN: flashc %s --print-cost --function=causal --dims=Nq=4096 --schedule=own-keys=false | FileCheck %s --check-prefix=COMMON
// OWN: matmul FLOPs 545259520, {{.*}} bytes read 2359296,
// COMMON: matmul FLOPs 570425344, {{.*}} bytes read 2359296,

// Without loops S and P are in memory, 4 N^2 bytes each time: at least 5 reads and 3 writes, as in standard attention, and
// the state. The untouched op is standard attention.
// RUN: flashc %s --print-cost --function=all --dims=Nq=128 --passes=flash-online-softmax | FileCheck %s --check-prefix=SOFTMAX
// RUN: flashc %s --print-cost --function=all --dims=Nq=128 --passes=flash-fuse | FileCheck %s --check-prefix=STANDARD
// RUN: flashc %s --print-cost --function=all --dims=Nq=128 --algorithm=standard | FileCheck %s --check-prefix=STANDARD
// RUN: flashc %s --print-cost --function=all --dims=Nq=128 --passes=flash-online-softmax,flash-tile | FileCheck %s --check-prefix=TILED
// SOFTMAX: matmul FLOPs 1048576, {{.*}} bytes read 360960, bytes written 220160,
// STANDARD: matmul FLOPs 1048576, {{.*}} bytes read 350208, bytes written 210432,
// TILED: matmul FLOPs 1048576, {{.*}} bytes read 44032, bytes written 32256,

// A schedule that the kernel cannot have.
// RUN: not flashc %s --print-cost --function=all --schedule=kv-tile=7 2>&1 | FileCheck %s --check-prefix=SCHEDULE
// SCHEDULE: error: schedule: expected

!t = tensor<?x1x?x16xbf16>

func.func @all(%q: !t, %k: !t, %v: !t) -> (!t, tensor<?x1x?xf32>) {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 2.500000e-01 : f32} -> !t, tensor<?x1x?xf32>
  return %o, %lse : !t, tensor<?x1x?xf32>
}

func.func @causal(%q: !t, %k: !t, %v: !t) -> (!t, tensor<?x1x?xf32>) {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 2.500000e-01 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      } -> !t, tensor<?x1x?xf32>
  return %o, %lse : !t, tensor<?x1x?xf32>
}
