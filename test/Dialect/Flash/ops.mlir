// Round trip: what is printed is read back as the same thing, in the custom and in the generic form.
// RUN: flashc-opt %s | flashc-opt | FileCheck %s
// RUN: flashc-opt %s --mlir-print-op-generic | flashc-opt | FileCheck %s

// The examples of FlashOps.td.

// CHECK-LABEL: func @attention_example(
// CHECK:         %[[O:.*]]:2 = flash.attention ins(%{{[^:]*}} : tensor<2x8x128x64xbf16>, tensor<2x2x?x64xbf16>, tensor<2x2x?x64xbf16>)
// CHECK-SAME:        {scale = 1.250000e-01 : f32}
// CHECK-SAME:        score (%[[S:[^:]*]]: f32, %{{[^:]*}}: index, %{{[^:]*}}: index, %{{[^:]*}}: index, %{{[^:]*}}: index) {
// CHECK-NEXT:          %[[T:.*]] = arith.addf %[[S]], %{{.*}} : f32
// CHECK-NEXT:          flash.yield %[[T]] : f32
// CHECK-NEXT:        } mask (%{{[^:]*}}: index, %{{[^:]*}}: index, %[[I:[^:]*]]: index, %[[J:[^:]*]]: index) {
// CHECK-NEXT:          %[[KEEP:.*]] = arith.cmpi sle, %[[J]], %[[I]] : index
// CHECK-NEXT:          flash.yield %[[KEEP]] : i1
// CHECK-NEXT:        } -> tensor<2x8x128x64xbf16>, tensor<2x8x128xf32>
// CHECK:         return %[[O]]#0, %[[O]]#1
func.func @attention_example(%q: tensor<2x8x128x64xbf16>, %k: tensor<2x2x?x64xbf16>, %v: tensor<2x2x?x64xbf16>,
                             %bias: f32) -> (tensor<2x8x128x64xbf16>, tensor<2x8x128xf32>) {
  %o, %lse = flash.attention
      ins(%q, %k, %v : tensor<2x8x128x64xbf16>, tensor<2x2x?x64xbf16>, tensor<2x2x?x64xbf16>)
      {scale = 1.250000e-01 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %t = arith.addf %s, %bias : f32
        flash.yield %t : f32
      }
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      } -> tensor<2x8x128x64xbf16>, tensor<2x8x128xf32>
  return %o, %lse : tensor<2x8x128x64xbf16>, tensor<2x8x128xf32>
}

