# An environment that is active, or a Python that is named, is used as it is; else `make` makes .venv, with pinned versions.
GOALS = $(or $(MAKECMDGOALS),check)
EXTRAS = $(if $(filter docs notebooks,$(GOALS)),dev$(COMMA)docs,$(if $(filter-out demo,$(GOALS)),dev,base))
COMMA = ,
ifneq ($(PYTHON)$(VIRTUAL_ENV)$(CONDA_PREFIX),)
PYTHON ?= python
SETUP = $(PYTHON) tools/environment.py --active $(EXTRAS)
else
PYTHON = .venv/bin/python
SETUP = python3 tools/environment.py $(EXTRAS)
export PATH := $(CURDIR)/.venv/bin:$(PATH)
endif
# With more threads, the two processes of the tests wait for each other; without bytecode on disk, they and each process
# that a test starts would compile all files again.
PYTEST = OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(PYTHON) -m pytest -n 2 --dist loadfile --no-loadscope-reorder

C_FILES = $(wildcard src/mixling/native/*.[ch] src/mixling/browser/*.[ch] \
	$(foreach folder,linear texts training vectors,src/mixling/native/$(folder)/*.[ch]))

MAKEFLAGS += --jobs=2  # the types are checked beside the tests, which leave a core idle where they wait

.PHONY: base browser-tests check coverage demo docs help lint lock notebooks pages setup release static test-fast tests types format picture native fuzz wasm
check: base types tests  ## what CI runs: format, lint, types, layers, tests, and tests of an install without extras

demo: native  ## trains on sample data, shows what the model does, and writes a page to try it
	$(PYTHON) -m mixling demo --overwrite

setup:  ## what all others need, in .venv
	@command -v python3 >/dev/null || { echo "error: mixling needs Python 3.11 or later; there is no python3" >&2; exit 1; }
	@$(SETUP)

base: native  ## without PyTorch, in an environment of its own: .venv-base
	@python3 tools/environment.py --base
	PYTHONDONTWRITEBYTECODE= .venv-base/bin/python -m pytest -p no:cacheprovider tests/cli/test_base_install.py tests/golden

static: types  ## format, lint, types and layers, without the tests

tests: native lint  ## all tests, from sources that are formatted and linted
	$(PYTEST)

types: lint  ## types and layers
	$(PYTHON) -m mypy
	lint-imports

lint: setup  ## format and lint, without changing a file; C where clang-format is installed
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	@if command -v clang-format >/dev/null; then clang-format --dry-run -Werror $(C_FILES); fi

test-fast: setup  ## for the loop of a developer: what takes long, such as whole trainings, is left out: about a minute of two cores
	$(PYTEST) -m "not slow"

browser-tests: setup  ## the pages in Chromium (apt-get install chromium); needs playwright and axe-playwright-python from PyPI
	OMP_NUM_THREADS=1 $(PYTHON) -m pytest -m browser

coverage: setup  ## which lines the fast tests run, as a report for people: build/coverage/index.html; needs coverage from PyPI
	OMP_NUM_THREADS=1 $(PYTHON) -m coverage run --source=mixling --data-file=build/coverage.data -m pytest -m "not slow"
	$(PYTHON) -m coverage html --data-file=build/coverage.data -d build/coverage

format: setup  ## format the code, and fix what ruff can fix
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .
	@if command -v clang-format >/dev/null; then clang-format -i $(C_FILES); fi

native: setup  ## the C core, in the source tree, by the machine's C compiler or by Zig's
	$(PYTHON) setup.py -q build_ext --inplace

wasm: setup  ## the native engine for browsers and node, after a change of the C code; needs ziglang from PyPI
	$(PYTHON) tools/wasm.py

fuzz: setup  ## the fuzz targets (fuzz/README.md), each for so many seconds: make fuzz SECONDS=60; needs clang and atheris
	PYTHON=$(PYTHON) fuzz/run.sh $(or $(SECONDS),60) $(TARGETS)

picture: setup  ## pages from the code and results: docs/architecture.svg and .md, docs/gallery.md, docs/sample.md, docs/reference/
	$(PYTHON) tools/docs/architecture.py
	$(PYTHON) tools/docs/gallery.py
	$(PYTHON) tools/docs/sample.py
	$(PYTHON) tools/docs/reference.py

docs: setup  ## the site, build/site/index.html, and the model that answers in it; needs the extras docs and dev
	$(PYTHON) tools/docs/site.py

pages: setup  ## run the blocks of README and docs, those too that `make check` leaves out because they take long
	MIXLING_PAGES=all $(PYTHON) -m pytest tests/cli/test_pages.py

release: setup  ## sdist, wheels of all systems, SBOM and checksums in dist/, tried; needs build and ziglang==0.17.1 from PyPI
	$(PYTHON) tools/release.py

notebooks: setup  ## run the notebooks and store their outputs; needs the extras docs and dev
	$(PYTHON) -m nbconvert --to notebook --execute --inplace docs/notebooks/*.ipynb

lock:  ## requirements.lock, from requirements.in and constraints.txt; needs uv from PyPI (add `ARGS=--upgrade` for newer tools)
	$(PYTHON) -m uv pip compile --quiet --universal --generate-hashes --no-annotate --python-version 3.11 $(ARGS) \
		--custom-compile-command "make lock" --constraints constraints.txt --output-file requirements.lock requirements.in

help:  ## these lines
	@sed -En 's/^([a-z-]+):[^#]*## (.*)/\1|\2/p' $(MAKEFILE_LIST) | sort | awk -F'|' '{printf "%-13s %s\n", $$1, $$2}'
