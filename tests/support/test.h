/*
 * Cases that name themselves: TEST(a_sentence) { … } is a case, and its program runs all of its file in their order.
 * An argument to the program is the name of one case, or a pattern with *. Within a case, `test_state` is cmocka's.
 */
#ifndef MESHNODE_TESTS_TEST_H
#define MESHNODE_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct test_case {
    struct CMUnitTest test;
    int line;               /* where it is written */
    struct test_case *next; /* the registry's */
};

/* What is run around each case that has no fixture of its own, and around all of them; each may be NULL. */
struct test_fixture {
    CMFixtureFunction before, after;
};

void test_add(struct test_case *one);
void test_each(struct test_fixture fixture);
void test_all(struct test_fixture fixture);

/* Runs them; a main() that does more than that calls it. How many failed. */
int test_run(void);

/* What a variable holds is given back where its block ends: OWNED(state_fini) struct state state; */
#define OWNED(give_back) __attribute__((cleanup(give_back)))

/* OWNED(memory_free) uint8_t *bytes = malloc(n); */
static inline void
memory_free(void *variable)
{
    void *memory;
    memcpy(&memory, variable, sizeof memory);
    free(memory);
}

/* A function that is run before or after: 0, or it failed. */
#define FIXTURE(name) static int name(void **test_state __attribute__((unused)))

#define TEST(name) TEST_WITH(name, NULL, NULL)
#define TEST_WITH(name, before, after)                                                             \
    static void name(void **test_state);                                                           \
    TEST_ADD(name, #name, name, before, after, NULL)                                               \
    static void name(void **test_state __attribute__((unused)))

/* A case more of a function that is given `argument` as its state. */
#define TEST_OF(name, argument) TEST_ADD(__LINE__, #name, name, NULL, NULL, argument)
/* The same case with another set-up. */
#define TEST_ALSO(name, before, after)                                                             \
    TEST_ADD(__LINE__, #name " " #before, name, before, after, NULL)
#define TEST_EACH(before, after) TEST_SAY(each, before, after)
#define TEST_ALL(before, after)  TEST_SAY(all, before, after)

#define TEST_ADD(id, text, function, before, after, argument)                                      \
    TEST_START(add_, id)                                                                           \
    {                                                                                              \
        static struct test_case this_case = {                                                      \
            {text, function, before, after, argument}, __LINE__, NULL};                            \
        test_add(&this_case);                                                                      \
    }
#define TEST_SAY(which, before, after)                                                             \
    TEST_START(say_, which)                                                                        \
    {                                                                                              \
        test_##which((struct test_fixture){before, after});                                        \
    }
#define TEST_START(prefix, id)    TEST_START_OF(prefix, id)
#define TEST_START_OF(prefix, id) __attribute__((constructor)) static void prefix##id(void)

#endif
