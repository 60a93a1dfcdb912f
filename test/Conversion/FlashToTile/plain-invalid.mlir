// Functions with an op that one plain kernel computes, which are no such function.
// RUN: %vary %s | flashc-opt --convert-flash-to-tile --verify-diagnostics --split-input-file

!o = tensor<2x1x4x32x16xf32>
!lse = tensor<2x1x4x32xf32>
func.func @values(%o: !o, %lse: !lse) -> (tensor<1x4x32x16xf32>, tensor<1x4x32xf32>) {
  %0:2 = flash.merge_states ins(%o, %lse : !o, !lse) -> tensor<1x4x32x16xf32>, tensor<1x4x32xf32>
  return %0#0, %0#1 : tensor<1x4x32x16xf32>, tensor<1x4x32xf32>
}

// VARY computed
//   %0:2 = flash.merge_states ins(%o, %lse =>
//     %twice = arith.addf %lse, %lse : !lse
//     %0:2 = flash.merge_states ins(%o, %twice
//     | error: expected operands that are arguments of the function, got another as number 1
// VARY other_result
//   -> (tensor<1x4x32x16xf32>, tensor<1x4x32xf32>) => -> (tensor<1x4x32x16xf32>, tensor<1x4x32xf32>, !lse)
//     | error: expected every function result to be an output of the op
//   return %0#0, %0#1 : tensor<1x4x32x16xf32>, tensor<1x4x32xf32> =>
//     return %0#0, %0#1, %lse : tensor<1x4x32x16xf32>, tensor<1x4x32xf32>, !lse

// -----

!o = memref<2x1x4x32x16xf32>
!lse = memref<2x1x4x32xf32>
func.func @one(%parts: !o, %lses: !lse, %o: memref<1x4x32x16xf32>, %lse: memref<1x4x32xf32>, %which: i1) {
  flash.merge_states ins(%parts, %lses : !o, !lse) outs(%o, %lse : memref<1x4x32x16xf32>, memref<1x4x32xf32>)
  return
}

// VARY twice
//   return =>
//     flash.merge_states ins(%parts, %lses : !o, !lse) outs(%o, %lse : memref<1x4x32x16xf32>, memref<1x4x32xf32>)
//     | error: expected a function that computes one flash.merge_states only, got another side effect
//     return
// VARY other
//   func.func @one =>
//     func.func @other() { | error: expected one function, got @one and @other
//       return
//     }
//     func.func @one
// VARY nested
//   flash.merge_states =>
//     scf.if %which {
//     flash.merge_states | error: expected to stand in a function itself
//   return =>
//     }
//     return

// -----

func.func @odd(%k: memref<2x3x2x15xbf16>, %v: memref<2x3x2x16xbf16>, %positions: memref<2xi32>, %cos: memref<99x6xbf16>,
               %sin: memref<99x6xbf16>, %k_cache: memref<2x9x2x15xbf16>, %v_cache: memref<2x9x2x16xbf16>) {
  // expected-error @+1 {{expected D and Dv to be even for 'interleaved', got 15 and 16}}
  flash.append_kv ins(%k, %v, %positions : memref<2x3x2x15xbf16>, memref<2x3x2x16xbf16>, memref<2xi32>)
    rotary(%cos, %sin : memref<99x6xbf16>, memref<99x6xbf16>)
    outs(%k_cache, %v_cache : memref<2x9x2x15xbf16>, memref<2x9x2x16xbf16>) {interleaved}
  return
}
