// RUN: flashc-opt %s --flash-online-softmax=normalize=each-step --flash-tile --flash-swap-loops --canonicalize --cse \
// RUN:   | FileCheck %s
// RUN: flashc-opt %s --flash-online-softmax=normalize=each-step --flash-tile --canonicalize --cse --flash-swap-loops \
// RUN:   --canonicalize --cse | FileCheck %s
// What the op says of its rows stays.
// RUN: flashc-opt %s --flash-online-softmax=normalize=each-step --flash-tile --canonicalize --cse \
// RUN:   | sed 's/{normalize = #flash.normalize<each_step>}/{no_empty_rows, normalize = #flash.normalize<each_step>}/' \
// RUN:   | flashc-opt --flash-swap-loops | FileCheck %s --check-prefix=PROMISE
// PROMISE: flash.finalize {{.*}} {no_empty_rows, normalize = #flash.normalize<deferred>}

// Static and divisible: no padding. Grouped heads: the key head is found inside the head loop, not the key loop.
// CHECK-LABEL: func @static
// CHECK-SAME:    %[[Q:[a-z0-9]+]]: tensor<2x8x256x64xbf16>, %[[K:[a-z0-9]+]]: tensor<2x2x128x64xbf16>, %[[V:[a-z0-9]+]]: tensor<2x2x128x64xbf16>
// CHECK-NOT:     tensor<2x8x256x64xf32>
// CHECK-DAG:     %[[O0:.*]] = tensor.empty() : tensor<2x8x256x64xbf16>
// CHECK-DAG:     %[[L0:.*]] = tensor.empty() : tensor<2x8x256xf32>
// CHECK:         %[[R:.*]]:2 = scf.for %[[B:[a-z0-9]+]] = %c0 to %c2 step %c1 iter_args(%{{.*}} = %[[O0]], %{{.*}} = %[[L0]])
// CHECK-NEXT:      scf.for %[[H:[a-z0-9]+]] = %c0 to %c8 step %c1
// CHECK-NEXT:        scf.for %[[I:[a-z0-9]+]] = %c0 to %c256 step %c64 iter_args(%[[O:[a-z0-9]+]] = %{{.*}}, %[[LSE:[a-z0-9]+]] = %{{.*}}) -> (tensor<2x8x256x64xbf16>, tensor<2x8x256xf32>)
// CHECK:               %[[HK:.*]] = affine.apply #{{.*}}(%[[H]])
// CHECK:               %[[QT:.*]] = tensor.extract_slice %[[Q]][%[[B]], %[[H]], %[[I]], 0] [1, 1, 64, 64]
// CHECK:               %[[ACC0:.*]] = linalg.fill ins(%cst{{.*}}) outs(%{{.*}} : tensor<1x1x64x64xf32>)
// CHECK:               %[[M0:.*]] = linalg.fill
// CHECK:               %[[SUM0:.*]] = linalg.fill
// CHECK:               %[[T:.*]]:3 = scf.for %[[J:[a-z0-9]+]] = %c0 to %c128 step %c64 iter_args(%[[ACC:.*]] = %[[ACC0]], %[[M:.*]] = %[[M0]], %[[SUM:.*]] = %[[SUM0]])
// CHECK-NEXT:            %[[KT:.*]] = tensor.extract_slice %[[K]][%[[B]], %[[HK]], %[[J]], 0] [1, 1, 64, 64]
// CHECK-NEXT:            %[[VT:.*]] = tensor.extract_slice %[[V]][%[[B]], %[[HK]], %[[J]], 0] [1, 1, 64, 64]
// CHECK-NEXT:            %[[ACC1:.*]], %[[M1:.*]], %[[SUM1:.*]] = flash.online_attention ins(%[[QT]], %[[KT]], %[[VT]] :
// CHECK-SAME:              outs(%[[ACC]], %[[M]], %[[SUM]] :
// CHECK-SAME:              at(%[[B]], %[[H]], %[[I]], %[[J]]) {normalize = #flash.normalize<deferred>
// CHECK-NEXT:            scf.yield %[[ACC1]], %[[M1]], %[[SUM1]]
// CHECK:               %[[OT:.*]], %[[LT:.*]] = flash.finalize ins(%[[T]]#0, %[[T]]#1, %[[T]]#2 :
// CHECK-SAME:            {normalize = #flash.normalize<deferred>}
// CHECK-NEXT:          %[[O1:.*]] = tensor.insert_slice %[[OT]] into %[[O]][%[[B]], %[[H]], %[[I]], 0] [1, 1, 64, 64]
// CHECK-NEXT:          %[[LSE1:.*]] = tensor.insert_slice %[[LT]] into %[[LSE]][%[[B]], %[[H]], %[[I]]] [1, 1, 64]
// CHECK-NEXT:          scf.yield %[[O1]], %[[LSE1]]
// CHECK:         return %[[R]]#0, %[[R]]#1
func.func @static(%q: tensor<2x8x256x64xbf16>, %k: tensor<2x2x128x64xbf16>, %v: tensor<2x2x128x64xbf16>)
    -> (tensor<2x8x256x64xbf16>, tensor<2x8x256xf32>) {
  %o, %lse = flash.attention
      ins(%q, %k, %v : tensor<2x8x256x64xbf16>, tensor<2x2x128x64xbf16>, tensor<2x2x128x64xbf16>)
      {scale = 0.125 : f32} -> tensor<2x8x256x64xbf16>, tensor<2x8x256xf32>
  return %o, %lse : tensor<2x8x256x64xbf16>, tensor<2x8x256xf32>
}

