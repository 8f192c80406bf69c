# Two commands to start with: `make demo` and `make test`. Each makes what it needs by itself.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: help demo install lock check format docs test test-all test-slow examples survey bench conformance conformance-kafka clean
help:  ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

demo: .venv/demo-installed  ## watch real consumers share a topic, and crashes of one of them and of the emulator
	@$(BIN)/regroup demo

install: .venv/installed  ## make .venv: pinned dependencies, and the project itself, editable

# The demo needs a few small packages, which Python compiles as it loads them. `make install` adds all others.
.venv/demo-installed: requirements-demo.lock pyproject.toml hatch_build.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "regroup needs Python 3.11 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "$(PYTHON) cannot make a virtual environment here. On Debian or Ubuntu: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv .venv
	$(PIP) install --no-compile --require-hashes --requirement requirements-demo.lock
	$(PIP) install --no-compile --no-deps --no-build-isolation --editable .
	@touch $@

.venv/installed: .venv/demo-installed requirements.lock
	$(PIP) install --require-hashes --requirement requirements.lock
	@touch $@

LOCK := uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --upgrade \
	--no-emit-index-url --no-emit-find-links --no-header --quiet

lock:  ## pin the newest dependencies again (needs uv); the files hold no index address
	$(LOCK) --group dev --extra control --extra step --extra spark --extra spark-java --extra hdfs --output-file requirements.lock
	$(LOCK) --group demo --constraint requirements.lock --output-file requirements-demo.lock
	$(LOCK) --extra control --constraint requirements.lock --output-file requirements-docker.lock

check: install  ## formatter, linter, strict types, imports between folders, words, and the page docs/files.md
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -q tests/test_architecture.py tests/test_vocabulary.py tests/test_file_map.py

format: install  ## fix what the formatter and the linter can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: install  ## write docs/api.md, docs/files.md, what commands print, and tables from the code, into the documents
	$(BIN)/python scripts/write_api_reference.py
	$(BIN)/python scripts/write_file_map.py
	$(BIN)/python -m tests.make_docs.write

test: install  ## the quick tests: some three minutes on two cores
	$(BIN)/pytest -q -n auto --dist loadgroup -m "not slow"

test-all: install  ## every test, the slow ones too; property tests draw new examples
	$(BIN)/pytest -q -n auto --dist loadgroup --hypothesis-profile=hunting

test-slow: install  ## the slow tests, or a part of them: make test-slow PART=3/24
	$(BIN)/pytest -q -n auto --dist loadgroup -m slow $(if $(PART),--part $(PART))

examples: install  ## run the examples for pytest, Java, Go and Node whose tools are there, and say what was left out
	$(BIN)/python examples/run.py

survey: install  ## what real clients do after faults, into docs/clients.md (Java, mvn, go, node; an hour; goes on after Ctrl-C)
	$(BIN)/python -m tests.clients.survey

conformance: install  ## every story and 500 random courses on regroup, Apache Kafka and two fakes (Java, mvn, go; an hour)
	$(BIN)/python -m tests.conformance.publish docs/conformance.md

conformance-kafka: install  ## start Apache Kafka with all settings that its stories need, and run them (needs Java, mvn)
	$(BIN)/python -m tests.conformance.full_run kafka

bench: install  ## measure speed, beside others in the same run; see benchmarks/README.md (ten minutes)
	@for what in heartbeats beside_kafka to_stable store history pure/memory request_limits lab mqtt pipeline testing fault_rules recording page; do \
		echo; echo "== $$what"; $(BIN)/python benchmarks/$$what.py || exit 1; done

clean:  ## remove what was made
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build demo dist
