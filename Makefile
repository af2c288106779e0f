# Everything happens inside the checkout: Python packages in .venv, build products in target.
# A stamp file stands for each step that is done, so that nothing is done twice.

PYTHON ?= python3
CARGO ?= cargo

# rustup installs here; a shell that was open before does not know it yet
export PATH := $(PATH):$(HOME)/.cargo/bin
# the Python interpreter that loads the module brings its symbols: no libpython is linked, no python3-dev needed
export PYO3_BUILD_EXTENSION_MODULE := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

VENV := .venv
STAMPS := $(VENV)/stamps
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/pip install --quiet
SOURCES := Cargo.toml Cargo.lock pyproject.toml LICENSE THIRD-PARTY-LICENSES python/README.md \
	$(shell find crates python -type f \( -name '*.rs' -o -name '*.toml' -o -name '*.py' -o -name '*.pyi' -o -name '*.js' -o -name '*.css' -o -name py.typed \))

# three at a time on two cores, because half of the time they wait; a worker that is done takes over from another one
PYTEST_AT_ONCE := --numprocesses 3 --dist worksteal
# those from outside that need no server
QUICK_TESTS := --test source --test sink
CHECKED := $(CURDIR)/target/check
# for each of FUZZ_TARGETS, or of all
FUZZ_SECONDS := 60

CARGO_DENY := 0.20.2

# What the released wheel is for. For Linux, zig links it against an older C library than this machine's.
DIST_TARGET ?= x86_64-unknown-linux-gnu
ifneq ($(findstring linux-musl,$(DIST_TARGET)),)
DIST_FLAGS := --zig --compatibility musllinux_1_2
else ifneq ($(findstring linux-gnu,$(DIST_TARGET)),)
DIST_FLAGS := --zig --compatibility manylinux2014
else
DIST_FLAGS := --compatibility pypi
endif
# jemalloc supports pages up to this size (2^16), which some kernels of 64-bit Arm have.
ifneq ($(findstring aarch64-unknown-linux,$(DIST_TARGET)),)
export JEMALLOC_SYS_WITH_LG_PAGE := 16
endif
# Messages name files of crates, but not where they are on this machine.
CRATES := $(or $(CARGO_HOME),$(HOME)/.cargo)/registry/src

.DELETE_ON_ERROR:
.PHONY: help build demo check test lint style format docs bench bench-100m bench-crossing bench-durability bench-engine bench-files bench-floor bench-hosts bench-http2 bench-limits bench-names bench-paid bench-portal bench-requests bench-scaleout bench-startup bench-tasks bench-tls bench-tools dist dist-wheel dist-sdist dist-check dist-build dist-install try-debian11 release licenses fuzz soak clean prerequisites

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: $(STAMPS)/wheel ## make .venv, build the release wheel and install it there

demo: build ## fetch 100,000 URLs from a local server into demo-results
	@$(BIN)/headgate demo

# `cargo build` makes the tests, too, so that dependencies have the features that they have for `cargo test`.
check: style $(STAMPS)/runtime $(STAMPS)/test ## what is quick: format, style, types, unit and property tests; no release build
	$(CARGO) build --workspace --locked --quiet --lib $(QUICK_TESTS)
	@scripts/link-check
	$(CARGO) test --workspace --locked --quiet --lib $(QUICK_TESTS)
	PYTHONPATH=$(CHECKED) $(BIN)/stubtest headgate._headgate
	PYTHONPATH=$(CHECKED) $(BIN)/pytest --quiet $(PYTEST_AT_ONCE) -W 'ignore:this headgate is a debug build' tests/unit

test: build $(STAMPS)/test $(STAMPS)/clusters ## run every test, Rust and Python
	@scripts/test $(CARGO) $(BIN)/pytest $(PYTEST_AT_ONCE)

lint: build style $(STAMPS)/cargo-deny-$(CARGO_DENY) ## check format, style, types and dependencies; changes nothing
	$(BIN)/stubtest headgate._headgate
	$(BIN)/cargo-deny --locked check --hide-inclusion-graph licenses bans sources
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml

# What lint and check share.
style: $(STAMPS)/lint
	@scripts/check-prerequisites $(PYTHON) $(CARGO) lint
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked --quiet -- -D warnings
	@if $(CARGO) tree --locked -p headgate-engine -e normal --prefix none | grep '^pyo3'; then \
		echo 'headgate-engine must not depend on pyo3: the engine knows no Python' >&2; exit 1; fi
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/basedpyright