// Dynamic: the state tile has the static, padded size; only the valid rows of o and lse are stored.
// CHECK-LABEL: func @dynamic
// CHECK-NOT:     tensor<?x2x?x64xf32>
// CHECK:         scf.for %[[B:[a-z0-9]+]] = %c0 to %{{.*}} step %c1
// CHECK:           scf.for %[[H:[a-z0-9]+]] = %c0 to %c2 step %c1
// CHECK:             scf.for %[[I:[a-z0-9]+]] = %c0 to %[[NQ:.*]] step %c64 iter_args(%[[O:[a-z0-9]+]] =
// CHECK:               %[[ROWS:.*]] = affine.min #{{.*}}(%[[I]])[%[[NQ]]]
// CHECK:               tensor.pad
// CHECK-NOT:           tensor.pad
// CHECK:               %[[T:.*]]:3 = scf.for %{{.*}} -> (tensor<1x1x64x64xf32>, tensor<1x1x64xf32>, tensor<1x1x64xf32>)
// CHECK-COUNT-2:         tensor.pad
// CHECK-NOT:             tensor.pad
// CHECK:               %[[OT:.*]], %{{.*}} = flash.finalize ins(%[[T]]#0,
// CHECK-NEXT:          %[[VALID:.*]] = tensor.extract_slice %[[OT]][0, 0, 0, 0] [1, 1, %[[ROWS]], 64]
// CHECK-NEXT:          tensor.insert_slice %[[VALID]] into %[[O]][%[[B]], %[[H]], %[[I]], 0] [1, 1, %[[ROWS]], 64]
func.func @dynamic(%q: tensor<?x2x?x64xf16>, %k: tensor<?x2x?x64xf16>, %v: tensor<?x2x?x64xf16>)
    -> (tensor<?x2x?x64xf16>, tensor<?x2x?xf32>) {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<?x2x?x64xf16>, tensor<?x2x?x64xf16>, tensor<?x2x?x64xf16>)
      {scale = 0.125 : f32} -> tensor<?x2x?x64xf16>, tensor<?x2x?xf32>
  return %o, %lse : tensor<?x2x?x64xf16>, tensor<?x2x?xf32>
}

