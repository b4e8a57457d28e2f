#!/bin/bash
# test_doctor.sh - meshnode doctor on pairs of machines, each pair on a cable of its own: what is broken is named, alone, with
# its remedy, within 5 s; what is sound is found sound, in 51 networks. And a node that is alone says the same.
. "$(dirname "$0")/../support/process.sh"
. "$ROOT/tests/support/netns.sh"
netns_need
command -v nft >/dev/null || skip "no nft command (nftables)"
command -v python3 >/dev/null || skip "no python3"

AT_ONCE=8
LIMIT=5000 # ms; where others compute, or the program is slow, time says little
FILE="b.csv has 2400 bytes there, 2401 here"
read -r load _ </proc/loadavg
if sanitized || [ "${load%.*}" -ge $((2 * $(nproc))) ]; then
    LIMIT=60000
    FILE="($FILE|but other data)"
fi

# --- machines -----------------------------------------------------------------------------------

machine() { # INDEX
    ip netns add "$NETNS_TAG-$1" && ip -n "$NETNS_TAG-$1" link set lo up
}

cable() { # NAME NETWORK: from machine 0 to machine 1
    ip -n "$NETNS_TAG-0" link add "$1" type veth peer name "$1" netns "$NETNS_TAG-1" || return 1
    for index in 0 1; do
        ip -n "$NETNS_TAG-$index" addr add "10.$2.0.$((index + 1))/24" dev "$1"
        ip -n "$NETNS_TAG-$index" link set "$1" up
    done
}

at() { # INDEX COMMAND ...
    ip netns exec "$NETNS_TAG-$1" "${@:2}"
}

trains() { # INDEX NAME OPTION ...: a node in the background; until it listens
    local index=$1 name=$2
    shift 2
    ip netns exec "$NETNS_TAG-$index" "$MESHNODE" "$JOB" --out "$DIR/$name" --threads 1 --peers 9 --set "node.name=$name" "$@" >"$DIR/$name.log" 2>&1 </dev/null &
    RUN+=($!)
    wait_until 20 "$name to run" grep -q "^this node is" "$DIR/$name.log"
}

firewall() { # INDEX RULE
    at "$1" nft "add table ip guard; add chain ip guard in { type filter hook input priority 0 ; }; add rule ip guard in $2"
}

doctor() { # OPTION ...: on machine 0; what a case prepares does not count
    local began status
    began=$(date +%s%N)
    at 0 "$MESHNODE" doctor "$@"
    status=$?
    echo $((($(date +%s%N) - began) / 1000000)) >"$DIR/ms"
    return $status
}

# --- what is broken: the cause, and words of the remedy, are in the name of the case ----------------

broken() { # CASE CAUSE REMEDY
    CASES+=("$1 $2 $3")
}

broken alone nobody "UDP 5670 and TCP 20000 and 20001 through"
alone() {
    doctor
}

broken down no-network "ip link set eth0 up"
down() {
    ip -n "$NETNS_TAG-0" link set eth0 down
    ip -n "$NETNS_TAG-0" addr flush dev eth0
    doctor
}

broken unplugged no-network "Plug in its cable"
unplugged() {
    ip -n "$NETNS_TAG-0" addr flush dev eth0
    ip -n "$NETNS_TAG-1" link set eth0 down
    doctor
}

broken bare no-network "DHCP"
bare() {
    ip -n "$NETNS_TAG-0" addr flush dev eth0
    doctor
}

broken docker bridge "--network host"
docker() {
    ip -n "$NETNS_TAG-0" link set eth0 down
    ip -n "$NETNS_TAG-0" link set eth0 name docker0
    ip -n "$NETNS_TAG-0" link set docker0 up
    doctor
}

broken vpn no-broadcast "--peer ADDRESS:20000"
vpn() {
    ip -n "$NETNS_TAG-0" addr flush dev eth0
    ip -n "$NETNS_TAG-0" addr add 10.77.0.1 peer 10.77.0.2 dev eth0
    doctor
}

broken six no-broadcast "--peer ADDRESS:20000"
six() {
    ip -n "$NETNS_TAG-0" addr flush dev eth0
    ip -n "$NETNS_TAG-0" addr add fd00:77::1/64 dev eth0 nodad
    ip -n "$NETNS_TAG-0" link set eth0 multicast off
    doctor
}