docs: build ## write the tables of the documents that come from the code
	@$(BIN)/python scripts/write_docs.py

licenses: prerequisites ## write THIRD-PARTY-LICENSES: what is compiled into the wheel
	@$(PYTHON) scripts/write_licenses.py

dist: dist-wheel dist-sdist ## build and check what is released, in dist; DIST_TARGET=aarch64-unknown-linux-musl
	@$(MAKE) dist-check

dist-wheel: $(STAMPS)/build $(STAMPS)/dist
	@git rev-parse --verify --quiet HEAD >/dev/null || { echo 'a wheel to release is built in a git checkout' >&2; exit 1; }
	rm -f dist/headgate-*.whl
	PATH="$(CURDIR)/$(BIN):$$PATH" RUSTFLAGS="$$RUSTFLAGS --remap-path-prefix=$(CRATES)=/cargo" \
		CFLAGS="$$CFLAGS -ffile-prefix-map=$(CRATES)=/cargo" HEADGATE_COMMIT="$$(git rev-parse --short=8 HEAD)" \
		$(BIN)/maturin build --release --locked --strip --target $(DIST_TARGET) $(DIST_FLAGS) --compression-level 9 --out dist
	$(BIN)/python scripts/neutral_sbom.py dist/headgate-*.whl

dist-sdist: $(STAMPS)/build
	rm -f dist/headgate-*.tar.gz
	trap 'rm crates/headgate-python/commit' EXIT; \
		git rev-parse --short=8 HEAD >crates/headgate-python/commit && $(BIN)/maturin sdist --out dist

dist-check: $(STAMPS)/dist
	$(BIN)/python scripts/check_dist.py dist/headgate-*
	$(BIN)/twine check --strict dist/headgate-*

dist-build: ## install the sdist into a new environment, as `pip install` does where no wheel fits
	@scripts/try-dist $(PYTHON) dist/headgate-*.tar.gz

dist-install: ## install the wheel into a new environment, and make requests
	@scripts/try-dist $(PYTHON) dist/headgate-*.whl

try-debian11: ## as root, try the wheel of make dist on Debian 11, whose glibc is old
	@scripts/try-debian11 $(BIN)/python target/debian11 dist/headgate-*-manylinux*.whl

release: $(STAMPS)/venv ## check the changelog, the tree, the tests and the artifacts, and make a tag: VERSION=0.1.0
	@$(BIN)/python scripts/check_release.py $(VERSION)
	$(MAKE) lint test
	$(MAKE) dist
	$(MAKE) dist-install dist-build
	@test -z "$$(git status --porcelain)" || { echo 'the tree has changed meanwhile: see git status' >&2; exit 1; }
	git tag --annotate --message "headgate $(VERSION)" v$(VERSION)
	@echo "tagged v$(VERSION); nothing is published before git push origin v$(VERSION)"

format: prerequisites $(STAMPS)/lint ## format the code in place
	$(CARGO) fmt --all
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: build bench-floor $(STAMPS)/bench $(STAMPS)/test ## measure throughput and memory beside other clients; BENCH_FLAGS=--save keeps it
	@$(BIN)/python bench/throughput.py $(BENCH_FLAGS)

bench-requests: build bench-floor $(STAMPS)/test ## measure requests beside an older version; BENCH_FLAGS='--before PYTHON'
	@$(BIN)/python bench/throughput.py --scenario requests $(BENCH_FLAGS)

bench-100m: build $(STAMPS)/test ## make 100,000,000 requests, kill and resume them; BENCH_FLAGS='--rows 2000000' makes fewer
	@PYTHONPATH=tests $(BIN)/python bench/durability.py large $(BENCH_FLAGS)

bench-crossing: build $(STAMPS)/bench ## measure what one request after another costs callers in threads and in a loop; BENCH_FLAGS=--save keeps it
	@$(BIN)/python bench/http_crossing.py $(BENCH_FLAGS)

bench-durability: build $(STAMPS)/test ## kill jobs a hundred times, go on with a large one; BENCH_FLAGS='--before PYTHON': what it costs
	@PYTHONPATH=tests $(BIN)/python bench/durability.py $(BENCH_FLAGS)

bench-engine: build ## measure changing hosts and runs on a warm engine; BENCH_FLAGS=--save keeps it
	@$(BIN)/python bench/engine.py --cargo $(CARGO) $(BENCH_FLAGS)

bench-files: build $(STAMPS)/test ## measure saving files beside aria2c and curl; BENCH_FLAGS=--save keeps it
	@$(BIN)/python bench/files.py $(BENCH_FLAGS)

