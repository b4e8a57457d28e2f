/* files.c - see files.h. */
#include "mesh/core/transfer/files.h"

#include <assert.h>

#include "mesh/core/internal.h"

void
files_init(struct files *files)
{
    take_init(&files->take, files->asked, FILES_ASK_US);
}

/* --- Taking ------------------------------------------------------------------------------------ */

void
files_want(struct files *files, const struct core *core, const struct proto_fetch *what,
           uint64_t count)
{
    assert(count <= CORE_FILES_RUN);
    bool page = what->object == PROTO_OBJECT_PAGE;
    take_patience(&files->take, page ? FILES_ASK_US : FILES_PATIENCE_US);
    take_begin(&files->take, what, what->block, count, page ? PROTO_PAGE_MAX : PROTO_BLOCK_MAX);
    files->takes = true;
    files->rests = false;
    files->lacks = 0;
    files->since = core->awake;
    files->names_of = -1;
    files->names_us = FILES_NAMES_US;
}

static void
page_deliver(struct files *files, const struct core *core, uint64_t round, const void *data,
             size_t size)
{
    assert(files->takes);
    files->takes = false;
    if (core->config.trainer->page)
        core->config.trainer->page(core->config.trainer_ctx, round, data, size);
}

/* What came is damaged or none: another peer may have it. */
static void
page_came(struct files *files, const struct core *core, int from, const struct proto_give *give,
          const void *body, size_t size)
{
    const struct proto_fetch *want = &files->take.what;
    bool number = give->block == want->block || mutant(MUTANT_PAGE_NUMBER);
    if (files->asked[0] != from || !number)
        return;
    if (transfer_check(give, 0, body, size) != give->check) {
        take_bad(&files->take, from, want->block);
    } else if (size == 0 || size > PROTO_PAGE_MAX || give->round == 0 ||
               (want->round != 0 && give->round != want->round && !mutant(MUTANT_PAGE_ROUND))) {
        files->lacks |= mutant(MUTANT_PAGE_NONE) ? UINT64_MAX : UINT64_C(1) << from;
    } else {
        page_deliver(files, core, give->round, body, size);
    }
}

/* Who does not answer may still have the page: its turn comes again. */
static void
page_ask(struct files *files, const struct core *core)
{
    uint64_t gives = 0;
    if (mutant(MUTANT_PAGE_ASKED) && files->asked[0] < PEERS_MAX)
        return;
    for (int i = 0; i < core->peers.high; i++)
        gives |= (uint64_t)view_usable(core, i) << i;
    gives &= ~files->lacks;
    if (awake_since(core->awake, files->since) >= (gives ? PAGES_PATIENCE_US : PAGES_REST_US))
        page_deliver(files, core, 0, NULL, 0);
    else
        take_ask(&files->take, core, gives);
}

/* Those that are up and have the job. */
static uint64_t
files_trainers(const struct files *files, const struct core *core)
{
    uint64_t trainers = 0;
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        bool has = peer->state == PEER_UP && !peer->hello.wants_job &&
                   peer->hello.job_hash == files->take.what.label;
        trainers |= (uint64_t)has << i;
    }
    return trainers;
}

void
files_bye(struct files *files, const struct core *core, int i, bool done)
{
    files->ended |= done && (files_trainers(files, core) >> i & 1);
}

bool
files_over(const struct files *files, const struct core *core)
{
    return files->ended && files_trainers(files, core) == 0;
}

/* Those of them that may be asked now. */
static uint64_t
files_donors(const struct files *files, const struct core *core)
{
    uint64_t donors = files_trainers(files, core);
    donors &= files->names_of < 0 ? UINT64_MAX : UINT64_C(1) << files->names_of;
    return donors & ~files->wrong & ~files->lacks;
}

static void
names_anew(struct files *files)
{
    files->names_of = -1;
    take_begin(&files->take, &files->take.what, 0, 1, PROTO_BLOCK_MAX);
}

/* Is this one not worth waiting for? */
static void
names_step(struct files *files, const struct core *core)
{
    bool late = awake_since(core->awake, files->names_since) >= files->names_us;
    if (files->names_of < 0 || (!late && files_donors(files, core)))
        return;
    files->lacks |= UINT64_C(1) << files->names_of;
    names_anew(files);
}

