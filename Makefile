# The verbs. `make run` and `make test` set up whatever they need, also on a fresh machine.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
WORKERS ?=
ARGS   ?=

.PHONY: help install run demo test quick proof bench lint format clean
help:            ## what can be made
	@grep -E '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed 's/: *[^#]*##/\t/' | expand -t 12

$(VENV)/.ready: pyproject.toml
	@echo "setting up $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

install: $(VENV)/.ready   ## a virtual environment with everything a developer needs

run: install     ## real vLLM on this CPU and Rejoinder in front of it; or in front of yours: WORKERS="http://a:8000 http://b:8000"
	@$(BIN)/python deploy/vllm/run.py $(foreach worker,$(WORKERS),--worker $(worker)) $(ARGS)

demo: install    ## simulated workers, real cache: in seconds
	@$(BIN)/rejoinder demo $(ARGS)

lint: install    ## ruff, mypy --strict, the floors of the house
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: install  ## let ruff lay the code out
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .

test: install lint   ## what CI runs: unit, contract, property, journeys, real vLLM, real Valkey, real embedder, real Chromium
	@bash deploy/vllm/install.sh
	@bash deploy/vllm/models.sh tiny
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; }
	@REJOINDER_LIVE=1 $(BIN)/python -m pytest -m "not proof" $(ARGS)

quick: install   ## the tests that need no vLLM
	@$(BIN)/python -m pytest -m "not proof and not live" $(ARGS)

proof: install   ## the full counts and soaks: 100 kills, long outages
	@REJOINDER_LIVE=1 REJOINDER_KILLS=100 $(BIN)/python -m pytest -m proof --timeout=3600 -s $(ARGS)

bench: install   ## hits and misses beside bare aiohttp, in one run (needs wrk)
	@command -v wrk >/dev/null || { apt-get update -qq && apt-get install -y -qq wrk; }
	@$(BIN)/python tests/bench/speed.py $(ARGS)

clean:           ## remove what was built here
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
