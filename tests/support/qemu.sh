#!/bin/sh
# qemu.sh PROGRAM [ARG ...]: runs a program for ARM64 with the libraries in SYSROOT. qemu-user cannot execute
# /proc/self/exe, so the environment is what the program would make it before it executes itself again.
exec env MESHNODE_PINNED=portable OPENBLAS_NUM_THREADS=1 qemu-aarch64-static -L "$SYSROOT" "$@"
