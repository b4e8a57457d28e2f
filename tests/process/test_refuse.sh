#!/bin/bash
# Nodes that must not train together do not, and each says why: another run name, another job under the
# same name. Both wait for a second node, so neither may take a step. What decides is the bits, not the
# settings: nodes that pin other BLAS kernels compute the same in exact mode, so they do train together.
. "$(dirname "$0")/../support/process.sh"

says() { # NAME PATTERN
    grep -Eiq "$2" "$WORK/$1.log"
}

stopped() { # NAME: interrupted by us, as exit status 130 says
    local status
    kill -INT "${PID[$1]}"
    wait_until 10 "$1 to stop" gone "$1"
    wait "${PID[$1]}"
    status=$?
    unset "PID[$1]"
    [ $status = 130 ] || fail "$1 ended with status $status after an interrupt, expected 130"
}

refuse() { # WHAT PATTERN OPTION ...
    local what=$1 pattern=$2 name
    shift 2
    rm -rf "$WORK"/[ab]
    node a "$WORK/job.yaml" --peers 2
    node b "$WORK/job.yaml" --peers 2 "$@"
    for name in a b; do
        wait_until 20 "$name to say why it does not train with another $what" says $name "$pattern"
    done
    for name in a b; do
        stopped $name
        [ "$(steps_done $name)" = 0 ] || fail "$name trained although the other has another $what"
    done
    echo "$what: $(grep -Ei "$pattern" "$WORK/a.log" | head -n 1)"
}

write_job "$WORK/job.yaml" 50
refuse "run name" "run.*(small|other)" --set run.name=other
refuse "job" "another (job|model|training)" --set train.batch=192

together() { # OPTION OF THE SECOND NODE ...
    rm -rf "$WORK"/[ab]
    node a "$WORK/job.yaml" --peers 2
    node b "$WORK/job.yaml" --peers 2 "$@"
    finished 60 a b
    same_hash reference a b
}

reference "$WORK/job.yaml"
together
together --set run.numerics=portable --seed 7 --threads 2
echo "same job on another kernel: same weights"
