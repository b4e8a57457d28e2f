/* fuzz_cifar.c - CIFAR records; the first byte chooses CIFAR-10 or CIFAR-100. What is accepted has only
 * labels that exist. */
#include "nn/data/data_set.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/data_bytes.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct why why;
    struct data_file *file;
    struct data_rows rows = {0};
    size_t labels = size > 0 && data[0] & 1 ? 2 : 1, classes = labels == 2 ? 100 : 10;
    if (size == 0 || data_bytes_open(&file, data + 1, size - 1, &why))
        return 0;
    int rc = data_cifar_read(file, labels, classes, &rows);
    if (rc == 0)
        assert(rows.count == (size - 1) / (labels + 3072));
    for (size_t i = 0; i < rows.count; i++)
        assert(rows.label[i] >= 0 && (size_t)rows.label[i] < classes);
    free(rows.pixel);
    free(rows.label);
    data_file_close(&file);
    return 0;
}
