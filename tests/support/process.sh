#!/bin/bash
# process.sh - for tests of real nodes: start them, wait for conditions, leave nothing behind.
#
#     . "$(dirname "$0")/../support/process.sh"
#     write_job "$WORK/job.yaml" 200                  # a small network, 200 steps
#     node a "$WORK/job.yaml" --peers 2               # alone on lo, in a group of this test
#     node b "$WORK/job.yaml" --peers 2
#     wait_until 30 "two nodes to train" peers_are 2 a b
#     finished 60 a b                                 # both end with status 0
#     same_hash a b
#
# MESHNODE names the program, FAILNODE the one with failpoints. Everything is below $WORK, which is kept when the test
# fails. Conditions are polled and have deadlines; nothing waits for time to pass.

set -u
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
MESHNODE=${MESHNODE:-$ROOT/build/gcc/meshnode}
FAILNODE=${FAILNODE:-$ROOT/build/gcc-fail/meshnode}
WORK=$(mktemp -d "${TMPDIR:-/tmp}/meshnode-process-XXXXXX")
GROUP=t-${WORK##*-} # nodes of other tests, clones and users do not meet ours on lo
LINK="--interface lo"
declare -A PID=() WHERE=()

clean_up() {
    local status=$? pid
    [ $BASHPID = $$ ] || exit $status # a subshell cleans up nothing
    for pid in "${PID[@]}"; do
        kill -9 "$pid" 2>/dev/null
    done
    wait
    if declare -F netns_down >/dev/null; then
        netns_down
    fi
    if [ $status = 0 ] || [ $status = 77 ]; then
        rm -rf "$WORK"
    else
        echo "kept: $WORK"
    fi
}
trap clean_up EXIT
trap 'exit 130' INT TERM

fail() {
    local name
    echo "FAILED: $*" >&2
    for name in "${!PID[@]}"; do
        echo "--- last lines of $name"
        tail -n 8 "$WORK/$name.log"
    done >&2
    exit 1
}

skip() {
    echo "$*"
    exit 77
}

# What tests draw depends on the day since 1970: DAY=N draws again what they drew on that day.
DAY=${DAY:-$(($(date +%s) / 86400))}

# COUNT of the items, in their order: what is too long for each `make check`. The day and the line of the test choose, so that
# what is drawn from a draw is any of it. ALL=1: all of them.
today() { # COUNT ITEM ...
    local count=$1 k=0 item
    shift
    [ "${ALL:-0}" = 0 ] || count=$#
    for item; do
        echo "$(md5sum <<<"$DAY ${BASH_LINENO[0]} $item" | cut -c 1-8) $((k++)) $item"
    done | sort | head -n "$count" | sort -n -k 2,2 | cut -d ' ' -f 3-
}

sanitized() { # is AddressSanitizer or another one built in? It keeps what is free, and handles signals
    grep -qaE '__(asan|tsan|msan)_init' "$MESHNODE"
}

# Python with packages of PyPI: VENV. `make pypi` makes it; a test does not fetch hundreds of megabytes by itself.
pypi() { # NAME IMPORT
    VENV=$ROOT/build/venv-$1
    "$VENV/bin/python" -c "$2" 2>/dev/null || skip "no $1 from PyPI in build/venv-$1: make pypi gets it"
}

[ -x "$MESHNODE" ] || fail "no program $MESHNODE"

# All layer kinds that train. With 4 nodes on 2 cores a step takes about 5 ms.
write_job() { # FILE STEPS [LINE OF THE TRAIN SECTION ...]
    local file=$1 steps=$2
    shift 2
    [ $# -gt 0 ] || set -- "eval_every: 0"
    {
        printf '%s\n' "run: {name: small, seed: 7}" "data: {source: glyphs, train: 1920, test: 240, augment: {shift: 2}}" \
            "model:" "  - input: [1, 28, 28]" "  - maxpool: 2" "  - conv: {filters: 8, kernel: 5, pad: 2}" \
            "  - relu" "  - flatten" "  - dense: 48" "  - tanh" "  - dropout: 0.2" "  - dense: 10" \
            "train:" "  epochs: 100000" "  steps: $steps" "  batch: 96" "  shards: 12" \
            "  optimizer: {sgd: {rate: 0.05, momentum: 0.9}}"
        printf '  %s\n' "$@"
    } >"$file"
}

# WHERE[NAME] may hold words to put before the command, such as "ip netns exec mn1-2".
node() { # NAME JOB [OPTION ...]; an empty JOB: help with that of the others
    local name=$1 job=$2
    shift 2
    # shellcheck disable=SC2086 # both are lists of words
    ${WHERE[$name]:-} "$MESHNODE" ${job:+"$job"} --out "$WORK/$name" --threads 1 --set "mesh.group=$GROUP" $LINK "$@" \
        >"$WORK/$name.log" 2>&1 </dev/null &
    PID[$name]=$!
}

. "$(dirname "${BASH_SOURCE[0]}")/wait.sh"

running() { # NAME
    kill -0 "${PID[$1]}" 2>/dev/null
}

gone() { # NAME ...
    local name
    for name; do
        if running "$name"; then
            return 1
        fi
    done
}

# Did they, with so many nodes, in the last line of their metrics?
trains_with() { # COUNT NAME ...
    local count=$1 name
    shift
    for name; do
        tail -n 1 "$WORK/$name/metrics.jsonl" 2>/dev/null | grep -q "\"peers\":$count," || return 1
    done
}

# The step of its newest checkpoint; nothing, if it has none.
newest() { # NAME
    ls "$WORK/$1" 2>/dev/null | sed -n 's/^checkpoint-\([0-9]*\)$/\1/p' | sort -n | tail -n 1
}

saved() { # STEP NAME ...: it has such a checkpoint, or a later one
    local step=$1 name
    shift
    for name; do
        [ "$(newest "$name" || true)" ] && [ "$(newest "$name")" -ge "$step" ] || return 1
    done
}

# A node of FAILNODE that is killed when its first checkpoint is safe; dead waits until it is, before its run ends.
killed_at_checkpoint() { # NAME OPTION ...
    WHERE[$1]="env MESHNODE_FAIL=checkpointed:1:kill"
    MESHNODE=$FAILNODE node "$1" "$WORK/job.yaml" "${@:2}"
    WHERE[$1]=
}
dead() { # NAME
    wait_until 60 "$1 to kill itself" gone "$1"
    wait "${PID[$1]}" 2>/dev/null
    unset "PID[$1]"
    [ ! -e "$WORK/$1/result.json" ] || fail "$1 was done before it was killed"
}

# By a failpoint with the action stop: the test acts in mid-run, however fast the run is, and lets it go on with kill -CONT.
held() { # NAME
    [ "$(ps -o state= -p "${PID[$1]}")" = T ]
}

finished() { # SECONDS NAME ...
    local seconds=$1 name status
    shift
    wait_until "$seconds" "$* to finish" gone "$@"
    for name; do
        wait "${PID[$name]}"
        status=$?
        unset "PID[$name]"
        [ $status = 0 ] || fail "$name ended with status $status: $(tail -n 2 "$WORK/$name.log")"
    done
}

kill_node() { # NAME
    kill -9 "${PID[$1]}" 2>/dev/null
    wait "${PID[$1]}" 2>/dev/null
    unset "PID[$1]"
}

# The value of KEY in the first object of FILE that has it: numbers and strings bare.
value() { # FILE KEY
    sed -n "s/.*\"$2\": *\"\{0,1\}\([^\",}]*\).*/\1/p;T;q" "$1" 2>/dev/null
}

result() { # NAME KEY
    value "$WORK/$1/result.json" "$2"
}

last_step() { # NAME: STEP
    local line
    STEP=0
    line=$(tail -n 1 "$WORK/$1/metrics.jsonl" 2>/dev/null) # the one process that a look takes
    [[ ! $line =~ \"step\":\ *([0-9]+) ]] || STEP=${BASH_REMATCH[1]}
}

steps_done() { # NAME
    local STEP
    last_step "$1"
    echo "$STEP"
}

reached() { # STEP NAME ...
    local step=$1 name STEP
    shift
    for name; do
        last_step "$name"
        [ "$STEP" -ge "$step" ] || return 1
    done
}

# A job on N nodes of T threads each, which all take part and end with the hash of what PREFIX1x1-0 had. They are called
# PREFIXNxT-0 and so on.
train_on() { # PREFIX NxT JOB [OPTION ...]
    local prefix=$1 size=$2 job=$3 nodes=${2%x*} names=() index name
    shift 3
    for ((index = 0; index < nodes; index++)); do
        names+=("$prefix$size-$index")
        node "$prefix$size-$index" "$job" --peers "$nodes" --threads "${size#*x}" "$@"
    done
    finished 120 "${names[@]}"
    same_hash "${prefix}1x1-0" "${names[@]}"
    for name in "${names[@]}"; do
        [ "$(result "$name" peers_max)" = "$nodes" ] ||
            fail "$name trained with $(result "$name" peers_max) nodes, expected $nodes"
    done
    echo "${prefix:+${prefix%-}, }$nodes nodes of ${size#*x} threads: $(result "${names[0]}" params_sha256)"
}

peers_are() { # COUNT NAME ...
    local count=$1 name
    shift
    for name; do
        grep -q "\"peers\": *${count}[,}]" "$WORK/$name/metrics.jsonl" 2>/dev/null || return 1
    done
}

same_hash() { # NAME ...
    local key name first=$1
    for key in params_sha256 state_sha256; do
        [ -n "$(result "$first" $key)" ] || fail "$first has no $key"
        for name; do
            [ "$(result "$name" $key)" = "$(result "$first" $key)" ] ||
                fail "$key of $name is $(result "$name" $key), of $first $(result "$first" $key)"
        done
    done
}

says() { # NAME PATTERN
    grep -Eq -e "$2" "$WORK/$1.log"
}

must_say() { # NAME PATTERN
    says "$@" || fail "$1 does not say '$2': $(cat "$WORK/$1.log")"
}

# The program ends with status 2, and with one line on stderr, which is in $WORK/err.
refuses() { # PATTERN ARGUMENT ...
    local pattern=$1 status
    shift
    timeout -k 5 120 "$MESHNODE" "$@" >"$WORK/out" 2>"$WORK/err" </dev/null
    status=$?
    [ $status = 2 ] && [ "$(wc -l <"$WORK/err")" = 1 ] && [ ! -s "$WORK/out" ] && grep -Eq -e "$pattern" "$WORK/err" ||
        fail "$*: status $status, expected '$pattern': $(cat "$WORK/out" "$WORK/err")"
}

same_weights() { # NAME ...
    local name
    for name; do
        [ "$(result "$name" params_sha256)" = "$(result "$1" params_sha256)" ] ||
            fail "$name has other weights than $1: $(result "$name" params_sha256), $(result "$1" params_sha256)"
    done
}

# One node in a group of its own, to the end.
alone() { # NAME OPTION ...
    local name=$1 group=$GROUP
    shift
    GROUP=$group-$name
    node "$name" "$WORK/job.yaml" --set mesh.gather_ms=0 "$@"
    GROUP=$group
    finished 60 "$name"
}

# What the others must come out at: one node, by itself.
reference() { # JOB [OPTION ...]; PATIENCE=120 seconds
    local job=$1 group=$GROUP
    shift
    GROUP=$group-alone
    node reference "$job" --set mesh.gather_ms=0 "$@"
    GROUP=$group
    finished "${PATIENCE:-120}" reference
}
