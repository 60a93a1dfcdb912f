//===- FlashPlainOps.td - what surrounds attention: partial results, caches (L0) ----------------------------------===//
#ifndef FLASHC_FLASH_PLAIN_OPS_TD
#define FLASHC_FLASH_PLAIN_OPS_TD

/// L0: an op without scores, which one kernel of plain loads and stores computes.
class Flash_PlainOp<string mnemonic> : Flash_Op<mnemonic, [
    AttrSizedOperandSegments, Flash_PlainOpInterface, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<AggregatedOpInterface, ["decomposeOperation"]>]> {
  let hasVerifier = 1;
}

def Flash_MergeStatesOp : Flash_PlainOp<"merge_states"> {
  let summary = "partial results of attention, over parts of the keys, become one";
  let description = [{
    The attention over all keys, from attentions of the same queries over S disjoint parts of them (flash-decoding; the
    cascades of FlashInfer; ring attention), each with its log-sum-exp:

        m   = max over s of lse_s
        w_s = exp(lse_s - m)
        o   = (sum over s of w_s o_s) / (sum over s of w_s)        lse = m + log(sum over s of w_s)

    With `sinks` there is one part more, without an output, whose log-sum-exp is the head's sink: the parts have none of
    their own then.

    | value     | shape             | element type |
    |-----------|-------------------|--------------|
    | o_parts   | `[S, B, H, N, D]` | T            |
    | lse_parts | `[S, B, H, N]`    | f32          |
    | sinks     | `[H]`             | f32          |
    | o         | `[B, H, N, D]`    | T'           |
    | lse       | `[B, H, N]`       | f32          |

    T and T' are any of bf16, f16, f32. Log-sum-exps are in units of the natural logarithm.

    Precision: all of it is computed in f32, in ascending order of the parts, and rounded once, so that equal arguments
    give equal bits. A part with `lse_s = -inf` gives nothing, whatever its o holds, NaN too. Where all parts (and the
    sink) are -inf, `o = 0` and `lse = -inf`.

    Constraints, by the number that the verifier cites:
    - (C1) all values are tensors, or all are memrefs, contiguous in the innermost dimension.
    - (C2) ranks are those of the table.
    - (C3) element types are those of the table.
    - (C4) D is static and positive; o_parts and o agree on it.
    - (C6) S, B, H, N agree wherever two operands both know them.
    - (C10) on memrefs `outs` holds o and lse and there are no results; on tensors there are two results and no `outs`.
    - (C14) as for `flash.attention`.

    Lowers to: loops of linalg (`flash-decompose`), or a kernel (`convert-flash-to-tile`).

    Example:
    ```mlir
    %o, %lse = flash.merge_states ins(%o_parts, %lse_parts : tensor<?x2x8x128x64xf32>, tensor<?x2x8x128xf32>)
        sinks(%sinks : tensor<8xf32>) -> tensor<2x8x128x64xbf16>, tensor<2x8x128xf32>
    ```
  }];
  let arguments = (ins Flash_Buffer:$o_parts, Flash_Buffer:$lse_parts, Optional<Flash_Buffer>:$sinks,
                       Variadic<Flash_Buffer>:$outs);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    `ins` `(` $o_parts `,` $lse_parts `:` type($o_parts) `,` type($lse_parts) `)`
    (`sinks` `(` $sinks^ `:` type($sinks) `)`)? (`outs` `(` $outs^ `:` type($outs) `)`)? attr-dict
    (`->` type($results)^)?
  }];
  let extraClassDeclaration = [{
    SmallVector<StepOperand> getInputs();
    SmallVector<StepOperand> getOutputs();
    bool hasTensorSemantics() { return isa<RankedTensorType>(getOParts().getType()); }
    ShapedType getPartsType() { return cast<ShapedType>(getOParts().getType()); }
    /// The type of an output: a result or an `outs` operand.
    ShapedType getOutputType(unsigned index) {
      return cast<ShapedType>(hasTensorSemantics() ? getResult(index).getType() : getOuts()[index].getType());
    }
  }];
}

