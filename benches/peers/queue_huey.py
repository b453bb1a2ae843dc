"""huey with SQLite: messages pushed, then run by one worker in this process."""

import os
import sys
import tempfile

from sample import Samples, installed

[huey] = installed("huey")
# Each message is forced to the disk twice; more of them show nothing new.
MOST = 2_000

with tempfile.TemporaryDirectory() as home:
    queue = huey.SqliteHuey(filename=os.path.join(home, "queue"), results=False, fsync=True)

    @queue.task()
    def empty(no):
        """The message: nothing is to be done."""

    samples, n = Samples(), min(int(sys.argv[1]), MOST)
    with samples.phase("all") as sample:
        for no in range(n):
            empty(no)
        while task := queue.dequeue():
            queue.execute(task)
            sample["n"] += 1
    assert sample["n"] == n, sample
    samples.print()
