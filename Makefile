# Mindhold. `make help` lists the targets. Needs Python 3.11 or newer and make; uv is used when it is there.
.DEFAULT_GOAL := help
SHELL := /bin/sh

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$p; break; }; done)
VENV := .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
PY := $(BIN)/python
UV := $(shell command -v uv 2>/dev/null)
LOCKED = --require-hashes --no-deps -r

.PHONY: help index install run test test-stores test-claude test-conformance check lint types unit docs map bench bench-assistant bench-consolidate bench-stores bench-quality bench-extraction bench-capture bench-history bench-history-quality bench-rest bench-load bench-start bench-hooks lock clean

help: ## List the targets.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(VENV)/made:
	@test -n "$(PYTHON)" || { echo "Mindhold needs Python 3.11 or newer: install it, or say make PYTHON=/path/to/python."; exit 1; }
ifdef UV
	$(UV) venv --quiet --allow-existing --python "$(PYTHON)" $(VENV)
else
	$(PYTHON) -m venv $(VENV) || { echo "This Python has no venv module (on Debian: apt install python3-venv)."; exit 1; }
endif
	@touch $@

define install_locked
	$(if $(UV),$(UV) pip install --quiet --python $(PY) $(LOCKED) $(1),$(PY) -m pip install --quiet --disable-pip-version-check $(LOCKED) $(1))
endef
define install_self
	$(if $(UV),$(UV) pip install --quiet --python $(PY) --no-deps --no-build-isolation -e .,$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .)
endef

$(VENV)/runtime: $(VENV)/made requirements.lock pyproject.toml
	$(call install_locked,requirements.lock)
	$(call install_self)
	@touch $@

$(VENV)/dev: $(VENV)/runtime requirements-dev.lock
	$(call install_locked,requirements-dev.lock)
	@touch $@

install: $(VENV)/runtime ## Make .venv with mindhold in it and pull the embedding model.
	$(BIN)/mindhold models pull
	@echo "Ready: $(BIN)/mindhold --help"

run: $(VENV)/runtime ## Install if need be, then take the guided tour.
	@$(BIN)/mindhold models pull || echo "Going on without a model: recall will stand on full text alone."
	$(BIN)/mindhold demo

check: lint types unit ## Format, lint, types, architecture and unit tests; no server: under a minute.

lint: $(VENV)/dev
	$(BIN)/ruff format --quiet $(if $(CI),--check --diff,) .
	$(BIN)/ruff check .

types: $(VENV)/dev
	$(BIN)/mypy

# These open a store for each of some hundred sentences: `make test` runs them.
SLOWER = tests/unit/test_rules_*.py
unit: $(VENV)/dev
	$(PY) -m pytest -n 2 tests/architecture tests/unit --ignore-glob '$(SLOWER)'

# FEWER=postgres,mongodb,redis leaves out what needs these servers, and says so.
FEWER ?=
WITHOUT = $(if $(FEWER),--without $(FEWER),)
PYTEST = $(PY) -m pytest -n 3 --dist loadfile $(WITHOUT)
# What goes through a store, whichever it is; those left out choose their stores themselves, or have none.
ON_EVERY_STORE = tests/acceptance $(addprefix --ignore tests/acceptance/test_,$(addsuffix .py,backup_between housing migrate models_pull)) \
	$(addprefix tests/interface/test_,$(addsuffix .py,cli_maintain cli_memories http_running mcp_http mcp_sessions rest_door rest_import rest_jobs rest_memories rest_page rest_summaries rights))

# The contract once more on the same servers in other forms: of its owner, without vectors, as a replica set.
FORMS = tests/contract/test_*_forms.py
# What takes minutes: several servers on one database, what is killed at every write, backups from each store into each, and
# the assistant's tests once more without a network.
LONGER = tests/interface/test_many_servers.py tests/faults/test_capture_killed.py tests/faults/test_backup_faults.py \
	tests/acceptance/test_backup_between.py tests/assistant/test_network.py tests/interface/test_no_network.py

test: $(VENV)/dev ## Everything, on real servers: about a quarter of an hour. FEWER=postgres,mongodb,redis does without some.
	$(PYTEST) tests --ignore-glob '$(FORMS)' $(addprefix --ignore ,$(LONGER))

test-stores: $(VENV)/dev ## Every store in its other forms, and what takes long; acceptance and the doors with every home on PostgreSQL and on MongoDB: fifteen minutes.
	$(PYTEST) $(FORMS) $(LONGER)
	@for store in postgres mongodb; do case ",$(FEWER)," in \
	*,$$store,*) echo "NOT RUN: acceptance and doors on $$store (FEWER=$(FEWER))";; \
	*) echo "On $$store:"; $(PYTEST) --store $$store $(ON_EVERY_STORE) || exit 1;; \
	esac; done

docs: $(VENV)/runtime ## Write docs/TOOLS.md anew from the contracts.
	$(PY) -m mindhold.contracts.mcp.reference

map: $(VENV)/dev ## Measures the code: modules, sizes, fan-out, and what one memory passes through.
	$(PY) tools/code_map.py $(ARGS)

