#!/bin/bash
# test_first_build.sh [debian] - make on a machine that has no compiler yet, played with programs of our own in PATH: what
# `make deps all` does once deps has installed the compiler, what a bare make says, how deps.sh waits for another apt.
# debian: the same in a real Debian 12 without a compiler, and `make demo` there; needs root, debootstrap, a mirror and
# some ten minutes. MIRROR=URL: another than deb.debian.org.
. "$(dirname "$0")/../support/process.sh"
cd "$ROOT" || exit 1

said_only() { # WHAT LINE: what the log says
    [ "$(wc -l <"$WORK/log")" = 1 ] && grep -q ": \*\*\* $2\.  Stop\.$" "$WORK/log" || fail "$1 said: $(cat "$WORK/log")"
}
no_compiler="gcc is not installed: make deps first"

# --- a real Debian ---
in_debian() { # FOLDER COMMAND: with processes and mounts that end with the command
    env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS \
        unshare --mount --pid --fork --kill-child --root="$1" --mount-proc --wd=/src sh -c "$2"
}

builds() { # FOLDER COMMAND ...: a first build there
    cp -a "$WORK/debian" "$1" && mkdir "$1/src" && tar -c --exclude=./build --exclude=./runs --exclude=./.git . | tar -x -C "$1/src"
    in_debian "$1" make >"$WORK/log" 2>&1 && fail "a bare make worked without a compiler"
    said_only "a bare make without a compiler" "$no_compiler"
    in_debian "$1" "$2" >"$WORK/log" 2>&1 || fail "$2: $(tail -n 5 "$WORK/log")"
    in_debian "$1" "./meshnode --version" || fail "$2 built no program that runs"
    echo "$2: done"
}

if [ "${1:-}" = debian ]; then
    [ "$(id -u)" = 0 ] || skip "not root: no chroot"
    command -v debootstrap >/dev/null || skip "no debootstrap"
    debootstrap --variant=minbase --include=make bookworm "$WORK/debian" ${MIRROR:+"$MIRROR"} >"$WORK/debootstrap" 2>&1 ||
        skip "debootstrap: $(tail -n 1 "$WORK/debootstrap")"
    cp /etc/resolv.conf "$WORK/debian/etc/"
    builds "$WORK/one" "make deps all"
    builds "$WORK/two" "make -j4 deps all"
    in_debian "$WORK/two" "make clean && make demo" >"$WORK/log" 2>&1 || fail "make demo: $(tail -n 5 "$WORK/log")"
    grep -e '^compiling' -e 'same weights' "$WORK/log" | tail -n 2
    exit 0
fi

