//===- TileRegisterOps.td - the ops on tiles in registers -------------------------------------------------------===//
//
// A part of TileOps.td, which includes it.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_TILE_REGISTER_OPS_TD
#define FLASHC_TILE_REGISTER_OPS_TD

def Tile_RowReduceOp : Tile_Op<"row_reduce", [Pure]> {
  let summary = "reduce an accumulator along its columns";
  let description = [{
    `max` gives `#tile.row` (a local tree and two butterfly shuffles) or, as `sum` does, `#tile.lane_partial` (the local
    tree only; `tile.combine` goes over the lanes). A NaN does not count in `max`.
    `max_of_bits` compares f32 as signed integers, of which three have a maximum in one instruction (VIMNMX3): it is the
    maximum unless all are negative, then some number that is, or -0; a NaN is the greatest, or negative, by its sign.
  }];
  let arguments = (ins Tile_ReduceKind:$kind, Tile_AccTile:$source);
  let results = (outs Tile_OneOf<[Tile_RowTile, Tile_LanePartialTile]>:$result);
  let assemblyFormat = "$kind $source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_CombineOp : Tile_Op<"combine", [Pure]> {
  let summary = "reduce a lane_partial over its four lanes: add, if nothing else is said";
  let arguments = (ins DefaultValuedAttr<Tile_ReduceKind, "::mlir::tile::ReduceKind::Sum">:$kind,
                       Tile_LanePartialTile:$source);
  let results = (outs Tile_RowTile:$result);
  let builders = [OpBuilder<(ins "::mlir::Type":$type, "::mlir::Value":$source), [{
    build($_builder, $_state, type, ReduceKind::Sum, source);
  }]>];
  let assemblyFormat = "($kind^)? $source attr-dict `:` type($source) `->` type($result)";
}

def Tile_SplitSumsOp : Tile_Op<"split_sums", [Pure]> {
  let summary = "an accumulator without its last eight columns, and the row sums that those hold";
  let arguments = (ins Tile_AccTile:$source);
  let results = (outs Tile_AccTile:$columns, Tile_RowTile:$sums);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($columns) `,` type($sums)";
  let hasVerifier = 1;
}

