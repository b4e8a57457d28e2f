#!/usr/bin/env python3
"""peak.py FILE COMMAND...: runs the command, writes the most memory that it held, in KiB, to FILE, and ends as it does."""
import os
import sys

child = os.spawnvp(os.P_NOWAIT, sys.argv[2], sys.argv[2:])
_, status, usage = os.wait4(child, 0)
with open(sys.argv[1], "w", encoding="ascii") as out:
    out.write("%d\n" % usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status) & 255)