index: $(VENV)/runtime ## Write src/mindhold/operation_index.py anew from the declared operations.
	$(PY) tools/operation_index.py

define install_npm
	@command -v npm >/dev/null 2>&1 || { echo "This needs npm, which comes with Node.js."; exit 1; }
	@mkdir -p $(@D) && cp $(<D)/package.json $(<D)/package-lock.json $(@D)
	cd $(@D) && npm install --ignore-scripts --no-audit --no-fund --loglevel error
	@touch $@
endef

.cache/conformance/made: tests/conformance/package-lock.json
	$(install_npm)

.cache/claude/made: tests/claude/package-lock.json
	$(install_npm)

test-conformance: $(VENV)/dev .cache/conformance/made ## The protocol's official suite and inspector, from npm: two minutes.
	$(PY) -m pytest -o pythonpath=tests/interface tests/conformance/check_conformance.py tests/conformance/check_inspector.py

test-claude: $(VENV)/dev .cache/claude/made ## A real Claude Code, from npm, with a scripted model: three minutes.
	$(PY) -m pytest -o pythonpath=tests/interface tests/claude/check_claude.py tests/claude/check_capture.py tests/claude/check_plugin.py

bench: $(VENV)/dev ## Speed, side by side with peers and the floor, and upkeep. QUICK=1 for the small sizes.
	$(PY) -m benchmarks.speed $(if $(QUICK),--quick,) $(ARGS)
	$(PY) -m benchmarks.consolidation $(if $(QUICK),--quick,)
	$(PY) -m benchmarks.history $(if $(QUICK),--quick,)
	$(PY) -m benchmarks.rest $(if $(QUICK),--quick,)
	$(PY) -m benchmarks.assistant $(if $(QUICK),--quick,)

bench-assistant: $(VENV)/dev ## 100,000 memories by the assistant's tools, backups of 500 MB, five years of daily use. QUICK=1 for small sizes.
	$(PY) -m benchmarks.assistant $(if $(QUICK),--quick,) $(ARGS)

bench-rest: $(VENV)/dev ## 100,000 messages over HTTP: saved in bulk, searched by 32 clients, beside ChromaDB's server. QUICK=1 for 10,000.
	$(PY) -m benchmarks.rest $(if $(QUICK),--quick,) $(ARGS)

bench-history: $(VENV)/dev ## 1 GB of past conversations, indexed and asked, side by side with ripgrep. QUICK=1 for 100 MB.
	$(PY) -m benchmarks.history $(if $(QUICK),--quick,) $(ARGS)

bench-consolidate: $(VENV)/dev ## Upkeep of 100,000 memories, stage by stage: time and memory. QUICK=1 for 10,000.
	$(PY) -m benchmarks.consolidation $(if $(QUICK),--quick,) $(ARGS)

bench-stores: $(VENV)/dev ## The same on every store: storing, recall, migration, two servers. QUICK=1 for the small sizes.
	$(PY) -m benchmarks.stores $(if $(QUICK),--quick,) $(ARGS)

bench-quality: $(VENV)/dev ## How well contradictions are told, memories picked out, conversations found; retrieval quality on every store.
	$(PY) -m benchmarks.contradictions
	$(PY) -m benchmarks.extraction
	$(PY) -m benchmarks.history_quality
	$(PY) -m benchmarks.quality $(ARGS)

bench-history-quality: $(VENV)/dev ## Commits asked for, and the conversations that made them. ARGS="--transcripts DIR" for others.
	$(PY) -m benchmarks.history_quality $(ARGS)

bench-extraction: $(VENV)/dev ## How well memories are picked out of conversations by rules. ARGS=--show says what is wrong.
	$(PY) -m benchmarks.extraction $(ARGS)

bench-capture: $(VENV)/dev ## A transcript of 200 MB, followed and captured: speed and memory. QUICK=1 for 40 MB, ARGS=--gigabyte for 1 GB.
	$(PY) -m benchmarks.transcripts $(if $(QUICK),--quick,) $(ARGS)

bench-load: $(VENV)/dev ## 200 MCP clients at once, a minute without rest and one with pauses. QUICK=1 for ten seconds.
	$(PY) -m benchmarks.load $(if $(QUICK),--quick,) $(ARGS)

bench-start: $(VENV)/dev ## From the start of `mindhold mcp` to its first answers, with 100,000 memories.
	$(PY) -m benchmarks.start $(if $(QUICK),--quick,) $(ARGS)

bench-hooks: $(VENV)/dev ## A hook's whole process, event by event, against the bare start of Python. QUICK=1 for fewer rounds.
	$(PY) -m benchmarks.hooks $(if $(QUICK),--quick,) $(ARGS)

lock: ## Resolve the pinned versions anew (needs uv).
	@test -n "$(UV)" || { echo "make lock needs uv."; exit 1; }
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--no-emit-index-url --no-emit-find-links --group build pyproject.toml -o requirements.lock
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--no-emit-index-url --no-emit-find-links --group dev -c requirements.lock -o requirements-dev.lock

clean: ## Remove what was made here; your memories in the home folder stay.
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis benchmarks/.cache benchmarks/results
