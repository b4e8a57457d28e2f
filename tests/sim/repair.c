/* repair.c - nodes that start with lost pages of their newest checkpoint ask the others for them.
 *
 * A checkpoint has pages of a few words. Two rounds are one step, so of a step there may be two checkpoints with
 * different pages. Each page has its own check, which names file, round and number. As node/train/repair.c does, a
 * node asks for one page after another until the file is whole, or until it has got nothing for a while; then it
 * starts from an older file. Others answer from their files when they have time.
 *
 * Judged here: the core hands over what was asked for and nothing else; it says that nobody has a page only when no
 * peer that it could ask has it; a page goes to nobody who did not ask for it. That each question is answered at all
 * shows in the deadline. */
#include <inttypes.h>
#include <string.h>

#include "mesh/core/internal.h"
#include "proto/mix.h"
#include "tests/sim/engine.h"
#include "tests/sim/sim.h"

enum {
    PATIENCE_US = 2500000, /* without a page for so long: start without */
    LONGEST_US = 8000000,  /* the same, although pages come */
    READ_US = 5000,
    READ_SLOW_US = 3000000, /* longer than the core waits */
    SETTLED_US = 600000,    /* after a fault, until who does not answer is noticed */
};

/* What travels. */
struct page {
    uint64_t round, number, file; /* check of the whole file */
    uint64_t words[SIM_PAGE_WORDS_MAX];
    uint64_t check;
};

static uint64_t
step_of(uint64_t round)
{
    return round / 2;
}

unsigned
repair_pages(const struct sim_profile *p)
{
    return p->page_words ? (p->words + p->counters + p->page_words - 1) / p->page_words : 0;
}

static size_t
page_size(const struct sim_profile *p, unsigned number)
{
    unsigned rest = p->words + p->counters - number * p->page_words;
    return (rest < p->page_words ? rest : p->page_words) * sizeof(uint64_t);
}

static struct page
page_of(const struct sim_profile *p, const struct sim_file *file, unsigned number)
{
    struct page page = {file->round, number, file->check, {0}, 0};
    memcpy(page.words, file->state.words + number * p->page_words, page_size(p, number));
    return page;
}

static uint64_t
page_check(const struct page *page)
{
    uint64_t check = mix64_pair(mix64_pair(page->round, page->number), page->file);
    for (unsigned w = 0; w < SIM_PAGE_WORDS_MAX; w++)
        check = mix64_pair(check, page->words[w]);
    return check;
}

void
repair_seal(const struct sim *sim, struct sim_file *file)
{
    for (unsigned k = 0; k < repair_pages(&sim->profile); k++) {
        struct page page = page_of(&sim->profile, file, k);
        file->page_check[k] = page_check(&page);
    }
}

static bool
page_good(const struct sim *sim, const struct sim_file *file, unsigned number)
{
    struct page page = page_of(&sim->profile, file, number);
    return page_check(&page) == file->page_check[number];
}

/* --- Who answers --------------------------------------------------------------------------------- */

/* The file from which `node` would answer; those kept after `before_us` do not count. */
static const struct sim_file *
file_for(const struct sim *sim, const struct sim_node *node, const struct sim_page *want,
         uint64_t before_us)
{
    const struct sim_file *found = NULL;
    for (unsigned k = 0; k < SIM_FILES_MAX; k++) {
        const struct sim_file *file = &node->disk.files[k];
        if (file->used && file->round > 0 && file->kept_us <= before_us &&
            step_of(file->round) == want->step &&
            page_good(sim, file, (unsigned)want->page_number) &&
            (!found || file->round == want->round))
            found = file;
    }
    return found;
}

void
repair_want(struct sim *sim, struct sim_node *node, const struct sim_page *want)
{
    struct sim_repair *repair = &node->repair;
    bool slow = rand_below(&sim->rand, 8) == 0;
    if (repair->reading || want->page_number >= repair_pages(&sim->profile))
        sim_fail(sim, "node %u: asked for page %" PRIu64 " before the last one was read",
                 node->index, want->page_number);
    repair->reading = true;
    repair->read = *want;
    uint64_t at = sim->now + 1 + rand_below(&sim->rand, slow ? READ_SLOW_US : READ_US);
    if (slow)
        repair->slow_until = at;
    sim_push(sim, at, SIM_PAGE_READ, node->index, 0, 0, NULL);
}

void
repair_read(struct sim *sim, struct sim_node *node)
{
    struct sim_repair *repair = &node->repair;
    const struct sim_file *file = file_for(sim, node, &repair->read, sim->now);
    repair->reading = false;
    if (!file) {
        core_on_page(node->core, sim->now, 0, NULL, 0);
        return;
    }
    struct page page = page_of(&sim->profile, file, (unsigned)repair->read.page_number);
    page.check = page_check(&page);
    core_on_page(node->core, sim->now, file->round, &page, sizeof page);
}

/* --- What goes over the network ------------------------------------------------------------------ */

