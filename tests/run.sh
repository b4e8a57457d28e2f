#!/bin/bash
# run.sh LOGDIR TEST...: run each test program or script with a deadline, print a line for each and the log of
# those that fail. A test that cannot run here exits 77 and says why: it counts as skipped, and is named.
#
# One test more runs at the same time than there are processors (JOBS=n: as many as that), because most tests of real
# nodes wait more than they compute. Each test runs in a session of its own. What is left of the session when the test
# ends, or when we are interrupted, is killed: a node that a failed test forgot would slow down all that follow.
#
# Some tests draw by the day since 1970 what they try: DAY=N draws again what they drew on that day.
#
# RUNNER: words to put before programs (not scripts), such as an emulator.
logs=$1
shift
export DAY=${DAY:-$(($(date +%s) / 86400))}
jobs=${JOBS:-$(($(nproc) + 1))}
mkdir -p "$logs"
total=$# passed=0 failed=0 skipped=0 count=0 began=$SECONDS
declare -A test_of start_of # by session: the test's program, and when it began

end_session() { # SESSION
    pkill -9 -s "$1"
    unset "test_of[$1]"
}
trap 'for session in "${!test_of[@]}"; do end_session "$session"; done; exit 130' INT TERM HUP

minutes() { # SECONDS
    [ "$1" -lt 60 ] && echo "$1 s" || echo "$(($1 / 60)) min $(($1 % 60)) s"
}

line() { # WORD NAME TEXT
    [ -t 1 ] && printf '\r\033[K'
    printf '[%*d/%d] %-7s %-28s %s\n' ${#total} "$count" "$total" "$@"
}

start() { # TEST
    local name runner corpus
    name=$(basename "$1") runner=${RUNNER:-} corpus=
    case $name in replay_*) corpus=tests/fuzz/corpus/${name#replay_} ;; *.sh) runner= ;; esac
    # shellcheck disable=SC2086 # RUNNER is words, and most tests have no corpus
    setsid timeout -k 10 "${DEADLINE:-3600}" $runner "$1" $corpus >"$logs/$name.log" 2>&1 </dev/null &
    test_of[$!]=$1 start_of[$!]=$SECONDS
    [ -t 1 ] && printf '\r\033[K[%*d/%d] %s ...' ${#total} "$count" "$total" "$name"
}

finish() { # waits for one of those that run
    local session status name log took
    wait -n -p session "${!test_of[@]}" 2>/dev/null # bash would tell of each that was killed
    status=$?
    name=$(basename "${test_of[$session]}") log=$logs/$name.log took=$(minutes $((SECONDS - start_of[$session])))
    end_session "$session"
    count=$((count + 1))
    case $status in
    0) passed=$((passed + 1)); line ok "$name" "$took" ;;
    77) skipped=$((skipped + 1)); line SKIPPED "$name" "$(tail -n 1 "$log")" ;;
    124 | 137) failed=$((failed + 1)); line FAILED "$name" "still ran after $took, log:"; sed 's/^/    /' "$log" ;;
    *) failed=$((failed + 1)); line FAILED "$name" "status $status after $took, log:"; sed 's/^/    /' "$log" ;;
    esac
}

for test in "$@"; do
    start "$test"
    [ "${#test_of[@]}" -lt "$jobs" ] || finish
done
while [ "${#test_of[@]}" -gt 0 ]; do finish; done
echo "$passed passed, $failed failed, $skipped skipped in $(minutes $((SECONDS - began))); drawn by DAY=$DAY"
[ "$failed" = 0 ]
