// Rows that no query may see, as data says, become 0 before a product adds them up; where positions alone bound the keys
// nothing does.
// RUN: flashc %s --emit=tile -o - --function=key_padding | FileCheck %s --check-prefix=PADDING
// RUN: flashc %s --emit=tile -o - --function=left_padding | FileCheck %s --check-prefix=LEFT
// RUN: flashc %s --emit=tile -o - --function=causal | FileCheck %s --check-prefix=NONE
// RUN: flashc %s --emit=tile -o - --function=shifted | FileCheck %s --check-prefix=NONE
// RUN: flashc %s --emit=tile -o - --function=window | FileCheck %s --check-prefix=NONE
// RUN: flashc %s --emit=tile -o - --function=gradients | FileCheck %s --check-prefix=GRADIENTS
// NONE-NOT: tile.clear_rows

!t = tensor<2x2x?x64xbf16>

// Rows of V from the length on. K needs none: scores of such keys are not used.
// PADDING:      gpu.func @key_padding(
// PADDING:        } consumer {
// PADDING:          tile.mma_async %{{.*}}, %[[K:[0-9]+]] transpose_b
// PADDING-NOT:      tile.clear_rows %[[K]]
// PADDING:          tile.clear_rows %[[V:[0-9]+]] from %{{[0-9]+}} : <128, 64, bf16>
// PADDING:          tile.mma_async %{{.*}}, %[[V]] ones
func.func @key_padding(%q: !t, %k: !t, %v: !t, %lengths: tensor<2xi32>) -> !t {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %n32 = tensor.extract %lengths[%b] : tensor<2xi32>
      %n = arith.index_cast %n32 : i32 to index
      %keep = arith.cmpi slt, %j, %n : index
      flash.yield %keep : i1
    } -> !t, tensor<2x2x?xf32>
  return %o : !t
}

// LEFT:         gpu.func @left_padding(
// LEFT:           tile.clear_rows %{{.*}} before %{{[0-9]+}} :
func.func @left_padding(%q: !t, %k: !t, %v: !t, %lengths: tensor<2xi32>) -> !t {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %n32 = tensor.extract %lengths[%b] : tensor<2xi32>
      %n = arith.index_cast %n32 : i32 to index
      %begin = arith.cmpi sge, %j, %n : index
      %before = arith.cmpi sle, %j, %i : index
      %keep = arith.andi %begin, %before : i1
      flash.yield %keep : i1
    } -> !t, tensor<2x2x?xf32>
  return %o : !t
}

func.func @causal(%q: !t, %k: !t, %v: !t) -> !t {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi sle, %j, %i : index
      flash.yield %keep : i1
    } -> !t, tensor<2x2x?xf32>
  return %o : !t
}

// A distance from the query, whatever it is, says nothing of what exists.
func.func @shifted(%q: !t, %k: !t, %v: !t, %lengths: tensor<2xi32>) -> !t {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %n32 = tensor.extract %lengths[%b] : tensor<2xi32>
      %n = arith.index_cast %n32 : i32 to index
      %last = arith.addi %i, %n : index
      %keep = arith.cmpi sle, %j, %last : index
      flash.yield %keep : i1
    } -> !t, tensor<2x2x?xf32>
  return %o : !t
}

func.func @window(%q: !t, %k: !t, %v: !t, %left: index) -> !t {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %first = arith.subi %i, %left : index
      %begin = arith.cmpi sge, %j, %first : index
      %before = arith.cmpi sle, %j, %i : index
      %keep = arith.andi %begin, %before : i1
      flash.yield %keep : i1
    } -> !t, tensor<2x2x?xf32>
  return %o : !t
}

// dX K adds up rows of K. Where P is 0 dX is, in masked tiles, whatever dP and delta are.
// GRADIENTS:      gpu.func @gradients(
// GRADIENTS:        } consumer {
// GRADIENTS:          tile.clear_rows %{{.*}} from %{{[0-9]+}} : <64, 64, bf16>
// GRADIENTS:          %[[ZERO:[0-9]+]] = arith.cmpf oeq, %{{.*}} : tensor<64x128xf32, #tile.acc>
// GRADIENTS-NEXT:     arith.select %[[ZERO]], %{{.*}} : tensor<64x128xi1, #tile.acc>
func.func @gradients(%q: !t, %k: !t, %v: !t, %o: !t, %lse: tensor<2x2x?xf32>, %do: !t, %lengths: tensor<2xi32>) -> (!t, !t, !t) {
  %dq, %dk, %dv = flash.attention_backward ins(%q, %k, %v, %o, %lse, %do : !t, !t, !t, !t, tensor<2x2x?xf32>, !t) {scale = 0.125 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %n32 = tensor.extract %lengths[%b] : tensor<2xi32>
      %n = arith.index_cast %n32 : i32 to index
      %keep = arith.cmpi slt, %j, %n : index
      flash.yield %keep : i1
    } -> !t, !t, !t
  return %dq, %dk, %dv : !t, !t, !t
}
