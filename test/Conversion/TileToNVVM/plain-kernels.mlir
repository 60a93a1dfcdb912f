// RUN: flashc-opt %s --convert-tile-to-nvvm | FileCheck %s
// RUN: flashc-opt %s --pass-pipeline="builtin.module(convert-tile-to-nvvm,gpu.module(convert-kernel-to-llvm))" | FileCheck %s --check-prefix=LLVM

// A kernel without tiles: threads, an array in shared memory, arrays in device memory.
// CHECK: llvm.mlir.global internal @scratch() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<48 x i32> {
// CHECK: llvm.mlir.undef
// CHECK-LABEL: gpu.func @plain
// CHECK-SAME: (%[[N:.*]]: index, %[[IN:.*]]: !llvm.ptr<1>, %[[STRIDE:.*]]: i64, %[[OUT:.*]]: !llvm.ptr<1>)
// CHECK: %[[SCRATCH:.*]] = llvm.mlir.addressof @scratch : !llvm.ptr<3>
// CHECK: %[[ID:.*]] = nvvm.read.ptx.sreg.tid.x : i32
// CHECK: %[[T:.*]] = arith.index_cast %[[ID]] : i32 to index
// CHECK: arith.muli %{{.*}}, %[[STRIDE]]
// CHECK: %[[FROM:.*]] = llvm.getelementptr %[[IN]]
// CHECK: %[[VALUE:.*]] = llvm.load %[[FROM]] : !llvm.ptr<1> -> i32
// CHECK: %[[SHARED:.*]] = llvm.getelementptr %[[SCRATCH]]
// CHECK: llvm.store %[[VALUE]], %[[SHARED]] : i32, !llvm.ptr<3>
// CHECK: nvvm.barrier0
// CHECK: llvm.load %{{.*}} : !llvm.ptr<3> -> i32
// CHECK: llvm.store %{{.*}} : i32, !llvm.ptr<1>

// LLVM: llvm.func @plain
// LLVM-SAME: nvvm.kernel, nvvm.minctasm = 1 : i32, nvvm.reqntid = array<i32: 1024>

gpu.module @kernels {
  memref.global "private" @scratch : memref<48xi32, #gpu.address_space<workgroup>> = uninitialized
  gpu.func @plain(%n: index, %in: memref<?x?xi32, strided<[?, 1]>>, %out: memref<?xi32>) kernel attributes {flashc.threads = 1024 : i32} {
    %scratch = memref.get_global @scratch : memref<48xi32, #gpu.address_space<workgroup>>
    %t = gpu.thread_id x
    %value = memref.load %in[%n, %t] : memref<?x?xi32, strided<[?, 1]>>
    memref.store %value, %scratch[%t] : memref<48xi32, #gpu.address_space<workgroup>>
    nvvm.barrier0
    %other = memref.load %scratch[%n] : memref<48xi32, #gpu.address_space<workgroup>>
    memref.store %other, %out[%t] : memref<?xi32>
    gpu.return
  }

  // Three dimensions of an array that has one: its pointer, and the strides that the op says.
  // CHECK-LABEL: gpu.func @view
  // CHECK-SAME: (%[[IN:.*]]: !llvm.ptr<1>, %[[ROWS:.*]]: index)
  // CHECK: %[[STRIDE:.*]] = arith.index_cast %[[ROWS]] : index to i32
  // CHECK: %[[WIDE:.*]] = arith.extsi %[[STRIDE]] : i32 to i64
  // CHECK: %[[FROM:.*]] = llvm.getelementptr %[[IN]]
  // CHECK: llvm.load %[[FROM]] : !llvm.ptr<1> -> f32
  gpu.func @view(%in: memref<?xf32>, %rows: index) kernel attributes {flashc.threads = 256 : i32} {
    %batch = arith.muli %rows, %rows : index
    %view = memref.reinterpret_cast %in to offset: [0], sizes: [2, 4, %rows], strides: [%batch, %rows, 1]
        : memref<?xf32> to memref<2x4x?xf32, strided<[?, ?, 1]>>
    %cast = memref.cast %view : memref<2x4x?xf32, strided<[?, ?, 1]>> to memref<?x?x?xf32, strided<[?, ?, 1]>>
    %t = gpu.thread_id x
    %value = memref.load %cast[%t, %t, %t] : memref<?x?x?xf32, strided<[?, ?, 1]>>
    memref.store %value, %in[%t] : memref<?xf32>
    gpu.return
  }
}
