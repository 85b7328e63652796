#!/bin/sh
# Starts and ends the demo cluster of deploy/compose.yaml.
set -eu

usage() {
    cat <<'TEXT'
Usage: deploy/cluster.sh up [--metrics] | down | COMPOSE-COMMAND...

  up          start the cluster and wait until every node has joined; --metrics adds Prometheus
  down        end it, and remove its tasks, data and network
  ps, logs …  whatever else docker compose understands, on this cluster

CLUSTER_NAME (jobs), CLUSTER_PORT (1234), CLUSTER_IMAGE (job-orchestrator:latest, made by
`just image`), CLUSTER_NODE_TTL (30), CLUSTER_METRICS_PORT (9090) and CLUSTER_SOCKET
(/var/run/docker.sock) in the environment change what is in parentheses.
TEXT
}

fail() {
    echo "cluster.sh: $*" >&2
    exit 1
}

here=$(cd "$(dirname "$0")" && pwd)
export CLUSTER_NAME="${CLUSTER_NAME:-jobs}"
export CLUSTER_PORT="${CLUSTER_PORT:-1234}"
NODES=3
# Seconds for which the nodes may take to join.
PATIENCE=60

if docker compose version >/dev/null 2>&1; then
    compose() { docker compose -p "$CLUSTER_NAME" -f "$here/compose.yaml" "$@"; }
elif docker-compose version >/dev/null 2>&1; then
    compose() { docker-compose -p "$CLUSTER_NAME" -f "$here/compose.yaml" "$@"; }
else
    fail "neither 'docker compose' nor 'docker-compose' is here: install docker-compose"
fi
directory=$(docker info --format '{{.DockerRootDir}}') || fail "no Docker Engine answers 'docker info'"
export CLUSTER_VOLUMES="$directory/volumes"

jobctl() {
    compose exec -T orchestrator /usr/bin/jobctl "$@"
}

up() {
    compose "$@" up -d || fail "the cluster does not start; is its image there? 'just image' makes it"
    waited=0
    # The orchestrator is in the list too, but has no such label.
    until [ "$(jobctl node list --selector agent -o name 2>/dev/null | grep -c .)" -ge $NODES ]; do
        [ $waited -lt $PATIENCE ] || fail "not every node has joined within $PATIENCE s; look at '$0 logs'"
        waited=$((waited + 1))
        sleep 1
    done
    echo "up: http://127.0.0.1:$CLUSTER_PORT"
}

down() {
    # Tasks are containers of the host's Engine, and run on without their agents.
    nodes=$(jobctl node list -o name 2>/dev/null | tr -d '\r' | sed 's|.*/||') || nodes=
    compose --profile metrics stop
    for node in $nodes; do
        # Tasks first: they stand in network sandboxes, which are kept for the next task.
        for label in node sandbox-of; do
            left=$(docker ps --all --quiet --filter "label=service.org/$label=$node")
            # Some end by themselves meanwhile.
            [ -z "$left" ] || docker rm --force --volumes $left >/dev/null || true
        done
    done
    [ -n "$nodes" ] || echo "cluster.sh: the orchestrator does not answer: tasks may be left, see 'docker ps --filter label=service.org/node' and '... label=service.org/sandbox-of'" >&2
    compose --profile metrics down --volumes --remove-orphans
}

case ${1:-} in
    up)
        case ${2:-} in
            --metrics) up --profile metrics ;;
            "") up ;;
            *) fail "unknown argument '$2'; try --help" ;;
        esac
        ;;
    down) down ;;
    "" | --help) usage ;;
    *) compose "$@" ;;
esac
