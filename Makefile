PYTHON ?= python
# With more threads, the two processes of the tests wait for each other; without bytecode on disk, they and each process
# that a test starts would compile all files again.
PYTEST = OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(PYTHON) -m pytest -n 2 --dist loadfile --no-loadscope-reorder

MAKEFLAGS += --jobs=2  # the types are checked beside the tests, which leave a core idle where they wait

.PHONY: check docs help lint lock notebooks pages static test-fast tests types format picture native fuzz wasm
check: types tests  ## what CI runs: format, lint, types, layers, tests

static: types  ## format, lint, types and layers, without the tests

tests: native lint  ## all tests, from sources that are formatted and linted
	$(PYTEST)

types: lint  ## types and layers
	$(PYTHON) -m mypy
	lint-imports

lint:  ## format and lint, without changing a file
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .

test-fast:  ## for the loop of a developer: what takes long, such as whole trainings, is left out: about a minute of two cores
	$(PYTEST) -m "not slow"

format:  ## format the code, and fix what ruff can fix
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .

native:  ## the native engine, in the source tree; without a C compiler it is left out
	$(PYTHON) setup.py -q build_ext --inplace

wasm:  ## the native engine for browsers and node, after a change of the C code; needs ziglang from PyPI
	$(PYTHON) tools/wasm.py

fuzz:  ## the fuzz targets (fuzz/README.md), each for so many seconds: make fuzz SECONDS=60; needs clang and atheris
	PYTHON=$(PYTHON) fuzz/run.sh $(or $(SECONDS),60) $(TARGETS)

picture:  ## pages from the code and results: docs/architecture.svg and .md, docs/api.md, docs/gallery.md, docs/sample.md, docs/reference/
	$(PYTHON) docs/architecture.py
	$(PYTHON) docs/api.py
	$(PYTHON) docs/gallery.py
	$(PYTHON) docs/sample.py
	$(PYTHON) docs/reference.py

docs:  ## the site, build/site/index.html, and the model that answers in it; needs the extras docs and train
	$(PYTHON) docs/site.py

pages:  ## run the blocks of README and docs, those too that `make check` leaves out because they take long
	MIXLING_PAGES=all $(PYTHON) -m pytest tests/cli/test_pages.py

notebooks:  ## run the notebooks and store their outputs; needs the extras docs and train
	cd docs/notebooks && $(PYTHON) -m jupyter nbconvert --to notebook --execute --inplace *.ipynb

lock:  ## requirements.lock, from requirements.in and constraints.txt; needs uv from PyPI (add `ARGS=--upgrade` for newer tools)
	$(PYTHON) -m uv pip compile --quiet --universal --generate-hashes --no-annotate --python-version 3.11 $(ARGS) \
		--custom-compile-command "make lock" --constraints constraints.txt --output-file requirements.lock requirements.in

help:  ## these lines
	@sed -En 's/^([a-z-]+):[^#]*## (.*)/\1|\2/p' $(MAKEFILE_LIST) | sort | awk -F'|' '{printf "%-13s %s\n", $$1, $$2}'
