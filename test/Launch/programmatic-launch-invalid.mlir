// RUN: %vary %s | flashc-opt --tile-programmatic-launch --split-input-file --verify-diagnostics

gpu.module @kernels {
  gpu.func @f() kernel attributes {flashc.launch = {schema = "flashc.manifest", version = 1, kernel = "f", target = "sm_90a",
                          arguments = [], parameters = [], overlap = true,
                          before = [{kernel = "f_rows", parameters = [], grid = ["1", "1", "1"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0},
                                    {kernel = "f_order", parameters = [], grid = ["1", "1", "1"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0}],
                          grid = ["1", "1", "1"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0}} {
    gpu.return
  }
  gpu.func @f_rows() kernel {
    gpu.return
  }
  gpu.func @f_order() kernel {
    gpu.return
  }
}

// VARY other_kernel
//   gpu.func @f() | error: 'gpu.func' op expected a kernel 'f_order' that its launch names
//   gpu.func @f_order => gpu.func @f_other
// VARY no_name
//   gpu.func @f() | error: 'gpu.func' op 'flashc.launch': missing value at manifest.kernel
//   kernel = "f", =>
// VARY work_tiles
//   gpu.func @f() | error: 'gpu.func' op 'flashc.launch': work_tiles: grid formula '': expected an integer, argK.dimN, sm_count
//   overlap = true, => work_tiles = ["1"],

// -----

gpu.module @kernels {
  // expected-error @below {{'gpu.func' op 'flashc.launch': manifest: expected the schema flashc.manifest}}
  gpu.func @f() kernel attributes {flashc.launch = 1.0 : f32} {
    gpu.return
  }
}
