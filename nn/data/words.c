/* words.c - distinct texts in order. See words.h. */
#include "nn/data/words.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

size_t
words_find(const struct words *words, const char *text, bool *found)
{
    size_t low = 0, high = words->count;
    *found = false;
    while (low < high && !*found) {
        size_t middle = low + (high - low) / 2;
        int order = words->order(text, words->word[middle].text);
        *found = order == 0;
        if (order <= 0)
            high = middle;
        else
            low = middle + 1;
        low = *found ? middle : low;
    }
    return low;
}

int
words_add(struct words *words, const char *text)
{
    bool found;
    size_t at = words_find(words, text, &found);
    if (found) {
        words->word[at].count++;
        return 0;
    }
    if (words->count == words->room) {
        size_t room = words->room ? 2 * words->room : 8;
        struct word *grown = realloc(words->word, room * sizeof *grown);
        if (!grown)
            return -ENOMEM;
        words->word = grown;
        words->room = room;
    }
    char *copy = strdup(text);
    if (!copy)
        return -ENOMEM;
    memmove(words->word + at + 1, words->word + at, (words->count - at) * sizeof *words->word);
    words->word[at] = (struct word){copy, 1};
    words->count++;
    return 0;
}

void
words_fini(struct words *words)
{
    for (size_t i = 0; i < words->count; i++)
        free(words->word[i].text);
    free(words->word);
    *words = (struct words){.order = words->order};
}
