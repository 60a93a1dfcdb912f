// A tile of queries that has none visits nothing, also where its keys lie in several intervals. flash-align-queries
// leaves such masks alone, so the mask of an aligned loop is changed.
// DEFINE: %{tiles} = --flash-to-tensors --flash-online-softmax --flash-tile="q-tile=16 kv-tile=32" --canonicalize --cse --flash-swap-loops
// RUN: flashc-opt %s %{tiles} --flash-align-queries --canonicalize --cse > %t.aligned.mlir
// RUN: sed '0,/arith.andi/s//arith.ori/' %t.aligned.mlir > %t.mlir
// RUN: flashc-opt %t.mlir --flash-print-mask-bounds -o /dev/null | FileCheck %s --check-prefix=BOUNDS
// RUN: flashc-opt %t.mlir --flash-bound-loops --canonicalize --cse | FileCheck %s

// BOUNDS: kept [{{.*}}) if {{.*}} or [{{.*}})

// CHECK:       %{{.*}}, %[[ROWS:.*]], %{{.*}} = flash.segment_tile
// CHECK-DAG:   %[[LAST:.*]] = affine.apply #{{.*}}()[%[[ROWS]]]
// CHECK:       %[[HAS_QUERY:.*]] = arith.cmpi sge, %[[LAST]], %c0
// CHECK-DAG:   %[[END0:.*]] = arith.select %[[HAS_QUERY]], %[[BEGIN1:.*]], %c0
// CHECK-DAG:   %[[END1:.*]] = arith.select %[[HAS_QUERY]], %{{.*}}, %[[BEGIN1]]
// CHECK-DAG:   %[[END2:.*]] = arith.select %[[HAS_QUERY]], %[[BEGIN3:.*]], %[[BEGIN2:.*]] :
// CHECK-DAG:   %[[END3:.*]] = arith.select %[[HAS_QUERY]], %[[BEGIN4:.*]], %[[BEGIN3]]
// CHECK-DAG:   %[[END4:.*]] = arith.select %[[HAS_QUERY]], %[[BEGIN5:.*]], %[[BEGIN4]]
// CHECK-DAG:   %[[END5:.*]] = arith.select %[[HAS_QUERY]], %{{.*}}, %[[BEGIN5]]
// CHECK:       scf.for %{{.*}} = %c0 to %[[END0]]
// CHECK:       scf.for %{{.*}} = %[[BEGIN1]] to %[[END1]]
// CHECK:       scf.for %{{.*}} = %[[BEGIN2]] to %[[END2]]
// CHECK:       scf.for %{{.*}} = %[[BEGIN3]] to %[[END3]]
// CHECK:       scf.for %{{.*}} = %[[BEGIN4]] to %[[END4]]
// CHECK:       scf.for %{{.*}} = %[[BEGIN5]] to %[[END5]]
// CHECK-NOT:   scf.for
// CHECK:       flash.finalize
!t = tensor<1x1x?x8xf32>
!r = tensor<1x1x?xf32>
func.func @packed(%q: !t, %offsets: tensor<?xi32>) -> !t {
  %c1 = arith.constant 1 : index
  %o, %lse = flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %s = flash.assume_sorted %offsets : tensor<?xi32>
        %n = flash.count_le %i in %s : index, tensor<?xi32>
        %sequence = arith.subi %n, %c1 : index
        %begin = flash.nth %sequence in %s : tensor<?xi32>
        %after = arith.cmpi sge, %j, %begin : index
        %seen = arith.cmpi sle, %j, %i : index
        %keep = arith.andi %after, %seen : i1
        flash.yield %keep : i1
      } -> !t, !r
  return %o : !t
}
