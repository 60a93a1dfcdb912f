// RUN: flashc-opt %s --pass-pipeline='builtin.module(gpu.module(convert-kernel-to-llvm),reconcile-unrealized-casts)' --split-input-file --verify-diagnostics | FileCheck %s

// A tensor map is passed by value; an index is 32 bits wide; the block has as many threads as the attribute says.
// CHECK-LABEL: llvm.func @parameters
// CHECK-SAME: (%{{.*}}: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant},
// CHECK-SAME: %{{.*}}: !llvm.ptr<1>, %[[N:.*]]: i32)
// CHECK-SAME: nvvm.kernel
// CHECK-SAME: nvvm.reqntid = array<i32: 384>
gpu.module @kernels {
  gpu.func @parameters(%map: !llvm.ptr, %out: !llvm.ptr<1>, %n: index) kernel attributes {flashc.threads = 384 : i32} {
    // CHECK: nvvm.read.ptx.sreg.ctaid.y : i32
    %b = gpu.block_id y
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %x = arith.constant 2.0 : f32
    // CHECK: llvm.icmp "slt" %{{.*}}, %[[N]] : i32
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x) -> f32 {
      // CHECK: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"
      %y = math.exp2 %a : f32
      // e^y = 2^(y log2 e)
      // CHECK: %[[C:.*]] = llvm.mlir.constant(1.44269502 : f32)
      // CHECK: %[[P:.*]] = llvm.fmul %{{.*}}, %[[C]]
      // CHECK: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"(%[[P]])
      %z = math.exp %y : f32
      // CHECK: llvm.intr.tanh(%{{.*}}) {fastmathFlags = #llvm.fastmath<afn>}
      %t = math.tanh %z : f32
      // CHECK: llvm.inline_asm "div.full.ftz.f32 $0, $1, $2;"
      %d = arith.divf %t, %z : f32
      scf.yield %d : f32
    }
    llvm.store %r, %out : f32, !llvm.ptr<1>
    gpu.return
  }

  // Zero has as many leading zeros as bits (the multiplier for a division by 1 counts on it).
  // CHECK-LABEL: llvm.func @leading_zeros
  // CHECK-SAME: %[[N:[^:]*]]: i64
  // CHECK: %[[ZEROS:.*]] = "llvm.intr.ctlz"(%[[N]]) <{is_zero_poison = false}> : (i64) -> i64
  // CHECK: llvm.store %[[ZEROS]]
  gpu.func @leading_zeros(%n: i64, %out: !llvm.ptr<1>) kernel {
    %zeros = math.ctlz %n : i64
    llvm.store %zeros, %out : i64, !llvm.ptr<1>
    gpu.return
  }

  // What is exact in hardware becomes an intrinsic of LLVM, in f64 too.
  // CHECK-LABEL: llvm.func @intrinsics
  // CHECK: llvm.intr.floor
  // CHECK: llvm.intr.roundeven
  // CHECK: llvm.intr.copysign
  // CHECK: llvm.intr.sqrt{{.*}} : (f64) -> f64
  // CHECK: llvm.intr.is.fpclass
  gpu.func @intrinsics(%x: f32, %d: f64, %out: !llvm.ptr<1>) kernel {
    %f = math.floor %x : f32
    %r = math.roundeven %f : f32
    %c = math.copysign %r, %x : f32
    %s = math.sqrt %d : f64
    %n = math.isnan %s : f64
    %y = arith.select %n, %c, %x : f32
    llvm.store %y, %out : f32, !llvm.ptr<1>
    gpu.return
  }

  // Quotients that round down or up are those that round to zero, corrected; maxima are one instruction.
  // CHECK-LABEL: llvm.func @divisions
  gpu.func @divisions(%out: !llvm.ptr<1>, %n: index, %m: index, %x: f32, %w: f32) kernel {
    // CHECK: llvm.sdiv
    // CHECK: llvm.select
    %down = arith.floordivsi %n, %m : index
    // CHECK: llvm.sdiv
    // CHECK: llvm.select
    %up = arith.ceildivsi %down, %m : index
    // CHECK: llvm.intr.maxnum
    %y = arith.maxnumf %x, %w : f32
    // CHECK: llvm.intr.maximum
    %z = arith.maximumf %y, %x : f32
    %up32 = arith.index_cast %up : index to i32
    llvm.store %up32, %out : i32, !llvm.ptr<1>
    llvm.store %z, %out : f32, !llvm.ptr<1>
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @unknown_function(%out: !llvm.ptr<1>) kernel {
    %x = arith.constant 2.0 : f32
    // expected-error @+1 {{expected a function of f32 that sm_90a has, got 'math.erf' of 'f32'}}
    %y = math.erf %x : f32
    llvm.store %y, %out : f32, !llvm.ptr<1>
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @wide_index(%n: index) kernel {
    %c = arith.constant 4294967297 : index
    // expected-error @below {{expected an index of 32 bits in a kernel, got 4294967297}}
    %m = arith.addi %n, %c : index
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @double_math(%x: f64) kernel {
    // expected-error @below {{expected a function of f32 that sm_90a has, got 'math.exp' of 'f64'}}
    %y = math.exp %x : f64
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @half_math(%x: f16) kernel {
    // expected-error @below {{expected a function of f32 that sm_90a has, got 'math.exp' of 'f16'}}
    %y = math.exp %x : f16
    gpu.return
  }
}
