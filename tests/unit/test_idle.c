/* How many threads compute while others use the machine: at once fewer, more after a while of calm. */
#include "node/train/idle.h"
#include "tests/support/test.h"

enum { CPUS = 8 };

struct scene {
    struct idle idle;
    struct idle_look look;
};

static void
scene_begin(struct scene *scene, unsigned cpus, unsigned threads)
{
    *scene = (struct scene){.look = {.now_us = 1000000}};
    idle_init(&scene->idle, cpus, threads, true);
}

/* The same for so long. */
static unsigned
goes_on(struct scene *scene, uint64_t us)
{
    for (uint64_t end = scene->look.now_us + us; scene->look.now_us < end;) {
        scene->look.now_us += IDLE_LOOK_US;
        idle_look(&scene->idle, &scene->look);
    }
    return scene->idle.threads;
}

/* All threads find a CPU, or so many of them. */
static void
find(struct scene *scene, double cpus)
{
    scene->look.ran = cpus < scene->idle.threads ? cpus : scene->idle.threads;
    scene->look.waited = scene->idle.threads - scene->look.ran;
}

TEST(all_threads_compute_while_others_have_little)
{
    struct scene scene;
    scene_begin(&scene, CPUS, CPUS);
    scene.look.others = 0.3;
    find(&scene, CPUS);
    assert_int_equal(goes_on(&scene, 10000000), CPUS);
}

TEST(each_cpu_that_others_use_costs_a_thread)
{
    struct scene scene;
    scene_begin(&scene, CPUS, CPUS);
    find(&scene, CPUS);
    assert_int_equal(goes_on(&scene, 1000000), CPUS);
    for (unsigned others = 1; others <= CPUS; others++) {
        scene.look.others = others;
        assert_int_equal(goes_on(&scene, 5000000), CPUS - others);
    }
}

TEST(threads_beyond_those_that_there_are_cost_nothing)
{
    struct scene scene;
    scene_begin(&scene, CPUS, 2);
    scene.look.others = 6;
    assert_int_equal(goes_on(&scene, 5000000), 2);
    scene.look.others = 7;
    assert_int_equal(goes_on(&scene, 5000000), 1);
}

TEST(threads_that_find_no_cpu_stop_at_once)
{
    struct scene scene;
    scene_begin(&scene, CPUS, CPUS);
    find(&scene, CPUS);
    goes_on(&scene, 1000000);
    scene.look.others = CPUS;
    find(&scene, 0.1);
    assert_int_equal(goes_on(&scene, IDLE_LOOK_US), 0);
}

TEST(threads_that_wait_for_threads_as_polite_as_they_go_on)
{
    struct scene scene;
    scene_begin(&scene, 2, 1);
    scene.look =
        (struct idle_look){.now_us = 1, .others = 0.3, .ran = 0.5, .waited = 0.5, .waiting = 1};
    assert_int_equal(goes_on(&scene, 10000000), 1);
}

TEST(where_cpus_are_shared_in_parts_the_threads_stop_one_after_the_other)
{
    struct scene scene;
    scene_begin(&scene, 2, 2);
    scene.look = (struct idle_look){.now_us = 1, .others = 1, .ran = 1, .waited = 1};
    assert_int_equal(goes_on(&scene, IDLE_LOOK_US), 1);
    scene.look =
        (struct idle_look){.now_us = scene.look.now_us, .others = 1.5, .ran = 0.5, .waited = 0.5};
    assert_int_equal(goes_on(&scene, IDLE_LOOK_US), 0);
}

TEST(threads_come_back_when_it_has_been_calm)
{
    struct scene scene;
    scene_begin(&scene, 2, 2);
    scene.look.others = 2;
    assert_int_equal(goes_on(&scene, 3000000), 0);
    scene.look.others = 0;
    assert_int_equal(goes_on(&scene, IDLE_CALM_US), 0);
    assert_int_equal(goes_on(&scene, 2000000), 2);
}

TEST(a_moment_of_use_begins_the_calm_anew)
{
    struct scene scene;
    scene_begin(&scene, 2, 2);
    scene.look.others = 2;
    goes_on(&scene, 3000000);
    for (int i = 0; i < 10; i++) {
        scene.look.others = 0;
        assert_int_equal(goes_on(&scene, IDLE_CALM_US / 2), 0);
        scene.look.others = 2;
        assert_int_equal(goes_on(&scene, IDLE_CALM_US / 2), 0);
    }
}

TEST(who_came_back_too_soon_waits_twice_as_long)
{
    struct scene scene;
    uint64_t calm_us = IDLE_CALM_US;
    scene_begin(&scene, 2, 2);
    for (int i = 0; i < 8; i++) {
        scene.look.others = 2;
        assert_int_equal(goes_on(&scene, 2000000), 0);
        assert_int_equal(scene.idle.calm_us, calm_us);
        scene.look.others = 0;
        for (int looks = 0; scene.idle.threads == 0; looks++) {
            assert_true(looks < 1000);
            goes_on(&scene, IDLE_LOOK_US);
        }
        calm_us = 2 * calm_us < IDLE_CALM_MOST_US ? 2 * calm_us : IDLE_CALM_MOST_US;
    }
    goes_on(&scene, 3 * (uint64_t)IDLE_CALM_MOST_US);
    scene.look.others = 2;
    goes_on(&scene, 2000000);
    assert_int_equal(scene.idle.calm_us, IDLE_CALM_US);
}

TEST(while_others_wait_for_a_cpu_no_thread_begins)
{
    struct scene scene;
    scene_begin(&scene, 2, 2);
    scene.look.others = 2;
    goes_on(&scene, 3000000);
    scene.look.others = 0.2;
    scene.look.waiting = 0.5;
    assert_int_equal(goes_on(&scene, 20000000), 0);
    scene.look.waiting = 0;
    assert_int_equal(goes_on(&scene, 10000000), 2);
}

TEST(the_command_counts_beside_what_is_measured)
{
    struct scene scene;
    scene_begin(&scene, 2, 2);
    scene.look.told = true;
    assert_int_equal(goes_on(&scene, IDLE_LOOK_US), 0);
    scene.look.told = false;
    assert_int_equal(goes_on(&scene, IDLE_CALM_US / 2), 0);
    assert_int_equal(goes_on(&scene, IDLE_CALM_US), 2);
}

TEST(the_command_alone_counts_at_once)
{
    struct scene scene;
    scene_begin(&scene, 2, 2);
    idle_init(&scene.idle, 2, 2, false);
    scene.look.others = 2;
    assert_int_equal(goes_on(&scene, 1000000), 2);
    scene.look.told = true;
    assert_int_equal(goes_on(&scene, IDLE_LOOK_US), 0);
    scene.look.told = false;
    assert_int_equal(goes_on(&scene, IDLE_LOOK_US), 2);
}
