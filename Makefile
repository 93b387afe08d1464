# Every target makes what it needs from python3 and pip alone; `make` lists them.
PYTHON ?= python3
VENV ?= .venv
RAY_VENV ?= .venv-ray
RAY ?= ray==2.60.0
BIN := $(VENV)/bin
# Twice quiet: errors only.
PIP := -m pip install --quiet --quiet --disable-pip-version-check --no-input

.DEFAULT_GOAL := help
.PHONY: help demo retrieval test browser faketime test-deepspeed attack check lint typecheck tidy format bench bench-ray soak conformance-ray docs site clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' Makefile

$(VENV)/.made:
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# What is required alone, and what draws a progress bar: for other interpreters than the one of the whole suite.
$(VENV)/.core: $(VENV)/.made pyproject.toml
	@echo "setting up $(VENV) with what is required"
	@$(BIN)/python $(PIP) --editable . 'rich>=13'
	@touch $@

$(VENV)/.demo: $(VENV)/.made pyproject.toml
	@echo "setting up $(VENV) for the demo"
	@$(BIN)/python $(PIP) --editable '.[demo]'
	@touch $@

$(VENV)/.dev: $(VENV)/.made pyproject.toml
	@echo "setting up $(VENV) for development"
	@$(BIN)/python $(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.demo $(VENV)/.retrieval

$(RAY_VENV)/.made: pyproject.toml
	@echo "setting up $(RAY_VENV) with $(RAY)"
	@$(PYTHON) -m venv $(RAY_VENV)
	@$(RAY_VENV)/bin/python $(PIP) '$(RAY)' '.[dev]' polars
	@$(RAY_VENV)/bin/python -m pip uninstall --quiet --yes skate
	@touch $@

demo: $(VENV)/.demo  ## from text to an answering model: data, training, serving; ARGS="--keep" leaves the server and its page
	@$(BIN)/python examples/main_job $(ARGS)

$(VENV)/.retrieval: $(VENV)/.demo pyproject.toml
	@echo "setting up $(VENV) for the retrieval example"
	@$(BIN)/python $(PIP) --editable '.[retrieval]'
	@touch $@

retrieval: $(VENV)/.retrieval  ## ask Python's documentation: retriever, reranker, generator and a page; ARGS='--question "..."'
	@$(BIN)/python examples/retrieval $(ARGS)

test: $(VENV)/.dev  ## the whole test suite; ARGS="-k actor -x" goes to pytest
	@$(BIN)/python -m pytest $(ARGS)

browser:  ## install Chromium and its driver, which the tests of pages need (Debian, as root)
	@if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing chromium and chromium-driver"; \
		apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
			chromium chromium-driver >/dev/null; \
	else \
		echo "the tests of pages need 'chromium' and 'chromedriver' on the path; on Debian: sudo apt-get install chromium chromium-driver"; \
		exit 1; \
	fi

faketime:  ## install libfaketime, which the tests of jumping clocks need (Debian, as root)
	@if ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing libfaketime"; \
		apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
			libfaketime >/dev/null; \
	else \
		echo "the tests of jumping clocks need libfaketime; on Debian: sudo apt-get install libfaketime"; \
		exit 1; \
	fi

# DeepSpeed is built without its operators; those that a test needs are compiled once, into a folder that is kept.
$(VENV)/.deepspeed: $(VENV)/.dev
	@echo "setting up $(VENV) for DeepSpeed"
	@$(BIN)/python $(PIP) setuptools wheel ninja py-cpuinfo hjson einops
	@DS_ACCELERATOR=cpu DS_BUILD_OPS=0 $(BIN)/python $(PIP) --no-build-isolation 'deepspeed>=0.16'
	@touch $@

test-deepspeed: $(VENV)/.deepspeed  ## the tests that train with DeepSpeed, on CPUs; the first run compiles for a minute
	@PATH="$(abspath $(BIN)):$$PATH" DS_ACCELERATOR=cpu TORCH_EXTENSIONS_DIR=$(abspath .torch_extensions) \
		$(BIN)/python -m pytest -m deepspeed tests/train tests/mission $(ARGS)

attack: $(VENV)/.dev  ## the long attacks: rolling updates under clients that cut and pipeline, and others
	@$(BIN)/python -m pytest -m attack tests/attack $(ARGS)

check: lint typecheck tidy  ## lint, types and the tidy test

lint: $(VENV)/.dev  ## ruff: style and format
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet . || { echo 'make format mends this'; exit 1; }

typecheck: $(VENV)/.dev  ## mypy --strict on src
	@$(BIN)/mypy --no-error-summary

tidy: $(VENV)/.dev  ## sizes, import arrows and bans
	@$(BIN)/python -m pytest --quiet tests/test_tidy.py

format: $(VENV)/.dev  ## let ruff rewrite what it can
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format --quiet .

bench: $(VENV)/.dev  ## the table of figures, drawn too; beside Ray once bench-ray was run; ARGS="--only actors"
	@mkdir -p benchmarks/results
	@$(BIN)/python -m benchmarks --json benchmarks/results/last.json --plot benchmarks/results/last.svg $(ARGS)

bench-ray: $(RAY_VENV)/.made bench  ## install real Ray in an environment of its own, then the table

conformance-ray: $(RAY_VENV)/.made  ## the conformance tests against real Ray
	@SKATE_CONFORMANCE_TARGET=ray $(RAY_VENV)/bin/python -m pytest tests/conformance $(ARGS)

soak: $(VENV)/.dev  ## everything again and again while memory and tables are watched; ARGS="--minutes 10 --seed 3"
	@$(BIN)/python -m benchmarks.soak $(ARGS)

docs: $(VENV)/.dev  ## check every link and run every code block of the documents
	@$(BIN)/python -m pytest --quiet tests/test_docs.py tests/docs

$(VENV)/.site: $(VENV)/.dev pyproject.toml
	@echo "setting up $(VENV) for the documentation site"
	@$(BIN)/python $(PIP) --editable '.[site]'
	@touch $@

site: $(VENV)/.site  ## build the documentation with search and reference into site/; open site/index.html
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -d build/doctrees docs site
	@SKATE_SITE=$(abspath site) $(BIN)/python -m pytest --quiet tests/docs/test_site.py

clean:  ## remove the environments and everything that tools left
	@rm -rf $(VENV) $(RAY_VENV) .venv-3.* .torch_extensions .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist site
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
