SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Processes of pytest. Two cores are worth five of them: most of the API-server suite waits.
UNIT_WORKERS ?= 2
APISERVER_WORKERS ?= 3

.PHONY: help install fmt lint binaries images crds test unit apiserver alone test-lies test-long e2e e2e-long prove prove-quick cluster-up cluster-down demo test-manifests test-schedules bench bench-evenings bench-quick bench-check bench-weeks bench-robustness bench-decisions bench-plan bench-scale bench-capacity bench-engine bench-telemetry bench-sharing bench-tenants clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

$(VENV)/.installed: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@

install: $(VENV)/.installed ## make .venv with .venv/bin/forebay

fmt: install ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: install ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

crds: install ## write crds/, the chart's copy and docs/api.md from the models
	$(BIN)/forebay crds --output crds --output charts/forebay/files/crds --docs docs/api.md

test: install ## lint, types, layers, unit, property, simulation, and the API-server suite (no root needed)
	@.ci/beside lint binaries
	@.ci/beside unit apiserver
	@.ci/beside alone

binaries: install ## build what the clusters consist of, once per machine, with progress
	$(BIN)/python -m e2e.harness build

images: install ## build the operator's image and the simulated engine's, as root or with Docker
	$(BIN)/python -m e2e.harness images

unit: install ## unit, property and simulation tests
	$(BIN)/pytest -n $(UNIT_WORKERS) -m "not alone" tests

apiserver: install ## the suite on a real API server: a control plane of its own for each process of pytest
	$(BIN)/pytest -n $(APISERVER_WORKERS) --dist loadfile --no-loadscope-reorder -m "not alone" e2e/apiserver e2e/telemetry

alone: install ## tests of both that measure time or look at the whole machine
	$(BIN)/pytest -m alone tests e2e/apiserver

e2e: install ## the full cluster suite on two real nodes, as root
	$(BIN)/pytest --durations=12 e2e/cluster

# What CI repeats less often, as often as a release asks for. The file is replaced when all of it has passed.
LONG := e2e/results/long.txt
LONG_FIGURES := FOREBAY_QUIET_TICKS=720 FOREBAY_SCALE_UP_STEPS=20 FOREBAY_STREAMS=2000 FOREBAY_OPERATOR_KILLS=20 \
  FOREBAY_SCALE_DOWNS=10 FOREBAY_ROLLOUTS=3
LONG_TESTS := e2e/apiserver/test_operator_fleet.py e2e/cluster/test_scale_up.py e2e/cluster/test_no_stream_is_cut.py

e2e-long: install ## before a release, as root: quiet ticks, steps, streams and kills in full, into e2e/results/long.txt
	@mkdir -p $(dir $(LONG))
	@set -o pipefail; { \
	  echo "Forebay $$($(BIN)/pip show forebay | sed -n 's/^Version: //p'), commit $$(git describe --always --dirty)," \
	    "$$(date --utc +%F)"; \
	  echo "$(LONG_FIGURES)"; \
	  $(LONG_FIGURES) $(BIN)/pytest --no-header --color=no -rP $(LONG_TESTS); \
	} | tee $(LONG).new
	@mv $(LONG).new $(LONG)

prove: install ## plant faults in a copy; the guarding tests must turn red
	$(BIN)/python -m prove

prove-quick: install ## the same for a dozen faults, in a minute
	$(BIN)/python -m prove --quick

cluster-up: install ## start a cluster: two real nodes as root, else a control plane with KWOK
	$(BIN)/python -m e2e.harness up

cluster-down: install ## stop it and clean what it left
	$(BIN)/python -m e2e.harness down

demo: install ## a cluster, the operator, real traffic: replicas ahead of the load, a scheduled window, drained
	$(BIN)/python -m e2e.demo

test-manifests: install ## forebay plan on 10,000 random manifests: a refusal in words or a plan
	FOREBAY_MANIFESTS=10000 $(BIN)/pytest tests/cli/plan/test_plan_manifests.py

test-schedules: install ## 10,000 schedules around clock changes: floor by the minute, ready by start or AtRisk
	FOREBAY_SCHEDULES=10000 $(BIN)/pytest tests/schedules/test_schedule_minutes.py tests/planner/test_schedule_loop.py

test-lies: install ## 100,000 random lies of metrics, and 1,000 in the closed loop: never over bounds, never down on doubt
	FOREBAY_LIES=100000 $(BIN)/pytest tests/planner/test_hostile_signals.py tests/simulation/cluster/test_hostile_loop.py

test-long: install ## the property tests that take longest, with three times the examples of make test
	FOREBAY_SCHEDULES=300 FOREBAY_HISTORIES=25 $(BIN)/pytest -n $(UNIT_WORKERS) tests/schedules/test_schedule_minutes.py \
	  tests/planner/test_schedule_loop.py tests/planner/test_properties.py

bench: bench-evenings bench-weeks bench-robustness ## Forebay beside other systems' rules: make bench TRACES=DIR

bench-evenings: install ## suites A to F, request by request
	$(BIN)/python -m bench.policies --traces $(TRACES)

bench-weeks: install ## suite B over weeks, in the fluid model: make bench-weeks TRACES=DIR
	$(BIN)/python -m bench.weeks --traces $(TRACES)

bench-robustness: install ## other cold starts and engines on the excerpt: does the ranking survive?
	$(BIN)/python -m bench.robustness

bench-quick: install ## the same on the excerpt in examples/, in minutes
	$(BIN)/python -m bench.policies

bench-check: install ## play the excerpt and fail when bench/results/quick.json is not what this code gives
	$(BIN)/python -m bench.policies --check

bench-decisions: install ## does this checkout decide as COMMIT does? every call, status and event: make bench-decisions COMMIT=REV
	$(BIN)/python -m bench.decisions --against $(COMMIT)

bench-plan: install ## CPU seconds of plan() for 1,000 services of 10 pods, against COMMIT in the same run
	$(BIN)/python -m bench.plan_cost --against $(COMMIT)

# Sizes, ticks and traffic: make bench-scale SCALE="--sizes 50x10 --ticks 20"
bench-scale: install ## the operator beside 1,000 to 10,000 KWOK pods on a real API server, into docs/scale.md; no root
	$(BIN)/python -m bench.scale $(SCALE)

bench-capacity: install ## the capacity model against published rows, into docs/capacity.md
	$(BIN)/python -m bench.capacity

bench-engine: install ## requests a second of the simulated engine, against a step-by-step one
	$(BIN)/python -m bench.engine

bench-telemetry: install ## the metrics parser against prometheus_client's
	$(BIN)/python -m bench.telemetry

bench-sharing: install ## CPU seconds of dividing 100 models among 10,000 tenants each, into bench/results/sharing.json
	$(BIN)/python -m bench.sharing

bench-tenants: install ## how much longer plan() takes for 1,000 services when 100 TenantQuotas divide them
	$(BIN)/python -m bench.tenant_cost

clean: ## remove what the targets made inside the checkout
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis operator/*.egg-info
