"""croniter: the instants of a day, of the first schedules."""

import sys
from zoneinfo import ZoneInfo

from sample import Samples, installed
from schedules import BEGIN, END, expression

[croniter] = installed("croniter")
MOST = 50

samples = Samples()
with samples.phase("next") as sample:
    for no in range(min(int(sys.argv[1]), MOST)):
        cron, zone = expression(no)
        slots = croniter.croniter(cron, BEGIN.astimezone(ZoneInfo(zone)))
        while slots.get_next() < END.timestamp():
            sample["n"] += 1
samples.print()