bench-hosts: build $(STAMPS)/bench ## measure lists of many hosts beside wrk and aiohttp; BENCH_FLAGS='--before PYTHON' compares with an older version
	@$(BIN)/python bench/hosts.py $(BENCH_FLAGS)

bench-http2: build ## measure HTTP/2 beside h2load, and its memory; BENCH_FLAGS=--save keeps it
	@$(BIN)/python bench/http2.py $(BENCH_FLAGS)

bench-tls: build ## measure TLS handshakes beside curl; BENCH_FLAGS=--save keeps it
	@$(BIN)/python bench/tls.py $(BENCH_FLAGS)

bench-limits: build ## measure how limits are kept and what they cost; BENCH_FLAGS='--before PYTHON' compares with an older version
	@$(BIN)/python bench/limits.py $(BENCH_FLAGS)

bench-names: build ## measure what looking names up costs; BENCH_FLAGS=--save keeps it
	@$(CARGO) build --release --locked --quiet -p headgate-testserver --example names
	@$(BIN)/python bench/names.py $(BENCH_FLAGS)

bench-paid: build $(STAMPS)/test ## fetch 20,000 rows from a paid API, killed and resumed; BENCH_FLAGS='--rows 2000' fetches fewer
	@PYTHONPATH=tests $(BIN)/python bench/paid_api.py $(BENCH_FLAGS)

bench-portal: build $(STAMPS)/bench ## measure what a call from a thread into an event loop costs; BENCH_FLAGS=--save keeps it
	@$(BIN)/python bench/portal.py $(BENCH_FLAGS)

bench-scaleout: build $(STAMPS)/bench $(STAMPS)/test $(STAMPS)/clusters ## measure requests within Ray Data and Spark; BENCH_FLAGS='--rows 100000' makes fewer
	@$(BIN)/python bench/scaleout.py $(BENCH_FLAGS)

bench-startup: build $(STAMPS)/bench ## measure the import, the first client and its first response beside httpx; BENCH_FLAGS=--save keeps it
	@$(BIN)/python bench/startup.py $(BENCH_FLAGS)

bench-tasks: build $(STAMPS)/bench ## measure what a bounded task costs beside other ways; BENCH_FLAGS=--save keeps it
	@$(BIN)/python bench/tasks.py $(BENCH_FLAGS)

bench-floor: prerequisites
	@$(CARGO) build --release --locked --quiet -p headgate-testserver --example floor

bench-tools: prerequisites ## build the client to compare with that Debian has no package of
	@scripts/bench-tools $(CARGO)

fuzz: prerequisites ## look for inputs that break the laws of templates and selections; FUZZ_SECONDS=600 FUZZ_TARGETS=url
	@scripts/fuzz $(CARGO) $(FUZZ_SECONDS) $(FUZZ_TARGETS)

soak: build $(STAMPS)/test ## run a job of 30 minutes with mixed faults, which must lose nothing; SOAK_FLAGS='--minutes 5'
	@rm -rf target/soak
	@PYTHONPATH=tests $(BIN)/python bench/soak.py target/soak $(SOAK_FLAGS)

clean: ## remove what make has made
	rm -rf $(VENV) target dist demo-results .mypy_cache .ruff_cache .pytest_cache .hypothesis

prerequisites:
	@scripts/check-prerequisites $(PYTHON) $(CARGO)

$(STAMPS)/venv: | prerequisites
	$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

# a debug build, which takes a minute
$(STAMPS)/cargo-deny-$(CARGO_DENY): | $(STAMPS)/venv
	$(CARGO) install --quiet --locked --debug --root $(VENV) --version $(CARGO_DENY) cargo-deny
	@touch $@

# one rule for each requirements file
$(STAMPS)/build $(STAMPS)/runtime $(STAMPS)/test $(STAMPS)/clusters $(STAMPS)/lint $(STAMPS)/bench $(STAMPS)/dist: $(STAMPS)/%: requirements/%.txt $(STAMPS)/venv
	$(PIP_INSTALL) -r $<
	@touch $@

$(STAMPS)/wheel: $(SOURCES) $(STAMPS)/build $(STAMPS)/runtime | prerequisites
	rm -f target/wheels/headgate-*.whl
	$(BIN)/maturin build --release --locked --interpreter $(BIN)/python --out target/wheels
	$(PIP_INSTALL) --force-reinstall --no-deps target/wheels/headgate-*.whl
	@touch $@
