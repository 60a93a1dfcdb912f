// Memrefs come in with their strides: [B, N, H, D] seen as [B, H, N, D], and slices of larger arrays. Outputs are
// poisoned, and the gaps between rows too: a read or write beside the elements would show as NaN or not at all.
// RUN: flashc %s --run=cpu --check --algorithm=standard | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --algorithm=fa1 --q-tile=16 --kv-tile=32 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --algorithm=fa2 --q-tile=32 --kv-tile=16 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --check-each-pass --function=heads_inside | FileCheck %s --check-prefix=EACH --implicit-check-not=FAIL

// EACH: after flash-to-tensors: @heads_inside: o error {{.*}}, lse error {{.*}}, PASS

// CHECK: check @heads_inside: o: {{.*}} PASS
// CHECK-NEXT: check @heads_inside: lse: {{.*}} PASS
func.func @heads_inside(%q: memref<?x4x?x8xbf16, strided<[?, 8, 32, 1]>>, %k: memref<?x2x?x8xbf16, strided<[?, 8, 16, 1]>>,
                        %v: memref<?x2x?x8xbf16, strided<[?, 8, 16, 1]>>,
                        %o: memref<?x4x?x8xbf16, strided<[?, 8, 32, 1]>>, %lse: memref<?x4x?xf32>) {
  flash.attention
      ins(%q, %k, %v : memref<?x4x?x8xbf16, strided<[?, 8, 32, 1]>>, memref<?x2x?x8xbf16, strided<[?, 8, 16, 1]>>,
          memref<?x2x?x8xbf16, strided<[?, 8, 16, 1]>>)
      outs(%o, %lse : memref<?x4x?x8xbf16, strided<[?, 8, 32, 1]>>, memref<?x4x?xf32>)
      {scale = 3.500000e-01 : f32}
  return
}

// CHECK-NEXT: check @any_strides: o: {{.*}} PASS
// CHECK-NEXT: check @any_strides: lse: {{.*}} PASS
func.func @any_strides(%q: memref<2x2x37x8xf16, strided<[?, ?, ?, 1], offset: ?>>,
                       %k: memref<2x2x?x8xf16, strided<[?, ?, ?, 1], offset: ?>>,
                       %v: memref<2x2x?x16xf16, strided<[?, ?, ?, 1], offset: ?>>,
                       %o: memref<2x2x37x16xf16, strided<[?, ?, ?, 1], offset: ?>>,
                       %lse: memref<2x2x37xf32, strided<[?, ?, 1], offset: ?>>) {
  flash.attention
      ins(%q, %k, %v : memref<2x2x37x8xf16, strided<[?, ?, ?, 1], offset: ?>>,
          memref<2x2x?x8xf16, strided<[?, ?, ?, 1], offset: ?>>, memref<2x2x?x16xf16, strided<[?, ?, ?, 1], offset: ?>>)
      outs(%o, %lse : memref<2x2x37x16xf16, strided<[?, ?, ?, 1], offset: ?>>,
           memref<2x2x37xf32, strided<[?, ?, 1], offset: ?>>)
      {scale = 3.500000e-01 : f32}
  return
}

// A captured memref, and self-attention: keys and values are one argument.
// CHECK-NEXT: check @captured: o: {{.*}} PASS
// CHECK-NEXT: check @captured: lse: {{.*}} PASS
func.func @captured(%q: memref<?x2x?x8xbf16>, %kv: memref<?x2x?x8xbf16>, %o: memref<?x2x?x8xbf16>,
                    %lse: memref<?x2x?xf32>, %bias: memref<?x?xf32>) {
  flash.attention
      ins(%q, %kv, %kv : memref<?x2x?x8xbf16>, memref<?x2x?x8xbf16>, memref<?x2x?x8xbf16>)
      outs(%o, %lse : memref<?x2x?x8xbf16>, memref<?x2x?xf32>)
      {scale = 3.500000e-01 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %add = memref.load %bias[%i, %j] : memref<?x?xf32>
        %t = arith.addf %s, %add : f32
        flash.yield %t : f32
      }
  return
}
