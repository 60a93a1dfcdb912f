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
}
