# Everything here is plain pip and the commands that README.md shows; `make help` lists the targets.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help install install-test quickstart test check

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1: /p' $(MAKEFILE_LIST)

install: $(VENV)/.installed  ## a virtual environment in .venv with uedp-bench in it

install-test: $(VENV)/.installed-test  ## the same with what tests and checks need

quickstart: install  ## five mechanisms on the embedded corpus: the table, a few minutes
	$(BIN)/uedp-bench quickstart

test: install-test  ## the test suite, one process a core
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

check: install-test  ## lint, format, types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# Stamps: nothing is installed again until what decides the installation changes.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(if $(shell $(PYTHON) -c 'import sys; print("ok" if sys.version_info >= (3, 11) else "")' 2>/dev/null),,\
	  $(error uedp-bench needs Python 3.11 or newer, and $(PYTHON) is $(or $(shell $(PYTHON) -c 'import sys; print(sys.version.split()[0])' 2>/dev/null),missing): name another, as in: make install PYTHON=python3.12))
	$(if $(shell $(PYTHON) -c 'import ensurepip, venv; print("ok")' 2>/dev/null),,\
	  $(error $(PYTHON) has no venv module: install it first (Debian and Ubuntu: apt install python3-venv)))
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(PIP) install -c constraints.txt -e '.[test]'
	@touch $@
