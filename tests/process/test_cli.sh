#!/bin/sh
# test_cli.sh - what a person can get wrong on the command line, in a job or in its files: one line on standard
# error that names it, status 2, and nothing left behind. And what closed, full and broken outputs do.
set -u
: "${MESHNODE:?}"
W=$(mktemp -d "${TMPDIR:-/tmp}/test_cli_XXXXXX") || exit 1
trap 'chmod -R u+w "$W"; rm -rf "$W"' EXIT
cd "$W" || exit 1
mkdir jobs data cwd
failed=0
own="--interface lo --set mesh.group=cli-${W##*_}" # nodes of other tests and clones are on this interface, too

complain() {
    echo "$1: $2"
    sed 's/^/    /' "$W/err"
    failed=1
}

# refuses WHAT PATTERN ARGS...: status 2, exactly one line on stderr that holds PATTERN, nothing on stdout,
# nothing new in the folder it ran in.
refuses() {
    what=$1 pattern=$2
    shift 2
    (cd cwd && timeout -k 5 600 "$MESHNODE" "$@" >"$W/out" 2>"$W/err" </dev/null)
    status=$?
    [ $status = 2 ] || complain "$what" "status $status, expected 2"
    [ "$(wc -l <err)" = 1 ] || complain "$what" "expected one line"
    grep -q -e "$pattern" err || complain "$what" "does not say '$pattern'"
    LC_ALL=C grep -q '[^ -~]' err && complain "$what" "is not printable"
    [ ! -s out ] || complain "$what" "wrote to standard output"
    [ -z "$(ls -A cwd)" ] || complain "$what" "left something: $(ls -A cwd)"
    rm -rf cwd && mkdir cwd
}

# job NAME LINE...: a small job with these lines instead of the same sections.
job() {
    name=$1
    shift
    printf '%s\n' "$@" >"jobs/$name.yaml"
}
good='model: [flatten, dense: 10]'
job good 'data: {source: glyphs, train: 24, test: 12}' 'train: {batch: 12, epochs: 1}' "$good"

# --- the command line ---
refuses 'unknown option' 'unknown option --prot, did you mean --port?' ../jobs/good.yaml --prot 3
refuses 'set of the model' 'belongs in the job file' ../jobs/good.yaml --set model.conv.kernel=3
refuses 'two jobs' 'good.yaml, ../jobs/b.yaml: expected one job, not 2$' ../jobs/good.yaml ../jobs/b.yaml
refuses 'health of two' 'usage: meshnode health' health a b
refuses 'many arguments' 'expected one job, not 4$' ../jobs/good.yaml b c d
refuses 'local without a job' 'usage: meshnode local' local
refuses 'check without a job' 'usage: meshnode check' check
refuses 'verify without a folder' 'usage: meshnode verify .--replay. .--evaluate. DIR' verify
refuses 'audit, the old name of verify' 'usage: meshnode verify .--replay. .--evaluate. DIR' audit
refuses 'eval without a model' 'usage: meshnode eval' eval ../jobs/good.yaml
refuses 'a command that does not exist' 'unknown command keygen, expected local, check, .*, health, help, or a job file: meshnode JOB.yaml trains$' keygen
refuses 'train' 'unknown command train, expected .*: meshnode ../jobs/good.yaml trains$' train ../jobs/good.yaml
refuses 'help of a command that does not exist' 'unknown command locl, did you mean local?' help locl
refuses 'a drawing without a file' '--timeline runs, expected a file to draw into, and then' check --timeline runs
refuses 'a file as the folder of data' '../jobs/good.yaml: is a file; --data (data.dir) names the folder, data.file' ../jobs/good.yaml --data ../jobs/good.yaml
refuses 'a command with a slip' 'unknown command locl, did you mean local?' locl -n 2 ../jobs/good.yaml
refuses 'a key with a dash' '--test-share, did you mean --set data.test_share=VALUE?' ../jobs/good.yaml --test-share 5
refuses 'a name of elsewhere as an option' '--lr, did you mean --set train.optimizer.\*.rate=VALUE?' ../jobs/good.yaml --lr 5
refuses 'set of a layer' 'model.dense belongs in the job file: --set does not change the layers' ../jobs/good.yaml --set model.dense=5
refuses 'n nodes of one' '-n is an option of meshnode local' -n 3 ../jobs/good.yaml
refuses 'no nodes' '-n 0, expected a whole number 1..64' local -n 0 ../jobs/good.yaml
refuses 'one port for many' 'mesh.port = 20000, expected 0 with -n 2' local -n 2 --port 20000 ../jobs/good.yaml
refuses 'resume of a check' '--resume and --fresh are for training' check --resume ../jobs/good.yaml
refuses 'resume and begin again' 'exclude' ../jobs/good.yaml --resume --fresh
refuses 'bad option without a job' 'mesh.peers = 65' --peers 65

