# Every target makes its own virtual environment: a fresh machine needs make and Python >= 3.11.
#   make demo    trains a small network four ways and compares them
#   make test    the whole test suite
#   make lint    ruff, mypy, and the generated files
#   make bench   what an import, small operations and larger work cost
#   make oracle  PyTorch (CPU) beside the environment, for what compares with it
#   make browser chromium, for the tests that look at pages (Debian and Ubuntu, as root or by sudo)
PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python
ORACLE := torch==2.13.0+cpu

.DEFAULT_GOAL := help
.PHONY: help demo test lint format bench oracle browser clean

help:
	@sed -n 's/^#   //p' Makefile

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Ember needs Python 3.11 or newer; name one: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
		{ rm -rf $(VENV); echo "No virtual environment (on Debian: apt install python3-venv)"; exit 1; }

# A stamp for each set of packages: while it is newer than pyproject.toml nothing is installed.
$(VENV)/.has-%: pyproject.toml | $(PY)
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

demo: $(VENV)/.has-demo
	$(PY) examples/demo.py

test: $(VENV)/.has-test
	$(PY) -m pytest -n 2 $(ARGS)

lint: $(VENV)/.has-lint
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) tools/gen_api.py --check

format: $(VENV)/.has-lint
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

bench: $(VENV)/.has-test
	$(PY) benchmarks/overhead.py
	$(PY) benchmarks/cpu.py

# The CPU build by its exact name: an index without it says so, instead of sending CUDA libraries.
oracle: .oracle/torch/version.py
.oracle/torch/version.py: | $(PY)
	$(PY) -m pip install --quiet --disable-pip-version-check --target .oracle '$(ORACLE)'

# Nothing to do where there is a browser already; Ubuntu's package of this name is only a snap.
APT := apt-get -qq -o DPkg::Lock::Timeout=120
browser:
	@for name in chromium chromium-browser google-chrome chrome; do \
		command -v $$name >/dev/null && exit 0; \
	done; \
	sudo=; [ "$$(id -u)" = 0 ] || sudo="sudo -n"; \
	$$sudo $(APT) update && $$sudo env DEBIAN_FRONTEND=noninteractive \
		$(APT) install -y --no-install-recommends chromium

clean:
	rm -rf $(VENV) .oracle build *.egg-info .mypy_cache .pytest_cache .ruff_cache examples/output
