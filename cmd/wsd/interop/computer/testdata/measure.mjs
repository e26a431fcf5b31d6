// What a server does in a second for the client, and what that costs: one line of JSON for
// each figure. It is no test.
//   node --import ./preload.mjs measure.mjs FOLDER URL [PID-OF-THE-SERVER]
import { readFileSync } from "node:fs";
import { load, storage, collect, drain, sha256 } from "./client.mjs";

const [dir, url, pid] = process.argv.slice(2);
const { Workspace, TestBackend } = await load(dir);
const { rpc } = await new TestBackend({ url }).connect();

// cost is the processor time in seconds of the server so far, and its memory in MiB.
function cost() {
  if (!pid) return {};
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  const rss = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1];
  return { cpu: (Number(fields[11]) + Number(fields[12])) / 100, rss: Math.round(rss / 1024) };
}

// measure prints how many units f does in a second; f returns how many it did.
async function measure(name, unit, f) {
  const before = cost(), own = process.cpuUsage(), began = performance.now();
  const amount = await f();
  const seconds = (performance.now() - began) / 1000, after = cost(), mine = process.cpuUsage(own);
  console.log(JSON.stringify({
    name, unit, perSecond: Number((amount / seconds).toPrecision(4)), seconds: Number(seconds.toFixed(2)),
    clientCPU: Number(((mine.user + mine.system) / 1e6).toFixed(2)),
    ...(pid && { serverCPU: Number((after.cpu - before.cpu).toFixed(2)), serverRSS: after.rss }),
  }));
}

const stream = (make, n) => {
  let i = 0;
  return new ReadableStream({ pull(c) { if (i < n) c.enqueue(make(i++)); else c.close(); } });
};

const objects = [];
for (let i = 0; i < 64; i++) {
  const bytes = new Uint8Array(524288);
  for (let at = 0; at < bytes.length; at += 65536) crypto.getRandomValues(bytes.subarray(at, at + 65536));
  objects.push({ bytes, hash: await sha256(bytes) });
}
const mib = objects.length / 2;
await measure("push objects", "MiB", async () => {
  await rpc.sync.pushObjects(stream((i) => objects[i], objects.length));
  return mib;
});
await measure("fetch objects", "MiB", async () => {
  await collect(await rpc.sync.fetchObjects(objects.map((o) => o.hash)));
  return mib;
});
const entries = 5000, before = await rpc.sync.watermarks();
await measure("push entries", "entries", async () => {
  await rpc.sync.push({ senderRev: 0, changes: stream((i) => ({
    kind: "file", rev: 1, path: `/workspace/measure/${i % 50}/${i}`, mode: 0o644, mtime: 1000, size: 0, chunks: [],
  }), entries) });
  return entries;
});
await measure("list entries", "entries", async () => {
  const { stream } = await rpc.sync.fetchChanges({ after: { rev: before.currentRev, path: null }, ignore: [] });
  return (await collect(stream)).length;
});
await measure("stdout", "MB", async () => {
  const { events } = await rpc.shell.exec({ source: "head -c 33554432 /dev/zero" });
  let size = 0;
  for await (const e of events) if (e.name === "stdout") size += e.value.length;
  return size / 1e6;
});
await measure("commands, raw", "commands", async () => {
  for (let i = 0; i < 100; i++) await collect((await rpc.shell.exec({ source: "true" })).events);
  return 100;
});
const w = new Workspace({ storage: storage(), backends: [new TestBackend({ url })] });
await rpc.sync.push({ senderRev: 0, changes: stream(() => ({ kind: "delete", rev: 1, path: "/workspace/measure" }), 1) });
await measure("pull what is left of it", "entries", async () => {
  await drain(w.pull());
  return entries;
});
await measure("commands with synchronisation", "commands", async () => {
  for (let i = 0; i < 50; i++) await (await w.runtime.exec("true")).result();
  return 50;
});
process.exit(0);
