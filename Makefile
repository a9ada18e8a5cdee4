# The commands of this repository. CMake does the work (see CMakePresets.json); this file only says what to run.

FORTUNES := /usr/share/games/fortunes
MINUTES ?= 5
# `make build CUDA=ON` or CUDA=OFF says it; else a build has CUDA where there are a GPU and a compiler for it.
CUDA ?= $(if $(and $(wildcard /dev/nvidia0),$(shell command -v nvcc)),ON,OFF)

.PHONY: help build test docs test-docs demo build-bench bench bench-quick figures format sanitize fuzz faults

help:
	@echo 'make demo      train a small language model on the texts of Debian'"'"'s fortunes for $(MINUTES) minutes,'
	@echo '               where and in what it is fastest'
	@echo 'make test      build everything and run all tests'
	@echo 'make docs      write the reference site to build/site (open build/site/index.html)'
	@echo 'make test-docs look at the site with a browser: every link, searches, pictures of pages in build/site-pictures'
	@echo 'make bench     measure against PyTorch on this machine (fetches it from PyPI)'
	@echo 'make bench-quick  short forms of some, to see where one stands; keeps nothing'
	@echo 'make figures   write the figures of the documentation from benchmarks/results'
	@echo 'make sanitize  run the tests under the address, undefined-behaviour and thread sanitizers'
	@echo 'make fuzz      run the fuzz targets of tests/fuzz, a minute each'
	@echo 'make faults    kill training a hundred times and fail every write of it: it always resumes'
	@echo 'make format    format the sources'

build:
	@tools/install_packages build
	cmake --preset release -DDECKLE_CUDA=$(CUDA)
	cmake --build --preset release

demo: build
	@tools/install_packages demo
	run=runs/demo-$$(date +%Y%m%d-%H%M%S) && \
	build/release/deckle train --text $(FORTUNES) --minutes $(MINUTES) --run $$run --device auto --dtype auto && \
	build/release/deckle sample $$run --length 2000 --texts 0 --words --device auto --dtype auto

# With a compiler for CUDA but without a GPU its kernels are only compiled: for one architecture.
test:
	@tools/install_packages build test site
	cmake --preset dev $(if $(wildcard /dev/nvidia0),,$(if $(shell command -v nvcc),-DDECKLE_CUDA_ARCHITECTURES=80))
	cmake --build --preset dev
	ctest --preset dev

# The generator alone, without the library: its tree of the ops is what the site is made from.
docs:
	@tools/install_packages generator site docs
	cmake -S opgen -B build/opgen -G Ninja -DCMAKE_BUILD_TYPE=Release
	cmake --build build/opgen
	mkdir -p build/site
	build/opgen/opgen site --root . --functions ops/functions.yaml \
	  --entries $(filter-out ops/functions.yaml ops/instances.yaml,$(wildcard ops/*.yaml)) > build/opgen/ops.json
	tools/site/build --ops build/opgen/ops.json --out build/site

test-docs: docs
	@tools/install_packages test-docs
	tests/site/browser build/site build/site-pictures

# What the benchmarks need: their packages, the texts of the demo, their programs.
build-bench: build
	@tools/install_packages bench demo
	cmake -DDECKLE_BUILD_BENCHMARKS=ON build/release
	cmake --build --preset release

bench: build-bench
	benchmarks/run

bench-quick: build-bench
	benchmarks/run --quick

figures:
	benchmarks/figures

sanitize:
	@tools/install_packages build test site sanitize
	tools/sanitize

fuzz:
	@tools/install_packages build test sanitize
	cmake --preset dev
	cmake --build --preset dev --target fuzzers
	tests/fuzz/run build/dev

# The long form of the test faults_training: a hundred kills, and every write fails.
faults:
	@tools/install_packages build test
	cmake --preset dev
	cmake --build --preset dev --target deckle_cli failing_writes
	DECKLE_KILLS=100 ctest --preset dev -R '^faults_training$$' -V

format:
	@tools/install_packages format
	git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs $$(command -v clang-format-14 || command -v clang-format) -i
