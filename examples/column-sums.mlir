// The weight that each key receives from all queries under a causal mask, bf16, summed over the 4 query heads of each of
// 2 key heads (docs/column-sums.md). A full cache keeps the keys with the largest sums. `lse` is the attention's
// log-sum-exp.
func.func @column_sums(%q: tensor<?x8x?x128xbf16>, %k: tensor<?x2x?x128xbf16>, %lse: tensor<?x8x?xf32>)
    -> tensor<?x2x?xf32> {
  %c2 = arith.constant 2 : index
  %nq = tensor.dim %q, %c2 : tensor<?x8x?x128xbf16>
  %nk = tensor.dim %k, %c2 : tensor<?x2x?x128xbf16>
  %shift = arith.subi %nk, %nq : index
  %c = flash.column_sums ins(%q, %k, %lse : tensor<?x8x?x128xbf16>, tensor<?x2x?x128xbf16>, tensor<?x8x?xf32>)
      {scale = 0.0883883461 : f32, sum_groups}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %last = arith.addi %i, %shift : index
        %keep = arith.cmpi sle, %j, %last : index
        flash.yield %keep : i1
      } -> tensor<?x2x?xf32>
  return %c : tensor<?x2x?xf32>
}
