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
    What `flash.attention` of the same q, k, v, scale, score and mask passes back when `do` is the gradient of its output
    and `dlse`, if it is given, that of its log-sum-exp. With `X = scale * Q K^T` and `S = score(X) where mask`:

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
    - (C11) as for `flash.attention`.

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
  }];
}

def Flash_Gradients : I32BitEnumAttr<"Gradients", "gradients that a step accumulates", [
    I32BitEnumAttrCaseBit<"DQ", 0, "dq">,
    I32BitEnumAttrCaseBit<"DK", 1, "dk">,
    I32BitEnumAttrCaseBit<"DV", 2, "dv">]> {
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

    The gradients of keys and values are those of one query head; the heads of a group are added up behind the loops.

    Constraints: those of `flash.attention_backward` (C2 to C9, C11) on tensors; results are typed like `outs`. A score needs
    its derivative.

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
                       OptionalAttr<F32Attr>:$dropout_p);
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
    StepDim getStreamedDim() { return getGradients() == Gradients::DQ ? StepDim::J : StepDim::I; }
    SmallVector<StepOperand> getStepInputs();
    SmallVector<StepOperand> getStepState();
    OperandRange getPosition() { return getOperands().take_back(4); }
  }];
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
    held before, plus the slices of all iterations. They may overlap, and are added in any order; so bits may differ from
    run to run. FlashAttention-2 sums dq over the blocks of keys like this, with atomic additions.

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
