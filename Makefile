# Two commands for a newcomer: `make demo` and `make test`. Each makes what it needs by itself.
PYTHON ?= python3
BIN := .venv/bin
ROOMS := $(patsubst %/py.typed,%,$(wildcard */py.typed))

.PHONY: help demo install lock check format test test-all bench conformance clean
help:  ## what can be made here
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

demo: install  ## watch real consumers share a topic, one die, and the emulator itself be killed and come back
	@$(BIN)/regroup demo

install: .venv/installed  ## make .venv: pinned dependencies first, then the project itself, editable

.venv/installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "regroup needs Python 3.11 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "$(PYTHON) cannot make a virtual environment here. On Debian or Ubuntu: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

lock:  ## pin the newest dependencies again (needs uv); the file holds no index address
	uv pip compile pyproject.toml --group dev --extra spark --extra spark-java --universal --python-version 3.11 --generate-hashes --upgrade \
		--no-emit-index-url --no-emit-find-links --no-header --quiet --output-file requirements.lock

check: install  ## formatter, linter, strict types, and who may import whom
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -q tests/test_rooms.py

format: install  ## let the formatter and the linter mend what they can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: install  ## the tests a newcomer runs: at most six minutes
	$(BIN)/pytest -q -n auto --dist loadgroup -m "not slow"

test-all: install  ## every test, the slow ones too; property tests draw new examples
	$(BIN)/pytest -q -n auto --dist loadgroup --hypothesis-profile=hunting

conformance: install  ## tell every story to regroup, Apache Kafka, kfake and librdkafka's mock (needs Java, mvn and go)
	$(BIN)/python tests/conformance/publish.py docs/conformance.md

bench: install  ## how quick it is, beside others in the same run; benchmarks/README.md explains (ten minutes)
	@for what in heartbeats to_stable store history memory lab mqtt pipeline; do \
		echo; echo "== $$what"; $(BIN)/python benchmarks/$$what.py || exit 1; done

clean:  ## forget everything that was made
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis demo dist
