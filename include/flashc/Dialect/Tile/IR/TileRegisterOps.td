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
    `max` gives an `#tile.row` tile (a local tree and two butterfly shuffles) or, like `sum`, an `#tile.lane_partial`
    tile (the local tree only; `tile.combine` reduces over the lanes). `max` ignores NaNs.

    `max_of_bits` compares f32 as signed integers, since one instruction takes the maximum of three of them (VIMNMX3).
    The result is the maximum if an element is positive or +0; otherwise it is one of the elements. A NaN with the sign
    bit 0 counts as the greatest number, and a NaN with the sign bit 1 as a negative one.
  }];
  let arguments = (ins Tile_ReduceKind:$kind, Tile_AccTile:$source);
  let results = (outs Tile_OneOf<[Tile_RowTile, Tile_LanePartialTile]>:$result);
  let assemblyFormat = "$kind $source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_CombineOp : Tile_Op<"combine", [Pure]> {
  let summary = "reduce a lane_partial over its four lanes, by default by addition";
  let arguments = (ins DefaultValuedAttr<Tile_ReduceKind, "::mlir::tile::ReduceKind::Sum">:$kind,
                       Tile_LanePartialTile:$source);
  let results = (outs Tile_RowTile:$result);
  let builders = [OpBuilder<(ins "::mlir::Type":$type, "::mlir::Value":$source), [{
    build($_builder, $_state, type, ReduceKind::Sum, source);
  }]>];
  let assemblyFormat = "($kind^)? $source attr-dict `:` type($source) `->` type($result)";
}

def Tile_SplitSumsOp : Tile_Op<"split_sums", [Pure]> {
  let summary = "split an accumulator into its columns without the last eight, and the row sums in the last eight";
  let arguments = (ins Tile_AccTile:$source);
  let results = (outs Tile_AccTile:$columns, Tile_RowTile:$sums);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($columns) `,` type($sums)";
  let hasVerifier = 1;
}