// CHECK-LABEL: func @online_attention_example(
// CHECK:         flash.online_attention ins(%{{[^:]*}} : tensor<1x1x64x64xbf16>, tensor<1x1x32x64xbf16>, tensor<1x1x32x64xbf16>)
// CHECK-SAME:        outs(%{{[^:]*}} : tensor<1x1x64x64xf32>, tensor<1x1x64xf32>, tensor<1x1x64xf32>)
// CHECK-SAME:        at(%[[B0:[^,]*]], %[[H0:[^,]*]], %[[I0:[^,]*]], %[[J0:[^)]*]])
// CHECK-SAME:        {normalize = #flash.normalize<deferred>, scale = 1.250000e-01 : f32}
// CHECK-SAME:        -> tensor<1x1x64x64xf32>, tensor<1x1x64xf32>, tensor<1x1x64xf32>
func.func @online_attention_example(
    %q: tensor<1x1x64x64xbf16>, %k: tensor<1x1x32x64xbf16>, %v: tensor<1x1x32x64xbf16>, %acc: tensor<1x1x64x64xf32>,
    %m: tensor<1x1x64xf32>, %l: tensor<1x1x64xf32>, %b0: index, %h0: index, %i0: index, %j0: index)
    -> (tensor<1x1x64x64xf32>, tensor<1x1x64xf32>, tensor<1x1x64xf32>) {
  %acc1, %m1, %l1 = flash.online_attention
      ins(%q, %k, %v : tensor<1x1x64x64xbf16>, tensor<1x1x32x64xbf16>, tensor<1x1x32x64xbf16>)
      outs(%acc, %m, %l : tensor<1x1x64x64xf32>, tensor<1x1x64xf32>, tensor<1x1x64xf32>)
      at(%b0, %h0, %i0, %j0) {normalize = #flash.normalize<deferred>, scale = 1.250000e-01 : f32}
      -> tensor<1x1x64x64xf32>, tensor<1x1x64xf32>, tensor<1x1x64xf32>
  return %acc1, %m1, %l1 : tensor<1x1x64x64xf32>, tensor<1x1x64xf32>, tensor<1x1x64xf32>
}

// CHECK-LABEL: func @finalize_example(
// CHECK:         flash.finalize ins(%{{[^:]*}} : tensor<1x1x64x64xf32>, tensor<1x1x64xf32>, tensor<1x1x64xf32>)
// CHECK-SAME:        outs(%{{[^:]*}} : tensor<1x1x64x64xbf16>, tensor<1x1x64xf32>)
// CHECK-SAME:        {normalize = #flash.normalize<deferred>} -> tensor<1x1x64x64xbf16>, tensor<1x1x64xf32>
func.func @finalize_example(%acc: tensor<1x1x64x64xf32>, %m: tensor<1x1x64xf32>, %l: tensor<1x1x64xf32>,
                            %o: tensor<1x1x64x64xbf16>, %lse: tensor<1x1x64xf32>) -> tensor<1x1x64x64xbf16> {
  %o1, %lse1 = flash.finalize ins(%acc, %m, %l : tensor<1x1x64x64xf32>, tensor<1x1x64xf32>, tensor<1x1x64xf32>)
      outs(%o, %lse : tensor<1x1x64x64xbf16>, tensor<1x1x64xf32>) {normalize = #flash.normalize<deferred>}
      -> tensor<1x1x64x64xbf16>, tensor<1x1x64xf32>
  return %o1 : tensor<1x1x64x64xbf16>
}

// Both regions are optional, o may be f32, D and Dv differ, f32 takes any D.

// CHECK-LABEL: func @no_regions(
// CHECK:         flash.attention ins(%{{.*}}) {scale = 1.000000e+00 : f32} -> tensor<1x2x8x16xf32>, tensor<1x2x8xf32>
func.func @no_regions(%q: tensor<1x2x8x8xf16>, %k: tensor<1x1x8x8xf16>, %v: tensor<1x1x8x16xf16>)
    -> tensor<1x2x8x16xf32> {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<1x2x8x8xf16>, tensor<1x1x8x8xf16>, tensor<1x1x8x16xf16>)
      {scale = 1.0 : f32} -> tensor<1x2x8x16xf32>, tensor<1x2x8xf32>
  return %o : tensor<1x2x8x16xf32>
}

// CHECK-LABEL: func @odd_head_dim_f32(
// CHECK:         flash.attention {{.*}} -> tensor<1x2x8x3xf32>, tensor<1x2x8xf32>
func.func @odd_head_dim_f32(%q: tensor<1x2x8x3xf32>) -> tensor<1x2x8x3xf32> {
  %o, %lse = flash.attention ins(%q, %q, %q : tensor<1x2x8x3xf32>, tensor<1x2x8x3xf32>, tensor<1x2x8x3xf32>)
      {scale = 1.0 : f32} -> tensor<1x2x8x3xf32>, tensor<1x2x8xf32>
  return %o : tensor<1x2x8x3xf32>
}

// Memrefs may have any strides as long as D is contiguous: here [B, N, H, D] in memory.

!bnhd = memref<?x8x?x64xbf16, strided<[?, 64, 512, 1], offset: ?>>

// CHECK-LABEL: func @strided_memrefs(
// CHECK:         flash.attention ins(%{{[^:]*}} : memref<?x8x?x64xbf16, strided<[?, 64, 512, 1], offset: ?>>,
// CHECK-SAME:        outs(%{{[^:]*}} : memref<?x8x?x64xbf16, strided<[?, 64, 512, 1], offset: ?>>, memref<?x8x?xf32>)
// CHECK-SAME:        {scale = 1.250000e-01 : f32}{{$}}
func.func @strided_memrefs(%q: !bnhd, %k: !bnhd, %v: !bnhd, %o: !bnhd, %lse: memref<?x8x?xf32>) {
  flash.attention ins(%q, %k, %v : !bnhd, !bnhd, !bnhd) outs(%o, %lse : !bnhd, memref<?x8x?xf32>)
      {scale = 1.250000e-01 : f32}
  return
}

// Regions may read tensors and memrefs of outside, and hold control flow.

!f32 = tensor<2x2x8x8xf32>

// CHECK-LABEL: func @captured_values(
// CHECK-SAME:      %[[BIAS:[^:]*]]: tensor<8x8xf32>, %[[LENGTHS:[^:]*]]: memref<2xindex>)
// CHECK:           tensor.extract %[[BIAS]]
// CHECK:           memref.load %[[LENGTHS]]
// CHECK:           scf.if
func.func @captured_values(%q: !f32, %bias: tensor<8x8xf32>, %lengths: memref<2xindex>) -> !f32 {
  %true = arith.constant true
  %o, %lse = flash.attention ins(%q, %q, %q : !f32, !f32, !f32) {scale = 1.0 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %e = tensor.extract %bias[%i, %j] : tensor<8x8xf32>
        %t = arith.addf %s, %e : f32
        flash.yield %t : f32
      }
      mask (%b: index, %h: index, %i: index, %j: index) {
        %n = memref.load %lengths[%b] : memref<2xindex>
        %inside = arith.cmpi slt, %j, %n : index
        %keep = scf.if %inside -> i1 {
          scf.yield %true : i1
        } else {
          %first = arith.cmpi eq, %j, %h : index
          scf.yield %first : i1
        }
        flash.yield %keep : i1
      } -> !f32, tensor<2x2x8xf32>
  return %o : !f32
}

// CHECK-LABEL: func @column_sums_example(
// CHECK:         %[[C:.*]] = flash.column_sums ins(%{{[^:]*}} : tensor<2x8x128x64xbf16>, tensor<2x2x?x64xbf16>, tensor<2x8x128xf32>)
// CHECK-SAME:        {scale = 1.250000e-01 : f32, sum_groups}
// CHECK-SAME:        mask (%{{[^:]*}}: index, %{{[^:]*}}: index, %[[I:[^:]*]]: index, %[[J:[^:]*]]: index) {
// CHECK-NEXT:          %[[KEEP:.*]] = arith.cmpi sle, %[[J]], %[[I]] : index
// CHECK-NEXT:          flash.yield %[[KEEP]] : i1
// CHECK-NEXT:        } -> tensor<2x2x?xf32>
// CHECK:         return %[[C]]
func.func @column_sums_example(%q: tensor<2x8x128x64xbf16>, %k: tensor<2x2x?x64xbf16>, %lse: tensor<2x8x128xf32>)
    -> tensor<2x2x?xf32> {
  %c = flash.column_sums
      ins(%q, %k, %lse : tensor<2x8x128x64xbf16>, tensor<2x2x?x64xbf16>, tensor<2x8x128xf32>)
      {scale = 1.250000e-01 : f32, sum_groups}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      } -> tensor<2x2x?xf32>
  return %c : tensor<2x2x?xf32>
}

