#!/bin/sh
# paths.sh - every file that a README, PROTOCOL.md or a comment names exists, and the first line of a source has its own name.
# And optimizer has one spelling, that of the key.
#
# A name with one of our folders in front is a path from the top, and * stands for anything. In the READMEs, a source without
# a folder, or with one that tests/ has, must be somewhere under that name; so must a .c or .h in a comment.
cd "$(dirname "$0")/../.." || exit 2
bad=0
missing() { # WHERE WHAT
    echo "$1: there is no $2" >&2
    bad=1
}
texts='README.md CONTRIBUTING.md configs/README.md proto/PROTOCOL.md tests/README.md tests/bench/README.md tests/chaos/README.md'
# shellcheck disable=SC2086 # a list
all="$texts $(find proto compress mesh nn node tests -name '*.[ch]')"
# shellcheck disable=SC2086
named=$(grep -oE '(^|[^A-Za-z0-9_/.$}~-])(proto|compress|mesh|nn|node|configs|tests)/[A-Za-z0-9_/*.-]*\.(c|h|sh|py|md|yaml|1)\b' $all |
    sed -E 's/:[^A-Za-z]/:/' | sort -u)
for name in $named; do
    # shellcheck disable=SC2086 # a * is to be expanded
    ls ${name#*:} >/dev/null 2>&1 || missing "${name%%:*}" "${name#*:}"
done
# shellcheck disable=SC2086
# shellcheck disable=SC2016 # the backticks are meant
for name in $(grep -oE '`(proto|compress|mesh|nn|node|configs|tests)/[a-z/]*/?`' $texts | tr -d '`' | sort -u); do
    [ -e "${name#*:}" ] || missing "${name%%:*}" "${name#*:}"
done
sources=$(find proto compress mesh nn node tests -type f)
# shellcheck disable=SC2086
# shellcheck disable=SC2016 # the backticks are meant
for name in $(grep -oE '`[a-z_/]*[a-z0-9_]+\.(c|h|sh|py)`' $texts | tr -d '`' | sort -u); do
    echo "$sources" | grep -qE "(^|/)${name#*:}\$" || missing "${name%%:*}" "${name#*:}"
done
# shellcheck disable=SC2086
grep -HoE '(/\*|^ \*).*' ${all#"$texts"} | SOURCES=$sources awk '
    BEGIN { count = split(ENVIRON["SOURCES"], path, "\n")
            for (i = 1; i <= count; i++) { sub(/.*\//, "", path[i]); known[path[i]] = 1 } }
    {
        file = substr($0, 1, index($0, ":")); text = substr($0, length(file) + 1)
        while (match(text, /[A-Za-z0-9_.*<>\/-]*[.][ch]($|[^A-Za-z0-9_*])/)) {
            name = substr(text, RSTART, RLENGTH); text = substr(text, RSTART + RLENGTH)
            if (match(name, /^[a-z][a-z0-9_]*[.][ch]/) && !(substr(name, 1, RLENGTH) in known)) {
                print file " there is no " substr(name, 1, RLENGTH); wrong = 1
            }
        }
    }
    END { exit wrong }' >&2 || bad=1
# shellcheck disable=SC2086
awk 'FNR == 1 && $2 ~ /^[a-z0-9_]+[.][ch]$/ && FILENAME !~ ("/" $2 "$") {
         print FILENAME ": says that it is " $2; wrong = 1
     }
     END { exit wrong }' ${all#"$texts"} >&2 || bad=1
# shellcheck disable=SC2086
if grep -nE '[Oo]ptimis' $all node/meshnode.1 docker-compose.yml configs/*.yaml | grep -vE '"optimiser"|optimiser: ' >&2; then
    bad=1
fi
[ $bad = 0 ] && echo "paths: every file that is named exists"
exit $bad
