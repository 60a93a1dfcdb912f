// The class of a score in the backward pass: whether its derivative is one constant. At 256 columns it decides how many
// kernels compute dk and dv.
// RUN: flashc %s --print-decisions | FileCheck %s --check-prefix=LINEAR
// RUN: sed 's/%y = arith.mulf %x, %c/%y = arith.mulf %x, %x/' %s | flashc - --print-decisions | FileCheck %s --check-prefix=CURVED
// RUN: sed 's/%y = arith.mulf %x, %c/%y = math.tanh %x/' %s | flashc - --print-decisions | FileCheck %s --check-prefix=CURVED
// RUN: sed 's/%y = arith.mulf %x, %c/%y = arith.divf %c, %x/' %s | flashc - --print-decisions | FileCheck %s --check-prefix=CURVED
// RUN: sed 's/%y = arith.mulf %x, %c/%y = arith.divf %x, %c/' %s | flashc - --print-decisions | FileCheck %s --check-prefix=LINEAR

// LINEAR: decisions for kind=backward target=sm_90a dtype=bf16 d=256 dv=256 mask=none:
// LINEAR: split-gradients = roles (row)
// CURVED: decisions for kind=backward target=sm_90a dtype=bf16 d=256 dv=256 mask=none score=curved:
// CURVED: split-gradients = each (row)
!t = tensor<2x4x512x256xbf16>
func.func @grads(%q: !t, %k: !t, %v: !t, %o: !t, %lse: tensor<2x4x512xf32>, %do: !t) -> (!t, !t, !t) {
  %g:3 = flash.attention_backward ins(%q, %k, %v, %o, %lse, %do : !t, !t, !t, !t, tensor<2x4x512xf32>, !t)
      {scale = 0.0625 : f32}
      score (%x: f32, %b: index, %h: index, %i: index, %j: index) {
        %c = arith.constant 3.0 : f32
        %y = arith.mulf %x, %c : f32
        %z = arith.addf %y, %c : f32
        flash.yield %z : f32
      } -> !t, !t, !t
  return %g#0, %g#1, %g#2 : !t, !t, !t
}
