/* fuzz_core.c - one core among hostile peers: any list of actions (core_world.h). */
#include "tests/fuzz/core_world.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    world_run(data, size);
    return 0;
}
