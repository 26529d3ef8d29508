# Every target sets up what it needs: a virtual environment from the lock, and through `lab prepare` the real
# dependencies (a Debian root with Slurm, an AWS emulator, an OIDC provider), once, in a cache outside this tree.
PYTHON ?= python3
UV_VERSION := 0.13.8
VENV := .venv
BIN := $(VENV)/bin
MEMBERS := $(wildcard libs/* services/*) planner-tools lab
# Most of a test is waiting for a real thing. A file's tests share their servers.
TEST_PROCESSES ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) * 3 / 2)))
# What the demo's workers are: processes of this machine, or pods of a real node of Kubernetes on it.
SUBSTRATE ?= process
PREPARED := $(if $(filter kubernetes,$(SUBSTRATE)),prepare-kubernetes,prepare)
MEMBER_FILES := $(MEMBERS:%=%/pyproject.toml)

.PHONY: help demo up down status test test-histories test-chaos record-jobs lint bench-cost bench-parameters bench-planner bench-latency bench-edge docs lock clean prepare prepare-kubernetes
.DEFAULT_GOAL := help

help: ## Say what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

$(VENV)/.installed: requirements.lock pyproject.toml $(MEMBER_FILES)
	@echo "==> Python environment in $(VENV) (once, and after changes of the lock)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 12))' || { \
	  echo "Python 3.12 or newer is needed; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)."; \
	  echo "Name another one: make PYTHON=/path/to/python3.13 ..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv pip sync --quiet --require-hashes --compile-bytecode requirements.lock
	@VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv pip install --quiet --no-deps $(addprefix -e ,$(MEMBERS))
	@$(BIN)/python -m compileall -q $(MEMBERS:%=%/src)
	@touch $@

# Real Slurm takes root. Who is not root borrows it from a container engine.
ifeq ($(shell id -u),0)

prepare: $(VENV)/.installed ## Build or download what the lab needs, once, into the cache
	@$(BIN)/lab prepare

demo: $(PREPARED) ## Real jobs from HTTP to workers that did not exist, and back to zero; writes demo.json (SUBSTRATE=kubernetes)
	@$(BIN)/lab demo --substrate $(SUBSTRATE)

up: $(PREPARED) ## Start everything on this machine and stay; Ctrl-C ends it (SUBSTRATE=kubernetes)
	@$(BIN)/lab up --substrate $(SUBSTRATE)

down: $(VENV)/.installed ## End what `make up` started, whatever became of it
	@$(BIN)/lab down

status: $(VENV)/.installed ## Say what of the lab runs
	@$(BIN)/lab status

prepare-kubernetes: $(VENV)/.installed ## Also build the programs of Kubernetes, once (14 minutes; needs Go)
	@$(BIN)/lab prepare --kubernetes

test: prepare-kubernetes ## All tests, on real NATS, DynamoDB, OIDC, Slurm and Kubernetes
	@$(BIN)/pytest -q -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder --max-worker-restart 0

test-histories: prepare ## The scale-down rule against 200 random queues, on a model and on Slurm; all examples of other properties (HISTORIES=N, HISTORIES_SEED=N)
	@HISTORIES=$${HISTORIES:-200} $(BIN)/pytest -q services/scaler/tests libs/runtime/tests/test_dynamodb.py tests/test_scale_down.py

test-chaos: prepare-kubernetes ## The Kubernetes edge in random trouble (CHAOS_SEED=N, CHAOS_STEPS=N)
	@CHAOS_STEPS=$${CHAOS_STEPS:-500} $(BIN)/pytest -q -s services/edge-agent/tests/test_kubernetes_chaos.py

record-jobs: prepare ## What Slurm says of each kind of waiting job, again, into tests/recorded/jobs.json (2 minutes)
	@$(BIN)/python tests/record_jobs.py

bench-latency: prepare ## Time from a submit to its worker and its run, against Slurm's own power saving
	@$(BIN)/python bench/latency.py

bench-edge: prepare-kubernetes ## The Kubernetes edge: time to acceptance, memory and CPU with 7500 workers
	@$(BIN)/python bench/edge.py

else

prepare prepare-kubernetes demo up down status test test-histories test-chaos record-jobs bench-latency bench-edge:
	@lab/in-container $@

endif

bench-cost: $(VENV)/.installed ## What the scaler's policies cost on a trace, by a lower bound (TRACE=FILE.swf SHAPES=FILE.yaml)
	@$(if $(and $(TRACE),$(SHAPES)),,echo "say which: make bench-cost TRACE=FILE.swf SHAPES=FILE.yaml"; exit 1;) \
	  $(BIN)/python bench/cost.py $(TRACE) $(SHAPES)

bench-parameters: $(VENV)/.installed ## How near the packing's parameters are to the best for a trace's halves (TRACE and SHAPES as above, 6 minutes)
	@$(if $(and $(TRACE),$(SHAPES)),,echo "say which: make bench-parameters TRACE=FILE.swf SHAPES=FILE.yaml"; exit 1;) \
	  $(BIN)/python bench/parameters.py $(TRACE) $(SHAPES)

bench-planner: $(VENV)/.installed ## How fast the planner is, and its plans by the proved cheapest (7 minutes)
	@$(BIN)/python bench/planner.py

lint: $(VENV)/.installed ## Formatting, lint, imports, types, and that generated files are up to date
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet .
	@found=$$($(BIN)/lint-imports --config import-linter.toml --no-cache --no-logo 2>&1) || { echo "$$found"; exit 1; }
	@for package in $(MEMBERS) images tests bench; do $(BIN)/mypy --no-error-summary $$package || exit 1; done
	@$(BIN)/python -m clusterra_contracts.bus.asyncapi | diff -u docs/asyncapi.json - || { echo "run 'make docs'"; exit 1; }
	@$(BIN)/python -m clusterra_edge_agent.kubernetes.manifests check || { echo "run 'make docs'"; exit 1; }
	@$(BIN)/mypy --no-error-summary tools
	@$(BIN)/python tools/settings_page.py | diff -u docs/operations/settings.md - || { echo "run 'make docs'"; exit 1; }
	@$(BIN)/python tools/link_check.py

docs: $(VENV)/.installed ## Make the generated documents again
	@$(BIN)/python -m clusterra_contracts.bus.asyncapi > docs/asyncapi.json
	@$(BIN)/python -m clusterra_edge_agent.kubernetes.manifests write
	@$(BIN)/python tools/settings_page.py > docs/operations/settings.md

lock: $(VENV)/.installed ## Resolve the dependencies again
	@$(BIN)/uv lock --quiet --upgrade
	@$(BIN)/uv export --quiet --all-packages --all-groups --no-emit-workspace --no-header -o requirements.lock

clean: ## Remove the environment; the cache stays
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
