/* words.h - distinct texts in order, with how often each was added.
 *
 *     struct words words = {.order = strcmp};
 *     rc = words_add(&words, "cat");
 *     size_t i = words_find(&words, "cat", &found);
 *     words_fini(&words); */
#ifndef NN_WORDS_H
#define NN_WORDS_H

#include <stdbool.h>
#include <stddef.h>

struct word {
    char *text; /* the first of those that compare as the same */
    size_t count;
};

struct words {
    struct word *word;
    size_t count, room;
    int (*order)(const char *a, const char *b); /* as strcmp */
};

/* Where it is, or would be. */
size_t words_find(const struct words *words, const char *text, bool *found);
/* 0 or -ENOMEM. */
int words_add(struct words *words, const char *text);
/* Leaves it empty; `order` stays. */
void words_fini(struct words *words);

#endif
