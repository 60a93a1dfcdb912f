// The gradients of attention, by every algorithm, with lengths and tiles that do not fit each other. Of what is given lse
// is about that of as many keys, and -inf in some rows.
// RUN: flashc %s --run=cpu --check --algorithm=standard | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --algorithm=fa1 --q-tile=16 --kv-tile=8 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --split-gradients=each --q-tile=8 --kv-tile=16 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --q-tile=16 --kv-tile=8 --dims=B=2,Nq=29,Nk=17 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --split-gradients --q-tile=16 --kv-tile=8 --dims=Nq=17,Nk=61 \
// RUN:   | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --q-tile=8 --kv-tile=16 --dims=Nq=1,Nk=1 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --check-each-pass --function=causal --q-tile=8 --kv-tile=16 \
// RUN:   | FileCheck %s --check-prefix=EACH --implicit-check-not=FAIL
// RUN: flashc %s --check-each-pass --function=causal --split-gradients=each --q-tile=8 --kv-tile=16 \
// RUN:   | FileCheck %s --check-prefixes=EACH,SPLIT --implicit-check-not=FAIL
// RUN: flashc %s --check-each-pass --algorithm=fa1 --function=causal --q-tile=8 --kv-tile=16 \
// RUN:   | FileCheck %s --check-prefix=FA1 --implicit-check-not=FAIL

// EACH: after flash-online-softmax: @causal: dq {{.*}} PASS
// SPLIT: after flash-split-gradients: @causal: dq {{.*}} PASS
// EACH: after flash-tile: @causal: dq {{.*}} PASS
// EACH: after flash-swap-loops: @causal: dq {{.*}} PASS
// EACH: after flash-bound-loops: @causal: dq {{.*}} PASS
// EACH: after flash-parallelize: @causal: dq {{.*}} PASS
// FA1: after flash-tile: @causal: dq {{.*}} PASS
// FA1: after flash-recompute-delta: @causal: dq {{.*}} PASS

// CHECK: check @causal: dq: {{.*}} PASS
// CHECK-NEXT: check @causal: dk: {{.*}} PASS
// CHECK-NEXT: check @causal: dv: {{.*}} PASS
func.func @causal(%q: tensor<?x4x?x8xf32>, %k: tensor<?x2x?x8xf32>, %v: tensor<?x2x?x16xf32>,
                  %o: tensor<?x4x?x16xf32>, %lse: tensor<?x4x?xf32>, %do: tensor<?x4x?x16xf32>,
                  %dlse: tensor<?x4x?xf32>) -> (tensor<?x4x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x16xf32>) {
  %dq, %dk, %dv = flash.attention_backward
      ins(%q, %k, %v, %o, %lse, %do, %dlse : tensor<?x4x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x16xf32>,
          tensor<?x4x?x16xf32>, tensor<?x4x?xf32>, tensor<?x4x?x16xf32>, tensor<?x4x?xf32>)
      {scale = 0.35 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      } -> tensor<?x4x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x16xf32>
  return %dq, %dk, %dv : tensor<?x4x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x16xf32>
}

// The gradients of the attention that gave o and lse.
// CHECK-NEXT: check @of_attention: dq: {{.*}} PASS
// CHECK-NEXT: check @of_attention: dk: {{.*}} PASS
// CHECK-NEXT: check @of_attention: dv: {{.*}} PASS
func.func @of_attention(%q: tensor<?x2x?x8xbf16>, %k: tensor<?x2x?x8xbf16>, %v: tensor<?x2x?x8xbf16>,
                        %do: tensor<?x2x?x8xbf16>) -> (tensor<?x2x?x8xbf16>, tensor<?x2x?x8xbf16>, tensor<?x2x?x8xbf16>) {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<?x2x?x8xbf16>, tensor<?x2x?x8xbf16>, tensor<?x2x?x8xbf16>)
      {scale = 0.35 : f32} -> tensor<?x2x?x8xf32>, tensor<?x2x?xf32>
  %dq, %dk, %dv = flash.attention_backward
      ins(%q, %k, %v, %o, %lse, %do : tensor<?x2x?x8xbf16>, tensor<?x2x?x8xbf16>, tensor<?x2x?x8xbf16>,
          tensor<?x2x?x8xf32>, tensor<?x2x?xf32>, tensor<?x2x?x8xbf16>)
      {scale = 0.35 : f32} -> tensor<?x2x?x8xbf16>, tensor<?x2x?x8xbf16>, tensor<?x2x?x8xbf16>
  return %dq, %dk, %dv : tensor<?x2x?x8xbf16>, tensor<?x2x?x8xbf16>, tensor<?x2x?x8xbf16>
}

