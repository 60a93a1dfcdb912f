//===- Passes.td - passes on the kernels of a launch --------------------------------------------------------------===//
#ifndef FLASHC_LAUNCH_PASSES_TD
#define FLASHC_LAUNCH_PASSES_TD

include "mlir/Pass/PassBase.td"

def Order : Pass<"tile-order"> {
  let summary = "another kernel lists the work tiles of a program, the longest first";
  let description = [{
    How long a work tile of a `sorted` program takes is known at the launch only: its loop over keys has bounds that
    read arrays, or that jump between work tiles. This pass makes a kernel of one CTA that runs before the program's. It
    computes for every item (the tiles of queries, of every batch or head if they differ there) how many iterations that
    loop will have, by a copy of the scalar code that the loop's own bounds come from, and lists the items, those with
    the most first. The program's kernel gets the list as its last parameter; `tile-persist` goes through it.

    Other scalars that the program computes of what it reads, such as where the keys of a tile begin, would be searched
    for by every warpgroup when a work tile begins, in loads that wait for each other. So they are numbers of the item:
    this kernel computes them once, they stand behind the item in the list, and the program has a `tile.list_number`
    instead.

    The list is sorted by counting, in shared memory and without atomics; items of equal work keep their order, so that
    neighbours, which read the same keys, stay neighbours and the list is the same in every run. Work of more than 256
    iterations is compared by its first eight bits. The workspace holds the list, whose entries are an item and its
    numbers, and behind it the work and the numbers of each item, with n numbers 8 + 8n bytes an item; last the counter
    of `tile.draw`, which this kernel sets to 0. An item has at most kPublishWords - 4 numbers; of what is
    beyond, each warpgroup computes its own.

    What a `tile.uniform` makes the same for all threads of a warpgroup, and is computed of the warpgroup's number and
    of what is read (`tile.own_visits` with `listed`), is a number of each warpgroup's own: this kernel computes it for
    all of them, and they stand behind the item's numbers, those of warpgroup 0 first. What is the same for all of them
    it computes once. With m own numbers of each of c warpgroups an item takes 8 + 8 (n + c m) bytes.

    Where the launch keeps a map of its mask (`mask_map` of the manifest), CTAs have one work tile each (`single`), and
    the order kernel reads the map and extents alone, the list is part of the map: it is not made again while that is
    kept. A list that CTAs draw from is made in every launch, since they count in it.

    Why here: before `tile-pipeline`, which splits the loop over keys, and `tile-persist`, which reads the list.

    Before:
    ```mlir
    gpu.func @f(%n: index, %offsets: memref<?xi32>, ...) kernel {
      ...
      tile.program 2 grid(%nx, %ny, %nz) sorted {
      ^bb0(%w: index):
        %x = gpu.block_id x
        %total, %first = ...                                 // scalar code of %x, %n and %offsets
        scf.for %u = %c0 to %total step %c1 ... { tile.load ... }
      }
    }
    ```
    After:
    ```mlir
    gpu.func @f(%n: index, %offsets: memref<?xi32>, ..., %list: memref<?xi32>) kernel {
      ...
      tile.program 2 grid(%nx, %ny, %nz) list(%list : memref<?xi32>) of tiles numbers 2 {
      ^bb0(%w: index):
        %total = tile.list_number 0
        %first = tile.list_number 1
        ...
    }
    memref.global "private" @f_order_scratch : memref<8256xi32, #gpu.address_space<workgroup>>
    gpu.func @f_order(%n: index, %offsets: memref<?xi32>, %list: memref<?xi32>) kernel {
      scf.for ... {                                          // measure
        %work, %numbers = ...                                // the same code of the item's coordinates
        memref.store %work, %list[3 * %nx + %item]           // and the numbers
      }
      nvvm.barrier0                                          // count, sum, place: see OrderKernel.h
      ...
      memref.store %item, %list[3 * %place]                  // deal, and the numbers
    }
    ```
    The kernel's launch (`flashc.launch`, Launch.h) gets a `workspace`, the parameter, and the new kernel in `before`;
    its `work_tiles` say what the extents of the grid are at a launch, and go.

    A work tile with one tile of keys has no loop; then all work tiles are alike and the program is left without a list.
    Refuses, with "cannot sort its work tiles: ..." on the program and the IR unchanged:
    - "expected the loop over keys to be as long as scalar code says": a bound comes from a tile, from the warpgroup or
      from an effect;
    - "expected a loop over keys in steps of one";
    - "expected at most 16 numbers of warpgroups' own, got 18".
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect", "::mlir::LLVM::LLVMDialect",
                           "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect", "::mlir::NVVM::NVVMDialect",
                           "::mlir::scf::SCFDialect"];
  let statistics = [
    Statistic<"numLists", "num-lists", "programs with a list of their work tiles">];
}

def ProgrammaticLaunch : Pass<"tile-programmatic-launch"> {
  let summary = "kernels of one launch start before those in front of them have ended";
  let description = [{
    A launch that takes several kernels (`before` and `after` of the manifest) would pay for the start of each: the
    stream waits until one has ended, and the next one's CTAs begin to set up their barriers and roles. This pass lets
    kernels overlap (PTX ISA, griddepcontrol), where the main kernel's launch (`flashc.launch`, Launch.h) asks for it by
    `overlap`:

    - all kernels but the main one and the last begin with `griddepcontrol.launch_dependents`: when all CTAs of one have
      come there, those of the next kernel start where there is room. The next one after the main kernel starts when
      that has ended: its CTAs would take the place of those that still work;
    - every kernel but the first has `griddepcontrol.wait` in front of the first op that touches memory, on its top
      level, so that every thread that goes on has waited, until the kernel before it has ended. In front of it are
      barriers, roles, registers, and what follows from parameters alone. Where that op is the `tile.warp_specialize`,
      the producer has one and the consumers have another; where it is the `tile.warp_program`, that has it.

    A decoding kernel (`tile.warp_program`) that is alone has both: it waits, and lets the next launch start behind its
    last exchange among warps or CTAs, when it has nothing left but stores. It has microseconds in all, of which the
    start of the next one is a part that counts.

    Invariants:
    1. The first of several kernels neither waits nor needs to: a launcher starts it in the order of the stream.
    2. Every other kernel waits, also if it reads nothing that others wrote. So it ends after the one before it has
       ended, and with the last one all have.
    3. Before it waits, a kernel touches no memory but shared memory of its own. So it may begin at any
       time; and nothing that was written before the launch, or is read behind it, can be met too early.
    4. A kernel starts when all CTAs of the one before it run or have ended, so that those that wait on a multiprocessor
       keep nobody from it who they wait for.

    Why here: last, since passes before move what reads memory. The launch gets the key `programmatic_launch` in place
    of `overlap`. Another kernel that is alone stays as it is.

    Before:
    ```mlir
    gpu.func @f(...) kernel attributes {flashc.launch = {before = ["f_order"...], overlap = true, ...}} {
      %ring = tile.alloc_ring ...
      tile.warp_specialize 2 registers(24, 240) producer {
        %c = gpu.block_id x
        scf.for %p = ... { %x = memref.load %list[...] ... }
      } consumer {
      ^bb0(%w: index):
        ...
      }
    }
    gpu.func @f_order(...) kernel { ... }
    ```
    After:
    ```mlir
    gpu.func @f(...) kernel attributes {flashc.launch = {before = ..., programmatic_launch = true, ...}} {
      %ring = tile.alloc_ring ...
      tile.warp_specialize 2 registers(24, 240) producer {
        %c = gpu.block_id x
        nvvm.griddepcontrol wait
        scf.for %p = ... { %x = memref.load %list[...] ... }
      } consumer {
      ^bb0(%w: index):
        nvvm.griddepcontrol wait
        ...
      }
    }
    gpu.func @f_order(...) kernel {
      nvvm.griddepcontrol launch_dependents
      ...
    }
    ```

    Refuses, with the IR unchanged: "expected a kernel 'f_order' beside it, which its launch names", and what
    is no launch.
  }];
  let dependentDialects = ["::mlir::NVVM::NVVMDialect"];
  let statistics = [
    Statistic<"numOverlapped", "num-overlapped", "kernels that overlap with those before them">];
}

def FoldGrid : Pass<"tile-fold-grid"> {
  let summary = "kernels take a grid of one dimension apart";
  let description = [{
    A grid has at most 65,535 CTAs along y and z, but 2^31 - 1 along x. This pass gives the kernels of each launch one
    dimension for all three, x fastest, then y: CTAs start in the same order. A kernel learns the extents of x and y by
    two more parameters, the last (`foldGrid` of the manifest, which changes the launch likewise), and computes its
    place by two divisions. What it computes is made uniform where warps run tiles. Kernels whose grid has one dimension
    stay as they are.

    Why here: on a copy of an entry that is about to become code, and only for a launch that needs it: other launches do
    without the divisions. Passes that ask for `gpu.block_id` have run.

    Before:
    ```mlir
    gpu.func @f(%n: index) kernel
        attributes {flashc.launch = {grid = ["ceildiv(arg0.dim2, 64)", "arg0.dim1", "arg0.dim0"], ...}} {
      %x = gpu.block_id x
      %y = gpu.block_id y
      ...
    }
    ```
    After:
    ```mlir
    gpu.func @f(%n: index, %nx: index, %ny: index) kernel
        attributes {flashc.launch =
            {grid = ["mul(mul(ceildiv(arg0.dim2, 64), arg0.dim1), arg0.dim0)", "1", "1"], ...}} {
      %number = gpu.block_id x
      %rest = arith.divui %number, %nx
      %x = arith.subi %number, %rest * %nx
      %z = arith.divui %rest, %ny
      %y = arith.subi %rest, %z * %ny
      ...
    }
    ```

    Refuses, with the IR unchanged: "expected a kernel 'f_delta' beside it, which its launch names", and what is no
    launch.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
  let statistics = [
    Statistic<"numFolded", "num-folded", "kernels whose grid has one dimension now">];
}

#endif // FLASHC_LAUNCH_PASSES_TD
