// Searches of sorted arrays in a kernel.
// DEFINE: %{l1} = --flash-to-tensors --flash-online-softmax --flash-tile="q-tile=128 kv-tile=128" --canonicalize --cse --flash-swap-loops --flash-bound-loops --flash-parallelize --canonicalize --cse
// RUN: flashc-opt %s %{l1} --convert-flash-to-tile="target=sm_90a schedule=kv-tile=128,persistent=false" --canonicalize --cse | FileCheck %s
// RUN: flashc %s --emit=ptx -o - | FileCheck %s --check-prefix=PTX

!t = tensor<2x2x?x128xbf16>
!lse = tensor<2x2x?xf32>

// What depends on the batch alone is searched ahead of the loop over keys; an index has 64 bits in memory. What depends
// on the key is a loop in the map, over the bits of the extent, and becomes one in PTX.
// CHECK-LABEL: gpu.func @searches(
// CHECK-SAME:      %[[LENGTHS:[^:]*]]: memref<40xi64
// CHECK-NOT:     flash.
// CHECK-COUNT-6: memref.load %[[LENGTHS]]
// The bounds that hang on it are the same in every thread, and ptxas is told so.
// CHECK:         tile.uniform
// CHECK:         scf.for
// CHECK:           tile.map
// CHECK:             scf.for
// CHECK:               memref.load
// CHECK:               scf.yield
// CHECK:             tile.yield
// CHECK-NOT:     flash.
// PTX: .entry searches(
func.func @searches(%q: !t, %k: !t, %v: !t, %lengths: tensor<40xindex>, %ids: tensor<2x?xi16>) -> (!t, !lse) {
  %c2 = arith.constant 2 : index
  %sorted = flash.assume_sorted %lengths : tensor<40xindex>
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %s = flash.assume_sorted %ids : tensor<2x?xi16>
      %first = flash.count_le %b in %sorted : index, tensor<40xindex>
      %twice = arith.muli %j, %c2 : index
      %n = flash.count_le %twice in %s[%b] : index, tensor<2x?xi16>
      %0 = arith.cmpi sge, %j, %first : index
      %1 = arith.cmpi sge, %n, %i : index
      %keep = arith.andi %0, %1 : i1
      flash.yield %keep : i1
    } -> !t, !lse
  return %o, %lse : !t, !lse
}