static uint64_t
question(uint64_t step, uint64_t page)
{
    return UINT64_C(1) << (mix64_pair(step, page) & 63);
}

void
repair_sent(struct sim *sim, const struct sim_node *from, const struct sim_link *link,
            const struct proto_msg *msg)
{
    unsigned to = link->to;
    if (msg->type == PROTO_FETCH && msg->fetch.object == PROTO_OBJECT_PAGE) {
        struct sim_asked *asked = &sim->asked[from->index][to];
        if (asked->incarnation != from->incarnation)
            *asked = (struct sim_asked){.incarnation = from->incarnation};
        asked->questions |= question(msg->fetch.label, msg->fetch.block);
    } else if (msg->type == PROTO_GIVE && msg->give.object == PROTO_OBJECT_PAGE) {
        uint64_t asked_for = question(msg->give.label, msg->give.block);
        const struct sim_asked *asked = &sim->asked[to][from->index];
        if (link->incarnation >= asked->incarnation &&
            !(link->incarnation == asked->incarnation && (asked->questions & asked_for)))
            sim_fail(sim, "node %u: sends page %" PRIu64 " to node %u, which did not ask for it",
                     from->index, msg->give.block, to);
    }
}

/* --- Who asks ------------------------------------------------------------------------------------ */

static struct sim_file *
newest(struct sim_disk *disk)
{
    struct sim_file *best = NULL;
    for (unsigned k = 0; k < SIM_FILES_MAX; k++)
        if (disk->files[k].used && (!best || disk->files[k].round > best->round))
            best = &disk->files[k];
    return best;
}

/* Some pages of a file have become unreadable. */
static void
lose(struct sim *sim, struct sim_file *file)
{
    const struct sim_profile *p = &sim->profile;
    for (unsigned k = 0; k < repair_pages(p); k++) {
        uint64_t bit = rand_below(&sim->rand, page_size(p, k) * 8);
        if (rand_below(&sim->rand, 3) == 0)
            file->state.words[k * p->page_words + bit / 64] ^= 1ull << bit % 64;
    }
}

static void
count_bad(const struct sim *sim, struct sim_repair *repair)
{
    repair->bad = 0;
    for (unsigned k = 0; k < repair_pages(&sim->profile); k++)
        repair->bad += !page_good(sim, &repair->file, k);
}

static void
later(struct sim *sim, const struct sim_node *node)
{
    sim_push(sim, sim->now + 1 + rand_below(&sim->rand, 300), SIM_REPAIR, node->index, 0, 0, NULL);
}

bool
repair_begin(struct sim *sim, struct sim_node *node)
{
    struct sim_file *file = newest(&node->disk);
    struct sim_repair *repair = &node->repair;
    *repair = (struct sim_repair){.asks = false};
    if (!sim->profile.page_words || !file || file->round == 0)
        return false;
    if (rand_below(&sim->rand, 4))
        lose(sim, file);
    repair->file = *file;
    count_bad(sim, repair);
    if (repair->bad == 0)
        return false;
    repair->step = step_of(file->round);
    repair->known = rand_bool(&sim->rand); /* or it does not even tell its round */
    repair->began_us = repair->gained_us = sim->now;
    node->busy = SIM_REPAIRING;
    sim->counts.repairs++;
    if (sim->verbose)
        printf("%9.3f ms  node %u lost %u of %u pages\n", (double)sim->now / 1000, node->index,
               repair->bad, repair_pages(&sim->profile));
    later(sim, node);
    return true;
}

static void
ask(struct sim *sim, struct sim_node *node)
{
    struct sim_repair *repair = &node->repair;
    unsigned pages = repair_pages(&sim->profile);
    while (page_good(sim, &repair->file, repair->next % pages))
        repair->next++;
    repair->next %= pages;
    struct core_stats stats;
    core_stats(node->core, &stats);
    repair->peers = stats.peers;
    repair->asks = true;
    repair->asked_us = sim->now;
    repair->want =
        (struct sim_page){repair->step, repair->known ? repair->file.round : 0, repair->next};
    core_want(node->core, sim->now, repair->want.step, repair->want.round,
              repair->want.page_number);
}

/* All pages are whole, or there is no hope. */
static void
finish(struct sim *sim, struct sim_node *node)
{
    struct sim_repair *repair = &node->repair;
    bool whole = repair->bad == 0 && sim_hash(sim, &repair->file.state) == repair->file.check;
    if (whole && repair->file.round >= node->round) {
        sim->counts.repaired++;
        node->round = repair->file.round;
        node->state = repair->file.state;
        struct sim_file *file = newest(&node->disk);
        *file = repair->file;
        file->kept_us = sim->now; /* whole from now on */
    }
    if (sim->verbose)
        printf("%9.3f ms  node %u starts with %u pages lost\n", (double)sim->now / 1000,
               node->index, repair->bad);
    node->busy = SIM_FREE;
    node->progress_us = sim->now;
    if (sim->faults_over) /* others may have waited for it */
        sim->over_us = sim->now;
    sim->engine->start(sim, node);
}

