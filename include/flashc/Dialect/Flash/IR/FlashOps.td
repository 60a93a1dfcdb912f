//===- FlashOps.td - the flash dialect: attention as an op (L0, L1) -----------------------------------------------===//
#ifndef FLASHC_FLASH_OPS_TD
#define FLASHC_FLASH_OPS_TD

include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Dialect/Linalg/IR/LinalgInterfaces.td"
include "flashc/Dialect/Flash/IR/FlashInterfaces.td"
include "flashc/Dialect/Flash/IR/FlashStep.td"

def Flash_Dialect : Dialect {
  let name = "flash";
  let cppNamespace = "::mlir::flash";
  let summary = "Attention as an op, and the state that online softmax carries";
  let description = [{
    L0 of flashc says *what* is computed: attention (`flash.attention`), its gradients (`flash.attention_backward`), or
    the weight that keys receive (`flash.column_sums`). L1 says by which algorithm it is computed
    (`flash.online_attention` and `flash.finalize`, `flash.accumulate_gradients`, or `flash.accumulate_column_sums`, in
    loops of `scf`).

    Names used throughout: `B` batch, `Hq` query heads, `Hk` key/value heads, `Nq`/`Nk` query/key sequence length,
    `D` head dimension of queries and keys, `Dv` head dimension of values and outputs, `i` a query position, `j` a key
    position. `m` is the running row maximum, `l` the running row sum, `acc` the running output.

    The op `flash.assume_sorted` declares what is known about an array that a mask reads.
  }];
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::scf::SCFDialect",
                           "::mlir::affine::AffineDialect", "::mlir::math::MathDialect",
                           "::mlir::memref::MemRefDialect"];
}

def Flash_Buffer : AnyTypeOf<[AnyRankedTensor, AnyStridedMemRef]>;

class Flash_Op<string mnemonic, list<Trait> traits = []> : Op<Flash_Dialect, mnemonic, traits> {
  string dropoutFormat = "(`dropout` `(` $philox^ `:` type($philox) `)`)? "; // for ops with dropout
  code dropoutDeclaration = [{
    std::optional<Dropout> getDropout() {
      return getPhilox() ? std::optional(Dropout{getPhilox(), getDropoutP()}) : std::nullopt;
    }
  }];
  /// The methods of ScoresOpInterface in ops for column sums, which have no operand `v`.
  code columnSumsDeclaration = [{
    StringRef getKernelKind() { return "column-sums"; }
    Value getValues() { return {}; }
  }];
  string regionsFormat = "attr-dict `` custom<ScoreAndMask>($score, $mask)";
  string derivativeFormat = "(`derivative` custom<ScoresRegion>($derivative)^)?"; // after regionsFormat
}

def Flash_Normalize : I32EnumAttr<"Normalize", "when the output accumulator is divided by the row sum", [
    I32EnumAttrCase<"Deferred", 0, "deferred">,
    I32EnumAttrCase<"EachStep", 1, "each_step">]> {
  let cppNamespace = "::mlir::flash";
  let genSpecializedAttr = 0;
}
def Flash_NormalizeAttr : EnumAttr<Flash_Dialect, Flash_Normalize, "normalize"> {
  let assemblyFormat = "`<` $value `>`";
}

/// The format of the operands `q`, `k` and `third` with their types.
class Flash_ThreeInputs<string third> {
  string format = "$q `,` $k `,` $" # third # " `:` type($q) `,` type($k) `,` type($" # third # ")";
}

/// An op of L0 with scores. On tensors it has results; on memrefs it has the operands `outs` after the inputs (q, k and
/// others).
class Flash_WholeOp<string mnemonic, string inputsFormat, list<Trait> traits = []> : Flash_Op<mnemonic, [
    RecursiveMemoryEffects, Flash_WholeOpInterface, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<AggregatedOpInterface, ["decomposeOperation"]>] # traits> {
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let regions = (region AnyRegion:$score, AnyRegion:$mask);
  string insFormat = "`ins` `(` " # inputsFormat # " `)` ";
  string outsFormat = "(`outs` `(` $outs^ `:` type($outs) `)`)? ";
  string sinksFormat = "(`sinks` `(` $sinks^ `:` type($sinks) `)`)? "; // for ops with sinks
  string endFormat = "(`->` type($results)^)?";
  let assemblyFormat = insFormat # outsFormat # regionsFormat # endFormat;
  let hasVerifier = 1;
  let extraClassDefinition = "void $cppClass::getEffects(Effects &effects) { addEffects(*this, effects); }";
  code wholeOpDeclaration = [{
    bool hasTensorSemantics() { return isa<RankedTensorType>(getQ().getType()); }
    /// The type of an output: a result or an `outs` operand.
    ShapedType getOutputType(unsigned index) {
      return cast<ShapedType>(hasTensorSemantics() ? getResult(index).getType() : getOuts()[index].getType());
    }
    SmallVector<StepOperand> getInputs();
  }];
}

