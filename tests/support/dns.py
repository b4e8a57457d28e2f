#!/usr/bin/env python3
"""dns.py ADDRESS NAME=ADDRESS ... - a name server at UDP port 53 of ADDRESS that knows these names, and no others.

    ip netns exec ... tests/support/dns.py 10.99.0.1 pc1.example=10.99.0.1 &

A name may have several addresses, of IPv4 and IPv6: name it several times. It says "ready" when it answers, and then what
it is asked: "pc1.example A"."""
import ipaddress, socket, struct, sys

TYPES = {1: 'A', 28: 'AAAA'}
NO_SUCH_NAME = 3


def question(packet):
    """The name that is asked for, its type, and the bytes of the question."""
    labels, at = [], 12
    while packet[at]:
        labels.append(packet[at + 1:at + 1 + packet[at]].decode('ascii').lower())
        at += 1 + packet[at]
    kind, = struct.unpack_from('>H', packet, at + 1)
    return '.'.join(labels), kind, packet[12:at + 5]


def answer(packet, known):
    name, kind, asked = question(packet)
    print(name, TYPES.get(kind, kind), flush=True)
    addresses = [a for a in known.get(name, []) if {4: 1, 6: 28}[a.version] == kind]
    flags = 0x8580 | (0 if name in known else NO_SUCH_NAME)
    records = b''.join(struct.pack('>HHHIH', 0xC00C, kind, 1, 60, len(a.packed)) + a.packed for a in addresses)
    return packet[:2] + struct.pack('>HHHHH', flags, 1, len(addresses), 0, 0) + asked + records


def main():
    known = {}
    for name, address in (pair.split('=') for pair in sys.argv[2:]):
        known.setdefault(name, []).append(ipaddress.ip_address(address))
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((sys.argv[1], 53))
    print('ready', flush=True)
    while True:
        packet, client = server.recvfrom(512)
        server.sendto(answer(packet, known), client)


main()
