"""The library through its C API: what a kernel is compiled for, the kernels of this process, and launches."""
