#!/bin/bash
# A proof looks at every file that it speaks of: meshes of each kind train, one file is forged, cut off, exchanged or left
# out, and verify and verify --replay say in one line which file it is, what it says and what was expected.
. "$(dirname "$0")/../support/process.sh"
FORGE=${BUILD:-$ROOT/build/gcc}/forge
[ -x "$FORGE" ] || fail "no program $FORGE"
[ -x "$FAILNODE" ] || skip "no program with failpoints: make failpoints"

write_job "$WORK/job.yaml" 25 "eval_every: 1"
gossip="--set mesh.topology=gossip --set gossip.graph=ring"

# Steps take longer than a busy machine lets a node wait, so that both nodes have their share of each run: then both files
# have what is forged below.
mesh() { # PREFIX OPTION ...: two nodes
    local prefix=$1 name
    shift
    GROUP=t$$-$prefix
    for name in a b; do MESHNODE_FAIL=compute:1+:sleep=40 MESHNODE=$FAILNODE node "$prefix$name" "$WORK/job.yaml" --peers 2 "$@"; done
}
# shellcheck disable=SC2086 # lists of words
{
    mesh ring
    mesh gossip $gossip
    mesh other $gossip --set run.seed=8 --set run.name=other
}
finished 120 ringa ringb gossipa gossipb othera otherb

judge() { # WAY DIR ...
    local replay=--replay
    [ "$1" != ring ] || replay=
    shift
    timeout -k 5 300 "$MESHNODE" verify $replay "$@" >"$WORK/out" 2>&1
}

proved() { # WAY DIR ...
    judge "$@" || fail "$*: $(cat "$WORK/out")"
    grep -Eq "^(proved: |replay: sha256 .*, as in every result$)" "$WORK/out" || fail "$*: $(cat "$WORK/out")"
}

refuted() { # PATTERN WAY DIR ...: in one line, and status 1
    local pattern=$1
    shift
    judge "$@"
    [ $? = 1 ] || fail "$*: no status 1: $(cat "$WORK/out")"
    grep -Eq "$pattern" "$WORK/out" || fail "$*: no '$pattern' in $(cat "$WORK/out")"
    grep -q "NOT proved" "$WORK/out" || fail "$*: $(cat "$WORK/out")"
}

# Both nodes of a way, the second one in x, to be forged.
forged=$WORK/x
copy() { # WAY
    rm -rf "$forged"
    cp -r "$WORK/${1}b" "$forged"
}
flip() { # FILE BYTE
    python3 -c "
import sys
f = open(sys.argv[1], 'r+b'); f.seek(int(sys.argv[2])); byte = f.read(1)[0]; f.seek(int(sys.argv[2])); f.write(bytes([byte ^ 4]))" "$@"
}
cut() { # FILE: half of it is left
    truncate -s $(($(stat -c %s "$1") / 2)) "$1"
}

for way in ring gossip; do
    first=$WORK/${way}a
    sha='[0-9a-f]{64}'
    echo "$way: as it is, without models and checkpoints, with the folder of a node that died early"
    proved $way "$first" "$WORK/${way}b"
    grep -Eq "^2 results, 2 models and [2-9] checkpoints agree: weights sha256 $(result ${way}a params_sha256)$" "$WORK/out" ||
        fail "$way: $(cat "$WORK/out")"
    copy $way
    rm "$forged/model.safetensors" "$forged"/checkpoint-*
    mkdir -p "$WORK/early"
    : >"$WORK/early/metrics.jsonl"
    proved $way "$WORK/early" "$first" "$forged"
    grep -q "^$WORK/early: has no job.json: its node died before its first step$" "$WORK/out" || fail "$(cat "$WORK/out")"
    grep -Eq "^2 results, 1 model and [1-3] checkpoints? agree" "$WORK/out" || fail "$(cat "$WORK/out")"

    echo "$way: model.safetensors"
    copy $way
    flip "$forged/model.safetensors" $(($(stat -c %s "$forged/model.safetensors") - 100))
    refuted "^$forged/model.safetensors: its weights have SHA-256 $sha, but its metadata say $sha$" $way "$first" "$forged"
    refuted "^$forged/model.safetensors: its weights have SHA-256 $sha, but params_sha256 in result.json is $sha$" $way "$first" "$forged"
    copy $way
    cut "$forged/model.safetensors"
    refuted "^$forged/model.safetensors: " $way "$first" "$forged"
    copy $way
    cp "$WORK/othera/model.safetensors" "$forged"
    refuted "^$forged/model.safetensors: is of job [0-9a-f]{16}, expected [0-9a-f]{16} as in job.json$" $way "$first" "$forged"

    echo "$way: result.json"
    copy $way
    cut "$forged/result.json"
    refuted "^$forged/result.json: " $way "$first" "$forged"
    : >"$forged/result.json"
    refuted "^$forged/result.json: " $way "$first" "$forged"
    copy $way
    sed -i '/"epochs"/d' "$forged/result.json"
    refuted "^$forged/result.json: epochs is missing or of the wrong kind$" $way "$first" "$forged"
    for key in params_sha256 state_sha256; do
        copy $way
        sed -i "s/\"$key\": \"[0-9a-f]*/\"$key\": \"$(printf '7%.0s' {1..64})/" "$forged/result.json"
        refuted "^$forged/result.json: $key is 7{64}, but $sha in $first/result.json$" $way "$first" "$forged"
    done
    if [ $way = ring ]; then # alone, too; a replay needs the journals of all
        refuted "^$forged/result.json: state_sha256 is 7{64}, but that of checkpoint-25 is $sha$" $way "$forged"
    fi
    copy $way
    sed -i 's/"steps": 25/"steps": 24/' "$forged/result.json"
    refuted "^$forged/result.json: steps is 24, but 25 in $first/result.json$" $way "$first" "$forged"
    copy $way
    flip "$forged/checkpoint-25" 3000
    refuted "^$forged/checkpoint-25: " $way "$first" "$forged"

    echo "$way: metrics.jsonl"
    copy $way
    sed -i '7s/"loss":[0-9.]*/"loss":0.125/' "$forged/metrics.jsonl"
    [ $way = ring ] || # a sum of all nodes' shards is not computed again
        refuted "^$forged/metrics.jsonl:7: step [0-9]+: loss 0.125, the replay's [0-9.]+$" $way "$first" "$forged"
    copy $way
    sed -i '7s/,.*//' "$forged/metrics.jsonl"
    refuted "^$forged/metrics.jsonl:7: is not a JSON object$" $way "$first" "$forged"

    echo "$way: job.json of any folder"
    for key in seed batch shards steps; do
        copy $way
        sed -i "s/^  \"$key\": [0-9]*/  \"$key\": 48/" "$forged/job.json"
        refuted "^$forged/job.json: $key is 48, but [0-9]+ in its text$" $way "$first" "$forged"
        refuted "^$forged/job.json: $key is 48, but [0-9]+ in its text$" $way "$forged" "$first"
    done
    copy $way
    sed -i 's/^  "job": "[0-9a-f]*"/  "job": "0123456789abcdef"/' "$forged/job.json"
    refuted "^$forged/job.json: its text is not that of job 0123456789abcdef$" $way "$first" "$forged"
    copy $way
    cut "$forged/job.json"
    refuted "^$forged/job.json: is not a JSON object$" $way "$first" "$forged"
    rm "$forged/job.json"
    refuted "^$forged/job.json: No such file or directory$" $way "$first" "$forged"
    refuted "^$WORK/othera/job.json: is of run other, not small as $first$" $way "$first" "$WORK/othera"
    refuted "^$WORK/nowhere: No such file or directory$" $way "$first" "$WORK/nowhere"
