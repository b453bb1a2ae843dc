// Restate, a server of one node with its data on the disk: executions of three empty steps, one by one, 64 at a time, all
// at once.
//
// The server is a child of this process and has the settings that it has by default. An execution is a call of a handler
// through the server, over HTTP/2; the handler is in this process. Processor time and memory are those of both processes.

// The SDK needs it, and node 20 does not have it.
Promise.withResolvers ??= () => {
  const parts = {};
  parts.promise = new Promise((resolve, reject) => Object.assign(parts, { resolve, reject }));
  return parts;
};

let restate;
let program;
try {
  restate = require("@restatedev/restate-sdk");
  program = require.resolve(`@restatedev/restate-server-${process.platform}-${process.arch}/bin/restate-server`);
} catch {
  process.exit(77);
}

const { spawn } = require("node:child_process");
const { once } = require("node:events");
const fs = require("node:fs");
const http2 = require("node:http2");
const net = require("node:net");
const os = require("node:os");
const path = require("node:path");

// One takes milliseconds; more of them show nothing new.
const n = Math.min(Number(process.argv[2]), 2000);
// Ticks per second in `/proc`: `USER_HZ`, 100 on Linux.
const ticks = 100;
// Calls at a time that the server accepts on one connection.
const callsEach = 200;
const home = fs.mkdtempSync(path.join(os.tmpdir(), "restate-"));
let server;
let ending = false;

// Ends the server, removes its data, and ends this process.
async function end(code) {
  if (ending) return;
  ending = true;
  if (server?.kill("SIGKILL")) await once(server, "exit");
  fs.rmSync(home, { recursive: true, force: true });
  process.exit(code);
}

function failed(error) {
  if (!ending) console.error(error);
  return end(1);
}

// Listens on a free port.
async function listen(on) {
  await once(on.listen(0, "127.0.0.1"), "listening");
  return on.address().port;
}

// Starts the server and waits until it has the handler of the endpoint. Returns the address for calls.
async function start(endpoint) {
  const held = [net.createServer(), net.createServer(), net.createServer()];
  const addresses = (await Promise.all(held.map(listen))).map((port) => `127.0.0.1:${port}`);
  await Promise.all(held.map((one) => once(one.close(), "close")));
  const env = {
    ...process.env,
    TMPDIR: home,
    RESTATE_DISABLE_TELEMETRY: "true",
    RESTATE_BIND_ADDRESS: addresses[0],
    RESTATE_INGRESS__BIND_ADDRESS: addresses[1],
    RESTATE_ADMIN__BIND_ADDRESS: addresses[2],
  };
  const args = ["--listen-mode=tcp", `--base-dir=${home}`, "--log-filter=off"];
  server = spawn(program, args, { env, stdio: ["ignore", "ignore", "inherit"] });
  server.on("error", failed).on("exit", () => failed("the server has ended"));
  const request = {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ uri: `http://127.0.0.1:${endpoint}` }),
  };
  await until(() => fetch(`http://${addresses[2]}/deployments`, request).then((response) => response.ok));
  return `http://${addresses[1]}`;
}

// Tries until it succeeds.
async function until(what) {
  for (let tries = 0; tries < 600; tries += 1) {
    if (await what().catch(() => false)) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error("the server does not answer");
}

// Runs an execution; true if it succeeds.
async function execution(connection) {
  const stream = connection.request({ ":method": "POST", ":path": "/bench/three" }, { endStream: true });
  const [headers] = await once(stream, "response");
  await once(stream.resume(), "close");
  return headers[":status"] < 300;
}

// Processor time of this process and of the server, in seconds.
function cpu() {
  const { user, system } = process.cpuUsage();
  const stat = fs.readFileSync(`/proc/${server.pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (user + system) / 1e6 + (Number(fields[11]) + Number(fields[12])) / ticks;
}

// Peak of the resident memory of both, in MiB.
function peak() {
  const status = fs.readFileSync(`/proc/${server.pid}/status`, "utf8");
  return (process.resourceUsage().maxRSS + Number(/VmHWM:\s*(\d+)/.exec(status)[1])) / 1024;
}

// Measures `n` executions, at most `atOnce` at a time.
async function phase(connections, name, n, atOnce) {
  const latencies = [];
  let left = n;
  const [wall, before] = [performance.now(), cpu()];
  const lane = async (_, no) => {
    while (left > 0) {
      left -= 1;
      const start = performance.now();
      if (!(await execution(connections[no % connections.length]))) throw new Error("an execution failed");
      latencies.push((performance.now() - start) * 1e3);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
  const [secs, spent] = [(performance.now() - wall) / 1e3, cpu() - before];
  latencies.sort((a, b) => a - b);
  const [p50_us, p99_us] = [0.5, 0.99].map((part) => latencies[Math.floor(n * part)]);
  return { phase: name, n, secs, cpu_s: spent, ns_each: (spent * 1e9) / n, peak_rss_mb: peak(), p50_us, p99_us };
}

async function main() {
  const three = async (context) => {
    for (const step of ["a", "b", "c"]) await context.run(step, () => {});
  };
  const services = [restate.service({ name: "bench", handlers: { three } })];
  const endpoint = http2.createServer(restate.createEndpointHandler({ services, logger: () => {} }));
  const url = await start(await listen(endpoint));
  const connections = Array.from({ length: Math.ceil(n / callsEach) }, () => http2.connect(url));
  await until(() => execution(connections[0]));
  const samples = [
    await phase(connections, "one", Math.ceil(n / 10), 1),
    await phase(connections, "64", n, 64),
    await phase(connections, "all", n, n),
  ];
  console.log(JSON.stringify(samples));
  await end(0);
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => end(1));
main().catch(failed);
