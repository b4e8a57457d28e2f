"""strangers.py HOST CONTROL BULK [CASE ...]: what others than nodes may send to the two ports of a node on loopback.

Each case says what it does and must end by itself within its deadline; whether the node minds is for the caller to
see (test_strangers.sh). A case that the node ends early, by closing the connection, is fine.
"""
import os
import resource
import socket
import struct
import sys
import time

HOST = sys.argv[1]
PORTS = [int(port) for port in sys.argv[2:4]]
FROM = os.environ.get("FROM", "127.0.0.2")  # a host without a node; on Linux all of 127/8 is this machine
DEADLINE_S = 5
SILENT = int(os.environ.get("SILENT", 1000))
# ZMTP 3.0: signature, version, mechanism in 20 bytes, as-server, filler; RFC 23.
SIGNATURE = b"\xff" + bytes(7) + b"\x01\x7f"


def greeting(mechanism=b"NULL", major=3, minor=0, server=0):
    return SIGNATURE + bytes([major, minor]) + mechanism.ljust(20, b"\0") + bytes([server]) + bytes(31)


def command(name, body=b""):
    data = bytes([len(name)]) + name + body
    flags = 4 if len(data) < 256 else 6
    size = bytes([len(data)]) if len(data) < 256 else struct.pack(">Q", len(data))
    return bytes([flags]) + size + data


def prop(name, value):
    return bytes([len(name)]) + name + struct.pack(">I", len(value)) + value


def frame(data, more=False, size=None):
    size = len(data) if size is None else size
    return bytes([2 | more]) + struct.pack(">Q", size) + data


def ready(kind, identity=b""):
    return command(b"READY", prop(b"Socket-Type", kind) + prop(b"Identity", identity))


KIND = {0: b"DEALER", 1: b"PUSH"}


class Line:
    """A connection whose errors mean that the node has had enough."""

    def __init__(self, port):
        self.alive = True
        self.socket = socket.create_connection((HOST, PORTS[port]), DEADLINE_S, (FROM, 0))
        self.socket.settimeout(0.5)

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            self.alive = False
        return self.alive

    def drain(self):
        try:
            while self.socket.recv(65536):
                pass
            self.alive = False
        except socket.timeout:
            pass
        except OSError:
            self.alive = False

    def close(self):
        self.socket.close()


def talk(port, *parts):
    line = Line(port)
    for part in parts:
        if not line.send(part):
            break
    line.drain()
    line.close()


def member(port, identity=b""):
    """A connection that has shaken hands as a node would."""
    line = Line(port)
    line.send(greeting())
    line.send(ready(KIND[port], identity))
    return line


def until_closed(line, data, seconds=DEADLINE_S):
    end = time.monotonic() + seconds
    while time.monotonic() < end and line.send(data):
        pass
    line.close()


def silence(port):
    """SILENT connections that say nothing"""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, SILENT + 100), hard))
    lines = [Line(port) for _ in range(SILENT)]
    time.sleep(2.5)  # what is tried: that they are ended after the time a handshake may take
    for line in lines:
        line.close()


def http(port):
    """an HTTP request"""
    talk(port, b"GET / HTTP/1.1\r\nHost: node\r\n\r\n" * 100)


def tls(port):
    """a TLS hello"""
    talk(port, bytes.fromhex("16030100c8010000c40303") + os.urandom(196))


def zmtp1(port):
    """greetings and frames of ZMTP 1.0, with frames of more than 8 KiB"""
    talk(port, b"\x01\x00")
    talk(port, b"\x06\x00hello" * 1000)
    talk(port, b"\xff" + struct.pack(">Q", 9001) + b"\x00" + b"A" * 9000 + b"\x03\x00ab")
    talk(port, b"\xff" + struct.pack(">Q", 1 << 63) + b"\x7f")


def zmtp2(port):
    """greetings of ZMTP 2.0 with all socket types"""
    for kind in range(16):
        talk_quick(port, SIGNATURE + bytes([1, kind]) + b"\x00\x00" + b"\x00\x05hello" * 10)


def talk_quick(port, *parts):
    line = Line(port)
    for part in parts:
        line.send(part)
    line.close()


def mechanisms(port):
    """the mechanisms PLAIN, CURVE, GSSAPI and none that exists"""
    for name in (b"PLAIN", b"CURVE", b"GSSAPI", b"", b"\xff" * 20):
        talk_quick(port, greeting(name), command(b"HELLO", os.urandom(194)), os.urandom(300))
        talk_quick(port, greeting(name, server=1), command(b"INITIATE", os.urandom(250)))
    talk(port, greeting(b"CURVE"), command(b"HELLO", b"\x01\x00" + bytes(72) + os.urandom(120)))


def versions(port):
    """greetings of other versions"""
    for major, minor in ((0, 0), (3, 1), (3, 255), (4, 0), (255, 255)):
        talk_quick(port, greeting(major=major, minor=minor), ready(KIND[port]))


