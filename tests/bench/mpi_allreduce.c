/* mpi_allreduce.c - MPI_Allreduce in place on float32, timed like the others.
 *
 *     mpirun -np N [--mca btl tcp,self] mpi_allreduce NAME */
#include <mpi.h>

#include "tests/bench/measure.h"

static void
reduce(void *ctx, float *vector, size_t count)
{
    (void)ctx;
    MPI_Allreduce(MPI_IN_PLACE, vector, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

int
main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    measure_all(argc > 1 ? argv[1] : "mpi", rank, ranks, reduce, NULL);
    MPI_Finalize();
    return 0;
}