// A soft cap and a bias that is read inside its tensor, with the derivative given; keys beyond a window give nothing.
// CHECK-NEXT: check @window_and_score: dq: {{.*}} PASS
// CHECK-NEXT: check @window_and_score: dk: {{.*}} PASS
// CHECK-NEXT: check @window_and_score: dv: {{.*}} PASS
func.func @window_and_score(%q: tensor<?x2x?x16xf16>, %k: tensor<?x2x?x16xf16>, %v: tensor<?x2x?x16xf16>,
                            %o: tensor<?x2x?x16xf16>, %lse: tensor<?x2x?xf32>, %do: tensor<?x2x?x16xf16>,
                            %bias: tensor<?x?xf32>)
    -> (tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>) {
  %c3 = arith.constant 3 : index
  %c9 = arith.constant 9 : index
  %one = arith.constant 1.0 : f32
  %dq, %dk, %dv = flash.attention_backward
      ins(%q, %k, %v, %o, %lse, %do : tensor<?x2x?x16xf16>, tensor<?x2x?x16xf16>, tensor<?x2x?x16xf16>,
          tensor<?x2x?x16xf16>, tensor<?x2x?xf32>, tensor<?x2x?x16xf16>)
      {scale = 0.25 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %t = math.tanh %s : f32
        %x = tensor.extract %bias[%i, %j] : tensor<?x?xf32>
        %y = arith.addf %t, %x : f32
        flash.yield %y : f32
      }
      mask (%b: index, %h: index, %i: index, %j: index) {
        %left = arith.subi %i, %c9 : index
        %right = arith.addi %i, %c3 : index
        %from = arith.cmpi sge, %j, %left : index
        %to = arith.cmpi sle, %j, %right : index
        %keep = arith.andi %from, %to : i1
        flash.yield %keep : i1
      }
      derivative (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %t = math.tanh %s : f32
        %square = arith.mulf %t, %t : f32
        %d = arith.subf %one, %square : f32
        flash.yield %d : f32
      } -> tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>
  return %dq, %dk, %dv : tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>
}

// CHECK-NEXT: check @dynamic_heads: dq: {{.*}} PASS
// CHECK-NEXT: check @dynamic_heads: dk: {{.*}} PASS
// CHECK-NEXT: check @dynamic_heads: dv: {{.*}} PASS
func.func @dynamic_heads(%q: tensor<?x?x?x8xf32>, %k: tensor<?x?x?x8xf32>, %v: tensor<?x?x?x8xf32>,
                         %o: tensor<?x?x?x8xf32>, %lse: tensor<?x?x?xf32>, %do: tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>) {
  %dq, %dk, %dv = flash.attention_backward
      ins(%q, %k, %v, %o, %lse, %do : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>,
          tensor<?x?x?x8xf32>, tensor<?x?x?xf32>, tensor<?x?x?x8xf32>)
      {scale = 0.35 : f32, group_size = 3} -> tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>
  return %dq, %dk, %dv : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>
}

