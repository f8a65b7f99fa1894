# Headgate. `make serve` and `make test` do all their own set-up.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CARGO_SOURCES := $(shell find crates lua -name '*.rs' -o -name '*.lua' -o -name '*.bin' -o -name Cargo.toml 2>/dev/null) Cargo.toml Cargo.lock .cargo/config.toml

.PHONY: help serve test test-rust test-python lint format bench bench-peers faults docs build tools clean

help: ## Show what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

serve: build ## Start Headgate on 127.0.0.1:8080: counters in memory, the starter rules
	$(BIN)/headgate serve $(ARGS)

test: test-rust test-python ## Run every test

test-rust: tools
	cargo test --workspace --exclude headgate-python --quiet

test-python: build $(VENV)/.dev $(VENV)/.nginx
	$(BIN)/python -m pytest $(ARGS)

lint: build $(VENV)/.dev $(VENV)/.bench ## Check style, types, layers and the engine's contract
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy tests bench
	$(BIN)/python -m mypy.stubtest headgate._core
	$(BIN)/lint-imports --no-cache

docs: $(VENV)/.dev ## Build the documentation site into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The documentation is in site/index.html"

format: $(VENV)/.dev ## Format the code
	cargo fmt --all
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: build $(VENV)/.bench $(VENV)/.nginx ## Measure against the targets and the peers (minutes); writes docs/benchmarks.md
	$(BIN)/python -m bench --write-docs $(ARGS)

bench-peers: build $(VENV)/.bench $(VENV)/.dev $(VENV)/.nginx ## Give Headgate and its peers the same work (ten minutes); writes that section of docs/benchmarks.md
	$(BIN)/python -m bench.side_by_side --write-docs $(ARGS)

faults: build $(VENV)/.dev ## Break real stores in every way, beside the peers too, and write docs/faults.md (three minutes)
	$(BIN)/python -m tests.faults.page --run

build: $(VENV)/.built ## Build the engine and install the package into .venv

tools: ## Say what is missing on this machine
	@command -v cargo >/dev/null || { echo "make: Headgate's engine is written in Rust and no 'cargo' was found. Install a Rust toolchain (1.88 or newer, for example with rustup), then run make again." >&2; exit 1; }
	@rustc --version | awk '{ split($$2, v, "."); if (v[1] < 1 || (v[1] == 1 && v[2] < 88)) { print "make: Headgate needs Rust 1.88 or newer; this is " $$2 ". Run: rustup update" > "/dev/stderr"; exit 1 } }'
	@command -v cc >/dev/null || { echo "make: no C compiler ('cc') was found to link with. Install gcc or clang, then run make again." >&2; exit 1; }
	@command -v $(PYTHON) >/dev/null || { echo "make: no '$(PYTHON)' was found. Install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: Headgate needs Python 3.11 or newer; $(PYTHON) is older. Name another: make PYTHON=/path/to/python3 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "make: $(PYTHON) cannot make virtual environments. Install its venv package (python3-venv on Debian), then run make again." >&2; exit 1; }

clean: ## Remove what was built
	rm -rf $(VENV) target site src/headgate/*.so

$(VENV)/.runtime: requirements/runtime.txt | tools
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.runtime
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

$(VENV)/.bench: requirements/bench.txt $(VENV)/.runtime
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

# The one proxy of the tests that PyPI does not have. Without it its tests are skipped, and say so.
$(VENV)/.nginx: tests/proxies/fetch_nginx.sh | $(VENV)/.runtime
	@command -v nginx >/dev/null || sh $< $(VENV)/debian || { echo "make: no nginx: its tests will be skipped." >&2; exit 0; } && touch $@

$(VENV)/.built: $(CARGO_SOURCES) pyproject.toml $(VENV)/.runtime
	@echo "Building the engine (a minute or two the first time) ..."
	$(BIN)/maturin develop --release --locked --quiet
	@touch $@
