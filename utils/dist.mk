# The Makefile of an unpacked distribution: the tests that need a GPU. Needs Python 3 with PyTorch and numpy, no LLVM.
#
#   make gpu-test    every kernel of the grid in gpu_check.py against a float32 reference
#   make gpu-bench   speed beside the other libraries' kernels; writes gpu-bench.csv

.PHONY: gpu-test gpu-bench
gpu-test:
	python3 utils/gpu_check.py --flashc bin/flashc

gpu-bench:
	python3 utils/gpu_check.py --flashc bin/flashc --bench gpu-bench.csv
