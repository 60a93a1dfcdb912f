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
    What `flash.attention` of the same q, k, v, scale, score and mask passes back when `do` is the gradient of its
    output and `dlse`, if it is given, that of its log-sum-exp. With `X = scale * Q K^T` and `S = score(X) where mask`:

        P     = exp(S - lse)                       0 where the mask keeps nothing or lse = -inf
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

    With `dropout`, of the same philox and `dropout_p` as in the forward pass, and D as there: dP = D * (dO V^T) and
    dV = (D * P)^T dO. Whether an element is kept is computed again, not stored.

    With `deterministic` a kernel takes every sum in one order, so that equal arguments give equal bits in every run;
    otherwise dq may be added up in memory in any order.

    The gradients of k and v are sums over the query heads that share a key head. Memrefs, regions and `group_size` are
    those of `flash.attention`. The region `derivative` is what `flash-differentiate-scores` makes of `score`; an op
    without one differentiates its score where it is decomposed.

    Precision: products accumulate in f32; P and dX are rounded to T before the products that read them; the gradients
    are rounded once, from sums over all queries, keys and heads of a group in f32. A row that sees no key (lse = -inf)
    gives dq = 0 and nothing to dk and dv, never NaN.

    Constraints: those of `flash.attention` (C1, C4 to C9) for q, k, v and the regions, and by the same numbers:
    - (C2) q, k, v, o, do and the gradients have rank 4, lse and dlse have rank 3, sinks and dsinks rank 1.
    - (C3) q, k, v and do share the element type T in {bf16, f16, f32}; o and the gradients have T or f32; lse, dlse,
      sinks and dsinks have f32.
    - (C8) the derivative region takes what the score region takes, and yields `f32`; it is there with a score only.
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
    Adds what a block of queries and a block of keys give to each other (FlashAttention, Algorithm 4, lines 10 to 22;
    FlashAttention-2, Algorithm 2). With P, dP and dX as for `flash.attention_backward`, of the block:

        dv' = dv + T(P)^T dO        dk' = dk + scale * T(dX)^T Q        dq' = dq + scale * T(dX) K

    `gradients` says which of the three there are. Each form of the backward pass has its own:

    | gradients      | resident | streamed | the state                                                           |
    |----------------|----------|----------|---------------------------------------------------------------------|
    | `<dq, dk, dv>` | keys     | queries  | dk and dv of the keys; dq moves with the queries and is added to    |
    | `<dk, dv>`, `<dk>`, `<dv>` | keys | queries | dk and dv of the keys                                     |
    | `<dq>`         | queries  | keys     | dq of the queries                                                   |

    Others are sums of dX itself, for gradients of what a score reads (`flash.captured_gradient`); the derivative is
    then that of the score with respect to what is read, and there is always one:

    | gradients     | resident | streamed                | the state                                                |
    |---------------|----------|-------------------------|----------------------------------------------------------|
    | `<rows>`      | queries  | keys                    | sums of dX over the keys                                 |
    | `<columns>`   | keys     | queries                 | sums of dX over the queries                              |
    | `<pairs>`     | both     | batches and heads       | dX of each pair; with an extent of 1 for B or Hq its sum |
    | `<diagonals>` | j - i    | queries, batches, heads | sums of dX over pairs of one distance, at j - i + Nq - 1 |

    An op of pairs or diagonals is of whole sequences: it is not tiled at L1, where it decomposes into loops over rows.

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

    The gradients of keys and values are those of one query head; the heads of a group are added up behind the loops.

    `number` tells the sums of one function apart that are of the same kind.

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
    /// Whether the state is of pairs of queries and keys.
    bool isOfPairs() { return has(Gradients::Pairs | Gradients::Diagonals); }
    bool isTiled() { return !isOfPairs(); }
    /// Whether it is a sum of dX itself.
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
    What `flash.attention` of the same q, k, v, scale, score and mask passes back to `captured`, a tensor that the score
    reads by `tensor.extract`: a bias, slopes of ALiBi, a table of relative positions, a temperature. With P, dP and
    delta as for `flash.attention_backward`, the sum over all reads and all (b, h, i, j)

        d[index(b, h, i, j)] += P * (dP - delta) * (derivative of the score with respect to what is read)

    Elements that no pair reads, or only pairs that the mask does not keep, have a gradient of 0. Every sum has one
    order, so that equal arguments give equal bits.

    | value      | shape              | element type |
    |------------|--------------------|--------------|
    | q, k, v, o, lse, do, dlse, philox | as for `flash.attention_backward` | |
    | captured   | any                | bf16, f16, f32 or f64 |
    | result     | that of `captured` | f32          |

    How the sums are taken follows from what an index hangs on, and an array of Nq x Nk is made of pairs alone:

    | indices of a read hang on            | sums                                                            |
    |--------------------------------------|-----------------------------------------------------------------|
    | b, h, and i (or j) alone             | of rows (columns), then of those that share an element          |
    | b, h, and j - i                      | of diagonals, then likewise                                     |
    | anything else                        | of pairs, over batches and heads that no index reads, then by element |

    Precision: as for `flash.attention_backward`; dX is not rounded.

    Constraints: those of `flash.attention_backward` (C2 to C9, C11) for what both have, on tensors only; and
    - (C12) `captured` is an argument of the function, and so is what fused code makes of it; reads inside of control
      flow are refused.

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
  let summary = "sums of a step's gradients, added to where code says";
  let description = [{
    Adds each element of `sums`, the state of a `flash.accumulate_gradients` of the same `gradients` (rows, columns,
    pairs or diagonals), to the element of `init` whose indices the region computes of its position. Of rows j is 0, of
    columns i, of diagonals i or j; of pairs b and h are 0 where `sums` has an extent of 1.

    The order in which elements are added is one of positions, so that equal arguments give equal bits.

    `captured` is the tensor whose gradient it is, of which only the shape matters, and `queries` is Nq.

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
    /// Indices of `init`, in the region.
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
  let summary = "what an iteration of scf.forall adds to a slice that others add to, too";
  let description = [{
    `tensor.parallel_insert_slice` with a sum in place of a copy: after the `scf.forall` the destination holds what it
    held before, plus the slices of all iterations. They may overlap, and are added in any order; so bits may differ
    from run to run. FlashAttention-2 sums dq over the blocks of keys like this, with atomic additions.

    Constraints:
    - (C1) the op is in the `scf.forall.in_parallel` of a loop that shares the destination.
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
