// An extent past the rank: MLIR's verifier lets it be, and what it means is undefined.
// RUN: split-file %s %t
// RUN: not flashc %t/tensor.mlir 2>&1 | FileCheck %s --check-prefix=TENSOR
// TENSOR: tensor.mlir:3:8: error: 'tensor.dim' op expected a dimension below 4, got 4
// TENSOR-NOT: error:
// RUN: not flashc --run=cpu %t/memref.mlir 2>&1 | FileCheck %s --check-prefix=MEMREF
// MEMREF: memref.mlir:4:8: error: 'memref.dim' op expected a dimension below 1, got -1
// A number that follows from others is met where the extent is used.
// RUN: not flashc %t/computed.mlir 2>&1 | FileCheck %s --check-prefix=COMPUTED
// COMPUTED: computed.mlir:5:{{[0-9]+}}: error: expected a constant dimension below 4, got 4
// RUN: not flashc --explain %t/computed.mlir 2>&1 | FileCheck %s --check-prefix=EXPLAIN
// EXPLAIN: error:
// A pass by itself does not look.
// RUN: flashc-opt --flash-fuse --flash-tabulate-rows --flash-online-softmax --flash-tile --flash-bound-loops \
// RUN:   --canonicalize --flash-decompose --canonicalize %t/tensor.mlir | FileCheck %s --check-prefix=PASSES
// PASSES: tensor.dim %{{.*}}, %c4

//--- tensor.mlir
func.func @f(%q: tensor<?x8x?x128xbf16>, %k: tensor<?x2x?x128xbf16>, %v: tensor<?x2x?x128xbf16>) -> tensor<?x8x?x128xbf16> {
  %c4 = arith.constant 4 : index
  %n = tensor.dim %q, %c4 : tensor<?x8x?x128xbf16>
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<?x8x?x128xbf16>, tensor<?x2x?x128xbf16>, tensor<?x2x?x128xbf16>) {scale = 0.1 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %n : index
        flash.yield %keep : i1
      } -> tensor<?x8x?x128xbf16>, tensor<?x8x?xf32>
  return %o : tensor<?x8x?x128xbf16>
}

//--- memref.mlir
func.func @f(%x: memref<?xf32>) -> index {
  %c-1 = arith.constant -1 : index
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c-1 : memref<?xf32>
  return %n : index
}

//--- computed.mlir
func.func @f(%q: tensor<?x8x?x128xbf16>, %k: tensor<?x2x?x128xbf16>, %v: tensor<?x2x?x128xbf16>) -> tensor<?x8x?x128xbf16> {
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.muli %c2, %c2 : index
  %n = tensor.dim %q, %c4 : tensor<?x8x?x128xbf16>
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<?x8x?x128xbf16>, tensor<?x2x?x128xbf16>, tensor<?x2x?x128xbf16>) {scale = 0.1 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %n : index
        flash.yield %keep : i1
      } -> tensor<?x8x?x128xbf16>, tensor<?x8x?xf32>
  return %o : tensor<?x8x?x128xbf16>
}
