// Masks and scores, by every algorithm, with lengths and tiles that do not fit each other.
// RUN: flashc %s --run=cpu --check --algorithm=standard | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --algorithm=fa1 --q-tile=16 --kv-tile=8 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --check-each-pass --function=bias_and_slope --q-tile=8 --kv-tile=16 \
// RUN:   | FileCheck %s --check-prefix=EACH --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --q-tile=8 --kv-tile=16 --dims=B=2,Nq=29,Nk=17 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --q-tile=8 --kv-tile=16 --dims=Nq=17,Nk=31 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --q-tile=8 --kv-tile=16 --dims=Nq=1,Nk=1 | FileCheck %s --implicit-check-not=FAIL

// EACH: after flash-online-softmax: @bias_and_slope: {{.*}} PASS
// EACH: after flash-swap-loops: @bias_and_slope: {{.*}} PASS
// EACH: after flash-bound-loops: @bias_and_slope: {{.*}} PASS
// EACH: after flash-parallelize: @bias_and_slope: {{.*}} PASS

// Aligned with the first keys: query i sees key j <= i.
// CHECK: check @causal_top_left: o: {{.*}} PASS
// CHECK-NEXT: check @causal_top_left: lse: {{.*}} PASS
func.func @causal_top_left(%q: tensor<?x2x?x8xbf16>, %k: tensor<?x2x?x8xbf16>, %v: tensor<?x2x?x8xbf16>)
    -> (tensor<?x2x?x8xbf16>, tensor<?x2x?xf32>) {
  %o, %lse = flash.attention
      ins(%q, %k, %v : tensor<?x2x?x8xbf16>, tensor<?x2x?x8xbf16>, tensor<?x2x?x8xbf16>)
      {scale = 1.000000e+00 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      } -> tensor<?x2x?x8xbf16>, tensor<?x2x?xf32>
  return %o, %lse : tensor<?x2x?x8xbf16>, tensor<?x2x?xf32>
}

// Aligned with the last keys; where there are more queries than keys the first rows see nothing: o = 0, lse = -inf.
// CHECK-NEXT: check @causal_bottom_right: o: {{.*}} PASS
// CHECK-NEXT: check @causal_bottom_right: lse: {{.*}} PASS
func.func @causal_bottom_right(%q: tensor<?x2x?x8xbf16>, %k: tensor<?x1x?x8xbf16>, %v: tensor<?x1x?x8xbf16>)
    -> (tensor<?x2x?x8xbf16>, tensor<?x2x?xf32>) {
  %c2 = arith.constant 2 : index
  %nq = tensor.dim %q, %c2 : tensor<?x2x?x8xbf16>
  %nk = tensor.dim %k, %c2 : tensor<?x1x?x8xbf16>
  %shift = arith.subi %nk, %nq : index
  %o, %lse = flash.attention
      ins(%q, %k, %v : tensor<?x2x?x8xbf16>, tensor<?x1x?x8xbf16>, tensor<?x1x?x8xbf16>)
      {scale = 1.000000e+00 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %last = arith.addi %i, %shift : index
        %keep = arith.cmpi sle, %j, %last : index
        flash.yield %keep : i1
      } -> tensor<?x2x?x8xbf16>, tensor<?x2x?xf32>
  return %o, %lse : tensor<?x2x?x8xbf16>, tensor<?x2x?xf32>
}

// Nothing at all is kept, in any row.
// CHECK-NEXT: check @nothing: o: max error 0.00e+00, {{.*}} PASS
// CHECK-NEXT: check @nothing: lse: max error 0.00e+00, {{.*}} PASS
func.func @nothing(%q: tensor<?x2x?x8xf16>, %k: tensor<?x2x?x8xf16>, %v: tensor<?x2x?x8xf16>)
    -> (tensor<?x2x?x8xf16>, tensor<?x2x?xf32>) {
  %o, %lse = flash.attention
      ins(%q, %k, %v : tensor<?x2x?x8xf16>, tensor<?x2x?x8xf16>, tensor<?x2x?x8xf16>)
      {scale = 1.000000e+00 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %false = arith.constant false
        flash.yield %false : i1
      } -> tensor<?x2x?x8xf16>, tensor<?x2x?xf32>
  return %o, %lse : tensor<?x2x?x8xf16>, tensor<?x2x?xf32>
}

