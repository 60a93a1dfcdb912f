// Only the loops of fa2 become kernels.
// DEFINE: %{tile} = --flash-tile="q-tile=128 kv-tile=128" --canonicalize --cse
// RUN: not flashc-opt %s --convert-flash-to-tile 2>&1 | FileCheck %s --check-prefix=L0
// RUN: not flashc-opt %s --flash-decompose --convert-flash-to-tile 2>&1 | FileCheck %s --check-prefix=STANDARD
// RUN: not flashc-opt %s --flash-online-softmax=normalize=each-step %{tile} --convert-flash-to-tile 2>&1 | FileCheck %s --check-prefix=FA1
// RUN: not flashc-opt %s --flash-online-softmax %{tile} --flash-swap-loops --convert-flash-to-tile 2>&1 | FileCheck %s --check-prefix=SEQUENTIAL

// L0: error: expected the tiled loops of the algorithm fa2, got flash.attention
// STANDARD: error: expected an attention in the tiled loops of the algorithm fa2, got none
// FA1: error: expected loops over keys (algorithm fa2), got none
// SEQUENTIAL: error: expected the batch to be a position of an scf.forall over (batch, head, query tile), which flash-parallelize makes (algorithm fa2)

!q = tensor<2x2x256x128xbf16>
!lse = tensor<2x2x256xf32>
func.func @attention(%q: !q, %k: !q, %v: !q) -> (!q, !lse) {
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 0.125 : f32} -> !q, !lse
  return %o, %lse : !q, !lse
}
