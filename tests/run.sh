#!/bin/sh
# run.sh LOGDIR TEST...: run each test program or script with a deadline, print a line for each and the log of
# those that fail. A test that cannot run here exits 77 and says why: it counts as skipped, and is named.
#
# Each test runs in a session of its own. What is left of the session when the test ends, or when we are
# interrupted, is killed: a node that a failed test forgot would slow down all that follow.
#
# RUNNER: words to put before programs (not scripts), such as an emulator.
logs=$1
RUNNER=${RUNNER:-}
shift
mkdir -p "$logs"
passed=0 failed=0 skipped=0 count=0 session= began=$(date +%s)

end_session() {
    [ -z "$session" ] || pkill -9 -s "$session"
    session=
}
trap 'end_session; exit 130' INT TERM HUP

minutes() { # SECONDS
    [ "$1" -lt 60 ] && echo "$1 s" || echo "$(($1 / 60)) min $(($1 % 60)) s"
}

line() { # WORD TEXT
    [ -t 1 ] && printf '\r\033[K'
    printf '[%*d/%d] %-7s %-28s %s\n' ${#total} "$count" "$total" "$1" "$name" "$2"
}

total=$#
for test in "$@"; do
    name=$(basename "$test")
    log=$logs/$name.log
    start=$(date +%s)
    count=$((count + 1))
    corpus= runner=$RUNNER
    case $name in replay_*) corpus=tests/fuzz/corpus/${name#replay_} ;; *.sh) runner= ;; esac
    [ -t 1 ] && printf '[%*d/%d] %s ...' ${#total} "$count" "$total" "$name"
    setsid timeout -k 10 "${DEADLINE:-900}" $runner "$test" $corpus >"$log" 2>&1 </dev/null &
    session=$!
    wait "$session"
    status=$?
    end_session
    took=$(minutes $(($(date +%s) - start)))
    case $status in
    0) passed=$((passed + 1)); line ok "$took" ;;
    77) skipped=$((skipped + 1)); line SKIPPED "$(tail -n 1 "$log")" ;;
    124 | 137) failed=$((failed + 1)); line FAILED "still ran after $took, log:"; sed 's/^/    /' "$log" ;;
    *) failed=$((failed + 1)); line FAILED "status $status after $took, log:"; sed 's/^/    /' "$log" ;;
    esac
done
echo "$passed passed, $failed failed, $skipped skipped in $(minutes $(($(date +%s) - began)))"
[ "$failed" = 0 ]