// One head, one query tile that is not full: canonicalization may leave no loop but the key loop.
// CHECK-LABEL: func @one_query_tile
// CHECK:         %[[T:.*]]:3 = scf.for %{{.*}} = %c0 to %c256 step %c64 {{.*}} -> (tensor<1x1x64x64xf32>, tensor<1x1x64xf32>, tensor<1x1x64xf32>)
// CHECK:         %[[OT:.*]], %[[LT:.*]] = flash.finalize ins(%[[T]]#0, %[[T]]#1, %[[T]]#2 :
// CHECK-SAME:      {normalize = #flash.normalize<deferred>}
// CHECK:         tensor.extract_slice %[[OT]][0, 0, 0, 0] [1, 1, 40, 64]
func.func @one_query_tile(%q: tensor<1x1x40x64xf16>, %k: tensor<1x1x256x64xf16>, %v: tensor<1x1x256x64xf16>)
    -> (tensor<1x1x40x64xf16>, tensor<1x1x40xf32>) {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<1x1x40x64xf16>, tensor<1x1x256x64xf16>, tensor<1x1x256x64xf16>)
      {scale = 0.125 : f32} -> tensor<1x1x40x64xf16>, tensor<1x1x40xf32>
  return %o, %lse : tensor<1x1x40x64xf16>, tensor<1x1x40xf32>
}

// One tile of each: no loop is left, only the normalisation changes.
// CHECK-LABEL: func @one_tile
// CHECK-NOT:     scf.for
// CHECK:         flash.online_attention {{.*}} {normalize = #flash.normalize<deferred>
// CHECK:         flash.finalize {{.*}} {normalize = #flash.normalize<deferred>
func.func @one_tile(%q: tensor<1x1x64x64xf16>, %k: tensor<1x1x64x64xf16>, %v: tensor<1x1x64x64xf16>)
    -> (tensor<1x1x64x64xf16>, tensor<1x1x64xf32>) {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<1x1x64x64xf16>, tensor<1x1x64x64xf16>, tensor<1x1x64x64xf16>)
      {scale = 0.125 : f32} -> tensor<1x1x64x64xf16>, tensor<1x1x64xf32>
  return %o, %lse : tensor<1x1x64x64xf16>, tensor<1x1x64xf32>
}

// One tile of each that is not full.
// CHECK-LABEL: func @one_cut_tile
// CHECK:         %[[ACC:.*]], %[[M:.*]], %[[SUM:.*]] = flash.online_attention {{.*}} {normalize = #flash.normalize<deferred>
// CHECK:         flash.finalize ins(%[[ACC]], %[[M]], %[[SUM]] : {{.*}} {normalize = #flash.normalize<deferred>
func.func @one_cut_tile(%q: tensor<1x1x40x64xf16>, %k: tensor<1x1x64x64xf16>, %v: tensor<1x1x64x64xf16>)
    -> (tensor<1x1x40x64xf16>, tensor<1x1x40xf32>) {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<1x1x40x64xf16>, tensor<1x1x64x64xf16>, tensor<1x1x64x64xf16>)
      {scale = 0.125 : f32} -> tensor<1x1x40x64xf16>, tensor<1x1x40xf32>
  return %o, %lse : tensor<1x1x40x64xf16>, tensor<1x1x40xf32>
}

// Two attentions in one function.
// CHECK-LABEL: func @two
// CHECK-COUNT-2: flash.finalize {{.*}} -> tensor<1x1x64x64xf16>, tensor<1x1x64xf32>
func.func @two(%q: tensor<1x2x128x64xf16>, %k: tensor<1x2x128x64xf16>, %v: tensor<1x2x128x64xf16>)
    -> (tensor<1x2x128x64xf16>, tensor<1x2x128xf32>) {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<1x2x128x64xf16>, tensor<1x2x128x64xf16>, tensor<1x2x128x64xf16>)
      {scale = 0.125 : f32} -> tensor<1x2x128x64xf16>, tensor<1x2x128xf32>
  %p, %lse1 = flash.attention ins(%o, %k, %v : tensor<1x2x128x64xf16>, tensor<1x2x128x64xf16>, tensor<1x2x128x64xf16>)
      {scale = 0.125 : f32} -> tensor<1x2x128x64xf16>, tensor<1x2x128xf32>
  return %p, %lse1 : tensor<1x2x128x64xf16>, tensor<1x2x128xf32>
}
