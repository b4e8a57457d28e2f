#!/bin/bash
# test_inexact.sh - train.exact: no. Nodes that trained apart have different weights, and none of them is wrong: when they meet
# they end with the same ones, and nobody speaks of an error. Who ends by itself says that others have other weights.
. "$(dirname "$0")/../support/process.sh"

write_job "$WORK/job.yaml" 20 "exact: no"

silent() { # PATTERN NAME ...
    local pattern=$1 name
    shift
    for name; do
        ! grep -E "$pattern" "$WORK/$name.log" || fail "$name says so"
    done
}

node a "$WORK/job.yaml" --peers 2
node b "$WORK/job.yaml" --peers 2
GROUP=t$$-alone
node c "$WORK/job.yaml"
finished 60 a b c
same_hash a b
[ "$(result a state_sha256)" != "$(result c state_sha256)" ] || fail "two nodes come to the state of one: nothing to be seen here"
silent "no other node ended" a b c # c was never with others

node a "$WORK/job.yaml" --resume --set train.steps=40 --peers 2
node c "$WORK/job.yaml" --resume --set train.steps=40 --peers 2
finished 60 a c
same_hash a c
silent "error|may be wrong|no other node ended" a c
grep -hE "different weights|has other weights" "$WORK/a.log" "$WORK/c.log" || fail "nobody says that they differed"

for name in a c; do
    GROUP=t$$-$name
    node $name "$WORK/job.yaml" --resume --set train.steps=60
    finished 60 $name
    grep "warning: no other node ended together with this one" "$WORK/$name.log" || fail "$name does not say that it ended by itself"
done
