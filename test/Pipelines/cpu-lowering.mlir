// Code in loops takes no stack: what is taken there is given back at the function's end, and there is only so much.
// RUN: flashc-opt --flash-fa2 --flash-lower-to-cpu %s | FileCheck %s --implicit-check-not=llvm.alloca

// CHECK: llvm.func @attention
func.func @attention(%q: tensor<?x?x?x16xf16>, %k: tensor<?x?x?x16xf16>, %v: tensor<?x?x?x16xf16>,
                     %table: tensor<?x?x?x1xi64>) -> (tensor<?x?x?x16xf16>, tensor<?x?x?xf32>) {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<?x?x?x16xf16>, tensor<?x?x?x16xf16>, tensor<?x?x?x16xf16>)
      {group_size = 1, scale = 0.25 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %c0 = arith.constant 0 : index
        %element = tensor.extract %table[%i, %j, %c0, %c0] : tensor<?x?x?x1xi64>
        %number = arith.index_cast %element : i64 to index
        %keep = arith.cmpi sgt, %number, %c0 : index
        flash.yield %keep : i1
      } -> tensor<?x?x?x16xf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x16xf16>, tensor<?x?x?xf32>
}