# --- the job file ---
printf '\000\001' >jobs/binary.yaml
refuses 'missing file' 'none.yaml: No such file' ../jobs/none.yaml
refuses 'directory' 'jobs: is a directory' ../jobs
refuses 'binary file' 'binary.yaml:1: ' ../jobs/binary.yaml
if [ "$(id -u)" != 0 ]; then
    cp jobs/good.yaml jobs/closed.yaml
    chmod 000 jobs/closed.yaml
    refuses 'no permission' 'closed.yaml: Permission denied' ../jobs/closed.yaml
fi

job typo "$good" 'train: {bach: 12}'
refuses 'unknown key' 'typo.yaml:2: unknown key train.bach, did you mean train.batch?' ../jobs/typo.yaml
job softmax 'model: [flatten, dense: 10, softmax]'
refuses 'a softmax' 'model.layer = softmax, leave it out: the loss cross_entropy does it' ../jobs/softmax.yaml
job stages "$good" 'mesh:' '  stages: 2'
refuses 'stages of one layer' 'stages.yaml: mesh.stages = 2, expected 1: this model has one layer with weights, or one block of them, and cannot be divided$' ../jobs/stages.yaml
job wide 'data: {source: glyphs, train: 24, test: 12}' 'train: {batch: 12}' 'model: [flatten, dense: 9000, dense: 9000, dense: 10]'
refuses 'small buckets of stages' 'mesh.bucket = 4096 is too small for mesh.stages: there are [0-9]* buckets above .*, expected at most 65535' \
    ../jobs/wide.yaml --set mesh.bucket=4096 --set mesh.stages=2
job tied 'data: {source: text, file: ../jobs/tied.yaml, context: 4}' 'train: {batch: 12}' \
    'model: [embedding: {units: 8, tokens: 256}, residual: [dense: 8], dense: {units: 256, tied: yes}]'
refuses 'two stages on one node' 'mesh.stages = 2, expected 1 or at least 3: the first and the last stage share a weight' \
    ../jobs/tied.yaml --set mesh.stages=2
job lr "$good" 'train: {learning_rate: 0.1}'
refuses 'a key by another name' 'lr.yaml:2: unknown key train.learning_rate, did you mean train.optimizer.\*.rate?' ../jobs/lr.yaml
job indent 'model:' '  - flatten' ' - dense: 10'
refuses 'a list indented otherwise' 'indent.yaml:3: this line is indented otherwise than the lines above it' ../jobs/indent.yaml
job indent "$good" 'run:' '  name: a: b'
refuses 'two keys in a line' "indent.yaml:3: a ':' too many, or this line is indented further" ../jobs/indent.yaml
job shape 'model: [input: [1, 28, 28], flatten, {conv: 8}, dense: 10]'
refuses 'layer that does not fit' 'conv' check ../jobs/shape.yaml
job classes 'data: {source: glyphs, train: 24, test: 12}' 'train: {batch: 12}' 'model: [flatten, dense: 7]'
refuses 'too few outputs' 'classes.yaml: .*7' check ../jobs/classes.yaml
job tokens 'data: {source: glyphs, train: 24, test: 12}' 'train: {batch: 12}' 'model: [input: 784, embedding: 4, flatten, dense: 10]'
refuses 'pixels for tokens' 'tokens.yaml: model: line 3: layer 0 (embedding): element 0 of training sample 0 is .*, expected a token: a whole number 0..255' check ../jobs/tokens.yaml
job few 'data: {source: glyphs, train: 24, test: 12}' "$good"
refuses 'batch larger than the data' 'train.batch = 384.*24' ../jobs/few.yaml
refuses 'and set right' '-n 65' local -n 65 --set train.batch=12 ../jobs/few.yaml

