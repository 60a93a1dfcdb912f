// Without a CUDA driver, --run=gpu says so in one line.
// UNSUPPORTED: gpu
// RUN: not flashc %flashc_src/examples/causal.mlir --run=gpu --check 2> %t
// RUN: FileCheck %s < %t

// CHECK: {{^}}flashc: error: no CUDA driver: libcuda.so.1: {{.*}}
// CHECK-NOT: {{.}}
