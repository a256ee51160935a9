# Two commands do everything on a machine with a Rust toolchain: `make run` and `make test`.

.PHONY: run test bench corpus mutants servers honest-calls pages fmt lint docs doctests licences peers binary suite tools

TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
TOOLS := $(TARGET)/tools
NEXTEST := 0.9.143
DENY := 0.20.2
MUTANTS := 27.1.0
# The rooms whose deciding files are mutated (.cargo/mutants.toml): `make mutants ROOMS=policy` does one.
ROOMS := policy ledger harness screening

export PATH := $(TOOLS)/bin:$(PATH)
export PORTREEVE_PEERS := $(TARGET)/peers

# The gateway with two demo servers, two agents and a short tour; stays up until it is interrupted.
run:
	cargo build --release --locked --package portreeve
	$(TARGET)/release/portreeve demo

# Everything CI checks. The tests run last, so that their summary is the last thing on the screen.
test: fmt lint docs doctests licences peers suite

fmt:
	cargo fmt --all --check

lint:
	cargo clippy --workspace --all-targets --locked -- --deny warnings
	cargo clippy --workspace --lib --bins --locked -- --deny warnings --deny clippy::too_many_lines

docs:
	RUSTDOCFLAGS="--deny warnings" cargo doc --workspace --no-deps --locked --quiet

# What must not compile, and for the reason it names: forging a proof, spending a permit twice, answering without a receipt.
doctests:
	RUSTDOC=$(CURDIR)/tests/rustdoc cargo test --doc --workspace --locked --quiet

licences: tools
	@if command -v cargo-deny >/dev/null; then cargo deny --workspace check bans licenses sources; \
	elif [ "$$CI" = true ]; then echo "cargo-deny could not be installed" >&2; exit 1; \
	else echo "cargo-deny could not be installed: licences, bans and sources are NOT CHECKED" >&2; fi

peers:
	tests/peers/install

# The shipped binary is built with the tests, so that both share every artefact.
binary:
	cargo build --workspace --bins --tests --locked

suite: tools binary
	cargo nextest run --workspace --locked --no-fail-fast

# The pages that are made from the tree: docs/requirements.md, docs/attacks.md and the module lists of ARCHITECTURE.md.
pages:
	PORTREEVE_WRITE_PAGES=1 cargo test --locked --quiet --package portreeve-tests --test suite architecture::

# Recall over the corpus of secrets, by group and context, and false positives in 3,000 real files of the directories that
# CORPUS names. Not a part of `make test`, which holds the corpus alone to its floors.
CORPUS ?= $(TARGET)/peers:$(or $(CARGO_HOME),$(HOME)/.cargo)/registry/src:/usr/share
corpus:
	cargo test --release --locked --package portreeve-screening --lib families -- --nocapture --test-threads 1
	PORTREEVE_CORPUS="$(CORPUS)" cargo test --release --locked --package portreeve-screening --test real_files -- --ignored --nocapture

# Breaks the files that decide, one small change at a time, and says which changes no test of the room notices
# (docs/security-testing.md). Not a part of `make test`: two thousand changes take their time.
mutants: tools
	@command -v cargo-mutants >/dev/null || \
	  cargo install cargo-mutants --version $(MUTANTS) --locked --debug --root $(TOOLS) --target-dir $(TOOLS)/build
	@missed=0; for room in $(ROOMS); do tests/mutants/switch $$room || missed=1; done; exit $$missed

# Published servers of npm and PyPI, bare and behind the gateway that was built last (or the one PORTREEVE names); writes
# docs/servers.md. Not a part of `make test`: it starts other people's programs without a sandbox, and takes half an hour.
servers:
	tests/servers/check --page docs/servers.md

# Calls that mean no harm to published servers, bare and behind that gateway: none may be refused, each must be answered as
# the bare server answers. Writes docs/honest-calls.md. Not a part of `make test`, which replays those to the installed peers.
honest-calls:
	tests/servers/check --calls --page docs/honest-calls.md

# Ratios to three floors on the same HTTP stack, then single stages; raw numbers included.
bench:
	cargo build --profile dist --locked --package portreeve --package portreeve-load --package portreeve-micro
	$(TARGET)/dist/portreeve-load
	$(TARGET)/dist/portreeve-micro
	cargo test --release --locked --package portreeve-sandbox --test egress -- --ignored --nocapture a_small_request

# Installed only where missing; a debug build of a tool is quick to make and quick enough to use.
tools:
	@command -v cargo-nextest >/dev/null || \
	  cargo install cargo-nextest --version $(NEXTEST) --locked --debug --root $(TOOLS) --target-dir $(TOOLS)/build
	@command -v cargo-deny >/dev/null || \
	  cargo install cargo-deny --version $(DENY) --locked --debug --root $(TOOLS) --target-dir $(TOOLS)/build || true
