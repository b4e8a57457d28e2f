#!/bin/bash
# test_clang.sh - clang takes everything, too: it reads all sources of the program and of the tests without a warning, and
# six fuzz targets a day link with libFuzzer and go through their corpora and some inputs more. They stand on the library
# of this build, which is not instrumented: that would take many minutes. `make fuzz-NAME` does it.
. "$(dirname "$0")/../support/process.sh"
BUILD=${BUILD:-$ROOT/build/gcc}
cd "$ROOT" || exit 1
command -v clang >/dev/null || skip "no clang: NOTHING was read by it; make check installs it where it can"
make_alone() { # a make that knows nothing of the one that started the tests
    env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s CC=clang "$@"
}

make_alone syntax >"$WORK/log" 2>&1 || fail "clang: $(grep -E 'error|warning|\*\*\*' "$WORK/log" | head -n 20)"
echo "clang reads all sources of program and tests"

! sanitized || skip "the library has a sanitizer of its own: no fuzz target was linked with it"
[ -e "$BUILD/libmeshnode.a" ] || skip "no $BUILD/libmeshnode.a: make test-build makes it"
echo 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d && n > 1 ? 0 : 0; }' >"$WORK/try.c"
clang -fsanitize=fuzzer,address,undefined -o "$WORK/try" "$WORK/try.c" 2>/dev/null ||
    skip "clang has no libFuzzer here (libclang-rt-dev): no fuzz target was linked"
# shellcheck disable=SC2046 # words
names=$(today 6 $(basename -a -s .c tests/fuzz/fuzz_*.c | sed 's/^fuzz_//'))
# shellcheck disable=SC2046 # words
make_alone -j"$(nproc)" CFLAGS=-O1 SANITIZE=fuzzer-no-link,address,undefined B="$WORK" lib="$BUILD/libmeshnode.a" lib_obj= \
    $(printf "$WORK/tests/fuzz/target_%s " $names) >"$WORK/log" 2>&1 || fail "fuzz targets: $(tail -n 20 "$WORK/log")"
for name in $names; do
    mkdir "$WORK/$name"
    "$WORK/tests/fuzz/target_$name" -seed=1 -runs=500 -rss_limit_mb=2048 -timeout=600 "$WORK/$name" "tests/fuzz/corpus/$name" \
        >"$WORK/log" 2>&1 || fail "fuzz_$name: $(tail -n 20 "$WORK/log")"
done
echo "fuzz targets: $(wc -w <<<"$names") link with libFuzzer and run"
