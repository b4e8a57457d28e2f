#!/bin/bash
# check --peers for jobs with stages: who computes which layers, what a step takes, and a drawing of it. Each piece is drawn
# once, in the row of its node, and no node computes two at a time.
. "$(dirname "$0")/../support/process.sh"
cd "$ROOT" || exit 1

check() { # CONFIG OPTION ...
    "$MESHNODE" check "$@" >"$WORK/out" 2>"$WORK/err" || fail "check $*: $(cat "$WORK/err")"
}
says() {
    grep -Eq "$1" "$WORK/out" || fail "no line '$1' in: $(sed -n '/^stages/,$p' "$WORK/out")"
}

SMALL=(--set data.train=768 --set data.test=64 --set train.batch=48) # so that codecs are soon tried
check configs/pipeline-2.yaml --peers 4 "${SMALL[@]}" --timeline "$WORK/zb.svg"
says '^stages  2 on 4 nodes, mesh.schedule: zb$'
says '^  stage 1 .* layers 0.conv to 6.flatten: .* activations .* node [1-4] [1-4] [1-4]$' # the last layer is small: one node is enough for it
says '^  stage 2 .* layers 7.dense to 7.dense: .* activations .* node [1-4]$'
says '^  on 1 Gbit/s: 1 node .*, 4 nodes [0-9.e-]+ s: '
says '^pauses  [0-9.]+ % of the time of 4 nodes; .* = 7.7 %, k = 2 stages, m = 12 shards$' # 1/13
says '^  stage 1 .* forward and .* ms back; 24.5 KiB go to stage 2, and as many come back$' # 4 rows of 32x7x7 floats
says '^  node [1-4]  computes .* sends 98.0 KiB to other stages$'                             # activations of 4 shards

check configs/pipeline-2.yaml --peers 2 "${SMALL[@]}" --set mesh.activations=bf16
says '^  stage 1 .* 24.5 KiB go to stage 2'

check configs/pipeline-gpt.yaml --peers 2 --set train.batch=8 --set mesh.schedule=1f1b --timeline "$WORK/1f1b.svg"
says '^  stage 1 .* node 1$' # the first and the last stage share a weight
says '^  stage 3 .* node 1$'

check configs/pipeline-2.yaml --peers 1 "${SMALL[@]}"
grep -q '^pauses' "$WORK/out" && fail "one node pauses: $(cat "$WORK/out")"

refused() { # PATTERN OPTION ...
    local pattern=$1 status
    shift
    "$MESHNODE" check "$@" --set data.train=768 --set data.test=64 >"$WORK/out" 2>"$WORK/err"
    status=$?
    [ $status = 2 ] && [ "$(wc -l <"$WORK/err")" = 1 ] && grep -Eq "$pattern" "$WORK/err" ||
        fail "status $status: $(cat "$WORK/err"), expected '$pattern'"
}
refused 'timeline needs --peers' configs/pipeline-2.yaml --timeline "$WORK/none.svg"
refused 'mesh.stages is not 1' configs/digits.yaml --peers 2 --timeline "$WORK/none.svg"
refused 'nothing to draw' configs/digits.yaml --peers 2 --set mesh.stages=auto --timeline "$WORK/none.svg"
refused "$WORK/no/such.svg: No such file" configs/pipeline-2.yaml --peers 2 --timeline "$WORK/no/such.svg"
[ -e "$WORK/none.svg" ] && fail "something was drawn"

command -v python3 >/dev/null || skip "no python3: nothing reads the drawings"
python3 - "$WORK" <<'END' || fail "the drawings are wrong"
import sys
sys.path.insert(0, 'tests/process')
from drawing import drawn

drawn(sys.argv[1] + '/zb.svg', ['node 1', 'node 2', 'node 3', 'node 4'], 2, 12, ['forward', 'gradient of input', 'gradient of weights'])
drawn(sys.argv[1] + '/1f1b.svg', ['node 1', 'node 2'], 3, 8, ['forward', 'back'])
END
echo "stages, layers, nodes and bytes are said; each piece is drawn once"
