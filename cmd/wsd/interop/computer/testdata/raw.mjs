// Sessions of npm's capnweb of one level, over a WebSocket at either address and as
// batches:
//   node --import ./preload.mjs raw.mjs FOLDER PACKAGE URL
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { same, truth, code, check, finish, collect, streamOf, sha256 } from "./client.mjs";

const [dir, name, url] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${dir}/x.js`));
const { newWebSocketRpcSession, newHttpBatchRpcSession } = await import(pathToFileURL(require.resolve(name)));
const text = (events) => Buffer.concat(events.filter((e) => e.name === "stdout").map((e) => e.value)).toString();
const path = `/workspace/raw-${name}`;

for (const at of ["/ws", "/api"]) {
  const stub = newWebSocketRpcSession(new WebSocket(url.replace("http", "ws") + at));
  await check(`${at}: watermarks`, async () => {
    const w = await stub.sync.watermarks();
    truth(Number.isSafeInteger(w.currentRev) && w.currentRev > 0 && w.fetchCursor.path === null, JSON.stringify(w));
    const sync = await stub.sync; // the object itself, and a call of it
    same((await sync.watermarks({ settle: true })).pushRev, 0);
    sync[Symbol.dispose]();
  });
  await check(`${at}: exec by command and by source`, async () => {
    for (const key of ["command", "source"]) {
      const { id, events } = await stub.shell.exec({ [key]: "echo hi; exit 7" });
      const all = await collect(events);
      truth(typeof id === "string" && id !== "", "no id");
      same(text(all), "hi\n");
      const exit = all.at(-1);
      same([exit.name, exit.value, exit.code, exit.seq], ["exit", 7, 7, all.length]);
    }
    const none = await stub.shell.exec({}).then(() => undefined, (err) => err);
    truth(none instanceof Error, "nothing to run");
  });
  await check(`${at}: a run is left and followed again`, async () => {
    const { id, events } = await stub.shell.exec({ source: "for i in 1 2 3 4; do echo $i; sleep 0.2; done" });
    const reader = events.getReader();
    const first = await reader.read();
    same(first.value.seq, 1);
    await reader.cancel("enough");
    let again;
    for (const until = Date.now() + 20000; !again && Date.now() < until;) {
      again = await stub.shell.getExec({ id, after: 1 }).catch((err) => { if (err.code !== "EEXEC_BUSY") throw err; });
    }
    const rest = await collect(again.events);
    same(rest.map((e) => e.seq), rest.map((_, i) => i + 2));
    same(text(rest).endsWith("4\n"), true);
  });
  await check(`${at}: objects and entries`, async () => {
    const bytes = crypto.getRandomValues(new Uint8Array(65536)), hash = await sha256(bytes);
    await stub.sync.pushObjects(streamOf([{ hash, bytes }]));
    same((await stub.sync.hasObjects([hash, new Uint8Array(32), hash])).length, 2);
    const [o] = await collect(await stub.sync.fetchObjects([hash]));
    truth(Buffer.from(o.bytes).equals(Buffer.from(bytes)), "content");
    same(await code(stub.sync.fetchObjects([new Uint8Array(32)])), "EUNKNOWN_HASH");
    const before = await stub.sync.watermarks();
    await stub.sync.push({ senderRev: 0, changes: streamOf([
      { kind: "file", rev: 1, path: path + at, mode: 0o600, mtime: 1000, size: bytes.length, chunks: [{ hash, size: bytes.length }] },
    ]) });
    const { stream, currentCursor } = await stub.sync.fetchChanges({ after: { rev: before.currentRev, path: null } });
    const paths = (await collect(stream)).map((e) => e.path);
    truth(paths.includes(path + at) && currentCursor.rev > before.currentRev, paths.join());
    same(await code(stub.sync.readEntry("../x")), "EINVAL");
  });
  await check(`${at}: a push that breaks`, async () => {
    const changes = new ReadableStream({ start(c) {
      c.enqueue({ kind: "dir", rev: 1, path: "/workspace/never", mode: 0o755, mtime: 1 });
    }, pull(c) { c.error(Object.assign(new Error("mid stream"), { code: "EBROKEN" })); } });
    same(await code(stub.sync.push({ senderRev: 0, changes })), "EBROKEN");
    same(await stub.sync.readEntry("/workspace/never"), null);
  });
  await check(`${at}: a run outlives its socket`, async () => {
    const ws = new WebSocket(url.replace("http", "ws") + at);
    const { id, events } = await newWebSocketRpcSession(ws).shell.exec({ source: "echo 1; sleep 0.5; echo 2" });
    await events.getReader().read();
    ws.close();
    const again = await stub.shell.getExec({ id, after: 1 }); // at once, and not busy
    same(text(await collect(again.events)), "2\n");
  });
  stub[Symbol.dispose]();
}
await check("a batch", async () => {
  const batch = newHttpBatchRpcSession(url + "/api");
  const answers = [batch.sync.watermarks(), batch.sync.readEntry("/workspace/nothing"), batch.sync.readEntry("bad"), batch.shell.exec({ source: "touch batch" })];
  const [marks, entry, bad, exec] = await Promise.allSettled(answers);
  truth(marks.value.currentRev > 0, "no watermarks");
  same(entry.value, null);
  same(bad.reason.code, "EINVAL");
  same(exec.reason.code, "EPROTOCOL");
});
await check("a frame that is none", async () => {
  const ws = new WebSocket(url.replace("http", "ws") + "/api");
  await new Promise((opened) => { ws.onopen = opened; });
  const closed = new Promise((resolve) => { ws.onclose = resolve; });
  ws.send(new Uint8Array([1, 2, 3]));
  same((await closed).code, 3000);
});
finish();
