#!/bin/bash
# fresh.sh SECONDS [JOBS] - random schedules of every engine of the simulator, a quarter of the time each, from seeds that
# no run had before. Goes on after a failure; its line says how to repeat it.
# fresh.sh plants - instead, every planted bug must be found in such schedules, also those that a stored seed shows.
cd "$(dirname "$0")/../.." || exit 2
status=0
for engine in rounds inexact gossip; do
    echo "--- $engine"
    how="--seconds $((($1 + 3) / 4)) --jobs ${2:-$(nproc)}"
    [ "$1" != plants ] || how="--mutants --fresh"
    # shellcheck disable=SC2086 # words
    "${BUILD:-build/gcc}/sim" --engine $engine $how --first "$(date +%s)000" || status=1
done
exit $status
