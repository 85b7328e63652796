#!/bin/sh
# Builds the daemons of release 0.1.0 in target/release-0.1.0, unless they are there, and prints the
# directory of the programs.
set -eu

commit=8d82f4e28c23999678c53a8d93f7e744fc04015d
root=$(cd "$(dirname "$0")/../../.." && pwd)
checkout=${CARGO_TARGET_DIR:-$root/target}/release-0.1.0
if ! [ -e "$checkout/Cargo.toml" ]; then
    mkdir -p "$checkout"
    git -C "$root" archive "$commit" | tar -x -C "$checkout"
fi
cd "$checkout"
BUILD_GIT_COMMIT=$commit CARGO_TARGET_DIR=$checkout/target \
    cargo build -p orchestrator -p compute-agent --bins >&2
echo "$checkout/target/debug"
