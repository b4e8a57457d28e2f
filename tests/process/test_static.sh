#!/bin/bash
# test_static.sh [releases] - the static program (make static) needs nothing: it names no library and no loader, and is small
# enough. In a root folder with nothing but itself it trains with a built one to one hash, and finds it by a name of
# /etc/hosts and of DNS, whatever nsswitch.conf says. If make static has built one for ARM64, that trains with them, too.
#
# releases: the packages (make deb), installed in Debian 11, 12 and 13 and Ubuntu 22.04, train together with all of these, and
# so does that for ARM64, unpacked; needs mirrors and minutes. MIRROR=URL: another than deb.debian.org; UBUNTU_MIRROR=URL;
# RELEASES: others, or folders that debootstrap made.
. "$(dirname "$0")/../support/process.sh"
. "$ROOT/tests/support/netns.sh"
BUILT=${BUILD:-$ROOT/build/gcc}/meshnode-static
ARM64=$ROOT/build/aarch64-linux-gnu-gcc/meshnode-static
RELEASES=${RELEASES:-bullseye bookworm trixie jammy}
SIZE_MAX=$((8 << 20))
[ -x "$BUILT" ] || skip "no static program $BUILT: make static says why"
[ "$(id -u)" = 0 ] || skip "not root: no other root folder"
netns_need
netns_up 4 || fail "no namespaces"
LINK=

needs_nothing() { # PROGRAM
    local size
    readelf -ld "$1" >"$WORK/elf" || fail "$1 is no program"
    grep -E 'NEEDED|INTERP|RPATH|RUNPATH' "$WORK/elf" && fail "$1 needs the above"
    size=$(stat -c %s "$1")
    [ "$size" -le $SIZE_MAX ] || fail "$1 has $size bytes, expected $SIZE_MAX at most"
    echo "$(basename "$1"): $size bytes"
}

# In a root folder, ours has the same name: there are the job, the programs and what nodes write.
opened() { # ROOT
    mkdir -p "$1$WORK" && cp -r "$WORK/job.yaml" "$WORK/bin" "$1$WORK" || fail "cannot write to $1"
}

on() { # INDEX NAME PROGRAM ROOT [OPTION ...]: a node in namespace INDEX, in that root folder
    WHERE[$2]="ip netns exec $NETNS_TAG-$1${4:+ chroot $4} ${EMULATOR:-}"
    rm -rf "${4:-}$WORK/$2"
    [ -z "$4" ] || ln -sfn "$4$WORK/$2" "$WORK/$2"
    MESHNODE=$3 node "$2" "$WORK/job.yaml" "${@:5}"
}

mkdir "$WORK/bin"
strip -o "$WORK/bin/static" "$BUILT" || skip "no strip for this program"
needs_nothing "$WORK/bin/static"
mkdir -p "$WORK/empty/etc" "$WORK/lines"
write_job "$WORK/job.yaml" 20
for program in "$MESHNODE" "$WORK/bin/static"; do
    "$program" check "$WORK/job.yaml" | grep numerics >"$WORK/lines/$(basename "$program")" || fail "$program: no numerics"
done
[ "$(sort -u "$WORK"/lines/* | wc -l)" = 1 ] || fail "the static program computes otherwise: $(cat "$WORK"/lines/*)"
MESHNODE=$WORK/bin/static refuses "no libopenblas.so.0 here" check "$WORK/job.yaml" --set run.numerics=openblas --set train.exact=no
if [ -x "$ARM64" ] && command -v qemu-aarch64-static >"$WORK/where"; then
    aarch64-linux-gnu-strip -o "$WORK/bin/arm64" "$ARM64" || fail "cannot strip $ARM64"
    if [ "${1:-}" = releases ]; then
        dpkg-deb -x "$ROOT"/build/meshnode_*_arm64.deb "$WORK/package" || skip "no package for ARM64: make deb makes it"
        cp "$WORK/package/usr/bin/meshnode" "$WORK/bin/arm64"
    fi
    needs_nothing "$WORK/bin/arm64"
    cp "$(cat "$WORK/where")" "$WORK/bin/qemu"
fi
opened "$WORK/empty"

# --- names ---
# On a line that cannot broadcast nodes meet only by name.
ip -n "$NETNS_TAG-0" link add vpn0 type veth peer name vpn0 netns "$NETNS_TAG-1"
for index in 0 1; do
    ip -n "$NETNS_TAG-$index" addr add 10.99.0.$((index + 1)) peer 10.99.0.$((2 - index))/32 dev vpn0
    ip -n "$NETNS_TAG-$index" link set vpn0 up
