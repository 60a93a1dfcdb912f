func.func @g(%q: tensor<?x4x?x72xbf16>, %k: tensor<?x4x?x72xbf16>, %v: tensor<?x4x?x72xbf16>, %o: tensor<?x4x?x72xbf16>, %lse: tensor<?x4x?xf32>, %do: tensor<?x4x?x72xbf16>) -> (tensor<?x4x?x72xbf16>, tensor<?x4x?x72xbf16>, tensor<?x4x?x72xbf16>) {
  %c1=arith.constant 1 : index
 %c9 = arith.constant 9 : index
 %c700 = arith.constant 700 : index
 %one = arith.constant 1.0 : f32
  %g:3 = flash.attention_backward ins(%q, %k, %v, %o, %lse, %do : tensor<?x4x?x72xbf16>, tensor<?x4x?x72xbf16>, tensor<?x4x?x72xbf16>, tensor<?x4x?x72xbf16>, tensor<?x4x?xf32>, tensor<?x4x?x72xbf16>) {scale = 0.125 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) { %keep = arith.cmpi sle, %j, %i : index
 flash.yield %keep : i1 }
    -> tensor<?x4x?x72xbf16>, tensor<?x4x?x72xbf16>, tensor<?x4x?x72xbf16>
  return %g#0, %g#1, %g#2 : tensor<?x4x?x72xbf16>, tensor<?x4x?x72xbf16>, tensor<?x4x?x72xbf16>
}
