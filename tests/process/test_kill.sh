#!/bin/bash
# test_kill.sh [INSTANTS] [SEED] - kill -9 at random instants of training. Four nodes train; one is killed,
# later another; the two left must end with the weights of a run without any accident, and go on within a
# second each time. Each run is two instants. Prints for each kill the pause it caused: the largest gap
# between two steps from there to the next kill (or end), less the gap that was normal before.
. "$(dirname "$0")/../support/process.sh"
INSTANTS=${1:-6}
RANDOM=${2:-1}
STEPS=320
PAUSE_MS_MAX=1000

write_job "$WORK/job.yaml" $STEPS
reference "$WORK/job.yaml"
: >"$WORK/pauses"

# Milliseconds: largest gap between two steps from FROM to TO, less the median gap up to FROM.
pause() { # NAME FROM TO
    sed -n 's/.*"step": *\([0-9]*\).*"time_s": *\([0-9.e+-]*\).*/\1 \2/p' "$WORK/$1/metrics.jsonl" |
        awk -v from="$2" -v to="$3" '
            NR > 1 && $1 <= from { gap[++count] = $2 - last }
            NR > 1 && $1 > from && $1 <= to && $2 - last > worst { worst = $2 - last }
            { last = $2 }
            END {
                for (i = 2; i <= count; i++)
                    for (j = i; j > 1 && gap[j] < gap[j - 1]; j--) {
                        swap = gap[j]; gap[j] = gap[j - 1]; gap[j - 1] = swap
                    }
                if (!count || !worst)
                    exit 1
                pause = 1000 * (worst - gap[int((count + 1) / 2)])
                printf("%.1f\n", pause > 0 ? pause : 0)
            }' || fail "no steps of $1 to judge by between $2 and $3"
}

worst() { # NUMBER ...
    printf '%s\n' "$@" | sort -n | tail -n 1
}

# Some way into step $1 of the survivors, at no particular instant of it. Sets AT, the step before the kill.
kill_at() { # STEP VICTIM SURVIVOR ...
    local step=$1 victim=$2
    shift 2
    wait_until 60 "step $step" reached "$step" "$@"
    sleep "0.$(printf '%03d' $((RANDOM % 50)))" # not to wait for anything: to spread the instants
    AT=$(steps_done "$1")
    kill_node "$victim"
}

one_run() { # NUMBER
    local names=(a b c d) first second step1 step2 at1 at2 name
    local pauses1=() pauses2=()
    for name in "${names[@]}"; do
        rm -rf "${WORK:?}/$name"
        node "$name" "$WORK/job.yaml" --peers 4
    done
    first=$((RANDOM % 4))
    second=$(((first + 1 + RANDOM % 3) % 4))
    step1=$((10 + RANDOM % (STEPS / 2 - 20)))
    step2=$((STEPS / 2 + RANDOM % (STEPS / 4)))
    first=${names[first]} second=${names[second]}
    local left=()
    for name in "${names[@]}"; do
        [ "$name" = "$first" ] || [ "$name" = "$second" ] || left+=("$name")
    done
    kill_at $step1 "$first" "${left[@]}"
    at1=$AT
    kill_at $step2 "$second" "${left[@]}"
    at2=$AT
    finished 60 "${left[@]}"
    same_hash reference "${left[@]}"
    if [ "$at2" -gt $((STEPS - 3)) ]; then
        echo "| $1 | $first at $at1 | | $second at $at2, too late to tell | | same |"
        return
    fi
    for name in "${left[@]}"; do
        pauses1+=("$(pause "$name" "$at1" "$at2")") || exit
        pauses2+=("$(pause "$name" "$at2" $STEPS)") || exit
    done
    printf '%s\n' "$(worst "${pauses1[@]}")" "$(worst "${pauses2[@]}")" | tee -a "$WORK/pauses" |
        paste -s | (read -r one two && echo "| $1 | $first at $at1 | $one | $second at $at2 | $two | same |")
}

echo "| run | killed at step | pause ms | killed at step | pause ms | weights |"
echo "|---|---|---|---|---|---|"
for ((run = 1; $(wc -l <"$WORK/pauses") < INSTANTS; run++)); do
    one_run $run
done
sort -n "$WORK/pauses" | awk -v most=$PAUSE_MS_MAX '
    { ms[NR] = $1 }
    END {
        printf "%d kills, one hash; pause ms: median %.1f, 99 %% %.1f, worst %.1f\n", NR,
            ms[int((NR + 1) / 2)], ms[int(0.99 * NR + 0.5)], ms[NR]
        exit ms[NR] > most
    }' || fail "a kill stopped the others for more than $PAUSE_MS_MAX ms"
