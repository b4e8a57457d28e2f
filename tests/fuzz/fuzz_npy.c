/* fuzz_npy.c - the header of a NumPy file. What is accepted has sizes that fit one another and the file. */
#include "nn/data/npy.h"
#include "tests/fuzz/fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct why why;
    struct npy_header h;
    size_t seen = size < NPY_HEADER_MAX ? size : NPY_HEADER_MAX;
    if (npy_header_parse(&h, data, seen, size, "input", &why))
        return 0;
    __extension__ typedef unsigned __int128 wide;
    wide elements = 1;
    assert(h.dims >= 1 && h.dims <= NN_DIMS_MAX);
    for (size_t i = 0; i < h.dims; i++)
        elements *= h.dim[i];
    assert(h.item == 1 || h.item == 4 || h.item == 8);
    assert(elements > 0 && elements * h.item == h.bytes);
    assert((wide)h.dim[0] * h.width == elements);
    assert(h.start + h.bytes == size);
    return 0;
}
