# The Makefile of an unpacked distribution: the tests that need a GPU. Needs Python 3 with PyTorch, no LLVM.
#
#   make gpu-test    every kernel of the grid in gpu_check.py against a float32 reference

export PYTHONPATH := $(CURDIR)/python$(if $(PYTHONPATH),:$(PYTHONPATH))
export FLASHC_LIBRARY := $(CURDIR)/lib/libflashc.so

.PHONY: gpu-test
gpu-test:
	python3 utils/gpu_check.py --flashc bin/flashc
