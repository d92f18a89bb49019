.DEFAULT_GOAL := help
UV := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)
RUN := $(UV) run --frozen
OURS := postroom blocks flows workers cli deployments tests # compiled once: every run and every part is a process

.PHONY: help setup up down test check format chaos chaos-changes bench docs clean
help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

.uv/bin/uv:
	python3 -m venv .uv && .uv/bin/pip install --quiet uv

setup: $(if $(findstring .uv,$(UV)),.uv/bin/uv) ## everything that the other commands need
	@$(UV) sync --frozen --quiet --compile-bytecode
	@$(RUN) python -m compileall -q $(OURS)
	@$(RUN) python -m deployments.setup

up: setup ## the whole post room on this machine; Ctrl-C stops it
	@$(RUN) postroom up

down: ## stop a post room that was started with --detach
	@$(RUN) postroom down

test: setup ## all tests
	@$(RUN) pytest -n 2 --dist loadscope --no-loadscope-reorder $(PYTEST)

check: setup ## lint, format, types, arrows
	@$(RUN) ruff check .
	@$(RUN) ruff format --check .
	@$(RUN) mypy
	@$(RUN) pytest -q -p no:randomly tests/test_arrows.py

format: setup ## put the code in order
	@$(RUN) ruff check --fix .
	@$(RUN) ruff format .

chaos: setup ## faults for MINUTES (10), and an account of what became of the mails
	@$(RUN) python -m tests.faults.chaos --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED))

chaos-changes: setup ## one change to 2,000 people of 30 customers, with faults and kills of its worker
	@POSTROOM_TEST_RECIPIENTS=$(or $(RECIPIENTS),2000) POSTROOM_TEST_CUSTOMERS=$(or $(CUSTOMERS),30) \
		$(RUN) pytest -q tests/faults/test_change_kills.py

bench: setup ## measure against peers; writes docs/benchmarks.md
	@$(RUN) python -m benchmarks

docs: setup ## pages that are made from the code
	@$(RUN) python -m cli.docs

clean: ## forget caches and environments (the data of `up` stays)
	@rm -rf .venv .uv .pytest_cache .mypy_cache .ruff_cache .hypothesis