# --- values ---
# value PATTERN LINE...: a job of these lines is refused
value() {
    pattern=$1
    shift
    printf '%s\n' "$good" "$@" >jobs/value.yaml
    refuses "$(printf %.60s "$*")" "$pattern" ../jobs/value.yaml
}
value 'mesh.seeds = aaa*\.\.\., expected' "mesh: {seeds: [\"$(printf '%0300d' 0 | tr 0 a):5\"]}"
value 'value.yaml: is too large' "run: {name: $(head -c 1000000 /dev/zero | tr '\0' x)}"
printf 'model: [flatten, dense: 1048576, dense: 1048576, dense: 10]\n' >jobs/width.yaml
refuses 'a model that no memory holds' 'layer 2 (dense): too large' check ../jobs/width.yaml
refuses 'resume and begin again' 'resume' --resume --fresh ../jobs/good.yaml
printf '\357\273\277%s\r\n%s\r\n%s\r\n' 'data: {source: glyphs, train: 24, test: 12}' 'train: {batch: 12, epochs: 1}' "$good" >jobs/dos.yaml

# --- its data ---
job idx 'data: {source: idx}' 'train: {batch: 12, epochs: 1}' "$good"
refuses 'no data' 'train-images' ../jobs/idx.yaml --data ../data
refuses 'no data for many nodes, said once' 'train-images' local -n 3 ../jobs/idx.yaml --data ../data
refuses 'data folder that is a file' 'good.yaml' ../jobs/idx.yaml --data ../jobs/good.yaml
printf '\000\000\010\003\000\000\000\002\000\000\000\034\000\000\000\034abc' >data/train-images-idx3-ubyte
refuses 'images without labels' 'no train-labels-idx1-ubyte' ../jobs/idx.yaml --data ../data
printf '\000\000\010\001\000\000\000\002\001\002' >data/train-labels-idx1-ubyte
refuses 'truncated data' 'train-images-idx3-ubyte: its header announces 1584 bytes, the file has 19' ../jobs/idx.yaml --data ../data

# --- where it writes ---
: >data/file
refuses 'results into a file' 'data/file: Not a directory' ../jobs/good.yaml --out ../data/file $own
refuses 'results below a file' 'data/file/x: Not a directory' ../jobs/good.yaml --out ../data/file/x $own
refuses 'results where none can be' '/proc/x: ' ../jobs/good.yaml --out /proc/x $own

# --- the network ---
refuses 'no such interface' 'nosuch0' ../jobs/good.yaml --interface nosuch0
refuses 'bad interface name' 'a/b' ../jobs/good.yaml --interface a/b
refuses 'interface without a job' 'nosuch0' --interface nosuch0 --quiet
mkdir holder
# shellcheck disable=SC2086 # words
"$MESHNODE" jobs/good.yaml $own --peers 2 --out holder >holder/log 2>&1 &
holder=$!
deadline=$(($(date +%s) + 600))
until port=$(sed -n 's/^this node is .*, port //p' holder/log) && [ "$port" ] || ! kill -0 $holder 2>/dev/null ||
    [ "$(date +%s)" -gt $deadline ]; do :; done