broken group other-group "To join it: --set mesh.group=club"
group() {
    trains 1 pc1 --set mesh.group=club
    doctor
}

broken named_group other-group "leave mesh.group out"
named_group() {
    trains 1 pc1
    doctor --set mesh.group=club --peer 10.77.0.2:20000
}

broken version other-version "Install the same meshnode"
version() {
    ip netns exec "$NETNS_TAG-1" python3 -c '
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
while True:
    s.sendto(b"mnod\x02" + bytes(40), ("10.77.0.255", 5670))
    time.sleep(0.1)' &
    RUN+=($!)
    doctor
}

broken drops tcp-shut-there "Let TCP 20000 and the next port through the firewall there"
drops() {
    trains 1 pc1
    firewall 1 "tcp dport 20000-20999 drop"
    doctor
}

broken rejects tcp-shut-there "Let TCP 20000 and the next port through the firewall there"
rejects() {
    trains 1 pc1
    firewall 1 "tcp dport 20000-20999 reject with tcp reset"
    doctor
}

broken bulk bulk-shut-there "Let TCP 20000 and 20001 through the firewall there"
bulk() {
    trains 1 pc1
    firewall 1 "tcp dport 20001 drop"
    doctor
}

broken here tcp-shut-here "Let TCP 20000 and 20001 through the firewall of this machine"
here() {
    trains 1 pc1
    firewall 0 "tcp dport 20000-20999 drop"
    doctor
}

broken hole wrong-network "ip route get 10.77.0.2"
hole() {
    trains 1 pc1
    ip -n "$NETNS_TAG-0" route add unreachable 10.77.0.2/32
    doctor
}

broken subnet other-network "addresses of one network, as of eth0 10.77.0.1"
subnet() {
    ip -n "$NETNS_TAG-1" addr flush dev eth0
    ip -n "$NETNS_TAG-1" addr add 10.88.0.2/24 dev eth0
    trains 1 pc1
    doctor
}

broken deaf udp-shut-here "Let UDP 5670 and TCP 20000 and 20001 through"
deaf() {
    trains 1 pc1
    firewall 0 "udp dport 5670 drop"
    at 0 nft add rule ip guard in tcp dport 20000-20999 drop
    doctor
}

broken nobody_there name-shut "Does meshnode run there, with port 2020"
nobody_there() {
    doctor --peer 10.77.0.2:2020
}

broken far name-no-route "ip route get 10.99.0.1"
far() {
    doctor --peer 10.99.0.1:20000
}

broken container name-bridge "docker0 is the network of containers"
container() {
    ip -n "$NETNS_TAG-0" link add docker0 type bridge
    ip -n "$NETNS_TAG-0" addr add 172.17.0.1/16 dev docker0
    ip -n "$NETNS_TAG-0" link set docker0 up
    doctor --peer 172.17.0.2:20000
}

broken itself name-loopback "correct the name in /etc/hosts"
itself() {
    printf '127.0.0.1 localhost\n127.0.1.1 pc7\n' >"$DIR/hosts"
    at 0 unshare --mount sh -c "mount --bind '$DIR/hosts' /etc/hosts && exec '$MESHNODE' doctor --peer pc7:20000"
}

broken stranger name-silent "another program on port 2021"
stranger() {
    ip netns exec "$NETNS_TAG-1" python3 -c '
import socket, signal
s = socket.create_server(("10.77.0.2", 2021))
open("'"$DIR"'/listens", "w")
signal.pause()' &
    RUN+=($!)
    wait_until 20 "a stranger to listen" test -e "$DIR/listens"
    doctor --peer 10.77.0.2:2021
}

broken job other-job "train.batch is 96 there, 48 here.*Take the same job"
job() {
    trains 1 pc1
    sed 's/batch: 96/batch: 48/' "$JOB" >"$DIR/other.yaml"
    doctor "$DIR/other.yaml"
}

broken run other-run "run.name is 'small' there, 'other' here"
run() {
    trains 1 pc1
    doctor "$JOB" --set run.name=other
}

broken two two-jobs "Take the same job on all nodes"
two() {
    trains 1 pc1
    trains 1 pc2 --set train.batch=48
    doctor
}

