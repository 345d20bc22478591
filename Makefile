# One command for each thing a person does here. `make` alone lists them.
#
# Lints, tests and the program that the end-to-end tests run share one cargo profile (dev), so that everything is compiled
# once. `build` and `demo` make the optimised program.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
export VENV ?= .venv
# pytest's processes; each has its own PostgreSQL and herd. Many tests wait more than they compute: four keep two cores busy.
WORKERS ?= 4
PYTEST_ARGS ?=

ENV := . scripts/env.sh;
# `cargo build` puts the binary here, also when CARGO_TARGET_DIR names another folder.
TARGET = $(abspath $(or $(CARGO_TARGET_DIR),target))
HERD = $(TARGET)/release/herd
TESTED_HERD = $(TARGET)/debug/herd

.PHONY: promises fuzz deny deny-local help venv duckdb build build-column test test-rust test-column test-end-to-end fmt lint golden walk demo clean-herd

help: ## list what can be done
	@echo "usage: make TARGET"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' Makefile

venv: ## install PostgreSQL, libclang and the tests' drivers into .venv
	@$(PYTHON) scripts/make_venv.py "$(VENV)" scripts/requirements.txt

build: venv ## build the program `herd`
	@$(ENV) cargo build --release --bin herd
	@echo "built $(HERD)"

duckdb: ## get DuckDB's library into .venv/duckdb; only column copies need it
	@$(PYTHON) scripts/get_duckdb.py "$(VENV)/duckdb"

build-column: venv duckdb ## build the program `herd-column`, which keeps column copies
	@$(ENV) cargo build --release -p column
	@echo "built $(TARGET)/release/herd-column"

test: lint test-rust test-column test-end-to-end ## check everything: format, lints, unit and end-to-end tests

test-rust: venv ## the crates' own tests
	@echo "== crates"
	@$(ENV) cargo test --workspace --exclude column

test-column: venv ## lints and tests of column copies, where DuckDB's library can be had
	@echo "== column copies"
	@if $(PYTHON) scripts/get_duckdb.py "$(VENV)/duckdb"; then \
		. scripts/env.sh; \
		cargo clippy -p column --all-targets -- -D warnings; \
		cargo test -p column; \
	elif [ "$${PGHERD_TEST_ALL_CLIENTS:-}" = 1 ]; then \
		exit 1; \
	else \
		echo "DuckDB's library can't be had: lints and tests of column copies are skipped"; \
	fi

test-end-to-end: venv ## the tests against real PostgreSQL and real clients
	@echo "== end to end"
	@for tool in go node java; do \
		command -v $$tool >/dev/null || echo "$$tool is not installed: its client's tests are skipped"; \
	done
	@# Not `cargo build`: features of test-only dependencies would have half of it compiled once more.
	@$(ENV) cargo test --quiet --workspace --exclude column --no-run
	@$(ENV) HERD_BIN="$(TESTED_HERD)" "$(VENV)/bin/python" -m pytest tests -n $(WORKERS) $(PYTEST_ARGS)

# Seconds for each of those that run by the clock; a seed for all.
PROMISES_SECONDS ?= 300
SEED ?= 1
RANDOM_STATEMENTS ?= 5000

promises: build ## the promises of PROMISES.md, for long: about forty minutes; SEED=… PROMISES_SECONDS=…
	@$(ENV) export HERD_BIN="$(HERD)"; cd tests; failed=; \
	roles() { "$(abspath $(VENV))/bin/python" -m security.roles --seed $(SEED) --sequences 10000 || failed="$$failed roles"; }; \
	run() { "$(abspath $(VENV))/bin/python" -m promises.$$1 --seed $(SEED) "$${@:2}" || failed="$$failed $$1"; }; \
	run bank --seconds $(PROMISES_SECONDS); run bank --seconds $(PROMISES_SECONDS) --synchronous-commit off; run bank --seconds $(PROMISES_SECONDS) --moves 1; \
	run renames --seconds $(PROMISES_SECONDS); \
	run kinds --seconds $(PROMISES_SECONDS) --rows 200000; \
	run snapshot --seconds $(PROMISES_SECONDS); \
	run snapshot --seconds $(PROMISES_SECONDS) --kills 1; run crash_matrix; run packets --cases 1000; run fuzz --sessions 10000; \
	run slow; run login; run leaks --sequences 10000; roles; run cancels --seconds 60; run soak --seconds $(PROMISES_SECONDS); \
	HERD_ALL_PLACES=1 "$(abspath $(VENV))/bin/python" -m pytest -q elastic/test_nodes_die.py || failed="$$failed nodes_die"; \
	for nodes in 1 3; do "$(abspath $(VENV))/bin/python" -m random_sql.run --seed $(SEED) --statements $(RANDOM_STATEMENTS) --nodes $$nodes || failed="$$failed random_sql"; done; \
	if [ -x "$(TARGET)/release/herd-column" ]; then run fresh --seconds $(PROMISES_SECONDS); "$(abspath $(VENV))/bin/python" -m random_columns.run --seed $(SEED) --statements $(RANDOM_STATEMENTS) || failed="$$failed random_columns"; fi; \
	if [ -n "$$failed" ]; then echo "broken:$$failed"; exit 1; fi

FUZZ_SECONDS ?= 600

fuzz: venv ## change inputs at random: messages of clients and nodes, SQL texts; SEED=… FUZZ_SECONDS=… FUZZ_SAVE=1 keeps what is new
	@$(ENV) FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_SEED=$(SEED) cargo test --release -p wire --test fuzz -- --nocapture
	@$(ENV) FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_SEED=$(SEED) cargo test --release -p sql --test lexer_fuzz -- --nocapture

deny: ## licences, sources and advisories of all dependencies, by deny.toml; needs `cargo install cargo-deny`
	@cargo deny check

deny-local: ## the same without the advisories, whose database is fetched from elsewhere
	@cargo deny check licenses bans sources

fmt: ## format the sources
	@cargo fmt --all

lint: venv ## check the format, clippy's lints, and the tests' Python
	@echo "== format and lints"
	@cargo fmt --all --check
	@"$(VENV)/bin/python" -m ruff check --quiet --no-cache tests scripts
	@$(ENV) cargo clippy --workspace --exclude column --all-targets -- -D warnings

golden: venv ## write the golden files anew; look at the difference before you commit it
	@$(ENV) UPDATE_GOLDEN=1 cargo test -p sql -p plan --test golden --test ddl --test kind --test decide
	@git --no-pager diff --stat

walk: venv ## write the walk over syntax trees anew, after an upgrade of pg_query
	@$(ENV) UPDATE_WALK=1 cargo test --quiet -p sql --test walk_is_current
	@git --no-pager diff --stat

demo: build ## start a herd of 2 nodes, run W1 to W4 in small beside a plain PostgreSQL, say how to connect
	@$(ENV) "$(HERD)" demo

clean-herd: ## stop the herd in .herd and remove its data
	@if [ -e .herd ]; then \
		if [ -x "$(HERD)" ]; then "$(HERD)" down || true; fi; \
		for node in .herd/node*; do if [ -L "$$node" ]; then rm -rf "$$(readlink -f "$$node")"; fi; done; \
		rm -rf .herd; \
	fi
