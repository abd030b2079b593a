SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help install fmt lint crds test e2e prove cluster-up cluster-down demo test-manifests test-schedules bench bench-evenings bench-quick bench-check bench-weeks bench-robustness bench-capacity bench-engine bench-telemetry clean

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

test: lint ## lint, types, layers, unit, property, simulation, and the API-server suite (no root needed)
	$(BIN)/pytest tests
	$(BIN)/pytest e2e/apiserver e2e/telemetry

e2e: install ## the full cluster suite on two real nodes, as root
	$(BIN)/pytest e2e/cluster

prove: install ## plant faults in a copy; the guarding tests must turn red
	$(BIN)/python -m prove

cluster-up: install ## start a cluster: two real nodes as root, else a control plane with KWOK
	$(BIN)/python -m e2e.harness up

cluster-down: install ## stop it and clean what it left
	$(BIN)/python -m e2e.harness down

demo: install ## a cluster, the operator, real traffic, scaling up and down, drained
	$(BIN)/python -m e2e.demo

test-manifests: install ## forebay plan on 10,000 random manifests: a refusal in words or a plan
	FOREBAY_MANIFESTS=10000 $(BIN)/pytest tests/cli/test_plan_manifests.py

test-schedules: install ## 10,000 schedules around clock changes: floor by the minute, ready by start or AtRisk
	FOREBAY_SCHEDULES=10000 $(BIN)/pytest tests/schedules/test_schedule_minutes.py tests/planner/test_schedule_loop.py

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

bench-capacity: install ## the capacity model against published rows, into docs/capacity.md
	$(BIN)/python -m bench.capacity

bench-engine: install ## requests a second of the simulated engine, against a step-by-step one
	$(BIN)/python -m bench.engine

bench-telemetry: install ## the metrics parser against prometheus_client's
	$(BIN)/python -m bench.telemetry

clean: ## remove what the targets made inside the checkout
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis operator/*.egg-info