/* Block 0 came, and says how many there are. */
static void
names_rest(struct files *files, const struct core *core, int from, uint64_t blocks)
{
    take_begin(&files->take, &files->take.what, 1, blocks - 1, PROTO_BLOCK_MAX);
    files->names_of = from;
    files->names_since = core->awake;
}

static void
files_ask(struct files *files, const struct core *core)
{
    if (files->rests && awake_since(core->awake, files->since) < FILES_REST_US)
        return;
    if (files->rests) {
        files->lacks = files->wrong = 0;
        files->names_us *= 2;
    }
    names_step(files, core);
    files->lacks |= take_ask(&files->take, core, files_donors(files, core));
    files->rests = files_donors(files, core) == 0;
    files->since = core->awake;
}

static void
files_wrong(struct files *files, const struct core *core, int from, uint64_t block)
{
    char who[PROTO_WHO_MAX];
    take_bad(&files->take, from, block);
    take_gone(&files->take, from);
    files->wrong |= UINT64_C(1) << from;
    core_log(core, 4, "%s sent a block of the data that is wrong: it is not asked for more",
             report_who(core, from, who));
}

static void
files_came(struct files *files, const struct core *core, int from, const struct proto_give *give,
           const void *body, size_t size)
{
    const struct core_program *program = core->config.program;
    const struct core_file_block came = {.group = (unsigned)give->round,
                                         .names = give->object == PROTO_OBJECT_NAMES,
                                         .block = give->block,
                                         .blocks = give->commit,
                                         .data = body,
                                         .size = size};
    bool first = came.names && files->names_of < 0;
    if (give->round != files->take.what.round || !take_wants(&files->take, give->block) ||
        (came.names && !(files_donors(files, core) >> from & 1)))
        return;
    if (size == 0) {
        take_gone(&files->take, from);
        files->lacks |= UINT64_C(1) << from;
    } else if (transfer_check(give, 0, body, size) != give->check) { /* damaged on its way */
        take_bad(&files->take, from, give->block);
    } else if ((first && give->commit > CORE_FILES_RUN) ||
               !program->file_came(core->config.program_ctx, &came)) {
        files_wrong(files, core, from, give->block);
    } else if (first && give->commit > 1) {
        names_rest(files, core, from, give->commit);
    } else if (take_good(&files->take, core, from, give->block)) {
        files->takes = false;
    }
}

void
files_on_give(struct files *files, const struct core *core, int from, const struct proto_give *give,
              const void *body, size_t size)
{
    const struct proto_fetch *want = &files->take.what;
    if (!files->takes || give->object != want->object || give->label != want->label)
        return;
    if (give->object == PROTO_OBJECT_PAGE)
        page_came(files, core, from, give, body, size);
    else
        files_came(files, core, from, give, body, size);
}

/* --- Giving ------------------------------------------------------------------------------------ */

static void
files_answer(const struct core *core, int to, const struct proto_fetch *fetch, uint64_t round,
             uint64_t blocks, const void *data, size_t size)
{
    struct proto_msg msg = {.type = PROTO_GIVE,
                            .give = {.object = fetch->object,
                                     .round = round,
                                     .label = fetch->label,
                                     .block = fetch->block,
                                     .commit = blocks}};
    msg.give.check = transfer_check(&msg.give, 0, data, size);
    if (core->peers.peers[to].bulk)
        peers_send_bulk(core, to, &msg, data, size);
}

/* A block is on its way for so long. */
static void
rest_of(struct files *files, uint64_t us)
{
    unsigned takers = (unsigned)__builtin_popcountll(files->waiting);
    uint64_t most = FILES_PAUSE_US / (takers > 1 ? takers : 1);
    us *= files->rests_for;
    files->pause_us = us < most ? us : most;
}

/* Who got the last block asks for more, and nothing else was under way to it: that block has come. */
static void
rest_by(struct files *files, const struct core *core, int from, const struct proto_fetch *fetch)
{
    bool last = fetch->object == PROTO_OBJECT_FILES && files->read.object == fetch->object &&
                proto_node_equal(core->peers.peers[from].node, files->read_for);
    if (last && !files->reading && files->count[from] == 0)
        rest_of(files, awake_since(core->awake, files->gave_at));
}

