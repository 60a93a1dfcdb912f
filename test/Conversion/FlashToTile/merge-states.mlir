// A function that one plain kernel computes: threads share rows, read their parts in order, eight at once or all that
// there are, and scale what they have to the maximum so far.
// RUN: flashc-opt %s --split-input-file --convert-flash-to-tile --canonicalize --cse | FileCheck %s

// CHECK-NOT:     func.func
// CHECK:       gpu.func @any(%[[S:[^:]*]]: index, %[[B:[^:]*]]: index, %[[H:[^:]*]]: index, %[[N:[^:]*]]: index, %[[O:[^:]*]]: memref<?x?x?x?x64xbf16, strided<[?, ?, ?, ?, 1]>>, %[[LSE:[^:]*]]: memref<?x?x?x?xf32, strided<[?, ?, ?, 1]>>
// CHECK-SAME:    flashc.launch = {
// CHECK-SAME:    block = [128, 1, 1]
// CHECK-SAME:    grid = ["ceildiv(mul(mul(mul(arg0.dim1, arg0.dim2), arg0.dim3), 8), 128)", "1", "1"]
// CHECK-SAME:    kernel = "any"
// CHECK-DAG:     %[[NONE:.*]] = arith.constant 0xFF800000 : f32
// CHECK-DAG:     %[[LOG2E:.*]] = arith.constant 1.44269502 : f32
// CHECK:         scf.for %[[PART:.*]] = %c0 to %[[S]] step %c8 iter_args(%[[M:.*]] = %[[NONE]], %[[L:.*]] = %{{.*}}, %[[ACC:.*]] = %{{.*}})
// Behind the last part it is read again, and counts nothing.
// CHECK:           %[[CLAMPED:.*]] = arith.minui
// CHECK:           %[[READ:.*]] = memref.load %[[LSE]][%[[CLAMPED]]
// CHECK:           %[[EXISTS:.*]] = arith.cmpi ule
// CHECK:           arith.select %[[EXISTS]], %[[READ]], %[[NONE]]
// CHECK:           vector.load %[[O]][%[[CLAMPED]], {{.*}} vector<8xbf16>
// CHECK-COUNT-7:   arith.maximumf
// CHECK:           %[[ISNONE:.*]] = arith.cmpf oeq, %{{.*}}, %[[NONE]]
// CHECK:           %[[SHIFT:.*]] = arith.select %[[ISNONE]]
// CHECK:           %[[DISTANCE:.*]] = arith.subf %[[M]], %[[SHIFT]]
// CHECK:           %[[EXPONENT:.*]] = arith.mulf %[[DISTANCE]], %[[LOG2E]]
// CHECK:           %[[KEPT:.*]] = math.exp2 %[[EXPONENT]]
// CHECK:           arith.mulf %[[L]], %[[KEPT]]
// CHECK-COUNT-8:   math.fma
// CHECK:           scf.yield
// CHECK:         vector.store %{{.*}} : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>, vector<8xbf16>
// The first thread of a row has its log-sum-exp.
// CHECK:         scf.if
// CHECK:           math.log
// CHECK:           memref.store
func.func @any(%o: tensor<?x?x?x?x64xbf16>, %lse: tensor<?x?x?x?xf32>) -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %0:2 = flash.merge_states ins(%o, %lse : tensor<?x?x?x?x64xbf16>, tensor<?x?x?x?xf32>)
    -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
  return %0#0, %0#1 : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}

// -----

// Two parts; a sink is what comes first. Rows of 12 columns are no whole vectors of 16 bytes.
// CHECK:       gpu.func @few(%[[O:[^:]*]]: memref<2x1x4x32x12xbf16, strided<[?, ?, ?, ?, 1]>>, %[[LSE:[^:]*]]: memref<{{[^:]*}}>, %[[SINKS:[^:]*]]: memref<4xf32, strided<[1]>>
// CHECK-SAME:    grid = ["ceildiv(mul(mul(mul(1, 4), 32), 3), 128)", "1", "1"]
// CHECK:         %[[SINK:.*]] = memref.load %[[SINKS]]
// CHECK-NOT:     scf.for
// CHECK-COUNT-2: vector.load %[[O]]{{.*}} vector<4xbf16>
// CHECK-NOT:     vector.load
// CHECK:         vector.store %{{.*}} vector<4xf32>
func.func @few(%o: memref<2x1x4x32x12xbf16>, %lse: memref<2x1x4x32xf32>, %sinks: memref<4xf32>,
               %out: memref<1x4x32x12xf32>, %whole: memref<1x4x32xf32>) {
  flash.merge_states ins(%o, %lse : memref<2x1x4x32x12xbf16>, memref<2x1x4x32xf32>) sinks(%sinks : memref<4xf32>)
    outs(%out, %whole : memref<1x4x32x12xf32>, memref<1x4x32xf32>)
  return
}
