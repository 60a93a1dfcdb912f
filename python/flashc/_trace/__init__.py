"""Masks and scores written in Python, as code of MLIR: `trace.trace` is where it begins."""
