//===- FlashGradientOps.td - the gradients of attention (L0, L1) --------------------------------------------------===//
#ifndef FLASHC_FLASH_GRADIENT_OPS_TD
#define FLASHC_FLASH_GRADIENT_OPS_TD

include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.td"
include "mlir/Interfaces/ParallelCombiningOpInterface.td"
include "mlir/Interfaces/ViewLikeInterface.td"

def Flash_AttentionBackwardOp : Flash_WholeOp<"attention_backward", [{
    $q `,` $k `,` $v `,` $o `,` $lse `,` $dout (`,` $dlse^)? `:` type($q) `,` type($k) `,` type($v) `,` type($o) `,`
    type($lse) `,` type($dout) (`,` type($dlse)^)? }], [AttrSizedOperandSegments]> {
  let summary = "the gradients of attention with respect to q, k and v";
  let description = [{
    Computes the gradients of a `flash.attention` of the same q, k, v, scale, score and mask. `do` is the gradient of
    the attention's output; the optional `dlse` is the gradient of its log-sum-exp. With `X = scale * Q K^T` and `S =
    score(X) where mask`:

        P     = exp(S - lse)                       0 where the mask drops the pair or lse = -inf
        delta = rowsum(dO * O) - dlse
        dP    = dO V^T
        dX    = P * (dP - delta) * score'(X)       score' is the derivative of the score region with respect to X
        dV    = P^T dO        dK = scale * dX^T Q        dQ = scale * dX K
        dsinks_h = -sum over b and i of exp(sinks_h - lse) * delta         with `sinks` only

    | value      | shape              | element type |
    |------------|--------------------|--------------|
    | q, dq      | `[B, Hq, Nq, D]`   | T; dq T or f32 |
    | k, dk      | `[B, Hk, Nk, D]`   | T; dk T or f32 |
    | v, dv      | `[B, Hk, Nk, Dv]`  | T; dv T or f32 |
    | o          | `[B, Hq, Nq, Dv]`  | T or f32     |
    | lse        | `[B, Hq, Nq]`      | f32          |
    | do         | `[B, Hq, Nq, Dv]`  | T            |
    | dlse       | `[B, Hq, Nq]`      | f32          |
    | sinks, dsinks | `[Hq]`          | f32          |
    | philox     | `[2]`              | i64          |

    With `dropout` the op takes the `philox` and the `dropout_p` of the forward pass, and computes the factor D of each
    pair (see `flash.attention`) again, since D is not stored. Then dP = D * (dO V^T) and dV = (D * P)^T dO.

    With `deterministic` a kernel computes every sum in a fixed order, so that equal arguments give equal bits in every
    run. Without it a kernel may add up dq in memory in any order.

    The gradients of k and v are sums over the query heads that share a key head. Memrefs, regions and `group_size` are
    as for `flash.attention`. `flash-differentiate-scores` fills the region `derivative` from `score`. If the region is
    empty, the decomposition of the op differentiates the score.

    Precision: products accumulate in f32; P and dX are rounded to T before the products that read them. The gradients
    are sums over all queries, keys and heads of a group in f32, rounded once. A row that sees no key (lse = -inf) gives
    dq = 0 and nothing to dk and dv, never NaN.

    Constraints: those of `flash.attention` (C1, C4 to C9) for q, k, v and the regions, and by the same numbers:
    - (C2) q, k, v, o, do and the gradients have rank 4, lse and dlse have rank 3, sinks and dsinks rank 1.
    - (C3) q, k, v and do share the element type T in {bf16, f16, f32}; o and the gradients have T or f32; lse, dlse,
      sinks and dsinks have f32.
    - (C8) the derivative region has the arguments of the score region, and yields `f32`; it exists with a score only.
    - (C10) on memrefs `outs` holds dq, dk and dv, and with sinks dsinks, and there are no results; on tensors there are
      as many results and no `outs`.
    - (C11, C14) as for `flash.attention`.

    Lowers to: Algorithm 0 in linalg (`flash-decompose`: P and dX materialised), or `flash.accumulate_gradients`
    (`flash-online-softmax`).

    Example:
    ```mlir
    %dq, %dk, %dv = flash.attention_backward
        ins(%q, %k, %v, %o, %lse, %do : tensor<2x8x128x64xbf16>, tensor<2x2x?x64xbf16>, tensor<2x2x?x64xbf16>,
            tensor<2x8x128x64xbf16>, tensor<2x8x128xf32>, tensor<2x8x128x64xbf16>)
        {scale = 1.250000e-01 : f32}
        mask (%b: index, %h: index, %i: index, %j: index) {
          %keep = arith.cmpi sle, %j, %i : index
          flash.yield %keep : i1
        } -> tensor<2x8x128x64xbf16>, tensor<2x2x?x64xbf16>, tensor<2x2x?x64xbf16>
    ```
  }];
  let arguments = (ins Flash_Buffer:$q, Flash_Buffer:$k, Flash_Buffer:$v, Flash_Buffer:$o, Flash_Buffer:$lse,
                       Flash_Buffer:$dout, Optional<Flash_Buffer>:$dlse, Optional<Flash_Buffer>:$sinks,
                       Optional<Flash_Buffer>:$philox, Variadic<Flash_Buffer>:$outs, F32Attr:$scale,
                       OptionalAttr<I64Attr>:$group_size, OptionalAttr<F32Attr>:$dropout_p, UnitAttr:$deterministic);
  let regions = (region AnyRegion:$score, AnyRegion:$mask, AnyRegion:$derivative);
  let assemblyFormat = insFormat # sinksFormat # dropoutFormat # outsFormat # regionsFormat # derivativeFormat #
    endFormat;
  let extraClassDeclaration = wholeOpDeclaration # dropoutDeclaration # [{
    SmallVector<StepOperand> getOutputs();
    Region *getDerivativeRegion() { return &getDerivative(); }
    StringRef getKernelKind() { return "backward"; }
    bool isDeterministic() { return getDeterministic(); }
  }];
}

def Flash_Gradients : I32BitEnumAttr<"Gradients", "gradients that a step accumulates", [
    I32BitEnumAttrCaseBit<"DQ", 0, "dq">,
    I32BitEnumAttrCaseBit<"DK", 1, "dk">,
    I32BitEnumAttrCaseBit<"DV", 2, "dv">,
    I32BitEnumAttrCaseBit<"Rows", 3, "rows">,
    I32BitEnumAttrCaseBit<"Columns", 4, "columns">,
    I32BitEnumAttrCaseBit<"Pairs", 5, "pairs">,
    I32BitEnumAttrCaseBit<"Diagonals", 6, "diagonals">]> {
  let cppNamespace = "::mlir::flash";
  let genSpecializedAttr = 0;
  let separator = ", ";
}
def Flash_GradientsAttr : EnumAttr<Flash_Dialect, Flash_Gradients, "gradients"> {
  let assemblyFormat = "`<` $value `>`";
}

def Flash_AccumulateGradientsOp : Flash_StepOp<"accumulate_gradients", [AttrSizedOperandSegments]> {
  let summary = "one step of the gradients of attention, over a block of queries and keys";
  let description = [{
    Adds the gradients from the pairs of a block of queries and a block of keys (FlashAttention, Algorithm 4, lines 10
    to 22; FlashAttention-2, Algorithm 2). With P, dP and dX of the block as for `flash.attention_backward`, and T(x)
    for x rounded to the element type T:

        dv' = dv + T(P)^T dO        dk' = dk + scale * T(dX)^T Q        dq' = dq + scale * T(dX) K

    `gradients` says which of the three the op computes. The passes make ops with these values of `gradients`:

    | gradients      | resident | streamed | the state                                                           |
    |----------------|----------|----------|---------------------------------------------------------------------|
    | `<dq, dk, dv>` | keys     | queries  | dk and dv of the keys, and dq of the queries                        |
    | `<dk, dv>`, `<dk>`, `<dv>` | keys | queries | dk, dv, or both, of the keys                              |
    | `<dq>`         | queries  | keys     | dq of the queries                                                   |

    The other values are for gradients of tensors that a score reads (`flash.captured_gradient`). The op then adds up dX
    itself, and the derivative region, which is never empty, is the derivative of the score with respect to the value
    read:

    | gradients     | resident | streamed                | the state                                                |
    |---------------|----------|-------------------------|----------------------------------------------------------|
    | `<rows>`      | queries  | keys                    | sums of dX over the keys                                 |
    | `<columns>`   | keys     | queries                 | sums of dX over the queries                              |
    | `<pairs>`     | both     | batches and heads       | dX of each pair, summed over B or Hq where its extent is 1 |
    | `<diagonals>` | j - i    | queries, batches, heads | sums of dX over pairs of equal j - i, at j - i + Nq - 1  |

    An op of pairs or diagonals has whole sequences: it is not tiled at L1, and decomposes into loops over rows.

    | value      | shape             | element type |
    |------------|-------------------|--------------|
    | q          | `[B, Hq, Nq, D]`  | T            |
    | k          | `[B, Hk, Nk, D]`  | T            |
    | v          | `[B, Hk, Nk, Dv]` | T            |
    | do         | `[B, Hq, Nq, Dv]` | T            |
    | lse, delta | `[B, Hq, Nq]`     | f32          |
    | dq         | `[B, Hq, Nq, D]`  | f32          |
    | dk         | `[B, Hq, Nk, D]`  | f32          |
    | dv         | `[B, Hq, Nk, Dv]` | f32          |
    | rows       | `[B, Hq, Nq]`     | f32          |
    | columns    | `[B, Hq, Nk]`     | f32          |
    | pairs      | `[B or 1, Hq or 1, Nq, Nk]` | f32 |
    | diagonals  | `[B or 1, Hq or 1, Nq + Nk - 1]` | f32 |

    dk and dv are those of each query head; code after the loops adds up the heads of a group.

    `number` tells apart the ops of one function that have the same `gradients`.

    Constraints: those of `flash.attention_backward` (C2 to C9, C11) on tensors; results are typed like `outs`. A score
    needs its derivative.

    Lowers to: linalg (AggregatedOpInterface).

    Example:
    ```mlir
    %dk1, %dv1 = flash.accumulate_gradients
        ins(%q, %k, %v, %do, %lse, %delta : tensor<1x1x64x64xbf16>, tensor<1x1x32x64xbf16>, tensor<1x1x32x64xbf16>,
            tensor<1x1x64x64xbf16>, tensor<1x1x64xf32>, tensor<1x1x64xf32>)
        outs(%dk, %dv : tensor<1x1x32x64xf32>, tensor<1x1x32x64xf32>)
        at(%b0, %h0, %i0, %j0) {gradients = #flash.gradients<dk, dv>, scale = 1.250000e-01 : f32}
        -> tensor<1x1x32x64xf32>, tensor<1x1x32x64xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$q, AnyRankedTensor:$k, AnyRankedTensor:$v, AnyRankedTensor:$dout,
                       AnyRankedTensor:$lse, AnyRankedTensor:$delta, Variadic<AnyRankedTensor>:$state,
                       Optional<AnyRankedTensor>:$philox, Index:$b0, Index:$h0, Index:$i0, Index:$j0, F32Attr:$scale,
                       Flash_GradientsAttr:$gradients, OptionalAttr<I64Attr>:$group_size,
                       OptionalAttr<F32Attr>:$dropout_p, OptionalAttr<I64Attr>:$number);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let regions = (region AnyRegion:$score, AnyRegion:$mask, AnyRegion:$derivative);
  let assemblyFormat = [{
    `ins` `(` $q `,` $k `,` $v `,` $dout `,` $lse `,` $delta `:` type($q) `,` type($k) `,` type($v) `,` type($dout) `,`
    type($lse) `,` type($delta) `)` `outs` `(` $state `:` type($state) `)` }] # dropoutFormat #
    positionFormat # regionsFormat # derivativeFormat # "`->` type($results)";
  let extraClassDeclaration = dropoutDeclaration # [{
    MutableOperandRange getDpsInitsMutable() { return getStateMutable(); }
    Region *getDerivativeRegion() { return &getDerivative(); }
    bool has(Gradients gradient) { return bitEnumContainsAny(getGradients(), gradient); }
    /// Whether the state has an element for each pair of a query and a key, or for each diagonal.
    bool isOfPairs() { return has(Gradients::Pairs | Gradients::Diagonals); }
    bool isTiled() { return !isOfPairs(); }
    /// Whether elements of the state are sums of the score gradients dX themselves, without a factor such as q or k.
    bool sumsScoreGradients() { return isOfPairs() || has(Gradients::Rows | Gradients::Columns); }
    StringRef getKernelKind() { return "backward"; }
    bool isDeterministic() { return sumsScoreGradients(); }
    StepDim getStreamedDim() {
      return has(Gradients::DK | Gradients::DV | Gradients::Columns) ? StepDim::I : StepDim::J;
    }
    SmallVector<StepOperand> getStepInputs();
    SmallVector<StepOperand> getStepState();
    OperandRange getPosition() { return getOperands().take_back(4); }
  }];
}

