"""Measures a phase of a peer, and prints the samples of all phases as the harness reads them."""

import contextlib
import importlib
import json
import resource
import sys
import time


def installed(*packages):
    """Ends the script with the code for "left out" if one of these packages is not installed."""
    try:
        return [importlib.import_module(package) for package in packages]
    except ImportError:
        sys.exit(77)


class Samples:
    """The samples of a script, one for each phase."""

    def __init__(self):
        self.all = []

    @contextlib.contextmanager
    def phase(self, name):
        """Measures what is done inside. The caller fills in `n`, and `latencies` in seconds if there are any."""
        sample = {"phase": name, "n": 0, "latencies": []}
        wall, cpu = time.perf_counter(), time.process_time()
        yield sample
        spent = time.process_time() - cpu
        sample["secs"], sample["cpu_s"] = time.perf_counter() - wall, spent
        sample["ns_each"] = spent * 1e9 / max(sample["n"], 1)
        sample["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        latencies = sorted(sample.pop("latencies"))
        if latencies:
            sample["p50_us"] = latencies[len(latencies) // 2] * 1e6
            sample["p99_us"] = latencies[min(len(latencies) * 99 // 100, len(latencies) - 1)] * 1e6
        self.all.append(sample)

    def print(self):
        """Prints the samples."""
        print(json.dumps(self.all))
