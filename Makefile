# Penstock's few commands. Each sets up what it needs in .venv and says what it does.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TESTS := $(VENV)/.installed-dev
ARGS ?=
# Tests wait for brokers and timeouts more than they compute.
WORKERS ?= $(shell expr 2 \* `nproc`)

.PHONY: help serve test fast check bench bench-groups bench-transactions bench-spark fmt clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

serve: $(STAMP) ## Run a broker on 127.0.0.1:9092 (ARGS="--listen HOST:PORT --data DIR ..." to change that)
	@$(BIN)/penstock serve $(ARGS)

test: $(TESTS) ## Run every test; what the machine lacks is installed where that is possible, else said
	@sh tests/prepare.sh
	@$(BIN)/python -m pytest -q -n $(WORKERS) $(ARGS)

fast: $(TESTS) ## Run the tests that take a moment, without the slow ones
	@$(BIN)/python -m pytest -q -n $(WORKERS) -m "not slow and not oracle" $(ARGS)

check: $(TESTS) ## Lint, check the format and the types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: $(TESTS) ## Compare the broker with Apache Kafka (needs Java and Maven; ARGS="--quick" for a short run)
	@$(BIN)/python -m benchmarks.broker --out benchmarks/results/broker.json $(ARGS)

bench-groups: $(TESTS) ## Compare consumer groups: commits, heartbeats, the first message (needs Java and Maven)
	@$(BIN)/python -m benchmarks.groups --out benchmarks/results/groups.json $(ARGS)

bench-transactions: $(TESTS) ## Compare transactions: their cost, and what is left of the throughput (needs Java and Maven)
	@$(BIN)/python -m benchmarks.transactions --out benchmarks/results/transactions.json $(ARGS)

bench-spark: $(TESTS) ## Compare Spark's reads and writes with those of its own Kafka connector (needs Java and Maven)
	@$(BIN)/python -m benchmarks.spark --out benchmarks/results/spark.json $(ARGS)

fmt: $(TESTS) ## Put the code in order
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean: ## Remove everything that was built or installed here
	rm -rf $(VENV) .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -f src/penstock/wire/kernel*.so src/penstock/wire/kernel*.c

$(VENV)/bin/python:
	@echo "Penstock: making a Python environment in $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Penstock needs Python 3.11 or newer; this is $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "The environment could not be made. On Debian: apt install python3-venv"; exit 1; }

$(STAMP): pyproject.toml setup.py $(wildcard src/penstock/wire/kernel*.py) | $(VENV)/bin/python
	@echo "Penstock: installing (a minute the first time)"
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[client]'
	@touch $@

$(TESTS): $(STAMP)
	@echo "Penstock: installing what the tests need"
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]'
	@touch $@