def Flash_CapturedGradientOp : Flash_WholeOp<"captured_gradient", [{
    $q `,` $k `,` $v `,` $o `,` $lse `,` $dout (`,` $dlse^)? `:` type($q) `,` type($k) `,` type($v) `,` type($o) `,`
    type($lse) `,` type($dout) (`,` type($dlse)^)? }], [AttrSizedOperandSegments]> {
  let summary = "the gradient of attention with respect to a tensor that its score reads";
  let description = [{
    Computes the gradient of a `flash.attention` of the same q, k, v, scale, score and mask with respect to `captured`.
    This is a tensor that the score reads by `tensor.extract` (a score input): a bias, slopes of ALiBi, a table of
    relative positions, a temperature. With P, dP and delta as for `flash.attention_backward`, the gradient d is the sum
    over all reads of `captured` and over all (b, h, i, j):

        d[index(b, h, i, j)] += P * (dP - delta) * (derivative of the score with respect to what is read)

    Elements that no kept pair reads have a gradient of 0. Every sum has a fixed order, so that equal arguments give
    equal bits.

    | value      | shape              | element type |
    |------------|--------------------|--------------|
    | q, k, v, o, lse, do, dlse, philox | as for `flash.attention_backward` | |
    | captured   | any                | bf16, f16, f32 or f64 |
    | result     | that of `captured` | f32          |

    The indices of a read decide which sums are computed first; sums for the same element of `captured` are then added
    up. Only sums for pairs need an array of Nq x Nk:

    | indices of a read depend on          | what is computed first                                          |
    |--------------------------------------|-----------------------------------------------------------------|
    | b, h, and i alone                    | a sum for each row                                              |
    | b, h, and j alone                    | a sum for each column                                           |
    | b, h, and j - i                      | a sum for each diagonal                                         |
    | anything else                        | a sum for each pair, over batches (heads) if no index depends on b (h) |

    Precision: as for `flash.attention_backward`; dX is not rounded.

    Constraints: those of `flash.attention_backward` (C2 to C9, C11) for the operands that both ops have, on tensors
    only; and
    - (C12) `captured` is an argument of the function; reads inside of control flow are refused.

    Lowers to: `flash.accumulate_gradients` and `flash.scatter_sum` (`flash-differentiate-captures`).

    Example:
    ```mlir
    %d = flash.captured_gradient ins(%q, %k, %v, %o, %lse, %do : ...) of(%slopes : tensor<8xf32>)
        {scale = 1.250000e-01 : f32}
        score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
          %slope = tensor.extract %slopes[%h] : tensor<8xf32>
          ...
        } -> tensor<8xf32>
    ```
  }];
  let arguments = (ins Flash_Buffer:$q, Flash_Buffer:$k, Flash_Buffer:$v, Flash_Buffer:$o, Flash_Buffer:$lse,
                       Flash_Buffer:$dout, Optional<Flash_Buffer>:$dlse, AnyRankedTensor:$captured,
                       Optional<Flash_Buffer>:$philox, Variadic<Flash_Buffer>:$outs, F32Attr:$scale,
                       OptionalAttr<I64Attr>:$group_size, OptionalAttr<F32Attr>:$dropout_p);
  let assemblyFormat = insFormat # "`of` `(` $captured `:` type($captured) `)` " # dropoutFormat # outsFormat #
    regionsFormat # endFormat;
  let extraClassDeclaration = wholeOpDeclaration # dropoutDeclaration # [{
    SmallVector<StepOperand> getOutputs();
    StringRef getKernelKind() { return "backward"; }
    bool isDeterministic() { return true; }
  }];
}