broken data other-data "$FILE.*Copy the data"
data() {
    mkdir -p "$DIR/there" "$DIR/here"
    awk 'BEGIN { for (i = 0; i < 400; i++) print i % 7 "," i % 3 "," i % 2 }' |
        tee "$DIR/there/a.csv" "$DIR/here/a.csv" "$DIR/there/b.csv" | sed '$s/^./10/' >"$DIR/here/b.csv"
    JOB=$DIR/table.yaml
    printf '%s\n' 'run: {name: small}' 'data: {source: csv, file: "*.csv"}' 'model: [dense: 8, relu, dense: 2]' \
        'train: {batch: 24, epochs: 100000, eval_every: 0}' >"$JOB"
    trains 1 pc1 --data "$DIR/there"
    doctor "$JOB" --data "$DIR/here"
}

broken twice same-identity "delete the file identity"
twice() {
    trains 1 pc1
    mkdir "$DIR/pc2"
    cp "$DIR/pc1/identity" "$DIR/pc2/identity"
    trains 1 pc2
    wait_until 20 "pc2 to be told" grep -q "^warning: pc1 (.*) has this node's identity: $DIR/pc2 was copied" "$DIR/pc2.log"
    [ -e "$DIR/pc1/identity" ] && [ ! -e "$DIR/pc2/identity" ] || return 9
    doctor
}

broken full_disk out "Choose another folder: --out DIR"
full_disk() {
    trains 1 pc1
    mkdir "$DIR/small"
    at 0 unshare --mount sh -c "mount -t tmpfs -o size=64k none '$DIR/small' && exec '$MESHNODE' doctor --out '$DIR/small/run'"
}

broken read_only cache "Choose another folder: --cache DIR"
read_only() {
    trains 1 pc1
    mkdir "$DIR/fixed"
    at 0 unshare --mount sh -c "mount -t tmpfs -o ro none '$DIR/fixed' && exec '$MESHNODE' doctor --cache '$DIR/fixed'"
}

broken no_data check "meshnode check JOB"
no_data() {
    trains 1 pc1
    printf '%s\n' 'data: {source: idx, dir: /nowhere}' 'model: [flatten, dense: 10]' >"$DIR/broken.yaml"
    doctor "$DIR/broken.yaml"
}

broken few descriptors "ulimit -n 4096"
few() {
    trains 1 pc1
    (ulimit -n 32 && doctor)
}

# --- what is sound --------------------------------------------------------------------------------

sound() { # CASE
    CASES+=("$1 - ")
}

sound plain
plain() {
    trains 1 pc1
    doctor "$JOB"
}

sound bridges
bridges() {
    container >/dev/null
    ip -n "$NETNS_TAG-0" link add vpn0 type dummy
    ip -n "$NETNS_TAG-0" addr add 10.8.0.2/32 dev vpn0
    ip -n "$NETNS_TAG-0" link set vpn0 up
    trains 1 pc1
    doctor
}

sound cards
cards() {
    cable eth1 78
    trains 1 pc1
    doctor "$JOB" >"$DIR/cards.log" || return
    cat "$DIR/cards.log"
    grep -q "^note: two-routes: one node is heard at 10.7[78].0.2 and at 10.7[78].0.2" "$DIR/cards.log"
}

sound neighbours
neighbours() {
    trains 1 pc1
    trains 1 pc2 --set mesh.group=club
    doctor
}

sound given
given() {
    ip -n "$NETNS_TAG-0" addr flush dev eth0
    ip -n "$NETNS_TAG-0" addr add 10.77.0.1 peer 10.77.0.2 dev eth0
    trains 1 pc1
    doctor --peer 10.77.0.2:20000
}

sound here_too
here_too() {
    trains 0 pc0
    trains 1 pc1
    doctor "$JOB" --peer 127.0.0.1:20000
}

sound half_deaf
half_deaf() { # who is heard by the other one is found
    trains 1 pc1
    firewall 0 "udp dport 5670 drop"
    doctor
}

sound loaded
loaded() {
    [ $LIMIT = 5000 ] || return 77 # it is, by others
    for _ in 1 2 3 4; do
        (while :; do :; done) &
        RUN+=($!)
    done
    trains 1 pc1
    doctor
}

