// With one tile of queries in one head, no loop is left around the loop over keys. The table of a mask over data stands
// before this loop. The table's region gets a copy of the code that computes what the mask compares.
// DEFINE: %{l1} = --flash-online-softmax --flash-tile="q-tile=64 kv-tile=32" --canonicalize --cse --flash-swap-loops
// RUN: flashc-opt %s %{l1} --flash-bound-loops --canonicalize --cse | FileCheck %s

// CHECK-LABEL: func @one_tile
// CHECK-SAME:    %[[LENGTHS:[^:]*]]: tensor<1xi64>, %[[IDS:[^:]*]]: tensor<?xi32>
// CHECK:         flash.tile_runs
// CHECK:           %[[LENGTH:.*]] = tensor.extract %[[LENGTHS]][%c0]
// CHECK:           flash.yield
// CHECK:         scf.for
!q = tensor<1x1x1x8xbf16>
!k = tensor<1x1x65x8xbf16>
func.func @one_tile(%q: !q, %k: !k, %lengths: tensor<1xi64>, %ids: tensor<?xi32>) -> !q {
  %c0 = arith.constant 0 : index
  %true = arith.constant true
  %o, %lse = flash.attention ins(%q, %k, %k : !q, !k, !k) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %length = tensor.extract %lengths[%c0] : tensor<1xi64>
        %end = arith.index_cast %length : i64 to index
        %after = arith.cmpi sgt, %i, %end : index
        %id = tensor.extract %ids[%j] : tensor<?xi32>
        %first = arith.index_cast %id : i32 to index
        %seen = arith.cmpi sge, %i, %first : index
        %keep = arith.select %after, %true, %seen : i1
        flash.yield %keep : i1
      } -> !q, tensor<1x1x1xf32>
  return %o : !q
}