def Flash_AttentionOp : Flash_WholeOp<"attention", Flash_ThreeInputs<"v">.format, [AttrSizedOperandSegments]> {
  let summary = "scaled dot-product attention with a score and a mask region";
  let description = [{
    Computes exact attention, `O = softmax(score(scale * Q K^T) where mask) V`, for every query head, and `lse =
    log(sum_j exp(S_ij))` (natural logarithm).

    | value | shape              | element type |
    |-------|--------------------|--------------|
    | q     | `[B, Hq, Nq, D]`   | T            |
    | k     | `[B, Hk, Nk, D]`   | T            |
    | v     | `[B, Hk, Nk, Dv]`  | T            |
    | sinks | `[Hq]`             | f32          |
    | philox | `[2]`             | i64          |
    | o     | `[B, Hq, Nq, Dv]`  | T or f32     |
    | lse   | `[B, Hq, Nq]`      | f32          |

    T is one of bf16, f16, f32. Query head `h` reads key/value head `h floordiv group_size` (GQA, MQA), where
    `group_size` is `Hq / Hk`. With a dynamic number of heads the attribute `group_size` gives it.

    On tensors the op returns `o` and `lse`; on memrefs it writes them into `outs`. Memrefs may have any strides with a
    contiguous innermost dimension, so that `[B, N, H, D]` and packed layouts need no copy.

    The optional `score` region maps the scaled score and its position, `(s, b, h, i, j)`, to the score that softmax
    gets. The optional `mask` region says whether query `i` sees key `j` of `(b, h)`. Both may read but not write
    memory, and may capture values from outside. Indices are positions in the iteration space of the whole op.

    With `sinks` the softmax of each row has one more column. Its score is the head's sink, and it has no value: `lse =
    log(exp(sinks_h) + sum_j exp(S_ij))` and `O = exp(S - lse) V`. A row can so attend to nothing (StreamingLLM, Xiao et
    al. 2023; the learned sinks of gpt-oss). The sink is in units of the natural logarithm; the scale, the score region
    and the mask do not apply to it. A row whose mask keeps nothing then has `lse = sinks_h`.

    With `dropout` each probability is multiplied by a factor D before the second product, `O = (D * exp(S - lse)) V`.
    Let rate be `dropout_p`, rounded to a multiple of 1/256. D is 0 with the probability rate, and otherwise 1 / (1 -
    rate). Dropout does not change the log-sum-exp. `philox` holds a seed and an offset. Whether (b, h, i, j) is kept is
    a function of (seed, offset, b, h, i, j) alone (`flashc/Support/Philox.h`).

    Precision: products accumulate in f32, softmax is computed in f32, the probabilities are rounded to T before the
    second product, and the row sum adds the unrounded probabilities. A row whose mask keeps nothing gives `o = 0` and
    `lse = -inf`, never NaN.

    Constraints, by the number that the verifier cites:
    - (C1) q, k, v (and `outs`) are all tensors or all memrefs; memrefs are contiguous in the innermost dimension.
    - (C2) q, k, v, o have rank 4, lse has rank 3, sinks has rank 1.
    - (C3) q, k, v share the element type T in {bf16, f16, f32}; o has T or f32; lse and sinks have f32.
    - (C4) D and Dv are static, multiples of 8, from 8 to 256; q and k agree on D, v and o on Dv. (Only 16-bit T needs
      multiples of 8; f32, which runs on the CPU, takes any D from 1 to 256.)
    - (C5) Hq and Hk are positive, Hq is a multiple of Hk, k and v agree on Hk, q, o, lse and sinks on Hq. Where both
      are static, `group_size` may be left out, and is Hq / Hk if given. Where one is dynamic, `group_size` is given, is
      positive, and divides a static Hq.
    - (C6) B, Nq, Nk agree wherever two operands both know them.
    - (C7) scale is finite.
    - (C8) the score region takes `(f32, index x4)` and yields `f32`; the mask region takes `(index x4)` and yields
      `i1`.
    - (C9) both regions are free of side effects other than reads.
    - (C10) on memrefs `outs` holds o and lse and there are no results; on tensors there are two results and no `outs`.
    - (C11) `dropout_p` is given with `philox` only, and its rate is from 1/256 to 255/256.
    - (C14) on memrefs no output shares memory with another output, with an input, or with memory that a region reads;
      views of one buffer must be known to be disjoint, by their offsets and sizes. Arguments of a function are assumed
      to be disjoint.

    Precondition: for queries and keys that exist, the regions do not divide integers by 0, and their reads are inside
    of the arrays. The compiler ensures both for the other queries and keys of a tile.

    Lowers to: Algorithm 0 in linalg (`flash-decompose`) or `flash.online_attention` (`flash-online-softmax`).

    Example:
    ```mlir
    %o, %lse = flash.attention
        ins(%q, %k, %v : tensor<2x8x128x64xbf16>, tensor<2x2x?x64xbf16>, tensor<2x2x?x64xbf16>)
        {scale = 1.250000e-01 : f32}
        score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
          %t = arith.addf %s, %bias : f32
          flash.yield %t : f32
        }
        mask (%b: index, %h: index, %i: index, %j: index) {
          %keep = arith.cmpi sle, %j, %i : index
          flash.yield %keep : i1
        } -> tensor<2x8x128x64xbf16>, tensor<2x8x128xf32>
    ```

    Example with any number of heads, and four query heads to a key head:
    ```mlir
    %o, %lse = flash.attention
        ins(%q, %k, %v : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>)
        {group_size = 4 : i64, scale = 1.250000e-01 : f32} -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
    ```
  }];
  let arguments = (ins Flash_Buffer:$q, Flash_Buffer:$k, Flash_Buffer:$v, Optional<Flash_Buffer>:$sinks,
                       Optional<Flash_Buffer>:$philox, Variadic<Flash_Buffer>:$outs, F32Attr:$scale,
                       OptionalAttr<I64Attr>:$group_size, OptionalAttr<F32Attr>:$dropout_p);
  let assemblyFormat = insFormat # sinksFormat # dropoutFormat # outsFormat # regionsFormat # endFormat;
  let extraClassDeclaration = wholeOpDeclaration # dropoutDeclaration # [{
    SmallVector<StepOperand> getOutputs();
    ShapedType getVType() { return cast<ShapedType>(getV().getType()); }
  }];
}

def Flash_ColumnSumsOp : Flash_WholeOp<"column_sums", Flash_ThreeInputs<"lse">.format> {
  let summary = "the sum of the probabilities of each key over all queries";
  let description = [{
    Computes the sums of attention's probabilities over queries, `c_j = sum_i exp(S_ij - lse_i)`, with `S = score(scale
    * Q K^T) where mask` and the log-sum-exp `lse` that `flash.attention` gives for the same q, k, score and mask.
    Eviction of keys from a cache (H2O, SnapKV) ranks keys by these sums.

    | value | shape             | element type |
    |-------|-------------------|--------------|
    | q     | `[B, Hq, Nq, D]`  | T            |
    | k     | `[B, Hk, Nk, D]`  | T            |
    | lse   | `[B, Hq, Nq]`     | f32          |
    | c     | `[B, Hq, Nk]`     | f32          |

    With `sum_groups` the sums of the query heads that share a key head are added up, and c is `[B, Hk, Nk]`. Memrefs,
    regions and `group_size` are as for `flash.attention`.

    Precision: products and sums accumulate in f32. A pair that the mask does not keep adds 0, and so does a query whose
    `lse` is -inf, never NaN.

    Constraints: those of `flash.attention` (C1, C4, C6 to C9) for q, k and the regions, and by the same numbers:
    - (C2) q and k have rank 4, lse and c have rank 3.
    - (C3) q and k share the element type T in {bf16, f16, f32}; lse and c have f32.
    - (C5) heads as for `flash.attention`; q and lse agree on Hq, and so do q and c; with `sum_groups` k and c agree on
      Hk.
    - (C6) B, Nq, Nk agree wherever two operands both know them.
    - (C10) on memrefs `outs` holds c and there is no result; on tensors there is one result and no `outs`.
    - (C14) as for `flash.attention`.

    Lowers to: Algorithm 0 in linalg (`flash-decompose`) or `flash.accumulate_column_sums` (`flash-online-softmax`).

    Example:
    ```mlir
    %c = flash.column_sums
        ins(%q, %k, %lse : tensor<2x8x128x64xbf16>, tensor<2x2x?x64xbf16>, tensor<2x8x128xf32>)
        {scale = 1.250000e-01 : f32, sum_groups}
        mask (%b: index, %h: index, %i: index, %j: index) {
          %keep = arith.cmpi sle, %j, %i : index
          flash.yield %keep : i1
        } -> tensor<2x2x?xf32>
    ```
  }];
  let arguments = (ins Flash_Buffer:$q, Flash_Buffer:$k, Flash_Buffer:$lse, Variadic<Flash_Buffer>:$outs,
                       F32Attr:$scale, OptionalAttr<I64Attr>:$group_size, UnitAttr:$sum_groups);
  let extraClassDeclaration = wholeOpDeclaration # columnSumsDeclaration # [{
    SmallVector<StepOperand> getOutputs();
  }];
}

/// L1: an op with scores that computes a tile of a larger op and folds this tile into a state, the `outs`.
class Flash_StepOp<string mnemonic, list<Trait> traits = []>
    : Flash_Op<mnemonic, [RecursiveMemoryEffects, Flash_ScoresOpInterface] # Flash_Step.traits # traits> {
  let regions = (region AnyRegion:$score, AnyRegion:$mask);
  let hasVerifier = 1;
  string positionFormat = Flash_Step.positionFormat;
  let extraClassDefinition = Flash_Step.definition;
}

def Flash_OnlineAttentionOp : Flash_StepOp<"online_attention", [
    AllTypesMatch<["acc", "acc_out"]>, AllTypesMatch<["m", "l", "m_out", "l_out"]>,
    DeclareOpInterfaceMethods<PartialReductionOpInterface, [
      "generateInitialTensorForPartialReduction", "tileToPartialReduction", "mergeReductions",
      "getPartialResultTilePosition"]>]> {
  let summary = "one step of attention with online softmax, over a block of keys";
  let description = [{
    Folds a block of keys and values into the running state of a block of queries (Milakov and Gimelshein 2018;
    FlashAttention, Algorithm 1, lines 8 to 13). With `S = score(scale * Q K^T)` and masked entries `-inf`:

        m'   = max(m, rowmax(S))
        P    = exp(S - m')
        c    = exp(m - m')
        l'   = c * l + rowsum(P)
        acc' = c * acc + T(P) V                      normalize = deferred   (FA2)
        acc' = (c * l * acc + T(P) V) / l'           normalize = each_step  (FA1, line 12)

    With `dropout` the op rounds `D * P` and multiplies it with V, as `flash.attention` does; l is the sum of P without
    D.

    A row that has seen no key (`m' = -inf`) keeps `l' = 0`, `acc' = 0`. The identity of the fold is
    `m = -inf, l = 0, acc = 0`, and the result does not depend on the order of the key blocks.

    | value | shape            | element type |
    |-------|------------------|--------------|
    | q     | `[B, Hq, Nq, D]` | T            |
    | k     | `[B, Hk, Nk, D]` | T            |
    | v     | `[B, Hk, Nk, Dv]`| T            |
    | acc   | `[B, Hq, Nq, Dv]`| f32          |
    | m, l  | `[B, Hq, Nq]`    | f32          |

    The op is a tile of a larger attention: `at(b0, h0, i0, j0)` is the position of its first element, and the `score`
    and `mask` regions get the absolute indices `b0 + b`, `h0 + h`, `i0 + i`, `j0 + j`. Tiling (TilingInterface, domain
    `(b, h, i, j)`, `j` a reduction) keeps tile shapes static: a slice that exceeds its sequence is padded with zeros,
    and `j < Nk` is added to the mask. Chunks of keys may also be folded in parallel, into states with a leading
    dimension of chunks, and merged (PartialReductionOpInterface, outer-parallel).

    Constraints: those of `flash.attention` (C2, C4 to C9, C11) on tensors; acc, m and l have f32, and the results have
    the types of `outs`.

    Lowers to: linalg (AggregatedOpInterface), or tile ops (`convert-flash-to-tile`).

    Example:
    ```mlir
    %acc1, %m1, %l1 = flash.online_attention
        ins(%q, %k, %v : tensor<1x1x64x64xbf16>, tensor<1x1x32x64xbf16>, tensor<1x1x32x64xbf16>)
        outs(%acc, %m, %l : tensor<1x1x64x64xf32>, tensor<1x1x64xf32>, tensor<1x1x64xf32>)
        at(%b0, %h0, %i0, %j0) {normalize = #flash.normalize<deferred>, scale = 1.250000e-01 : f32}
        -> tensor<1x1x64x64xf32>, tensor<1x1x64xf32>, tensor<1x1x64xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$q, AnyRankedTensor:$k, AnyRankedTensor:$v,
                       AnyRankedTensor:$acc, AnyRankedTensor:$m, AnyRankedTensor:$l, Optional<AnyRankedTensor>:$philox,
                       Index:$b0, Index:$h0, Index:$i0, Index:$j0, F32Attr:$scale, Flash_NormalizeAttr:$normalize,
                       OptionalAttr<I64Attr>:$group_size, OptionalAttr<F32Attr>:$dropout_p);
  let results = (outs AnyRankedTensor:$acc_out, AnyRankedTensor:$m_out, AnyRankedTensor:$l_out);
  let assemblyFormat = [{
    `ins` `(` $q `,` $k `,` $v `:` type($q) `,` type($k) `,` type($v) `)`
    `outs` `(` $acc `,` $m `,` $l `:` type($acc) `,` type($m) `,` type($l) `)` }] # dropoutFormat # positionFormat #
    regionsFormat # "`->` type($acc_out) `,` type($m_out) `,` type($l_out)";
  let extraClassDeclaration = dropoutDeclaration # [{
    MutableOperandRange getDpsInitsMutable() {
      return MutableOperandRange(getOperation(), /*start=*/3, /*length=*/3);
    }
    StepDim getStreamedDim() { return StepDim::J; }
    bool needsFinalize() { return true; }
    static SmallVector<StepOperand> getStepInputs();
    SmallVector<StepOperand> getStepState();
    OperandRange getPosition() { return getOperands().take_back(4); }
  }];
}

def Flash_FinalizeOp : Flash_Op<"finalize", [
    Pure, DestinationStyleOpInterface, Flash_EpilogueOpInterface,
    AllShapesMatch<["acc", "o"]>, AllTypesMatch<["m", "l", "lse", "lse_out"]>, AllTypesMatch<["o", "o_out"]>,
    DeclareOpInterfaceMethods<AggregatedOpInterface, ["decomposeOperation"]>]> {
  let summary = "compute the output and its log-sum-exp from the state of online softmax";
  let description = [{
    Computes the results of attention from the state (acc, m, l) of `flash.online_attention`:

        o   = T(acc / l)     normalize = deferred
        o   = T(acc)         normalize = each_step
        lse = m + log(l)

    With `sinks` (`[Hq]`, f32) the state is first merged with that of one more column, which has no value: m = sinks_h,
    l = 1, acc = 0.

    A row that has seen no key, or only keys whose scores are -inf (`l = 0`), gives `o = 0`, `lse = -inf`.
    `no_empty_rows` promises that the mask keeps a key for every row of the output; the scores may still be -inf. The
    shapes are those of `flash.online_attention`, and `o` and `lse` are as for `flash.attention` on tensors.

    Example:
    ```mlir
    %o1, %lse1 = flash.finalize ins(%acc, %m, %l : tensor<1x1x64x64xf32>, tensor<1x1x64xf32>, tensor<1x1x64xf32>)
        outs(%o, %lse : tensor<1x1x64x64xbf16>, tensor<1x1x64xf32>) {normalize = #flash.normalize<deferred>}
        -> tensor<1x1x64x64xbf16>, tensor<1x1x64xf32>
    ```
  }];
  let arguments = (ins 4DTensorOf<[F32]>:$acc, 3DTensorOf<[F32]>:$m, AnyRankedTensor:$l,
                       RankedTensorOf<[BF16, F16, F32]>:$o, AnyRankedTensor:$lse, Optional<1DTensorOf<[F32]>>:$sinks,
                       Flash_NormalizeAttr:$normalize, UnitAttr:$no_empty_rows);
  let results = (outs AnyRankedTensor:$o_out, AnyRankedTensor:$lse_out);
  let assemblyFormat = [{
    `ins` `(` $acc `,` $m `,` $l `:` type($acc) `,` type($m) `,` type($l) `)`
    (`sinks` `(` $sinks^ `:` type($sinks) `)`)?
    `outs` `(` $o `,` $lse `:` type($o) `,` type($lse) `)` attr-dict `->` type($o_out) `,` type($lse_out)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    MutableOperandRange getDpsInitsMutable() {
      return MutableOperandRange(getOperation(), /*start=*/3, /*length=*/2);
    }
    OperandRange getState() { return getOperands().take_front(3); }
    SmallVector<StepOperand> getEpilogueInputs();
    SmallVector<StepOperand> getEpilogueResults();
    bool mayHaveEmptyRows() { return !getNoEmptyRows(); }
  }];
}

def Flash_AccumulateColumnSumsOp : Flash_StepOp<"accumulate_column_sums", [AllTypesMatch<["c", "c_out"]>]> {
  let summary = "one step of the column sums of probabilities, over a block of queries";
  let description = [{
    Adds the probabilities of a block of queries to the sums of a block of keys:

        c' = c + colsum(P)        P = exp(S - lse), 0 where the mask drops the pair or lse = -inf

    | value | shape            | element type |
    |-------|------------------|--------------|
    | q     | `[B, Hq, Nq, D]` | T            |
    | k     | `[B, Hk, Nk, D]` | T            |
    | lse   | `[B, Hq, Nq]`    | f32          |
    | c     | `[B, Hq, Nk]`    | f32          |

    The op is the mirror image of `flash.online_attention`: keys are resident and queries are streamed. So `i` is the
    reduction, and `i < Nq` is added to the mask of a tile that exceeds the queries. The bounds of the loop over queries
    come from the mask with i and j exchanged (`MaskView::Dual`).

    Constraints: those of `flash.column_sums` (C2 to C9) on tensors; the result is typed like `outs`.

    Lowers to: linalg (AggregatedOpInterface).

    Example:
    ```mlir
    %c1 = flash.accumulate_column_sums
        ins(%q, %k, %lse : tensor<1x1x64x64xbf16>, tensor<1x1x32x64xbf16>, tensor<1x1x64xf32>)
        outs(%c : tensor<1x1x32xf32>) at(%b0, %h0, %i0, %j0) {scale = 1.250000e-01 : f32} -> tensor<1x1x32xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$q, AnyRankedTensor:$k, AnyRankedTensor:$lse, AnyRankedTensor:$c,
                       Index:$b0, Index:$h0, Index:$i0, Index:$j0, F32Attr:$scale, OptionalAttr<I64Attr>:$group_size);
  let results = (outs AnyRankedTensor:$c_out);
  let assemblyFormat = [{
    `ins` `(` $q `,` $k `,` $lse `:` type($q) `,` type($k) `,` type($lse) `)` `outs` `(` $c `:` type($c) `)`
  }] # positionFormat # regionsFormat # "`->` type($c_out)";
  let extraClassDeclaration = columnSumsDeclaration # [{
    MutableOperandRange getDpsInitsMutable() { return getCMutable(); }
    StepDim getStreamedDim() { return StepDim::I; }
    static SmallVector<StepOperand> getStepInputs();
    SmallVector<StepOperand> getStepState();
    OperandRange getPosition() { return getOperands().drop_front(4); }
  }];
}

