// Loops over runs of a table that are not those of flash-bound-loops, tables whose size no launcher can compute, and arrays that
// are computed.
// DEFINE: %{l1} = --flash-online-softmax --flash-tile="q-tile=64 kv-tile=32" --canonicalize --cse --flash-swap-loops --flash-bound-loops --flash-parallelize --canonicalize --cse
// DEFINE: %{convert} = --convert-flash-to-tile=schedule=consumers=1,kv-tile=32
// RUN: split-file %s %t
// RUN: flashc-opt %t/documents.mlir %{l1} -o %t/l1.mlir && flashc-opt %t/l1.mlir %{convert} -o /dev/null
// RUN: sed 's/, %c3\] : tensor<?x?x?x5x4xi32>/, %c2] : tensor<?x?x?x5x4xi32>/' %t/l1.mlir | not flashc-opt - %{convert} 2>&1 | FileCheck %s --check-prefix=RUNS
// RUNS: error: expected loops over all runs of one flash.tile_runs (flash-bound-loops)
// A table's runs are those of all keys: they are not cut into parts.
// RUN: not flashc-opt %t/l1.mlir --flash-split-key-loops 2>&1 | FileCheck %s --check-prefix=PARTS
// PARTS: error: cannot split keys: the bounds are runs of a table, which are those of all keys
// RUN: flashc-opt %t/computed.mlir %{l1} | not flashc-opt - %{convert} 2>&1 | FileCheck %s --check-prefix=COMPUTED
// COMPUTED: error: expected a captured array to be a function argument
// RUN: flashc-opt %t/rows.mlir %{l1} | not flashc-opt - %{convert} 2>&1 | FileCheck %s --check-prefix=ROWS
// ROWS: error: 'flash.row_table' op expected extents that are constants or those of arguments

//--- documents.mlir
!q = tensor<1x1x256x64xbf16>
func.func @documents(%q: !q, %ids: tensor<256xi32>) -> !q {
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %ids[%i] : tensor<256xi32>
        %y = tensor.extract %ids[%j] : tensor<256xi32>
        %keep = arith.cmpi eq, %x, %y : i32
        flash.yield %keep : i1
      } -> !q, tensor<1x1x256xf32>
  return %o : !q
}

//--- computed.mlir
!q = tensor<1x1x256x64xbf16>
func.func @documents(%q: !q, %given: tensor<?xi32>) -> !q {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i32
  %ids = tensor.insert %zero into %given[%c0] : tensor<?xi32>
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %ids[%i] : tensor<?xi32>
        %y = tensor.extract %ids[%j] : tensor<?xi32>
        %keep = arith.cmpi eq, %x, %y : i32
        flash.yield %keep : i1
      } -> !q, tensor<1x1x256xf32>
  return %o : !q
}

//--- rows.mlir
!q = tensor<1x1x256x64xbf16>
func.func @rows(%q: !q, %ids: tensor<?xi32>) -> !q {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %more = arith.addi %n, %c1 : index
  %rows = flash.row_table(%c1, %c1, %more) {
  ^bb0(%b: index, %h: index, %i: index):
    %x = arith.index_cast %i : index to i32
    flash.yield %x : i32
  } : tensor<1x1x?xi32>
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %rows[%c0, %c0, %i] : tensor<1x1x?xi32>
        %end = arith.index_cast %x : i32 to index
        %keep = arith.cmpi sle, %j, %end : index
        flash.yield %keep : i1
      } -> !q, tensor<1x1x256xf32>
  return %o : !q
}
