// The gradients of causal attention with 4 query heads for each of 2 key heads, bf16, head dimension 128
// (docs/backward.md). `o` and `lse` are the outputs of flash.attention of the same q, k and v; `do` is the gradient of
// `o`.
func.func @attention_backward(%q: tensor<?x8x?x128xbf16>, %k: tensor<?x2x?x128xbf16>, %v: tensor<?x2x?x128xbf16>,
                              %o: tensor<?x8x?x128xbf16>, %lse: tensor<?x8x?xf32>, %do: tensor<?x8x?x128xbf16>)
    -> (tensor<?x8x?x128xbf16>, tensor<?x2x?x128xbf16>, tensor<?x2x?x128xbf16>) {
  %c2 = arith.constant 2 : index
  %nq = tensor.dim %q, %c2 : tensor<?x8x?x128xbf16>
  %nk = tensor.dim %k, %c2 : tensor<?x2x?x128xbf16>
  %shift = arith.subi %nk, %nq : index
  %dq, %dk, %dv = flash.attention_backward
      ins(%q, %k, %v, %o, %lse, %do : tensor<?x8x?x128xbf16>, tensor<?x2x?x128xbf16>, tensor<?x2x?x128xbf16>,
          tensor<?x8x?x128xbf16>, tensor<?x8x?xf32>, tensor<?x8x?x128xbf16>)
      {scale = 0.0883883461 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %last = arith.addi %i, %shift : index
        %keep = arith.cmpi sle, %j, %last : index
        flash.yield %keep : i1
      } -> tensor<?x8x?x128xbf16>, tensor<?x2x?x128xbf16>, tensor<?x2x?x128xbf16>
  return %dq, %dk, %dv : tensor<?x8x?x128xbf16>, tensor<?x2x?x128xbf16>, tensor<?x2x?x128xbf16>
}
