# Every target builds .venv by itself, and only when pyproject.toml or constraints.txt changed.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
OUT ?= out
METHODS := grad-l2,grad-x-input,integrated-gradients,attention-avg,occlusion,lime
DEMO := the selection on the menu is great and so is the food the service is not bad prices are fine

# One test process more than cores: some tests wait for a browser or a socket. torch keeps to one thread in each.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')
PYTEST := OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1 $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-real mutants lint security format bench docs dist labs lab-seeds serve zoo clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | awk -F'\t' '{printf "  make %-10s %s\n", $$1, $$2}'

.venv/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("heedful needs Python 3.11 or newer; this is %s. Try: make PYTHON=python3.12 ..." % sys.version.split()[0])'
	@echo "making .venv" >&2
	@$(PYTHON) -m venv .venv

.venv/.core: .venv/pyvenv.cfg pyproject.toml constraints.txt
	@echo "installing heedful (once; a minute or two)" >&2
	@$(PIP) -e .
	@touch $@

.venv/.dev: .venv/.core
	@echo "installing test tools (once)" >&2
	@$(PIP) -e '.[dev]'
	@touch $@

.venv/.bench: .venv/.core
	@$(PIP) -e '.[bench]'
	@touch $@

# inseq needs an older typeguard than the test tools: its own environment, with heedful beside it.
.venv/.inseq: .venv/.core
	@echo "making an environment for inseq (once)" >&2
	@$(PYTHON) -m venv .venv/rivals/inseq
	@.venv/rivals/inseq/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e . captum inseq==0.7.1
	@touch $@

# sae-lens needs an older transformer-lens, and a torchvision that does not load beside a CPU torch.
.venv/.saelens: .venv/.core
	@echo "making an environment for SAELens and dictionary-learning (once)" >&2
	@$(PYTHON) -m venv .venv/rivals/saelens
	@grep -E '^(torch|transformers|numpy)==' constraints.txt > .venv/rivals/saelens.txt
	@.venv/rivals/saelens/bin/python -m pip install --quiet --disable-pip-version-check -c .venv/rivals/saelens.txt -e . sae-lens==6.54.12 dictionary-learning==0.1.0
	@.venv/rivals/saelens/bin/python -m pip uninstall --quiet --yes torchvision
	@touch $@

.venv/.docs: .venv/.core
	@$(PIP) -e '.[docs]'
	@touch $@

demo: .venv/.core  ## explain a prediction of the embedded model and write out/demo.html
	@mkdir -p $(OUT)
	@$(BIN)/heedful explain "$(DEMO)" --model zoo:sentiment --method $(METHODS) --html $(OUT)/demo.html

test: .venv/.dev  ## the whole quick test suite
	@$(PYTEST) -n $(WORKERS) --dist worksteal -m "not slow and not real"

test-all: .venv/.dev  ## the quick tests and the long proofs, every type checked as they run
	@$(PYTEST) -n $(WORKERS) --dist worksteal -m "not real" --jaxtyping-packages=heedful,beartype.beartype

test-real: .venv/.dev  ## tests on real weights, which are pulled first (about 400 MB)
	@$(BIN)/heedful zoo pull --all
	@$(PYTEST) -m real

mutants: .venv/.dev  ## plant bugs one at a time; the tests must catch each
	@$(BIN)/python tests/mutants.py

lint: .venv/.dev  ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

# pip-audit asks a server for known vulnerabilities: it runs where it is installed and the server answers.
security: .venv/.dev  ## ruff's security rules over src, and pip-audit where it can run
	@$(BIN)/ruff check --config security.toml src
	@if $(BIN)/python -c 'import pip_audit' 2>/dev/null; then $(BIN)/python -m pip_audit --requirement constraints.txt --no-deps --disable-pip; else echo "pip-audit is not installed: known vulnerabilities of packages were not looked up" >&2; fi

format: .venv/.dev  ## let ruff rewrite what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: .venv/.bench .venv/.inseq .venv/.saelens  ## side by side with rivals, ratios to bench/results and docs/benchmarks.md
	@$(BIN)/python -m bench

docs: .venv/.docs  ## build the docs site into site/
	@$(BIN)/python docs/generate.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html" >&2

# The wheel is built from the sdist, so an sdist that lacks a file fails here.
dist: .venv/.dev  ## build the sdist and the wheel into dist/
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation --outdir dist .

labs: .venv/.dev  ## run every lab in full and write docs/labs (an hour and a half on two cores)
	@$(BIN)/python docs/write_labs.py

SEEDS ?= 20
lab-seeds: .venv/.dev  ## run every lab with --fast under SEEDS seeds that nobody chose; goes on where it stopped; in the background: nohup make lab-seeds SEEDS=3 &
	@$(BIN)/python docs/run_lab_seeds.py --seeds $(SEEDS); code=$$?; $(BIN)/python docs/write_labs.py --list; exit $$code

.venv/.serve: .venv/.core
	@$(PIP) -e '.[serve]'
	@touch $@

serve: .venv/.serve  ## open the page of the embedded models on http://127.0.0.1:8765
	@$(BIN)/heedful serve zoo:sentiment zoo:lm

zoo: .venv/.dev  ## train the embedded models again (hours on two cores)
	@$(BIN)/python zoo/train_one_layer.py
	@$(BIN)/python zoo/train_sentiment.py
	@$(BIN)/python zoo/train_lm.py
	@$(BIN)/python zoo/train_sae.py
	@$(BIN)/python zoo/train_digits_vit.py
	@$(BIN)/python zoo/train_tiny_clip.py

clean:  ## remove what the targets made, .venv included
	@rm -rf .venv $(OUT) dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
