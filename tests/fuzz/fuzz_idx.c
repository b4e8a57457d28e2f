/* fuzz_idx.c - an IDX file, plain or gzip. What is accepted has a size that fits its dimensions. */
#include "nn/data/data_set.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/data_bytes.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct why why;
    struct data_file *file;
    struct data_idx idx;
    if (data_bytes_open(&file, data, size, &why))
        return 0;
    int rc = data_idx_read(file, 1, NN_DIMS_MAX, &idx);
    assert((rc == 0) == (idx.byte != NULL));
    if (rc == 0) {
        size_t product = 1;
        uint64_t sum = 0;
        for (size_t i = 0; i < idx.dims; i++)
            product *= idx.dim[i];
        assert(product == idx.size);
        assert(data_file_offset(file) == 4 + 4 * idx.dims + idx.size);
        for (size_t i = 0; i < idx.size; i++)
            sum += idx.byte[i];
        assert(sum <= 255 * idx.size);
    }
    free(idx.byte);
    data_file_close(&file);
    return 0;
}
