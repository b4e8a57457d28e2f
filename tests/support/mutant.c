#include "tests/support/mutant.h"

#include <string.h>

uint64_t mutants_planted;

static const char *const names[] = {
    "none",
#define MUTANT(name, what) #name,
#include "proto/mutants.def"
#undef MUTANT
};
static const char *const texts[] = {
    "",
#define MUTANT(name, what) what,
#include "proto/mutants.def"
#undef MUTANT
};

const char *
mutant_text(enum mutant which)
{
    return texts[which];
}

void
mutants_print(FILE *to, uint64_t set)
{
    fputs(names[set & 0xff], to);
    while ((set >>= 8) != 0)
        fprintf(to, ",%s", names[set & 0xff]);
}

bool
mutants_read(const char *list, uint64_t *set)
{
    *set = 0;
    for (size_t k = 0, length; k < sizeof *set && *list;
         k++, list += length + (list[length] == ',')) {
        unsigned m = 0;
        length = strcspn(list, ",");
        while (m < MUTANT_COUNT &&
               (strlen(names[m]) != length || strncmp(names[m], list, length) != 0))
            m++;
        if (m == MUTANT_COUNT)
            return false;
        *set |= (uint64_t)m << 8 * k;
    }
    return *list == '\0';
}
