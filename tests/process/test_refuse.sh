#!/bin/bash
# Nodes that must not train together do not, and each says why: another run name, another job under the
# same name. Both wait for a second node, so neither may take a step.
. "$(dirname "$0")/../support/process.sh"

stopped() { # NAME: interrupted by us, as exit status 130 says
    local status
    kill -INT "${PID[$1]}"
    wait_until 10 "$1 to stop" gone "$1"
    wait "${PID[$1]}"
    status=$?
    unset "PID[$1]"
    [ $status = 130 ] || fail "$1 ended with status $status after an interrupt, expected 130"
}

refuse() { # WHAT PATTERN OPTION ...
    local what=$1 pattern=$2 name
    shift 2
    rm -rf "$WORK"/[ab]
    node a "$WORK/job.yaml" --peers 2
    node b "$WORK/job.yaml" --peers 2 "$@"
    for name in a b; do
        wait_until 20 "$name to say why it does not train with another $what" says $name "$pattern"
    done
    for name in a b; do
        stopped $name
        [ "$(steps_done $name)" = 0 ] || fail "$name trained although the other has another $what"
    done
    echo "$what: $(grep -Ei "$pattern" "$WORK/a.log" | head -n 1)"
}

write_job "$WORK/job.yaml" 50
refuse "run name" "run.*(small|other)" --set run.name=other
refuse "job" "another (job|model|training)" --set train.batch=192
refuse "topology" "mesh.topology is (ring there, gossip|gossip there, ring) here" --set mesh.topology=gossip
refuse "activations" "mesh.activations is (bf16 there, fp32|fp32 there, bf16) here" --set mesh.activations=bf16
echo 'mesh: {topology: gossip}' >>"$WORK/job.yaml"
refuse "graph" "gossip.graph is (ring there, one-peer|one-peer there, ring) here" --set gossip.graph=ring
write_job "$WORK/job.yaml" 50
refuse "past" "train.past is '(|20 train.steps=20)' there, '(|20 train.steps=20)' here" --set "train.past=20 train.steps=20"

# Nodes with other instructions compute the same bits. The third one is handed the job.
rm -rf "$WORK"/[abc]
reference "$WORK/job.yaml"
narrow=base
if grep -qw avx2 /proc/cpuinfo && grep -qw fma /proc/cpuinfo; then
    narrow=avx2
fi
WHERE[a]="env MESHNODE_SIMD=$narrow"
WHERE[b]="env MESHNODE_SIMD=base"
node a "$WORK/job.yaml" --peers 3
node b "$WORK/job.yaml" --peers 3 --seed 7 --threads 2
node c "" --peers 3
finished 120 a b c
same_hash reference a b c
echo "nodes with $narrow, base and all of this CPU's instructions: the same weights as alone"
