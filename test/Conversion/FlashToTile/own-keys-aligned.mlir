// With own-keys and masks whose diagonal ends at the last query and the last key: of more queries than keys the first
// see nothing, and what bounds say of them lies in front of the keys that others of their CTA visit. They visit one
// tile, which the mask empties.
// DEFINE: %{l1} = --flash-online-softmax --flash-tile="q-tile=256 kv-tile=64" --canonicalize --cse --flash-swap-loops --flash-bound-loops --flash-parallelize --canonicalize --cse
// RUN: %vary %s | flashc-opt --split-input-file %{l1} --convert-flash-to-tile=schedule=consumers=4,kv-tile=64,stages=4,persistent=false,own-keys=true --canonicalize --cse > %t
// RUN: %python %S/Inputs/run_own_visits.py 517x129 129x517 1x1 1009x997 1x1000 1000x1 300x64 300x65 512x128 < %t | FileCheck %s

// CHECK:      @causal visits 178 kept 145 masked 73 cut 40 all 209
// CHECK-NEXT: @window visits 92 kept 60 masked 92 cut 60 all 139
// CHECK-NEXT: @sink visits 105 kept 72 masked 105 cut 72 all 152

!t = tensor<2x2x?x64xbf16>
!lse = tensor<2x2x?xf32>
func.func @causal(%q: !t, %k: !t, %v: !t) -> !t {
  %c2 = arith.constant 2 : index
  %nq = tensor.dim %q, %c2 : !t
  %nk = tensor.dim %k, %c2 : !t
  %shift = arith.subi %nk, %nq : index
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %p = arith.addi %i, %shift : index
      %keep = arith.cmpi sle, %j, %p : index // BODY
      flash.yield %keep : i1
    } -> !t, !lse
  return %o : !t
}

// VARY window
//     %c70 = arith.constant 70 : index
//     %c3 = arith.constant 3 : index
//     %lo = arith.subi %p, %c70 : index
//     %hi = arith.addi %p, %c3 : index
//     %a = arith.cmpi sge, %j, %lo : index
//     %bb = arith.cmpi sle, %j, %hi : index
//     %keep = arith.andi %a, %bb : i1
//   @causal => @window

// VARY sink
//     %c70 = arith.constant 70 : index
//     %c4 = arith.constant 4 : index
//     %lo = arith.subi %p, %c70 : index
//     %a = arith.cmpi sge, %j, %lo : index
//     %s = arith.cmpi slt, %j, %c4 : index
//     %as = arith.ori %a, %s : i1
//     %bb = arith.cmpi sle, %j, %p : index
//     %keep = arith.andi %as, %bb : i1
//   @causal => @sink
