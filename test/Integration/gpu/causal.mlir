// The kernel's numbers on a GPU, at lengths that end inside a tile and with more queries than keys (rows that see no
// key), held to the same rule as on the CPU.
// REQUIRES: gpu
// RUN: flashc %flashc_src/examples/causal.mlir --run=gpu --check | FileCheck %s
// RUN: flashc %flashc_src/examples/causal.mlir --run=gpu --check --dims=B=2,Nq=300,Nk=129 | FileCheck %s
// RUN: flashc %flashc_src/examples/causal.mlir --run=gpu --check --dims=B=1,Nq=1,Nk=257 | FileCheck %s

// CHECK: run @causal: {{.*}} ms
// CHECK: check @causal: o: {{.*}}: PASS
// CHECK: check @causal: lse: {{.*}}: PASS