def Tile_BroadcastOp : Tile_Op<"broadcast", [Pure]> {
  let summary = "copy a row value to every column of an accumulator, or to every lane of the row";
  let description = [{
    An `#tile.row` tile becomes an `#tile.acc` or an `#tile.lane_partial` tile. An `#tile.lane_partial` tile becomes an
    `#tile.acc` tile, with each lane's value in the columns that the lane holds.
  }];
  let arguments = (ins Tile_OneOf<[Tile_RowTile, Tile_LanePartialTile]>:$source);
  let results = (outs Tile_OneOf<[Tile_AccTile, Tile_LanePartialTile]>:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_ScaleRowsOp : Tile_Op<"scale_rows", [Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "multiply every row of an accumulator, or of a lane_partial, by its factor";
  let description = [{
    Factors are assumed to be finite, so that zeros stay zeros: scaling an accumulator of zeros, as the first key tile
    does, folds away.
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
  let summary = "read a row of a slot of f32, one value for each column";
  let arguments = (ins Tile_Slot:$slot, ConfinedAttr<I64Attr, [IntNonNegative]>:$row);
  let results = (outs Tile_ColTile:$result);
  let assemblyFormat = "$slot `[` $row `]` attr-dict `:` type($slot) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_FromOperandAOp : Tile_Op<"from_operand_a", [Pure]> {
  let summary = "the rounded elements of an A operand as an accumulator";
  let description = [{
    Code that holds the A operand anyway saves registers by this op: the operand takes half the registers of the
    accumulator.
  }];
  let arguments = (ins Tile_OperandATile:$source);
  let results = (outs Tile_OfF32<Tile_AccTile>:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_DropoutMaskOp : Tile_Op<"dropout_mask", [Pure]> {
  let summary = "which elements of a tile of probabilities dropout keeps";
  let description = [{
    Computes a flag for each element, which says whether the element's random byte is at least `threshold`. The byte is
    a function of (`seed`, `offset`, `batch`, `head`, query, key) alone (`flashc/Support/Philox.h`). The rows of the
    tile are queries and its columns keys; with `transposed`, rows are keys and columns queries. The tile's first query
    is `query`, a multiple of 16. Its first key is `key`, a multiple of 16; if the columns are keys and their number is
    a multiple of 32, `key` is a multiple of 32.

    One call of Philox gives a thread 16 elements of an accumulator whose rows are queries. With `transposed`, the lanes
    compute the flags for that layout and exchange them, 16 blocks of 8 x 8 at a time (`movmatrix`); a warp then uses 16
    of the 32 keys of a call.
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
  let summary = "keep the elements whose flag is set, and replace the others by 0";
  let arguments = (ins Tile_OneOf<[Tile_OfF32<Tile_AccTile>, Tile_OperandATile]>:$source, Tile_FlagsTile:$flags);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$source `where` $flags attr-dict `:` type($source) `,` type($flags)";
}

def Tile_VoteAnyOp : Tile_Op<"vote_any", []> {
  let summary = "whether any element that this warp holds is true; uniform within the warp";
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
  let summary = "whether all elements that this warp holds are at most `limit` in magnitude; uniform within the warp";
  let description = [{
    The test is conservative: it is true only if all elements are at most `limit` in magnitude, but may be false
    although they are, because it tests sums of the magnitudes of two elements. A NaN makes it false. The test costs an
    addition and half a maximum (of three) for every two elements of a thread, and a vote.
  }];
  let arguments = (ins Tile_OfF32<Tile_AccTile>:$source, Tile_PositiveF32Attr:$limit);
  let results = (outs I1:$result);
  let assemblyFormat = "$source attr-dict `:` type($source)";
}

def Tile_IsAlignedOp : Tile_Op<"is_aligned", [Pure]> {
  let summary = "whether an element's address is a multiple of `bytes`";
  let description = [{
    Threads may ask for different elements. Code that branches on the result combines the threads' results first (a vote
    of the warp).
  }];
  let arguments = (ins AnyMemRef:$memref, Variadic<Index>:$indices,
                       ConfinedAttr<I64Attr, [IntPositive, IntPowerOf2]>:$bytes);
  let results = (outs I1:$result);
  let assemblyFormat = "$memref `[` $indices `]` `to` $bytes attr-dict `:` type($memref)";
  let hasVerifier = 1;
}

def Tile_ReadPairOp : Tile_Op<"read_pair", [MemoryEffects<[MemRead]>]> {
  let summary = "read an element of an array and the next one in the innermost dimension, in one instruction";
  let description = [{
    The address is a multiple of the size of the pair. A pair of bytes (i8, i1) is an i16 with the first byte in its
    lower half, because LLVM would take a vector of bytes apart; other pairs are vectors.
  }];
  let arguments = (ins AnyMemRef:$memref, Variadic<Index>:$indices);
  let results = (outs AnyTypeOf<[AnyVectorOfNonZeroRank, I16]>:$result);
  let assemblyFormat = "$memref `[` $indices `]` attr-dict `:` type($memref) `->` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The type of a pair of elements of type `element`; null if the op does not read such pairs.
    static ::mlir::Type getPairType(::mlir::Type element);
  }];
}

def Tile_UniformOp : Tile_Op<"uniform", [Pure, SameOperandsAndResultType]> {
  let summary = "make it visible to ptxas that a scalar is the same in every thread of a warp";
  let description = [{
    The result is `source`, in a uniform register. ptxas assumes that a value in a general register, such as a quotient,
    differs between threads, and loops bounded by it would keep their counters and descriptors per thread
    (docs/hopper-schedule.md). In a consumer the op is a `redux.sync`, which writes a uniform register (PTX ISA
    9.7.13.11). In the producer, which is one thread, it is `source`.
  }];
  let arguments = (ins Index:$source);
  let results = (outs Index:$result);
  let assemblyFormat = "$source attr-dict";
}

def Tile_RowsOp : Tile_Op<"rows", [SingleBlock, RecursiveMemoryEffects]> {
  let summary = "run scalar code once per row of a tile";
  let description = [{
    The region gets the absolute position `i` of the row; the tile's first row has the position `row`. The values that a
    score or mask region computes from b, h and i alone become this op, before the loop over keys, and a `tile.map`
    reads them.

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
    The region gets the element and its absolute position, `(s, i, j)`; the tile's first element is at `(row, col)`.
    Further arguments are, for each tile of `rows`, the value of the element's row (`#tile.row`) or column
    (`#tile.col`). Score and mask regions become this op.

    With a second result the region yields two values, whose sum is the new element. The second value is the same for
    all elements of a row that one thread holds, so that the second result has one value for each row and lane. It is
    not added to the elements: a maximum adds it after the local tree, and an exponential adds it to its offset. So a
    term that is a multiple of j costs one multiply-add: within the thread's columns it varies by a constant of each
    element (`tile.first_column`), and the rest is in the second result.

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

    Canonical form: bounds on functions of j become bounds on j (`i - j <= n` is `j >= i - n`, `j floordiv 4 <= n` is `j
    <= 4 n + 3`, and an equality is two bounds). Several bounds of a conjunction on j from one side become one, their
    minimum or maximum (`j <= i + n and j < nk`), which saves a comparison for every row. This assumes that the bounds,
    plus or minus one, fit an index, and that positions are below 2^30.

    Lowering: a thread's columns ascend with its elements, so that a bound on j keeps the first elements of a row, or
    all after them. Conditions of bounds, joined by and, or and exclusive or, are therefore computed for 32 elements at
    once, as the bits of a word. So are conditions that repeat along the keys after at most eight of a thread's blocks
    of columns, such as `(i - j) mod 3 = 0`: they are computed once for each element of the first period.
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
    /// Whether `value` is the same for all elements of a row that one thread holds: code of the region may compute it
    /// from tile.first_column, but not from the element or from j itself.
    bool isSameInThread(::mlir::Value value);
    /// An integer of the region as a sum: `i` times the row position, plus `j` times the column position, plus a term
    /// that is the same in the whole tile. If `i` is none, the part of the sum that does not depend on j may be any
    /// function of the row.
    struct Linear {
      std::optional<int64_t> i;
      int64_t j;
    };
    /// Returns `value` as a Linear. None if `value` is no such sum, or if a part of the sum is computed in less than 32
    /// bits.
    std::optional<Linear> getLinear(::mlir::Value value);
    /// A bound on j that is the same for all elements of a row: j <= limit + offset, or j >= limit + offset.
    struct Bound {
      bool isUpper;
      ::mlir::Value limit;
      int64_t offset;
    };
    /// Returns `condition` as a Bound if it compares j with a value that is the same in the row. None otherwise.
    std::optional<Bound> getBound(::mlir::Value condition);
  }];
}

def Tile_YieldOp : Tile_Op<"yield", [Pure, ReturnLike, Terminator, ParentOneOf<["MapOp", "RowsOp"]>]> {
  let summary = "the new element of a tile.map and its optional offset, or the value of a row of a tile.rows";
  let arguments = (ins AnyType:$value, Optional<AnyType>:$offset);
  let builders = [OpBuilder<(ins "::mlir::Value":$value), [{ build($_builder, $_state, value, /*offset=*/Value()); }]>];
  let assemblyFormat = "attr-dict $value (`,` $offset^)? `:` type($value) (`,` type($offset)^)?";
}

def Tile_FirstColumnOp : Tile_Op<"first_column", [Pure, HasParent<"MapOp">]> {
  let summary = "the first column that the element's thread holds";
  let description = [{
    The operand is the position j of the `tile.map` around this op. The distance `j - tile.first_column j` of an element
    from the thread's first column is a constant of the element: 8 n or 8 n + 1 (PTX ISA 9.7.15.5.1.1).
  }];
  let arguments = (ins Index:$column);
  let results = (outs Index:$result);
  let assemblyFormat = "$column attr-dict";
  let hasVerifier = 1;
}

def Tile_OutsideOp : Tile_Op<"outside", [Pure]> {
  let summary = "whether an index lies outside `[lower, upper)`";
  let description = [{
    The op guards code that only some iterations of a loop need, such as the mask. `tile-split-loops` splits the loop at
    the bounds, so that the result is known in each part.
  }];
  let arguments = (ins Index:$index, Index:$lower, Index:$upper);
  let results = (outs I1:$result);
  let assemblyFormat = "$index `of` `[` $lower `,` $upper `)` attr-dict";
}

#endif // FLASHC_TILE_REGISTER_OPS_TD