// CHECK-NEXT: check @on_memrefs: dq: {{.*}} PASS
// CHECK-NEXT: check @on_memrefs: dk: {{.*}} PASS
// CHECK-NEXT: check @on_memrefs: dv: {{.*}} PASS
func.func @on_memrefs(%q: memref<?x2x?x8xbf16, strided<[?, ?, ?, 1]>>, %k: memref<?x1x?x8xbf16>,
                      %v: memref<?x1x?x8xbf16>, %o: memref<?x2x?x8xbf16>, %lse: memref<?x2x?xf32>,
                      %do: memref<?x2x?x8xbf16>, %dlse: memref<?x2x?xf32>, %dq: memref<?x2x?x8xbf16>,
                      %dk: memref<?x1x?x8xf32>, %dv: memref<?x1x?x8xbf16>) {
  flash.attention_backward
      ins(%q, %k, %v, %o, %lse, %do, %dlse : memref<?x2x?x8xbf16, strided<[?, ?, ?, 1]>>, memref<?x1x?x8xbf16>,
          memref<?x1x?x8xbf16>, memref<?x2x?x8xbf16>, memref<?x2x?xf32>, memref<?x2x?x8xbf16>, memref<?x2x?xf32>)
      outs(%dq, %dk, %dv : memref<?x2x?x8xbf16>, memref<?x1x?x8xf32>, memref<?x1x?x8xbf16>) {scale = 0.35 : f32}
  return
}

// Documents and packed sequences, causal: bounds by searches, which the mask of a nest by keys keeps.
// CHECK-NEXT: check @documents: dq: {{.*}} PASS
// CHECK-NEXT: check @documents: dk: {{.*}} PASS
// CHECK-NEXT: check @documents: dv: {{.*}} PASS
func.func @documents(%q: tensor<?x2x?x8xf32>, %k: tensor<?x2x?x8xf32>, %v: tensor<?x2x?x8xf32>,
                     %o: tensor<?x2x?x8xf32>, %lse: tensor<?x2x?xf32>, %do: tensor<?x2x?x8xf32>,
                     %ids: tensor<?x?xi8>) -> (tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>) {
  %sorted = flash.assume_sorted %ids : tensor<?x?xi8>
  %dq, %dk, %dv = flash.attention_backward
      ins(%q, %k, %v, %o, %lse, %do : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>,
          tensor<?x2x?x8xf32>, tensor<?x2x?xf32>, tensor<?x2x?x8xf32>)
      {scale = 0.35 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %sorted[%b, %i] : tensor<?x?xi8>
        %y = tensor.extract %sorted[%b, %j] : tensor<?x?xi8>
        %same = arith.cmpi eq, %x, %y : i8
        %earlier = arith.cmpi sle, %j, %i : index
        %keep = arith.andi %same, %earlier : i1
        flash.yield %keep : i1
      } -> tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>
  return %dq, %dk, %dv : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>
}

// CHECK-NEXT: check @packed: dq: {{.*}} PASS
// CHECK-NEXT: check @packed: dk: {{.*}} PASS
// CHECK-NEXT: check @packed: dv: {{.*}} PASS
func.func @packed(%q: tensor<?x2x?x8xf32>, %k: tensor<?x2x?x8xf32>, %v: tensor<?x2x?x8xf32>,
                  %o: tensor<?x2x?x8xf32>, %lse: tensor<?x2x?xf32>, %do: tensor<?x2x?x8xf32>,
                  %offsets_q: tensor<5xi32>, %offsets_k: tensor<5xi32>)
    -> (tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>) {
  %cu_q = flash.assume_sorted %offsets_q : tensor<5xi32>
  %cu_k = flash.assume_sorted %offsets_k : tensor<5xi32>
  %dq, %dk, %dv = flash.attention_backward
      ins(%q, %k, %v, %o, %lse, %do : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>,
          tensor<?x2x?x8xf32>, tensor<?x2x?xf32>, tensor<?x2x?x8xf32>)
      {scale = 0.35 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %n = flash.count_le %i in %cu_q : index, tensor<5xi32>
        %m = flash.count_le %j in %cu_k : index, tensor<5xi32>
        %same = arith.cmpi eq, %n, %m : index
        %end_q32 = tensor.extract %cu_q[%n] : tensor<5xi32>
        %end_q = arith.index_cast %end_q32 : i32 to index
        %end_k32 = tensor.extract %cu_k[%n] : tensor<5xi32>
        %end_k = arith.index_cast %end_k32 : i32 to index
        %shift = arith.subi %end_k, %end_q : index
        %last = arith.addi %i, %shift : index
        %seen = arith.cmpi sle, %j, %last : index
        %keep = arith.andi %same, %seen : i1
        flash.yield %keep : i1
      } -> tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>
  return %dq, %dk, %dv : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>
}
