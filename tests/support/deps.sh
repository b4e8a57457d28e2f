#!/bin/sh
# deps.sh SET...: install the packages of the named sets (build test clang lint bench bare static cross arm) where they are missing.
# Debian and Ubuntu: through apt, with sudo where we are not root. Elsewhere, or without sudo: print what is needed.
# deps.sh --libraries SET...: only print the libraries among them, which a cross compiler needs for its target, too.
set -eu

build="gcc make pkg-config libzmq3-dev libczmq-dev libmsgpack-dev libyaml-dev libjansson-dev \
libsodium-dev libxxhash-dev zlib1g-dev libpng-dev libjpeg-dev"
test="libcmocka-dev libopenblas0-pthread iproute2 nftables procps binutils python3 valgrind"
clang="clang libclang-rt-dev"
lint="$clang clang-format clang-tidy cppcheck llvm"
bench="g++ libopenblas0-pthread libgloo-dev libopenmpi-dev openmpi-bin python3-torch python3-yaml python3-venv \
python3-dev iproute2 python3"
bare="debootstrap"
static="g++ uuid-dev libbsd-dev" # libraries of the libraries, as archives
cross="gcc-aarch64-linux-gnu g++-aarch64-linux-gnu"
arm="$cross qemu-user-static"

libraries=
if [ "${1:-}" = --libraries ]; then
    libraries=yes
    shift
fi
wanted=
for set in "$@"; do
    case $set in
    build) wanted="$wanted $build" ;;
    test) wanted="$wanted $test" ;;
    clang) wanted="$wanted $clang" ;;
    lint) wanted="$wanted $lint" ;;
    bench) wanted="$wanted $bench" ;;
    bare) wanted="$wanted $bare" ;;
    static) wanted="$wanted $static" ;;
    cross) wanted="$wanted $cross" ;;
    arm) wanted="$wanted $arm" ;;
    *) echo "deps.sh: set '$set', expected build, test, clang, lint, bench, bare, static, cross or arm" >&2; exit 2 ;;
    esac
done
if [ "$libraries" ]; then
    # shellcheck disable=SC2086 # a list of packages
    printf '%s\n' $wanted | grep -e '-dev$' | tr '\n' ' '
    exit 0
fi

if ! command -v dpkg-query >/dev/null 2>&1; then
    cc=${CC:-cc}
    if command -v pkg-config >/dev/null 2>&1 && command -v "$cc" >/dev/null 2>&1 &&
        pkg-config --exists libzmq libczmq yaml-0.1 jansson libsodium libxxhash zlib libpng libjpeg &&
        { pkg-config --exists msgpack-c || pkg-config --exists msgpack; }; then
        exit 0
    fi
    echo "This is no Debian or Ubuntu. Please install what these packages hold, then run make again:" >&2
    echo " $wanted" >&2
    exit 1
fi

missing=
for package in $wanted; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

run=
if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null 2>&1 && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
        run=sudo
    else
        echo "Missing packages. Please run as root:" >&2
        echo "    apt-get install$missing" >&2
        exit 1
    fi
fi
# While another program holds apt's lock, as on a fresh machine that updates itself, try again: ten minutes at most.
apt() { # ARGUMENTS of apt-get
    seconds=0
    until why=$($run env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -q "$@" 2>&1 >&3); do
        lock=$(echo "$why" | grep 'Could not get lock') && [ $seconds -lt 600 ] || { echo "$why" >&2; exit 1; }
        [ $seconds != 0 ] || echo "waiting for another apt: $lock"
        seconds=$((seconds + 1))
        sleep 1
    done
    [ -z "$why" ] || echo "$why" >&2
} 3>&1
echo "installing:$missing"
apt update
# shellcheck disable=SC2086 # a list of packages
apt install -y --no-install-recommends $missing