// CHECK-LABEL: func @column_sums_on_memrefs(
// CHECK:         flash.column_sums ins(%{{[^:]*}} : memref<1x4x?x16xf16>, memref<1x2x?x16xf16>, memref<1x4x?xf32>)
// CHECK-SAME:        outs(%{{[^:]*}} : memref<1x4x?xf32>) {scale = 1.250000e-01 : f32}
// CHECK-NEXT:    return
func.func @column_sums_on_memrefs(%q: memref<1x4x?x16xf16>, %k: memref<1x2x?x16xf16>, %lse: memref<1x4x?xf32>,
                                  %c: memref<1x4x?xf32>) {
  flash.column_sums ins(%q, %k, %lse : memref<1x4x?x16xf16>, memref<1x2x?x16xf16>, memref<1x4x?xf32>)
    outs(%c : memref<1x4x?xf32>) {scale = 1.250000e-01 : f32}
  return
}

// CHECK-LABEL: func @accumulate_column_sums_example(
// CHECK:         flash.accumulate_column_sums ins(%{{[^:]*}} : tensor<1x1x64x64xbf16>, tensor<1x1x32x64xbf16>, tensor<1x1x64xf32>)
// CHECK-SAME:        outs(%{{[^:]*}} : tensor<1x1x32xf32>)
// CHECK-SAME:        at(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^)]*}}) {scale = 1.250000e-01 : f32} -> tensor<1x1x32xf32>
func.func @accumulate_column_sums_example(
    %q: tensor<1x1x64x64xbf16>, %k: tensor<1x1x32x64xbf16>, %lse: tensor<1x1x64xf32>, %c: tensor<1x1x32xf32>,
    %b0: index, %h0: index, %i0: index, %j0: index) -> tensor<1x1x32xf32> {
  %c1 = flash.accumulate_column_sums
      ins(%q, %k, %lse : tensor<1x1x64x64xbf16>, tensor<1x1x32x64xbf16>, tensor<1x1x64xf32>)
      outs(%c : tensor<1x1x32xf32>) at(%b0, %h0, %i0, %j0) {scale = 1.250000e-01 : f32} -> tensor<1x1x32xf32>
  return %c1 : tensor<1x1x32xf32>
}
