# Everything here is plain pip and the commands that README.md shows; `make help` lists the targets.

PYTHON ?= python3
VENV ?= .venv
SITE ?= site
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

DATA ?= data

.PHONY: help install install-test quickstart test test-long test-gpu check docs docs-version release container reference vendor

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1: /p' $(MAKEFILE_LIST)

install: $(VENV)/.installed  ## a virtual environment in .venv with uedp-bench in it

install-test: $(VENV)/.installed-test  ## the same with what tests and checks need

quickstart: install  ## six mechanisms on the embedded corpus: the table, a few minutes
	$(BIN)/uedp-bench quickstart

# Tests start dozens of processes that import the package: they compile it once, whatever the shell says.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal
test: install-test  ## the test suite, one process more than there are cores
	$(PYTEST) -m "not long"

test-long: install-test  ## the tests that it leaves out: pages, data sets, stored results, kills, hostile input
	$(PYTEST) -m long

test-gpu: install-test  ## the same numbers on a GPU as on the CPU: skipped without one
	$(BIN)/python -m pytest -m gpu tests/gpu

check: install-test  ## lint, format, types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# A link or an anchor that leads nowhere is an error. Search works in the files too.
docs: $(BIN)/mkdocs  ## the documentation as a site: open site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict -d $(abspath $(SITE))

# Any environment that has the tools will do: nothing is installed into it.
$(BIN)/mkdocs:
	$(MAKE) $(VENV)/.python
	$(PIP) install -c constraints.txt -e '.[docs]'

# mike keeps each release's pages in a folder of the branch gh-pages, and adds the choice of one.
docs-version: install-test  ## the documentation of this version, beside that of others: pushes nothing
	$(PIP) install -c constraints.txt -e '.[release]'
	PATH="$(abspath $(BIN)):$$PATH" NO_MKDOCS_2_WARNING=1 mike deploy --update-aliases \
	  "$$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)" latest

release:  ## wheel and source distribution in dist/, checked; TAG must be v and the version: uploads nothing
	@[ -z "$$TAG" ] || grep -qxF "version = \"$${TAG#v}\"" pyproject.toml || \
	  { echo "TAG is $$TAG, but pyproject.toml has another version" >&2; exit 2; }
	DIST="$(abspath dist)" .ci/run wheel quickstart

container:  ## the wheel in a container of its own, with one seed of the quickstart: needs Docker
	docker build -t uedp-bench .
	docker run --rm uedp-bench quickstart --seeds 1

# PARTS=levers,reproductions runs these sets, PARTS=bloggers,quickstart these parts; DATA is the folder of data sets.
reference: install-test  ## the reference set again, with the pages and boards made of it: a night
	$(BIN)/python benchmarks/reference.py --data $(DATA) $(if $(PARTS),--parts $(PARTS))
	$(BIN)/uedp-bench leaderboard build --results leaderboard/results --out runs/leaderboard
	$(MAKE) docs

# To change a version: edit package.json there, then in that folder
# `npm install --package-lock-only --omit-lockfile-registry-resolved`, then this.
VENDORED := leaderboard/static/vendor
vendor:  ## scripts of the leaderboard's pages again, from the npm packages that their lock file pins
	@set -e; work=$$(mktemp -d); trap 'rm -rf "$$work"' EXIT; modules=$$work/node_modules; \
	cp $(VENDORED)/package.json $(VENDORED)/package-lock.json "$$work"; \
	(cd "$$work" && npm ci --ignore-scripts --no-audit --no-fund); \
	cp "$$modules/datatables.net/js/dataTables.min.js" $(VENDORED); \
	cp "$$modules/datatables.net-dt/css/dataTables.dataTables.min.css" $(VENDORED); \
	cp "$$modules/jstat/dist/jstat.min.js" $(VENDORED); \
	cp "$$modules/datatables.net/License.txt" $(VENDORED)/License-datatables.txt; \
	cmp "$$modules/datatables.net/License.txt" "$$modules/datatables.net-dt/License.txt"; \
	cp "$$modules/jstat/LICENSE" $(VENDORED)/License-jstat.txt; \
	cd $(VENDORED) && sha256sum *.js *.css License-*.txt > SHA256SUMS.txt

# Stamps: nothing is installed again until what decides the installation changes.
$(VENV)/.python:
	$(if $(shell $(PYTHON) -c 'import sys; print("ok" if sys.version_info >= (3, 11) else "")' 2>/dev/null),,\
	  $(error uedp-bench needs Python 3.11 or newer, and $(PYTHON) is $(or $(shell $(PYTHON) -c 'import sys; print(sys.version.split()[0])' 2>/dev/null),missing): name another, as in: make install PYTHON=python3.12))
	$(if $(shell $(PYTHON) -c 'import ensurepip, venv; print("ok")' 2>/dev/null),,\
	  $(error $(PYTHON) has no venv module: install it first (Debian and Ubuntu: apt install python3-venv)))
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/.python
	$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/.installed-test: pyproject.toml constraints.txt | $(VENV)/.python
	$(PIP) install -c constraints.txt -e '.[test]'
	@touch $@ $(VENV)/.installed
