#!/bin/bash
# test_compose.sh - Dockerfile and docker-compose.yml as far as they can be judged without an engine: what the image
# is built from is enough to build the static program, and docker-compose makes of its file what that file's comments say.
# (test_static.sh shows that this program needs nothing else in an image.)
. "$(dirname "$0")/../support/process.sh"
cd "$ROOT" || exit 1

# The files that .dockerignore lets in, by its lines "!NAME".
sed -n 's/^!//p' .dockerignore | tar -c -T - | tar -x -C "$WORK" || fail ".dockerignore names what is not there"
grep -q '^\*$' .dockerignore || fail ".dockerignore lets everything in"
steps() { # FOLDER: what make would do there for the program
    make -s -n -C "$1" B=out out/meshnode-static 2>&1
}
grep -q 'main\.c$' <(steps .) || fail "make does not compile the program"
cmp -s <(steps .) <(steps "$WORK") || fail "the image is built from other files than the program here"
grep -q '^RUN make .*build/meshnode-' Dockerfile || fail "Dockerfile: does not make the static program"

# compose.sh reads the lines that containers show: it must understand those of a node.
. tests/support/live.sh
write_job "$WORK/job.yaml" 5
reference "$WORK/job.yaml"
[[ $(live <"$WORK/reference.log") =~ ^[1-5]\ 1$ ]] || fail "live.sh finds '$(live <"$WORK/reference.log")' in $(cat "$WORK/reference.log")"

grep -q '^ENTRYPOINT \["meshnode"\]$' Dockerfile || fail "Dockerfile: no entry point"
grep -q '^USER ' Dockerfile || fail "Dockerfile: runs as root"

if docker compose version >/dev/null 2>&1; then
    COMPOSE="docker compose"
elif command -v docker-compose >/dev/null; then
    COMPOSE=docker-compose
else
    skip "neither docker compose nor docker-compose to read docker-compose.yml with; the Dockerfile is fine"
fi
JOB=configs/mnist.yaml DATA=/tmp NODES=7 THREADS=3 MEMORY=2g \
    $COMPOSE -f docker-compose.yml config >"$WORK/config" 2>"$WORK/why" ||
    fail "docker-compose.yml: $(cat "$WORK/why")"
for wanted in 'configs/mnist.yaml' '/tmp.*/data' 'on-failure:5' 'stop_grace_period: 30s' 'no-new-privileges'; do
    tr '\n' ' ' <"$WORK/config" | grep -q -e "$wanted" || fail "docker-compose.yml: no $wanted in $(cat "$WORK/config")"
done
grep -q '^VOLUME' Dockerfile || grep -q '/meshnode/runs' "$WORK/config" &&
    fail "results in a volume: compose keeps it when JOB changes, and then down -v leaves it behind"
$COMPOSE -f docker-compose.yml config 2>/dev/null | grep -q 'configs/digits.yaml' || fail "docker-compose.yml: the default job is not digits"
"$MESHNODE" check configs/digits.yaml >/dev/null || fail "the default job is wrong"
