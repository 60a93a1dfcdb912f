"""Arrays of any framework: how they are described, allocated, and checked for shared memory."""
