#!/bin/sh
# sysroot.sh DIR: headers and libraries of ARM64 Debian in DIR, for a cross compiler and qemu-user. Nothing on this machine
# changes: apt fetches the packages of deps.sh's sets build, static and test with lists and a status of its own, and dpkg unpacks
# them. Needs neither root nor the arm64 architecture in dpkg.
set -eu
dir=$1
here=$(dirname "$0")
wanted=$("$here/deps.sh" --libraries build static test)
stamp="$wanted"
[ "$(cat "$dir/.packages" 2>/dev/null)" != "$stamp" ] || exit 0
command -v apt-get >/dev/null && command -v dpkg >/dev/null || { echo "sysroot.sh: no apt-get or dpkg here" >&2; exit 77; }

rm -rf "$dir"
mkdir -p "$dir/apt/lists/partial" "$dir/apt/cache/archives/partial"
apt=$(cd "$dir/apt" && pwd)
: >"$apt/status"
arm_apt() {
    apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$apt" -o Dir::State::status="$apt/status" \
        -o Dir::Cache="$apt/cache" -o APT::Sandbox::User="$(id -un)" -o Debug::NoLocking=1 "$@"
}
# shellcheck disable=SC2086 # a list of packages
if ! { arm_apt update && arm_apt install -y --no-install-recommends --download-only $wanted; } >"$dir/log" 2>&1; then
    echo "sysroot.sh: apt offers no arm64 packages: $(grep '^[EW]:' "$dir/log" | head -n 1)" >&2
    exit 77
fi
for package in "$apt"/cache/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x -C "$dir" --exclude=./usr/share/doc --exclude=./usr/include/boost
done
rm -rf "$apt"
printf '%s\n' "$stamp" >"$dir/.packages"
