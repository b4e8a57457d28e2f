"""net_faults.py - one random accident after the other for the nodes of a net.Net.

    faults = Faults(here, random.Random(seed), kill=[2, 3])
    faults.next()         # one accident from beginning to end

An accident: a node is killed, or its machine loses power, and it comes back without its state; a node is stopped and goes on; a node's cable
is cut; the mesh is split in two; one direction between two nodes is cut; a node's link becomes slow. Each has
its length. `down` is the history of what was missing: (from, to, node)."""
import time


class Faults:
    def __init__(self, here, rng, kill=None, kinds=None):
        self.here, self.rng = here, rng
        self.victims = list(range(here.count)) if kill is None else list(kill)
        self.kinds = kinds or ["kill", "power", "pause", "cut", "split", "one-way", "slow"]
        self.count = {kind: 0 for kind in self.kinds}
        self.down = []

    def missing(self, begin, node):
        self.down.append((begin, time.monotonic(), node))

    def kill(self, lasts):
        node = self.rng.choice(self.victims)
        begin = time.monotonic()
        self.here.kill(node)
        self.here.let(lasts)
        self.missing(begin, node)
        self.here.start(node)

    def power(self, lasts):
        """Its machine loses power: nobody closes its connections."""
        node = self.rng.choice(self.victims)
        begin = time.monotonic()
        self.here.switch("groups %d %s" % (node, ",".join(str(i) for i in range(self.here.count) if i != node)))
        self.here.kill(node)
        self.here.let(max(lasts, 3))  # until its kernel says goodbye no more: net.py
        self.here.heal()
        self.missing(begin, node)
        self.here.start(node)

    def pause(self, lasts):
        node = self.rng.randrange(self.here.count)
        begin = time.monotonic()
        self.here.pause(node)
        self.here.let(lasts)
        self.here.resume(node)
        self.missing(begin, node)

    def cut(self, lasts):
        node = self.rng.randrange(self.here.count)
        begin = time.monotonic()
        self.here.switch("carrier %d 0" % node)
        self.here.let(lasts)
        self.here.switch("carrier %d 1" % node)
        self.missing(begin, node)

    def split(self, lasts):
        nodes = list(range(self.here.count))
        self.rng.shuffle(nodes)
        at = self.rng.randrange(1, len(nodes))
        begin = time.monotonic()
        self.here.switch("groups %s %s" % (",".join(map(str, nodes[:at])), ",".join(map(str, nodes[at:]))))
        self.here.let(lasts)
        self.here.heal()
        for node in nodes[:at] if 2 * at < len(nodes) else nodes[at:]:
            self.missing(begin, node)

    def one_way(self, lasts):
        a, b = self.rng.sample(range(self.here.count), 2)
        self.here.switch("line %d %d cut=1" % (a, b))
        self.here.let(lasts)
        self.here.heal()

    def slow(self, lasts):
        node = self.rng.randrange(self.here.count)
        self.here.switch("port %d rate=1000" % node)
        self.here.let(lasts)
        self.here.switch("port %d rate=0" % node)

    def next(self, lasts=None):
        kind = self.rng.choice(self.kinds)
        self.count[kind] += 1
        getattr(self, kind.replace("-", "_"))(self.rng.uniform(0.5, 4) if lasts is None else lasts)
        return kind

    def text(self):
        return ", ".join("%d %s" % (count, kind) for kind, count in self.count.items() if count)
