#!/bin/bash
# test_split.sh [SEED] - a part of tests/chaos/net_split.py, net_cut.py and net_rough.py, another one each day: one split
# of a real network, two pulled cables, and some seconds of lost and late packets. Four nodes in namespaces on the
# user-space switch. How fast they recover is for a quiet machine to judge: here they must, with the right states.
. "$(dirname "$0")/../support/process.sh"
. "$ROOT/tests/support/netns.sh"
netns_need
SEED=${1:-$DAY}
SPLITS=("1|3" "2|2" "three" "each" "one-way 1>3" "one-way 3>1" "one-way 2>2" "one line" "1 Hz 2|2")

part() {
    echo "$*"
    python3 "$ROOT/tests/chaos/$@"
    case $? in
    0) ;;
    77) exit 77 ;;
    *) fail "$*" ;;
    esac
}

part net_split.py --seconds 2 --limit 120 --seed "$SEED" --only "${SPLITS[SEED % ${#SPLITS[@]}]}"
part net_cut.py --cuts 2 --patience 120 --seed "$SEED"
part net_rough.py --seconds 4 --gap 120 --seed "$SEED"
