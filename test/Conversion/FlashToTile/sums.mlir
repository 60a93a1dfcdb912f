// Who sums the rows of P: the tensor cores, by eight columns of ones beside V, or the threads, where the log-sum-exp is an
// output too. A value dimension of 64, or more, where the schedule says so.
// DEFINE: %{schedule} =
// DEFINE: %{queries} = 192
// DEFINE: %{convert} = flashc-opt --flash-online-softmax --flash-tile="q-tile=%{queries} kv-tile=128" --canonicalize --cse \
// DEFINE:   --flash-swap-loops --flash-parallelize --canonicalize --cse --convert-flash-to-tile=schedule=%{schedule} \
// DEFINE:   --canonicalize --cse
// RUN: sed s/TYPE/bf16/g %s | %{convert} | FileCheck %s --check-prefixes=TENSOR -DTYPE=bf16
// RUN: sed s/TYPE/f16/g %s | %{convert} | FileCheck %s --check-prefixes=TENSOR -DTYPE=f16
// RUN: sed -e s/TYPE/bf16/g -e s,//LSE,, -e '/without$/d' %s | %{convert} \
// RUN:   | FileCheck %s --check-prefixes=THREADS,LOG -DTYPE=bf16
// REDEFINE: %{schedule} = tensor-sums=true
// RUN: sed s/TYPE/bf16/g %s | %{convert} | FileCheck %s --check-prefix=TENSOR -DTYPE=bf16
// RUN: sed -e s/TYPE/bf16/g -e s,//LSE,, -e '/without$/d' %s | not %{convert} 2>&1 | FileCheck %s --check-prefix=REFUSED
// REDEFINE: %{schedule} = tensor-sums=false
// RUN: sed s/TYPE/bf16/g %s | %{convert} | FileCheck %s --check-prefix=THREADS -DTYPE=bf16
// RUN: sed s/TYPE/f16/g %s | %{convert} | FileCheck %s --check-prefix=THREADS -DTYPE=f16
// REDEFINE: %{queries} = 128
// REDEFINE: %{schedule} = consumers=2,kv-tile=128,stages=2,tensor-sums=true
// RUN: sed -e s/x64xTYPE/x128xbf16/g %s | %{convert} | FileCheck %s --check-prefix=WIDE
// REDEFINE: %{schedule} = consumers=2,kv-tile=128,stages=2
// RUN: sed -e s/x64xTYPE/x128xbf16/g %s | %{convert} | FileCheck %s --check-prefix=NARROW

// WIDE: tile.mma_async %{{.*}} ones %{{.*}} into %{{.*}} : tensor<64x136xf32, #tile.acc>
// NARROW-NOT: {{ ones }}

// REFUSED: error: schedule: expected no log-sum-exp output for tensor-sums: P is rounded to 16 bits before it is summed, which the log-sum-exp would show

// The output has eight more columns, the sums; nothing else is carried but the maximum.
// TENSOR: tile.alloc_ring : <4, 128, 64, [[TYPE]]>
// TENSOR: %[[VRING:.*]] = tile.alloc_ring : <4, 128, 64, [[TYPE]]>
// TENSOR-NEXT: %[[ONES:.*]] = tile.alloc_slot ones : <16, 64, [[TYPE]]>
// TENSOR: %[[R:.*]]:2 = scf.for {{.*}} iter_args(%[[ACC:.*]] = %{{.*}}, %[[M:.*]] = %{{.*}}) -> (tensor<64x72xf32, #tile.acc>, tensor<64xf32, #tile.row>) {
// TENSOR: %[[P:.*]] = math.exp2 {{.*}} : tensor<64x128xf32, #tile.acc>
// TENSOR-NOT: tile.row_reduce sum
// TENSOR: %[[PA:.*]] = tile.to_operand_a %[[P]] : {{.*}} -> tensor<64x128x[[TYPE]], #tile.operand_a>
// TENSOR: %[[ACC1:.*]] = scf.if
// TENSOR: tile.scale_rows %[[ACC]], %{{.*}} : tensor<64x72xf32, #tile.acc>
// TENSOR: %[[V:.*]] = tile.load %{{.*}} into %[[VRING]]
// TENSOR: %[[T:.*]] = tile.mma_async %[[PA]], %[[V]] ones %[[ONES]] : !tile.slot<16, 64, [[TYPE]]> into %[[ACC1]] : tensor<64x72xf32, #tile.acc>
// TENSOR: %[[O:.*]] = tile.mma_wait %[[T]]
// TENSOR: scf.yield %[[O]], %{{.*}} : tensor<64x72xf32, #tile.acc>, tensor<64xf32, #tile.row>
// TENSOR-NOT: tile.combine
// TENSOR: %[[COLUMNS:.*]], %[[SUMS:.*]] = tile.split_sums %[[R]]#0 : tensor<64x72xf32, #tile.acc> -> tensor<64x64xf32, #tile.acc>, tensor<64xf32, #tile.row>
// TENSOR: %[[INVERSE:.*]] = arith.divf %{{.*}}, %[[SUMS]]
// TENSOR: %[[FACTOR:.*]] = arith.select %{{.*}}, %{{.*}}, %[[INVERSE]]
// TENSOR: tile.scale_rows %[[COLUMNS]], %[[FACTOR]]
// TENSOR-NOT: math.log2

// THREADS-NOT: tile.alloc_slot ones
// THREADS: %[[R:.*]]:3 = scf.for {{.*}} -> (tensor<64x64xf32, #tile.acc>, tensor<64xf32, #tile.row>, tensor<64xf32, #tile.lane_partial>) {
// THREADS: %[[P:.*]] = math.exp2 {{.*}} : tensor<64x128xf32, #tile.acc>
// THREADS: tile.row_reduce sum %[[P]]
// THREADS: tile.to_operand_a %[[P]] : {{.*}} -> tensor<64x128x[[TYPE]], #tile.operand_a>
// THREADS-NOT: {{ ones }}
// THREADS: %[[SUMS:.*]] = tile.combine %[[R]]#2
// THREADS-NOT: tile.split_sums
// THREADS: tile.scale_rows %[[R]]#0,
// LOG: math.log2 %[[SUMS]]

!q = tensor<2x2x384x64xTYPE>
!lse = tensor<2x2x384xf32>
func.func @attention(%q: !q, %k: !q, %v: !q) -> !q { // without
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 0.125 : f32} -> !q, !lse // without
  return %o : !q // without
//LSE func.func @attention(%q: !q, %k: !q, %v: !q) -> (!q, !lse) {
//LSE   %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 0.125 : f32} -> !q, !lse
//LSE   return %o, %lse : !q, !lse
}