/* A page takes the place of the page before. What does not fit is dropped, and asked for again. */
void
files_on_fetch(struct files *files, const struct core *core, int from,
               const struct proto_fetch *fetch)
{
    bool page = fetch->object == PROTO_OBJECT_PAGE;
    if (core->config.hello.wants_job)
        return;
    if (!page &&
        (fetch->label != core->config.hello.job_hash || !core->config.program->file_wanted)) {
        files_answer(core, from, fetch, fetch->round, 0, NULL, 0);
        return;
    }
    rest_by(files, core, from, fetch);
    files->count[from] = page ? 0 : files->count[from];
    if (files->count[from] == FILES_WAITS)
        return;
    files->waits[from][(files->first[from] + files->count[from]++) % FILES_WAITS] = *fetch;
    files->waiting |= UINT64_C(1) << from;
}

void
files_gone(struct files *files, int i)
{
    uint64_t others = ~(UINT64_C(1) << i);
    files->count[i] = 0;
    files->waiting &= others;
    files->wrong &= others;
    files->lacks &= others;
    if (!mutant(MUTANT_PAGE_ASKED))
        take_gone(&files->take, i);
    if (files->takes && files->names_of == i)
        names_anew(files);
}

void
files_rest(struct files *files, const struct core *core, size_t members, size_t size)
{
    if (files->read.object != PROTO_OBJECT_FILES)
        return;
    files->gave_at = core->awake;
    files->rests_for = members > 1 ? FILES_SHARE * members : 0;
    rest_of(files, size * 1000000 / FILES_LINE);
}

void
files_read(struct files *files, const struct core *core, uint64_t round, uint64_t blocks,
           const void *data, size_t size)
{
    int i = peers_find(core, mutant(MUTANT_PAGE_TO) ? core->peers.peers[0].node : files->read_for);
    assert(files->reading);
    files->reading = false;
    if (i >= 0)
        files_answer(core, i, &files->read, round, blocks, data, size);
}

/* The next block that peers[i] waits for becomes the one that is read. */
static void
files_next(struct files *files, const struct core *core, int i)
{
    struct proto_fetch *next = &files->waits[i][files->first[i]];
    files->read = *next;
    files->read_for = core->peers.peers[i].node;
    files->turn = (unsigned)i + 1;
    files->reading = true;
    next->block++;
    if (--next->count > 0)
        return;
    files->first[i] = (uint8_t)((files->first[i] + 1) % FILES_WAITS);
    if (--files->count[i] == 0)
        files->waiting &= ~(UINT64_C(1) << i);
}

/* A bitmap of those who wait for something that may be given now. */
static uint64_t
files_due(const struct files *files, const struct core *core)
{
    uint64_t due = files->waiting;
    if (files->reading || awake_since(core->awake, files->gave_at) >= files->pause_us)
        return files->reading ? 0 : due;
    for (int i = 0; i < core->peers.high; i++)
        if (files->waits[i][files->first[i]].object == PROTO_OBJECT_FILES)
            due &= ~(UINT64_C(1) << i);
    return due;
}

static void
files_give(struct files *files, const struct core *core)
{
    const struct core_program *program = core->config.program;
    const struct proto_fetch *read = &files->read;
    for (uint64_t due; (due = files_due(files, core)) != 0;) {
        uint64_t later = files->turn < PEERS_MAX ? due >> files->turn << files->turn : 0;
        files_next(files, core, __builtin_ctzll(later ? later : due));
        if (read->object != PROTO_OBJECT_PAGE)
            program->file_wanted(
                core->config.program_ctx,
                &(struct core_file_block){.group = (unsigned)read->round,
                                          .names = read->object == PROTO_OBJECT_NAMES,
                                          .block = read->block});
        else if (!program->want ||
                 !program->want(core->config.program_ctx, read->label, read->round, read->block))
            files_read(files, core, 0, 0, NULL, 0); /* we have no checkpoints */
    }
}

void
files_step(struct files *files, const struct core *core)
{
    files_give(files, core);
    if (files->takes && files->take.what.object == PROTO_OBJECT_PAGE)
        page_ask(files, core);
    else if (files->takes)
        files_ask(files, core);
}
