#!/bin/bash
# test_arm.sh [all] - x86-64 and ARM64 in one mesh: two nodes of each train a job to the weights that one x86-64 node gets
# alone, while an ARM64 node is killed. ARM64 is qemu-user here, so jobs are small. "all": also the network of
# digits.yaml, and an MLP, a convolutional, a residual and a recurrent network and a GPT on one node of each kind.
#
# `make check-arm` makes what this needs. ARM64 names the program, SYSROOT its libraries.
. "$(dirname "$0")/../support/process.sh"
ARM64=${ARM64:-$ROOT/build/aarch64-linux-gnu-gcc/meshnode}
export SYSROOT=${SYSROOT:-$ROOT/build/sysroot-aarch64-linux-gnu}
[ "$(uname -m)" = x86_64 ] || skip "this machine is no x86-64: it cannot mix both"
[ -x "$ARM64" ] && [ -d "$SYSROOT" ] || skip "no program for ARM64 in build/: make check-arm makes it"
command -v qemu-aarch64-static >/dev/null || skip "no qemu-aarch64-static: make check-arm installs it"
X86=$MESHNODE
printf '#!/bin/sh\nexec "%s/tests/support/qemu.sh" "%s" "$@"\n' "$ROOT" "$ARM64" >"$WORK/arm64"
chmod +x "$WORK/arm64"

on() { # x86 | arm, NAME and so on: as of node
    local kind=$1
    shift
    if [ "$kind" = arm ]; then
        MESHNODE=$WORK/arm64 node "$@"
    else
        MESHNODE=$X86 node "$@"
    fi
}

nobody_refused() { # NAME ...
    local name
    for name; do
        if grep -Ei 'refuse|other bits|expel|differ' "$WORK/$name.log"; then
            fail "$name had something against another node"
        fi
    done
}

computed() { # NAME: it contributed shards of its own to a step in which four nodes took part
    grep -q '"peers":4,.*"shards":"0*[1-9a-f]' "$WORK/$1/metrics.jsonl" 2>/dev/null
}

# STEP HASH of every step that the node took part in
hashes() { # NAME
    sed -n 's/.*"step":\([0-9]*\),.*"state_hash":"\([0-9a-f]*\)".*/\1 \2/p' "$WORK/$1/metrics.jsonl"
}

# A run by itself on each kind.
same_alone() { # JOB STEPS
    local name
    name=$(basename "$1" .yaml)
    for kind in x86 arm; do
        on $kind "$name-$kind" "$1" --set mesh.gather_ms=0 --set "mesh.group=$GROUP-$kind" --set run.numerics=portable \
            --set "train.steps=$2" --set train.eval_every=0 --data "$ROOT"
    done
    finished 1800 "$name-x86" "$name-arm"
    same_hash "$name-x86" "$name-arm"
    echo "$name, $2 steps on x86-64 and on ARM64: $(result "$name-arm" params_sha256)"
}

write_job "$WORK/convolution.yaml" 2
same_alone "$WORK/convolution.yaml" 2

# Emulated nodes are slow, and slow ones are left out, for minutes where they get little CPU: with equal shares all take
# part in every step. It goes on until what it is about has happened.
job=$ROOT/tests/chaos/tiny.yaml
for name in x1:x86 x2:x86 a1:arm a2:arm; do
    on "${name#*:}" "${name%:*}" "$job" --set train.steps=1000000 --set mesh.gather_ms=60000 --set mesh.division=even --peers 4
done
for name in a1 a2; do
    wait_until 1800 "$name to compute shards beside three others" computed $name
done
kill_node a2
before=$(steps_done a1)
wait_until 1800 "the others to go on" reached $((before + 20)) x1 x2 a1
for name in x1 x2 a1; do
    kill -INT "${PID[$name]}"
    wait_until 1800 "$name to stop" gone $name
    unset "PID[$name]"
done
most=$(printf '%s\n' "$(steps_done x1)" "$(steps_done x2)" "$(steps_done a1)" | sort -n | tail -n 1)
reference "$job" --set "train.steps=$((most + 1))" # the last step is evaluated, which its state tells
for name in x1 x2 a1 a2; do
    hashes $name >"$WORK/$name.hashes"
    [ -s "$WORK/$name.hashes" ] || fail "$name has no steps"
    other=$(hashes reference | grep -vxFf - "$WORK/$name.hashes" | head -n 1)
    [ -z "$other" ] || fail "$name has another state than a node alone: step and hash $other"
done
nobody_refused x1 x2 a1 a2
echo "2 x86-64 and 2 ARM64 nodes, one of these killed: $(wc -l <"$WORK/a1.hashes") steps of one and $(wc -l <"$WORK/a2.hashes") of the \
other with the states of an x86-64 node alone"

[ "${1:-}" = all ] || exit 0
rm -rf "$WORK"/[xa][12] "$WORK/reference"

# The network of digits.yaml to its end, in equal shares. The x86-64 nodes use SSE2, which is about as slow as the emulator
# here: so the ARM64 nodes keep up.
digits() { # NAME:KIND ...: start these
    local name
    for name; do
        on "${name#*:}" "${name%:*}" "$ROOT/configs/digits.yaml" --set data.train=576 --set data.test=24 --set train.batch=24 \
            --set train.epochs=1 --set mesh.division=even "${peers[@]}"
    done
}
peers=(--peers 4)
MESHNODE_SIMD=base digits x1:x86 x2:x86 a1:arm a2:arm
for name in a1 a2; do
    wait_until 900 "$name to compute shards of digits beside three others" computed $name
done
gone x1 && fail "x1 was done before a node was killed"
kill_node a2
finished 1800 x1 x2 a1
peers=(--set mesh.gather_ms=0 --set "mesh.group=$GROUP-alone")
digits reference:x86
finished 600 reference
same_hash reference x1 x2 a1
nobody_refused x1 x2 a1 a2
echo "digits.yaml, 2 x86-64 and 2 ARM64 nodes, one of these killed: $(result a1 steps) steps, in \
$(grep -c '"shards":"0*[1-9a-f]' "$WORK/a1/metrics.jsonl") of them an ARM64 node computed; weights $(result a1 params_sha256)"

for kind in mlp cnn gpt lstm resnet; do
    same_alone "$ROOT/tests/golden/torch_$kind.yaml" 2
done
