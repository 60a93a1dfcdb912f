// Functions with an op that one plain kernel computes, which are no such function.
// RUN: flashc-opt %s --convert-flash-to-tile --verify-diagnostics --split-input-file

!o = tensor<2x1x4x32x16xf32>
!lse = tensor<2x1x4x32xf32>

func.func @computed(%o: !o, %lse: !lse) -> (tensor<1x4x32x16xf32>, tensor<1x4x32xf32>) {
  %twice = arith.addf %lse, %lse : !lse
  // expected-error @+1 {{expected operands that are arguments of the function, got another as number 1}}
  %0:2 = flash.merge_states ins(%o, %twice : !o, !lse) -> tensor<1x4x32x16xf32>, tensor<1x4x32xf32>
  return %0#0, %0#1 : tensor<1x4x32x16xf32>, tensor<1x4x32xf32>
}

// -----

!o = tensor<2x1x4x32x16xf32>
!lse = tensor<2x1x4x32xf32>

// expected-error @+1 {{expected every function result to be an output of the op}}
func.func @other_result(%o: !o, %lse: !lse) -> (tensor<1x4x32x16xf32>, tensor<1x4x32xf32>, !lse) {
  %0:2 = flash.merge_states ins(%o, %lse : !o, !lse) -> tensor<1x4x32x16xf32>, tensor<1x4x32xf32>
  return %0#0, %0#1, %lse : tensor<1x4x32x16xf32>, tensor<1x4x32xf32>, !lse
}

// -----

!o = memref<2x1x4x32x16xf32>
!lse = memref<2x1x4x32xf32>

func.func @twice(%parts: !o, %lses: !lse, %o: memref<1x4x32x16xf32>, %lse: memref<1x4x32xf32>) {
  flash.merge_states ins(%parts, %lses : !o, !lse) outs(%o, %lse : memref<1x4x32x16xf32>, memref<1x4x32xf32>)
  // expected-error @+1 {{expected a function that computes one flash.merge_states only, got another side effect}}
  flash.merge_states ins(%parts, %lses : !o, !lse) outs(%o, %lse : memref<1x4x32x16xf32>, memref<1x4x32xf32>)
  return
}

// -----

!o = memref<2x1x4x32x16xf32>
!lse = memref<2x1x4x32xf32>

func.func @one(%parts: !o, %lses: !lse, %o: memref<1x4x32x16xf32>, %lse: memref<1x4x32xf32>) {
  flash.merge_states ins(%parts, %lses : !o, !lse) outs(%o, %lse : memref<1x4x32x16xf32>, memref<1x4x32xf32>)
  return
}

// expected-error @+1 {{expected one function, got @one and @other}}
func.func @other() {
  return
}

// -----

!o = memref<2x1x4x32x16xf32>
!lse = memref<2x1x4x32xf32>

func.func @nested(%parts: !o, %lses: !lse, %o: memref<1x4x32x16xf32>, %lse: memref<1x4x32xf32>, %which: i1) {
  scf.if %which {
    // expected-error @+1 {{expected to stand in a function itself}}
    flash.merge_states ins(%parts, %lses : !o, !lse) outs(%o, %lse : memref<1x4x32x16xf32>, memref<1x4x32xf32>)
  }
  return
}

// -----

func.func @odd(%k: memref<2x3x2x15xbf16>, %v: memref<2x3x2x16xbf16>, %positions: memref<2xi32>, %cos: memref<99x6xbf16>,
               %sin: memref<99x6xbf16>, %k_cache: memref<2x9x2x15xbf16>, %v_cache: memref<2x9x2x16xbf16>) {
  // expected-error @+1 {{expected D and Dv to be even for 'interleaved', got 15 and 16}}
  flash.append_kv ins(%k, %v, %positions : memref<2x3x2x15xbf16>, memref<2x3x2x16xbf16>, memref<2xi32>)
    rotary(%cos, %sin : memref<99x6xbf16>, memref<99x6xbf16>)
    outs(%k_cache, %v_cache : memref<2x9x2x15xbf16>, memref<2x9x2x16xbf16>) {interleaved}
  return
}
