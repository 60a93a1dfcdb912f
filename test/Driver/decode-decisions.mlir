// What the cost model of decoding says, by how many tiles (batch times key heads) there are beside 132 multiprocessors, and
// how many bytes of keys and values.
// DEFINE: %{batch} = 1
// DEFINE: %{keys} = 4096
// DEFINE: %{depth} = 128
// DEFINE: %{queries} = 1
// DEFINE: %{prefix} = FEW
// DEFINE: %{decide} = sed -e 's/BATCH/%{batch}/g; s/KEYS/%{keys}/g; s/DEPTH/%{depth}/g; s/QUERIES/%{queries}/g' %s > %t.mlir && flashc %t.mlir -o %t.ptx --print-decisions | FileCheck %s --check-prefix=%{prefix}

// RUN: %{decide}
// FEW: schedule: warps=8,stages=2,splits=8,chunk=0,merge=cluster

// Parts of 128 keys are the least: a tile of 16 for each warp.
// REDEFINE: %{keys} = 300
// REDEFINE: %{prefix} = SHORT
// RUN: %{decide}
// SHORT: schedule: warps=8,stages=2,splits=2,chunk=0,merge=cluster

// Narrow rows: more of them under way.
// REDEFINE: %{keys} = 4096
// REDEFINE: %{depth} = 64
// REDEFINE: %{prefix} = NARROW
// RUN: %{decide}
// NARROW: schedule: warps=8,stages=4,splits=8,chunk=0,merge=cluster

// 32 tiles: clusters of two fit beside each other, on 85% of the multiprocessors, and of four not.
// REDEFINE: %{batch} = 4
// REDEFINE: %{depth} = 128
// REDEFINE: %{prefix} = CLUSTER
// RUN: %{decide}
// CLUSTER: schedule: warps=8,stages=2,splits=2,chunk=0,merge=cluster

// 64 tiles of two for each key head: pairs fit on all multiprocessors.
// REDEFINE: %{queries} = 8
// REDEFINE: %{prefix} = PAIRS
// RUN: %{decide}
// PAIRS: schedule: warps=8,stages=2,splits=2,chunk=0,merge=cluster
// REDEFINE: %{queries} = 1

// A gigabyte: a CTA for each multiprocessor.
// REDEFINE: %{keys} = 65536
// REDEFINE: %{prefix} = LARGE
// RUN: %{decide}
// LARGE: schedule: warps=8,stages=2,splits=4,chunk=0,merge=kernel
// LARGE: splits: where neither the row nor an override sets it, `chunk` is 0, and the row has `merge=kernel`

// As many tiles as multiprocessors, or nearly: one part each.
// REDEFINE: %{batch} = 16
// REDEFINE: %{prefix} = FULL
// RUN: %{decide}
// FULL: schedule: warps=8,stages=2,splits=1,

// More: small CTAs as long as three of them hold all tiles; then two, whose rings are deeper; then large ones.
// REDEFINE: %{batch} = 32
// REDEFINE: %{prefix} = MORE
// RUN: %{decide}
// MORE: schedule: warps=4,stages=2,splits=1,
// REDEFINE: %{batch} = 64
// REDEFINE: %{prefix} = TWO
// RUN: %{decide}
// TWO: schedule: warps=4,stages=3,splits=1,
// REDEFINE: %{batch} = 67
// REDEFINE: %{prefix} = MOST
// RUN: %{decide}
// MOST: schedule: warps=8,stages=2,splits=1,

// Narrow rows stay with small CTAs up to sixteen tiles for each multiprocessor.
// REDEFINE: %{depth} = 64
// REDEFINE: %{batch} = 264
// REDEFINE: %{prefix} = SMALL
// RUN: %{decide}
// SMALL: schedule: warps=4,stages=2,splits=1,
// REDEFINE: %{batch} = 265
// REDEFINE: %{prefix} = LARGEST
// RUN: %{decide}
// LARGEST: schedule: warps=8,stages=2,splits=1,

// Deep heads have room for the rings of fewer warps.
// REDEFINE: %{batch} = 1
// REDEFINE: %{keys} = 4096
// REDEFINE: %{depth} = 256
// REDEFINE: %{prefix} = DEEP
// RUN: %{decide}
// DEEP: schedule: warps=4,stages=2,splits=4,chunk=0,merge=cluster

func.func @decode(%q: tensor<BATCHx32xQUERIESxDEPTHxbf16>, %kc: tensor<BATCHx8xKEYSxDEPTHxbf16>, %vc: tensor<BATCHx8xKEYSxDEPTHxbf16>,
                  %lengths: tensor<BATCHxi32>) -> tensor<BATCHx32xQUERIESxDEPTHxbf16> {
  %k = flash.cache_view %kc lengths(%lengths : tensor<BATCHxi32>): tensor<BATCHx8xKEYSxDEPTHxbf16> -> tensor<BATCHx8xKEYSxDEPTHxbf16>
  %v = flash.cache_view %vc lengths(%lengths : tensor<BATCHxi32>): tensor<BATCHx8xKEYSxDEPTHxbf16> -> tensor<BATCHx8xKEYSxDEPTHxbf16>
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<BATCHx32xQUERIESxDEPTHxbf16>, tensor<BATCHx8xKEYSxDEPTHxbf16>, tensor<BATCHx8xKEYSxDEPTHxbf16>) {scale = 0.125 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %n = tensor.extract %lengths[%b] : tensor<BATCHxi32>
      %length = arith.index_cast %n : i32 to index
      %keep = arith.cmpi slt, %j, %length : index
      flash.yield %keep : i1
    } -> tensor<BATCHx32xQUERIESxDEPTHxbf16>, tensor<BATCHx32xQUERIESxf32>
  return %o : tensor<BATCHx32xQUERIESxDEPTHxbf16>
}
