//===- FlashPackedOps.td - rows of packed sequences ---------------------------------------------------------------===//
//
// A part of FlashOps.td, which includes it.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_FLASH_PACKED_OPS_TD
#define FLASHC_FLASH_PACKED_OPS_TD

class Flash_RowsOp<string mnemonic> : Flash_Op<mnemonic, [
    Pure, DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>,
    DeclareOpInterfaceMethods<AggregatedOpInterface, ["decomposeOperation"]>]> {
  let arguments = (ins RankedTensorOf<[BF16, F16, F32]>:$source, Flash_SortedArray:$offsets);
  let results = (outs RankedTensorOf<[BF16, F16, F32]>:$result);
  let assemblyFormat = "$source `by` $offsets attr-dict `:` type($source) `,` type($offsets) `->` type($result)";
  let hasVerifier = 1;
}

def Flash_UnpackRowsOp : Flash_RowsOp<"unpack_rows"> {
  let summary = "view packed sequences as a batch of sequences";
  let description = [{
    Gives attention a `q` whose sequences have different numbers of queries and are packed one after the other, with
    keys and values that have a batch dimension (such as a cache):

        result[b, h, i, :] = source[0, h, i, :]   if row i is of sequence b
        result[b, h, i, :] = 0                    elsewhere

    A row keeps its number i. The sequence of row i is the last one that begins at i or before it. With S + 1 offsets:

        sequence(i) = clamp(count_le i in offsets - 1, 0, S - 1)

    So rows before the first offset are of the first sequence, and rows after the last offset are of the last one. Masks
    say that these rows see nothing: `offsets[b] <= i` and `i < offsets[b + 1]`.

    | value   | shape                                        | element type   |
    |---------|----------------------------------------------|----------------|
    | source  | `[1, H, T, D]` or `[1, H, T]`                | T              |
    | offsets | `[S + 1]`, a result of `flash.assume_sorted` | any integer    |
    | result  | `[S, H, T, D]` or `[S, H, T]`, with S >= 1   | T              |

    Constraints:
    - (C1) the result has the rank, the element type and the extents of the source but for the first one, which is 1 in
      the source and S in the result.
    - (C2) `offsets` has rank 1, and `flash.assume_sorted` declares it.

    Lowers to: `linalg.generic` (`flash-decompose`). `flash-pack-rows` removes it together with `flash.pack_rows`.

    Example:
    ```mlir
    %cu = flash.assume_sorted %offsets : tensor<?xi32>
    %qs = flash.unpack_rows %q by %cu : tensor<1x32x?x128xbf16>, tensor<?xi32> -> tensor<?x32x?x128xbf16>
    ```
  }];
}

def Flash_PackRowsOp : Flash_RowsOp<"pack_rows"> {
  let summary = "take each row of packed sequences from its sequence in a batch";
  let description = [{
    The inverse of `flash.unpack_rows`, for the results of attention:

        result[0, h, i, ...] = source[sequence(i), h, i, ...]

    | value   | shape                                        | element type   |
    |---------|----------------------------------------------|----------------|
    | source  | `[S, H, T, D]` or `[S, H, T]`                | T              |
    | offsets | `[S + 1]`, a result of `flash.assume_sorted` | any integer    |
    | result  | `[1, H, T, D]` or `[1, H, T]`                | T              |

    Constraints: those of `flash.unpack_rows`, with source and result exchanged.

    Lowers to: `linalg.generic` (`flash-decompose`). `flash-pack-rows` removes it.

    Example:
    ```mlir
    %packed = flash.pack_rows %o by %cu : tensor<?x32x?x128xbf16>, tensor<?xi32> -> tensor<1x32x?x128xbf16>
    ```
  }];
}

#endif // FLASHC_FLASH_PACKED_OPS_TD
