#!/bin/bash
# run.sh short|night [SEED] - the chaos tools one after the other, with what each is to do in minutes or in hours. Goes on
# after a failure; a table at the end says how long each took and what came of it. The seed is the day of the year
# unless given. PERCENT=100 of the night's runs: PERCENT=1 shows in minutes that every part of it works. Parts that need
# root or docker say so and are skipped without.
cd "$(dirname "$0")/../.." || exit 2
mode=$1
seed=${2:-$((10#$(date +%j)))}
PERCENT=${PERCENT:-100}

part() { # COUNT: PERCENT of it, at least 1
    echo $((($1 * PERCENT + 99) / 100))
}

scenarios=(configs/chaos-*.yaml)
points=--all matrix=--all
[ "$PERCENT" -ge 100 ] || points="--runs $(part 1300) --scenes 6" matrix="--runs $(part 504)" \
    scenarios=("${scenarios[@]:0:$(part ${#scenarios[@]})}")
case $mode in
short) tools=("points.py --runs 30 --scenes 4" "kills.py --runs 45" "matrix.py --runs 30" "counting.py --runs 12"
    "cold.py --runs 20" memory.py "scenario.py configs/chaos-kill.yaml configs/chaos-pause.yaml configs/chaos-power.yaml
    configs/chaos-join.yaml configs/chaos-return.yaml configs/chaos-disk.yaml" "churn.py --cycles 60"
    "net_split.py --seconds 2 --only 1|3,2|2,each" "net_cut.py --cuts 10" "net_rough.py --seconds 20"
    "net_soak.py --seconds 120 --every 5 --cpu 0.12") ;;
night) tools=("points.py $points --judge" "kills.py --runs $(part 1000) --kinds kill,stop --judge"
    "kills.py --runs $(part 100) --kinds none" "matrix.py $matrix" "counting.py --runs $(part 1000)"
    "cold.py --runs $(part 200)" memory.py "scenario.py ${scenarios[*]}" "net_split.py --rounds $(part 10)"
    "net_cut.py --cuts $(part 100)" "churn.py --cycles $(part 2000)" "net_rough.py --seconds $(part 600)" "net_flood.py"
    "net_unequal.py --rounds $(part 2)" "net_goodput.py --seconds $(part 600)"
    "net_soak.py --seconds $(part 3600)" "compose.sh $((PERCENT < 100 ? 10000 : 30000))") ;;
*) echo "usage: run.sh short|night [SEED]" >&2; exit 2 ;;
esac

rows=()
failed=0
for tool in "${tools[@]}"; do
    tool=$(echo $tool)
    began=$SECONDS
    case $tool in
    *.sh*) command="tests/chaos/$tool" ;;
    *) command="python3 tests/chaos/$tool --seed $seed" ;;
    esac
    printf '\n--- %s\n' "$command"
    $command
    case $? in
    0) verdict=kept ;;
    77) verdict=skipped ;;
    *) verdict=FAILED failed=1 ;;
    esac
    rows+=("| $tool | $((SECONDS - began)) | $verdict |")
done
printf '\n| tool | seconds | promises |\n|---|---|---|\n'
printf '%s\n' "${rows[@]}"
echo "seed $seed, load $(cut -d ' ' -f 1-3 /proc/loadavg) on $(nproc) CPUs"
exit $failed
