// RUN: flashc-opt %s --tile-programmatic-launch --split-input-file --verify-diagnostics

gpu.module @kernels {
  // expected-error @below {{'gpu.func' op expected a kernel 'f_order' beside it, which its manifest names}}
  gpu.func @f() kernel attributes {flashc.programmatic_launch,
                                   flashc.manifest = {before = [{kernel = "f_rows"}, {kernel = "f_order"}]}} {
    gpu.return
  }
  gpu.func @f_rows() kernel {
    gpu.return
  }
}

// -----

gpu.module @kernels {
  // expected-error @below {{'gpu.func' op expected its manifest to name the kernels before it, got {}}}
  gpu.func @f() kernel attributes {flashc.programmatic_launch, flashc.manifest = {before = [{}]}} {
    gpu.return
  }
}