def bytewise(port):
    """a handshake byte by byte, and broken off after each byte"""
    whole = greeting() + ready(KIND[port], b"\x01" + os.urandom(16))
    line = Line(port)
    for i in range(len(whole)):
        line.send(whole[i : i + 1])
    line.close()
    for size in range(len(whole) + 1):
        talk_quick(port, whole[:size])


def slowly(port):
    """a handshake of one byte in 50 ms"""
    line = Line(port)
    end = time.monotonic() + DEADLINE_S
    for byte in greeting() + ready(KIND[port]):
        if time.monotonic() > end or not line.send(bytes([byte])):
            break
        time.sleep(0.05)  # what is tried
    line.close()


def kinds(port):
    """sockets of types that do not belong here, and READY that means nothing"""
    for kind in (b"PUB", b"SUB", b"XSUB", b"REQ", b"REP", b"ROUTER", b"PAIR", b"STREAM", b"", b"X" * 255):
        talk_quick(port, greeting(), ready(kind), frame(b"\x01topic"), frame(b"x"))
    for body in (b"\xff", b"\x05ab", prop(b"Identity", b"x" * 256), b"\x00" * 200, b"\x01a\xff\xff\xff\xff"):
        talk_quick(port, greeting(), command(b"READY", body), frame(b"x"))


def commands(port):
    """commands after READY, also large and unknown ones"""
    for name in (b"READY", b"ERROR", b"SUBSCRIBE", b"CANCEL", b"PING", b"PONG", b"JOIN", b"LEAVE", b"NONSENSE"):
        line = member(port)
        line.send(command(name, os.urandom(40)))
        line.send(command(name, os.urandom(5000)))
        line.send(frame(b"x"))
        line.close()
    talk(port, greeting(), ready(KIND[port]), bytes([6]) + struct.pack(">Q", 1 << 63) + b"\x04PING")


def topics(port):
    """subscriptions of 1 MiB"""
    talk(port, greeting(), ready(b"SUB"), *[frame(b"\x01" + bytes(1 << 20))] * 8)


def huge(port):
    """frames that announce 2^63, 2^64-1 and 2^31 bytes"""
    for size in (1 << 63, (1 << 64) - 1, 1 << 31, (1 << 31) - 1, 1 << 24):
        line = member(port)
        line.send(frame(b"", size=size))
        until_closed(line, bytes(1 << 16), 1)


def empty(port):
    """a million empty frames"""
    line = member(port, b"\x01" + os.urandom(16))
    for _ in range(100):
        if not line.send(b"\0\0" * 10000):
            break
    line.close()


def endless_small(port):
    """a message of small frames without an end"""
    until_closed(member(port), b"\x01\x01x" * 20000)


def endless_large(port):
    """a message of large frames without an end"""
    until_closed(member(port), frame(bytes(60000), more=True) * 4)


def endless_named(port):
    """the same after a valid greeting, as a node that nobody has met"""
    node = b"\x01" + os.urandom(16)
    line = member(port, node + bytes(4))
    if port == 1:
        line.send(frame(node))
    until_closed(line, b"\x01\x01x" * 20000)


def endless_many(port):
    """16 messages without an end at a time"""
    lines = [member(port) for _ in range(16)]
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end and any(line.alive for line in lines):
        for line in lines:
            if line.alive:
                line.send(b"\x01\x01x" * 2000)
    for line in lines:
        line.close()


def noise(port):
    """random bytes, before and after a handshake"""
    for _ in range(20):
        talk_quick(port, os.urandom(2000))
        line = member(port)
        line.send(os.urandom(20000))
        line.close()


def messages(port):
    """a member's first messages that mean nothing"""
    for identity in (b"", b"\x00abc", b"\x01" + bytes(20), b"\x01" + b"\xff" * 20, b"\x01" + os.urandom(20)):
        line = member(port, identity)
        for data in (b"", b"\x90", b"\x92\x01\x05", b"\xdd\x0f\xff\xff\xff", b"\xc1" * 64, b"\x91" * 40, os.urandom(60000)):
            line.send(frame(data))
            line.send(frame(data, more=True) + frame(data))
            line.send(frame(data, more=True) * 20 + frame(data))
        line.close()


def unread(port):
    """a connection that never reads"""
    line = member(port)
    time.sleep(1)  # what is tried
    line.close()


CASES = [silence, http, tls, zmtp1, zmtp2, mechanisms, versions, bytewise, slowly, kinds, commands, topics, huge, empty,
         noise, messages, unread, endless_small, endless_large, endless_named, endless_many]


def main():
    chosen = sys.argv[4:]
    for case in CASES:
        if chosen and case.__name__ not in chosen:
            continue
        for port in (0, 1):
            case(port)
        print(case.__name__, flush=True)


main()