def Flash_ScatterSumOp : Flash_Op<"scatter_sum", [
    RecursiveMemoryEffects, DestinationStyleOpInterface, AllTypesMatch<["init", "result"]>,
    DeclareOpInterfaceMethods<AggregatedOpInterface, ["decomposeOperation"]>]> {
  let summary = "add a step's sums to the elements of a tensor whose indices code computes";
  let description = [{
    Adds each element of `sums`, the state of a `flash.accumulate_gradients` of the same `gradients` (rows, columns,
    pairs or diagonals), to the element of `init` whose indices the region computes from the position of the element.
    In this position (b, h, i, j), j is 0 for rows, i is 0 for columns, and i or j is 0 for diagonals. b or h is 0 where
    `sums` has an extent of 1.

    Elements are added in the order of their positions, so that equal arguments give equal bits.

    `captured` is the tensor whose gradient the result is; the op only uses its shape. `queries` is Nq.

    Example:
    ```mlir
    %d1 = flash.scatter_sum ins(%sums : tensor<2x8x512xf32>) outs(%d : tensor<8xf32>) of(%slopes : tensor<8xf32>)
        queries(%nq)
        {gradients = #flash.gradients<rows>} index (%b: index, %h: index, %i: index, %j: index) {
          flash.yield_index %h
        }
    ```
  }];
  let arguments = (ins AnyRankedTensor:$sums, RankedTensorOf<[F32]>:$init, AnyRankedTensor:$captured, Index:$queries,
                       Flash_GradientsAttr:$gradients);
  let results = (outs RankedTensorOf<[F32]>:$result);
  let regions = (region AnyRegion:$index);
  let assemblyFormat = [{
    `ins` `(` $sums `:` type($sums) `)` `outs` `(` $init `:` type($init) `)`
    `of` `(` $captured `:` type($captured) `)` `queries` `(` $queries `)`
    attr-dict `index` custom<ScoresRegion>($index)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    MutableOperandRange getDpsInitsMutable() { return getInitMutable(); }
    /// The indices that the region yields: those of an element of `init`.
    ValueRange getIndices() { return getIndex().front().getTerminator()->getOperands(); }
  }];
}