// A window of 5 keys on either side.
// CHECK-NEXT: check @window: o: {{.*}} PASS
// CHECK-NEXT: check @window: lse: {{.*}} PASS
func.func @window(%q: tensor<?x2x?x8xbf16>, %k: tensor<?x2x?x8xbf16>, %v: tensor<?x2x?x8xbf16>)
    -> (tensor<?x2x?x8xbf16>, tensor<?x2x?xf32>) {
  %c5 = arith.constant 5 : index
  %o, %lse = flash.attention
      ins(%q, %k, %v : tensor<?x2x?x8xbf16>, tensor<?x2x?x8xbf16>, tensor<?x2x?x8xbf16>)
      {scale = 1.000000e+00 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %first = arith.subi %i, %c5 : index
        %last = arith.addi %i, %c5 : index
        %after = arith.cmpi sge, %j, %first : index
        %before = arith.cmpi sle, %j, %last : index
        %keep = arith.andi %after, %before : i1
        flash.yield %keep : i1
      } -> tensor<?x2x?x8xbf16>, tensor<?x2x?xf32>
  return %o, %lse : tensor<?x2x?x8xbf16>, tensor<?x2x?xf32>
}

// The keys of each batch end at a length that is read from memory.
// CHECK-NEXT: check @lengths: o: {{.*}} PASS
// CHECK-NEXT: check @lengths: lse: {{.*}} PASS
func.func @lengths(%q: tensor<?x2x?x8xbf16>, %k: tensor<?x2x?x8xbf16>, %v: tensor<?x2x?x8xbf16>, %lengths: tensor<?xi32>)
    -> (tensor<?x2x?x8xbf16>, tensor<?x2x?xf32>) {
  %o, %lse = flash.attention
      ins(%q, %k, %v : tensor<?x2x?x8xbf16>, tensor<?x2x?x8xbf16>, tensor<?x2x?x8xbf16>)
      {scale = 1.000000e+00 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %length = tensor.extract %lengths[%b] : tensor<?xi32>
        %end = arith.index_cast %length : i32 to index
        %keep = arith.cmpi slt, %j, %end : index
        flash.yield %keep : i1
      } -> tensor<?x2x?x8xbf16>, tensor<?x2x?xf32>
  return %o, %lse : tensor<?x2x?x8xbf16>, tensor<?x2x?xf32>
}

// A score with a bias tensor, a soft cap, and a slope that is a scalar argument; checkerboard mask from a lookup.
// CHECK-NEXT: check @bias_and_slope: o: {{.*}} PASS
// CHECK-NEXT: check @bias_and_slope: lse: {{.*}} PASS
func.func @bias_and_slope(%q: tensor<?x4x?x8xbf16>, %k: tensor<?x2x?x8xbf16>, %v: tensor<?x2x?x8xbf16>,
                          %bias: tensor<?x?xbf16>, %slope: f32, %keeps: tensor<?xi1>)
    -> (tensor<?x4x?x8xbf16>, tensor<?x4x?xf32>) {
  %cap = arith.constant 2.000000e+00 : f32
  %o, %lse = flash.attention
      ins(%q, %k, %v : tensor<?x4x?x8xbf16>, tensor<?x2x?x8xbf16>, tensor<?x2x?x8xbf16>)
      {scale = 1.000000e+00 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %narrow = tensor.extract %bias[%i, %j] : tensor<?x?xbf16>
        %wide = arith.extf %narrow : bf16 to f32
        %scaled = arith.mulf %wide, %slope : f32
        %sum = arith.addf %s, %scaled : f32
        %small = arith.divf %sum, %cap : f32
        %tanh = math.tanh %small : f32
        %capped = arith.mulf %tanh, %cap : f32
        flash.yield %capped : f32
      }
      mask (%b: index, %h: index, %i: index, %j: index) {
        %far = tensor.extract %keeps[%j] : tensor<?xi1>
        %near = arith.cmpi eq, %i, %j : index
        %keep = arith.ori %far, %near : i1
        flash.yield %keep : i1
      } -> tensor<?x4x?x8xbf16>, tensor<?x4x?xf32>
  return %o, %lse : tensor<?x4x?x8xbf16>, tensor<?x4x?xf32>
}
