// Attention with dropout and its gradients, by every algorithm, after every pass, against Algorithm 0 in f64: equal seeds
// drop the same elements in all of them.
// RUN: flashc %s --run=cpu --check --algorithm=standard | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --algorithm=fa1 --q-tile=16 --kv-tile=8 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --q-tile=8 --kv-tile=16 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --dims=B=2,Nq=29,Nk=1 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --check-each-pass --q-tile=8 --kv-tile=16 | FileCheck %s --check-prefix=EACH --implicit-check-not=FAIL
// RUN: flashc %s --check-each-pass --algorithm=fa1 --q-tile=8 --kv-tile=16 \
// RUN:   | FileCheck %s --check-prefix=EACH --implicit-check-not=FAIL
// RUN: flashc %s --check-each-pass --split-gradients --q-tile=8 --kv-tile=16 \
// RUN:   | FileCheck %s --check-prefix=EACH --implicit-check-not=FAIL
// RUN: flashc %s --function=attention --run=cpu --check --dims=B=2,Nq=5,Nk=70 \
// RUN:   --passes='flash-online-softmax{normalize=each-step},flash-split-kv{kv-chunk=24},flash-tile{q-tile=8 kv-tile=8}' \
// RUN:   | FileCheck %s --check-prefix=CHUNKS --implicit-check-not=FAIL

// CHUNKS: check @attention: lse: {{.*}} PASS
// CHECK: check @attention: o: {{.*}} PASS
// CHECK-NEXT: check @attention: lse: {{.*}} PASS
// CHECK-NEXT: check @gradients: dq: {{.*}} PASS
// CHECK-NEXT: check @gradients: dk: {{.*}} PASS
// CHECK-NEXT: check @gradients: dv: {{.*}} PASS
// EACH: after flash-tile: @attention: o {{.*}} PASS
// EACH: after flash-tile: @gradients: {{.*}}dv {{.*}} PASS
func.func @attention(%q: tensor<?x4x?x8xf32>, %k: tensor<?x2x?x8xf32>, %v: tensor<?x2x?x16xf32>, %philox: tensor<2xi64>)
    -> (tensor<?x4x?x16xf32>, tensor<?x4x?xf32>) {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<?x4x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x16xf32>)
      dropout(%philox : tensor<2xi64>) {dropout_p = 0.3 : f32, scale = 0.35 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi slt, %j, %i : index
        flash.yield %keep : i1
      } -> tensor<?x4x?x16xf32>, tensor<?x4x?xf32>
  return %o, %lse : tensor<?x4x?x16xf32>, tensor<?x4x?xf32>
}

func.func @gradients(%q: tensor<?x4x?x8xf32>, %k: tensor<?x2x?x8xf32>, %v: tensor<?x2x?x16xf32>,
                     %o: tensor<?x4x?x16xf32>, %lse: tensor<?x4x?xf32>, %do: tensor<?x4x?x16xf32>,
                     %philox: tensor<2xi64>) -> (tensor<?x4x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x16xf32>) {
  %dq, %dk, %dv = flash.attention_backward
      ins(%q, %k, %v, %o, %lse, %do : tensor<?x4x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x16xf32>,
          tensor<?x4x?x16xf32>, tensor<?x4x?xf32>, tensor<?x4x?x16xf32>)
      dropout(%philox : tensor<2xi64>) {dropout_p = 0.3 : f32, scale = 0.35 : f32}
      -> tensor<?x4x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x16xf32>
  return %dq, %dk, %dv : tensor<?x4x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x16xf32>
}