void
repair_step(struct sim *sim, struct sim_node *node)
{
    const struct sim_repair *repair = &node->repair;
    if (repair->bad > 0 && sim->now - repair->gained_us < PATIENCE_US &&
        sim->now - repair->began_us < LONGEST_US)
        ask(sim, node);
    else
        finish(sim, node);
}

/* A core does not ask a peer whose trainer hangs, say: it comes back too late for who waits. */
static bool
asks_all(const struct core *core)
{
    for (int i = 0; i < core->peers.high; i++)
        if (core->peers.peers[i].state == PEER_UP && !view_usable(core, i))
            return false;
    return true;
}

/* Could the core ask all who run, and did nothing keep them from answering in time? */
static bool
calm(const struct sim *sim, const struct sim_node *node)
{
    const struct sim_profile *p = &sim->profile;
    struct core_stats stats;
    core_stats(node->core, &stats);
    unsigned others = 0;
    bool calm = (sim->faults_over || (!p->loss_permille && !p->bulk_wild)) &&
                node->repair.asked_us > sim->fault_us + SETTLED_US;
    for (unsigned i = 0; i < p->nodes; i++) {
        const struct sim_node *one = &sim->nodes[i];
        others += one != node && one->up;
        calm = calm && !sim->cut[node->index][i] && !sim->cut[i][node->index];
        calm = calm && !p->line_bits[i] && one->sent_us < node->repair.asked_us &&
               one->paused_until < node->repair.asked_us &&
               one->repair.slow_until < node->repair.asked_us;
    }
    return calm && node->repair.peers == others && stats.peers == others && asks_all(node->core);
}

static void
judge_nobody(struct sim *sim, const struct sim_node *node)
{
    const struct sim_repair *repair = &node->repair;
    if (!calm(sim, node))
        return;
    sim->counts.nobodies++;
    for (unsigned i = 0; i < sim->profile.nodes; i++) {
        const struct sim_node *other = &sim->nodes[i];
        const struct sim_file *file = file_for(sim, other, &repair->want, repair->asked_us);
        if (file && other != node && other->up &&
            (!repair->want.round || file->round == repair->want.round))
            sim_fail(sim,
                     "node %u: nobody has page %" PRIu64 " of round %" PRIu64
                     ", but node %u has it",
                     node->index, repair->want.page_number, file->round, i);
    }
}

/* What the core says of a page must be so; one that was damaged on the way shows it. */
static void
judge_page(struct sim *sim, const struct sim_node *node, uint64_t round, const struct page *page)
{
    const struct sim_page *want = &node->repair.want;
    const struct sim_profile *p = &sim->profile;
    if (page_check(page) != page->check) {
        if (!p->corrupt_permille)
            sim_fail(sim, "node %u: damaged page %" PRIu64, node->index, want->page_number);
        return;
    }
    if (page->number != want->page_number || page->round != round || step_of(round) != want->step ||
        (want->round && want->round != round) || round > p->rounds)
        sim_fail(sim,
                 "node %u: asked for page %" PRIu64 " of round %" PRIu64 ", got page %" PRIu64
                 " of round %" PRIu64 " as of %" PRIu64,
                 node->index, want->page_number, want->round, page->number, page->round, round);
    else if (memcmp(page->words, sim_state_at(sim, round)->words + page->number * p->page_words,
                    page_size(p, (unsigned)page->number)) != 0)
        sim_fail(sim, "node %u: page %" PRIu64 " of round %" PRIu64 " is not the reference's",
                 node->index, page->number, round);
}

static void
take(struct sim *sim, struct sim_node *node, const struct page *page)
{
    struct sim_repair *repair = &node->repair;
    struct sim_file *file = &repair->file;
    unsigned number = repair->next, each = sim->profile.page_words;
    if (page_check(page) != page->check || page->number != number)
        return;
    if (!repair->known) {
        repair->known = true;
        file->round = page->round;
        file->check = page->file;
    }
    if (page->round != file->round || page->file != file->check)
        return;
    memcpy(file->state.words + number * each, page->words, page_size(&sim->profile, number));
    file->page_check[number] = page->check;
    count_bad(sim, repair);
    repair->gained_us = sim->now;
    sim->counts.pages++;
}

void
repair_page(struct sim *sim, struct sim_node *node, uint64_t round, const void *data, size_t size)
{
    struct sim_repair *repair = &node->repair;
    struct page page;
    if (!repair->asks)
        sim_fail(sim, "node %u: a page that was not asked for", node->index);
    repair->asks = false;
    if (size == 0) {
        judge_nobody(sim, node);
    } else if (size != sizeof page) {
        sim_fail(sim, "node %u: a page of %zu bytes", node->index, size);
    } else {
        memcpy(&page, data, sizeof page);
        judge_page(sim, node, round, &page);
        take(sim, node, &page);
    }
    repair->next++;
    later(sim, node);
}
