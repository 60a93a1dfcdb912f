//===- TileDialect.td - the tile dialect (L2): encodings, types, the schedule -------------------------------------===//
#ifndef FLASHC_TILE_DIALECT_TD
#define FLASHC_TILE_DIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

//===--------------------------------------------------------------------------------------------------------------===//
// Dialect
//===--------------------------------------------------------------------------------------------------------------===//

def Tile_Dialect : Dialect {
  let name = "tile";
  let cppNamespace = "::mlir::tile";
  let summary = "Who computes which tile, when, out of which memory";
  let description = [{
    L2 of flashc. A kernel is a `gpu.func` that holds one `tile.program` (the program of one consumer warpgroup, written
    as if it loaded its own data) or, after `tile-specialize`, one `tile.warp_specialize` (a producer that fills
    shared-memory rings, and consumers that drain them).

    A kernel that is bound by the bytes that it reads holds one `tile.warp_program` instead: the program of one warp,
    with tiles of 16 rows.

    Values are builtin tensors with an encoding that says how the threads of a warpgroup (128) hold their 64 rows or, in
    a `tile.warp_program`, how the threads of a warp hold their 16 rows. `arith` and `math` work on them unchanged:

    | encoding             | shape  | held as (per thread)                                                             |
    |----------------------|--------|----------------------------------------------------------------------------------|
    | `#tile.acc`          | 64 x N | the accumulator fragment of wgmma (PTX ISA 9.7.15.5.1.1): N/2 elements of 2 rows |
    | `#tile.row`          | 64     | one value per row, the same in the four lanes that share the row: 2 elements     |
    | `#tile.lane_partial` | 64     | one value per row and lane; `tile.combine` adds the four, or takes the maximum   |
    | `#tile.col`          | N      | one value per column, the same in the rows: N/4 elements of the thread's columns |
    | `#tile.operand_a`    | 64 x N | the accumulator packed to 16 bits, in the order in which wgmma takes A           |
    | `#tile.flags`        | 64 x N | a flag for each accumulator element: the sign bit of a byte, 4 to a register     |

    Shared memory consists of rings of slots (`!tile.ring`, `!tile.slot`), which asynchronous copies fill. Products are
    asynchronous (`!tile.token`): an accumulator in flight is a token and cannot be read before its `tile.mma_wait`.

    Verifiers take facts of the hardware from the target that the `gpu.module` names (GPUTarget.h), as in `gpu.module
    @kernels [#nvvm.target<chip = "sm_90a">]`. Without a target it is sm_90a. The verifier of `tile.schedule` refuses
    unknown targets.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect", "::mlir::math::MathDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"];
}

//===--------------------------------------------------------------------------------------------------------------===//
// Encodings and types
//===--------------------------------------------------------------------------------------------------------------===//

class Tile_Encoding<string name, string mnemonic_> : AttrDef<Tile_Dialect, name> {
  let mnemonic = mnemonic_;
}
def Tile_Acc : Tile_Encoding<"Acc", "acc"> { let summary = "a wgmma accumulator fragment"; }
def Tile_Row : Tile_Encoding<"Row", "row"> { let summary = "one value per row, replicated over its four lanes"; }
def Tile_LanePartial : Tile_Encoding<"LanePartial", "lane_partial"> { let summary = "one value per row and lane"; }
def Tile_Col : Tile_Encoding<"Col", "col"> { let summary = "one value per column, replicated over the rows"; }
def Tile_OperandA : Tile_Encoding<"OperandA", "operand_a"> { let summary = "a 16-bit A operand in registers"; }
def Tile_Flags : Tile_Encoding<"Flags", "flags"> { let summary = "a flag for each element of an accumulator"; }

class Tile_Tile<Tile_Encoding encoding>
    : Type<CPred<"::mlir::tile::isTile<" # encoding.cppNamespace # "::" # encoding.cppClassName # ">($_self)">,
           "a tile of 64 rows, or 16 of a warp, with encoding #tile." # encoding.mnemonic, "::mlir::RankedTensorType">;
def Tile_AccTile : Tile_Tile<Tile_Acc>;
def Tile_RowTile : Tile_Tile<Tile_Row>;
def Tile_LanePartialTile : Tile_Tile<Tile_LanePartial>;
def Tile_ColTile
    : Type<CPred<"::mlir::tile::isColTile($_self)">, "a tile of one row with encoding #tile.col",
           "::mlir::RankedTensorType">;
def Tile_OperandATile : Tile_Tile<Tile_OperandA>;
def Tile_FlagsTile : Tile_Tile<Tile_Flags>;

class Tile_OneOf<list<Type> tiles> : AnyTypeOf<tiles, "", "::mlir::RankedTensorType">;
class Tile_OfF32<Type tile>
    : ConfinedType<tile, [CPred<"::mlir::getElementTypeOrSelf($_self).isF32()">], tile.summary # ", of f32",
                   "::mlir::RankedTensorType">;

def Tile_ScheduleAttr : AttrDef<Tile_Dialect, "Schedule"> {
  let mnemonic = "schedule";
  let summary = "the choices that turn an algorithm into a kernel";
  let description = [{
    The `gpu.func` carries the schedule as its attribute `tile.schedule`, from `convert-flash-to-tile` until
    `convert-tile-to-nvvm` removes it. The attribute has the choices that the passes of L2 need; the other choices
    (docs/schedules.md) are already in the program, as its grid, rings, tiles and stores.

    - `consumers`: consumer warpgroups per CTA, 64 query rows each (1 to 4).
    - `producer_registers`, `consumer_registers`: per thread, for `setmaxnreg`.
    - `overlap`: the softmax of one tile runs while the PV product of the tile before it is in flight.
    - `ping_pong`: consumers take turns at the tensor cores, through named barriers.
    - `epilogue`: which part of the next tile of queries runs before this one is stored: nothing (`plain`), its first
      product (`product`), or its first product and the softmax of its first tile of keys (`softmax`).
    - `wait_after`: the number of a thread's exponentials that come before the wait for the product in flight; with 0
      ptxas decides.
  }];
  let parameters = (ins "int64_t":$consumers, "int64_t":$producer_registers, "int64_t":$consumer_registers,
                        "bool":$overlap, "bool":$ping_pong,
                        DefaultValuedParameter<"::mlir::tile::Epilogue", "::mlir::tile::Epilogue::Plain">:$epilogue,
                        DefaultValuedParameter<"int64_t", "0">:$wait_after);
  let assemblyFormat = "`<` struct(params) `>`";
}

class Tile_Type<string name, string mnemonic_> : TypeDef<Tile_Dialect, name> { let mnemonic = mnemonic_; }

def Tile_TensorMap : Tile_Type<"TensorMap", "tensor_map"> {
  let summary = "a TMA descriptor of a 4-D tensor in device memory";
  let description = [{
    A kernel parameter that describes `[B, H, N, D]`, innermost dimension first (`D, N, H, B`), with the box `{64, rows,
    heads, 1}`, the 128-byte swizzle, and zeros beyond the extents (CUDA driver API, `cuTensorMapEncodeTiled`). Row
    `h * rows + i` of a copied tile is row i of the box in its head h.
  }];
  let parameters = (ins "int64_t":$rows, "::mlir::Type":$elementType, DefaultValuedParameter<"int64_t", "1">:$heads);
  let assemblyFormat = "`<` $rows `x` $elementType (`,` `heads` $heads^)? `>`";
  let extraClassDeclaration = [{
    /// The number of rows of a tile that one box fills.
    int64_t countRows() const { return getRows() * getHeads(); }
  }];
}

def Tile_Ring : Tile_Type<"Ring", "ring"> {
  let summary = "a circular buffer in shared memory, with a full and an empty barrier per slot";
  let description = [{
    The ring has `stages` slots of `rows x cols` elements. A slot of 16-bit elements is stored as `ceil(cols / 64)`
    panels of `rows` x 128 bytes with the 128-byte swizzle, a slot of 8-bit elements as `ceil(cols / 128)` such panels,
    and a slot of f32 row by row. Slot `g mod stages` serves load g. A `private` ring exists once per consumer. Every
    other ring is shared, and its slot is empty again when every consumer has released it.
  }];
  let parameters = (ins "int64_t":$stages, "int64_t":$rows, "int64_t":$cols, "::mlir::Type":$elementType,
                        DefaultValuedParameter<"bool", "false">:$isPrivate);
  let assemblyFormat = "`<` $stages `,` $rows `,` $cols `,` $elementType (`,` `private` $isPrivate^)? `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getSlotBytes(const ::flashc::GPUTarget &target) const {
      return tile::getSlotBytes(target, getRows(), getCols(), getElementType());
    }
    ::mlir::tile::SlotType getSlotType() const;
  }];
}

