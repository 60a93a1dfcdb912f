// Every element type, D != Dv, grouped query heads, lengths that no tile divides, by every algorithm.
// RUN: flashc %s --run=cpu --check --algorithm=standard | FileCheck %s
// RUN: flashc %s --run=cpu --check --algorithm=fa1 --q-tile=16 --kv-tile=32 | FileCheck %s
// RUN: flashc %s --run=cpu --check --algorithm=fa2 --q-tile=32 --kv-tile=16 | FileCheck %s

// CHECK: check @bf16: o: {{.*}} PASS
// CHECK-NEXT: check @bf16: lse: {{.*}} PASS
func.func @bf16(%q: tensor<?x4x?x16xbf16>, %k: tensor<?x2x?x16xbf16>, %v: tensor<?x2x?x8xbf16>)
    -> (tensor<?x4x?x8xbf16>, tensor<?x4x?xf32>) {
  %o, %lse = flash.attention
      ins(%q, %k, %v : tensor<?x4x?x16xbf16>, tensor<?x2x?x16xbf16>, tensor<?x2x?x8xbf16>)
      {scale = 2.500000e-01 : f32} -> tensor<?x4x?x8xbf16>, tensor<?x4x?xf32>
  return %o, %lse : tensor<?x4x?x8xbf16>, tensor<?x4x?xf32>
}

// CHECK-NEXT: check @f16: o: {{.*}} PASS
// CHECK-NEXT: check @f16: lse: {{.*}} PASS
func.func @f16(%q: tensor<2x3x37x8xf16>, %k: tensor<2x1x41x8xf16>, %v: tensor<2x1x41x24xf16>)
    -> (tensor<2x3x37x24xf16>, tensor<2x3x37xf32>) {
  %o, %lse = flash.attention
      ins(%q, %k, %v : tensor<2x3x37x8xf16>, tensor<2x1x41x8xf16>, tensor<2x1x41x24xf16>)
      {scale = 3.500000e-01 : f32} -> tensor<2x3x37x24xf16>, tensor<2x3x37xf32>
  return %o, %lse : tensor<2x3x37x24xf16>, tensor<2x3x37xf32>
}

// CHECK-NEXT: check @f32: o: {{.*}} PASS
// CHECK-NEXT: check @f32: lse: {{.*}} PASS
func.func @f32(%q: tensor<?x2x?x7xf32>, %k: tensor<?x2x?x7xf32>, %v: tensor<?x2x?x3xf32>)
    -> (tensor<?x2x?x3xf32>, tensor<?x2x?xf32>) {
  %o, %lse = flash.attention
      ins(%q, %k, %v : tensor<?x2x?x7xf32>, tensor<?x2x?x7xf32>, tensor<?x2x?x3xf32>)
      {scale = 1.000000e+00 : f32} -> tensor<?x2x?x3xf32>, tensor<?x2x?xf32>
  return %o, %lse : tensor<?x2x?x3xf32>, tensor<?x2x?xf32>
}

// 16-bit inputs may have an output in f32.
// CHECK-NEXT: check @bf16_to_f32: o: {{.*}} PASS
// CHECK-NEXT: check @bf16_to_f32: lse: {{.*}} PASS
func.func @bf16_to_f32(%q: tensor<?x2x?x8xbf16>, %k: tensor<?x2x?x8xbf16>, %v: tensor<?x2x?x8xbf16>)
    -> (tensor<?x2x?x8xf32>, tensor<?x2x?xf32>) {
  %o, %lse = flash.attention
      ins(%q, %k, %v : tensor<?x2x?x8xbf16>, tensor<?x2x?x8xbf16>, tensor<?x2x?x8xbf16>)
      {scale = 1.000000e+00 : f32} -> tensor<?x2x?x8xf32>, tensor<?x2x?xf32>
  return %o, %lse : tensor<?x2x?x8xf32>, tensor<?x2x?xf32>
}
