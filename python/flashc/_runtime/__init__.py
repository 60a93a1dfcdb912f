"""The library through its C API: specializations, the kernels of this process, and launches."""
