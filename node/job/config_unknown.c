/* config_unknown.c - what somebody may have meant with a key or an option that there is not. */
#include <stdio.h>
#include <string.h>

#include "node/base/parse.h"
#include "node/job/config_hint.h"
#include "node/job/config_key.h"

/* Edits from what was written to the key; one for the right name in the wrong section. */
static unsigned
key_distance(const struct config_key *key, const char *section, const char *name)
{
    unsigned edits = parse_distance(section, key->section) + parse_distance(name, key->name);
    return strcmp(name, key->name) == 0 && edits > 1 ? 1 : edits;
}

static const struct config_key *
key_nearest(const char *section, const char *name)
{
    const struct config_key *best = NULL;
    unsigned limit = 1 + (unsigned)strlen(name) / 4;
    for (size_t i = 0; i < config_key_count; i++) {
        unsigned distance = key_distance(&config_keys[i], section, name);
        if (distance <= limit && strcmp(config_keys[i].name, "layer") != 0) {
            best = &config_keys[i];
            limit = distance - (distance > 0);
        }
    }
    return best;
}

/* " a b c" behind what is in `why`. */
static void
append_names(const char *section, struct why *why)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (strcmp(config_keys[i].section, section) == 0)
            why_append(why, " %s", config_keys[i].name);
}

/* The key that `path` goes beyond, as if it were a section: cuts `path` down to it. */
static const struct config_key *
key_above(char *path)
{
    for (char *dot; (dot = strrchr(path, '.'));) {
        *dot = '\0';
        const struct config_key *key = config_key_find(NULL, path);
        if (key)
            return key;
    }
    return NULL;
}

/* Nothing of nearly this name: a section taken for a key, no key of the section, a key taken for a section, or
 * neither. */
static void
expected_instead(const char *section, char *path, const char *shown, struct why *why)
{
    char expected[CONFIG_EXPECTED_MAX];
    const struct config_key *above;
    if (config_key_first(path)) {
        why_set(why, "unknown key %s, expected %s.KEY with KEY one of", shown, shown);
        append_names(path, why);
    } else if (config_key_first(section)) {
        why_set(why, "unknown key %s, expected one of", shown);
        append_names(section, why);
    } else if ((above = key_above(path))) {
        config_key_expected(above, expected, sizeof expected);
        why_set(why, "unknown key %s: %s has a value, %s", shown, path, expected);
    } else {
        why_set(why,
                "unknown key %s, expected one of the sections run, data, model, train, mesh or "
                "node, a dot, and a key",
                shown);
    }
}

void
config_key_unknown(const char *section, const char *name, struct why *why)
{
    char path[2 * CONFIG_KEY_PATH_MAX], shown[2 * CONFIG_KEY_PATH_MAX], near[CONFIG_KEY_PATH_MAX];
    snprintf(path, sizeof path, "%s%s%s", section, *section ? "." : "", name);
    parse_escape(shown, sizeof shown, path);
    const char *hint = strchr(section, '.') ? NULL : config_hint_key(name);
    if (hint) {
        why_set(why, "unknown key %s, did you mean %s?", shown, hint);
        return;
    }
    const struct config_key *best = config_key_first(path) ? NULL : key_nearest(section, name);
    bool within =
        strchr(section, '.') && config_key_first(section); /* one of topk is none of powersgd */
    if (best && within && strcmp(best->section, section) != 0)
        best = NULL;
    if (!best) {
        expected_instead(section, path, shown, why);
        return;
    }
    config_key_path(best, near, sizeof near);
    why_set(why, "unknown key %s, did you mean %s?", shown, near);
}

/* --- Options --------------------------------------------------------------------------------------- */

/* People write options with dashes. */
static bool
same_word(const char *key, const char *option)
{
    while (*key && (*key == *option || (*key == '_' && *option == '-')))
        key++, option++;
    return *key == '\0' && *option == '\0';
}

/* --gossip: the first key that has this word; none of a layer or an optimizer, and no yes or no. */
static bool
hint_word(const char *name, char *path, size_t size)
{
    char of[CONFIG_KEY_PATH_MAX];
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        bool other = strchr(key->section, '.') || config_key_of_model(key) ||
                     key->kind == CONFIG_UINT ||
                     (key->words && strcmp(key->words->name, "yes") == 0);
        for (const struct config_word *word = other ? NULL : key->words; word && word->name; word++)
            if (same_word(word->name, name)) {
                config_key_path(key, of, sizeof of);
                snprintf(path, size, "%s=%s", of, word->name);
                return true;
            }
    }
    return false;
}

bool
config_hint_option(const char *name, char *path, size_t size)
{
    char word[64];
    size_t found = 0;
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        bool plain = !strchr(key->section, '.') && strcmp(key->section, "model") != 0;
        if (!plain || !same_word(key->name, name))
            continue;
        config_key_path(key, path, size);
        found++;
    }
    snprintf(word, sizeof word, "%s", name);
    for (char *c = word; *c; c++)
        *c = *c == '-' ? '_' : *c;
    const char *hint = found ? NULL : config_hint_key(word);
    if (hint)
        snprintf(path, size, "%s", hint);
    if (found == 1 || hint)
        snprintf(path + strlen(path), size - strlen(path), "=VALUE");
    return found == 1 || hint || hint_word(name, path, size);
}
