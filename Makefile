# make demo    set everything up and see the sandbox work
# make test    set everything up and pass every test: this is what CI runs
# make check   what to run while working: lint, types, architecture and unit tests
# All paths are relative, so that the tree may stand in a directory with spaces in its name.

.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
LINUX := enforce/(bubblewrap|disk|enact|enactor|linux|process|streams|cgroup|terminal|shelf|standby|opened).py
UNIT := $(wildcard tests/test_*.py tests/model tests/policy tests/plan)

.PHONY: help demo check test lint types unit format bench fuzz schema setup setup-test clean

help:
	@sed -n 's/^# //p' Makefile | head -n 3

setup:
	@sh scripts/setup run

setup-test:
	@sh scripts/setup test

demo: setup
	@$(BIN)/python examples/demo.py

check: lint types unit

# Three at a time, each file as a whole, the dear ones first (tests/conftest.py): two fifths of it is waiting. Five hundred
# runs at once have the machine and a process to themselves.
test: lint types
	$(PYTEST) tests/test_start.py
	$(PYTEST) -n 3 --dist loadfile --no-loadscope-reorder --ignore=tests/test_start.py --cache-clear || $(BIN)/python scripts/again $$?

lint: setup-test
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .

# Both at once: each has one process, and a cache of its own.
types: setup-test
	$(BIN)/python -m mypy --platform linux --cache-dir .mypy_cache/linux & linux=$$!; \
	$(BIN)/python -m mypy --platform darwin --cache-dir .mypy_cache/darwin --exclude '$(LINUX)' src; darwin=$$?; \
	wait $$linux && exit $$darwin

unit: setup-test
	$(PYTEST) -m "not slow" $(UNIT)

format: setup-test
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

bench: setup-test
	$(BIN)/python bench/run.py

# Every property test, with many more examples than usual.
fuzz: setup-test
	$(PYTEST) -m hypothesis --hypothesis-profile=fuzz --timeout=3600

# Whatever is asked of the service, it does not fail.
schema: setup-test
	RINGFENCE_SCHEMA_EXAMPLES=60 $(PYTEST) -s tests/tenants/test_schema.py

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -f src/ringfence/enforce/enact src/ringfence/enforce/enact.sha256
