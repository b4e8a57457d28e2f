"""How many threads PyTorch and its libraries use: read when they load, so call set_threads before importing torch."""
import os


def set_threads(count):
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = str(count)