def Tile_BroadcastOp : Tile_Op<"broadcast", [Pure]> {
  let summary = "a row value in every column of an accumulator, or in every lane of the row";
  let description = [{
    `#tile.row` becomes `#tile.acc` or `#tile.lane_partial`; `#tile.lane_partial` becomes `#tile.acc`, each lane's value
    in the columns that the lane holds.
  }];
  let arguments = (ins Tile_OneOf<[Tile_RowTile, Tile_LanePartialTile]>:$source);
  let results = (outs Tile_OneOf<[Tile_AccTile, Tile_LanePartialTile]>:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_ScaleRowsOp : Tile_Op<"scale_rows", [Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "multiply every row of an accumulator, or of a lane_partial, by its factor";
  let description = [{
    Factors are finite: zeros stay zeros, whatever the factor (the fold of what the first key tile scales).
  }];
  let arguments = (ins Tile_OneOf<[Tile_AccTile, Tile_LanePartialTile]>:$source, Tile_RowTile:$factor);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$source `,` $factor attr-dict `:` type($source) `,` type($factor)";
  let hasFolder = 1;
}

def Tile_ToOperandAOp : Tile_Op<"to_operand_a", [Pure]> {
  let summary = "round an accumulator to 16 bits, as the A operand of a product (no shuffle)";
  let arguments = (ins Tile_AccTile:$source);
  let results = (outs Tile_OperandATile:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_ReadColumnsOp : Tile_Op<"read_columns", [MemoryEffects<[MemRead]>]> {
  let summary = "a row of a slot of f32, as a value for each column";
  let arguments = (ins Tile_Slot:$slot, ConfinedAttr<I64Attr, [IntNonNegative]>:$row);
  let results = (outs Tile_ColTile:$result);
  let assemblyFormat = "$slot `[` $row `]` attr-dict `:` type($slot) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_FromOperandAOp : Tile_Op<"from_operand_a", [Pure]> {
  let summary = "the rounded elements of an A operand as an accumulator";
  let description = [{
    For who holds the operand anyway: half the registers of the accumulator that it has been.
  }];
  let arguments = (ins Tile_OperandATile:$source);
  let results = (outs Tile_OfF32<Tile_AccTile>:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_DropoutMaskOp : Tile_Op<"dropout_mask", [Pure]> {
  let summary = "which elements of a tile of probabilities dropout keeps"; // flashc/Support/Philox.h
  let description = [{
    A flag for each element: that its random byte, a function of (`seed`, `offset`, `batch`, `head`, query, key) alone,
    is at least `threshold` (`flashc/Support/Philox.h`). The tile's first query is `query`, a multiple of 16, and its
    first key is `key`, a multiple of 16, and of 32 if the tile has a multiple of 32 keys in its columns. Its rows are
    queries, or with `transposed` keys.

    A call of Philox gives a thread 16 elements of the accumulator whose rows are queries. With `transposed` lanes
    compute the flags for that layout and exchange them, 16 blocks of 8 x 8 at a time (`movmatrix`); of the 32 keys of a
    call a warp has 16.
  }];
  let arguments = (ins I64:$seed, I64:$offset, Index:$batch, Index:$head, Index:$query, Index:$key,
                       ConfinedAttr<I64Attr, [IntMinValue<1>, IntMaxValue<255>]>:$threshold, UnitAttr:$transposed);
  let results = (outs Tile_FlagsTile:$result);
  let assemblyFormat = [{
    $seed `,` $offset `at` `(` $batch `,` $head `,` $query `,` $key `)` `least` $threshold (`transposed` $transposed^)?
    attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_KeepOp : Tile_Op<"keep", [Pure, AllShapesMatch<["source", "flags"]>, AllTypesMatch<["source", "result"]>]> {
  let summary = "the elements whose flag is set, and 0 for the others";
  let arguments = (ins Tile_OneOf<[Tile_OfF32<Tile_AccTile>, Tile_OperandATile]>:$source, Tile_FlagsTile:$flags);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$source `where` $flags attr-dict `:` type($source) `,` type($flags)";
}

def Tile_VoteAnyOp : Tile_Op<"vote_any", []> {
  let summary = "whether any row of this warp says yes; uniform within the warp";
  let arguments = (ins AnyRankedTensor:$source);
  let results = (outs I1:$result);
  let assemblyFormat = "$source attr-dict `:` type($source)";
}

def Tile_PositiveF32Attr
    : ConfinedAttr<F32Attr, [
        AttrConstraint<CPred<"llvm::cast<::mlir::FloatAttr>($_self).getValue().isFiniteNonZero() && "
                             "!llvm::cast<::mlir::FloatAttr>($_self).getValue().isNegative()">,
                       "positive and finite">]>;

def Tile_AllWithinOp : Tile_Op<"all_within", []> {
  let summary = "whether elements that this warp holds are at most `limit` in magnitude; uniform within the warp";
  let description = [{
    True only if all are; a NaN is not. Asked of pairs of elements, of different rows and columns: false also where two
    are more than `limit` together. For two elements that a thread holds an addition and half a maximum (of three); and
    a vote.
  }];
  let arguments = (ins Tile_OfF32<Tile_AccTile>:$source, Tile_PositiveF32Attr:$limit);
  let results = (outs I1:$result);
  let assemblyFormat = "$source attr-dict `:` type($source)";
}

def Tile_IsAlignedOp : Tile_Op<"is_aligned", [Pure]> {
  let summary = "whether an element's address is a multiple of `bytes`";
  let description = [{
    Threads may ask for different elements; code that branches on the answer asks them all first
    (a vote of the warp).
  }];
  let arguments = (ins AnyMemRef:$memref, Variadic<Index>:$indices,
                       ConfinedAttr<I64Attr, [IntPositive, IntPowerOf2]>:$bytes);
  let results = (outs I1:$result);
  let assemblyFormat = "$memref `[` $indices `]` `to` $bytes attr-dict `:` type($memref)";
  let hasVerifier = 1;
}

def Tile_ReadPairOp : Tile_Op<"read_pair", [MemoryEffects<[MemRead]>]> {
  let summary = "an element of an array and the one behind it in the innermost dimension, in one instruction";
  let description = [{
    The address is a multiple of the size of both. A pair of bytes (i8, i1) is an i16, the first one in its lower half,
    because LLVM would take a vector of bytes apart; other pairs are vectors.
  }];
  let arguments = (ins AnyMemRef:$memref, Variadic<Index>:$indices);
  let results = (outs AnyTypeOf<[AnyVectorOfNonZeroRank, I16]>:$result);
  let assemblyFormat = "$memref `[` $indices `]` attr-dict `:` type($memref) `->` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The type of a pair of elements; null if there are no pairs of them.
    static ::mlir::Type getPairType(::mlir::Type element);
  }];
}

def Tile_UniformOp : Tile_Op<"uniform", [Pure, SameOperandsAndResultType]> {
  let summary = "a scalar that is the same in every thread of a warp, as ptxas can see";
  let description = [{
    Whatever passes through a general register, a quotient for one, ptxas takes for different in every thread; loops
    bounded by it would keep their counters and descriptors per thread (docs/hopper-schedule.md). In a consumer this is
    a `redux.sync`, which writes a uniform register (PTX ISA 9.7.13.11); the producer, one thread, has no need of it.
  }];
  let arguments = (ins Index:$source);
  let results = (outs Index:$result);
  let assemblyFormat = "$source attr-dict";
}

def Tile_RowsOp : Tile_Op<"rows", [SingleBlock, RecursiveMemoryEffects]> {
  let summary = "scalar code once per row of a tile";
  let description = [{
    The region sees the row's position `i`, absolute: the tile's first row is `row`. What a score or mask region
    computes of b, h and i becomes this op, in front of the loop over keys; a `tile.map` reads it.

    Example:
    ```mlir
    %penalty = tile.rows at(%row) {
    ^bb0(%i: index):
      %p = memref.load %penalties[%b, %i] : memref<2x1024xf32, strided<[?, 1]>>
      tile.yield %p : f32
    } : tensor<64xf32, #tile.row>
    ```
  }];
  let arguments = (ins Index:$row);
  let results = (outs Tile_RowTile:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`at` `(` $row `)` attr-dict-with-keyword $body `:` type($result)";
  let hasRegionVerifier = 1;
}

def Tile_MapOp : Tile_Op<"map", [SingleBlock, RecursiveMemoryEffects,
                                 AllTypesMatch<["source", "result"]>]> {
  let summary = "apply scalar code to every element of an accumulator";
  let description = [{
    The region sees the element and its position `(s, i, j)`, absolute: the tile's first element is at `(row, col)`.
    Behind them it sees the element's row of each of `rows` that is `#tile.row`, and its column of one that is
    `#tile.col`. Score and mask regions become this
    op.

    With a second result the region yields two values, and the tile is their sum: the second one is the same for all
    elements of a row that one thread holds, and there is one of it for each row and lane. What varies along a row as a
    multiple of j does so within the thread's columns by a constant of each element, which costs one multiply-add
    (`tile.first_column`); the rest is in the second result, which nobody adds to the elements: a maximum takes it
    behind the local tree, an exponential as part of its offset.

    Example:
    ```mlir
    // s + slope * (j - i)
    %u, %rest = tile.map %s at(%row, %col) {
    ^bb0(%e: f32, %i: index, %j: index):
      %first = tile.first_column %j
      %inThread = arith.subi %j, %first : index
      ... // %x = f32 of %inThread, %d = f32 of %first - %i
      %r = math.fma %slope, %x, %e : f32
      %h = arith.mulf %slope, %d : f32
      tile.yield %r, %h : f32, f32
    } : tensor<64x128xf32, #tile.acc>, tensor<64xf32, #tile.lane_partial>
    ```

    Canonical form: bounds on functions of j are bounds on j (`i - j <= n` is `j >= i - n`, `j floordiv 4 <= n` is
    `j <= 4 n + 3`, an equality is two); of several that a conjunction puts on j from one side, one is left, the least
    or the greatest (`j <= i + n and j < nk`: a comparison less for every row). The bounds themselves, plus or minus
    one, are indices, and positions are below 2^30.

    A thread's columns ascend with its elements, so a bound on j keeps the first elements of a row, or all but those: a
    condition of bounds, joined by and, or and exclusive or, is computed for 32 elements at once, as the bits of a word.
    So is one that repeats along the keys, as `(i - j) mod 3 = 0`, after at most eight of a thread's blocks of columns:
    it is computed once for each element before it repeats.
  }];
  let arguments = (ins AnyRankedTensor:$source, Variadic<Tile_OneOf<[Tile_RowTile, Tile_ColTile]>>:$rows, Index:$row,
                       Index:$col);
  let results = (outs AnyRankedTensor:$result, Optional<Tile_LanePartialTile>:$offset);
  let regions = (region SizedRegion<1>:$body);
  let builders = [OpBuilder<(ins "::mlir::Value":$source, "::mlir::Value":$row, "::mlir::Value":$col), [{
    build($_builder, $_state, source.getType(), /*offset=*/::mlir::Type(), source, ::mlir::ValueRange(), row, col);
  }]>];
  let assemblyFormat = [{
    $source (`rows` `(` $rows^ `:` type($rows) `)`)? `at` `(` $row `,` $col `)` attr-dict-with-keyword $body
    `:` type($source) (`,` type($offset)^)?
  }];
  let hasCanonicalizer = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// The type of the tile of elements.
    ::mlir::RankedTensorType getType() { return ::llvm::cast<::mlir::RankedTensorType>(getResult().getType()); }
    /// Whether `value` is the same for all elements of a row: no code of the region computes it from the element or
    /// from j.
    bool isSameInRow(::mlir::Value value);
    /// The same for the elements of a row that one thread holds: j may come in through tile.first_column.
    bool isSameInThread(::mlir::Value value);
    /// An integer of the region as a sum of multiples of i and j, and of what is the same in the whole tile. Without
    /// `i`, that part of it is any function of the row.
    struct Linear {
      std::optional<int64_t> i;
      int64_t j;
    };
    /// The sum that `value` is, if it is one and of 32 bits or more all the way.
    std::optional<Linear> getLinear(::mlir::Value value);
    /// A comparison of the region as a bound on j, the same for all elements of a row: j <= limit + offset, or
    /// j >= limit + offset.
    struct Bound {
      bool isUpper;
      ::mlir::Value limit;
      int64_t offset;
    };
    /// The bound that `condition` is, if it is one.
    std::optional<Bound> getBound(::mlir::Value condition);
  }];
}

def Tile_YieldOp : Tile_Op<"yield", [Pure, ReturnLike, Terminator, ParentOneOf<["MapOp", "RowsOp"]>]> {
  let summary = "the new element of a tile.map and what it is to be added to, or the row of a tile.rows";
  let arguments = (ins AnyType:$value, Optional<AnyType>:$offset);
  let builders = [OpBuilder<(ins "::mlir::Value":$value), [{ build($_builder, $_state, value, /*offset=*/Value()); }]>];
  let assemblyFormat = "attr-dict $value (`,` $offset^)? `:` type($value) (`,` type($offset)^)?";
}

def Tile_FirstColumnOp : Tile_Op<"first_column", [Pure, HasParent<"MapOp">]> {
  let summary = "the first column that the element's thread holds";
  let description = [{
    Of a `tile.map`'s position j. How far an element lies behind it, `j - tile.first_column j`, is a constant of the
    element: 8 n or 8 n + 1 (PTX ISA 9.7.15.5.1.1).
  }];
  let arguments = (ins Index:$column);
  let results = (outs Index:$result);
  let assemblyFormat = "$column attr-dict";
  let hasVerifier = 1;
}

def Tile_OutsideOp : Tile_Op<"outside", [Pure]> {
  let summary = "whether an index lies outside `[lower, upper)`";
  let description = [{
    Marks what only some iterations of a loop need (masked tiles). `tile-split-loops` splits the loop at the bounds, so
    that the answer is known in each part.
  }];
  let arguments = (ins Index:$index, Index:$lower, Index:$upper);
  let results = (outs I1:$result);
  let assemblyFormat = "$index `of` `[` $lower `,` $upper `)` attr-dict";
}

#endif // FLASHC_TILE_REGISTER_OPS_TD