def Tile_Slot : Tile_Type<"Slot", "slot"> {
  let summary = "a full slot of a ring, readable by a product until it is released";
  let parameters = (ins "int64_t":$rows, "int64_t":$cols, "::mlir::Type":$elementType);
  let assemblyFormat = "`<` $rows `,` $cols `,` $elementType `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getBytes(const ::flashc::GPUTarget &target) const {
      return tile::getSlotBytes(target, getRows(), getCols(), getElementType());
    }
  }];
}

def Tile_Token : Tile_Type<"Token", "token"> {
  let summary = "a product in flight";
  let parameters = (ins "::mlir::RankedTensorType":$resultType);
  let assemblyFormat = "`<` $resultType `>`";
}

//===--------------------------------------------------------------------------------------------------------------===//
// Enums
//===--------------------------------------------------------------------------------------------------------------===//

def Tile_ListScope : I32EnumAttr<"ListScope", "", [
    I32EnumAttrCase<"Tiles", 0, "tiles">, I32EnumAttrCase<"Batches", 1, "batches">,
    I32EnumAttrCase<"Heads", 2, "heads">]> {
  let cppNamespace = "::mlir::tile";
}

def Tile_Distribution : I32EnumAttr<"Distribution", "", [
    I32EnumAttrCase<"Paired", 0, "paired">, I32EnumAttrCase<"Grouped", 1, "grouped">,
    I32EnumAttrCase<"Sorted", 2, "sorted">, I32EnumAttrCase<"List", 3, "list">]> {
  let cppNamespace = "::mlir::tile";
}

