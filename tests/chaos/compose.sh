#!/bin/bash
# compose.sh [STEPS] - containers of docker-compose.yml while everything happens to them. Four of them meet by
# beacon and train; two are killed and started again with swapped addresses; one is paused; one is taken off the
# network, a fifth takes its address, and it comes back with another; one is stopped by docker stop and started
# again. The first is left alone. At the end every one has the weights and state of a single container without
# a network, and none that was left alone stood still for more than a second beyond its usual step. Then they get another
# job, and docker-compose down leaves nothing behind.
#
# Needs an engine (dockerd runs, docker and docker-compose or its plugin are there, debian:bookworm-slim is to be
# had); else it says so and exits with 77. Removes what it made and nothing else. What it prints:
#
#     | what happened | at step | to | longest pause of the others, ms | until all were together, ms |
set -u
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
STEPS=${1:-30000}
PAUSE_MS_MAX=1000
PROJECT=meshchaos$$
export IMAGE=meshnode-chaos:$$ JOB=configs/chaos.yaml THREADS=1 EPOCHS=100000

skip() {
    echo "SKIPPED: $*"
    exit 77
}

command -v docker >/dev/null || skip "no docker command"
docker info >/dev/null 2>&1 || skip "no docker engine answers (is dockerd running?)"
if docker compose version >/dev/null 2>&1; then
    COMPOSE="docker compose"
elif command -v docker-compose >/dev/null; then
    COMPOSE=docker-compose
else
    skip "neither docker compose nor docker-compose"
fi
WORK=$(mktemp -d "${TMPDIR:-/tmp}/meshnode-compose-XXXXXX")

compose() {
    $COMPOSE -p $PROJECT --project-directory "$WORK" -f "$ROOT/docker-compose.yml" "$@" 2>>"$WORK/compose.log"
}

clean_up() {
    local status=$? left
    [ $BASHPID = $$ ] || exit $status
    left=$(docker ps -aq --filter "label=com.docker.compose.project=$PROJECT")
    # shellcheck disable=SC2086 # a list of words
    [ -z "$left" ] || { docker unpause $left; docker rm -fv $left; } >/dev/null 2>&1
    docker rm -fv $PROJECT-alone >/dev/null 2>&1
    docker network rm ${PROJECT}_mesh >/dev/null 2>&1
    docker rmi "$IMAGE" >/dev/null 2>&1
    if [ $status = 0 ]; then
        rm -rf "$WORK"
    else
        echo "kept: $WORK"
    fi
}
trap clean_up EXIT
trap 'exit 130' INT TERM

fail() {
    local number
    echo "FAILED: $*" >&2
    for number in "${!ID[@]}"; do
        echo "--- last lines of node $number, $(address "$number")"
        docker logs -t "${ID[number]}" >"$WORK/$number.log" 2>&1
        tail -n 8 "$WORK/$number.log"
    done >&2
    exit 1
}

WAIT_STEP=0.1 # an engine answers slowly
. "$ROOT/tests/support/wait.sh"
. "$ROOT/tests/support/live.sh"

find_containers() { # COUNT: their ids into ID
    local number
    for ((number = 1; number <= $1; number++)); do
        ID[number]=$(docker ps -aq --filter "label=com.docker.compose.project=$PROJECT" \
            --filter "label=com.docker.compose.container-number=$number")
        [ -n "${ID[number]}" ] || fail "there is no container $number"
    done
}

address() { # NUMBER
    docker inspect -f '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "${ID[$1]}"
}

# The last step that NUMBER printed, and with how many others.
last_line() { # NUMBER
    [ -z "${ID[$1]:-}" ] || docker logs --tail 20 "${ID[$1]}" 2>&1 | live
}

step_of() { # NUMBER
    local line
    line=$(last_line "$1")
    echo "${line:-0}" | cut -d ' ' -f 1
}

past() { # STEP NUMBER ...
    local step=$1 number
    shift
    for number; do
        [ "$(step_of "$number")" -gt "$step" ] || return 1
    done
}

together() { # COUNT NUMBER ...: each trains with COUNT nodes, and all are about the same step
    local count=$1 number line
    shift
    for number; do
        line=$(last_line "$number")
        [ "${line#* }" = "$count" ] || return 1
    done
}

# What happened at which step, to whom; until when is filled in by the next one.
EVENTS=() VICTIMS=() FROM=() REUNION=()
event() { # WHAT VICTIM ...
    EVENTS+=("$1")
    shift
    VICTIMS+=(" $* ")
    FROM+=("$(step_of 1)")
    REUNION+=("")
    STARTED=$(now)
    echo "# step ${FROM[${#FROM[@]} - 1]}: ${EVENTS[${#EVENTS[@]} - 1]}"
}