done

# Whole runs, forged: the journals fit one another, and all results are what they give.
all_forged() { # HOW WAY: in y/a and y/b
    rm -rf "$WORK/y"
    mkdir "$WORK/y"
    cp -r "$WORK/${2}a" "$WORK/y/a"
    cp -r "$WORK/${2}b" "$WORK/y/b"
    rm "$WORK"/y/?/model.safetensors "$WORK"/y/?/checkpoint-*
    "$FORGE" "$1" "$WORK"/y/[ab] >"$WORK/forged" || fail "forge $1"
    judge "$2" "$WORK"/y/[ab]
    local sha
    sha=$(sed -n "s/.*the replay's sha256 //p" "$WORK/out")
    [ -z "$sha" ] || sed -i "s/\"params_sha256\": \"[0-9a-f]*/\"params_sha256\": \"$sha/" "$WORK"/y/?/result.json
}

wrong_shards() { # as forge says
    grep -q "of 2$" "$WORK/forged" || fail "nothing was forged in a plan of two nodes"
    refuted "^$(sort "$WORK/forged" | head -n 1)$" gossip "$WORK"/y/[ab]
}
echo "gossip: journals that leave out shards, use them twice, or leave out a step"
judge gossip "$WORK"/gossip[ab]
grep -Eq "^replay: 300 shards, each used once$|^replay: of 300 shards .* there were [0-9]+ plans$" "$WORK/out" || fail "$(cat "$WORK/out")"
all_forged less gossip
wrong_shards
grep -Eq "^replay: of 300 shards [0-9]+ were used by no node and [0-9]+ by several" "$WORK/out" || fail "$(cat "$WORK/out")"
all_forged same gossip
wrong_shards
all_forged skip gossip
refuted "^$WORK/y/[ab]/journal: step 7, expected step 6$" gossip "$WORK"/y/[ab]
all_forged alone gossip
refuted "^$WORK/y/[ab]/journal: [0-9]+ steps in a plan of 2 nodes, and no journal has a step of node [12]$" gossip "$WORK"/y/[ab]

echo "other words"
judge gossip "$WORK/gossipa" && fail "a replay without all journals"
grep -Eq "; the journals name 2 nodes, and they are of 1: name the results folders of all$" "$WORK/out" || fail "$(cat "$WORK/out")"
judge ring "$WORK"/gossip[ab] && fail "verify proves a run that did not wait"
grep -q "^meshnode: this was a run with topology gossip, graph ring; results in 2 of 2 folders hold the same bits; check it with: meshnode verify --replay DIR...$" \
    "$WORK/out" || fail "$(cat "$WORK/out")"
rm "$WORK/gossipb/journal"
judge gossip "$WORK"/gossip[ab] && fail "a replay without a journal"
grep -q "^meshnode: $WORK/gossipb/journal: " "$WORK/out" || fail "$(cat "$WORK/out")"
GROUP=t$$-one
write_job "$WORK/job.yaml" 2
# shellcheck disable=SC2086
node one "$WORK/job.yaml" $gossip
finished 60 one
proved gossip "$WORK/one"
grep -q "^replay: 2 steps of replicas, by 1 start of a node in 1 folder$" "$WORK/out" || fail "$(cat "$WORK/out")"
