//===- Passes.td - passes on the kernels of a launch --------------------------------------------------------------===//
#ifndef FLASHC_LAUNCH_PASSES_TD
#define FLASHC_LAUNCH_PASSES_TD

include "mlir/Pass/PassBase.td"

def Order : Pass<"tile-order"> {
  let summary = "another kernel lists the work tiles of a program by descending length";
  let description = [{
    The length of a work tile of a `sorted` program is the number of iterations of its loop over keys. It is known only
    at the launch: the bounds of the loop are read from arrays, or jump between work tiles. This pass makes a kernel of
    one CTA, the order kernel, that runs before the program's kernel and makes a list. An item of the list is a tile of
    queries. If lengths differ between batches or heads, there is an item for each tile of each batch or of each head.
    For every item the order kernel computes the length, by a copy of the scalar code of the loop's bounds. It lists the
    items by descending length. The program's kernel gets the list as its last parameter; `tile-persist` reads it.

    A program computes other scalars from memory, too, such as the first key of a tile. It takes chains of dependent
    loads to compute them, which every warpgroup would repeat when a work tile begins. These scalars become numbers of
    the item: the order kernel computes them once and stores them after the item in the list, and the program reads them
    by `tile.list_number`.

    The order kernel sorts by counting, in shared memory and without atomics. Items of equal work keep their order, so
    that neighbours, which read the same keys, stay neighbours and every run makes the same list. If an item has more
    than 256 iterations, items are compared only by the first eight bits of the difference to the greatest work. The
    workspace holds, in this order: the list, whose entries are an item and its numbers; the work of each item; the
    numbers of each item; and the counter of `tile.draw`, which the order kernel sets to 0. An item with n numbers takes
    8 + 8n bytes. An item has at most kPublishWords - 4 numbers. If a program has more such scalars, each warpgroup
    computes the others itself.

    A scalar that `tile.uniform` makes equal in all threads of a warpgroup, and that depends on the warpgroup's number
    and on memory (`tile.own_visits` with `listed`), becomes a number for each warpgroup. The order kernel computes
    these numbers for all warpgroups; they follow the item's other numbers, those of warpgroup 0 first. With m such
    numbers of each of c warpgroups an item takes 8 + 8 (n + c m) bytes.

    With `parts` P, work tile x is part x mod P of query tile x div P, and an item is a query tile. Its work is the
    number of its key tiles, from the program's `tile.part_size`; 0 if the query tile has no rows. After all items are
    measured, lanes count the parts of all items, and warp w estimates how long the launch takes, if the longest item
    has w + 1 parts. The least estimate decides how long a part is at most. The list then has an entry for each part of
    each item: the entry's number is P times the item plus the part, and its first scalar is the size of the item's
    parts. An item without work has no entry. One more word after the counter is the number of entries. The list takes P
    times as many bytes for each item.

    The list is part of the map of the mask, and is kept with it, under three conditions: the launch has such a map
    (`mask_map` of the manifest), CTAs have one work tile each (`single`), and the order kernel reads only the map and
    extents. A list from which CTAs fetch tiles dynamically is made in every launch, since its counter changes.

    Why here: before `tile-pipeline`, which splits the loop over keys, and `tile-persist`, which reads the list.

    Before:
    ```mlir
    gpu.func @f(%n: index, %offsets: memref<?xi32>, ...) kernel {
      ...
      tile.program 2 grid(%nx, %ny, %nz) by <sorted> {
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
      tile.program 2 grid(%nx, %ny, %nz) list(%list : memref<?xi32>) by <list numbers 2> {
      ^bb0(%w: index):
        %total = tile.list_number 0
        %first = tile.list_number 1
        ...
    }
    memref.global "private" @f_order_scratch : memref<8256xi32, #gpu.address_space<workgroup>>
    gpu.func @f_order(%n: index, %offsets: memref<?xi32>, %list: memref<?xi32>) kernel {
      scf.for ... {                                          // measure
        %work, %numbers = ...                                // the same code, for the coordinates of %item
        memref.store %work, %list[3 * %nx + %item]           // and the numbers of the item
      }
      nvvm.barrier0                                          // count, sum, place: see OrderKernel.h
      ...
      memref.store %item, %list[3 * %place]                  // deal: the item, and then its numbers
    }
    ```
    The kernel's launch (`flashc.launch`, Launch.h) gets a `workspace`, the parameter, and the new kernel in `before`;
    `work_tiles`, the extents of the grid at a launch, is removed.

    If each work tile has only one tile of keys, the program has no loop over keys. All work tiles are equal then, and
    the program gets no list.

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
  let summary = "lets the kernels of one launch overlap";
  let description = [{
    A launch of several kernels (`before` and `after` of the manifest) would pay for the start of each: the stream waits
    until one kernel has ended, and then the next one's CTAs begin to set up their barriers and roles. This pass lets
    kernels overlap (PTX ISA, griddepcontrol), if the main kernel's launch (`flashc.launch`, Launch.h) asks for it by
    `overlap`:

    - Each kernel except the main one and the last begins with `griddepcontrol.launch_dependents`: when all its CTAs
      have executed it, CTAs of the next kernel start where there is room. The kernel after the main one starts when the
      main one has ended: if its CTAs started earlier, they would take the place of CTAs that have work to do.
    - Each kernel except the first has `griddepcontrol.wait` before the first op that touches memory, on its top level,
      so that every thread waits there until the kernel before it has ended. Barriers, roles, registers and scalars that
      follow from parameters are set up before the wait. If that op is the `tile.warp_specialize`, the producer and the
      consumers have a wait each; if it is the `tile.warp_program`, the wait is inside it.

    A decoding kernel (`tile.warp_program`) that is alone has both ops: it waits, and it lets the next launch start
    after its last exchange among warps or CTAs, when only stores are left. A decoding kernel takes microseconds, and
    the start of the next kernel is a considerable part of this time.

    Invariants:
    1. The first of several kernels does not wait: a launcher starts it in stream order.
    2. Every other kernel waits, even if it reads nothing that others wrote. So it ends after the kernel before it, and
       when the last one has ended, all have.
    3. Before its wait, a kernel touches no memory but its shared memory. So it may begin at any time, and neither reads
       data too early nor overwrites data that earlier work still reads.
    4. A kernel starts when all CTAs of the one before it run or have ended, so waiting CTAs never keep the CTAs that
       they wait for off a multiprocessor.

    Why here: last, since earlier passes move ops that read memory. The launch gets the key `programmatic_launch` in
    place of `overlap`. Another kernel that is alone is left unchanged.

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

    Refuses, with the IR unchanged: "expected a kernel 'f_order' that its launch names", and an invalid
    `flashc.launch`.
  }];
  let dependentDialects = ["::mlir::NVVM::NVVMDialect"];
  let statistics = [
    Statistic<"numOverlapped", "num-overlapped", "kernels that overlap with the kernel before them">];
}

def FoldGrid : Pass<"tile-fold-grid"> {
  let summary = "gives kernels a grid of one dimension";
  let description = [{
    A grid has at most 65,535 CTAs along y and z, but 2^31 - 1 along x. This pass gives the kernels of each launch a
    grid of one dimension in place of three. In this dimension x is fastest, then y, so that CTAs start in the same
    order. A kernel gets the extents of x and y as two more parameters, which are its last ones (`foldGrid` of the
    manifest changes the launch likewise). It computes its coordinates by two divisions. If warps compute tiles
    together, the coordinates are made uniform. A kernel whose grid has one dimension is left unchanged.

    Why here: on a copy of an entry just before code generation, and only for a launch that needs it: other launches
    have no divisions. All passes that create `gpu.block_id` have run.

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

    Refuses, with the IR unchanged: "expected a kernel 'f_delta' that its launch names", and an invalid
    `flashc.launch`.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
  let statistics = [
    Statistic<"numFolded", "num-folded", "kernels whose grid was folded">];
}

#endif // FLASHC_LAUNCH_PASSES_TD
