/* fail.c - the table of points and what rules do at them: see proto/fail.h. Only `make failpoints` builds and links
 * it. */
#include "proto/fail.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/mix.h"
#include "proto/proto.h"

enum { SLEEP_MS_MAX = 60000, RULES_MAX = 16, NAME_MAX_SIZE = 32, RULE_MAX = 96 };
/* Every message has FAIL_MOMENTS points after the named ones. */
enum { POINTS_END = FAIL_MESSAGES + (PROTO_TYPES_END - PROTO_HELLO) * FAIL_MOMENTS };
enum action { KILL, STOP, HANG, ERROR, FLIP, SLEEP, ACTIONS_END };

struct point {
    const char *name;
    int error;
    const char *help;
};

static const struct point points[] = {
#define FAIL_ROW(symbol, name, error, help) {name, error, help},
    FAIL_POINTS(FAIL_ROW)
#undef FAIL_ROW
};

static const char *const moments[FAIL_MOMENTS] = {"send", "sent", "got", "taken"};
static const char *const actions[ACTIONS_END] = {"kill", "stop", "hang", "error", "flip", "sleep"};

struct rule {
    int point;
    unsigned long count;
    bool repeats, chosen; /* chosen: `number` was given */
    enum action action;
    uint64_t number; /* FLIP: of the bit; SLEEP: milliseconds */
};

static struct rule rules[RULES_MAX];
static size_t rule_count;
static bool counting;    /* hits are wanted */
static uint64_t node_id; /* 0: not given */
static atomic_ulong hits[POINTS_END];

static int
message_point(int type, int moment)
{
    return (int)FAIL_MESSAGES + (type - PROTO_HELLO) * FAIL_MOMENTS + moment;
}

/* "plan-send"; the text lasts until the next call of this thread. */
static const char *
name_of(int point)
{
    static _Thread_local char name[NAME_MAX_SIZE];
    int message = point - FAIL_MESSAGES;
    if (message < 0)
        return points[point].name;
    const char *type = proto_type_name((enum proto_type)(PROTO_HELLO + message / FAIL_MOMENTS));
    snprintf(name, sizeof name, "%s-%s", type, moments[message % FAIL_MOMENTS]);
    for (char *at = name; *at; at++)
        *at = (char)tolower(*at);
    return name;
}

static int
point_of(const char *wanted)
{
    for (int point = 0; point < POINTS_END; point++)
        if (strcmp(name_of(point), wanted) == 0)
            return point;
    return -1;
}

static int
action_of(const char *wanted)
{
    for (int action = 0; action < ACTIONS_END; action++)
        if (strcmp(actions[action], wanted) == 0)
            return action;
    return -1;
}

static int
read_rule(const char *text, struct rule *rule, struct why *why)
{
    char copy[RULE_MAX], *rest = copy, *end;
    snprintf(copy, sizeof copy, "%s", text);
    char *name = strsep(&rest, ":"), *count = strsep(&rest, ":"), *action = strsep(&rest, "=");
    rule->point = point_of(name);
    rule->count = count ? strtoul(count, &end, 10) : 0;
    rule->repeats = rule->count && *end == '+';
    int known = action ? action_of(action) : -1;
    bool counted = rule->count && end[rule->repeats] == '\0';
    if (rest) {
        rule->chosen = true;
        rule->number = strtoull(rest, &end, 10);
        counted = counted && (known == FLIP || known == SLEEP) && *rest && !*end;
    }
    counted = counted && (known != SLEEP || (rest && rule->number <= SLEEP_MS_MAX));
    if (rule->point < 0 || known < 0 || !counted)
        return why_error(
            why, -EINVAL,
            "MESHNODE_FAIL: '%s', expected POINT:COUNT:ACTION with a point of meshnode "
            "--failpoints and kill, stop, hang, error, flip, flip=BIT or sleep=MS",
            text);
    rule->action = (enum action)known;
    return 0;
}

static void
print_hits(void)
{
    for (int point = 0; point < POINTS_END; point++)
        fprintf(stderr, "failpoint %s hits %lu\n", name_of(point), atomic_load(&hits[point]));
}

