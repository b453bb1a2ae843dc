// graphile-worker with PostgreSQL: messages pushed, 64 at a time, then run by one worker in this process.

let worker;
try {
  worker = require("graphile-worker");
} catch {
  process.exit(77);
}

const n = Math.min(Number(process.argv[2]), 20000);
const connectionString = process.argv[3];
const atOnce = 64;
const logger = new worker.Logger(() => () => {});

async function push(utils) {
  for (let first = 0; first < n; first += atOnce) {
    const lot = [];
    for (let no = first; no < Math.min(first + atOnce, n); no += 1) {
      lot.push(utils.addJob("empty", { no }));
    }
    await Promise.all(lot);
  }
}

async function run() {
  let done = 0;
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  const empty = async () => {
    done += 1;
    if (done === n) finish();
  };
  const runner = await worker.run({
    connectionString,
    logger,
    concurrency: atOnce,
    maxPoolSize: 16,
    noHandleSignals: true,
    taskList: { empty },
  });
  await finished;
  // Ends when the last message is recorded as done.
  await runner.stop();
}

async function main() {
  const utils = await worker.makeWorkerUtils({ connectionString, logger });
  await utils.migrate();
  const [wall, cpu] = [process.hrtime.bigint(), process.cpuUsage()];
  await push(utils);
  await run();
  const secs = Number(process.hrtime.bigint() - wall) / 1e9;
  const spent = process.cpuUsage(cpu);
  const cpuSecs = (spent.user + spent.system) / 1e6;
  await utils.release();
  const sample = {
    phase: "all",
    n,
    secs,
    cpu_s: cpuSecs,
    ns_each: (cpuSecs * 1e9) / n,
    peak_rss_mb: process.resourceUsage().maxRSS / 1024,
  };
  console.log(JSON.stringify([sample]));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
