#!/usr/bin/env bash
# Finds out which functions an agent runs from its start until it is at rest, and writes their
# symbols to crates/compute-agent/order.txt. The linker then puts them side by side in the static
# program (crates/compute-agent/build.rs).
#
# Why: of the 27 MB of code that an agent has, it runs 3 MB until it is at rest. Spread over the
# program, with 64 KB mapped around each page that is touched, they made 15 MB resident.
#
# The symbols are those of one compiler, one Cargo.lock and one profile, and depend on what is
# compiled into what: run this again with each release. A list that is out of date does no harm,
# and helps less.
# Needs valgrind and curl, and builds for as long as `just static`; it leaves the symbols in, which
# changes none of them (another setting of the profile would).
set -euo pipefail
cd "$(dirname "$0")/.."

# Long enough, at a fiftieth of the usual speed, for the start, the join and some heartbeats.
rest_seconds=60
order=crates/compute-agent/order.txt
triple="$(uname -m)-unknown-linux-gnu"

valgrind --version >/dev/null || { echo "no valgrind here: install the package valgrind" >&2; exit 1; }
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/order"
RUSTFLAGS='-C target-feature=+crt-static -C strip=none' cargo build --profile dist --workspace --bin orchestrator --bin compute-agent --target "$triple"
programs="$CARGO_TARGET_DIR/$triple/dist"

work=$(mktemp -d)
daemons=()
end() {
    kill "${daemons[@]}" 2>/dev/null || true
    wait
    # The pool outlives its agent.
    node=$(sed -n 's/.*node_id=\(n-[0-9a-f-]*\).*/\1/p' "$work/agent.log" 2>/dev/null | head -n 1) || true
    docker ps --all --quiet --filter "label=service.org/sandbox-of=$node" | xargs --no-run-if-empty docker rm --force >/dev/null
    rm -rf "$work"
}
trap end EXIT

export ORCHESTRATOR_LISTEN=127.0.0.1:31234 COMPUTE_AGENT_LISTEN=127.0.0.1:31235
ORCHESTRATOR_DATA_DIR="$work/orchestrator" "$programs/orchestrator" >"$work/orchestrator.log" 2>&1 &
daemons+=($!)
COMPUTE_AGENT_ORCHESTRATOR="http://$ORCHESTRATOR_LISTEN" COMPUTE_AGENT_DATA_DIR="$work/agent" \
    COMPUTE_AGENT_DOCKER__SANDBOX_POOL=1 RUST_LOG=info \
    COMPUTE_AGENT_CAPACITY__CPU=2 COMPUTE_AGENT_CAPACITY__MEMORY=4GB \
    valgrind --quiet --tool=callgrind --demangle=no --callgrind-out-file="$work/calls" \
    "$programs/compute-agent" >"$work/agent.log" 2>&1 &
agent=$!
daemons+=("$agent")
sleep "$rest_seconds"
if ! grep -q 'joined the orchestrator' "$work/agent.log"; then
    echo "the agent did not join:" >&2
    cat "$work/agent.log" >&2
    exit 1
fi
# Whoever watches an agent asks for these. (/metrics too, but callgrind fails at it.)
for path in /livez /readyz /api/v1/agent/alive /api/v1/agent/node; do
    curl --silent --show-error --fail --max-time 30 --output /dev/null "http://$COMPUTE_AGENT_LISTEN$path"
done
# Up to here; what it runs when it ends is not wanted.
callgrind_control --dump "$agent" >/dev/null
sleep 5
# A name stands where its function comes first: "fn=(12) name", with 'N behind it in a recursion.
sed -nE "s/^c?fn=\([0-9]+\) ([^']+).*$/\1/p" "$work/calls.1" | grep '^[A-Za-z_]' | sort -u >"$work/names"
# It knows no AVX-512, for which the C library has functions of its own.
sed -nE 's/^(__[a-z]+)_avx2?(_[a-z_]+)?$/\1_evex\2\n\1_avx512\2/p' "$work/names" | cat "$work/names" - >"$order"
echo "$(wc -l <"$order") functions in $order"
