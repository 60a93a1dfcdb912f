// What is known about the shapes decides too: few queries get tiles of 128 instead of 192. Where their number
// is not known, there is an entry for either.
// DEFINE: %{queries} =
// DEFINE: %{compile} = sed -e s/NQ/%{queries}/g %s | flashc - --emit=tile | FileCheck %s --check-prefix
// REDEFINE: %{queries} = 4096
// RUN: %{compile}=SHORT
// REDEFINE: %{queries} = 4097
// RUN: %{compile}=LONG
// REDEFINE: %{queries} = ?
// RUN: %{compile}=BOTH
// SHORT: gpu.func @attention(
// SHORT: consumers = 2
// SHORT-NOT: gpu.func
// LONG: gpu.func @attention(
// LONG: consumers = 3
// LONG-NOT: gpu.func
// BOTH: gpu.func @attention(
// BOTH: consumers = 3
// BOTH: gpu.func @attention_q4096(
// BOTH: consumers = 2
// BOTH-NOT: gpu.func

func.func @attention(%q: tensor<2x2xNQx128xf16>, %k: tensor<2x2x?x128xf16>) -> (tensor<2x2xNQx128xf16>, tensor<2x2xNQxf32>) {
  %o, %lse = flash.attention ins(%q, %k, %k : tensor<2x2xNQx128xf16>, tensor<2x2x?x128xf16>, tensor<2x2x?x128xf16>)
      {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      } -> tensor<2x2xNQx128xf16>, tensor<2x2xNQxf32>
  return %o, %lse : tensor<2x2xNQx128xf16>, tensor<2x2xNQxf32>
}
