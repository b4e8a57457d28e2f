#!/bin/sh
# Includes point down or stay in the folder: node -> mesh, nn, compress, proto; mesh -> compress, proto;
# compress -> proto; nn -> proto/simd.h, mix.h, text.h and float_bits.h; proto -> nothing of ours.
cd "$(dirname "$0")/../.." || exit 2
bad=0
forbid() { # folder, pattern of includes it must not have
    if grep -nE "^ *# *include \"($2)" "$1"/*.[ch]; then
        echo "layers: $1/ must not include the above" >&2
        bad=1
    fi
}
forbid proto 'mesh|nn|compress|node|tests'
forbid compress 'mesh|nn|node|tests'
forbid mesh 'nn|node|tests'
forbid nn 'mesh|compress|node|tests|proto/(proto|bytes)'
forbid node 'tests'
# The core decides without sockets, clocks, threads or randomness.
if grep -nE '# *include <(zmq|czmq|time|pthread|threads|sys/|unistd|stdio_ext|poll)' \
    $(ls mesh/*.c mesh/*.h | grep -vE 'actor|discover'); then
    echo "layers: only mesh/actor* and mesh/discover* may touch sockets, clocks and threads" >&2
    bad=1
fi
if grep -lE '# *include <cblas' nn/*.[ch] node/*.[ch] mesh/*.[ch] | grep -v 'nn/blas.h'; then
    echo "layers: nn/blas.h is the one include of cblas" >&2
    bad=1
fi
[ $bad = 0 ] && echo "layers: includes point down"
exit $bad
