// A step of another dialect that has no scores (test/lib/FoldProducts.cpp): the passes of L1 tile it, swap its loops, and
// compute the same numbers; the crossing makes a kernel of it, with a schedule of the table.
// DEFINE: %{loops} = flashc-test-opt %s --flash-tile="q-tile=192 kv-tile=128" --canonicalize --cse --flash-swap-loops --flash-bound-loops --flash-parallelize
// RUN: %{loops} | FileCheck %s --check-prefix=LOOPS
// LOOPS:     scf.forall (%{{.*}}) = (0, 0, 0) to ({{.*}}) step (1, 1, 192)
// LOOPS:       scf.for %{{.*}} step %c128
// LOOPS:         test.fold_products {{.*}} -> tensor<1x1x192x64xf32>

// RUN: flashc-test-opt %s --flash-decompose -o %t.whole.mlir
// RUN: %{loops} --flash-decompose -o %t.tiled.mlir
// DEFINE: %{run} = --run=cpu --shape=arg0=1x2x193x64,arg1=1x2x257x64,arg2=1x2x257x64 --print-results
// RUN: flashc %t.whole.mlir %{run} > %t.whole.txt
// RUN: flashc %t.tiled.mlir %{run} > %t.tiled.txt
// RUN: FileCheck %s --check-prefix=RESULT --input-file=%t.whole.txt
// RUN: cmp %t.whole.txt %t.tiled.txt
// RESULT: result0: 1x2x193x64xf32 = {{\[+}}{{-?[0-9.]+}}, {{-?[0-9.]+}},

// RUN: %{loops} --convert-flash-to-tile --canonicalize --cse | FileCheck %s --check-prefix=TILE
// TILE:      tile.program 3
// TILE:        scf.for
// TILE:          %[[K:.*]] = tile.load
// TILE:          %[[S:.*]] = tile.mma_async %{{.*}}, %[[K]] transpose_b
// TILE:          tile.to_operand_a
// TILE:          %[[V:.*]] = tile.load
// TILE:          tile.mma_async %{{.*}}, %[[V]] into
// TILE:        tile.store

// RUN: %{loops} --convert-flash-to-tile --tile-pipeline --tile-persist --tile-ping-pong --tile-specialize --tile-place-waits --tile-split-loops --tile-overlap-epilogue --convert-tile-to-nvvm | FileCheck %s --check-prefix=NVVM
// NVVM: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
// NVVM: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16

func.func @fold(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %b = tensor.dim %q, %c0 : tensor<?x?x?x64xbf16>
  %h = tensor.dim %q, %c1 : tensor<?x?x?x64xbf16>
  %n = tensor.dim %q, %c2 : tensor<?x?x?x64xbf16>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty(%b, %h, %n) : tensor<?x?x?x64xf32>
  %acc = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32>
  %o = test.fold_products %q, %k, %v, %acc, %c0, %c0, %c0, %c0
      : (tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xf32>, index, index, index,
         index) -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}
