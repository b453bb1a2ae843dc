"""procrastinate with PostgreSQL: messages pushed, 64 at a time, then run by one worker in this process."""

import asyncio
import logging
import sys

from sample import Samples, installed

[procrastinate] = installed("procrastinate")
logging.disable(logging.CRITICAL)
AT_ONCE = 64
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=sys.argv[2], max_size=16))


@app.task(name="empty")
async def empty(no):
    """The message: nothing is to be done."""


async def main(n):
    """Pushes and runs `n` messages."""
    samples = Samples()
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        with samples.phase("all") as sample:
            for first in range(0, n, AT_ONCE):
                lot = range(first, min(first + AT_ONCE, n))
                await asyncio.gather(*(empty.defer_async(no=no) for no in lot))
            await app.run_worker_async(wait=False, concurrency=AT_ONCE, install_signal_handlers=False)
            sample["n"] = n
    samples.print()


asyncio.run(main(min(int(sys.argv[1]), 2_000)))