refuses 'taken port' "port $port" ../jobs/good.yaml $own --port "$port"
# it waits for another, and says so to who asks: made as old as can be, its metrics.jsonl is new again soon
touch -d '1 hour ago' holder/metrics.jsonl
deadline=$(($(date +%s) + 600))
until "$MESHNODE" health holder >health || [ "$(date +%s)" -gt $deadline ]; do :; done
grep -q '^holder: no step yet, last sign of life [0-9.]* s ago$' health || complain 'health of a node that waits' "$(cat health)"
# ps, top, pgrep and killall know it by its name, and its threads by what they do
names=$(cat /proc/$holder/task/*/comm | sort -u | tr '\n' ' ')
[ "$(cat /proc/$holder/comm)" = meshnode ] && pgrep -x meshnode | grep -qx $holder ||
    complain 'name of the process' "$(cat /proc/$holder/comm)"
for name in mesh save; do
    case " $names" in *" $name "*) ;; *) complain 'names of the threads' "no $name among $names" ;; esac
done
kill -TERM $holder
wait $holder
status=$?
cp holder/log err
[ $status = 130 ] || complain 'a node that waits and is asked to end' "status $status, expected 130"

# --- outputs ---
answers() { # WHAT STATUS PATTERN COMMAND: run by sh, M is the program; status and what err says
    M=$MESHNODE timeout -k 5 600 sh -c "$4" >"$W/out" 2>"$W/err" </dev/null
    status=$?
    [ $status = "$2" ] || complain "$1" "status $status, expected $2"
    [ -z "$3" ] || grep -q -e "$3" err || complain "$1" "does not say '$3'"
}
answers 'help' 0 '' '"$M" --help'
grep -q 'meshnode local' out || complain 'help' 'does not name local'
[ ! -s err ] || complain 'help' 'wrote to standard error'
answers 'help despite a bad job' 0 '' '"$M" jobs/binary.yaml --help'
answers 'help of a command' 0 '' '"$M" verify --help'
grep -q 'meshnode verify \[--replay\] \[--evaluate\] DIR' out && grep -q -e '^  --replay' out && ! grep -q -e '--prompt' out ||
    complain 'help of a command' "$(cat out)"
answers 'version' 0 '' '"$M" --version'
grep -q '^meshnode [0-9]' out || complain 'version' 'says no version'
answers 'help into a full disk' 1 'standard output' '"$M" --help >/dev/full'
answers 'version into a full disk' 1 'standard output' '"$M" --version >/dev/full'
answers 'help into a closed output' 1 'standard output' '"$M" --help >&-'
answers 'errors into a closed output' 2 '' '"$M" jobs/none.yaml 2>&-'
answers 'nothing open' 2 '' '"$M" jobs/none.yaml <&- >&- 2>&-'
answers 'check' 0 '' '"$M" check jobs/good.yaml'
# estimates WHAT PATTERN ARGS...: check says it, beside how long a step takes on each line.
estimates() {
    what=$1 pattern=$2
    shift 2
    "$MESHNODE" check --threads 1 "$@" >out 2>err || complain "$what" 'fails'
    [ "$(grep -c '^  on 1[0 MG]*bit/s: 1 node [0-9.e-]* s, 2 nodes [0-9.e-]* s.*est$' out)" = 3 ] || complain "$what" "$(cat out)"
    grep -q "$pattern" out || complain "$what" "$(cat out)"
}
# 32 KB of weights and next to no computing; 2 KB, and some 10 ms
job pays 'data: {source: glyphs, train: 480, test: 12}' 'train: {batch: 480, epochs: 1}' 'model: [conv: {filters: 16, kernel: 5}, globalpool, dense: 10]'
estimates 'check of nodes that do not pay' 'on 10 Mbit/s: .*: one node alone is the fastest$' jobs/good.yaml --peers 4
grep -Eq '^  powersgd +[0-9.e-]+ s +[0-9.e-]+ s +[0-9.e-]+ s$' out || complain 'check of codecs' "no times of powersgd: $(cat out)"
estimates 'check of nodes that pay' 'on 1 Gbit/s: .* 16 nodes .*: [2-9][0-9]* nodes are the fastest$\|: 1[0-2] nodes are the fastest$' jobs/pays.yaml --peers 16
for row in none int8 sparse onebit alone auto gossip; do
    grep -Eq "^  $row +[0-9.e-]+ s +[0-9.e-]+ s +[0-9.e-]+ s$" out || complain 'check of codecs' "no times of $row: $(cat out)"
done
way='(one PC alone|(mesh.compress: [a-z0-9]+|mesh.stages: [0-9]+|train.local_steps: [0-9]+)) on'
gain='(\([0-9.]+ times one PC\))?'
tail -n 1 out | grep -Eq "^set     $way 10 Mbit/s ?$gain; $way 100 Mbit/s ?$gain; $way 1 Gbit/s ?$gain$" ||
    complain 'check of codecs' "no line to write: $(cat out)"
estimates 'check of servers' '3 nodes' jobs/good.yaml --peers 3 --set mesh.topology=server --set mesh.servers=2
estimates 'check of local steps' '3 nodes' jobs/good.yaml --peers 3 --set train.local_steps=2
# The instruction for bfloat16 is used where the CPU has it. A node with it and one without it have the same numerics.
"$MESHNODE" check jobs/good.yaml --set train.precision=bf16 >out 2>err || complain 'check of bf16' 'fails'
with=$(sed -n 's/^kernel .*numerics //p' out)
if grep -q '^flags.* avx512_bf16' /proc/cpuinfo && grep -q '^kernel .*portable avx512' out; then
    grep -q '^bf16 *products by AVX512_BF16$' out || complain 'check of bf16' 'the instruction is not used'
else
    grep -q '^bf16 *products in chains of float32' out || complain 'check of bf16' 'what computes products is not said'
fi
MESHNODE_SIMD=base "$MESHNODE" check jobs/good.yaml --set train.precision=bf16 >out 2>err
[ -n "$with" ] && [ "$with" = "$(sed -n 's/^kernel .*numerics //p' out)" ] || complain 'check of bf16' 'another CPU has other numerics'
answers 'check of one node' 0 '' '"$M" check jobs/good.yaml --peers 1'
! grep -q 'fastest' out || complain 'check of one node' 'estimates'
answers 'check of gossip' 0 '' '"$M" check jobs/good.yaml --peers 3 --set mesh.topology=gossip'
! grep -q 'fastest' out || complain 'check of gossip' 'estimates a step that waits for all'
answers 'check of stages' 0 '' '"$M" check jobs/pays.yaml --peers 2 --set mesh.stages=2'
grep -q '^stages  2 on 2 nodes, mesh.schedule: zb$' out &&
    grep -q '^  stage 2 .* % of the work, layers 2.dense to 2.dense: weights 680 B, activations' out &&
    grep -q '^  can be cut before layers 2.dense$' out || complain 'check of stages' "$(cat out)"
answers 'check into a full disk' 1 'standard output' '"$M" check jobs/good.yaml >/dev/full'
answers 'empty environment' 0 '' 'env -i "$M" check jobs/good.yaml'
answers 'foreign locale' 0 '' 'LC_ALL=tr_TR.UTF-8 "$M" check jobs/good.yaml --set train.optimizer.sgd.rate=0.5'
answers 'byte order mark and CRLF' 0 '' '"$M" check jobs/dos.yaml'
answers 'the last of repeated options' 0 '' '"$M" check --threads 1 --threads 2 jobs/good.yaml'
answers 'two dashes' 0 '' '"$M" check -- jobs/good.yaml'
answers 'a folder that is gone' 2 'No such file' 'mkdir gone; cd gone; rmdir ../gone; "$M" jobs/good.yaml'

alone="$own --set mesh.gather_ms=0 --out run"
answers 'a run' 0 '' "\"\$M\" jobs/good.yaml $alone"
[ -s run/result.json ] && [ -s run/model.safetensors ] && [ -s run/metrics.jsonl ] || complain 'a run' 'left no results'
answers 'eval' 0 '' '"$M" eval jobs/good.yaml run/model.safetensors'
answers 'eval of no model' 2 'none' '"$M" eval jobs/good.yaml none'
answers 'eval of a folder' 2 'run' '"$M" eval jobs/good.yaml run'
answers 'a run whose reader has gone' 0 '' "{ \"\$M\" jobs/good.yaml $alone; echo \$? >status; } | true; exit \$(cat status)"
answers 'a run into a full disk' 0 '' "\"\$M\" jobs/good.yaml $alone >/dev/full"
answers 'a run with nothing open' 0 '' "\"\$M\" jobs/good.yaml $alone <&- >&- 2>&-"
answers 'a quiet run' 0 '' "\"\$M\" jobs/good.yaml $alone --quiet"
[ ! -s out ] && [ ! -s err ] || complain 'a quiet run' 'is not quiet'
answers 'a codec that does not begin' 0 '' "\"\$M\" jobs/good.yaml $alone-warm --set mesh.compress=topk --set mesh.compress_warmup=9"
grep -q '^mesh.compress_warmup = 9: the run has 2 steps, so nothing is compressed$' out || complain 'a codec that does not begin' "$(cat out)"
answers 'health of a run that is done' 0 '' '"$M" health run'
grep -q '^run: step 2, loss [0-9.]*, 1 node, done$' out || complain 'health of a run that is done' "$(cat out)"
mkdir -p runs/dead runs/older runs/empty
echo '{"step":7,"loss":0.5,"peers":3}' >runs/dead/metrics.jsonl
cp run/metrics.jsonl runs/older
touch -d '31 seconds ago' runs/dead/metrics.jsonl
touch -d '1 hour ago' runs/older/metrics.jsonl
answers 'health of dead runs' 1 '' '"$M" health'
grep -q '^runs/dead: step 7, loss 0.5, 3 nodes, last sign of life 3[0-9.]* s ago: dead' out ||
    complain 'health of dead runs' "$(cat out)"
mkdir -p runs/several/node-0 runs/several/node-1
echo '{"step":9,"loss":0.25,"peers":2}' | tee runs/several/node-0/metrics.jsonl >runs/several/node-1/metrics.jsonl
touch -d '1 hour ago' runs/several/node-0/metrics.jsonl
answers 'health of local nodes' 0 '' '"$M" health'
grep -q '^runs/several/node-1: step 9, loss 0.25, 2 nodes, last sign of life [0-9.]* s ago$' out ||
    complain 'health of local nodes' "$(cat out)"
touch -d '1 hour' runs/dead/metrics.jsonl # a clock was set back: it hides nobody who is alive, and is not alive itself
touch runs/several/node-1/metrics.jsonl
answers 'health of a live run beside one of the future' 0 '' '"$M" health'
grep -q '^runs/several/node-1: .* last sign of life' out || complain 'health of a live run beside one of the future' "$(cat out)"
answers 'health of a dead run of the future' 1 '' '"$M" health runs/dead'
grep -q '^runs/dead: step 7, .* dead or stopped (the time of its metrics.jsonl is 3[56][0-9]* s in the future)$' out ||
    complain 'health of a dead run of the future' "$(cat out)"
answers 'health of a live run of the future' 0 '' \
    '"$M" health runs/dead & while kill -0 $!; do touch -d "1 hour" runs/dead/metrics.jsonl; done 2>/dev/null; wait $!'
for tail in '{"step":' '\0\0\n' '[]\n' '{"step":"x","loss":[],"peers":-1}\n' '\n\n\n'; do
    printf "$tail" >runs/empty/metrics.jsonl
    answers 'health of a broken file' 0 '' '"$M" health runs/empty'
done
answers 'help as a word' 0 '' '"$M" help; "$M" --help >full; "$M" help >word; cmp full word'
answers 'help of a command' 0 '' '"$M" help verify | grep -q -- --replay'
answers 'health of nothing' 1 '' '"$M" health gone'
answers 'health of a file' 1 '' '"$M" health jobs/good.yaml'
answers 'health of a FIFO' 1 '' 'mkdir fifo; mkfifo fifo/metrics.jsonl; "$M" health fifo'
answers 'few descriptors' 0 '' 'ulimit -n 16; "$M" check jobs/good.yaml'
answers 'too few descriptors for a mesh' 2 '16 open files' "ulimit -n 16; \"\$M\" jobs/good.yaml $alone"
answers 'files that may not grow' 0 'status 1' "(ulimit -f 0; \"\$M\" jobs/good.yaml $alone 2>&1; echo status \$?) | cat >&2"
grep -q 'File too large' err || complain 'files that may not grow' 'does not say what is wrong'
[ "$(id -u)" != 0 ] || answers 'nobody may read what is written' 0 '' "umask 777; \"\$M\" jobs/good.yaml $alone-umask"
answers 'everybody may write' 0 '' "umask 0; \"\$M\" jobs/good.yaml $alone-umask0"
answers 'one CPU' 0 '' "taskset -c 0 \"\$M\" jobs/good.yaml $alone"

sanitized() { # AddressSanitizer needs terabytes of address space
    grep -qaE '__(asan|tsan|msan)_init' "$MESHNODE"
}
little_space() { # EXPECTED ...: as `answers`
    sanitized || answers "$@"
}
# Too little address space is said in one line, also with OpenBLAS, which would try for ever to get its buffers; ZeroMQ
# would abort.
little_space 'help with little address space' 0 '' 'ulimit -v 65536; "$M" --help'
MESHNODE_SIMD=fast refuses 'unknown instructions' 'MESHNODE_SIMD = fast, expected base' ../jobs/good.yaml
for kernel in portable openblas; do
    "$MESHNODE" check jobs/good.yaml --set train.exact=no --set "run.numerics=$kernel" >out 2>err || {
        grep -q 'no libopenblas' err || complain "check with $kernel" 'fails'
        continue
    }
    for size in 65536 131072; do
        little_space "$kernel with $size kB" 2 'not enough\|could be started\|Cannot allocate\|no thread' \
            "ulimit -v $size; \"\$M\" jobs/good.yaml $alone-small --threads 2 --set train.exact=no --set run.numerics=$kernel"
        sanitized || [ "$(wc -l <err)" = 1 ] || complain "$kernel with $size kB" 'expected one line'
    done
    for size in 200000 262144 350000 450000; do
        little_space "$kernel with $size kB" 0 '' "rm -rf run-small; ulimit -v $size
            \"\$M\" jobs/good.yaml $alone-small --threads 2 --set train.exact=no --set run.numerics=$kernel; status=\$?
            [ \$status = 0 ] || [ \$status = 2 ]"
    done
    little_space "$kernel with enough" 0 '' "rm -rf run-small; ulimit -v 2000000
        \"\$M\" jobs/good.yaml $alone-small --threads 2 --set train.exact=no --set run.numerics=$kernel"
done

# One file in the place of another: what it is, and what was expected.
instead() { # PATTERN ARGS...
    pattern=$1
    shift
    answers "$*" 2 "$pattern" "\"\$M\" $*"
    [ "$(wc -l <err)" = 1 ] || complain "$*" 'expected one line'
}
model=run/model.safetensors checkpoint=run/checkpoint-2
instead "^meshnode: $model: is a model, expected a job: meshnode eval JOB.yaml MODEL$" eval $model jobs/good.yaml
instead "^meshnode: $model: is a model, expected a job: meshnode \[JOB.yaml\]$" $model
instead "^meshnode: $checkpoint: is a checkpoint, expected a job: meshnode convert" convert $checkpoint jobs/good.yaml
instead "^meshnode: run/job.json: is what a run wrote, expected a job" run/job.json
instead "^meshnode: $checkpoint: is a checkpoint, expected a model: meshnode eval JOB.yaml MODEL$" eval jobs/good.yaml $checkpoint
instead "good.yaml: train.from: $model: is a model, expected a checkpoint: model.from takes it$" check jobs/good.yaml --set train.from=$model
instead "good.yaml: train.from: run: is a folder, expected a file such as run/checkpoint-2$" check jobs/good.yaml --set train.from=run
instead "good.yaml: model.from: $checkpoint: is a checkpoint: train.from takes it$" check jobs/good.yaml --set model.from=$checkpoint
instead "good.yaml: model.from: run: is a folder, expected a file such as run/model.safetensors$" check jobs/good.yaml --set model.from=run
instead "^meshnode: $model: is a model, expected a checkpoint$" convert jobs/good.yaml $model out.safetensors
instead "^meshnode: run: is a folder, expected a file such as run/checkpoint-2$" convert jobs/good.yaml run out.safetensors
instead "^meshnode: jobs/good.yaml: is a file, expected a results folder" verify jobs/good.yaml
instead "^meshnode: jobs/good.yaml: is a file, expected a results folder" verify --replay jobs/good.yaml
job text 'data: {source: text, file: text.yaml, context: 4}' 'train: {batch: 12}' 'model: [flatten, dense: 256]'
instead "text.yaml: data.source = text needs an embedding as its first layer$" check jobs/text.yaml --data jobs

# A signal while there is nothing to save yet: the end, at once. Its 500,000 samples take seconds to draw.
job slow 'data: {source: glyphs, train: 500000, test: 12}' 'train: {batch: 12, epochs: 1}' "$good"
starts() { # the program heeds signals
    grep -q '^SigCgt:.*[4-7c-f]...$' "/proc/$1/status" 2>/dev/null
}
for signal in TERM INT; do
    # shellcheck disable=SC2086
    env "--default-signal=$signal" "$MESHNODE" jobs/slow.yaml $alone-slow >err 2>&1 &
    slow=$!
    deadline=$(($(date +%s) + 600))
    until starts $slow || [ "$(date +%s)" -gt $deadline ]; do :; done
    kill -$signal $slow
    wait $slow
    status=$?
    [ $status = 130 ] || complain "SIG$signal at the start" "status $status, expected 130"
    [ ! -s err ] || complain "SIG$signal at the start" 'did not end at once'
done

exit $failed
