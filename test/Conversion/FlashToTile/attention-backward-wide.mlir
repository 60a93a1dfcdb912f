// Beside dk of 256 columns there is no room for dv. With split-gradients=each each gradient has a nest, and so a kernel.
// That of dv needs neither V nor delta. After them two kernels add up the heads of groups. With split-gradients=roles one
// nest has dk and dv: tiles of 64 keys that two consumers share, and a ring by which P passes from one to the other.
// RUN: flashc %s --emit=tile --schedule=split-gradients=each | FileCheck %s
// RUN: flashc %s --emit=tile | FileCheck %s --check-prefix=ROLES
// RUN: flashc %s --print-decisions | FileCheck %s --check-prefix=DECISIONS
// RUN: not flashc %s --emit=tile --schedule=kv-tile=64 2>&1 | FileCheck %s --check-prefix=MEMORY
// RUN: not flashc %s --emit=tile --schedule=split-gradients=none 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: sed s/256/264/g %s | not flashc - --emit=tile 2>&1 | FileCheck %s --check-prefix=REFUSED

// DECISIONS: split-gradients = roles (row)
// DECISIONS: shared memory: 231328 of 232448 bytes
// MEMORY: error: schedule: expected at most 232448 bytes of shared memory, got 264352
// NONE: error: schedule: expected a kv-tile in steps of 64 for split-gradients=none, got 48
// REFUSED: error: 'flash.attention_backward' op expected D to be a multiple of 8 from 8 to 256, got 264 (C4)

// ROLES:         gpu.func @wide(
// ROLES-SAME:      after = [{{.*}}kernel = "wide_dq"{{.*}}kernel = "wide_dk_groups"{{.*}}kernel = "wide_dv_groups"
// ROLES-DAG:       %[[Q:.*]] = tile.alloc_ring : <3, 48, 256, bf16>
// ROLES-DAG:       %[[K:.*]] = tile.alloc_ring : <1, 64, 256, bf16>
// ROLES:           %[[P:.*]] = tile.alloc_ring : <1, 64, 48, f32>
// ROLES:           tile.warp_specialize 2 registers(24, 240)
// ROLES:           scf.if
// ROLES:             scf.for {{.*}} -> (tensor<64x256xf32, #tile.acc>, index
// ROLES:               tile.mma_async %{{.*}}, %{{.*}} transpose_b {local_descriptors}
// ROLES:               tile.send %{{.*}} into %[[P]]
// ROLES:               tile.mma_async %{{.*}} into %{{.*}} -> <tensor<64x256xf32
// ROLES:             tile.atomic_add
// ROLES:           else
// ROLES:             scf.for {{.*}} -> (tensor<64x256xf32, #tile.acc>, index
// ROLES:               tile.mma_async %{{.*}}, %{{.*}} transpose_b {local_descriptors}
// ROLES-NOT:           transpose_b
// ROLES:               tile.receive %[[P]]
// ROLES:               tile.mma_async %{{.*}} into %{{.*}} -> <tensor<64x256xf32
// ROLES:             tile.atomic_add
// ROLES:         gpu.func @wide_dq(
// ROLES:           tile.alloc_ring : <2, 48, 256, bf16>

// CHECK:         gpu.func @wide(
// CHECK-SAME:      after = [{{.*}}kernel = "wide_dv"{{.*}}kernel = "wide_dq"{{.*}}kernel = "wide_dk_groups"{{.*}}kernel = "wide_dv_groups"
// CHECK-SAME:      before = [{{.*}}kernel = "wide_delta"
// CHECK-COUNT-5:   tile.alloc_ring
// CHECK-NOT:       tile.alloc_ring
// CHECK:           tile.mma_async %{{.*}}, %[[Q:.*]] transpose_b {local_descriptors}
// CHECK:           tile.mma_async %{{.*}}, %{{.*}} transpose_b {local_descriptors}
// CHECK:           tile.mma_async %{{.*}}, %[[Q]] into %{{.*}} -> <tensor<64x256xf32
// CHECK-NOT:       tensor<64x256xf32, #tile.acc>, tensor<64x256xf32, #tile.acc>
// CHECK:         gpu.func @wide_dv(
// CHECK-COUNT-4:   tile.alloc_ring
// CHECK-NOT:       tile.alloc_ring
// CHECK:           tile.mma_async %{{.*}}, %{{.*}} transpose_b
// CHECK-NOT:       transpose_b
// CHECK:           tile.mma_async %{{.*}}, %{{.*}} into %{{.*}} -> <tensor<64x256xf32
// CHECK:         gpu.func @wide_dq(
// CHECK:         gpu.func @wide_delta(
// CHECK:         gpu.func @wide_dk_groups(
// CHECK:         gpu.func @wide_dv_groups(
func.func @wide(%q: tensor<?x4x?x256xbf16>, %k: tensor<?x2x?x256xbf16>, %v: tensor<?x2x?x256xbf16>,
                %o: tensor<?x4x?x256xbf16>, %lse: tensor<?x4x?xf32>, %do: tensor<?x4x?x256xbf16>)
    -> (tensor<?x4x?x256xbf16>, tensor<?x2x?x256xbf16>, tensor<?x2x?x256xbf16>) {
  %g:3 = flash.attention_backward
      ins(%q, %k, %v, %o, %lse, %do : tensor<?x4x?x256xbf16>, tensor<?x2x?x256xbf16>, tensor<?x2x?x256xbf16>,
          tensor<?x4x?x256xbf16>, tensor<?x4x?xf32>, tensor<?x4x?x256xbf16>) {scale = 0.0625 : f32}
      -> tensor<?x4x?x256xbf16>, tensor<?x2x?x256xbf16>, tensor<?x2x?x256xbf16>
  return %g#0, %g#1, %g#2 : tensor<?x4x?x256xbf16>, tensor<?x2x?x256xbf16>, tensor<?x2x?x256xbf16>
}
