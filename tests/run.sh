#!/bin/sh
# run.sh LOGDIR TEST...: run each test program or script with a deadline, print a line for each and the log of
# those that fail. A test that cannot run here exits 77 and says why: it counts as skipped, and is named.
logs=$1
shift
mkdir -p "$logs"
passed=0 failed=0 skipped=0
for test in "$@"; do
    name=$(basename "$test")
    log=$logs/$name.log
    start=$(date +%s)
    corpus=
    case $name in replay_*) corpus=tests/fuzz/corpus/${name#replay_} ;; esac
    timeout -k 10 "${DEADLINE:-600}" "$test" $corpus >"$log" 2>&1 </dev/null
    status=$?
    took=$(($(date +%s) - start))
    case $status in
    0) passed=$((passed + 1)); printf 'ok      %-28s %3d s\n' "$name" "$took" ;;
    77) skipped=$((skipped + 1)); printf 'SKIPPED %-28s %s\n' "$name" "$(tail -n 1 "$log")" ;;
    *) failed=$((failed + 1)); printf 'FAILED  %-28s status %d, log:\n' "$name" "$status"; sed 's/^/    /' "$log" ;;
    esac
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
