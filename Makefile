# Set-up and the call, nothing more.
#   make reproduce [PRESET=smoke|laptop|paper] [CORES=n] [GPUS=n]   everything, from scratch
#   make estimate  [PRESET=...]    jobs, arithmetic, memory and time, before anything starts
#   make verify    [PRESET=...]    verdict on every claim; fails if one breaks or a result is stale
#   make test                      all tests
#   make bench                     time of a training step beside a literal one: results/bench
#   make smoke | make paper        short for PRESET=smoke and PRESET=paper
#   make clean     [PRESET=...]    remove one preset's results
#   make lock                      pin the versions of pyproject.toml again
PRESET ?= laptop
CORES ?= $(shell getconf _NPROCESSORS_ONLN)
GPUS ?= 1
PYTHON ?= python3
SNAKEMAKE_ARGS ?=

PY := .venv/bin/python
READY := .venv/ready
export PYTHONPATH := $(CURDIR)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: reproduce estimate verify test bench smoke paper clean lock setup
.DEFAULT_GOAL := reproduce

reproduce: $(READY)
	@$(PY) -m rankattn estimate --must-run --preset '$(PRESET)' --cores $(CORES)
	@$(PY) -m rankattn.launch --cores $(CORES) --resources gpu=$(GPUS) --configfile 'config/presets/$(PRESET).yaml' $(SNAKEMAKE_ARGS)

estimate: $(READY)
	@$(PY) -m rankattn estimate --preset '$(PRESET)' --cores $(CORES)

verify: $(READY)
	@$(PY) -m rankattn verify --preset '$(PRESET)'

test: $(READY)
	@$(PY) -m pytest

bench: $(READY)
	@$(PY) -m rankattn.bench

smoke:
	@$(MAKE) reproduce PRESET=smoke

paper:
	@$(MAKE) reproduce PRESET=paper

clean: $(READY)
	@$(PY) -m rankattn clean --preset '$(PRESET)'

setup: $(READY)

$(READY): requirements.lock
	@echo "Setting up .venv (once)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version)'
	@$(PYTHON) -m venv .venv
	@$(PY) -m pip install --quiet --requirement requirements.lock
	@touch $(READY)

lock:
	@$(PYTHON) -m venv --clear .venv
	@$(PY) -m pip install --quiet '.[test,cluster]'
	@$(PY) -m pip uninstall --quiet --yes rankattn
	@$(PY) -m pip freeze --exclude pip --exclude setuptools --exclude rankattn | sed 's/+[a-z0-9.]*$$//' > requirements.lock
	@touch $(READY)