# The doctor and who it looks for run only when nobody else wants a CPU, as at a load of 1000. That takes its time, and
# all CPUs.
[ "${ALL:-0}" = 0 ] || sound starved
starved() {
    command -v chrt >/dev/null || return 77
    for _ in $(seq "$(nproc)"); do
        (while :; do :; done) &
        RUN+=($!)
    done
    trains 1 pc1
    chrt --idle --all-tasks --pid 0 "${RUN[-1]}" || return 77
    at 0 chrt --idle 0 "$MESHNODE" doctor
}

# What sound networks have beside the one that counts, in any combination.
mix() { # BITS
    local own=()
    if (($1 & 1)); then # containers
        ip -n "$NETNS_TAG-0" link add docker0 type bridge
        ip -n "$NETNS_TAG-0" addr add 172.17.0.1/16 dev docker0
        ip -n "$NETNS_TAG-0" link set docker0 up
    fi
    if (($1 & 2)); then # a VPN
        ip -n "$NETNS_TAG-0" link add vpn0 type dummy
        ip -n "$NETNS_TAG-0" addr add 10.8.0.2/32 dev vpn0
        ip -n "$NETNS_TAG-0" link set vpn0 up
    fi
    (($1 & 4)) && cable eth1 78
    if (($1 & 8)); then # IPv6 beside IPv4
        ip -n "$NETNS_TAG-0" addr add fd00:77::1/64 dev eth0 nodad
        ip -n "$NETNS_TAG-1" addr add fd00:77::2/64 dev eth0 nodad
    fi
    trains 1 pc1
    (($1 & 16)) && trains 1 other --set mesh.group=club
    (($1 & 32)) && own=("$JOB")
    doctor "${own[@]}"
}
for bits in $(today 10 $(seq 0 63)); do
    eval "mix_$bits() { mix $bits; }"
    sound "mix_$bits"
done

# --- all of them ----------------------------------------------------------------------------------

judge() { # CASE CAUSE REMEDY STATUS MS
    local log=$DIR/doctor.log count
    count=$(grep -c "^wrong: " "$log")
    [ "$4" != 77 ] || { echo "$1: not tried"; return 0; }
    [ "$5" -le "$LIMIT" ] || { echo "$1: $5 ms"; return 1; }
    if [ "$2" = - ]; then
        [ "$4" = 0 ] && [ "$count" = 0 ] && grep -q "^all is well$" "$log" && grep -q "^good: pc" "$log"
    else
        [ "$4" = 1 ] && [ "$count" = 1 ] && grep -Eq -- "^wrong: $2: .*$3" "$log"
    fi || { echo "$1: expected $2, $3; status $4: $(cat "$log")"; return 1; }
    echo "$1: $5 ms, $(grep -m 1 "^wrong: " "$log" || echo sound)"
}

try() { # CASE CAUSE REMEDY
    local status
    NETNS_TAG=$NETNS_TAG-$1 DIR=$WORK/$1
    RUN=()
    mkdir -p "$DIR"
    machine 0 && machine 1 && cable eth0 77 || return 1
    "$1" >"$DIR/doctor.log" 2>&1
    status=$?
    judge "$1" "$2" "$3" $status "$(cat "$DIR/ms" 2>/dev/null || echo 0)" >"$DIR/verdict" || touch "$WORK/bad"
    [ ${#RUN[@]} = 0 ] || { kill -9 "${RUN[@]}" && wait "${RUN[@]}"; } 2>/dev/null
    ip netns del "$NETNS_TAG-0"
    ip netns del "$NETNS_TAG-1"
}

write_job "$WORK/job.yaml" 100000
JOB=$WORK/job.yaml
for one in "${CASES[@]}"; do
    read -r name cause remedy <<<"$one"
    [ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue
    TRIED=$((${TRIED:-0} + 1))
    (trap - EXIT; try "$name" "$cause" "$remedy") &
    while [ "$(jobs -rp | wc -l)" -ge $AT_ONCE ]; do wait -n; done
done
wait
cat "$WORK"/*/verdict
[ "$(cat "$WORK"/*/verdict | wc -l)" -ge "${TRIED:-1}" ] || fail "a case came to no verdict"
[ ! -e "$WORK/bad" ] || fail "a wrong finding"