# --- programs of our own ---
mkdir "$WORK/bin" "$WORK/later" "$WORK/src"
ln -s /usr/bin/* /bin/* "$WORK/bin" 2>/dev/null
program() { # FILE, standard input: the lines of a script
    rm -f "$1"
    { echo '#!/bin/sh'; cat; } >"$1"
    chmod +x "$1"
}
rm -f "$WORK/bin"/{gcc,cc,pkg-config}
sed -n 's/^!//p' .dockerignore | tar -c -T - | tar -x -C "$WORK/src"
# They come with deps: a compiler that writes down what it is told, and programs that say that they run.
program "$WORK/later/gcc" <<'END'
[ "$*" != -dumpmachine ] || { echo x86_64-linux-gnu; exit; }
echo "$*" >>gcc.log
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\necho it runs\n' >"$2"
chmod +x "$2"
END
program "$WORK/later/pkg-config" <<'END'
echo "$1 is known"
END
program "$WORK/src/tests/support/deps.sh" <<END
cp -n "$WORK/later/"* "$WORK/bin"
END
make_there() { # ARGUMENT ...
    (cd "$WORK/src" && env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS PATH="$WORK/bin" make "$@") >"$WORK/log" 2>&1
}

for arguments in "deps all" "-j4 deps all" "-j4 all deps"; do
    rm -rf "$WORK"/bin/{gcc,pkg-config} "$WORK"/src/{build,meshnode,gcc.log}
    make_there && fail "a bare make worked without a compiler"
    said_only "a bare make without a compiler" "$no_compiler"
    # shellcheck disable=SC2086 # words
    make_there $arguments || fail "make $arguments: $(tail -n 3 "$WORK/log")"
    [ "$("$WORK/src/meshnode")" = "it runs" ] || fail "make $arguments built no program"
    link=$(tail -n 1 "$WORK/src/gcc.log")
    [ "$(grep -o '_simd\.avx512\.o' <<<"$link" | wc -l)" = "$(find "$WORK/src" -name '*_simd.c' | wc -l)" ] ||
        fail "make $arguments links without the functions for AVX-512"
    [[ $link = *"--libs is known"* ]] || fail "make $arguments links without the libraries"
    compiled=$(grep -c -e ' -c -o ' "$WORK/src/gcc.log")
    [ "$(grep -c '^  CC [a-z0-9_/]*\.c\( ([a-z0-9]*)\)\?$' "$WORK/log")" = "$compiled" ] && [ "$compiled" -gt 100 ] &&
        [ "$(wc -l <"$WORK/log")" -lt $((compiled + 5)) ] && ! grep -q '.\{100\}' "$WORK/log" ||
        fail "make $arguments does not print one short line per file: $(tail -n 3 "$WORK/log")"
done
make_there -B V=1 || fail "make V=1: $(tail -n 3 "$WORK/log")"
[ "$(grep -c '^gcc .* -c -o ' "$WORK/log")" = "$compiled" ] || fail "make V=1 does not print the commands"
make_there -s -B || fail "make -s: $(tail -n 3 "$WORK/log")"
[ ! -s "$WORK/log" ] || fail "make -s is not silent: $(tail -n 3 "$WORK/log")"

rm "$WORK/bin/pkg-config" "$WORK/src/meshnode"
make_there -B && fail "make worked without libraries"
said_only "make without libraries" "libraries or pkg-config are missing: make deps first"

make_there clean
make_there demo || fail "make demo: $(tail -n 3 "$WORK/log")"
count=$(grep -c '^compiling [0-9]* of [0-9]* files$' "$WORK/log")
grep -q "^compiling $count of $count files$" "$WORK/log" && [ "$count" -gt 100 ] || fail "make demo does not say how far it is: $(cat "$WORK/log")"
grep -q '^it runs$' "$WORK/log" || fail "make demo did not start the program"

make_there help
[ "$(head -n 6 "$WORK/log" | awk '{print $2}' | tr '\n' ' ')" = "demo deps all install static deb " ] || fail "make help: $(cat "$WORK/log")"

# --- nobody who could install ---
program "$WORK/bin/id" <<<"echo 1000"
program "$WORK/bin/sudo" <<<"exit 1"
program "$WORK/bin/dpkg-query" <<<"exit 1"
PATH=$WORK/bin tests/support/deps.sh build </dev/null >"$WORK/log" 2>&1 && fail "deps.sh says that it is done without root"
grep -q 'run as root:$' "$WORK/log" && grep -q 'apt-get install.* gcc make' "$WORK/log" || fail "deps.sh does not say what root must do: $(cat "$WORK/log")"

# --- another apt ---
program "$WORK/bin/id" <<<"echo 0"
program "$WORK/bin/sleep" <<<"echo >>'$WORK/waits'"
program "$WORK/bin/dpkg-query" <<<"exit 1"
program "$WORK/bin/apt-get" <<END
[ "\$(wc -l <'$WORK/waits')" -ge 3 ] || { echo "E: Could not get lock /a/lock. It is held by process 7 (apt)" >&2; exit 100; }
echo "done: \$*"
[ ! -e '$WORK/broken' ] || { echo "E: broken" >&2; exit 100; }
END
: >"$WORK/waits"
PATH=$WORK/bin tests/support/deps.sh build >"$WORK/log" 2>&1 || fail "deps.sh did not wait for another apt: $(cat "$WORK/log")"
[ "$(grep -c '^waiting for another apt: .* held by process 7' "$WORK/log")" = 1 ] || fail "deps.sh waits without a word: $(cat "$WORK/log")"
grep -q '^done: .*install.* gcc make' "$WORK/log" || fail "deps.sh installed nothing: $(cat "$WORK/log")"
: >"$WORK/broken"
PATH=$WORK/bin tests/support/deps.sh build >"$WORK/log" 2>&1 && fail "deps.sh takes a broken apt for a good one"
grep -q '^E: broken$' "$WORK/log" || fail "deps.sh does not say what apt said: $(cat "$WORK/log")"
echo "make deps all, make, make demo and deps.sh on a machine without a compiler: $count files"
