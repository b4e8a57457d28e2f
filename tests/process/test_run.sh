#!/bin/bash
# test_run.sh - the tests' own tools: run.sh counts what passes, fails, is skipped and hangs, and ends what a test left;
# networks can be had within a plain chroot, whose root folder is no mount point; nodes of tests are on lo in groups of their
# own; pauses after accidents are judged by the usual step.
. "$(dirname "$0")/../support/process.sh"

script() { # NAME LINE ...
    printf '%s\n' '#!/bin/bash' "${@:2}" >"$WORK/$1.sh"
    chmod +x "$WORK/$1.sh"
}
script good 'exit 0'
script bad "bash -c 'echo \$\$ >$WORK/left; while :; do sleep 1; done' &" "until [ -s $WORK/left ]; do sleep 0.01; done" 'echo because' 'exit 3'
script stuck "trap '' TERM" 'while :; do sleep 1; done'
script cannot 'echo no luck' 'exit 77'
DEADLINE=1 "$ROOT/tests/run.sh" "$WORK/logs" "$WORK"/{good,bad,cannot,stuck}.sh >"$WORK/out" && fail "run.sh says that all is well"
cat "$WORK/out"
# several run at a time, so they end in any order
for line in '^\[[1-4]/4\] ok      good.sh ' '^\[[1-4]/4\] FAILED  bad.sh .*status 3 after' '^    because$' \
    '^\[[1-4]/4\] SKIPPED cannot.sh .*no luck$' '^\[4/4\] FAILED  stuck.sh .*still ran after' \
    '^1 passed, 2 failed, 1 skipped in [0-9]'; do
    grep -q "$line" "$WORK/out" || fail "run.sh does not say '$line'"
done
ended() {
    ! kill -0 "$(cat "$WORK/left")" 2>/dev/null || grep -q '^State:[[:space:]]*Z' "/proc/$(cat "$WORK/left")/status"
}
wait_until 10 "what a test left to be gone" ended

# Tests of two clones share the loopback interface: who is on it names a group of its own, and lets the system choose ports.
others=$(grep -nE -e '--interface lo|\$LINK' "$ROOT"/tests/process/test_*.sh | grep -v -e 'mesh.group=' -e 'grep -')
[ -z "$others" ] || fail "nodes on lo without a group of their own: $others"
mapfile -t on_lo < <(grep -L netns_up "$ROOT"/tests/process/test_*.sh)
fixed=$(grep -nE -e '--port [1-9]' "${on_lo[@]}" | grep -v -e 'refuses' -e 'grep -')
[ -z "$fixed" ] || fail "nodes on a fixed port: $fixed"

# A pause is judged by the usual step before it: on a machine whose steps take ten times as long, so may a pause.
cd "$ROOT/tests/chaos" && python3 - <<'END' || fail "chaos: pauses are judged wrongly"
import mesh
busy, slow, stuck = [(1200, 200)] * 3, [(400, 10)] * 3, [(90000, 40)]
assert mesh.judge("kill", busy, False, 10000) is None
assert mesh.judge("kill", busy, True, 10000) is not None
assert mesh.judge("kill", slow, False, 10000) is not None
assert mesh.judge("none", stuck, False, 10000) is not None
END

# A chroot of folders that are elsewhere: its own root is no mount point.
[ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null || exit 0
mkdir -p "$WORK"/root/{proc,dev,sys,tmp,run,usr,etc,tests}
for link in bin sbin lib lib64; do
    [ ! -L "/$link" ] || ln -s "usr/$link" "$WORK/root/$link"
done
cat >"$WORK/root/tmp/inside.sh" <<'EOF'
#!/bin/bash
WORK=$(mktemp -d)
skip() { echo "$*"; exit 77; }
. /tests/support/netns.sh
netns_need
rm -rf "$WORK"
trap netns_down EXIT
netns_up 2 2>/dev/null && netns_exec 1 true && echo "two networks"
EOF
chmod +x "$WORK/root/tmp/inside.sh"
unshare --mount --propagation private bash -c '
    mount --bind /usr "$1/usr" && mount --bind "$2/tests" "$1/tests" && mount --rbind /dev "$1/dev" &&
        mount -t proc proc "$1/proc" || exit 77
    exec chroot "$1" /tmp/inside.sh' x "$WORK/root" "$ROOT" >"$WORK/inside" 2>&1
status=$?
cat "$WORK/inside"
[ $status != 77 ] || skip "$(tail -n 1 "$WORK/inside")"
grep -q '^two networks$' "$WORK/inside" || fail "no networks within a chroot: $(cat "$WORK/inside")"

# What a test draws, and what it draws from that, is each of the items on some day, and another draw of the same items another one.
drawn=$(for DAY in {1..30}; do
    mapfile -t two < <(today 2 a b c d)
    [ "${#two[@]}" = 2 ] || echo "${#two[@]} items for 2"
    echo "first $(today 1 "${two[@]}")"
    echo "second $(today 1 "${two[@]}")"
done | sort | uniq -c | sort -n)
[ "$(wc -l <<<"$drawn")" = 8 ] || fail "draws of 30 days: $drawn"
[ "$(ALL=1 today 1 a b c | tr '\n' ' ')" = "a b c " ] || fail "ALL=1 today 1 a b c: $(ALL=1 today 1 a b c)"
