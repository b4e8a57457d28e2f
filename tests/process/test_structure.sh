#!/bin/bash
# test_structure.sh - structure.py, the check behind make layers, refuses what it is for: each line plants one mistake into
# a copy of the sources, and names the words of the refusal.
set -u
cd "$(dirname "$0")/../.." || exit 2
copy=$(mktemp -d) || exit 2
trap 'rm -rf "$copy"' EXIT
failed=0

check() { # [OBJECTS]: what structure.py says of the copy, in $copy/said; its status
    (cd "$copy" && python3 tests/support/structure.py "$@") >"$copy/said" 2>&1
}
planted() { # WORDS: the copy, with the mistake that was just planted, is refused with these words; then it is whole again
    if check || ! grep -qE "$1" "$copy/said"; then
        echo "not refused: $1"
        cat "$copy/said"
        failed=1
    fi
    fresh
}
fresh() {
    rm -rf "$copy"/{mesh,nn,node,proto,compress,tests}
    cp -r mesh nn node proto compress "$copy"/
    mkdir -p "$copy"/tests/support && cp tests/support/structure.* "$copy"/tests/support/
    [ ! -f "$copy"/sum ] || cp "$copy"/sum "$copy"/tests/support/structure.sum
}
plant() { # FILE: a function from stdin, at the end of the file, before the #endif of a header
    case $1 in
    *.h) sed -i '$d' "$copy/$1" && cat - <(echo '#endif') >>"$copy/$1" ;;
    *) cat >>"$copy/$1" ;;
    esac
}

fresh
check || { cat "$copy/said"; exit 1; }
(cd "$copy" && python3 tests/support/structure.py --write) >/dev/null && cp "$copy"/tests/support/structure.sum "$copy"/sum

plant mesh/core/sessions/link.c <<'C'
static bool
link_planted(const struct core *core)
{
    return fetch_ready(core);
}
C
planted 'link.c calls upwards: fetch_ready of .*fetch.c'

plant mesh/core/sessions/link.h <<'C'
static inline bool
link_planted(const struct core *core)
{
    return fetch_ready(core);
}
C
planted 'link.h calls upwards: fetch_ready of .*fetch.c'

# An inline function of a header for all stands for what it calls.
plant mesh/core/internal.h <<'C'
static inline bool
core_planted(const struct core *core)
{
    return fetch_ready(core);
}
C
plant mesh/core/sessions/link.c <<'C'
static bool
link_planted(const struct core *core)
{
    return core_planted(core);
}
C
planted 'link.c calls upwards: fetch_ready of .*fetch.c'

# Engines stand side by side. Only a table names the function.
plant mesh/core/gossip/gossip_flow.c <<'C'
static const struct planted planted = {
    .end = rounds_abort,
};
C
planted 'gossip_flow.c calls upwards: rounds_abort of'

# What the group asks knows nothing of the group.
plant mesh/core/pipeline/placement.c <<'C'
static bool
placement_planted(uint64_t a, uint64_t b)
{
    return cost_clearly_less(a, b);
}
C
planted 'placement.c calls upwards: cost_clearly_less of .*cost.c'

# The other houses have storeys, too.
plant node/base/term.c <<'C'
static int
term_planted(struct config *config)
{
    return train_run(config, 0);
}

void
term_unused(void)
{
}
C
plant node/job/kind.c <<'C'
static const struct planted planted = {
    .settle = left_settle,
};
C
plant nn/arithmetic/vmath.c <<'C'
static size_t
vmath_planted(const struct nn_model *model)
{
    return nn_output_size(model);
}
C
sed -i 's|^#include "node/commands/command.h"|#include "node/cli/options.h"\n&|' "$copy"/node/commands/eval.c
sed -i 's|^#include "nn/layers/layer.h"|&\n#include "nn/pass.h"|' "$copy"/nn/layers/act.c
mkdir "$copy"/node/more && cp "$copy"/node/base/stop.h "$copy"/node/more/more.h
{ printf 'static void\nactor_planted(void)\n{\n'; yes '    ;' | head -60; echo '}'; } | plant mesh/net/actor.c
check none
cp "$copy"/said "$copy"/all
for words in 'node/base/term.c calls upwards: train_run of node/train/train.c' \
    'node/job/kind.c calls upwards: left_settle of node/train/left.c' \
    'node/commands/eval.c includes upwards: options.h' 'node/more/more.h: its folder is no storey' \
    'nn/arithmetic/vmath.c calls upwards: nn_output_size of nn/model.c' 'nn/layers/act.c includes upwards: pass.h' \
    'node/base/term.c: nobody else uses term_unused: static' 'mesh/net/actor.c: actor_planted has 63 lines, more than 60'; do
    grep -qF "$words" "$copy"/all || { echo "not refused: $words"; failed=1; }
done
fresh

# Outside of mesh/core no circle is left.
plant node/base/parse.c <<'C'
static bool
parse_planted(void)
{
    return text_planted();
}
C
plant node/base/term.c <<'C'
bool
text_planted(void)
{
    return parse_printable("");
}
C
planted 'node: files that call, through others, themselves: parse, term'

# A call downwards between two files that had none: the sum rises.
plant mesh/core/transfer/files.h <<'C'
static inline void
files_planted(void)
{
    rendezvous_planted();
}
C
plant mesh/core/sessions/rendezvous.c <<'C'
void
rendezvous_planted(void)
{
}
C
planted 'the sum has risen from [0-9]+ to [0-9]+'

for write in 'core->gossip->planted |= 1;' 'core->view.of[i].planted++;' 'memset(&core->gossip->planted, 0, 1);' \
    '{ struct gossip *p = core->gossip; p->planted = 1; }'; do
    plant mesh/core/group/lag.c <<C
static void
lag_planted(const struct core *core, int i)
{
    $write
}
C
    planted 'lag.c writes to a record of another part, struct (gossip|heard) of'
done

plant mesh/core/group/lag.c <<'C'
static void
lag_planted(struct core *core)
{
    (void)core;
}
C
planted 'lag.c may write to the record of another part: lag_planted\(struct core'

for file in nn/arithmetic/rng.h nn/loss.c node/train/ledger.c proto/mix.h; do
    plant $file <<'C'
static void
planted(void)
{
}
C
done
planted '4 files define planted, expected at most 3: nn/arithmetic/rng.h nn/loss.c node/train/ledger.c proto/mix.h'

sed -i 's|^#include "mesh/core/internal.h"|&\n#include "mesh/core/transfer/fetch.h"|' "$copy"/mesh/core/sessions/contact.c
planted 'contact.c includes upwards: fetch.h'

mv "$copy"/mesh/core/transfer/fetch.c "$copy"/mesh/core/transfer/fetch_all.c
rm "$copy"/mesh/core/transfer/fetch.h
planted 'structure.py names fetch, of which mesh/core has no file'

# A file that has the name of another one with something behind it is another part.
plant mesh/core/group/plan_elect.c <<'C'
static void
elect_planted(struct plan *plan)
{
    plan->fails = 1;
}
C
planted 'the sum has risen from [0-9]+ to [0-9]+'

# The sum may not be raised by hand either, when git knows a lower one.
if command -v git >/dev/null; then
    (cd "$copy" && git init -q . && git add tests && git -c user.name=a -c user.email=a@b commit -qm a) || exit 1
    read -r sum measure <"$copy"/sum
    echo $((sum + 1)) "$measure" >"$copy"/tests/support/structure.sum
    planted 'a commit before has [0-9]+: the sum may only fall'
fi
exit $failed
