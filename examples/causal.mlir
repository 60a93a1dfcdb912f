// Causal attention, bf16, grouped query heads (8 over 2), any batch and sequence lengths, head dimension 128. Query i
// is aligned with the last keys (bottom-right): it sees key j when j <= i + Nk - Nq.
func.func @causal(%q: tensor<?x8x?x128xbf16>, %k: tensor<?x2x?x128xbf16>, %v: tensor<?x2x?x128xbf16>)
    -> (tensor<?x8x?x128xbf16>, tensor<?x8x?xf32>) {
  %c2 = arith.constant 2 : index
  %nq = tensor.dim %q, %c2 : tensor<?x8x?x128xbf16>
  %nk = tensor.dim %k, %c2 : tensor<?x2x?x128xbf16>
  %shift = arith.subi %nk, %nq : index
  %o, %lse = flash.attention
      ins(%q, %k, %v : tensor<?x8x?x128xbf16>, tensor<?x2x?x128xbf16>, tensor<?x2x?x128xbf16>)
      {scale = 0.0883883461 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %last = arith.addi %i, %shift : index
        %keep = arith.cmpi sle, %j, %last : index
        flash.yield %keep : i1
      } -> tensor<?x8x?x128xbf16>, tensor<?x8x?xf32>
  return %o, %lse : tensor<?x8x?x128xbf16>, tensor<?x8x?xf32>
}
