// Which kernel reads a cache: few rows of queries, a decoding one; many, or any number, the forward one. Who names an
// algorithm, or a field of a schedule that one of them has, gets that.
// DEFINE: %{queries} = 1
// DEFINE: %{options} =
// DEFINE: %{prefix} = ONE
// DEFINE: %{decide} = sed -e 's/QUERIES/%{queries}/g' %s > %t.mlir && flashc %t.mlir -o %t.ptx --print-decisions %{options} | FileCheck %s --check-prefix=%{prefix}

// RUN: %{decide}
// ONE: decisions for a decoding kernel: 4 rows of queries for a key head, 64 at most

// REDEFINE: %{queries} = 16
// REDEFINE: %{prefix} = SIXTEEN
// RUN: %{decide}
// SIXTEEN: decisions for a decoding kernel: 64 rows of queries for a key head, 64 at most

// REDEFINE: %{queries} = 17
// REDEFINE: %{prefix} = MORE
// RUN: %{decide}
// MORE:      decisions for target=sm_90a dtype=bf16 d=64 dv=64 mask=bounds
// MORE-NEXT: a forward kernel that reads a cache: 68 rows of queries for a key head, more than 64
// MORE-NEXT: entry prefill: 17 queries
// MORE:      loops over keys follow the mask: exact

// REDEFINE: %{options} = --algorithm=split-kv
// REDEFINE: %{prefix} = SPLIT
// RUN: %{decide}
// SPLIT: decisions for a decoding kernel: the algorithm split-kv was asked for

// REDEFINE: %{options} = --schedule=merge=cluster,splits=2
// REDEFINE: %{prefix} = FIELD
// RUN: %{decide}
// FIELD:      decisions for a decoding kernel: the schedule that was asked for is of that
// FIELD-NEXT: entry prefill:
// FIELD-NEXT:   row: built-in schedule table, line {{.*}}: kind=decode
// FIELD-NEXT:   schedule: warps=8,stages=2,splits=2,chunk=0,merge=cluster

// REDEFINE: %{queries} = 1
// REDEFINE: %{options} = --algorithm=fa2
// REDEFINE: %{prefix} = FORWARD
// RUN: %{decide}
// FORWARD: a forward kernel that reads a cache: the algorithm fa2 was asked for

// REDEFINE: %{options} = --schedule=kv-tile=64
// REDEFINE: %{prefix} = TILE
// RUN: %{decide}
// TILE: a forward kernel that reads a cache: the schedule that was asked for is of that

// Both have parts of the keys. The forward kernel's leave in f32, for a kernel that merges them.
// REDEFINE: %{queries} = 17
// REDEFINE: %{options} = --schedule=splits=3
// REDEFINE: %{prefix} = PARTS
// RUN: %{decide}
// RUN: FileCheck %s --check-prefix=MERGE --input-file=%t.ptx
// PARTS:     a forward kernel that reads a cache: 68 rows
// PARTS:     persistent = false (where splits is above 1)
// PARTS:     store = registers
// PARTS:     splits = 3 (override)
// PARTS:     CTAs: mul(ceildiv(17, 256), 3) x 8 x arg0.dim0
// MERGE:     .entry prefill(
// MERGE:     .entry prefill_merge(
// RUN: not flashc %t.mlir --schedule=splits=3,max=unified 2>&1 | FileCheck %s --check-prefix=UNIFIED
// UNIFIED: expected splits=1 for max=unified
// RUN: flashc %t.mlir --schedule=splits=3,persistent=true --emit=tile | FileCheck %s --check-prefix=PERSISTENT
// PERSISTENT: tile.warp_specialize
// PERSISTENT: gpu.func @prefill_order(
// PERSISTENT: gpu.func @prefill_merge(
// RUN: not flashc %t.mlir --schedule=splits=65 2>&1 | FileCheck %s --check-prefix=MANY
// MANY: expected 1 to 64 splits, got 65

// What both have says nothing.
// REDEFINE: %{queries} = 1
// REDEFINE: %{options} = --schedule=stages=2
// REDEFINE: %{prefix} = BOTH
// RUN: %{decide}
// BOTH: decisions for a decoding kernel: 4 rows of queries for a key head, 64 at most

// REDEFINE: %{queries} = ?
// REDEFINE: %{options} =
// REDEFINE: %{prefix} = ANY
// RUN: %{decide}
// RUN: FileCheck %s --check-prefix=PTX --input-file=%t.ptx
// ANY:      a forward kernel that reads a cache: the number of queries is not known
// ANY-NEXT: entry prefill: any number of queries
// ANY:      work tiles: sorted by their work, since
// PTX:     .entry prefill(
// PTX-DAG: @p ld.global.b32 next, [entry];
// PTX-DAG: st.shared.v4.b32
// PTX-DAG: wgmma.mma_async

// What the forward kernel cannot read is for the other one: pages whose rows have no period of the swizzle, targets without
// TMA.
// REDEFINE: %{options} = --target=sm_80
// REDEFINE: %{prefix} = AMPERE
// RUN: %{decide}
// AMPERE: decisions for a decoding kernel: the target has no TMA
// RUN: sed -e 's/QUERIES/?/g; s/x16x64xbf16/x12x64xbf16/g' %s > %t.mlir && flashc %t.mlir -o %t.ptx --print-decisions | FileCheck %s --check-prefix=ROWS
// ROWS: decisions for a decoding kernel: pages have 12 rows, no multiple of 8
// RUN: sed -e 's/QUERIES/?/g; s/x16x64xbf16/x12x64xbf16/g' %s > %t.mlir && not flashc %t.mlir -o %t.ptx --algorithm=fa2 2>&1 | FileCheck %s --check-prefix=PAGES
// PAGES: error: expected pages of a multiple of 8 rows, got 12
func.func @prefill(%q: tensor<?x8xQUERIESx64xbf16>, %kc: tensor<?x2x16x64xbf16>, %vc: tensor<?x2x16x64xbf16>, %lengths: tensor<?xi32>,
                   %table: tensor<?x?xi32>) -> tensor<?x8xQUERIESx64xbf16> {
  %c2 = arith.constant 2 : index
  %nq = tensor.dim %q, %c2 : tensor<?x8xQUERIESx64xbf16>
  %k = flash.cache_view %kc lengths(%lengths : tensor<?xi32>) pages(%table : tensor<?x?xi32>) : tensor<?x2x16x64xbf16> -> tensor<?x2x?x64xbf16>
  %v = flash.cache_view %vc lengths(%lengths : tensor<?xi32>) pages(%table : tensor<?x?xi32>) : tensor<?x2x16x64xbf16> -> tensor<?x2x?x64xbf16>
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<?x8xQUERIESx64xbf16>, tensor<?x2x?x64xbf16>, tensor<?x2x?x64xbf16>) {scale = 0.125 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %n = tensor.extract %lengths[%b] : tensor<?xi32>
      %length = arith.index_cast %n : i32 to index
      %past = arith.subi %length, %nq : index
      %position = arith.addi %i, %past : index
      %exists = arith.cmpi slt, %j, %length : index
      %sees = arith.cmpi sle, %j, %position : index
      %keep = arith.andi %exists, %sees : i1
      flash.yield %keep : i1
    } -> tensor<?x8xQUERIESx64xbf16>, tensor<?x8xQUERIESxf32>
  return %o : tensor<?x8xQUERIESx64xbf16>
}
