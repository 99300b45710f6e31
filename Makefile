# Everything here sets itself up: a fresh machine needs Python 3.11+ and make, nothing else.
#
#   make demo    real flights through a Kafka broker, windowed by SQL, live in the terminal (ends by itself)
#   make test    all tests, properties at a seeded sample
#   make prove   all tests, properties at their full counts (long)
#   make bench   every benchmark, as a table; appended to benchmarks/results.jsonl
#   make lint    ruff: style and format
#   make types   mypy --strict
#   make clean   remove what the above made

VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST_ARGS ?=

.PHONY: demo test prove bench lint types format plans clean help
.DEFAULT_GOAL := help

help:
	@sed -n 's/^#   //p' Makefile

# The newest supported Python that is there; STREAMLINE_PYTHON names another.
$(STAMP): pyproject.toml
	@set -e; found=''; \
	supported='import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))'; \
	for python in $$STREAMLINE_PYTHON python3.13 python3.12 python3.11 python3 python; do \
		if "$$python" -c "$$supported" >/dev/null 2>&1; then found="$$python"; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
		echo "streamline needs Python 3.11, 3.12 or 3.13 with the venv module (on Debian: apt install python3-venv);" >&2; \
		echo "none was found on PATH. Install one, or name it: STREAMLINE_PYTHON=/path/to/python make ..." >&2; \
		exit 1; \
	fi; \
	echo "setting up $(VENV) with $$("$$found" --version)"; \
	"$$found" -m venv --clear $(VENV); \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'; \
	touch $@

demo: $(STAMP)
	@$(BIN)/python -m examples.demo

test: $(STAMP)
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

prove: $(STAMP)
	@STREAMLINE_PROFILE=prove $(BIN)/python -m pytest $(PYTEST_ARGS)

bench: $(STAMP)
	@$(BIN)/python -m benchmarks

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

format: $(STAMP)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

types: $(STAMP)
	@$(BIN)/mypy

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
