"""The tracer: masks and scores written in Python become MLIR. The entry point is `trace.trace`."""
