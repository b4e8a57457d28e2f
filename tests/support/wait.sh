#!/bin/bash
# wait.sh - wait for a condition, with a deadline; whoever includes this says in `fail MESSAGE` what a failure is.
#
#     . wait.sh
#     wait_until 30 "two nodes to train" peers_are 2 a b
#
# The seconds are what it takes at most on a machine that has nothing else to do. Where twenty others want the CPU it
# takes far longer, so the deadline is that of a hang: ten times as long, at least 120 s and at most 600.

exec {NEVER}<> <(:) # nothing ever comes from it: to wait without a process for each time

now() { # microseconds
    echo "${EPOCHREALTIME/[.,]/}"
}

hang() { # SECONDS
    local most=$(($1 < 12 ? 120 : $1 > 60 ? 600 : 10 * $1))
    echo $(($1 > most ? $1 : most))
}

wait_until() { # SECONDS WHAT COMMAND ...
    local seconds what=$2 end
    seconds=$(hang "$1")
    end=$(($(now) + seconds * 1000000))
    shift 2
    until "$@"; do
        [ "$(now)" -lt $end ] || fail "waited $seconds s for $what"
        read -r -t "${WAIT_STEP:-0.02}" -u "$NEVER" # how often a condition is looked at
    done
}
