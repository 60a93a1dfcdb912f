"""What is passed to a kernel: arrays of any framework, described, allocated, checked for shared memory."""
