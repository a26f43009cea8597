# Every task of the project. `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help setup compile demo test test-one lint fmt type prove bench-portal bench-start bench-gate bench-levels reference clean

PYTHON ?= python3
BIN := .venv/bin
# Which tests `make test-one` runs, and how `make demo` ends.
T ?= tests/unit
KEEP ?=

help: ## List the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: ## Make .venv with the engine's CPU build (about two minutes; at once if it is up to date)
	@$(PYTHON) scripts/setup

compile: setup ## Compile what a request passes through (by itself before demo, test, prove and bench-portal)
	@$(BIN)/python -m scripts.compile_portal

demo: setup compile ## Serve a model from zero on a real engine and prove it (under 8 minutes; KEEP=1 leaves it serving)
	@KEEP=$(KEEP) $(BIN)/python -m demo.run

test: setup lint type compile ## All checks: style, import arrows, types, tests, coverage of the core
	@$(BIN)/python -m scripts.gated

test-one: setup ## One test or folder: make test-one T=tests/unit/core
	@$(BIN)/pytest $(T)

lint: setup ## Style and import arrows
	@$(BIN)/ruff format --check . scripts/setup
	@$(BIN)/ruff check . scripts/setup
	@$(BIN)/lint-imports

fmt: setup ## Rewrite the files in the project's style
	@$(BIN)/ruff format . scripts/setup
	@$(BIN)/ruff check --fix . scripts/setup

type: setup ## mypy --strict
	@$(BIN)/mypy

prove: setup compile ## The long proofs, and the table of what they showed (about an hour; ARGS=--help)
	@$(BIN)/python -m scripts.prove $(ARGS)

bench-portal: setup compile ## The portal against HAProxy and Caddy, about 6 minutes (ARGS=--quick: one; ARGS=--help)
	@PYTHONPATH=load-tests $(BIN)/python -m portal $(ARGS)

bench-start: setup ## Our starts against stock vLLM's, about 25 minutes (ARGS=--quick: three; ARGS=--help)
	@PYTHONPATH=load-tests $(BIN)/python -m start $(ARGS)

bench-gate: setup ## What the gate inside the engine costs, about a minute (ARGS=--help)
	@PYTHONPATH=load-tests $(BIN)/python -m gate $(ARGS)

bench-levels: setup ## What each optimization level costs a start and gives an answer, about 5 minutes (ARGS=--help)
	@PYTHONPATH=load-tests $(BIN)/python -m levels $(ARGS)

reference: setup ## Write docs/reference and manifests/crds from the code
	@$(BIN)/python -m scripts.crds
	@$(BIN)/python -m scripts.reference

clean: ## Remove what demo and checks left behind (not .venv)
	@rm -rf .demo .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
	@find activator_ext runtime demo scripts tests -name __pycache__ -type d -prune -exec rm -rf {} +
