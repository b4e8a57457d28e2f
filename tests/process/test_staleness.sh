#!/bin/bash
# How old are the values that gradients come from? Three nodes whose tickets take a fixed time each (a failpoint makes
# computing sleep) train without waiting; the replay prints the histogram of staleness. The simulator, in which tickets take
# as long as they did here, prints one, too. The total variation distance d of the two, half the sum of what the shares p
# differ by, has a limit that follows from the number n of tickets. If these were drawn independently, the mean of d would be
# at most half the sum of sqrt(2 p (1 - p) / (pi n)), as each share is about normal; and d exceeds its mean by
# sqrt(ln(10^6) / 2n) with a probability below 10^-6, since one ticket changes d by at most 1 / n (McDiarmid, 1989). Where
# sleeping takes much longer than asked, messages wait as long, which the simulator cannot know: then nothing is compared.
. "$(dirname "$0")/../support/process.sh"
MESHNODE=$FAILNODE
SIM=${BUILD:-$ROOT/build/gcc}/sim
STEPS=${STEPS:-100}
TICKETS=$((STEPS * 6))

write_job "$WORK/job.yaml" "$STEPS"
# no multiples of one another: all phases between the nodes come up
for pair in a:150 b:243 c:378; do
    MESHNODE_FAIL="compute:1+:sleep=${pair#*:}" node "${pair%:*}" "$WORK/job.yaml" --peers 3 --set mesh.topology=server \
        --set mesh.sync=async --set mesh.ticket_shards=2
done
finished $((60 + STEPS)) a b c
same_hash a b c
timeout -k 5 300 "$MESHNODE" verify --replay "$WORK"/[abc] >"$WORK/real" 2>&1 || fail "replay: $(cat "$WORK/real")"
grep -q "^replay: staleness in updates: of $((TICKETS * 16)) gradients" "$WORK/real" || fail "$(cat "$WORK/real")"

mean_us() { # NAME: of the time that its tickets took
    sed -n 's/.*"compute_s":\([0-9.e-]*\),.*/\1/p' "$WORK/$1/metrics.jsonl" |
        awk '{ sum += $1 } END { printf "%d", 1e6 * sum / NR }'
}
late=$(($(mean_us a) - 150000))
[ $late -le 6000 ] || { echo "SKIPPED: a ticket of 150 ms takes $late us longer: the machine is overloaded"; exit 77; }
times=$(mean_us a),$(mean_us b),$(mean_us c)
timeout -k 5 300 "$SIM" --staleness "$times" --seeds 8 >"$WORK/simulated" 2>&1 || fail "sim: $(cat "$WORK/simulated")"

shares() { # FILE: lines of tau and percent
    sed -n 's/^\(replay:\)\? *\([0-9]\+\)+\? \+[0-9]\+ \+\([0-9.]\+\) %$/\2 \3/p' "$1"
}
distance=$(awk 'NR == FNR { real[$1] = $2; next } { other[$1] = $2 }
    END { for (t = 0; t <= 64; t++) { d = real[t] - other[t]; sum += d < 0 ? -d : d } printf "%.4f", sum / 200 }' \
    <(shares "$WORK/real") <(shares "$WORK/simulated"))
echo "tickets of $times us: real and simulated staleness"
paste "$WORK/real" "$WORK/simulated"
most=$(shares "$WORK/simulated" | awk -v n="$TICKETS" '{ p = $2 / 100; mean += sqrt(p * (1 - p) / (2 * 3.14159265 * n)) }
    END { printf "%.4f", mean + sqrt(log(1e6) / (2 * n)) }')
echo "total variation distance $distance, at most $most of $TICKETS tickets"
awk -v d="$distance" -v most="$most" 'BEGIN { exit !(d <= most) }' || fail "the histograms differ by $distance, expected at most $most"
