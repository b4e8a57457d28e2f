/* holders.c - see holders.h. */
#include "node/results/holders.h"

#include <stdio.h>
#include <string.h>

static const char more[] = "...";

/* There is always room for `more`. False: from now on there is none for anything else. */
static bool
add(char out[HOLDERS_TEXT], const char *text)
{
    size_t used = strlen(out), size = strlen(text);
    bool fits = used + size + sizeof more <= HOLDERS_TEXT;
    memcpy(out + used, fits ? text : more, (fits ? size : sizeof more - 1) + 1);
    return fits;
}

static bool
all_hold_all(const struct core_division *division)
{
    uint64_t all = UINT64_MAX >> (64 - division->stages);
    for (size_t m = 0; m < division->count; m++)
        if (division->of[m].holds != all)
            return false;
    return true;
}

/* The nodes that compute the stage, or that only hold it. */
static bool
add_nodes(char out[HOLDERS_TEXT], const struct core_division *division, unsigned stage, bool only)
{
    bool any = false, fits = true;
    for (size_t m = 0; m < division->count && fits; m++) {
        const struct core_holder *of = &division->of[m];
        bool computes = of->computes >> stage & 1, holds = of->holds >> stage & 1;
        if (only ? computes || !holds : !computes)
            continue;
        fits = add(out, any ? ", " : only ? " (" : " ") && add(out, of->who);
        any = true;
    }
    return fits && (!only || !any || add(out, ")"));
}

void
holders_text(const struct core_division *division, char out[HOLDERS_TEXT])
{
    bool fits = division->stages > 1, alike = fits && all_hold_all(division);
    out[0] = '\0';
    for (unsigned stage = 0; stage < division->stages && fits; stage++) {
        char number[16];
        snprintf(number, sizeof number, "%s%u", stage ? "; " : "",
                 stage + 1); /* people count from 1 */
        fits = add(out, number) && add_nodes(out, division, stage, false) &&
               (alike || add_nodes(out, division, stage, true));
    }
}
