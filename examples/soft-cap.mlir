// Soft-capped scores, 20 tanh(s / 20), plus a bias for every (i, j), the same for all batches and heads.
func.func @soft_cap(%q: tensor<?x4x?x64xbf16>, %k: tensor<?x4x?x64xbf16>, %v: tensor<?x4x?x64xbf16>,
                    %bias: tensor<300x300xf32>) -> (tensor<?x4x?x64xbf16>, tensor<?x4x?xf32>) {
  %cap = arith.constant 20.0 : f32
  %inverse = arith.constant 0.05 : f32
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<?x4x?x64xbf16>, tensor<?x4x?x64xbf16>, tensor<?x4x?x64xbf16>)
      {scale = 0.125 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %x = arith.mulf %s, %inverse : f32
        %t = math.tanh %x : f32
        %c = arith.mulf %t, %cap : f32
        %e = tensor.extract %bias[%i, %j] : tensor<300x300xf32>
        %r = arith.addf %c, %e : f32
        flash.yield %r : f32
      } -> tensor<?x4x?x64xbf16>, tensor<?x4x?xf32>
  return %o, %lse : tensor<?x4x?x64xbf16>, tensor<?x4x?xf32>
}
