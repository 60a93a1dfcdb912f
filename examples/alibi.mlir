// A score region: ALiBi (Press et al. 2022) adds to each score a slope of the head times the distance to the key. The
// slopes are a tensor argument that the region reads. Head dimensions may be any multiples of 8, and may differ.
func.func @alibi(%q: tensor<?x6x?x72xf16>, %k: tensor<?x3x?x72xf16>, %v: tensor<?x3x?x104xf16>, %slopes: tensor<6xf32>)
    -> (tensor<?x6x?x104xf16>, tensor<?x6x?xf32>) {
  %o, %lse = flash.attention
      ins(%q, %k, %v : tensor<?x6x?x72xf16>, tensor<?x3x?x72xf16>, tensor<?x3x?x104xf16>) {scale = 0.117851131 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %slope = tensor.extract %slopes[%h] : tensor<6xf32>
        %back = arith.subi %j, %i : index
        %back32 = arith.index_cast %back : index to i32
        %distance = arith.sitofp %back32 : i32 to f32
        %bias = arith.mulf %slope, %distance : f32
        %t = arith.addf %s, %bias : f32
        flash.yield %t : f32
      }
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      } -> tensor<?x6x?x104xf16>, tensor<?x6x?xf32>
  return %o, %lse : tensor<?x6x?x104xf16>, tensor<?x6x?xf32>
}
