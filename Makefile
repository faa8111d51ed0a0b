PYTHON ?= python

.PHONY: check format
check:  ## what CI runs: format, lint, types, layers, tests
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy
	lint-imports
	$(PYTHON) -m pytest -n 2

format:
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .
