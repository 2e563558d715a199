# What a developer and the build server run. Everything works twice, and from a bare machine.

BIN := .venv/bin
PACKAGES := runner/rackbench tasks/rackbench_tasks harnesses/rackbench_harnesses results/rackbench_results

.DEFAULT_GOAL := help
.PHONY: help venv machine demo test test-all lint bench clean

help:  ## Say what there is.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv:  ## Make .venv with rackbench and its tools; done again when pyproject.toml changes.
	@bash runner/rackbench/setup/venv.sh .venv

machine: venv  ## Docker daemon, compose, base image, engine and small model, whatever is missing of them.
	@$(BIN)/rackbench doctor --fix docker --fix compose --fix base-image --fix engine

demo: machine  ## Run the shipped tasks, with a real small model behind a real engine.
	$(BIN)/rackbench run demo.yaml

lint: venv  ## Style, types, layers, dependencies.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy $(PACKAGES)
	$(BIN)/lint-imports
	$(BIN)/deptry $(PACKAGES)

test: machine lint  ## The same checks, then every test but the slow ones.
	$(BIN)/pytest -m "not slow" --durations=40

test-all: machine lint  ## The same checks, then every test.
	$(BIN)/pytest

bench: machine  ## Measure speed.
	$(BIN)/python tests/bench/run.py

clean:  ## Remove what was built here; results, images and the engine stay.
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist *.egg-info
	find runner tasks harnesses results tests -name __pycache__ -type d -prune -exec rm -rf {} +
