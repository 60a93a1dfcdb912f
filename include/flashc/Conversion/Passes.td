//===- Passes.td - the passes that cross a level ------------------------------------------------------------------===//
#ifndef FLASHC_CONVERSION_PASSES_TD
#define FLASHC_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConvertFlashToTile : Pass<"convert-flash-to-tile", "::mlir::ModuleOp"> {
  let summary = "the loops of FlashAttention-2 become the program of a consumer warpgroup (L1 to L2)";
  let description = [{
    Converts a function in the form that the algorithm `fa2` produces to a `gpu.module`, in which each nest of loops
    is a kernel. The parallel loop becomes the grid, and its body a `tile.program` in which every consumer warpgroup
    computes 64 rows of the query tile.

    Before (tensor types and offsets left out), and after:
    ```mlir
    func.func @causal(%q, %k, %v) -> (tensor<?x8x?x128xbf16>, tensor<?x8x?xf32>) {
      %o, %lse = scf.forall (%b, %h, %i) = (0, 0, 0) to (%B, 8, %Nq) step (1, 1, 128) shared_outs(...) {
        %q_tile = tensor.extract_slice %q[%b, %h, %i, 0] ...      // and tensor.pad, if it may exceed the array
        %s:3 = scf.for %j = %c0 to %full step %c128 iter_args(%acc = fill 0, %m = fill -inf, %l = fill 0) {
          %k_tile, %v_tile = ...
          flash.online_attention ins(%q_tile, %k_tile, %v_tile) outs(%acc, %m, %l) at(%b, %h, %i, %j)
        }
        %t:3 = scf.for %j = %full to %end step %c128 iter_args(%acc = %s#0, %m = %s#1, %l = %s#2) {
          flash.online_attention ... mask (%b, %h, %i, %j) { ... }
        }
        %o_tile, %lse_tile = flash.finalize ins(%t#0, %t#1, %t#2) ...
        scf.forall.in_parallel { tensor.parallel_insert_slice of %o_tile and %lse_tile }
      }
      return %o, %lse
    }
    ```
    ```mlir
    gpu.func @causal(%qmap: !tile.tensor_map<64 x bf16>, ...) kernel attributes {tile.schedule, flashc.launch} {
      ... tile.alloc_ring, for Q, K and V
      tile.program 2 {
      ^bb0(%w: index):
        ... scalars: positions, how many key tiles to visit, which need no mask
        %q = tile.load %qmap[%b, %h, %row] into %qring
        %r:3 = scf.for %u = %c0 to %total step %c1 iter_args(%O, %m, %l) {
          K load, S = Q K^T, mask where tile.outside, row maximum, P = exp2(S * c - m * c), V load, O += P V
        }
        tile.store of o and lse
      }
    }
    ```
    The parallel loop may lack a dimension that has only one iteration: then the position in it is a constant.

    The consecutive loops over keys become one loop over the tiles that are visited. If some loop has a mask, the new
    loop runs backwards from the last tile. `tile.outside`, with the range of unmasked tiles, decides whether the mask
    applies to a tile. The loop visits at least one tile, which is masked as a whole if no tile needs a visit. Bounds
    are computed from the CTA's query tile, so that all consumers have the same bounds.

    Scores and masks become `tile.map`. Values that the regions capture become kernel parameters: scalars, extents, and
    arrays whose elements are loaded (`flash-tile` has clamped positions of tiles that exceed the arrays). Values that
    depend only on the batch and the head are computed once, before the loop. Terms of a score that are affine in j are
    split off, unless there is no maximum (`max=unified`). The score `s + slope * (j - i)` before, and after:
    ```mlir
    %x = tile.map %s at(%row, %j) { ... } : tensor<64x128xf32, #tile.acc>
    %max = tile.row_reduce max %x : ... -> tensor<64xf32, #tile.row>
    ```
    ```mlir
    %u, %c = tile.map %s at(%row, %j) { ... } : tensor<64x128xf32, #tile.acc>, tensor<64xf32, #tile.lane_partial>
    %local = tile.row_reduce max %u : ... -> tensor<64xf32, #tile.lane_partial>
    %sum = arith.addf %local, %c : tensor<64xf32, #tile.lane_partial>
    %max = tile.combine max %sum : tensor<64xf32, #tile.lane_partial> -> tensor<64xf32, #tile.row>
    ```

    The product adds the slope, and `%u` is `%s`, under three conditions: the score is s (times a constant) plus such
    terms, the maximum is a running one, and shared memory has room for the slopes.
    ```mlir
    tile.store_slopes %slope into %slopes : tensor<64xf32, #tile.row>, ...      // before the loop over keys
    %t = tile.mma_async %q, %k slopes %slopes times %columns : ... transpose_b : ...
    ```

    With `own-keys` the loop runs from the first to the last visit that the warpgroup's 64 rows need
    (`flash::emitRowBounds`), and `tile.advance_ring` skips the visits before and after:
    ```mlir
    %begin, %end = tile.own_visits %first to %last of %total
    tile.advance_ring %begin of %k_ring, %v_ring : ...
    scf.for %u = %begin to %end step %c1 ...
    ```
    If keys that all rows see come before the interval that moves with the rows, L1's runs of keys
    ```mlir
    scf.for %j = %c0 to %sinks step %c128 ...              // masked
    scf.for %j = %first to %behind step %c128 ...          // in parts: masked, full, masked
    ```
    become visits of the second run, backwards, with the visits of the first run from number `%place` on. All warpgroups
    make the visits of the first run; before and after them each warpgroup skips visits that it does not need:
    ```mlir
    %isCommon = arith.cmpi sge, %u, %place : index
    %key0 = arith.select %isCommon, %common, %last : index
    %isBehind = arith.cmpi sge, %u, %behindCommon : index
    %key1 = arith.select %isBehind, %rest, %key0 : index
    %key = arith.subi %key1, %distance : index             // 128 * u
    %needsMask = tile.outside %u of[%ownFullBegin, %ownFullEnd)
    ```
    A warpgroup whose rows are all after the last query has no output, and makes only the last visit. So if the number
    of queries may not be a multiple of the tile, these ops are added:
    ```mlir
    %isMissing = arith.cmpi sge, %row, %numQueries : index
    %first1 = arith.select %isMissing, %lastVisit, %first : index  // and %last, if it is not %total
    ```
    If the bounds read arrays (`flash::hasReadRowBounds`), first and last visit come from `flash::emitReadRowBounds` for
    the existing rows, and are `listed`: `tile-order` puts them into the work list.
    ```mlir
    %begin, %end = tile.own_visits %first to %last of %total listed
    ```

    `own-keys` is refused for a mask that has neither bounds without arrays nor bounds that read arrays. If static
    extents leave no loop with the mask, or make the mask the same for all rows, all warpgroups make all visits.

    A soft cap is a score that is tanh times positive constants. Its map becomes several maps, and every warp executes
    one of them in every tile. An example in which the only other map is the polynomial of two terms:
    ```mlir
    %isSmall = tile.all_within %s {limit = 5.600000e+01 : f32} : tensor<64x128xf32, #tile.acc>
    %y = scf.if %isSmall -> (tensor<64x128xf32, #tile.acc>) {
      %polynomial = tile.map %s at(%row, %j) { ... } : tensor<64x128xf32, #tile.acc>
      scf.yield %polynomial : tensor<64x128xf32, #tile.acc>
    } else {
      %tanh = tile.map %s at(%row, %j) { ... math.tanh ... } : tensor<64x128xf32, #tile.acc>
      scf.yield %tanh : tensor<64x128xf32, #tile.acc>
    }
    ```
    If there is neither a maximum (`max=unified`) nor a `wait-after`, the branches yield the exponentials.

    All `flash.tile_classes` become one kernel, and all `flash.tile_runs` become another one. These kernels are in the
    manifest's `before`, and their results are in the launch's mask map. Loops over the runs of a table become one loop
    over the list of visited tiles.

    The `gpu.module` has the option's target as `#nvvm.target`, for later passes (GPUTarget.h).

    The kernel's attribute `flashc.launch` describes its launch (Launch.h, docs/manifest.md), and `tile.schedule` the
    schedule, for later passes. The function's attribute `flashc.schedule` is the schedule; without it the built-in
    table gives one (docs/schedules.md), to which the option's overrides apply.

    Refuses, and leaves the IR as it is (each with a test in `test/Conversion/FlashToTile/invalid*.mlir`,
    `other-algorithms.mlir` and `schedule.mlir`):
    - other modules: "expected the module to hold one function with a body", "expected a name of letters, digits, '_'
      and '$'", "expected scalars and ranked tensors or memrefs to pass to a kernel", "expected a function of one
      block", "expected one attention per module", "expected a function that computes an attention only".
    - other algorithms: "expected the tiled loops of the algorithm fa2, got flash.attention", "expected an attention in
      the tiled loops", "expected loops over keys (algorithm fa2), got none", "expected normalize = deferred".
    - the state: "expected the state to begin as linalg.fill with 0, -inf and 0", "expected acc, m and l, in this order,
      to be the results", "expected a loop over keys that carries acc, m and l through one flash.online_attention".
    - loops over keys: "expected a step of one key tile", "expected the key position to be a loop's induction variable
      or a constant", "expected all loops over keys to have the same tiles, position, scale and score region",
      "expected all masked loops over keys to have the same mask region", "expected loops over all runs of one
      flash.tile_runs".
    - tables of tiles: "expected extents that are constants or those of arguments".
    - the parallel loop: "expected the batch to be a position of an scf.forall" (or head, or query), "expected
      flash.finalize directly in the parallel loop", "expected a parallel loop from 0 in constant steps", "expected one
      batch and one head per tile", "expected the parallel loop to step by one query tile", "expected a parallel loop
      over query tiles", "expected the extents of the parallel loop to be constants or extents of arguments".
    - inputs: "expected q to be a tile of a function argument" (or k, or v), "expected a tile of q to be padded at its
      end only", "expected a tile of whole rows of q", "expected the tile of q to begin at the position of the
      attention", "expected all loops over keys to read the same q, k and v".
    - outputs: "expected o to be returned or written to an argument only" (or lse), "expected the output to be written
      to a function argument", "expected every function result to be an output of the attention", "expected the
      attention's outputs to be returned or written to an argument".
    - score and mask regions: "expected a captured array to be a function argument", "expected a captured memref that is
      contiguous in its innermost dimension", "expected a constant dimension", "expected a scalar that is known before
      the loop over keys", "expected scalar code without side effects", and types that a kernel lacks: "expected a
      parameter of 1, 8, 16, 32 or 64 bits" (or an array), "expected scalar code in integers of up to 64 bits".
    - schedules: "expected the target to be one of sm_90a, sm_80", "expected bf16 or f16 on sm_90a", "expected tiles of
      128 queries and 128 keys", and after "schedule: " what is wrong with the option, or what does not fit shared
      memory or registers.
  }];
  let options = [
    Option<"overrides", "schedule", "std::string", /*default=*/"\"\"",
           "overrides of the schedule table, such as consumers=2,kv-tile=128,stages=2,ping-pong=false">,
    Option<"target", "target", "std::string", /*default=*/"::flashc::kDefaultTarget.str()", "GPU architecture">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect", "::mlir::math::MathDialect",
                           "::mlir::LLVM::LLVMDialect", "::mlir::memref::MemRefDialect", "::mlir::NVVM::NVVMDialect",
                           "::mlir::scf::SCFDialect", "::mlir::tile::TileDialect", "::mlir::vector::VectorDialect"];
}

