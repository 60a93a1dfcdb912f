// The numbers after every pass of every algorithm, for causal attention with fully masked rows. (That a wrong pass is
// found is tested in unittests/Execution/CheckEachPassTest.cpp.)
// RUN: flashc %s --check-each-pass --algorithm=standard | FileCheck %s --check-prefix=STANDARD
// STANDARD: after flash-to-tensors: @causal: o error [[O:[^ ]+]] -> [[O]] (bound {{[^ ]+}}), lse error [[LSE:[^ ]+]] -> [[LSE]] (bound {{[^ ]+}}), PASS
// STANDARD-NEXT: after flash-decompose: @causal: o error [[O]] -> [[O]] (bound {{[^ ]+}}), {{.*}} PASS
// STANDARD-NOT: {{.}}

// RUN: flashc %s --check-each-pass --algorithm=fa1 --q-tile=16 --kv-tile=8 | FileCheck %s --check-prefix=FA1
// FA1: after flash-to-tensors: @causal: {{.*}} PASS
// FA1-NEXT: after flash-wrap-indices: @causal: {{.*}} PASS
// FA1-NEXT: after flash-fuse: @causal: {{.*}} PASS
// FA1-NEXT: after flash-tabulate-rows: @causal: {{.*}} PASS
// FA1-NEXT: after flash-differentiate-captures: @causal: {{.*}} PASS
// FA1-NEXT: after flash-differentiate-scores: @causal: {{.*}} PASS
// FA1-NEXT: after flash-online-softmax: @causal: {{.*}} PASS
// FA1-NEXT: after flash-tile: @causal: {{.*}} PASS
// FA1-NEXT: after flash-page-kv: @causal: {{.*}} PASS
// FA1-NEXT: after canonicalize: @causal: {{.*}} PASS
// FA1-NEXT: after cse: @causal: {{.*}} PASS
// FA1-NEXT: after flash-recompute-delta: @causal: {{.*}} PASS
// FA1-NOT: {{.}}

// RUN: flashc %s --check-each-pass --algorithm=fa2 --q-tile=8 --kv-tile=16 | FileCheck %s --check-prefix=FA2
// FA2: after flash-tile: @causal: {{.*}} PASS
// FA2: after flash-swap-loops: @causal: {{.*}} PASS
// FA2: after flash-bound-loops: @causal: {{.*}} PASS
// FA2: after flash-parallelize: @causal: {{.*}} PASS
// FA2-NOT: FAIL

func.func @causal(%q: tensor<2x2x33x8xbf16>, %k: tensor<2x1x25x8xbf16>, %v: tensor<2x1x25x8xbf16>)
    -> (tensor<2x2x33x8xbf16>, tensor<2x2x33xf32>) {
  %shift = arith.constant -8 : index
  %o, %lse = flash.attention
      ins(%q, %k, %v : tensor<2x2x33x8xbf16>, tensor<2x1x25x8xbf16>, tensor<2x1x25x8xbf16>)
      {scale = 3.500000e-01 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %last = arith.addi %i, %shift : index
        %keep = arith.cmpi sle, %j, %last : index
        flash.yield %keep : i1
      } -> tensor<2x2x33x8xbf16>, tensor<2x2x33xf32>
  return %o, %lse : tensor<2x2x33x8xbf16>, tensor<2x2x33xf32>
}
