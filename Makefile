# make help lists the targets. PYTHON chooses the interpreter that makes .venv: make demo PYTHON=python3.12
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:  # an interrupted .venv is made again

# The same versions inside pip's build environment: older pips hand PIP_CONSTRAINT on to it, newer ones read PIP_BUILD_CONSTRAINT.
INSTALL := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help demo test hosts oldest lint docs links bench house format clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/installed  ## install, then compare four protocols on a network of 20 nodes
	$(BIN)/kernelswarm compare examples/quickstart.toml

# Files go to one process whole: what a file has made once serves all of its tests. Where the environment forbids to
# keep compiled modules, each of hundreds of processes, Ray's actors among them, would compile all of them again.
PROCESSES ?= 3
test: $(VENV)/installed-dev  ## run the tests, in three processes, one of which mostly waits for Ray; more: make test PROCESSES=5
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q -n $(PROCESSES) --dist loadfile --no-loadscope-reorder --durations=10

# Not in CI: Ray's own deadlines decide how long it takes, two minutes on an idle machine and ten on a busy one.
hosts: $(VENV)/installed-dev  ## run a cluster on three hosts in network namespaces, cut one off, and lose its head
	KERNELSWARM_HOSTS=1 $(BIN)/python -m pytest -q -rs tests/simulations/engine/test_hosts.py

# Not in CI, where they would take as long once more: whoever changes a bound in pyproject.toml runs it.
oldest:  ## run the tests with the oldest libraries that pyproject.toml allows, in .venv-oldest
	"$(PYTHON)" -m venv --clear .venv-oldest
	sed -n '/^dependencies/,/^]/s/^    "\([a-z-]*\)>=\([0-9.]*\).*/\1==\2/p' pyproject.toml > .venv-oldest/constraints.txt
	PIP_CONSTRAINT=.venv-oldest/constraints.txt .venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	PYTHONDONTWRITEBYTECODE= .venv-oldest/bin/python -m pytest -q -n $(PROCESSES) --dist loadfile --no-loadscope-reorder

lint: $(VENV)/installed-dev  ## check style (ruff), types (mypy --strict) and prose (docs/prose.toml)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/project/test_prose.py

docs: $(VENV)/installed-docs  ## write the documentation site to build/docs; a warning is an error
	$(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --quiet docs build/docs
	@echo "the site: build/docs/index.html"

# Not in CI: what others took down is no fault of a change. Examples are not run, and the gallery's pages are read all the same.
links: $(VENV)/installed-docs  ## look up every link out of the documentation; build/links/output.txt lists them
	$(BIN)/python -m sphinx --builder linkcheck -D plot_gallery=0 --keep-going --quiet docs build/links

format: $(VENV)/installed-dev  ## rewrite the code in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/installed  ## run the benchmarks
	@set -e; for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file; done

house: $(VENV)/installed  ## count folders, files, lines, imports, syntax nodes and words; a report that fails nothing
	@$(BIN)/python benchmarks/house.py

clean:  ## remove what these targets made, except runs/
	rm -rf $(VENV) .venv-oldest build dist docs/api docs/gallery docs/parts docs/stories *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@command -v "$(PYTHON)" >/dev/null || { \
	  echo "make: there is no '$(PYTHON)' on the PATH: install Python 3.11 or newer, or name one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 2; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: $$("$(PYTHON)" --version 2>&1) is too old, kernelswarm needs 3.11 or newer; name another: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 2; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "make: '$(PYTHON)' comes without venv or pip: install them (on Debian and Ubuntu: the package python3-venv)" >&2; exit 2; }
	"$(PYTHON)" -m venv --clear $(VENV)

$(VENV)/installed: $(BIN)/python pyproject.toml constraints.txt
	@echo "installing kernelswarm into $(VENV): 300 MB to download, 1.1 GB on disk; about a minute once pip has them cached"
	@$(INSTALL) --editable .
	@touch $@

$(VENV)/installed-dev: $(BIN)/python pyproject.toml constraints.txt
	@echo "installing kernelswarm with its test tools into $(VENV): 380 MB to download, 1.5 GB on disk; about a minute once pip has them cached"
	@$(INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/installed

$(VENV)/installed-docs: $(BIN)/python pyproject.toml constraints.txt
	@echo "installing kernelswarm with its documentation tools into $(VENV): 320 MB to download, 1.2 GB on disk; about a minute once pip has them cached"
	@$(INSTALL) --editable '.[docs]'
	@touch $@ $(VENV)/installed