static int
read_id(struct why *why)
{
    const char *given = getenv("MESHNODE_ID");
    char *end;
    if (!given)
        return 0;
    node_id = strtoull(given, &end, 16);
    if (node_id && !*end)
        return 0;
    return why_error(why, -EINVAL, "MESHNODE_ID: '%s', expected a number other than 0", given);
}

int
fail_open(struct why *why)
{
    const char *given = getenv("MESHNODE_FAIL");
    counting = given && strcmp(given, "hits") == 0 && atexit(print_hits) == 0;
    char *copy = strdup(given && !counting ? given : ""), *rest = copy;
    int rc = copy ? 0 : -ENOMEM;
    for (char *text; rc == 0 && *copy && (text = strsep(&rest, ","));) {
        if (rule_count == RULES_MAX) {
            why_set(why, "MESHNODE_FAIL: more than %d rules", RULES_MAX);
            rc = -EINVAL;
        } else {
            rc = read_rule(text, &rules[rule_count++], why);
        }
    }
    free(copy);
    return rc == 0 ? read_id(why) : rc;
}

uint64_t
fail_node_id(uint64_t drawn)
{
    return node_id ? node_id : drawn;
}

bool
fail_listed(int argc, char *const argv[])
{
    if (argc != 2 || strcmp(argv[1], "--failpoints") != 0)
        return false;
    for (int point = 0; point < POINTS_END; point++)
        printf("%-16s %s\n", name_of(point), point < FAIL_MESSAGES ? points[point].help : "");
    return true;
}

static void
fail_tell(const char *name, unsigned long hit, enum action action)
{
    char line[RULE_MAX];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int size = snprintf(line, sizeof line, "failpoint %s %lu: %s at %jd.%06ld\n", name, hit,
                        actions[action], now.tv_sec, now.tv_nsec / 1000);
    ssize_t put = write(STDERR_FILENO, line, (size_t)size);
    (void)put;
}

static void
flip(const struct rule *rule, unsigned long hit, uint8_t *data, size_t size)
{
    uint64_t bit = rule->chosen ? rule->number : mix64_pair((uint64_t)rule->point, hit);
    if (size)
        data[bit / 8 % size] ^= (uint8_t)(1u << bit % 8);
}

static int
act(const struct rule *rule, unsigned long hit, void *data, size_t size)
{
    if (rule->action != SLEEP || hit == rule->count)
        fail_tell(name_of(rule->point), hit, rule->action);
    switch (rule->action) {
    case KILL:
        kill(getpid(), SIGKILL);
        return 0;
    case STOP:
        kill(getpid(), SIGSTOP);
        return 0;
    case HANG:
        for (;;)
            pause();
    case FLIP:
        if (data)
            flip(rule, hit, data, size);
        return 0;
    case SLEEP:
        nanosleep(&(struct timespec){.tv_sec = (time_t)(rule->number / 1000),
                                     .tv_nsec = (long)(rule->number % 1000 * 1000000)},
                  NULL);
        return 0;
    case ERROR:
        errno = rule->point < FAIL_MESSAGES ? points[rule->point].error : 0;
        return errno ? -1 : 0;
    case ACTIONS_END:
        break;
    }
    return 0;
}

static int
hit(int point, void *data, size_t size)
{
    int rc = 0;
    if (!rule_count && !counting)
        return 0;
    unsigned long count = atomic_fetch_add(&hits[point], 1) + 1;
    for (size_t i = 0; i < rule_count && rc == 0; i++) {
        const struct rule *rule = &rules[i];
        if (rule->point == point &&
            (count == rule->count || (rule->repeats && count > rule->count)))
            rc = act(rule, count, data, size);
    }
    return rc;
}

int
fail_hit(enum fail_point point, void *data, size_t size)
{
    return hit((int)point, data, size);
}

void
fail_message(int type, enum fail_moment moment, void *data, size_t size)
{
    if (type >= PROTO_HELLO && type < PROTO_TYPES_END)
        hit(message_point(type, (int)moment), data, size);
}
