// Numbers of heads that are known at launch only: what the attribute group_size then says, from op to op.
// RUN: flashc-opt %s | flashc-opt | FileCheck %s
// RUN: flashc-opt %s --mlir-print-op-generic | flashc-opt | FileCheck %s
// RUN: flashc-opt %s --flash-decompose --canonicalize --cse | FileCheck %s --check-prefix=LINALG
// RUN: flashc-opt %s --flash-to-tensors --flash-online-softmax --canonicalize --cse | FileCheck %s --check-prefix=ONLINE
// RUN: flashc-opt %s --flash-to-tensors --flash-online-softmax --flash-split-kv=kv-chunk=32 --canonicalize --cse | FileCheck %s --check-prefix=SPLIT
// RUN: flashc-opt %s --flash-to-tensors --flash-online-softmax --flash-tile --canonicalize --cse | FileCheck %s --check-prefix=TILE
// RUN: flashc-opt %s --flash-to-tensors --flash-online-softmax --flash-tile --canonicalize --cse --flash-swap-loops --flash-bound-loops --flash-parallelize --canonicalize --cse \
// RUN:   | FileCheck %s --check-prefix=LOOPS

// The key head of a query head is computed, whatever the shapes say.
// LINALG-DAG:    #[[KEY_HEAD:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1 floordiv 4, d3, d4)>
// LINALG-DAG:    #[[Q:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d4)>
// LINALG-DAG:    #[[S:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>
// TILE:          #[[GROUP:.*]] = affine_map<(d0) -> (d0 floordiv 4)>
// LOOPS:         #[[GROUP:.*]] = affine_map<(d0) -> (d0 floordiv 4)>

!q = tensor<?x?x?x16xbf16>
!row = tensor<?x?x?xf32>

// CHECK-LABEL: func @groups_of_four(
// CHECK:         flash.attention ins(%{{.*}} : tensor<?x?x?x16xbf16>, tensor<?x?x?x16xbf16>, tensor<?x?x?x16xbf16>) {group_size = 4 : i64, scale = 1.000000e+00 : f32}

// LINALG-LABEL: func @groups_of_four(
// LINALG-SAME:      %[[QV:[^:]*]]: {{[^,]*}}, %[[K:[^:]*]]: {{[^,]*}}, %[[V:[^:]*]]: {{[^)]*}})
// LINALG:         linalg.generic {indexing_maps = [#[[Q]], #[[KEY_HEAD]], #[[S]]]{{.*}} ins(%[[QV]], %[[K]] :
// LINALG:         linalg.generic {indexing_maps = [#[[S]], #[[KEY_HEAD]], #[[Q]]]{{.*}} ins(%{{.*}}, %[[V]] :

// ONLINE-LABEL: func @groups_of_four(
// ONLINE:         flash.online_attention {{.*}} {group_size = 4 : i64, normalize = #flash.normalize<deferred>, scale = 1.000000e+00 : f32}

// A chunk of keys has all heads.
// SPLIT-LABEL: func @groups_of_four(
// SPLIT-SAME:      %[[Q:[^:]*]]: {{[^,]*}}, %[[K:[^:]*]]: {{[^,]*}}, %[[V:[^:]*]]: {{[^)]*}})
// SPLIT:         scf.forall
// SPLIT:           %[[HK:.*]] = tensor.dim %[[K]], %c1 :
// SPLIT-DAG:       tensor.extract_slice %[[K]][0, 0, %{{.*}}, 0] [%{{.*}}, %[[HK]], %{{.*}}, 16]
// SPLIT-DAG:       tensor.extract_slice %[[V]][0, 0, %{{.*}}, 0] [%{{.*}}, %[[HK]], %{{.*}}, 16]
// SPLIT:           flash.online_attention {{.*}} {group_size = 4 : i64, normalize

// A tile has one head: its types say all, so that the attribute is gone.
// TILE-LABEL: func @groups_of_four(
// TILE-SAME:      %[[Q:[^:]*]]: {{[^,]*}}, %[[K:[^:]*]]: {{[^,]*}}, %[[V:[^:]*]]: {{[^)]*}})
// TILE:         %[[HQ:.*]] = tensor.dim %[[Q]], %c1 :
// TILE:         scf.for %[[H:[^ ]*]] = %c0 to %[[HQ]] step %c1
// TILE:           %[[HK:.*]] = affine.apply #[[GROUP]](%[[H]])
// TILE-DAG:       tensor.extract_slice %[[Q]][%{{.*}}, %[[H]], %{{.*}}, 0] [1, 1, %{{.*}}, 16]
// TILE-DAG:       tensor.extract_slice %[[K]][%{{.*}}, %[[HK]], %{{.*}}, 0] [1, 1, %{{.*}}, 16]
// TILE-DAG:       tensor.extract_slice %[[V]][%{{.*}}, %[[HK]], %{{.*}}, 0] [1, 1, %{{.*}}, 16]
// TILE:           flash.online_attention {{.*}} : tensor<1x1x64x16xbf16>, tensor<1x1x64x16xbf16>, {{.*}} {normalize

