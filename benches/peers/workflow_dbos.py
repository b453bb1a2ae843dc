"""dbos with SQLite: executions of three empty steps, one by one, 64 at a time, all at once."""

import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from sample import Samples, installed

[dbos] = installed("dbos")
# One takes milliseconds; more of them show nothing new.
MOST = 200


@dbos.DBOS.step()
def empty():
    """A step: nothing is to be done."""


@dbos.DBOS.workflow()
def three():
    """The workflow."""
    empty()
    empty()
    empty()


def execution(_):
    """Runs an execution and returns how long it took."""
    start = time.perf_counter()
    dbos.DBOS.start_workflow(three).get_result()
    return time.perf_counter() - start


def phase(samples, name, n, at_once):
    """Measures `n` executions, at most `at_once` at a time."""
    with ThreadPoolExecutor(at_once) as threads, samples.phase(name) as sample:
        sample["latencies"] = list(threads.map(execution, range(n)))
        sample["n"] = n


def main():
    """Measures the phases."""
    n = min(int(sys.argv[1]), MOST)
    with tempfile.TemporaryDirectory() as home:
        url = "sqlite:///" + os.path.join(home, "dbos")
        dbos.DBOS(config={"name": "bench", "system_database_url": url, "log_level": "CRITICAL", "run_admin_server": False})
        dbos.DBOS.launch()
        samples = Samples()
        phase(samples, "one", -(-n // 10), 1)
        phase(samples, "64", n, 64)
        phase(samples, "all", n, n)
        dbos.DBOS.destroy()
    samples.print()


main()