go_on() { # NUMBER ...: these make some steps without the others
    local from
    from=$(step_of 1)
    wait_until 20 "nodes $* to go on" past $((from + 20)) "$@"
}

reunited() { # COUNT NUMBER ...
    wait_until 60 "$1 nodes to be together" together "$@"
    REUNION[${#REUNION[@]} - 1]=$((($(now) - STARTED) / 1000))
    go_on 1
}

results() { # NUMBER OR alone
    local id=$PROJECT-alone
    [ "$1" = alone ] || id=${ID[$1]}
    docker cp "$id:/meshnode/runs/chaos" "$WORK/$1" >/dev/null 2>&1 || fail "node $1 left no results"
    sed -n 's/.*"step": *\([0-9]*\).*"time_s": *\([0-9.e+-]*\).*/\1 \2/p' "$WORK/$1/metrics.jsonl" >"$WORK/$1/steps"
}

value() { # NAME KEY
    sed -n "s/.*\"$2\": *\"\{0,1\}\([^\",}]*\).*/\1/p;T;q" "$WORK/$1/result.json"
}

# Longest and usual gap between two steps of NUMBER from step FROM to TO, in ms; "" when there are none.
gaps() { # NUMBER FROM TO
    awk -v from="$2" -v to="$3" '$1 == step + 1 && $2 > time && $1 > from && $1 <= to { print 1000 * ($2 - time) }
        { step = $1; time = $2 }' "$WORK/$1/steps" | sort -n |
        awk '{ gap[NR] = $1 } END { if (NR) printf("%.0f %.0f\n", gap[NR], gap[int((NR + 1) / 2)]) }'
}

echo "# $(docker version -f 'engine {{.Server.Version}}'), $($COMPOSE version --short), $(nproc) CPUs, load $(cut -d ' ' -f 1-3 /proc/loadavg)"
docker build -q -t "$IMAGE" "$ROOT" >"$WORK/build.log" 2>&1 || {
    tail -n 20 "$WORK/build.log"
    fail "the image cannot be built"
}
echo "# image: $(($(docker inspect -f '{{.Size}}' "$IMAGE") / 1000000)) MB"

mkdir "$WORK/configs"
cat >"$WORK/configs/chaos.yaml" <<EOF
run: {name: chaos, seed: 7, numerics: portable}
data: {source: glyphs, train: 1920, test: 240}
model: [input: [1, 28, 28], conv: {filters: 8, kernel: 5, pad: 2}, relu, maxpool: 2, flatten, dense: 48, tanh,
        dropout: 0.2, dense: 10]
train: {epochs: 100000, steps: $STEPS, batch: 96, shards: 12, optimizer: {sgd: {rate: 0.05, momentum: 0.9}},
        eval_every: 0}
EOF
ID=()
docker run --name $PROJECT-alone --network none -v "$WORK/configs:/meshnode/configs:ro" "$IMAGE" $JOB \
    --set mesh.gather_ms=0 --quiet >"$WORK/alone.log" 2>&1 || fail "the run of one container: $(tail -n 3 "$WORK/alone.log")"
results alone

event "start of four"
compose up -d --scale node=4 || fail "docker-compose up: $(tail -n 5 "$WORK/compose.log")"
find_containers 4
reunited 4 1 2 3 4
for number in 1 2 3 4; do
    [ "$(docker logs "${ID[number]}" 2>&1 | grep -cE ' joined, [0-9]+ nodes$')" -ge 3 ] || fail "node $number did not find the others"
done

# The engine gives out the lowest free address: who had the higher one starts first.
before2=$(address 2) before3=$(address 3) order="2 3"
[ "$(printf '%s\n' "$before2" "$before3" | sort -V | tail -n 1)" = "$before2" ] || order="3 2"
event "docker kill of two" 2 3
docker kill "${ID[2]}" "${ID[3]}" >/dev/null
go_on 1 4
event "they start again, addresses swapped" 2 3
for number in $order; do
    docker start "${ID[number]}" >/dev/null
done
reunited 4 1 2 3 4
echo "# addresses of 2 and 3: before $before2 $before3, then $(address 2) $(address 3)"
[ "$(address 2) $(address 3)" = "$before3 $before2" ] || fail "the engine did not swap the addresses of 2 and 3"

event "docker pause" 4
docker pause "${ID[4]}" >/dev/null
go_on 1 2 3
event "docker unpause" 4
docker unpause "${ID[4]}" >/dev/null
reunited 4 1 2 3 4

before3=$(address 3)
event "docker network disconnect" 3
docker network disconnect ${PROJECT}_mesh "${ID[3]}"
go_on 1 2 4
go_on 3
event "a fifth comes" 3 5
compose up -d --no-recreate --scale node=5 || fail "docker-compose up: $(tail -n 5 "$WORK/compose.log")"
find_containers 5
before=$STARTED STARTED=$(date -d "$(docker inspect -f '{{.State.StartedAt}}' "${ID[5]}")" +%s%6N)
echo "# docker-compose took $(((STARTED - before) / 1000)) ms until it ran"
reunited 4 1 2 4 5
event "docker network connect" 3
docker network connect ${PROJECT}_mesh "${ID[3]}"
reunited 5 1 2 3 4 5
echo "# address of 3: before $before3, then $(address 3); the fifth has $(address 5)"

event "docker stop" 2
docker stop "${ID[2]}" >/dev/null
echo "# docker stop took $((($(now) - STARTED) / 1000)) ms, status $(docker inspect -f '{{.State.ExitCode}}' "${ID[2]}"):" \
    "$(docker logs --tail 1 "${ID[2]}" 2>&1)"
[ "$(docker inspect -f '{{.State.ExitCode}}' "${ID[2]}")" = 130 ] || fail "docker stop did not end node 2 in good order"
go_on 1 3 4 5
event "docker start" 2
docker start "${ID[2]}" >/dev/null
reunited 5 1 2 3 4 5
for number in 1 2 3 4 5; do
    docker exec "${ID[number]}" meshnode health >"$WORK/health" 2>&1 || fail "node $number is not healthy: $(cat "$WORK/health")"
done
FROM+=("$STEPS")

all_ended() {
    local number
    for number in "${!ID[@]}"; do
        [ "$(docker inspect -f '{{.State.Status}}' "${ID[number]}")" = exited ] || return 1
    done
}
wait_until 900 "the run to end" all_ended
for number in "${!ID[@]}"; do
    status=$(docker inspect -f '{{.State.ExitCode}}' "${ID[number]}")
    [ "$status" = 0 ] || fail "node $number ended with status $status"
    results "$number"
    for key in params_sha256 state_sha256; do
        [ "$(value "$number" $key)" = "$(value alone $key)" ] ||
            fail "$key of node $number is $(value "$number" $key), of one container alone $(value alone $key)"
    done
done

echo "| what happened | at step | to | longest pause of the others, ms | until all were together, ms |"
echo "|---|---|---|---|---|"
worst=0
for ((i = 0; i < ${#EVENTS[@]}; i++)); do
    longest=
    for number in "${!ID[@]}"; do
        [[ ${VICTIMS[i]} != *" $number "* ]] || continue
        read -r gap usual < <(gaps "$number" "${FROM[i]}" "${FROM[i + 1]}") || continue
        pause=$((gap > usual ? gap - usual : 0))
        [ "${longest:-0}" -gt $pause ] || longest=$pause
    done
    [ -n "$longest" ] || fail "no steps to judge by after: ${EVENTS[i]}"
    [ $i = 0 ] || [ "$longest" -lt $worst ] || worst=$longest
    echo "| ${EVENTS[i]} | ${FROM[i]} | ${VICTIMS[i]} | $longest | ${REUNION[i]} |"
done
echo "five containers, one hash, that of one alone: weights $(value 1 params_sha256)"
echo "longest pause $worst ms beyond a usual step, limit $PAUSE_MS_MAX ms; load $(cut -d ' ' -f 1-3 /proc/loadavg)"
[ $worst -le $PAUSE_MS_MAX ] || fail "something stopped the others for more than $PAUSE_MS_MAX ms"

# Another job makes new containers. down removes all that there ever was of them.
volumes=$(docker inspect -f '{{range .Mounts}}{{.Name}} {{end}}' "${ID[@]}")
EPOCHS=99999 compose up -d --scale node=2 || fail "docker-compose up: $(tail -n 5 "$WORK/compose.log")"
ID=()
find_containers 2
wait_until 60 "two new containers to train" together 2 1 2
compose down -v || fail "docker-compose down: $(tail -n 5 "$WORK/compose.log")"
# shellcheck disable=SC2086 # a list of words
left=$(docker ps -aq --filter "label=com.docker.compose.project=$PROJECT"; docker volume inspect -f '{{.Name}}' $volumes 2>/dev/null)
[ -z "$left" ] || fail "docker-compose down left behind: $left"
echo "another job, and docker-compose down: nothing is left"
