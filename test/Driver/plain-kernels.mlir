// A kernel without tiles has no schedule to choose, and its cost is not counted.
// RUN: flashc %s --print-decisions | FileCheck %s --check-prefix=DECISIONS
// RUN: not flashc %s --schedule=kv-tile=64 -o /dev/null 2>&1 | FileCheck %s --check-prefix=SCHEDULE
// RUN: not flashc %s --print-cost 2>&1 | FileCheck %s --check-prefix=COST
// RUN: flashc %s -o %t.ptx
// RUN: FileCheck %s --check-prefix=PTX --input-file=%t.ptx
// RUN: FileCheck %s --check-prefix=MANIFEST --input-file=%t.json

// DECISIONS:      entry merge: a kernel without tiles, of 128 threads a CTA; there is no schedule to choose
// DECISIONS-NEXT:   CTAs: ceildiv(mul(mul(mul(arg0.dim1, arg0.dim2), arg0.dim3), 16), 128) x 1 x 1

// SCHEDULE: 'flash.merge_states' op expected no schedule for a kernel without tiles, got 'kv-tile=64'

// COST: 'flash.merge_states' op expected an op with scores; the cost of other ops is not counted

// PTX: .entry merge(
// PTX: ld.global.v4.b32
// PTX: st.global.v4.b32

// MANIFEST: "kernel": "merge"
// MANIFEST: "schedule": ""
func.func @merge(%o_parts: tensor<?x?x?x?x64xf32>, %lse_parts: tensor<?x?x?x?xf32>)
    -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>) {
  %o, %lse = flash.merge_states ins(%o_parts, %lse_parts : tensor<?x?x?x?x64xf32>, tensor<?x?x?x?xf32>)
    -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
}
