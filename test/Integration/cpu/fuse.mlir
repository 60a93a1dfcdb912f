// Scores and masks that linalg computes: the numbers before and after flash-fuse, with lengths that do not fit the tiles,
// and the kernel, whose loops are bounded by what the mask's tensor would have held.
// RUN: flashc %s --check-each-pass --q-tile=16 --kv-tile=8 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --check --algorithm=standard | FileCheck %s --check-prefix=STANDARD --implicit-check-not=FAIL
// RUN: flashc %s --emit=loops --q-tile=16 --kv-tile=8 | FileCheck %s --check-prefix=LOOPS
// RUN: flashc %s --print-decisions -o /dev/null | FileCheck %s --check-prefix=SCHEDULE

// CHECK: after flash-fuse: @alibi_of_tensors: {{.*}} PASS
// CHECK: after flash-bound-loops: @alibi_of_tensors: {{.*}} PASS
// STANDARD: check @alibi_of_tensors: o: {{.*}} PASS
// STANDARD: check @alibi_of_tensors: lse: {{.*}} PASS
// LOOPS-NOT: linalg.generic
// LOOPS: %[[END:.*]] = affine.min
// LOOPS-NOT: linalg.generic
// SCHEDULE: decisions for {{.*}} mask=bounds

#both = affine_map<(d0, d1) -> (d0, d1)>
func.func @alibi_of_tensors(%q: tensor<1x2x61x64xbf16>, %k: tensor<1x2x61x64xbf16>, %v: tensor<1x2x61x64xbf16>,
                            %slopes: tensor<2xf32>) -> (tensor<1x2x61x64xbf16>, tensor<1x2x61xf32>) {
  %bits = tensor.empty() : tensor<61x61xi1>
  %causal = linalg.generic {indexing_maps = [#both], iterator_types = ["parallel", "parallel"]}
      outs(%bits : tensor<61x61xi1>) {
  ^bb0(%unused: i1):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %keep = arith.cmpi sle, %j, %i : index
    linalg.yield %keep : i1
  } -> tensor<61x61xi1>
  %square = tensor.empty() : tensor<61x61xf32>
  %distance = linalg.generic {indexing_maps = [#both], iterator_types = ["parallel", "parallel"]}
      outs(%square : tensor<61x61xf32>) {
  ^bb0(%unused: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %d = arith.subi %j, %i : index
    %wide = arith.index_cast %d : index to i64
    %x = arith.sitofp %wide : i64 to f32
    linalg.yield %x : f32
  } -> tensor<61x61xf32>
  %negative = arith.negf %slopes : tensor<2xf32>
  %all = tensor.empty() : tensor<2x61x61xf32>
  %factor = linalg.broadcast ins(%negative : tensor<2xf32>) outs(%all : tensor<2x61x61xf32>) dimensions = [1, 2]
  %steps = linalg.broadcast ins(%distance : tensor<61x61xf32>) outs(%all : tensor<2x61x61xf32>) dimensions = [0]
  %bias = linalg.mul ins(%factor, %steps : tensor<2x61x61xf32>, tensor<2x61x61xf32>)
      outs(%all : tensor<2x61x61xf32>) -> tensor<2x61x61xf32>
  %o, %lse = flash.attention
      ins(%q, %k, %v : tensor<1x2x61x64xbf16>, tensor<1x2x61x64xbf16>, tensor<1x2x61x64xbf16>)
      {scale = 1.250000e-01 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %bias[%h, %i, %j] : tensor<2x61x61xf32>
        %t = arith.addf %s, %x : f32
        flash.yield %t : f32
      }
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = tensor.extract %causal[%i, %j] : tensor<61x61xi1>
        flash.yield %keep : i1
      } -> tensor<1x2x61x64xbf16>, tensor<1x2x61xf32>
  return %o, %lse : tensor<1x2x61x64xbf16>, tensor<1x2x61xf32>
}
