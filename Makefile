# Two commands make a working house: `make run` and `make test`. Each sets up what it needs.
# Python >= 3.11, git and make are all that must be there.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: run test judge picture chaos bench bench-million lint format lock help base dev

CANDIDATES := python3.11 python3 python3.12 python3.13 python3.14
IS_NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in $(CANDIDATES); do \
	"$$python" -c "$(IS_NEW_ENOUGH)" 2>/dev/null && echo "$$python" && exit; done; echo python3)
BIN := .venv/bin
ARGS ?=

run: base  ## Start the whole house with a sample digest; Ctrl-C stops it
	@$(BIN)/python -m digest up $(ARGS)

test: dev  ## Run every test, on SQLite and on real PostgreSQL and Redis servers
	$(BIN)/python -m pytest -n auto -m "not judge" $(ARGS)

judge: dev  ## Ask independent judges: browser, axe, HTML checker, spam filters, mailauth, caniemail (JUDGE=full for all)
	JUDGE="$${JUDGE:-short}" $(BIN)/python -m pytest -m judge tests/judge $(ARGS)

picture: dev  ## Take the picture in the README anew (needs Chromium)
	$(BIN)/python -m tests.judge.readme

chaos: dev  ## Break everything a delivery stands on, for a quarter of an hour, and count what arrives
	$(BIN)/python -m tests.chaos $(ARGS)

bench: dev  ## Measure speed and memory (ARGS="--full" for the large sizes, or a name)
	$(BIN)/python -m tests.bench $(ARGS)

bench-million: dev  ## Publish and deliver a million digests with real workers, and time both
	$(BIN)/python -m tests.bench.workers 1000000 100000 2000

lint: dev  ## Check style, types and the floors of the house
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: dev  ## Lay the code out
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

lock:  ## Resolve the dependencies anew (maintainers; needs uv)
	$(UV) pyproject.toml -o requirements/base.txt
	$(UV) --extra test --extra lint pyproject.toml -o requirements/dev.txt

# A lock carries no address: what a machine's own pip is set up with must not leak into it.
UV := env -u PIP_FIND_LINKS PIP_CONFIG_FILE=/dev/null uv pip compile --quiet --no-config --universal \
	--python-version 3.11 --generate-hashes --no-header

base dev:
	@$(PYTHON) requirements/install.py $@

help:  ## List these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile
