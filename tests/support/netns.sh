#!/bin/bash
# netns.sh - network namespaces for tests and benchmarks: machines and a switch without machines.
#
#     TAG-sw     bridge sw0 --+-- p0 ======= eth0 10.77.0.1/24   TAG-0
#     (the fabric)            +-- p1 ======= eth0 10.77.0.2/24   TAG-1
#                             +-- ...
#
# The bridge has a namespace of its own because a host that runs containers filters what crosses its
# bridges. TAG holds the caller's process id, so runs side by side do not meet. Links may be shaped (tbf
# on both ends: full duplex). Where the system allows it, congestion control is cubic: pacing ones (bbr)
# are slow on loopback. Needs iproute2, veth, and root or the user namespaces of others.
#
# As a library:                                 As a program:
#     . tests/support/netns.sh                      netns.sh up TAG COUNT [RATE]
#     netns_need           # or skips, says why     netns.sh rate TAG COUNT RATE
#     trap netns_down EXIT                          netns.sh line TAG INDEX RATE
#     netns_up 4 100mbit   # 0 = loopback, TAG-0    netns.sh down TAG
#     netns_exec 2 command ...                      netns.sh own COMMAND ...
#     netns_cut 2; netns_mend 2 # pull the cable, plug it in

NETNS_TAG=${NETNS_TAG:-mn$$}
NETNS_COUNT=0

netns_try() { # an attempt at all that is needed; fails with the words of the command that did
    local name=$NETNS_TAG-try status=0
    command -v ip >/dev/null || { echo "no ip command (iproute2)"; return 1; }
    ip netns add "$name" && ip -n "$name" link add a0 type veth peer name a1 &&
        ip netns exec "$name" true || status=1
    ip netns del "$name" 2>/dev/null
    return $status
}

netns_usable() {
    local why
    why=$(netns_try 2>&1) || echo "SKIPPED: no network namespaces: ${why//$'\n'/; }" >&2
    [ -z "$why" ]
}

# `ip netns` wants the root folder to be a mount point, which that of a plain chroot is not; what a killed test mounts
# would stay; and who is not root may not mount. So a test runs in a mount namespace of its own, with a folder for
# networks of its own, and as root of a user namespace where it is not root.
netns_own() { # COMMAND ...; called within the new namespaces
    local root=/
    if mountpoint -q /; then
        mount --make-rprivate / || return 1
    else
        # nsenter goes to the root of the namespace, outside of the chroot; that of the new root may be any folder
        nsenter --mount=/proc/self/ns/mnt mount --make-rprivate / && mount --rbind / /run || return 1
        root=/run
    fi
    [ -d "$root/run/netns" ] || mkdir "$root/run/netns" 2>/dev/null || mount -t tmpfs none "$root/run" || return 1
    mkdir -p "$root/run/netns" && mount -t tmpfs none "$root/run/netns" || return 1
    NETNS_OWN=1 exec chroot "$root" sh -c 'cd "$0" && exec "$@"' "$PWD" "$@"
}

# For tests, right after process.sh: what they do next, they do in namespaces of their own, or they are skipped.
netns_need() {
    local how=(unshare --mount --propagation unchanged) why command
    [ "$(id -u)" = 0 ] || how+=(--map-root-user --net)
    if [ -z "${NETNS_OWN:-}" ]; then
        why=$("${how[@]}" "${BASH_SOURCE[0]}" own true 2>&1) ||
            skip "no network namespaces: ${why//$'\n'/; }"
        mapfile -d '' -t command <"/proc/$$/cmdline"
        rm -rf "$WORK"
        exec "${how[@]}" "${BASH_SOURCE[0]}" own "${command[@]}"
    fi
    why=$(netns_try 2>&1) || skip "no network namespaces: ${why//$'\n'/; }"
}

netns_address() { # INDEX
    echo "10.77.0.$(($1 + 1))"
}

# In the background write `ip netns exec "$NETNS_TAG-2" command &`: then $! is the command's process.
netns_exec() { # INDEX COMMAND ...
    local index=$1
    shift
    ip netns exec "$NETNS_TAG-$index" "$@"
}

# Every congestion control but a few is reserved to the initial namespace: open cubic for the moment of
# choosing it, one run at a time, and put the list back.
netns_cubic() { # COUNT
    local list=/proc/sys/net/ipv4/tcp_allowed_congestion_control before index
    local key=net.ipv4.tcp_congestion_control
    exec 9<"${BASH_SOURCE[0]}"
    flock 9
    before=$(<$list)
    case " $before " in
    *" cubic "*) ;;
    *) (echo "$before cubic" >$list) 2>/dev/null ;;
    esac
    for ((index = 0; index < $1; index++)); do
        ip netns exec "$NETNS_TAG-$index" sysctl -qw $key=cubic 2>/dev/null ||
            echo "netns: cubic is not to be had, congestion control is" \
                "$(ip netns exec "$NETNS_TAG-$index" sysctl -n $key)" >&2
    done
    [ "$(<$list)" = "$before" ] || (echo "$before" >$list) 2>/dev/null
    exec 9<&-
}

netns_add() { # NAME
    ip netns add "$1" && ip -n "$1" link set lo up
}

netns_plug() { # INDEX
    local node=$NETNS_TAG-$1 fabric=$NETNS_TAG-sw
    netns_add "$node" &&
        ip -n "$node" link add eth0 type veth peer name "p$1" netns "$fabric" &&
        ip -n "$fabric" link set "p$1" master sw0 up &&
        ip -n "$node" addr add "$(netns_address "$1")/24" broadcast 10.77.0.255 dev eth0 &&
        ip -n "$node" link set eth0 up &&
        ip -n "$node" route add default dev eth0
}

netns_up() { # COUNT [RATE]
    local index
    NETNS_COUNT=$1
    if [ "$1" = 0 ]; then
        NETNS_COUNT=1
        netns_add "$NETNS_TAG-0" || return 1
    else
        netns_add "$NETNS_TAG-sw" &&
            ip -n "$NETNS_TAG-sw" link add sw0 type bridge &&
            ip -n "$NETNS_TAG-sw" link set sw0 up || return 1
        for ((index = 0; index < $1; index++)); do
            netns_plug "$index" || return 1
        done
    fi
    netns_cubic "$NETNS_COUNT"
    [ -z "${2:-}" ] || netns_rate "$2"
}

netns_shape() { # NAMESPACE DEVICE RATE
    ip netns exec "$1" tc qdisc del dev "$2" root 2>/dev/null
    # burst: TCP hands over 64 KiB at a time; limit: a queue of 20 ms at 100 Mbit/s
    [ "$3" = none ] ||
        ip netns exec "$1" tc qdisc add dev "$2" root tbf rate "$3" burst 128kb limit 256kb
}

netns_line() { # INDEX RATE, as tc writes it, or "none"
    netns_shape "$NETNS_TAG-$1" eth0 "$2" && netns_shape "$NETNS_TAG-sw" "p$1" "$2"
}

netns_rate() { # RATE
    local index
    for ((index = 0; index < NETNS_COUNT; index++)); do
        netns_line "$index" "$1" || return 1
    done
}

netns_cut() { # INDEX
    ip -n "$NETNS_TAG-sw" link set "p$1" down
}

netns_mend() { # INDEX
    ip -n "$NETNS_TAG-sw" link set "p$1" up
}

netns_down() {
    local name
    for name in $(ip netns list 2>/dev/null | sed -n "s/^\($NETNS_TAG-[0-9a-z]*\).*/\1/p"); do
        ip netns del "$name"
    done
    NETNS_COUNT=0
}

netns_main() {
    [ $# -lt 2 ] || [ "$1" = own ] || NETNS_TAG=$2
    case "$1:$#" in
    up:3 | up:4)
        netns_usable || exit 1
        if ! netns_up "$3" "${4:-}"; then
            netns_down
            exit 1
        fi
        ;;
    rate:4) NETNS_COUNT=$3 && netns_rate "$4" ;;
    line:4) netns_line "$3" "$4" ;;
    down:2) netns_down ;;
    own:*) shift && netns_own "$@" ;;
    *) sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
    esac
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    netns_main "$@"
fi
