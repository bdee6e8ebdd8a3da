"""How much of the processors other processes (or, on a virtual machine, other guests) took meanwhile.

Engines whose threads meet at barriers lose far more than that share, so a figure taken beside other
work says little.
"""

import os
import resource
import time
from pathlib import Path

BUSY = 0.05  # a share from which a round is marked


def busy_seconds(text):
    """Seconds that all processors were busy, stolen time included, from the text of /proc/stat."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, text.split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    """Processor time of this process and of the children that ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class OtherWork:
    """Counts from its construction on."""

    def __init__(self, stat=Path("/proc/stat")):
        self.stat = stat
        self.start = self._now()

    def _now(self):
        if not self.stat.exists():
            return None
        with open(self.stat, encoding="ascii") as file:
            return time.monotonic(), busy_seconds(file.readline()), own_seconds()

    def share(self):
        """Of all processors' time since the start; None where the system does not tell."""
        now = self._now()
        if now is None or self.start is None:
            return None
        wall, busy, own = (after - before for before, after in zip(self.start, now))
        return min(1.0, max(0.0, (busy - own) / (wall * os.cpu_count()))) if wall > 0 else 0.0
