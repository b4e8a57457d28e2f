#!/bin/bash
# test_timeline.sh - what nodes record of a step of a model in stages, drawn by check --timeline FILE.svg DIR... : a row for each node,
# each piece once and in the row of who computed it, no two of a node at a time, and nothing before what it needs was made. Files
# that are damaged, of another run, of other steps or the same twice are refused in one line. Each node also says who has which
# stages: in a line, in its metrics, and to health.
. "$(dirname "$0")/../support/process.sh"
cd "$WORK" || exit 1

write_job job.yaml 40
draws() { # FILE DIR ...
    "$MESHNODE" check --timeline "$1" "${@:2}" >out 2>err || fail "check --timeline $*: $(cat err)"
}
refused() { # PATTERN DIR ...
    local status
    rm -f none.svg
    "$MESHNODE" check --timeline none.svg "${@:2}" >out 2>err
    status=$?
    [ $status = 2 ] && [ "$(wc -l <err)" = 1 ] && grep -Eq "^meshnode: $1" err && [ ! -s out ] && [ ! -e none.svg ] ||
        fail "check --timeline ${*:2}: status $status: $(cat out err), expected '$1'"
}

for name in a b; do
    node $name job.yaml --peers 2 --set node.name=$name --set mesh.stages=2
done
finished 60 a b
draws two.svg b a
grep -q "^two.svg: step 40, 2 stages, 2 of 2 nodes$" out || fail "not the last step: $(cat out)"
grep -Eq "^  [ab]: stage 1, busy [0-9.]+ ms of [0-9.]+, idle [0-9.]+ % \(formula 7.7 %\)$" out || fail "no first stage: $(cat out)" # 1/13
grep -Eq "^  [ab]: stage 2, busy " out || fail "no second stage: $(cat out)"
draws one.svg a
grep -q "^one.svg: step 40, 2 stages, 1 of 2 nodes$" out || fail "$(cat out)"

HAVE=$(sed -n 's/^stages: //p' a.log | tail -n 1) # the slower node may get the other stage when the speeds are known
[[ $HAVE =~ ^1\ [ab]\;\ 2\ [ab]$ ]] || fail "a does not say who has which stages: '$HAVE'"
[ "$(sed -n 's/^stages: //p' b.log | tail -n 1)" = "$HAVE" ] || fail "b says: $(grep stages: b.log)"
grep -q "  stages 1 [ab]; 2 [ab]$" a.log || fail "the progress of a does not say who has which stages"
NODES=$(tail -n 1 a/metrics.jsonl | sed -n 's/.*"nodes":"\([^"]*\)".*/\1/p') # the plan may change after the last step
grep -qx "stages: $NODES" a.log || fail "the metrics of a say '$NODES', which a has not said: $(grep stages: a.log)"
"$MESHNODE" health a >out || fail "health: $(cat out)"
grep -Eq "^a: step 40, loss [0-9.]+, 2 nodes \(stages $NODES\), done$" out || fail "health: $(cat out)"

for name in c d e; do
    node $name job.yaml --peers 3 --set mesh.stages=3 --set mesh.schedule=1f1b
done
finished 60 c d e
same_hash a b c d e
draws three.svg c d e
grep -q "^  c: " out || fail "nodes of one name are not told apart: $(cat out)"
grep -Eq '^stages: 1 (this node|127.0.0.1:[0-9]+)( \([^;()]*\))?; 2 [^;]*; 3 [^;]*$' c.log || fail "c says: $(grep stages: c.log)"
draws same.svg ./c "$WORK/d" e

refused "a and a: of the same node$" a a
refused "a and c: no step that all folders have under one plan$" a c # the same job, twice
refused "gone: .*No such file" gone
mkdir empty
refused "empty: has no pieces.jsonl, which a run with mesh.stages on several nodes leaves$" empty
refused "empty: has no pieces.jsonl" a empty
refused "job.yaml.*expected one job, not 2$" job.yaml a

changed() { # NAME: a copy of b, with what stdin makes of its lines
    mkdir "$1"
    bash >"$1/pieces.jsonl" <<<"cat b/pieces.jsonl | $(cat)"
}
changed nothing <<<'head -c 0'
refused "nothing: pieces.jsonl: has no whole line$" a nothing
changed job <<<'sed "s/\"job\":\"..../\"job\":\"0000/"'
refused "a and job: of different jobs$" a job
changed long <<<'while read -r line; do for ((i = 0; i < 256; i++)); do echo "$line"; done; done'
refused "long: pieces.jsonl: has more than 4096 lines$" a long
changed noise <<<'sed 5s/stages/x/'
refused "noise: pieces.jsonl:5: stages is missing or of the wrong kind$" noise a
changed late <<<'sed "s/\"step\":/&100/"'
refused "a and late: no step that all folders have under one plan$" a late
changed plan <<<'sed "s/\"plan\":\"..../\"plan\":\"0000/"'
refused "a and plan: no step that all folders have under one plan$" a plan
mkdir twice
sed 's/"node":"..../"node":"0000/' a/pieces.jsonl >twice/pieces.jsonl
refused "(a|twice) and (a|twice): the same piece twice, or in no order: not of one step$" a twice
mkdir -p pipe/pieces.jsonl
refused ".*pieces.jsonl: " pipe a
"$MESHNODE" check --timeline no/such.svg a b >out 2>err && fail "drawn into no folder"
grep -q "no/such.svg: No such file" err || fail "$(cat err)"

# A node that was killed leaves a part of a line, and one that goes on with its run writes behind it.
changed cut <<<'head -c -100'
draws cut.svg a cut
grep -q "^cut.svg: step 36, " out || fail "not the last whole step: $(cat out)"

# The clocks of other machines.
changed clock <<<'sed -E "s/(_us\":)/\\19/g"'
draws clock.svg a clock
grep -Eq "^  The clocks of these nodes differ: .* within [0-9.]+ ms$" out || fail "the clocks are the same: $(cat out)"

command -v python3 >/dev/null || skip "no python3: nothing reads the drawings"
python3 - "$ROOT" <<'END' || fail "the drawings are wrong"
import sys
sys.path.insert(0, sys.argv[1] + '/tests/process')
from drawing import drawn

ZB = ['forward', 'gradient of input', 'gradient of weights', 'tail']
drawn('two.svg', ['a', 'b'], 2, 12, ZB)
drawn('three.svg', ['c', 'd', 'e'], 3, 12, ['forward', 'back', 'tail'])
drawn('clock.svg', ['a', 'b'], 2, 12, ZB)
END
echo "each piece is drawn once, in its row and its order; what does not belong together is refused"
