#!/bin/sh
# Makes the database and the answers next to this script with the programs of release 0.1.0:
# record.sh PROGRAMS IMAGE, where IMAGE is a task image of the Docker Engine. Needs root, for a host
# separate name.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
if [ "${3:-}" != inside ]; then
    exec unshare --uts "$0" "$1" "$2" inside
fi
programs=$1
image=$2
hostname node-a
work=$(mktemp -d)
orchestrator=
agent=
node=
finish() {
    [ -z "$agent" ] || kill -9 "$agent" 2>/dev/null || true
    [ -z "$orchestrator" ] || kill -9 "$orchestrator" 2>/dev/null || true
    left=$(docker ps --all --quiet --filter "label=service.org/node=$node")
    [ -z "$left" ] || docker rm --force --volumes $left >/dev/null
    rm -rf "$work"
}
trap finish EXIT

url=http://127.0.0.1:28734
api=$url/api/v1/orchestrator
ORCHESTRATOR_LISTEN=${url#http://} ORCHESTRATOR_DATA_DIR=$work/orchestrator "$programs/orchestrator" 2>"$work/orchestrator.log" &
orchestrator=$!
until curl -sf "$url/readyz" >/dev/null; do sleep 0.2; done
COMPUTE_AGENT_ORCHESTRATOR=$url COMPUTE_AGENT_LISTEN=127.0.0.1:28735 COMPUTE_AGENT_LABELS=zone=a \
    COMPUTE_AGENT_CAPACITY__CPU=2 COMPUTE_AGENT_CAPACITY__MEMORY=4GB COMPUTE_AGENT_CAPACITY__DISK=10GB \
    COMPUTE_AGENT_ENGINES=docker,noop COMPUTE_AGENT_DOCKER__SANDBOX_POOL=0 \
    COMPUTE_AGENT_DATA_DIR=$work/agent "$programs/compute-agent" 2>"$work/agent.log" &
agent=$!
until curl -sf http://127.0.0.1:28735/readyz >/dev/null; do sleep 0.2; done
node=$(curl -sf "$api/nodes?labels=zone" | grep -o 'n-[0-9a-f-]\{36\}' | head -n 1)

docker_engine() {
    arguments=
    for argument in "$@"; do arguments="$arguments${arguments:+,}\"$argument\""; done
    echo "\"Engine\": {\"Type\": \"docker\", \"Params\": {\"Image\": \"$image\", \"Parameters\": [$arguments]}}"
}
noop_engine='"Engine": {"Type": "noop", "Params": {}}'
# Name, other members of the job, engine; prints the ID.
submit() {
    curl -sf -X PUT "$api/jobs" -H 'Content-Type: application/json' -H "Idempotency-Key: $1" \
        -d "{\"Job\": {\"Name\": \"$1\", $2, \"Tasks\": [{\"Name\": \"main\", $3}]}}" |
        grep -o 'j-[0-9a-f-]\{36\}' | head -n 1
}
until_state() {
    until curl -sf "$api/jobs/$1" | grep -q "\"StateType\":\"$2\""; do sleep 0.2; done
}
completed=$(submit completed '"Type": "batch", "Count": 2, "Labels": {"team": "a", "size": "3"}' "$noop_engine")
printed=$(submit printed '"Type": "batch", "Namespace": "team", "Priority": 70' "$(docker_engine echo from 0.1.0)")
failed=$(submit failed '"Type": "batch", "RetryPolicy": {"Attempts": 2}' "$(docker_engine exit 3)")
everywhere=$(submit everywhere '"Type": "ops"' "$noop_engine")
waiting=$(submit waiting '"Type": "batch", "Constraints": [{"Key": "zone", "Operator": "=", "Values": ["nowhere"]}]' "$noop_engine")
stopped=$(submit stopped '"Type": "batch", "Constraints": [{"Key": "zone", "Operator": "=", "Values": ["nowhere"]}]' "$noop_engine")
curl -sf -X DELETE "$api/jobs/$stopped?reason=enough" >/dev/null
running=$(submit running '"Type": "batch"' "$(docker_engine sleep 6000)")
until_state "$completed" Completed
until_state "$printed" Completed
until_state "$failed" Failed
until_state "$everywhere" Completed
until_state "$waiting" Queued
until_state "$running" Running

# What the release answers, by path.
{
    separator='{'
    for path in "jobs?namespace=*&limit=100&order_by=create_time" "jobs?namespace=*&labels=team%3Da" \
        "jobs?namespace=team" "nodes/$node" "nodes/$node/history"; do
        printf '%s\n"/api/v1/orchestrator/%s": ' "$separator" "$path"
        curl -sf "$api/$path"
        separator=,
    done
    for job in $completed $printed $failed $everywhere $waiting $stopped $running; do
        for path in "$job" "$job/executions" "$job/history"; do
            printf ',\n"/api/v1/orchestrator/jobs/%s": ' "$path"
            curl -sf "$api/jobs/$path"
        done
    done
    printf '}\n'
} >"$work/answers.json"
kill "$orchestrator"
wait "$orchestrator"
orchestrator=
gzip -9nc "$work/orchestrator/orchestrator.db" >"$here/orchestrator.db.gz"
cp "$work/answers.json" "$here/answers.json"
