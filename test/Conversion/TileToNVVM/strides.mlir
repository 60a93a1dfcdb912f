// Strides of an array in the workspace are products of extents, in 64 bits: of 32 heads with 2^20 rows of 128 columns the
// stride of a batch is 2^32.
// RUN: flashc-opt %s --convert-tile-to-nvvm --canonicalize --cse | FileCheck %s

// CHECK-LABEL: gpu.func @store(
// CHECK-SAME:    %[[ARRAY:[^ ]*]]: !llvm.ptr<1>, %[[HEADS:[^ ]*]]: index, %[[ROWS:[^ ]*]]: index)
// CHECK-NOT:     arith.muli {{.*}} : index
// CHECK-DAG:     %[[ROWS32:.*]] = arith.index_cast %[[ROWS]] : index to i32
// CHECK-DAG:     %[[ROWS64:.*]] = arith.extsi %[[ROWS32]] : i32 to i64
// CHECK-DAG:     %[[HEADS32:.*]] = arith.index_cast %[[HEADS]] : index to i32
// CHECK-DAG:     %[[HEADS64:.*]] = arith.extsi %[[HEADS32]] : i32 to i64
// CHECK:         %[[OFHEAD:.*]] = arith.muli %[[ROWS64]], %c128{{.*}} : i64
// CHECK:         %[[OFBATCH:.*]] = arith.muli %[[HEADS64]], %[[OFHEAD]] : i64
// CHECK-NOT:     arith.muli {{.*}} : i32
// CHECK:         llvm.getelementptr %[[ARRAY]]
gpu.module @kernels {
  gpu.func @store(%array: memref<?xf32>, %heads: index, %rows: index) kernel attributes {flashc.threads = 128 : i32} {
    %c128 = arith.constant 128 : index
    %value = arith.constant 1.0 : f32
    %thread = gpu.thread_id x
    %head = gpu.block_id y
    %batch = gpu.block_id z
    %ofHead = arith.muli %rows, %c128 : index
    %ofBatch = arith.muli %heads, %ofHead : index
    %all = memref.reinterpret_cast %array to offset: [0], sizes: [%heads, %heads, %ofHead], strides: [%ofBatch, %ofHead, 1]
        : memref<?xf32> to memref<?x?x?xf32, strided<[?, ?, 1]>>
    memref.store %value, %all[%batch, %head, %thread] : memref<?x?x?xf32, strided<[?, ?, 1]>>
    gpu.return
  }
}
