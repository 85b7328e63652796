# The recipes of this repository; `just` alone lists them.

_list:
    @just --list

# A cluster in one process that runs a job and stays up until Ctrl-C; `just demo --once` ends by itself.
demo *arguments:
    cargo run --release -- {{arguments}}

# Every test; those that need docker say so where there is none.
test:
    cargo test --workspace

# What a change must pass besides the tests: formatting, lints, documentation, dependencies.
check:
    cargo fmt --all -- --check
    cargo clippy --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS='-D warnings -A rustdoc::private-intra-doc-links' cargo doc --workspace --no-deps --document-private-items --quiet
    if cargo deny --version >/dev/null 2>&1; then cargo deny check bans licenses sources; else echo "cargo-deny is not installed: dependencies are not checked"; fi

# What the continuous integration runs.
ci:
    .ci/run

# The simulator over many seeds; a failing one is printed and reproduces with `just sim --from SEED --seeds 1`.
sim *arguments:
    cargo run --release --bin sim -- {{arguments}}

# Failpoints and chaos at full length; CHAOS_DOCKER_RESTART='service docker restart' includes the Docker Engine.
chaos seconds='600':
    CHAOS_SECONDS={{seconds}} cargo test --workspace --test it -- --nocapture --test-threads=1 failpoints:: chaos::

# Every figure of docs/performance.md, in under 20 minutes; `just bench quick` takes two. It
# measures what is given away, whose build takes long once.
bench *arguments: (static-build "bench")
    "${CARGO_TARGET_DIR:-target}/$(uname -m)-unknown-linux-gnu/dist/bench" {{arguments}}

# What one input costs the engine at 10, 1,000 and 10,000 nodes.
bench-engine:
    cargo bench --workspace --bench engine

# The programs as static ones, for this machine's architecture, in target/*/dist: they run on any Linux.
# Names are resolved by the programs themselves, so that no library of the system is needed at run time.
static: (static-build "jobctl")

[private]
static-build program:
    RUSTFLAGS='-C target-feature=+crt-static' cargo build --profile dist --workspace --bin orchestrator --bin compute-agent --bin {{program}} --target "$(uname -m)-unknown-linux-gnu"

# Which functions of the agent lie side by side in the static program; to be made anew with each release.
order:
    deploy/order.sh

# The container image, from static programs and no base image.
image: static
    deploy/image.sh

# The demo cluster of deploy/compose.yaml: one orchestrator, three agents; `just cluster-up --metrics` adds Prometheus.
cluster-up *arguments:
    deploy/cluster.sh up {{arguments}}

# Ends it, and leaves nothing behind.
cluster-down:
    deploy/cluster.sh down