def Flash_AppendKVOp : Flash_PlainOp<"append_kv"> {
  let summary = "new tokens go into a cache of keys and values, in place";
  let description = [{
    Writes token t of sequence b, for every t below T, to position `p = positions[b] + t` of its cache:

        k_cache[page, row, h] = k[b, t, h]        v_cache[page, row, h] = v[b, t, h]

    With a `table` the cache is paged (vLLM): `page = table[b, p floordiv R]` and `row = p mod R`, of pages of R rows.
    Without one it has the N positions of each sequence, `[B, N, Hk, D]`. Memrefs may have any strides with a contiguous
    innermost dimension: a cache `[P, Hk, R, D]` comes in as a transposed view, and K and V that are interleaved in one
    allocation are two views of it.

    With `rotary` keys are rotated on their way (Su et al. 2021), by the row p of `cos` and `sin`. Of the first R2
    columns, twice as many as these have, columns c and c + R2 / 2 are a pair (x, y) (Llama, GPT-NeoX), or with
    `interleaved` columns 2 c and 2 c + 1 (GPT-J):

        x' = x cos[p, c] - y sin[p, c]        y' = y cos[p, c] + x sin[p, c]

    With `leftpad` the sequence b begins at row `leftpad[b]` of its cache: its keys are rotated by the row
    `p - leftpad[b]` of `cos` and `sin`, which does not exist if it is negative.

    With `scales` the caches have elements of 8 bits. What is stored of x is x divided by the scale of the page and the
    key head, rounded to the nearest, to the even one of two, and saturated: to -128 and 127, or -448 and 448.

    A token whose place does not exist is not written, neither its key nor its value: a position that is negative or
    beyond the cache, the table, or the rows of `cos`; a page that is negative or beyond the cache; and with `counts` a
    token t that is not below `counts[b]`. No other element of the caches changes. If two tokens have one place, it
    holds either of them.

    | value     | shape                                    | element type |
    |-----------|------------------------------------------|--------------|
    | k         | `[B, T, Hk, D]`                          | T            |
    | v         | `[B, T, Hk, Dv]`                         | T            |
    | positions | `[B]`                                    | i32          |
    | counts    | `[B]`                                    | i32          |
    | table     | `[B, M]`                                 | i32          |
    | leftpad   | `[B]`                                    | i32          |
    | cos, sin  | `[positions, R2 / 2]`                    | f32 or T, both the same |
    | k_scale, v_scale | `[1 or P, 1 or Hk]`               | f32          |
    | k_cache   | `[P, R, Hk, D]`, or `[B, N, Hk, D]`      | T, or with scales f8E4M3FN or i8 |
    | v_cache   | `[P, R, Hk, Dv]`, or `[B, N, Hk, Dv]`    | that of k_cache |

    Precision: rotation and quotients are computed in f32 and rounded once; all else is copied bit by bit.

    Constraints, by the number that the verifier cites:
    - (C1) all values are memrefs, contiguous in the innermost dimension.
    - (C2) ranks are those of the table.
    - (C3) element types are those of the table, T one of bf16, f16, f32.
    - (C4) D, Dv and R2 / 2 are static and positive, R2 is at most D; k and k_cache agree on D, v and v_cache on Dv,
      cos and sin on R2 / 2.
    - (C6) B, T, Hk, P, R, N and the rows of cos and sin agree wherever two operands both know them.
    - (C13) `interleaved` and `leftpad` are there with `rotary` only.
    - (C14) as for `flash.attention`: the caches share no memory with each other or with what is read. Two views of one
      allocation that are known to be apart are fine.
    - (C15) scales are of one key head or all, and of one page or, with a `table`, all.

    Lowers to: loops of scf on memrefs (`flash-decompose`), or a kernel (`convert-flash-to-tile`).

    Example:
    ```mlir
    flash.append_kv ins(%k, %v, %positions : memref<?x1x8x128xbf16>, memref<?x1x8x128xbf16>, memref<?xi32>)
        table(%table : memref<?x?xi32>) rotary(%cos, %sin : memref<?x64xf32>, memref<?x64xf32>)
        outs(%k_cache, %v_cache : memref<?x16x8x128xbf16>, memref<?x16x8x128xbf16>)
    ```
  }];
  let arguments = (ins AnyStridedMemRef:$k, AnyStridedMemRef:$v, AnyStridedMemRef:$positions,
                       Optional<AnyStridedMemRef>:$counts, Optional<AnyStridedMemRef>:$table,
                       Optional<AnyStridedMemRef>:$leftpad, Optional<AnyStridedMemRef>:$cos,
                       Optional<AnyStridedMemRef>:$sin, Optional<AnyStridedMemRef>:$k_scale,
                       Optional<AnyStridedMemRef>:$v_scale, AnyStridedMemRef:$k_cache, AnyStridedMemRef:$v_cache,
                       UnitAttr:$interleaved);
  let assemblyFormat = [{
    `ins` `(` $k `,` $v `,` $positions `:` type($k) `,` type($v) `,` type($positions) `)`
    (`counts` `(` $counts^ `:` type($counts) `)`)? (`table` `(` $table^ `:` type($table) `)`)?
    (`leftpad` `(` $leftpad^ `:` type($leftpad) `)`)? (`rotary` `(` $cos^ `,` $sin `:` type($cos) `,` type($sin) `)`)?
    (`scales` `(` $k_scale^ `,` $v_scale `:` type($k_scale) `,` type($v_scale) `)`)?
    `outs` `(` $k_cache `,` $v_cache `:` type($k_cache) `,` type($v_cache) `)` attr-dict
  }];
  let extraClassDeclaration = [{
    SmallVector<StepOperand> getInputs();
    SmallVector<StepOperand> getOutputs();
    /// What is not written keeps its value.
    bool updatesOutputs() { return true; }
    MemRefType getKType() { return cast<MemRefType>(getK().getType()); }
    MemRefType getVType() { return cast<MemRefType>(getV().getType()); }
    MemRefType getKCacheType() { return cast<MemRefType>(getKCache().getType()); }
    bool hasEightBits() { return static_cast<bool>(getKScale()); }
    LogicalResult verifyScales(StringRef name, MemRefType scales);
    /// Columns of cos and sin: half of those that are rotated; 0 without rotation.
    int64_t getNumPairs() { return getCos() ? cast<MemRefType>(getCos().getType()).getDimSize(1) : 0; }
  }];
}

#endif // FLASHC_FLASH_PLAIN_OPS_TD
