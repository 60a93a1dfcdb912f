// One batch, one head, one query tile: no parallel loop is left, and the loops over keys stand by themselves, reading
// what the score region captures.
// RUN: flashc %s --emit=tile --schedule=persistent=false | FileCheck %s

// CHECK-LABEL: gpu.func @bias_one_query_tile
// CHECK-SAME: grid = ["ceildiv(64, 128)", "1", "1"]
// CHECK: memref.load
func.func @bias_one_query_tile(%q: memref<1x1x64x16xf16>, %k: memref<1x1x?x16xf16>, %v: memref<1x1x?x64xf16>,
                               %o: memref<1x1x64x64xf16>, %lse: memref<1x1x64xf32>, %bias: memref<?x?xf32>) {
  flash.attention ins(%q, %k, %v : memref<1x1x64x16xf16>, memref<1x1x?x16xf16>, memref<1x1x?x64xf16>)
      outs(%o, %lse : memref<1x1x64x64xf16>, memref<1x1x64xf32>) {scale = 0.25 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %e = memref.load %bias[%i, %j] : memref<?x?xf32>
        %t = arith.addf %s, %e : f32
        flash.yield %t : f32
      }
  return
}
