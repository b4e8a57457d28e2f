#!/bin/bash
# fresh.sh SECONDS [JOBS] - random schedules of every engine of the simulator, a quarter of the time each, from seeds that
# no run had before. Goes on after a failure; its line says how to repeat it.
cd "$(dirname "$0")/../.." || exit 2
status=0
for engine in rounds inexact push gossip; do
    echo "--- $engine"
    "${BUILD:-build/gcc}/sim" --engine $engine --seconds "$((($1 + 3) / 4))" --jobs "${2:-$(nproc)}" --first "$(date +%s)000" ||
        status=1
done
exit $status
