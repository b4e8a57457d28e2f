#!/bin/bash
# wait.sh - wait for a condition, with a deadline; whoever includes this says in `fail MESSAGE` what a failure is.
#
#     . wait.sh
#     wait_until 30 "two nodes to train" peers_are 2 a b

now() { # microseconds
    echo "${EPOCHREALTIME/[.,]/}"
}

wait_until() { # SECONDS WHAT COMMAND ...
    local end=$(($(now) + $1 * 1000000)) seconds=$1 what=$2
    shift 2
    until "$@"; do
        [ "$(now)" -lt $end ] || fail "waited $seconds s for $what"
        sleep "${WAIT_STEP:-0.01}" # how often a condition is looked at
    done
}
