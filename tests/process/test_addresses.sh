#!/bin/bash
# test_addresses.sh - nodes that were told which address to use: the second one of an interface, in another network or
# in the same one; the second of two interfaces in one network; one that cannot broadcast; and an address behind NAT. They listen there, and
# their beacons and connections come from there: two of them meet and train together.
. "$(dirname "$0")/../support/process.sh"
. "$ROOT/tests/support/netns.sh"
netns_need
netns_up 2 || fail "no namespaces"

LINK=
write_job "$WORK/job.yaml" 60
for index in 0 1; do
    WHERE[n$index]="ip netns exec $NETNS_TAG-$index"
done

# As a person adds it: nobody names a broadcast address.
address() { # INDEX DEVICE ADDRESS
    ip -n "$NETNS_TAG-$1" addr add "$3/24" dev "$2" || fail "no address $3"
}

# Two nodes that wait for one another train together.
meet() { # WHAT OPTIONS-OF-N0 OPTIONS-OF-N1
    rm -rf "$WORK"/n[01]
    # shellcheck disable=SC2086 # lists of options
    node n0 "$WORK/job.yaml" --peers 2 $2
    # shellcheck disable=SC2086
    node n1 "$WORK/job.yaml" --peers 2 $3
    finished 60 n0 n1
    same_hash n0 n1
    for name in n0 n1; do
        [ "$(result $name peers_max)" = 2 ] || fail "$1: $name trained alone"
    done
    echo "$1: met"
}

address 0 eth0 10.88.0.1
address 1 eth0 10.88.0.2
meet "a second address in another network" "--interface 10.88.0.1" "--interface 10.88.0.2"
meet "one of them with all its addresses" "--interface 10.88.0.1" ""

address 0 eth0 10.77.0.101
meet "a second address in the same network" "--interface 10.77.0.101" "--interface eth0"

ip -n "$NETNS_TAG-0" addr del 10.77.0.101/24 dev eth0
ip -n "$NETNS_TAG-0" link add eth1 type veth peer name p9 netns "$NETNS_TAG-sw"
ip -n "$NETNS_TAG-sw" link set p9 master sw0 up
address 0 eth1 10.77.0.101
ip -n "$NETNS_TAG-0" link set eth1 up
meet "a second interface in the same network" "--interface eth1" "--interface eth0"

# A line that cannot broadcast, as that of a VPN: one node names the other, in every way to train. Then IPv6 alone,
# where multicast finds them, and without it. The node that is named says how; without --interface the line is used when it is the only one.
ip -n "$NETNS_TAG-0" link add vpn0 type veth peer name vpn0 netns "$NETNS_TAG-1"
ip -n "$NETNS_TAG-0" addr add 10.99.0.1 peer 10.99.0.2/32 dev vpn0
ip -n "$NETNS_TAG-1" addr add 10.99.0.2 peer 10.99.0.1/32 dev vpn0
for index in 0 1; do
    ip -n "$NETNS_TAG-$index" link set vpn0 up
done
for way in "" mesh.stages=2 mesh.topology=server mesh.topology=gossip; do
    meet "vpn0 ${way:-ring}" "--interface vpn0 ${way:+--set $way}" "--interface vpn0 --peer 10.99.0.1:20000 ${way:+--set $way}"
    grep -q "vpn0 cannot broadcast, .* with --peer 10.99.0.1:20000$" "$WORK/n0.log" || fail "n0 does not say how others find it: $(cat "$WORK/n0.log")"
done
# All are started again, and nobody is named: n1 remembers.
write_job "$WORK/long.yaml" 1000000
rm -rf "$WORK"/n[01]
node n0 "$WORK/long.yaml" --interface vpn0
node n1 "$WORK/long.yaml" --interface vpn0 --peer 10.99.0.1:20000
wait_until 60 "both to train together" trains_with 2 n0 n1
kill_node n0
kill_node n1
[ "$(cat "$WORK/n1/peers")" = 10.99.0.1:20000 ] || fail "n1/peers: $(cat "$WORK/n1/peers")"
rm -r "$WORK/n0"
node n0 "$WORK/long.yaml" --interface vpn0
wait_until 60 "n0 to train alone" trains_with 1 n0
{ echo "half of:"; echo; echo "10.99.0.1:20000"; } >"$WORK/n1/peers"
node n1 "$WORK/long.yaml" --interface vpn0
wait_until 60 "n1 to find n0 again" trains_with 2 n0 n1
kill_node n0
kill_node n1
echo "vpn0, started again: met"
for index in 0 1; do
    for device in eth0 eth1; do
        ip -n "$NETNS_TAG-$index" link set $device down 2>/dev/null
    done
