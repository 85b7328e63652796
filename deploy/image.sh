#!/bin/sh
# Builds the image of deploy/Dockerfile from existing programs.
set -eu

usage() {
    cat <<'TEXT'
Usage: deploy/image.sh [--binaries DIR] [--tag NAME]

Options:
  --binaries DIR  directory of orchestrator, compute-agent, wasm-runner and jobctl
                  (default: target/HOST/dist of this checkout, which `just static` fills)
  --tag NAME      name of the image (default: job-orchestrator:latest)

The image also contains the libraries of programs that are not static.
TEXT
}

fail() {
    echo "image.sh: $*" >&2
    exit 1
}

root=$(cd "$(dirname "$0")/.." && pwd)
binaries=${CARGO_TARGET_DIR:-$root/target}/$(uname -m)-unknown-linux-gnu/dist
tag=job-orchestrator:latest
while [ $# -gt 0 ]; do
    case $1 in
        --binaries) [ $# -gt 1 ] || fail "--binaries needs a directory"; binaries=$2; shift ;;
        --tag) [ $# -gt 1 ] || fail "--tag needs a name"; tag=$2; shift ;;
        --help) usage; exit 0 ;;
        *) fail "unknown argument '$1'; try --help" ;;
    esac
    shift
done

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
mkdir -p "$context/image/usr/bin" "$context/image/etc/ssl/certs" "$context/image/tmp" \
    "$context/data/orchestrator" "$context/data/compute-agent" "$context/data/cluster-key" "$context/run/orchestrator"
chmod 1777 "$context/image/tmp"
for name in orchestrator compute-agent wasm-runner jobctl; do
    [ -x "$binaries/$name" ] ||
        fail "there is no program $binaries/$name; build it with 'just static', or name its directory with --binaries"
    install -m 0755 "$binaries/$name" "$context/image/usr/bin/$name"
    # The image has no debugger, so debug information would only take space.
    if command -v strip >/dev/null; then
        strip "$context/image/usr/bin/$name"
    fi
    # `ldd` fails for a static program.
    libraries=$(ldd "$binaries/$name" 2>/dev/null | grep -o '/[^ )]*') || libraries=
    for library in $libraries; do
        mkdir -p "$context/image$(dirname "$library")"
        cp -L "$library" "$context/image$library"
    done
done
# CA certificates: the agent reaches inputs, object stores and publishers over https.
for bundle in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do
    if [ -e "$bundle" ]; then
        cp -L "$bundle" "$context/image/etc/ssl/certs/ca-certificates.crt"
        break
    fi
done
[ -e "$context/image/etc/ssl/certs/ca-certificates.crt" ] ||
    echo "image.sh: found no bundle of CA certificates, so https will not work in the image; install ca-certificates" >&2
printf 'root:x:0:0::/:\nnonroot:x:65532:65532::/:\n' >"$context/image/etc/passwd"
cp "$root/deploy/Dockerfile" "$context/Dockerfile"
docker build --quiet --tag "$tag" "$context"
