# One command for each thing a person does here. `make` alone lists them.
#
# Building and testing share one cargo profile, so that pg_query's C library is compiled once.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
export VENV ?= .venv
# pytest's processes; each has its own PostgreSQL and herd.
WORKERS ?= 2
PYTEST_ARGS ?=

ENV := . scripts/env.sh;
# `cargo build` puts the binary here, also when CARGO_TARGET_DIR names another folder.
TARGET = $(abspath $(or $(CARGO_TARGET_DIR),target))
HERD = $(TARGET)/release/herd

# Crates whose tests `make test` runs; `make test-rust-all` runs every one. exec, session and the local herd are
# exercised end to end.
RUST_TESTED ?= wire key catalog sql plan pool txn

.PHONY: test-rust-all help venv build test test-rust test-end-to-end fmt lint golden demo clean-herd

help: ## list what can be done
	@echo "usage: make TARGET"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' Makefile

venv: ## install PostgreSQL, libclang and the tests' drivers into .venv
	@$(PYTHON) scripts/make_venv.py "$(VENV)" scripts/requirements.txt

build: venv ## build the program `herd`
	@$(ENV) cargo build --release --bin herd
	@echo "built $(HERD)"

test: lint test-rust test-end-to-end ## check everything: format, lints, unit and end-to-end tests

test-rust: venv ## the crates' own tests
	@echo "== crates"
	@$(ENV) cargo test --release $(addprefix -p ,$(RUST_TESTED))

test-rust-all: venv ## every crate's own tests
	@$(ENV) cargo test --workspace --release

test-end-to-end: build ## the tests against real PostgreSQL and real clients
	@echo "== end to end"
	@for tool in go node java; do \
		command -v $$tool >/dev/null || echo "$$tool is not installed: its client's tests are skipped"; \
	done
	@$(ENV) HERD_BIN="$(HERD)" "$(VENV)/bin/python" -m pytest tests -n $(WORKERS) $(PYTEST_ARGS)

fmt: ## format the sources
	@cargo fmt --all

lint: venv ## check the format, and clippy's lints
	@echo "== format and lints"
	@cargo fmt --all --check
	@$(ENV) cargo clippy --workspace --all-targets --release -- -D warnings

golden: venv ## write the golden files anew; look at the difference before you commit it
	@$(ENV) UPDATE_GOLDEN=1 cargo test --workspace --release golden
	@git --no-pager diff --stat

demo: build ## start a herd of 2 nodes, run W1 to W4 in small beside a plain PostgreSQL, say how to connect
	@$(ENV) "$(HERD)" demo

clean-herd: ## stop the herd in .herd and remove its data
	@if [ -e .herd ]; then \
		if [ -x "$(HERD)" ]; then "$(HERD)" down || true; fi; \
		for node in .herd/node*; do if [ -L "$$node" ]; then rm -rf "$$(readlink -f "$$node")"; fi; done; \
		rm -rf .herd; \
	fi
