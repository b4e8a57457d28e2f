#!/bin/bash
# test_waiting.sh - a mesh that does not form says why. Three machines on one switch: a job that waits for three nodes,
# a helper, and a late one; then a cable is pulled and plugged in. Names and addresses that lead nowhere. A firewall
# between two nodes that hear one another: both end with the same weights, and say that they trained alone.
. "$(dirname "$0")/../support/process.sh"
. "$ROOT/tests/support/netns.sh"
netns_need
netns_up 3 || fail "no namespaces"

LINK=
NODES=(n0 n1 n2)
for index in 0 1 2; do
    WHERE[n$index]="ip netns exec $NETNS_TAG-$index"
done
WHERE[lonely]=${WHERE[n2]}

said() { # NAME PATTERN: once
    local count
    count=$(grep -Ec "$2" "$WORK/$1.log")
    [ "$count" = 1 ] || fail "$1 says '$2' $count times, expected once"
    grep -E "$2" "$WORK/$1.log"
}

# A helper that nobody answers, and a name and an address that lead nowhere, while two of three wait for the third.
write_job "$WORK/job.yaml" 100000
node n0 "$WORK/job.yaml" --peers 3 --set node.name=pc0 --peer nosuchhost.invalid:20000 --peer 10.77.0.99:20000
node n1 "" --peers 3 --set node.name=pc1
group=$GROUP
GROUP=$group-nobody
node lonely ""
GROUP=$group
wait_until 60 "n0 to say for whom it waits" says n0 "^waiting for 3 nodes: 2 are here \(pc0, pc1\): 0:"
wait_until 60 "n0 to miss the name" says n0 "cannot find the address of nosuchhost.invalid \(--peer\): trying again"
wait_until 60 "n0 to miss the address" says n0 "no answer from 10.77.0.99:20000 \(--peer\) for 5 s"
wait_until 60 "n0 to say what to check" says n0 "2 of 3 nodes are here after 5 s.* UDP 5670 and TCP 20000 and 20001 through"
wait_until 60 "the lonely helper to say whom it hears" says lonely "10.77.0.[12]:20000 is of another mesh: its mesh.group is another one"
! says lonely "nobody answers" || fail "the lonely helper hears two nodes"
said n0 "2 of 3 nodes are here"
said n0 "nosuchhost"
said n0 "10.77.0.99"
grep -E "^(looking|waiting) for" "$WORK/lonely.log" "$WORK/n0.log" | sed 's/.*\.log://'
kill_node lonely

# The late one comes, and the address has a node after all.
ip -n "$NETNS_TAG-2" addr add 10.77.0.99/24 dev eth0
node n2 "$WORK/job.yaml" --peers 3 --set node.name=pc2
wait_until 60 "three nodes to train" trains_with 3 "${NODES[@]}"
wait_until 60 "n0 to say that the address answers" says n0 "10.77.0.99:20000 \(--peer\) answers now"

netns_cut 2
wait_until 60 "two nodes to go on" trains_with 2 n0 n1
wait_until 60 "n2 to go on alone" trains_with 1 n2
netns_mend 2
wait_until 60 "three nodes to train again" trains_with 3 "${NODES[@]}"
for name in "${NODES[@]}"; do
    kill -TERM "${PID[$name]}"
done
wait_until 30 "all to stop" gone "${NODES[@]}"
PID=()

command -v nft >/dev/null || {
    echo "a firewall: no nft command (nftables), not tried"
    exit 0
}
firewall() { # RULE ...
    ip netns exec "$NETNS_TAG-1" nft "$*"
}
if ! { firewall add table ip filter && firewall 'add chain ip filter in { type filter hook input priority 0 ; }' &&
    firewall add rule ip filter in tcp dport 20000-20999 drop; } 2>"$WORK/why"; then
    echo "a firewall: not in this kernel, not tried: $(head -n 1 "$WORK/why")"
    exit 0
fi

# A firewall on n1 lets nobody connect to it. It connects to n0, and hears it; they never meet.
rm -rf "$WORK"/n[01]
write_job "$WORK/job.yaml" 150
node n0 "$WORK/job.yaml" --set node.name=pc0
node n1 "$WORK/job.yaml" --set node.name=pc1
finished 120 n0 n1
same_hash n0 n1
for name in n0 n1; do
    other=10.77.0.$((2 - ${name#n}))
    said $name "this node trained alone: it heard .*$other:20000"
    python3 - "$WORK/$name/result.json" "$other:20000" <<'END' || fail "$name does not tell in result.json whom it missed"
import json, sys
result = json.load(open(sys.argv[1]))
print(sys.argv[1][-14:], "alone:", result["alone"], "unmet:", result["unmet"])
sys.exit(result["alone"] is not True or [peer["address"] for peer in result["unmet"]] != [sys.argv[2]])
END
done

# The same while they wait for one another: each says how far they come.
rm -rf "$WORK"/n[01]
node n0 "$WORK/job.yaml" --peers 2 --set node.name=pc0
node n1 "$WORK/job.yaml" --peers 2 --set node.name=pc1
wait_until 60 "n0 to say that it cannot reach n1" says n0 "pc1 \(10.77.0.2:20000\) reaches this node, but"
wait_until 60 "n1 to say that n0 cannot reach it" says n1 "10.77.0.1:20000 can be reached, but cannot reach this node"
wait_until 60 "the live line to say so" says n0 "waiting for 2 nodes: 1 is here .* not reached: pc1"
said n0 "reaches this node"
said n1 "can be reached"
firewall flush chain ip filter in
finished 120 n0 n1
same_hash n0 n1
[ "$(result n0 alone)" = false ] || fail "n0 trained with n1, and says that it was alone"
echo "together once the firewall is down"

# Firewalls on both let nothing in that was not asked for: each says once what they must let through, also the one that
# has the job, and trains.
drop() { # INDEX
    ip netns exec "$NETNS_TAG-$1" nft "add table ip guard; add chain ip guard in { type filter hook input priority 0 ; policy drop ; };
        add rule ip guard in ct state established accept"
}
if ! { drop 0 && drop 1; } 2>"$WORK/why"; then
    echo "two firewalls: not in this kernel, not tried: $(head -n 1 "$WORK/why")"
    exit 0
fi
rm -rf "$WORK"/n[01]
write_job "$WORK/job.yaml" 100000
node n0 "$WORK/job.yaml" --set node.name=pc0
node n1 "" --set node.name=pc1
wait_until 60 "the helper to say what to check" says n1 "nobody answers.* UDP 5670 and TCP 20000 and 20001 through"
wait_until 60 "n0 to say that it trains alone" says n0 "trains alone: nobody answers.* UDP 5670 and TCP 20000 and 20001 through"
for index in 0 1; do
    ip netns exec "$NETNS_TAG-$index" nft delete table ip guard
done
wait_until 60 "two nodes to train" trains_with 2 n0 n1
said n0 "nobody answers"
said n1 "nobody answers"
kill_node n0
kill_node n1