done
meet "all usable interfaces, of which none can broadcast" "" "--peer 10.99.0.1:20000"
grep -q "this node is .*: vpn0 10.99.0.1, port" "$WORK/n0.log" || fail "n0 does not name vpn0: $(cat "$WORK/n0.log")"
for index in 0 1; do
    ip -n "$NETNS_TAG-$index" addr flush dev vpn0
    ip -n "$NETNS_TAG-$index" addr add "fd77::$index/64" dev vpn0 nodad
done
for options in "--interface vpn0" ""; do
    meet "IPv6 alone, by multicast, ${options:-all interfaces}" "$options" "$options"
done
meet "IPv6 alone, named" "" "--peer [fd77::0]:20000"
for index in 0 1; do
    ip -n "$NETNS_TAG-$index" link set vpn0 multicast off
done
meet "IPv6 without multicast" "" "--peer [fd77::0]:20000"
grep -q "vpn0 cannot broadcast, .* with --peer '\[fd77::\]:20000'$" "$WORK/n0.log" || fail "n0 does not say how others find it: $(cat "$WORK/n0.log")"
for index in 0 1; do
    ip -n "$NETNS_TAG-$index" link del vpn0 2>/dev/null
    ip -n "$NETNS_TAG-$index" link set eth0 up
done
if ip -n "$NETNS_TAG-0" tuntap add dev tun0 mode tun 2>/dev/null; then
    ip -n "$NETNS_TAG-0" addr add 10.8.0.2/24 dev tun0
    ip -n "$NETNS_TAG-0" link set tun0 up
    WHERE[tun]="ip netns exec $NETNS_TAG-0"
    node tun "$WORK/job.yaml" --interface tun0 --peer 10.8.0.1:20000
    finished 60 tun
    grep -q "this node is .*: tun0 10.8.0.2, port" "$WORK/tun.log" || fail "tun0: $(cat "$WORK/tun.log")"
    echo "--interface tun0: listens there"
fi

# A network of its own behind a router, which gives all that leaves it its own address.
command -v nft >/dev/null || {
    echo "NAT: no nft command (nftables), not tried"
    exit 0
}
router() { # RULE ...
    ip netns exec "$NETNS_TAG-nat" nft "$*"
}
netns_add "$NETNS_TAG-nat" && netns_add "$NETNS_TAG-in" || fail "no router"
ip -n "$NETNS_TAG-nat" link add eth0 type veth peer name p8 netns "$NETNS_TAG-sw"
ip -n "$NETNS_TAG-sw" link set p8 master sw0 up
ip -n "$NETNS_TAG-nat" addr add 10.77.0.200/24 broadcast 10.77.0.255 dev eth0
ip -n "$NETNS_TAG-nat" link set eth0 up
ip -n "$NETNS_TAG-in" link add eth0 type veth peer name eth1 netns "$NETNS_TAG-nat"
ip -n "$NETNS_TAG-nat" addr add 10.66.0.1/24 dev eth1
ip -n "$NETNS_TAG-nat" link set eth1 up
ip -n "$NETNS_TAG-in" addr add 10.66.0.2/24 broadcast 10.66.0.255 dev eth0
ip -n "$NETNS_TAG-in" link set eth0 up
ip -n "$NETNS_TAG-in" route add default via 10.66.0.1
ip netns exec "$NETNS_TAG-nat" sysctl -qw net.ipv4.ip_forward=1
if ! { router add table ip nat &&
    router 'add chain ip nat out { type nat hook postrouting priority 100 ; }' &&
    router 'add chain ip nat in { type nat hook prerouting priority -100 ; }' &&
    router add rule ip nat out oifname eth0 masquerade; } 2>"$WORK/why"; then
    echo "NAT: not in this kernel, not tried: $(head -n 1 "$WORK/why")"
    exit 0
fi

# The ports are not forwarded: n1 reaches n0, n0 cannot call back. Both say so, with address and port.
WHERE[n1]="ip netns exec $NETNS_TAG-in"
rm -rf "$WORK"/n[01]
node n0 "$WORK/job.yaml" --peers 2 --interface eth0
node n1 "$WORK/job.yaml" --peers 2 --peer 10.77.0.1:20000
wait_until 60 "n0 to say that it cannot call back" says n0 "10.77.0.200:20000.* reaches this node, but .* NAT"
wait_until 60 "n1 to say that nobody calls back" says n1 "10.77.0.1:20000 \(--peer\) can be reached, but .* TCP port 20000"
router add rule ip nat in iifname eth0 tcp dport 20000-20001 dnat to 10.66.0.2
wait_until 60 "n1 to say that it works" says n1 "10.77.0.1:20000 \(--peer\) answers now"
finished 60 n0 n1
same_hash n0 n1
grep -h "NAT\|answers now" "$WORK/n0.log" "$WORK/n1.log"
[ "$(result n0 peers_max)" = 2 ] || fail "they did not train together through NAT"
echo "NAT: met once the ports are forwarded"
