#!/bin/bash
# One node by itself, then two together, under valgrind: no invalid access, no use of what was never set, no
# memory of ours lost. (Libraries keep some memory to the end; that is reachable and not counted.)
. "$(dirname "$0")/../support/process.sh"
command -v valgrind >/dev/null || skip "no valgrind"
if sanitized; then
    skip "a sanitizer is built in, which does this work and does not run under valgrind"
fi

for name in one two other; do
    WHERE[$name]="valgrind -q --error-exitcode=99 --leak-check=full \
        --show-leak-kinds=definite,indirect --errors-for-leak-kinds=definite,indirect"
done
write_job "$WORK/job.yaml" 3
reference "$WORK/job.yaml" # without valgrind
node one "$WORK/job.yaml" --set mesh.gather_ms=0 --set "mesh.group=$GROUP-one"
finished 200 one
node two "$WORK/job.yaml" --peers 2
node other "$WORK/job.yaml" --peers 2
finished 300 two other
same_hash reference one two other
echo "clean, and the weights are those of a run without valgrind"
