#!/bin/sh
# Starts and removes the demo cluster of deploy/compose.yaml, and of deploy/compose.pair.yaml.
set -eu

usage() {
    cat <<'TEXT'
Usage: deploy/cluster.sh up [--metrics] | down | COMPOSE-COMMAND...

  up          start the cluster, wait until every node has joined, and say how to sign in;
              --metrics adds Prometheus and Grafana
  down        stop the cluster, and remove its tasks, data, tokens and network
  ps, logs …  any other docker compose command, on this cluster

Environment variables, with their defaults: CLUSTER_NAME (jobs), CLUSTER_PORT (1234),
CLUSTER_IMAGE (job-orchestrator:latest, which `just image` builds), CLUSTER_NODE_TTL (30),
CLUSTER_METRICS_PORT (9090), CLUSTER_GRAFANA_PORT (3000), CLUSTER_SOCKET (/var/run/docker.sock),
and CLUSTER_FILES (target/cluster/jobs of this checkout), for the CA and the tokens.

CLUSTER_DATABASE, such as postgres://jobs:PASSWORD@host.docker.internal/jobs, names a database of
PostgreSQL that two orchestrators share; the second has CLUSTER_PORT_B (1236).
TEXT
}

fail() {
    echo "cluster.sh: $*" >&2
    exit 1
}

here=$(cd "$(dirname "$0")" && pwd)
export CLUSTER_NAME="${CLUSTER_NAME:-jobs}"
export CLUSTER_PORT="${CLUSTER_PORT:-1234}"
files=${CLUSTER_FILES:-${CARGO_TARGET_DIR:-$here/../target}/cluster/$CLUSTER_NAME}
case $files in /*) ;; *) files=$PWD/$files ;; esac
export CLUSTER_FILES="$files"
NODES=3
# Seconds within which every node must join.
PATIENCE=60

pair=${CLUSTER_DATABASE:+$here/compose.pair.yaml}
if docker compose version >/dev/null 2>&1; then
    compose() { docker compose -p "$CLUSTER_NAME" -f "$here/compose.yaml" ${pair:+-f "$pair"} "$@"; }
elif docker-compose version >/dev/null 2>&1; then
    compose() { docker-compose -p "$CLUSTER_NAME" -f "$here/compose.yaml" ${pair:+-f "$pair"} "$@"; }
else
    fail "found neither 'docker compose' nor 'docker-compose': install docker-compose"
fi
directory=$(docker info --format '{{.DockerRootDir}}') || fail "'docker info' failed: start the Docker Engine, and check that this user may use it"
export CLUSTER_VOLUMES="$directory/volumes"

jobctl() {
    compose exec -T orchestrator /usr/bin/jobctl "$@"
}

# Copies what one needs to sign in out of the cluster.
keep_files() {
    (umask 077 && mkdir -p "$files")
    container=$(compose ps -q orchestrator)
    for file in admin.token ca.crt; do
        docker cp "$container:/var/lib/orchestrator/$file" "$files/$file" >/dev/null
    done
    chmod 0644 "$files/ca.crt"
    ca=$(docker logs "$container" 2>&1 | sed -n 's/.* ca=\([0-9a-f]\{64\}\).*/\1/p' | tail -n 1)
}

# Prometheus has a separate token. Its user is not the one who runs this: the directory keeps
# others out, not the mode of the file.
metrics() {
    # One of an earlier release is an operator's, which agents refuse.
    if ! grep -q '^jm1_' "$files/prometheus.token" 2>/dev/null; then
        token=$(jobctl token create prometheus --role monitor)
        echo "$token" >"$files/prometheus.token"
    fi
    chmod 0644 "$files/prometheus.token"
    compose --profile metrics up -d prometheus grafana
}

up() {
    compose up -d || fail "the cluster did not start; if its image is missing, 'just image' builds it"
    waited=0
    # The list also contains the orchestrator, which does not have this label.
    until [ "$(jobctl node list --selector agent -o name 2>/dev/null | grep -c .)" -ge $NODES ]; do
        [ $waited -lt $PATIENCE ] || fail "not every node joined within $PATIENCE s; see '$0 logs'"
        waited=$((waited + 1))
        sleep 1
    done
    keep_files
    [ "${1:-}" != metrics ] || metrics
    echo "up: https://127.0.0.1:$CLUSTER_PORT"
    echo "CA: sha256:$ca"
    echo "sign in: jobctl login --url https://127.0.0.1:$CLUSTER_PORT --token-file $files/admin.token"
}

down() {
    # Tasks are containers of the host's Docker Engine and outlive their agents.
    nodes=$(jobctl node list -o name 2>/dev/null | tr -d '\r' | sed 's|.*/||') || nodes=
    compose --profile metrics stop
    for node in $nodes; do
        # Tasks first: they use network sandboxes, which stay for the next task.
        for label in node sandbox-of guarded-sandbox-of; do
            left=$(docker ps --all --quiet --filter "label=service.org/$label=$node")
            # Some end by themselves in the meantime.
            [ -z "$left" ] || docker rm --force --volumes $left >/dev/null || true
        done
    done
    [ -n "$nodes" ] || echo "cluster.sh: the orchestrator does not respond, so tasks may remain; see 'docker ps --filter label=service.org/node' and '... label=service.org/sandbox-of'" >&2
    compose --profile metrics down --volumes --remove-orphans
    rm -f "$files/admin.token" "$files/ca.crt" "$files/prometheus.token"
    rmdir "$files" 2>/dev/null || true
}

case ${1:-} in
    up)
        case ${2:-} in
            --metrics) up metrics ;;
            "") up ;;
            *) fail "unknown argument '$2'; try --help" ;;
        esac
        ;;
    down) down ;;
    "" | --help) usage ;;
    *) compose "$@" ;;
esac
