//===- FlashCacheOps.td - keys and values in a cache --------------------------------------------------------------===//
//
// A part of FlashOps.td, which includes it.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_FLASH_CACHE_OPS_TD
#define FLASHC_FLASH_CACHE_OPS_TD

include "mlir/Interfaces/InferTypeOpInterface.td"

def Flash_I32Vector : 1DTensorOf<[I32]>;
def Flash_I32Matrix : 2DTensorOf<[I32]>;
def Flash_F32Matrix : 2DTensorOf<[F32]>;
/// The element types of a cache: those of attention, and two types of 8 bits, which need scales.
def Flash_CacheTensor : 4DTensorOf<[BF16, F16, F32, F8E4M3FN, I8]>;

class Flash_CacheOp<string mnemonic, list<Trait> traits = []> : Flash_Op<mnemonic, [
    Pure, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<AggregatedOpInterface, ["decomposeOperation"]>] # traits> {
  let results = (outs 4DTensorOf<[BF16, F16, F32]>:$result);
  let hasVerifier = 1;
}

def Flash_CacheViewOp : Flash_CacheOp<"cache_view", [
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>]> {
  let summary = "view the keys or values of sequences in a cache, paged or not, as [B, Hk, N, D]";
  let description = [{
    Gives attention its `k` or `v` from a cache (Kwon et al. 2023, PagedAttention):

        result[b, h, j, :] = cache[table[b, j div S], h, j mod S, :]    with a table, pages of S rows
        result[b, h, j, :] = cache[b, h, j, :]                          without
        result[b, h, j, :] = 0                                          for j >= lengths[b]

    The cache may hold anything in rows that no sequence has: rows after the length of a sequence, and pages of no
    sequence. The op does not read the entries of the table after the last page of a sequence, so these may hold
    anything, too. If an entry that the op reads is not the number of a page, the rows of this page are NaN in the
    result, and queries must not see them. Kernels read zeros in place of these NaN.

    With scales the cache has elements of 8 bits, and the result has the numbers that they represent, rounded to T once.
    With a table, p is the page `table[b, j div S]` and r is `j mod S`; without a table, p is b and r is j:

        result[b, h, j, :] = scales[p, h] * cache[p, h, r, :]

    Where a dimension of `scales` has the extent 1, its index is 0 in place of p or h.

    | value   | shape                                                    | element type |
    |---------|----------------------------------------------------------|--------------|
    | cache   | `[pages, Hk, S, D]` with a table, `[B, Hk, N, D]` without | T, or with scales f8E4M3FN or i8 |
    | scales  | `[1 or pages, 1 or Hk]`; pages with a table only          | f32          |
    | lengths | `[B]`, from 0 to N; without lengths all sequences have N rows | i32     |
    | table   | `[B, M]`: numbers of pages; N = M * S                    | i32          |
    | result  | `[B, Hk, N, D]`                                          | T            |

    The cache may have any strides in memory, so that a cache `[pages, S, Hk, D]` is a transposed view for this op.

    Constraints:
    - (C1) the result has Hk, D and the element type of the cache, or with scales bf16, f16 or f32; D is static, and
      with a table S is static, too.
    - (C2) B agrees wherever it is known. N of the result is M * S with a table, and otherwise N of the cache.
    - (C3) there are lengths or a table.
    - (C4) there are scales if and only if the cache has elements of 8 bits.

    Lowers to: `linalg.generic` (`flash-decompose`); reads of its tiles become `flash.cache_tile` (`flash-page-kv`).

    Example:
    ```mlir
    %k = flash.cache_view %pool lengths(%lengths : tensor<?xi32>) pages(%table : tensor<?x?xi32>)
        : tensor<?x8x16x128xbf16> -> tensor<?x8x?x128xbf16>
    ```
  }];
  let arguments = (ins Flash_CacheTensor:$cache, Optional<Flash_I32Vector>:$lengths, Optional<Flash_I32Matrix>:$table,
                       Optional<Flash_F32Matrix>:$scales);
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$cache, "::mlir::Value":$lengths,
                                 "::mlir::Value":$table), [{
    build($_builder, $_state, result, cache, lengths, table, /*scales=*/Value());
  }]>];
  let assemblyFormat = [{
    $cache (`lengths` `(` $lengths^ `:` type($lengths) `)`)? (`pages` `(` $table^ `:` type($table) `)`)?
    (`scales` `(` $scales^ `:` type($scales) `)`)? attr-dict `:` type($cache) `->` type($result)
  }];
}

def Flash_CacheTileOp : Flash_CacheOp<"cache_tile"> {
  let summary = "read a tile of keys or values of one sequence and head from a cache";
  let description = [{
    Reads rows `j` to `j` + n - 1 of sequence `b` and key head `h` of the result of a `flash.cache_view` with the same
    operands. Rows after the sequence's length and after N are zeros. `flash-page-kv` creates the op from a slice of the
    view.

    Constraints: those of `flash.cache_view`; the result is `[1, 1, n, D]`, all static.

    Lowers to: `linalg.generic` (`flash-decompose`), or loads of a kernel (`convert-flash-to-tile`).

    Example:
    ```mlir
    %t = flash.cache_tile %pool[%b, %h, %j] lengths(%lengths : tensor<?xi32>) pages(%table : tensor<?x?xi32>)
        : tensor<?x8x16x128xbf16> -> tensor<1x1x64x128xbf16>
    ```
  }];
  let arguments = (ins Flash_CacheTensor:$cache, Index:$b, Index:$h, Index:$j, Optional<Flash_I32Vector>:$lengths,
                       Optional<Flash_I32Matrix>:$table, Optional<Flash_F32Matrix>:$scales);
  let assemblyFormat = [{
    $cache `[` $b `,` $h `,` $j `]` (`lengths` `(` $lengths^ `:` type($lengths) `)`)?
    (`pages` `(` $table^ `:` type($table) `)`)? (`scales` `(` $scales^ `:` type($scales) `)`)? attr-dict
    `:` type($cache) `->` type($result)
  }];
}

#endif // FLASHC_FLASH_CACHE_OPS_TD
