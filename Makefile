# Two commands set up all they need: `make run` and `make test`.
# Python >= 3.11, git and make are all that must be there.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: run test test-all mutants coverage judge letters pages picture pilot chaos bench bench-million trace lint size words format lock licences first-day help base dev

CANDIDATES := python3.11 python3 python3.12 python3.13 python3.14
IS_NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in $(CANDIDATES); do \
	"$$python" -c "$(IS_NEW_ENOUGH)" 2>/dev/null && echo "$$python" && exit; done; echo python3)
BIN := .venv/bin
ARGS ?=
# The tests start hundreds of commands: each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE
SEED ?= $(shell git rev-parse --short HEAD)

run: base  ## Start the whole service with a sample digest; Ctrl-C stops it
	@$(BIN)/python -m digest up $(ARGS)

test: dev  ## Run the tests of every promise, on SQLite and on real PostgreSQL and Redis servers
	$(BIN)/python -m pytest -n auto -m "not judge and not whole" $(ARGS)

test-all: dev  ## Run every test on both databases, with more examples, installations and coverage
	$(BIN)/python -m pytest -n auto -m "not judge" --every-database --hypothesis-profile=many --timeout=3600 $(ARGS)
	$(MAKE) coverage

mutants: dev  ## Put 40 faults into code that promises rest on, and report what make test catches (ARGS="--checkout DIR" compares)
	$(BIN)/python -m tests.mutants $(ARGS)

# Tests of values need no database: those that run on one are named after it.
PURE_TESTS := $(addprefix tests/,topics papers editions letters bounces dumps \
	test_addresses.py test_bitsets.py test_caches.py test_links.py \
	$(addprefix inbound/test_,command_lines.py mail_commands.py mail_corpus.py reply_tokens.py sender_proof.py) \
	$(addprefix delivery/test_limit,s.py _rules.py er.py))

coverage: dev  ## Check that the tests take every branch of the pure modules
	$(BIN)/coverage run --branch --include="$$($(BIN)/python -m tests.lint.pure_modules)" \
		-m pytest -q -n 0 --hypothesis-profile=ci -m "not slow and not judge" -k "not sqlite and not postgresql" \
		$(PURE_TESTS)
	$(BIN)/coverage json -q -o - | $(BIN)/python -m tests.lint.branch_coverage

judge: dev  ## Ask independent judges: browser, axe, HTML checker, spam filters, mailauth, caniemail (JUDGE=full for all)
	JUDGE="$${JUDGE:-short}" $(BIN)/python -m pytest -m judge tests/judge $(ARGS)

letters: dev  ## Write a page with every letter in every form (ARGS=--pictures updates the docs' pictures, too)
	$(BIN)/python -m tests.judge.letter_gallery $(ARGS)

pages: dev  ## Take the pictures of the pages in the docs again (needs Chromium and Node.js)
	$(BIN)/python -m tests.judge.page_pictures

picture: dev  ## Take the picture in the README again (needs Chromium)
	$(BIN)/python -m tests.judge.readme_picture

pilot: dev  ## Run a service for sixty simulated days on both databases, and compare its mail with what README and docs promise
	$(BIN)/python -m tests.pilot $(ARGS)

chaos: dev  ## Kill processes and servers for a quarter of an hour, and count what arrives
	$(BIN)/python -m tests.chaos $(ARGS)

bench: dev  ## Measure speed and memory (ARGS="--full" for the large sizes, or a name)
	$(BIN)/python -m tests.bench $(ARGS)

bench-million: dev  ## Publish and deliver a million digests with real workers, and time both
	$(BIN)/python -m tests.bench.workers 1000000 100000 2000

trace: dev  ## Follow one dump, one reader and one digest through the code, and count the files on the way
	$(BIN)/python -m tests.bench.trace

licences: base  ## Write docs/licences.md, the licences of all dependencies
	$(BIN)/python requirements/licences.py docs/licences.md

first-day: dev  ## Write docs/first-day.md, the screens of an operator's first day (needs tmux)
	$(BIN)/python -m tests.judge.first_day

lint: dev  ## Check style, types, plain words and the order of packages
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.lint.plain_words
	$(BIN)/python -m tests.lint.entry_points
	$(BIN)/python -m tests.lint.units_of_work
	$(BIN)/python -m tests.lint.process_state
	$(BIN)/python -m tests.lint.clock_calls

size: dev  ## Count code lines, statements and modules of each package (ARGS=CHECKOUT counts another)
	@$(BIN)/python -m tests.lint.size $(ARGS)

words: dev  ## Draw sixty sentences for an editor to read (SEED=... chooses which)
	@$(BIN)/python -m tests.lint.draw_sentences "$(SEED)"

format: dev  ## Format the code
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

lock:  ## Resolve the dependencies again (maintainers; needs uv)
	$(UV) pyproject.toml -o requirements/base.txt
	$(UV) --extra test --extra lint pyproject.toml -o requirements/dev.txt

# A lock carries no address: what a machine's own pip is set up with must not leak into it.
UV := env -u PIP_FIND_LINKS PIP_CONFIG_FILE=/dev/null uv pip compile --quiet --no-config --universal \
	--python-version 3.11 --generate-hashes --no-header

base dev:
	@$(PYTHON) requirements/install.py $@

help:  ## List these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile
