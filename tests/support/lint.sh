#!/bin/sh
# lint.sh FILE...: gcc's analyzer, clang-tidy and cppcheck over the sources, then the ten longest functions.
# BUILD and CFLAGS come from the Makefile. Findings of the first three fail.
bad=0
checks='clang-analyzer-*,bugprone-*,performance-*,portability-*,misc-redundant-expression,readability-inconsistent-declaration-parameter-name,-bugprone-easily-swappable-parameters,-bugprone-narrowing-conversions,-clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling'
for file in "$@"; do
    case $file in *_simd.c) simd='-DSIMD=base' ;; *) simd= ;; esac
    # shellcheck disable=SC2086
    gcc $CFLAGS $simd -fanalyzer -O1 -c -o /dev/null "$file" || bad=1
    # shellcheck disable=SC2086
    clang-tidy --quiet --warnings-as-errors='*' --checks="-*,$checks" "$file" -- $CFLAGS $simd 2>/dev/null || bad=1
done
cppcheck --quiet --error-exitcode=1 --enable=warning,performance,portability --inline-suppr --std=c11 -I. \
    --suppress=missingIncludeSystem -DSIMD=base "$@" || bad=1
echo "longest functions:"
awk 'FNR == 1 { name = "" }
    /^[a-z_0-9]+\(/ { name = $1; sub(/\(.*/, "", name); start = FNR }
    /^}/ && name { print FNR - start, FILENAME ": " name; name = "" }' "$@" | sort -rn | head -n 10
exit $bad
