//===- FlashPlainOps.td - memory-bound ops around attention: partial results, caches (L0) -------------------------===//
#ifndef FLASHC_FLASH_PLAIN_OPS_TD
#define FLASHC_FLASH_PLAIN_OPS_TD

/// An op of L0 without scores. One memory-bound kernel computes it, with plain loads and stores.
class Flash_PlainOp<string mnemonic> : Flash_Op<mnemonic, [
    AttrSizedOperandSegments, Flash_PlainOpInterface, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<AggregatedOpInterface, ["decomposeOperation"]>]> {
  let hasVerifier = 1;
}

def Flash_MergeStatesOp : Flash_PlainOp<"merge_states"> {
  let summary = "merge partial results of attention over parts of the keys";
  let description = [{
    Computes the attention over all keys from attentions of the same queries over S disjoint parts of the keys, each
    with its log-sum-exp (flash-decoding; the cascades of FlashInfer; ring attention):

        m   = max over s of lse_s
        w_s = exp(lse_s - m)
        o   = (sum over s of w_s o_s) / (sum over s of w_s)        lse = m + log(sum over s of w_s)

    With `sinks` there is one more part, without an output, whose log-sum-exp is the head's sink; the parts themselves
    must then be computed without sinks.

    | value     | shape             | element type |
    |-----------|-------------------|--------------|
    | o_parts   | `[S, B, H, N, D]` | T            |
    | lse_parts | `[S, B, H, N]`    | f32          |
    | sinks     | `[H]`             | f32          |
    | o         | `[B, H, N, D]`    | T'           |
    | lse       | `[B, H, N]`       | f32          |

    T and T' are any of bf16, f16, f32. Log-sum-exps are in units of the natural logarithm.

    Precision: sums are computed in f32, in ascending order of the parts, and rounded once, so that equal arguments give
    equal bits. A part with `lse_s = -inf` adds nothing, whatever its o holds, even NaN. If the log-sum-exps of all
    parts (and the sink) are -inf, `o = 0` and `lse = -inf`.

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
  let summary = "append new tokens to a cache of keys and values, in place";
  let description = [{
    Writes token t of sequence b, for every t below T, to position `p = positions[b] + t` of its cache:

        k_cache[page, row, h] = k[b, t, h]        v_cache[page, row, h] = v[b, t, h]

    With a `table` the cache has pages of R rows (vLLM): `page = table[b, p floordiv R]` and `row = p mod R`. Without a
    table the cache has the N positions of each sequence, `[B, N, Hk, D]`, `page = b` and `row = p`. Memrefs may have
    any strides with a contiguous innermost dimension: a cache `[P, Hk, R, D]` is passed as a transposed view, and K and
    V that are interleaved in one allocation are two views of it.

    With `rotary` keys are rotated before they are stored (Su et al. 2021), by row p of `cos` and `sin`, which have R2 /
    2 columns. The first R2 columns of a key are rotated in pairs (x, y): columns c and c + R2 / 2 (Llama, GPT-NeoX), or
    with `interleaved` columns 2 c and 2 c + 1 (GPT-J):

        x' = x cos[p, c] - y sin[p, c]        y' = y cos[p, c] + x sin[p, c]

    With `leftpad` sequence b begins at row `leftpad[b]` of its cache, so that its keys are rotated by row `p -
    leftpad[b]` of `cos` and `sin`; if this is negative, the row does not exist.

    With `offsets` the new tokens of all sequences are packed: k is `[total, Hk, D]`, and token t of sequence b is
    `k[offsets[b] + t]`, for every t below `offsets[b + 1] - offsets[b]`. Offsets ascend. Rows before `offsets[0]` and
    from `offsets[B]` on belong to no sequence.

    With `scales` the caches have elements of 8 bits. A number x is stored as x divided by the scale of the page and the
    key head, rounded to the nearest element (ties to even), and saturated to [-128, 127] or [-448, 448].

    A token whose place does not exist is not written, neither its key nor its value. These are tokens whose position is
    negative or beyond the cache, the table, or the rows of `cos`; tokens whose page is negative or beyond the cache;
    and with `counts` tokens t that are not below `counts[b]`. No other element of the caches changes. If two tokens
    have the same place, it holds either of them.

    | value     | shape                                    | element type |
    |-----------|------------------------------------------|--------------|
    | k         | `[B, T, Hk, D]`, with offsets `[total, Hk, D]`   | T    |
    | v         | `[B, T, Hk, Dv]`, with offsets `[total, Hk, Dv]` | T    |
    | positions | `[B]`                                    | i32          |
    | offsets   | `[B + 1]`                                | i32          |
    | counts    | `[B]`                                    | i32          |
    | table     | `[B, M]`                                 | i32          |
    | leftpad   | `[B]`                                    | i32          |
    | cos, sin  | `[positions, R2 / 2]`                    | f32 or T, both the same |
    | k_scale, v_scale | `[1 or P, 1 or Hk]`               | f32          |
    | k_cache   | `[P, R, Hk, D]`, or `[B, N, Hk, D]`      | T, or with scales f8E4M3FN or i8 |
    | v_cache   | `[P, R, Hk, Dv]`, or `[B, N, Hk, Dv]`    | that of k_cache |

    Precision: rotations and quotients are computed in f32 and rounded once; other elements are copied bit by bit.

    Constraints, by the number that the verifier cites:
    - (C1) all values are memrefs, contiguous in the innermost dimension.
    - (C2) ranks are those of the table.
    - (C3) element types are those of the table, T one of bf16, f16, f32.
    - (C4) D, Dv and R2 / 2 are static and positive, R2 is at most D; k and k_cache agree on D, v and v_cache on Dv,
      cos and sin on R2 / 2.
    - (C6) B, T, Hk, P, R, N and the rows of cos and sin agree wherever two operands both know them.
    - (C13) `interleaved` and `leftpad` are given with `rotary` only, and `offsets` without `counts`.
    - (C14) as for `flash.attention`: the caches share no memory with each other or with the inputs. Two views of one
      allocation that are known to be disjoint are allowed.
    - (C15) there is a scale for all key heads or one for each, and one for all pages or, with a `table`, one for each.

    Lowers to: loops of scf on memrefs (`flash-decompose`), or a kernel (`convert-flash-to-tile`).

    Example:
    ```mlir
    flash.append_kv ins(%k, %v, %positions : memref<?x1x8x128xbf16>, memref<?x1x8x128xbf16>, memref<?xi32>)
        table(%table : memref<?x?xi32>) rotary(%cos, %sin : memref<?x64xf32>, memref<?x64xf32>)
        outs(%k_cache, %v_cache : memref<?x16x8x128xbf16>, memref<?x16x8x128xbf16>)
    ```
  }];
  let arguments = (ins AnyStridedMemRef:$k, AnyStridedMemRef:$v, AnyStridedMemRef:$positions,
                       Optional<AnyStridedMemRef>:$offsets, Optional<AnyStridedMemRef>:$counts,
                       Optional<AnyStridedMemRef>:$table,
                       Optional<AnyStridedMemRef>:$leftpad, Optional<AnyStridedMemRef>:$cos,
                       Optional<AnyStridedMemRef>:$sin, Optional<AnyStridedMemRef>:$k_scale,
                       Optional<AnyStridedMemRef>:$v_scale, AnyStridedMemRef:$k_cache, AnyStridedMemRef:$v_cache,
                       UnitAttr:$interleaved);
  let assemblyFormat = [{
    `ins` `(` $k `,` $v `,` $positions `:` type($k) `,` type($v) `,` type($positions) `)`
    (`offsets` `(` $offsets^ `:` type($offsets) `)`)? (`counts` `(` $counts^ `:` type($counts) `)`)?
    (`table` `(` $table^ `:` type($table) `)`)?
    (`leftpad` `(` $leftpad^ `:` type($leftpad) `)`)? (`rotary` `(` $cos^ `,` $sin `:` type($cos) `,` type($sin) `)`)?
    (`scales` `(` $k_scale^ `,` $v_scale `:` type($k_scale) `,` type($v_scale) `)`)?
    `outs` `(` $k_cache `,` $v_cache `:` type($k_cache) `,` type($v_cache) `)` attr-dict
  }];
  let extraClassDeclaration = [{
    SmallVector<StepOperand> getInputs();
    SmallVector<StepOperand> getOutputs();
    /// The outputs are caches. Their elements keep their values where the op does not write.
    bool updatesOutputs() { return true; }
    MemRefType getKType() { return cast<MemRefType>(getK().getType()); }
    MemRefType getVType() { return cast<MemRefType>(getV().getType()); }
    MemRefType getKCacheType() { return cast<MemRefType>(getKCache().getType()); }
    /// Returns the number of the dimension of k and v that counts tokens. The dimension of heads follows it.
    int64_t getTokenDim() { return getOffsets() ? 0 : 1; }
    bool hasEightBits() { return static_cast<bool>(getKScale()); }
    LogicalResult verifyScales(StringRef name, MemRefType scales);
    /// Returns the number of columns of `cos` and `sin`: half of the number of columns that are rotated. Returns 0 if
    /// nothing is rotated.
    int64_t getNumPairs() { return getCos() ? cast<MemRefType>(getCos().getType()).getDimSize(1) : 0; }
  }];
}

#endif // FLASHC_FLASH_PLAIN_OPS_TD
