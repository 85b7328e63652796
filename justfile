# The recipes of this repository; `just` without arguments lists them.

_list:
    @just --list

# Start a cluster in one process, run a job, and stay up until Ctrl-C; `just demo --once` exits by itself.
demo *arguments:
    cargo run --release -- {{arguments}}

# Run the tests; those that need Docker report it if there is none.
test:
    cargo test --workspace

# Run the tests of the pages in Chromium, which `cargo test` leaves out.
test-pages:
    cargo test --workspace --test pages

# Run the tests that `cargo test` leaves out because each takes a minute of a machine or more.
test-long:
    cargo test --workspace --test it --test pages -- --ignored
    cargo test -p control-plane --lib -- --ignored

# Check what a change must pass besides the tests: formatting, lints, documentation, dependencies.
check:
    cargo fmt --all -- --check
    cargo clippy --workspace --all-targets --test pages -- -D warnings
    RUSTDOCFLAGS='-D warnings -A rustdoc::private-intra-doc-links' cargo doc --workspace --no-deps --document-private-items --quiet
    if cargo deny --version >/dev/null 2>&1; then cargo deny check bans licenses sources; else echo "cargo-deny is not installed: skipped the check of dependencies"; fi

# Run what continuous integration runs.
ci:
    .ci/run

# Run the simulator over many seeds; it prints a failing seed, and `just sim --from SEED --seeds 1` reproduces the failure. `just sim --sabotages` counts what it would find.
sim *arguments:
    cargo run --release --package simulator -- {{arguments}}

# Try jobs with hostile strings against the list of an agent's requests to the Docker Engine.
engine-requests seconds='3600':
    ENGINE_REQUESTS_SECONDS={{seconds}} cargo test -p compute-agent --lib -- --nocapture every_string_of_a_job

# Run the hostile namespaces against a good one for this many seconds.
test-neighbours seconds='300':
    NEIGHBOURS_SECONDS={{seconds}} cargo test --workspace --test neighbours -- --nocapture

# Run the failpoint and chaos tests at full length, and each fault of several orchestrators five times, with the median and the worst of what it takes; CHAOS_DOCKER_RESTART='service docker restart' includes the Docker Engine.
chaos seconds='600':
    FAULT_RUNS=5 CHAOS_SECONDS={{seconds}} cargo test --workspace --test it -- --nocapture --include-ignored --test-threads=1 failpoints:: chaos:: leads::

# Upgrade from release 0.1.0 and roll back to it, under load; the first run builds that release.
upgrade-test:
    UPGRADE_FROM="$(crates/testbed/release-0.1.0/build.sh)" cargo test --workspace --test it -- --nocapture upgrade::under_load::

# The pages are measured with the release programs, whose first build takes long.
# Open the pages with 100,000 jobs, a log of a million lines and 5,000 lifecycles a second, and print what they take.
ui-scale jobs='100000' lines='1000000' rate='5000':
    cargo build --release --workspace --bins
    TESTBED_BIN_DIR="${CARGO_TARGET_DIR:-{{justfile_directory()}}/target}/release" UI_SCALE_JOBS={{jobs}} UI_SCALE_LINES={{lines}} UI_SCALE_RATE={{rate}} cargo test --workspace --test pages -- --nocapture --ignored --test-threads=1 scale:: large_logs:: load::

# The orchestrator is the release program, whose first build takes long.
# Put a thousand simulated agents under full load, and print the rates; no lease may end by mistake.
load agents='1000' executions='100000' seconds='600':
    cargo build --release --workspace --bins
    TESTBED_BIN_DIR="${CARGO_TARGET_DIR:-{{justfile_directory()}}/target}/release" LOAD_AGENTS={{agents}} LOAD_EXECUTIONS={{executions}} LOAD_SECONDS={{seconds}} cargo test --workspace --test it -- --nocapture --ignored --exact load::no_lease_ends_by_mistake_under_full_load

# The bench measures the release programs, whose first build takes long.
# Measure every figure of docs/performance.md, in under 20 minutes; `just bench quick` takes two.
bench *arguments: (static-build "bench")
    "${CARGO_TARGET_DIR:-target}/$(uname -m)-unknown-linux-gnu/dist/bench" {{arguments}}

# Measure what one input costs the scheduler at 10, 1,000 and 10,000 nodes.
bench-scheduler:
    cargo bench --package bench --bench scheduler

# The programs resolve host names themselves, so they need no system library at run time.
# Build static programs for this machine's architecture in target/*/dist; they run on any Linux.
static: (static-build "jobctl")

# Each program is built by itself. In a common build, cargo compiles shared crates with the features
# that any program needs, which makes the orchestrator's code a twentieth larger.
[private]
static-build program: (static-package "orchestrator") (static-package "compute-agent") (static-package "wasm-runner") (static-package program)

# Addresses in a program are corrected when it starts. Packed, the list of them takes 10 kB instead
# of 800 kB, all of which would be read; a C library before 2.36 cannot read it.
_packed := `printf '2.36\n%s\n' "$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d' ' -f2)" | sort --check=quiet --version-sort && echo '-C link-arg=-Wl,-z,pack-relative-relocs' || true`

[private]
static-package name:
    RUSTFLAGS='-C target-feature=+crt-static {{_packed}}' cargo build --profile dist --package {{name}} --bin {{name}} --target "$(uname -m)-unknown-linux-gnu"

# Build the container image from static programs, without a base image.
image: static
    deploy/image.sh

# Build a Debian package from static programs, in target/deb.
deb: static
    deploy/deb.sh

# Start the demo cluster of deploy/compose.yaml: one orchestrator (two with CLUSTER_DATABASE), three agents; `just cluster-up --metrics` adds Prometheus.
cluster-up *arguments:
    deploy/cluster.sh up {{arguments}}

# Remove the demo cluster and everything it created.
cluster-down:
    deploy/cluster.sh down