// LOOPS-LABEL: func @groups_of_four(
// LOOPS-SAME:      %[[Q:[^:]*]]: {{[^,]*}}, %[[K:[^:]*]]: {{[^,]*}}, %[[V:[^:]*]]: {{[^)]*}})
// LOOPS:         %[[HQ:.*]] = tensor.dim %[[Q]], %c1 :
// LOOPS:         scf.forall (%{{.*}}, %[[H:.*]], %{{.*}}) = (0, 0, 0) to (%{{.*}}, %[[HQ]], %{{.*}}) step (1, 1, 64)
// LOOPS:           %[[HK:.*]] = affine.apply #[[GROUP]](%[[H]])
// LOOPS:           scf.for
// LOOPS:             tensor.extract_slice %[[K]][%{{.*}}, %[[HK]],
func.func @groups_of_four(%q: !q, %k: !q, %v: !q) -> (!q, !row) {
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {group_size = 4, scale = 1.0 : f32} -> !q, !row
  return %o, %lse : !q, !row
}

// One query head to a key head: nothing is computed.
// CHECK-LABEL: func @groups_of_one(
// CHECK:         group_size = 1 : i64
// LOOPS-LABEL: func @groups_of_one(
// LOOPS:         scf.forall (%{{.*}}, %[[H:.*]], %{{.*}}) =
// LOOPS-NOT:       floordiv
// LOOPS:           scf.for
// LOOPS:             tensor.extract_slice %{{.*}}[%{{.*}}, %[[H]],
func.func @groups_of_one(%q: !q, %k: !q, %v: !q) -> (!q, !row) {
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {group_size = 1, scale = 1.0 : f32} -> !q, !row
  return %o, %lse : !q, !row
}

// One of the two is known; static ones may say the group too. Memrefs become tensors with it.
// CHECK-LABEL: func @mixed(
// CHECK-COUNT-3: group_size = 4 : i64
// SPLIT-LABEL: func @mixed(
// SPLIT:         flash.online_attention {{.*}} : tensor<?x8x?x16xbf16>, tensor<?x2x32x16xbf16>, {{.*}} {normalize
// SPLIT:         flash.online_attention {{.*}} : tensor<?x?x?x16xbf16>, tensor<?x2x32x16xbf16>, {{.*}} {group_size = 4 : i64, normalize
func.func @mixed(%q: tensor<?x8x?x16xbf16>, %k: !q, %d: !q, %s: tensor<?x2x?x16xbf16>) -> (tensor<?x8x?x16xbf16>, !q) {
  %0, %lse0 = flash.attention ins(%q, %k, %k : tensor<?x8x?x16xbf16>, !q, !q) {group_size = 4, scale = 1.0 : f32}
      -> tensor<?x8x?x16xbf16>, tensor<?x8x?xf32>
  %1, %lse1 = flash.attention ins(%d, %s, %s : !q, tensor<?x2x?x16xbf16>, tensor<?x2x?x16xbf16>)
      {group_size = 4, scale = 1.0 : f32} -> !q, !row
  %2, %lse2 = flash.attention ins(%q, %s, %s : tensor<?x8x?x16xbf16>, tensor<?x2x?x16xbf16>, tensor<?x2x?x16xbf16>)
      {group_size = 4, scale = 1.0 : f32} -> tensor<?x8x?x16xbf16>, tensor<?x8x?xf32>
  return %0, %1 : tensor<?x8x?x16xbf16>, !q
}

!m = memref<?x?x?x16xbf16, strided<[?, ?, ?, 1]>>
// ONLINE-LABEL: func @memrefs(
// LINALG-LABEL: func @memrefs(
// LINALG:         linalg.generic {indexing_maps = [#[[Q]], #[[KEY_HEAD]], #[[S]]]
func.func @memrefs(%q: !m, %k: !m, %v: !m, %o: !m, %lse: memref<?x?x?xf32>) {
  flash.attention ins(%q, %k, %v : !m, !m, !m) outs(%o, %lse : !m, memref<?x?x?xf32>) {group_size = 4, scale = 1.0 : f32}
  return
}
