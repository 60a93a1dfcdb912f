//===- Passes.td - the passes that cross a level ------------------------------------------------------------------===//
#ifndef FLASHC_CONVERSION_PASSES_TD
#define FLASHC_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

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
