#!/bin/sh
# Includes point down or stay in the folder: node -> mesh, nn, compress, proto; mesh -> compress, proto;
# compress -> proto; nn -> proto/why.h, simd.h, mix.h, text.h, bytes.h and float_bits.h; proto -> nothing of ours.
cd "$(dirname "$0")/../.." || exit 2
bad=0
files() { # every source of a folder and of those in it
    find "$@" -name '*.[ch]' | sort
}
forbid() { # folder, pattern of includes it must not have
    if grep -nE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[\"<](\.\.?/)*($2)" $(files "$1"); then
        echo "layers: $1/ must not include the above" >&2
        bad=1
    fi
}
forbid proto 'mesh|nn|compress|node|tests'
forbid compress 'mesh|nn|node|tests'
forbid mesh 'nn|node|tests'
forbid mesh/core 'mesh/net|mesh/mesh.h|proto/(clock|fail)\.h'
forbid nn 'mesh|compress|node|tests|proto/proto'
forbid node 'tests'
# The core decides without sockets, clocks, threads or randomness.
if grep -nE '# *include <(zmq|czmq|time|pthread|threads|sys/|unistd|stdio_ext|poll)' $(files mesh/core); then
    echo "layers: only mesh/net may touch sockets, clocks and threads" >&2
    bad=1
fi
if grep -lE '# *include <dlfcn' $(files nn node mesh) | grep -v 'nn/arithmetic/blas.c'; then
    echo "layers: only nn/arithmetic/blas.c loads a library" >&2
    bad=1
fi
# What a program writes (tests/golden) may be longer.
if awk 'length > 120 { print FILENAME ":" FNR ": " length " columns"; long = 1 } END { exit !long }' \
    $(find proto compress nn mesh node tests -name golden -prune -o -name '*.[ch]' -print -o -name '*.def' -print); then
    echo "layers: no line is longer than 120 columns" >&2
    bad=1
fi
tests/support/paths.sh || bad=1
# Calls, records, names and the sum of them, from the sources; what mesh/core uses from outside, from the objects of a build.
# shellcheck disable=SC2086 # --write or nothing
python3 tests/support/structure.py "${1:-build/gcc}/mesh/core" $2 || bad=1
[ $bad = 0 ] && echo "layers: includes point down"
exit $bad
