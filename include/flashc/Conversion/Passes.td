//===- Passes.td - the passes that cross a level ------------------------------------------------------------------===//
#ifndef FLASHC_CONVERSION_PASSES_TD
#define FLASHC_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConvertFlashToTile : Pass<"convert-flash-to-tile", "::mlir::ModuleOp"> {
  let summary = "the loops of FlashAttention-2 become the program of a consumer warpgroup (L1 to L2)";
  let description = [{
    Replaces a function in the form that the algorithm `fa2` leaves (one `scf.forall` over batch, head and query tile;
    in it consecutive loops over key tiles around `flash.online_attention`; `flash.finalize`) by a `gpu.module` with one
    kernel. The parallel loop becomes the grid, its body a `tile.program` in which every consumer warpgroup works on 64
    rows of the query tile:

    ```mlir
    gpu.func @causal(%q: !tile.tensor_map<64 x bf16>, ...) kernel attributes {tile.schedule, flashc.manifest} {
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

    The consecutive loops over keys become one: it runs over visited tiles, backwards from the last one if any is
    masked, and the mask stands under `tile.outside` of the unmasked ones. The loop visits at least one tile, which is
    masked as a whole where there is none to visit. Bounds are computed from the CTA's query tile, so that all consumers
    agree on them.

    Scores and masks become `tile.map`. What the regions capture becomes kernel parameters: scalars, extents, and arrays
    whose elements are loaded (`flash-tile` has clamped the positions where a tile sticks out). What a region computes
    of the batch and the head alone is computed once, ahead of the loop.

    The attribute `flashc.manifest` of the kernel says how to launch it (docs/manifest.md); `tile.schedule` is for the
    passes that follow. The schedule comes from a table by the head dimensions (`chooseSchedule`), overridden by the
    option.

    Refuses, with an error that names what was expected: anything that is not that form (other algorithms, a second
    attention, other work in the function), element types other than bf16 and f16, tiles that are not the schedule's,
    and schedules that do not fit shared memory or registers.
  }];
  let options = [
    Option<"overrides", "schedule", "std::string", /*default=*/"\"\"",
           "overrides of the schedule table, such as consumers=2,kv-tile=128,stages=2,overlap=true,ping-pong=false">,
    Option<"target", "target", "std::string", /*default=*/"\"sm_90a\"", "GPU architecture, for the manifest">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect", "::mlir::math::MathDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect", "::mlir::tile::TileDialect"];
}

def ConvertTileToNVVM : Pass<"convert-tile-to-nvvm"> {
  let summary = "L2 to L3: tiles become the values that each thread holds, tile ops become PTX (sm_90a)";
  let description = [{
    What changes: every tile op of a kernel (a `gpu.func` with `tile.schedule`). A tile becomes the scalars that one
    thread holds of it, so that `arith` and `math` on tiles become scalar code; rings become addresses in dynamic
    shared memory; copies become TMA (`cp.async.bulk.tensor`), products `wgmma`, turns named barriers, stores predicated
    PTX. Loops and branches stay `scf`, indices stay `index`.

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
    The kernel keeps two attributes for its launcher: `flashc.threads` and `flashc.shared_memory` (bytes).
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect",
                           "::mlir::scf::SCFDialect"];
}

def ConvertKernelToLLVM : Pass<"convert-kernel-to-llvm", "::mlir::gpu::GPUModuleOp"> {
  let summary = "scalar kernels become LLVM functions for the NVPTX back end";
  let description = [{
    What changes: everything that `convert-tile-to-nvvm` left: `scf`, `cf`, `arith`, `math` on f32, block ids, and the
    `gpu.func` itself, which becomes an `llvm.func` with `nvvm.kernel`. `index` becomes i32 (extents fit; addresses were
    computed in 64 bits). Tensor maps are passed by value (`byval`, aligned to 64 bytes, `nvvm.grid_constant`): without
    that the kernel would copy them to its stack.

    Functions of `math` use the hardware's approximations (`ex2`, `lg2`, `tanh`, `sin`, `cos`, `sqrt`, `rsqrt`), whose
    errors the PTX ISA states (9.7.3); another function is refused: "expected a function that sm_90a has, got ...".
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect", "::mlir::cf::ControlFlowDialect"];
}

#endif // FLASHC_CONVERSION_PASSES_TD
