#!/bin/sh
# qemu.sh PROGRAM [ARG ...]: runs a program for ARM64 with the libraries in SYSROOT.
exec qemu-aarch64-static -L "$SYSROOT" "$@"
