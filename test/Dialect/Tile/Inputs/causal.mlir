// The sequential program of causal attention, as convert-flash-to-tile leaves it, with a simple softmax.

!acc = tensor<64x64xf32, #tile.acc>
!row = tensor<64xf32, #tile.row>
!yes = tensor<64xi1, #tile.row>
!part = tensor<64xf32, #tile.lane_partial>
!a = tensor<64x64xbf16, #tile.operand_a>
!map = !tile.tensor_map<64 x bf16>
!qring = !tile.ring<1, 64, 64, bf16, private true>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
!out = memref<1x8x?x64xbf16, strided<[?, ?, ?, 1]>>
!lseout = memref<1x8x?xf32, strided<[?, ?, 1]>>

gpu.module @kernels {
  gpu.func @causal(%qmap: !map, %kmap: !map, %vmap: !map, %o: !out, %lse: !lseout, %nq: index, %nk: index) kernel
      attributes {tile.schedule = #tile.schedule<consumers = 2, producer_registers = 24,
                                                 consumer_registers = 240, overlap = true, ping_pong = true>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %qring = tile.alloc_ring : !qring
    %kring = tile.alloc_ring : !ring
    %vring = tile.alloc_ring : !ring
    tile.program 2 {
    ^bb0(%w: index):
      %zero = arith.constant dense<0.0> : !acc
      %lowest = arith.constant dense<0xFF800000> : !row
      %none = arith.constant dense<0.0> : !part
      %bx = gpu.block_id x
      %by = gpu.block_id y
      %bz = gpu.block_id z
      %cta = arith.muli %bx, %c128 : index
      %mine = arith.muli %w, %c64 : index
      %row = arith.addi %cta, %mine : index
      %last = arith.addi %cta, %c128 : index
      %end = arith.minsi %last, %nk : index
      %tiles = arith.ceildivsi %end, %c64 : index
      %total = arith.maxsi %tiles, %c1 : index
      %full_lo = arith.constant 2 : index
      %q = tile.load %qmap[%bz, %by, %row] into %qring : !map, !qring -> !slot
      %r:3 = scf.for %u = %c0 to %total step %c1 iter_args(%acc = %zero, %m = %lowest, %l = %none) -> (!acc, !row, !part) {
        %back = arith.subi %total, %u : index
        %tile = arith.subi %back, %c1 : index
        %j = arith.muli %tile, %c64 : index
        %k = tile.load %kmap[%bz, %by, %j] into %kring : !map, !ring -> !slot
        %ts = tile.mma_async %q, %k transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
        %needs = tile.outside %u of [%full_lo, %total)
        %s2 = scf.if %needs -> (!acc) {
          %x = tile.map %s at(%row, %j) {
          ^bb0(%e: f32, %i: index, %jj: index):
            %cut = arith.constant -1.0e30 : f32
            %keep = arith.cmpi sle, %jj, %i : index
            %y = arith.select %keep, %e, %cut : f32
            tile.yield %y : f32
          } : !acc
          scf.yield %x : !acc
        } else {
          scf.yield %s : !acc
        }
        %mx = tile.row_reduce max %s2 : !acc -> !row
        %need = arith.cmpf ogt, %mx, %m : !row
        %mn = arith.maximumf %m, %mx : !row
        %d = arith.subf %m, %mn : !row
        %al = math.exp2 %d : !row
        %mb = tile.broadcast %mn : !row -> !acc
        %e = arith.subf %s2, %mb : !acc
        %p = math.exp2 %e : !acc
        %ls = tile.row_reduce sum %p : !acc -> !part
        %ln = tile.scale_rows %l, %al : !part, !row
        %l2 = arith.addf %ln, %ls : !part
        %pa = tile.to_operand_a %p : !acc -> !a
        %any = tile.vote_any %need : !yes
        %acc1 = scf.if %any -> (!acc) {
          %x = tile.scale_rows %acc, %al : !acc, !row
          scf.yield %x : !acc
        } else {
          scf.yield %acc : !acc
        }
        %v = tile.load %vmap[%bz, %by, %j] into %vring : !map, !ring -> !slot
        %to = tile.mma_async %pa, %v into %acc1 : !acc {stage = 1 : i64} : !a, !slot -> !tile.token<!acc>
        %acc2 = tile.mma_wait %to : !tile.token<!acc> -> !acc
        scf.yield %acc2, %mn, %l2 : !acc, !row, !part
      }
      %sum = tile.combine %r#2 : !part -> !row
      %sb = tile.broadcast %sum : !row -> !acc
      %ot = arith.divf %r#0, %sb : !acc
      tile.store %ot, %o[%bz, %by, %row] limit %nq : !acc, !out
      tile.store %r#1, %lse[%bz, %by, %row] limit %nq : !row, !lseout
    }
    gpu.return
  }
}
