"""torch_hivemind.py - hivemind's averager around a network: after each step all ranks average their parameters."""
import os
import time
import warnings

warnings.filterwarnings("ignore", category=FutureWarning)
os.environ.setdefault("HIVEMIND_LOGLEVEL", "ERROR")

import hivemind  # noqa: E402
from hivemind.averaging import DecentralizedAverager  # noqa: E402

MEET_S = 60
SEARCH_S, ASK_S = 0.5, 0.3  # of looking for a group; hivemind's 5 and 3 are for the internet


def wait_for(path):
    end = time.monotonic() + MEET_S
    while not os.path.exists(path):
        if time.monotonic() > end:
            raise TimeoutError("rank 0 has not said where it is in %d s" % MEET_S)
        time.sleep(0.05)
    with open(path) as file:
        return file.read().split()


class Averager:
    """All ranks on one DHT, which rank 0 begins; they find it in the file `meet`."""

    def __init__(self, net, rank, ranks, host, meet):
        self.ranks, self.steps, self.whole, self.why = ranks, 0, 0, "some were missing"
        first = wait_for(meet) if rank else []
        self.dht = hivemind.DHT(host_maddrs=["/ip4/%s/tcp/0" % host], initial_peers=first, start=True)
        if not rank:
            with open(meet + ".new", "w") as file:
                file.write("\n".join(str(address) for address in self.dht.get_visible_maddrs()))
            os.rename(meet + ".new", meet)
        self.averager = DecentralizedAverager([p.data for p in net.parameters()], self.dht, prefix="bench", start=True,
                                              target_group_size=ranks, min_group_size=ranks,
                                              min_matchmaking_time=SEARCH_S, request_timeout=ASK_S)

    def step(self):
        self.steps += 1
        try:
            found = self.averager.step(gather=0, timeout=MEET_S, allow_retries=True)
        except Exception as error:  # of several kinds; the step is not counted as one of all
            found, self.why = None, str(error)
        self.whole += found is not None and len(found) == self.ranks

    def shutdown(self):
        self.averager.shutdown()
        self.dht.shutdown()