def Tile_WorkAttr : AttrDef<Tile_Dialect, "Work"> {
  let mnemonic = "work";
  let summary = "how the work tiles of a program's grid are distributed over CTAs";
  let description = [{
    `tile-persist` describes each distribution, and how CTAs get the work tiles of a `single` program.

    - `paired`: work tiles with larger x take less time, so that the two with x and nx - 1 - x together take about as
      long as any other such pair (causal masks).
    - `grouped`: work tiles take about as long as their neighbours, and those with the last x are the shortest (a
      window), so that pairs would take unequal times.
    - `sorted`: work tiles may take any time. `tile-order` adds a kernel that writes a work list, longest tile first,
      and changes the distribution to `list`.
    - `list`: work tiles are taken from the work list. An item of the list stands for several work tiles that take
      equally long:

      | of | number of items | an item stands for |
      |---|---|---|
      | `tiles` (the default) | nx | x, in every head and batch |
      | `batches` | nx * nz | x + nx * z, in every head |
      | `heads` | nx * ny * nz | x + nx * (y + ny * z) |

      An entry of the list is the item, followed by `numbers` scalars of the item that `tile-order` has precomputed, and
      by `own` scalars for each warpgroup, those of warpgroup 0 first. `tile.list_number` reads the scalars.
    - `parts`: with P parts, work tile x is part x mod P of query tile x div P. An item is a query tile, and the list
      has an entry for each part that exists (`tile.part_size`).
  }];
  let parameters = (ins EnumParameter<Tile_Distribution>:$distribution,
                        DefaultValuedParameter<"::mlir::tile::ListScope", "::mlir::tile::ListScope::Tiles">:$scope,
                        DefaultValuedParameter<"int64_t", "0">:$numbers, DefaultValuedParameter<"int64_t", "0">:$own,
                        DefaultValuedParameter<"int64_t", "1">:$parts);
  let assemblyFormat = "`<` $distribution (`of` $scope^)? (`numbers` $numbers^)? (`own` $own^)? (`parts` $parts^)? `>`";
  let genVerifyDecl = 1;
}

def Tile_Epilogue : I32EnumAttr<"Epilogue", "", [
    I32EnumAttrCase<"Plain", 0, "plain">, I32EnumAttrCase<"Product", 1, "product">,
    I32EnumAttrCase<"Softmax", 2, "softmax">]> {
  let cppNamespace = "::mlir::tile";
}

def Tile_SlotRole : I32EnumAttr<"SlotRole", "", [
    I32EnumAttrCase<"Ones", 0, "ones">, I32EnumAttrCase<"Columns", 1, "columns">,
    I32EnumAttrCase<"Slopes", 2, "slopes">, I32EnumAttrCase<"Output", 3, "output">]> {
  let cppNamespace = "::mlir::tile";
}

def Tile_ReduceKind : I32EnumAttr<"ReduceKind", "", [
    I32EnumAttrCase<"Max", 0, "max">, I32EnumAttrCase<"Sum", 1, "sum">,
    I32EnumAttrCase<"MaxOfBits", 2, "max_of_bits">]> {
  let cppNamespace = "::mlir::tile";
}

#endif // FLASHC_TILE_DIALECT_TD
