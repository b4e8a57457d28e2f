#!/bin/bash
# power.sh - disks that lose power, for process tests (root): what was not synced is gone, as it would be on a machine.
#
#     . "$(dirname "$0")/../support/power.sh"       # first: the test begins again in a mount namespace of its own
#     . "$(dirname "$0")/../support/process.sh"
#     disks a b c                     # $WORK/a is a file system of its own, and so on; or the test is skipped; DISK_SIZE=64M
#     node a "$WORK/job.yaml"
#     power_cut a b c                 # all at once: what the kernel had not written is lost; the nodes are dead
#     node a "$WORK/job.yaml"         # the disk is there again, as a journal of ext4 gives it back
#
# ext4 has a call for this, with which xfstests makes a crash: from then on nothing is written, not even its journal.

# A disk comes back only when nobody has it mounted any more, and other namespaces keep what they have copied from ours.
if [ "${POWER_NAMESPACE:-}" = "" ]; then
    export POWER_NAMESPACE=1
    unshare -m true 2>/dev/null && exec unshare -m "$0" "$@"
fi

GOING_DOWN=0x8004587d # EXT4_IOC_SHUTDOWN
DISKS=()

disks() { # NAME ...
    local name
    trap 'status=$?; disks_off; (exit $status); clean_up' EXIT
    command -v mkfs.ext4 >/dev/null && command -v python3 >/dev/null || skip "no power cuts without mkfs.ext4 and python3"
    for name; do
        mkdir -p "$WORK/$name"
        truncate -s "${DISK_SIZE:-64M}" "$WORK/$name.img"
        mkfs.ext4 -q -F "$WORK/$name.img" || skip "mkfs.ext4 failed"
        disk_on "$name" || skip "no power cuts: mounting a file as a disk needs root and loop devices"
        DISKS+=("$name")
    done
    mkdir -p "$WORK/probe"
    power_off "$1" 2>/dev/null || skip "no power cuts: this kernel cannot stop an ext4 at once"
    disk_back "$1"
}

disk_on() { # NAME; what it holds is written when it is synced, or after minutes
    mount -o loop,commit=300 "$WORK/$1.img" "$WORK/$1" 2>/dev/null
}

disk_back() { # NAME; nobody uses it any more
    umount "$WORK/$1" || fail "$1: its disk is in use"
    disk_on "$1" || fail "$1: its disk does not come back"
}

disks_off() {
    local name
    for name in "${DISKS[@]}"; do
        umount -l "$WORK/$name" 2>/dev/null # a node may still run
    done
}
power_off() { # NAME ...
    (cd "$WORK" && python3 -c "
import fcntl, os, struct, sys
disks = [os.open(name, os.O_RDONLY) for name in sys.argv[1:]]
for disk in disks:
    fcntl.ioctl(disk, $GOING_DOWN, struct.pack('I', 2))" "$@")
}

power_cut() { # NAME ...: of nodes that run
    local name
    power_off "$@" || fail "the power of $* cannot be cut"
    for name; do
        kill_node "$name"
        disk_back "$name"
        find "$WORK/$name" -mindepth 1 -name lost+found -exec rmdir {} + 2>/dev/null
    done
}