def Flash_YieldOp : Flash_Op<"yield", [Pure, ReturnLike, Terminator,
    ParentOneOf<["AttentionOp", "ColumnSumsOp", "AttentionBackwardOp", "CapturedGradientOp", "OnlineAttentionOp",
                 "AccumulateColumnSumsOp", "AccumulateGradientsOp", "RowTableOp", "TileRangeOp", "TileClassesOp",
                 "TileRunsOp"]>]> {
  let summary = "the value of a score or mask region, or of a table";
  let description = [{
    Ends a region with its value: a `score` region with the new score (f32), a `derivative` region with the score's
    derivative (f32), a `mask` region with whether the key is kept (i1), the region of a `flash.row_table` with the
    value of a row (i32), the region of a `flash.tile_range` with the value of a position (i1, i32, i64), and the
    regions of `flash.tile_classes` and `flash.tile_runs` with the class of a tile (i32).
  }];
  let arguments = (ins AnyTypeOf<[F32, I1, I32, I64]>:$value);
  let assemblyFormat = "attr-dict $value `:` type($value)";
}

include "flashc/Dialect/Flash/IR/FlashGradientOps.td"
include "flashc/Dialect/Flash/IR/FlashDataOps.td"
include "flashc/Dialect/Flash/IR/FlashCacheOps.td"
include "flashc/Dialect/Flash/IR/FlashPackedOps.td"
include "flashc/Dialect/Flash/IR/FlashPlainOps.td"

#endif // FLASHC_FLASH_OPS_TD
