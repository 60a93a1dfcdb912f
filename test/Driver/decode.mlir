// The schedule of a decoding kernel, and why it is that.
// RUN: flashc %s -o %t.ptx --print-decisions | FileCheck %s
// RUN: FileCheck %s --check-prefix=PTX --input-file=%t.ptx
// RUN: flashc %s -o %t2.ptx --schedule=splits=16,merge=kernel --print-decisions | FileCheck %s --check-prefix=KERNEL
// RUN: flashc %s -o %t3.ptx --schedule=chunk=256,merge=kernel --print-decisions | FileCheck %s --check-prefix=CHUNK
// RUN: flashc %s -o %t5.ptx --target=sm_80 --print-decisions | FileCheck %s --check-prefix=AMPERE
// RUN: FileCheck %s --check-prefix=PTX80 --input-file=%t5.ptx
// RUN: not flashc %s -o %t4.ptx --schedule=splits=3,merge=cluster 2>&1 | FileCheck %s --check-prefix=THREE
// RUN: not flashc %s -o %t4.ptx --schedule=chunk=8,merge=kernel 2>&1 | FileCheck %s --check-prefix=EIGHT
// RUN: not flashc %s -o %t4.ptx --schedule=chunk=256,merge=cluster 2>&1 | FileCheck %s --check-prefix=CHUNKS
// RUN: not flashc %s -o %t4.ptx --schedule=warps=16,stages=8 2>&1 | FileCheck %s --check-prefix=MEMORY
// RUN: not flashc %s -o %t4.ptx --schedule=merge=later 2>&1 | FileCheck %s --check-prefix=MERGE
// RUN: not flashc %s -o %t4.ptx --schedule=stages=1 2>&1 | FileCheck %s --check-prefix=STAGES
// RUN: not flashc %s -o %t4.ptx --schedule=warps=32 2>&1 | FileCheck %s --check-prefix=WARPS

// CHECK:      decisions for a decoding kernel
// CHECK-NEXT: entry decode:
// CHECK-NEXT:   row: built-in schedule table, line {{.*}}: kind=decode waves<=1 key-bytes<=256: warps=8,stages=4
// CHECK-NEXT:   schedule: warps=8,stages=4,splits=8,chunk=0,merge=cluster
// CHECK-NEXT:   splits: where neither the row nor an override sets it, `chunk` is 0, and the row has `merge=cluster`
// CHECK-NEXT:   CTAs: 8 x mul(ceildiv(8, 4), ceildiv(1, 1)) x 1, in clusters of 8
// PTX:        .reqnctapercluster 8
// PTX:        mma.sync.aligned.m16n8k16
// PTX:        st.async.weak.shared::cluster
// KERNEL:     schedule: warps=8,stages=4,splits=16,chunk=0,merge=kernel
// KERNEL:     CTAs: 16 x {{.*}}, in clusters of 1
// CHUNK:      CTAs: 16 x {{.*}}, in clusters of 1
// AMPERE:     schedule: warps=8,stages=4,splits=8,chunk=0,merge=kernel
// PTX80:      .target sm_80
// PTX80:      cp.async.cg.shared.global
// THREE:      error: schedule: expected 2, 4 or 8 splits that divide the warps for merge=cluster, got 3 of 8 warps
// EIGHT:      error: schedule: expected chunks of a multiple of 16 keys, got 8
// CHUNKS:     error: schedule: expected merge=kernel for chunks, whose number is that of the longest sequence
// MEMORY:     error: schedule: expected at most 232448 bytes of shared memory, got
// MERGE:      error: schedule: expected cluster or kernel for 'merge', got 'later'
// STAGES:     error: schedule: expected 2 to 64 stages, got 1
// WARPS:      error: schedule: expected at most 16 warps, got 32
func.func @decode(%q: tensor<1x8x1x64xbf16>, %kc: tensor<1x2x4096x64xbf16>, %vc: tensor<1x2x4096x64xbf16>, %lengths: tensor<1xi32>)
    -> tensor<1x8x1x64xbf16> {
  %k = flash.cache_view %kc lengths(%lengths : tensor<1xi32>): tensor<1x2x4096x64xbf16> -> tensor<1x2x4096x64xbf16>
  %v = flash.cache_view %vc lengths(%lengths : tensor<1xi32>): tensor<1x2x4096x64xbf16> -> tensor<1x2x4096x64xbf16>
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<1x8x1x64xbf16>, tensor<1x2x4096x64xbf16>, tensor<1x2x4096x64xbf16>) {scale = 0.125 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %n = tensor.extract %lengths[%b] : tensor<1xi32>
      %length = arith.index_cast %n : i32 to index
      %keep = arith.cmpi slt, %j, %length : index
      flash.yield %keep : i1
    } -> tensor<1x8x1x64xbf16>, tensor<1x8x1xf32>
  return %o : tensor<1x8x1x64xbf16>
}
