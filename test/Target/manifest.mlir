// The manifest lists what the kernel takes: as many parameters, of the same sizes, tensor maps aligned to 64 bytes.
// RUN: flashc %flashc_src/examples/causal.mlir -o %t.ptx
// RUN: %python %S/Inputs/check-manifest.py %t.ptx %t.json | FileCheck %s
// CHECK: {{[0-9]+}} parameters agree