done
ip netns exec "$NETNS_TAG-0" python3 "$ROOT/tests/support/dns.py" 10.99.0.1 dns.example=10.99.0.1 >"$WORK/dns.log" 2>&1 &
PID[dns]=$!
wait_until 10 "a name server" says dns '^ready$'
echo "hosts: elsewhere [NOTFOUND=return]" >"$WORK/empty/etc/nsswitch.conf" # a plug-in that is not here
echo "nameserver 10.99.0.1" >"$WORK/empty/etc/resolv.conf"
echo "10.99.0.1 hosts.example" >"$WORK/empty/etc/hosts"
for name in hosts dns; do
    on 0 built "$MESHNODE" "" --peers 2 --interface vpn0
    on 1 lone "$WORK/bin/static" "$WORK/empty" --peers 2 --interface vpn0 --peer "$name.example:20000"
    finished 60 built lone
    same_hash built lone
    [ "$(result lone peers_max)" = 2 ] || fail "the static node did not find $name.example"
    echo "a built node and a static one in an empty folder, by a name of $name: weights $(result lone params_sha256)"
done
says dns '^dns.example A$' || fail "the name server was not asked: $(cat "$WORK/dns.log")"
says dns hosts.example && fail "the name server was asked for a name of /etc/hosts"
kill_node dns
rm -r "$WORK/empty/etc"

# --- all kinds in one mesh ---
kinds=() # of more nodes
[ ! -e "$WORK/bin/arm64" ] || kinds+=(arm64)
[ "${1:-}" != releases ] || for release in $RELEASES; do
    root=$WORK/$(basename "$release").root
    if [ -d "$release" ]; then
        cp -a "$release" "$root"
    else
        command -v debootstrap >"$WORK/where" || skip "no debootstrap"
        mirror=${MIRROR:-http://deb.debian.org/debian}
        [ "$release" != jammy ] || mirror=${UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}
        debootstrap --variant=minbase "$release" "$root" "$mirror" >"$WORK/debootstrap" 2>&1 ||
            skip "debootstrap $release: $(tail -n 1 "$WORK/debootstrap")"
    fi
    cp "$ROOT"/build/meshnode_*_amd64.deb "$root/meshnode.deb" || skip "no package: make deb makes it"
    chroot "$root" dpkg -i /meshnode.deb >"$WORK/dpkg" 2>&1 || fail "$release: $(cat "$WORK/dpkg")"
    opened "$root"
    kinds+=("$(basename "$release")")
done

peers=(--peers $((2 + ${#kinds[@]})) --set mesh.division=even --set mesh.gather_ms=60000)
on 0 built "$MESHNODE" "" "${peers[@]}"
on 1 lone "$WORK/bin/static" "$WORK/empty" "${peers[@]}"
index=2
for kind in "${kinds[@]}"; do
    if [ "$kind" = arm64 ]; then
        EMULATOR=$WORK/bin/qemu on $index arm64 "$WORK/bin/arm64" "$WORK/empty" "${peers[@]}"
    else
        on $index "$kind" /usr/bin/meshnode "$WORK/$kind.root" "${peers[@]}"
    fi
    index=$((5 - index)) # two in one namespace have other ports
done
finished 300 built lone "${kinds[@]}"
same_hash built lone "${kinds[@]}"
for name in built lone "${kinds[@]}"; do
    [ "$(result "$name" peers_max)" = $((2 + ${#kinds[@]})) ] || fail "$name trained with $(result "$name" peers_max) nodes"
done
echo "$(printf '%s, ' built "static in an empty folder" "${kinds[@]}")same weights: $(result lone params_sha256)"

[ "${1:-}" != releases ] || for release in $RELEASES; do
    root=$WORK/$(basename "$release").root
    [ -s "$root/usr/share/man/man1/meshnode.1.gz" ] || grep -q '^path-exclude' "$root"/etc/dpkg/dpkg.cfg.d/* || fail "$release: no man page"
    chroot "$root" dpkg -P meshnode >"$WORK/dpkg" 2>&1 || fail "$release: $(cat "$WORK/dpkg")"
    left=$(find "$root/usr" -name '*meshnode*')
    [ -z "$left" ] || fail "$release: left behind: $left"
done