def Flash_YieldIndexOp : Flash_Op<"yield_index", [Pure, ReturnLike, Terminator, ParentOneOf<["ScatterSumOp"]>]> {
  let summary = "the indices of an element";
  let description = [{ Ends the region of a `flash.scatter_sum` with an index for each dimension. }];
  let arguments = (ins Variadic<Index>:$indices);
  let assemblyFormat = "($indices^)? attr-dict";
  let builders = [OpBuilder<(ins), [{}]>];
}

def Flash_ParallelAddSliceOp : Flash_Op<"parallel_add_slice", [
    AttrSizedOperandSegments, OffsetSizeAndStrideOpInterface,
    DeclareOpInterfaceMethods<ParallelCombiningOpInterface>,
    DeclareOpInterfaceMethods<BufferizableOpInterface, [
      "bufferizesToMemoryRead", "bufferizesToMemoryWrite", "getAliasingValues", "mustBufferizeInPlace",
      "bufferize"]>]> {
  let summary = "add to a slice of a shared output of scf.forall, to which other iterations may add, too";
  let description = [{
    The op is a `tensor.parallel_insert_slice` that adds instead of copying: after the `scf.forall` the destination has
    its initial elements plus the slices of all iterations. The slices may overlap, and are added in any order, so that
    bits may differ from run to run. FlashAttention-2 sums dq over the blocks of keys in this way, with atomic
    additions.

    Constraints:
    - (C1) the op is in the `scf.forall.in_parallel` of a loop that has the destination as a shared output.
    - (C2) source and destination have one element type, a float type; the source has the sizes of the slice.

    Example:
    ```mlir
    %dq1 = scf.forall (%j) = (0) to (1024) step (64) shared_outs(%dq = %zeros) -> (tensor<1x8x512x64xf32>) {
      %partial = ... : tensor<1x1x512x64xf32>
      scf.forall.in_parallel {
        flash.parallel_add_slice %partial into %dq[0, %h, 0, 0] [1, 1, 512, 64] [1, 1, 1, 1]
            : tensor<1x1x512x64xf32> into tensor<1x8x512x64xf32>
      }
    }
    ```
  }];
  let arguments = (ins AnyRankedTensor:$source, AnyRankedTensor:$dest, Variadic<Index>:$offsets,
                       Variadic<Index>:$sizes, Variadic<Index>:$strides, DenseI64ArrayAttr:$static_offsets,
                       DenseI64ArrayAttr:$static_sizes, DenseI64ArrayAttr:$static_strides);
  let assemblyFormat = [{
    $source `into` $dest `` custom<DynamicIndexList>($offsets, $static_offsets)
    custom<DynamicIndexList>($sizes, $static_sizes) custom<DynamicIndexList>($strides, $static_strides)
    attr-dict `:` type($source) `into` type($dest)
  }];
  let builders = [OpBuilder<(ins "Value":$source, "Value":$dest, "ArrayRef<OpFoldResult>":$offsets,
                             "ArrayRef<OpFoldResult>":$sizes)>];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    RankedTensorType getSourceType() { return cast<RankedTensorType>(getSource().getType()); }
    RankedTensorType getDestType() { return cast<RankedTensorType>(getDest().getType()); }
    std::array<unsigned, 3> getArrayAttrMaxRanks() {
      unsigned rank = getDestType().getRank();
      return {rank, rank, rank};
    }
    static unsigned getOffsetSizeAndStrideStartOperandIndex() { return 2; }
  }];
}

#endif // FLASHC_FLASH_GRADIENT_OPS_TD