def ConvertTileToNVVM : Pass<"convert-tile-to-nvvm"> {
  let summary = "L2 to L3: tiles become the values that each thread holds, tile ops become PTX";
  let description = [{
    Converts every tile op of a kernel (a `gpu.func` with `tile.schedule`). A tile becomes those of its scalars that one
    thread holds, so that `arith` and `math` on tiles become scalar code. Rings become addresses in dynamic shared
    memory. Copies become TMA (`cp.async.bulk.tensor`), products become `wgmma`, turns become named barriers, and stores
    become predicated PTX. In a `tile.warp_program` products become `mma.sync`, and rows that are no box are copied by
    `cp.async`; these patterns, in `TileToNVVM/Warp`, are for all targets. Loops and branches stay `scf`, and indices
    stay `index`. Patterns that all targets share are in `TileToNVVM/Common`. The target of the `gpu.module` adds its
    own patterns, such as those of sm_90a in `TileToNVVM/Hopper`.

    Why here: the schedule is final. The next pass, `convert-kernel-to-llvm`, knows no tiles.

    Assumes: `tile-specialize` has run; other programs are refused: "expected a tile.warp_specialize, got a program".

    Before, and after (in part):
    ```mlir
    %s = tile.mma_wait %t : !tile.token<tensor<64x16xf32, #tile.acc>> -> tensor<64x16xf32, #tile.acc>
    %e = math.exp2 %s : tensor<64x16xf32, #tile.acc>
    ```
    ```mlir
    %r = llvm.inline_asm has_side_effects "wgmma.wait_group.sync.aligned 0;", "=f,...,0,1,...,~{memory}" %a0, %a1, ...
    %s0 = llvm.extractvalue %r[0]
    %e0 = math.exp2 %s0 : f32
    ```
    The region of a `tile.map` is repeated for each element that a thread holds. If this makes more than 8192 ops, LLVM
    would take minutes. Then the region is put into a loop over the elements of a row instead.

    The kernel keeps two attributes for its launcher: `flashc.threads` and `flashc.shared_memory` (bytes).
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect",
                           "::mlir::scf::SCFDialect"];
}

def ExpandMath : Pass<"expand-math"> {
  let summary = "expands math functions for which the target has no instruction";
  let description = [{
    Rewrites the `math` ops for which sm_90a has no instruction, into ops for which it has instructions. So a score or a
    mask may call any of these functions. Functions of f16 and bf16 are computed in f32.

    | functions | become |
    |---|---|
    | acos, asin, atan, cbrt, erf, erfc | upstream's polynomials |
    | acosh, clampf, cosh, tan; fpowi with a constant exponent | upstream's expansions |
    | expm1, log1p, sinh | a series around 0, and their definition elsewhere |
    | asinh, atanh | log1p |
    | atan2 | atan in the first octant |
    | powf, fpowi (x^y) | 2^(y log2 of the magnitude of x), and the sign; products for a constant whole y up to 64 |
    | ipowi | a loop over the bits of the exponent |
    | sincos; isinf, isnormal | sin and cos; comparisons |

    If exp, log, sqrt and division are exact, the relative error of a function is at most 5e-6 (2e-6 without atan), and
    that of a power is at most 2e-7 times y log2 x. The errors of the hardware's functions add to these errors.

    With `libm`, for the CPU, the pass rewrites only functions that LLVM and libm lack (clampf, fpowi, ipowi, isinf,
    isnormal), and expm1 and log1p, which LLVM would compute by their definition.

    Why here: before `convert-tile-to-nvvm`, which copies the code for each element that a thread holds.

    Before, and after:
    ```mlir
    %y = math.expm1 %x : f32
    ```
    ```mlir
    %p = math.fma ... : f32                           // 1 + x / 2 + x^2 / 6 + ...
    %small = arith.mulf %x, %p : f32
    %e = math.exp %x : f32
    %large = arith.subf %e, %one : f32
    %y = arith.select %isSmall, %small, %large : f32
    ```

    Functions of f64 are left unchanged, and `convert-kernel-to-llvm` refuses them by name.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::scf::SCFDialect"];
  let options = [
    Option<"libm", "libm", "bool", "false", "leave what LLVM or libm has">];
  let statistics = [
    Statistic<"numOps", "num-ops", "math ops that are no instruction">];
}

def ConvertKernelToLLVM : Pass<"convert-kernel-to-llvm", "::mlir::gpu::GPUModuleOp"> {
  let summary = "scalar kernels become LLVM functions for the NVPTX back end";
  let description = [{
    Converts the ops that `convert-tile-to-nvvm` leaves: `scf`, `cf`, `arith`, `math` on f32, block ids, and the
    `gpu.func`, which becomes an `llvm.func` with `nvvm.kernel`. `index` becomes i32 (extents fit; addresses are
    computed in 64 bits). Tensor maps are passed by value (`byval`, aligned to 64 bytes, `nvvm.grid_constant`);
    otherwise the kernel would copy them to its stack.

    Functions of `math` on f32 use the hardware's approximations (`ex2`, `lg2`, `tanh`, `sin`, `cos`, `sqrt`, `rsqrt`),
    whose errors the PTX ISA states (9.7.3). The other functions that `expand-math` leaves (rounding, bits, signs) have
    exact instructions, through LLVM's intrinsics.

    Quotients that round down or up are expanded here and not earlier, since `convert-tile-to-nvvm` recognises their
    ops.

    Before, and after:
    ```mlir
    gpu.func @k(%map: !llvm.ptr, %out: !llvm.ptr<1>, %n: index) kernel attributes {flashc.threads = 384 : i32} {
      %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x) -> f32 {
        %y = math.exp2 %a : f32
        scf.yield %y : f32
      }
      llvm.store %r, %out : f32, !llvm.ptr<1>
      gpu.return
    }
    ```
    ```mlir
    llvm.func @k(%map: !llvm.ptr {llvm.align = 64, llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant},
                 %out: !llvm.ptr<1>, %n: i32) attributes {nvvm.kernel, nvvm.reqntid = array<i32: 384>} {
      llvm.br ^bb1(%c0, %x : i32, f32)
    ^bb1(%i: i32, %a: f32):
      %more = llvm.icmp "slt" %i, %n : i32
      llvm.cond_br %more, ^bb2, ^bb3
    ^bb2:
      %y = llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"(%a) : (f32) -> f32
      %next = llvm.add %i, %c1 : i32
      llvm.br ^bb1(%next, %y : i32, f32)
    ^bb3:
      llvm.store %a, %out : f32, !llvm.ptr<1>
      llvm.return
    }
    ```

    Refuses: "expected a function of f32 that sm_90a has, got ...", "expected an index of 32 bits in a kernel, got ...".
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect", "::mlir::cf::ControlFlowDialect"];
}

#endif // FLASHC_CONVERSION_PASSES_TD
