# Everything runs in .venv, made on first use with the versions that requirements/ locks.
#   make demo    watch real clients talk to an embedded cluster
#   make test    lint, types and the unit tests

VENV   := .venv
BIN    := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# The locks name every package, so pip resolves nothing: it would ask the index for the newest version of a package that
# another one wants with an extra, and refuse it for want of a hash.
INSTALL_LOCKED := $(INSTALL) --require-hashes --no-deps
FUZZ_SECONDS ?= 30
SOAK_MINUTES ?= 30
PACKAGE ?= captures/tcp
MUTATION_SAMPLE ?= 100
MUTATION_SEED ?= 1
PYTEST ?= $(BIN)/python -m pytest --durations 20
SYSTEM = $(PYTEST) -m system --timeout 1500
ALONE = test $$? -eq 1 && $(SYSTEM) -n 0 --last-failed --last-failed-no-failures none

# Processes that tests start would compile their modules each time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test unit test-system bench soak fuzz mutation torture schema schema-check docs site lint types format coverage lock clean

help:
	@sed -n 's/^#   //p' Makefile
	@echo "also: unit test-system bench soak fuzz mutation torture schema schema-check docs site lint types format coverage lock clean"

# --- the environment ---

$(BIN)/python:
	@python=$$(tools/find-python) && $$python -m venv $(VENV)

# What is compiled (NAME.py with the C types of NAME.pxd) is made again when its source changes.
TYPES := $(wildcard */*.pxd */*/*.pxd */*/*/*.pxd)
$(VENV)/.runtime: requirements/runtime.txt pyproject.toml setup.py $(TYPES) $(TYPES:.pxd=.py) | $(BIN)/python
	@echo "installing what kproxy needs into $(VENV)"
	@$(INSTALL_LOCKED) -r requirements/runtime.txt
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.runtime
	@echo "installing what developing takes into $(VENV)"
	@$(INSTALL_LOCKED) -r requirements/dev.txt
	@touch $@

# --- using it ---

demo: $(VENV)/.runtime
	@$(BIN)/kproxy demo $(DEMO)

# --- judging it ---

test: lint types unit

# Tests of a file share what they set up, so they stay in one process.
unit: $(VENV)/.dev
	$(PYTEST) -n logical --dist loadfile -m "not system" $(TESTS)

coverage: $(VENV)/.dev
	$(PYTEST) -m "not system" --cov --cov-report=term

# Fuzz (FUZZ_SECONDS for each target), then what needs Java, Maven, tshark or network namespaces.
# Those in tests/system start clusters, so only two of their files run at once; the others take all cores.
# Two clusters on two cores delay each other, so tests that failed (exit code 1) run once more without others beside them.
test-system: fuzz
	$(SYSTEM) -n 2 --dist loadfile $(or $(TESTS),tests/system) || { $(ALONE) $(or $(TESTS),tests/system); }
	$(if $(TESTS),,$(SYSTEM) -n logical --dist loadfile --ignore tests/system || { $(ALONE) --ignore tests/system; })

fuzz: $(VENV)/.dev
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) $(if $(FUZZ_SEED),--seed $(FUZZ_SEED))

bench: $(VENV)/.dev
	$(BIN)/python -m bench

# Whether relay and indexer keep their memory at the rate that two cores give, and the relay with twenty rules while
# clients and brokers leave at any moment; prints the curves.
soak: $(VENV)/.dev
	$(BIN)/python -m bench.soak --minutes $(SOAK_MINUTES)
	$(BIN)/python -m bench.soak_rules

# What five clients do in the scenarios of kproxy torture, against a real cluster; writes docs/torture.md. By hand: minutes.
torture: $(VENV)/.dev
	$(BIN)/python -m tests.torture

# Which changes of a package's source no test notices. By hand: it takes minutes, and cosmic-ray (pip install cosmic-ray).
mutation: $(VENV)/.dev
	$(BIN)/python -m tools.mutation $(PACKAGE) $(TESTS) --sample $(MUTATION_SAMPLE) --seed $(MUTATION_SEED)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# --- keeping it ---

schema: $(VENV)/.dev
	$(BIN)/python -m tools.schema.update

schema-check: $(VENV)/.dev
	$(BIN)/python -m tools.schema.check

docs: $(VENV)/.dev
	$(BIN)/python -m tools.docs
	$(BIN)/python -m tools.screens

# The pages as a site, in the folder site; a warning, such as a link that leads nowhere, ends it.
site: $(VENV)/.dev
	$(BIN)/zensical build --strict

# Newest versions that pyproject.toml allows, with their hashes.
LOCK = $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header \
	--no-emit-index-url --annotation-style line --quiet $(UPGRADE) --extra demo --extra full --group build

lock: $(VENV)/.dev
	@$(INSTALL) uv
	$(LOCK) --extra otel --extra parquet --extra report --extra spark --extra java --extra web --extra mcp --extra control --group test --group lint --group site --group bench -o requirements/dev.txt
	$(LOCK) -c requirements/dev.txt -o requirements/runtime.txt

clean:
	rm -rf build dist *.egg-info */*/_*.so .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .import_linter_cache
