"""apscheduler: the decisions of its triggers over a day, and the runs of an hour from its job store in SQLite.

Its scheduler takes the time from the module's `datetime`, which stands for virtual time here.
"""

import datetime as clock
import os
import sys
import tempfile
from datetime import timedelta
from zoneinfo import ZoneInfo

from sample import Samples, installed
from schedules import BEGIN, END, expression

base, background, store, executor, cron = installed(
    "apscheduler.schedulers.base",
    "apscheduler.schedulers.background",
    "apscheduler.jobstores.sqlalchemy",
    "apscheduler.executors.debug",
    "apscheduler.triggers.cron",
)
MOST_DECIDED, MOST_RUN = 50, 100
runs = 0


class Clock(clock.datetime):
    """A clock that stands at a moment until it is set."""

    at = BEGIN

    @classmethod
    def now(cls, tz=None):
        return cls.at.astimezone(tz)


def empty():
    """The job: it counts its runs."""
    global runs
    runs += 1


def trigger(no):
    """The trigger of schedule number `no`."""
    text, zone = expression(no)
    return cron.CronTrigger.from_crontab(text, timezone=ZoneInfo(zone))


def decided(samples, n):
    """Each trigger decides about the slots of a day."""
    with samples.phase("decided") as sample:
        for no in range(min(n, MOST_DECIDED)):
            schedule, last = trigger(no), None
            while True:
                last = schedule.get_next_fire_time(last, last + timedelta(microseconds=1) if last else BEGIN)
                if last is None or last >= END:
                    break
                sample["n"] += 1


def run(samples, n, directory):
    """A scheduler runs the jobs of an hour, minute by minute."""
    base.datetime = Clock
    url = "sqlite:///" + os.path.join(directory, "jobs")
    scheduler = background.BackgroundScheduler(
        jobstores={"default": store.SQLAlchemyJobStore(url=url)},
        executors={"default": executor.DebugExecutor()},
        timezone=clock.timezone.utc,
    )
    # Started and paused, its own thread does nothing.
    scheduler.start(paused=True)
    for no in range(min(n, MOST_RUN)):
        scheduler.add_job("__main__:empty", trigger(no), misfire_grace_time=None)
    scheduler.state = base.STATE_RUNNING
    with samples.phase("run") as sample:
        for minute in range(60):
            Clock.at = BEGIN + timedelta(minutes=minute, seconds=1)
            scheduler._process_jobs()
        sample["n"] = runs
    scheduler.shutdown(wait=False)


if __name__ == "__main__":
    count = int(sys.argv[1])
    measured = Samples()
    decided(measured, count)
    with tempfile.TemporaryDirectory() as home:
        run(measured, -(-count // 100), home)
    measured.print()
