#!/bin/bash
# run.sh short|night [SEED] - the chaos tools one after the other, with what each is to do in minutes or in hours. Goes on
# after a failure. A table at the end says of each tool what was tried, how long it took, and whether all promises were
# kept, or why not, or why it was skipped. The seed is the day of the year unless given. PERCENT=100 of the night's runs:
# PERCENT=1 shows in minutes that every part of it works. Ends with 1 when something failed.
#
# `short` judges what holds on a machine with other work, too: hashes, hangs, memory; pauses only when they are far beyond
# the promise. `night` judges by the promises.
cd "$(dirname "$0")/../.." || exit 2
mode=$1
seed=${2:-$((10#$(date +%j)))}
PERCENT=${PERCENT:-100}

part() { # COUNT: PERCENT of it, at least 1
    echo $((($1 * PERCENT + 99) / 100))
}

scenarios=(configs/chaos-*.yaml)
# Of the free ways (gossip) two files, chosen by the seed.
mapfile -t free < <(grep -l '^way:' "${scenarios[@]}")
free=("${free[seed % ${#free[@]}]}" "${free[(seed + ${#free[@]} / 2) % ${#free[@]}]}")
plants=("../sim/fresh.sh plants") points=--all matrix=--all servers=--all stages=--all pieces=--all
[ "$PERCENT" -ge 100 ] || points="--runs $(part 1700) --scenes 6" matrix="--runs $(part 504)" servers="--runs $(part 520)" \
    stages="--runs $(part 591)" pieces="--runs $(part 212)" \
    scenarios=("${scenarios[@]:0:$(part ${#scenarios[@]})}") plants=()
case $mode in
short) tools=("points.py --runs 30 --scenes 4" "kills.py --runs 45" "matrix.py --runs 30" "matrix.py --of codecs --runs 10" "kills.py --runs 10 --kinds topk,onebit" "parts.py --runs 10"
    "matrix.py --of servers --runs 30" "matrix.py --of stages --runs 20 --courses 2" "stages_points.py --runs 20" "counting.py --runs 12"
    "cold.py --runs 20" memory.py "scenario.py configs/chaos-kill.yaml configs/chaos-pause.yaml configs/chaos-power.yaml
    configs/chaos-join.yaml configs/chaos-return.yaml configs/chaos-disk.yaml configs/chaos-server-kill.yaml configs/chaos-stage-kill.yaml
    ${free[*]}" "free.py --runs 6 --accidents 1" "churn.py --cycles 60" "joins.py"
    "net_split.py --seconds 2 --only 1|3,2|2,each --limit 10" "net_cut.py --cuts 10 --patience 10"
    "net_rough.py --seconds 20" "net_flood.py --seconds 2 --rounds 1 --least 0 --grown 131072"
    "net_soak.py --seconds 120 --every 5 --cpu 0.12") ;;
night) export ALL=1
    tools=("points.py $points --judge" "kills.py --runs $(part 1000) --kinds kill,stop --judge"
    "kills.py --runs $(part 100) --kinds none" "matrix.py $matrix" "matrix.py --of codecs --runs $(part 400)" "kills.py --runs $(part 100) --kinds topk,onebit --judge" "parts.py --runs $(part 200)"
    "matrix.py --of servers $servers" "matrix.py --of stages --courses 20 $stages" "stages_points.py --judge $pieces" "counting.py --runs $(part 1000)"
    "cold.py --runs $(part 200)" memory.py "scenario.py --within 20 ${scenarios[*]}" "free.py --runs $(part 100) --worst 1000"
    "net_split.py --rounds $(part 10)"
    "net_cut.py --cuts $(part 100)" "churn.py --cycles $(part 2000)" "joins.py --runs $(part 20) --judge"
    "load.py --runs $(part 20)" "net_rough.py --seconds $(part 600)" "net_flood.py"
    "net_healthy.py --runs $(part 1000)"
    "net_unequal.py --rounds $(part 2)" "net_goodput.py --seconds $(part 600)"
    "net_soak.py --seconds $(part 3600) --every $((PERCENT < 10 ? 3 : 10))" compose.sh
    ../process/test_doctor.sh ../process/test_power.sh ../process/test_gossip.sh ../process/test_free_checkpoints.sh
    "../process/test_disk.sh $(part 60)" "../sim/fresh.sh $(part 1200)" "${plants[@]}") ;;
*) echo "usage: run.sh short|night [SEED]" >&2; exit 2 ;;
esac

declare -A TRIES=(
    [points.py]="killed, stopped, hung at named points" [kills.py]="several killed or stopped at once, also within spans of codecs with memory"
    [parts.py]="parts of a model lost"
    [matrix.py]="one hash: nodes, threads, compilers; codecs; elected servers; models in stages"
    [stages_points.py]="killed, stopped at each piece of a stage" [counting.py]="every sample once per epoch"
    [cold.py]="power cut, damaged checkpoints" [memory.py]="memory limits, data larger than memory" [scenario.py]="configs/chaos-*.yaml"
    [free.py]="gossip" [churn.py]="nodes come and go: memory" [joins.py]="a late node takes 72 MB of state"
    [load.py]="a machine with too much to do"
    [net_split.py]="split networks" [net_cut.py]="cables pulled" [net_rough.py]="lost and late packets"
    [net_flood.py]="strangers flood the ports" [net_healthy.py]="healthy nodes are never cut off"
    [net_unequal.py]="a slow machine or link"
    [net_goodput.py]="speed under accidents" [net_soak.py]="memory under accidents" [compose.sh]="containers"
    [../process/test_doctor.sh]="broken and sound networks"
    [../process/test_power.sh]="the power fails, each way to train" [../process/test_gossip.sh]="gossip, each way"
    [../process/test_free_checkpoints.sh]="checkpoints of ways that do not wait"
    [../process/test_disk.sh]="a disk that stays full for long" [../sim/fresh.sh]="the simulator, fresh schedules of every engine, planted bugs in them"
)

log=$(mktemp) || exit 2
trap 'rm -f "$log"' EXIT
rows=()
failed=0 skipped=0
for tool in "${tools[@]}"; do
    # shellcheck disable=SC2086,SC2116 # lines become one
    tool=$(echo $tool)
    began=$SECONDS
    case $tool in
    *.sh*) command="tests/chaos/$tool" ;;
    *) command="python3 tests/chaos/$tool --seed $seed" ;;
    esac
    printf '\n--- %s\n' "$command"
    $command 2>&1 | tee "$log"
    case ${PIPESTATUS[0]} in
    0) verdict=kept ;;
    77) verdict=$(sed -n 's/^SKIPPED: */SKIPPED: /p' "$log" | tail -n 1) skipped=$((skipped + 1)) verdict=${verdict:-SKIPPED} ;;
    *) verdict=$(sed -n 's/^FAILED\( run [0-9]*\)*: */FAILED: /p' "$log" | tail -n 1 | cut -c 1-160) failed=$((failed + 1))
        verdict=${verdict:-FAILED} ;;
    esac
    rows+=("| ${TRIES[${tool%% *}]} | $tool | $((SECONDS - began)) | $verdict |")
done
printf '\n| what was tried | tool | seconds | promises |\n|---|---|---|---|\n'
printf '%s\n' "${rows[@]}"
echo "${#tools[@]} tools, $failed failed, $skipped skipped for what this machine lacks; seed $seed, $((SECONDS / 60)) minutes," \
    "load $(cut -d ' ' -f 1-3 /proc/loadavg) on $(nproc) CPUs"
exit $((failed > 0))
