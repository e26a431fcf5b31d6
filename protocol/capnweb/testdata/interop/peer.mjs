// A capnweb peer of the real package, driven by interop_test.go.
//   node peer.mjs PACKAGE client URL        calls the Go server, prints what it sees
//   node peer.mjs PACKAGE batch URL         the same over an HTTP batch
//   node peer.mjs PACKAGE server            serves; prints its port, then the Go client calls
// Each check is one line "ok NAME" or "FAILED NAME: why".
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import http from "node:http";

const [pkg, role, url] = process.argv.slice(2);
const require = createRequire(pathToFileURL(process.env.CAPNWEB_DIR + "/x.js"));
const { WebSocket, WebSocketServer } = require("ws");
globalThis.WebSocket ??= WebSocket;
Symbol.dispose ??= Symbol.for("nodejs.dispose");
Promise.withResolvers ??= function () {
  let resolve, reject;
  const promise = new Promise((yes, no) => { resolve = yes; reject = no; });
  return { promise, resolve, reject };
};
const capnweb = await import(pathToFileURL(require.resolve(pkg)));
const { RpcTarget, newWebSocketRpcSession, newHttpBatchRpcSession } = capnweb;
const level = Number(pkg.split("-")[1]); // 8, 10, 12

const show = (v) => JSON.stringify(v, (_, x) =>
  typeof x === "bigint" ? `${x}n` : x === undefined ? "undefined" : x);
function same(got, want) {
  if (show(got) !== show(want)) throw new Error(`got ${show(got)}, want ${show(want)}`);
}
async function fails(promise, check) {
  try {
    await promise;
  } catch (err) {
    return check(err);
  }
  throw new Error("no error");
}
async function check(name, f) {
  let timer;
  const late = new Promise((_, no) => { timer = setTimeout(() => no(new Error("takes too long")), 20000); });
  try {
    await Promise.race([f(), late]);
    console.log(`ok ${name}`);
  } catch (err) {
    console.log(`FAILED ${name}: ${err?.stack ?? err}`);
  }
  clearTimeout(timer);
}
const readAll = async (stream) => {
  const out = [];
  for await (const item of stream) out.push(item);
  return out;
};
const streamOf = (items) => new ReadableStream({
  pull(c) { items.length ? c.enqueue(items.shift()) : c.close(); },
});
const chunk = (n) => new Uint8Array(n).map((_, i) => i);

async function values(stub) {
  await check("values", async () => {
    for (const v of [null, true, 0, -1.5, 1e300, "s\u0000\ud83d\ude00", [], [1, [2, []]], { a: { b: [] } }, 5n, -(2n ** 70n)]) {
      same(await stub.echo(v), v);
    }
    same(await stub.echo(undefined), undefined);
    same(Number.isNaN(await stub.echo(NaN)), true);
    same([await stub.echo(Infinity) === Infinity, await stub.echo(-Infinity) === -Infinity], [true, true]);
    same((await stub.echo(new Date(1234567890123))).getTime(), 1234567890123);
    same(Number.isNaN((await stub.echo(new Date(NaN))).getTime()), true);
  });
  await check("bytes", async () => {
    for (const n of [0, 1, 2, 3, 31, 32, 33, 1000, 524288]) {
      const got = await stub.echo(chunk(n));
      same(Buffer.compare(Buffer.from(got), Buffer.from(chunk(n))), 0);
    }
  });
  await check("deep values", async () => {
    let v = 1;
    for (let i = 0; i < 60; i++) v = i % 2 ? [v] : { v };
    same(await stub.echo(v), v);
  });
  if (level >= 12) await check("byte containers", async () => {
    const got = await stub.echo(new Uint16Array([1, 2, 65535]));
    same([got.constructor.name, [...got]], ["Uint16Array", [1, 2, 65535]]);
    await fails(stub.echo(new URL("http://x/")), (err) => same(err.name, "TypeError"));
  });
  await check("errors", async () => {
    await fails(stub.fail("ENOENT"), (err) => same([err instanceof Error, err.message, err.code, err.path], [true, "no ENOENT", "ENOENT", "/p"]));
    await fails(stub.secret(), (err) => same(err.message, "internal error"));
    await fails(stub.throw("just a string"), (err) => same(err, "just a string"));
    await fails(stub.sync.nosuch(), (err) => same([err.name, err.message], ["TypeError", "'sync.nosuch' is not a function."]));
    await fails(stub.nosuch.more(), (err) => same(err.name, "TypeError"));
    const e = Object.assign(new RangeError("m"), { code: "X", cause: new Error("c") });
    const got = await stub.echo(e);
    same([got.name, got.message, got.code, got.cause.message], ["RangeError", "m", "X", "c"]);
  });
}

async function client() {
  const ws = new WebSocket(url);
  const stub = newWebSocketRpcSession(ws);
  await values(stub);
  await check("two-level calls and properties", async () => {
    same(await stub.sync.watermarks(), { currentRev: 7, fetchCursor: { rev: 0, path: null } });
    same(await stub.sync.limit, 5);
    const sub = await stub.sync;
    same((await sub.watermarks()).currentRev, 7);
    sub[Symbol.dispose]();
  });
  await check("pipelining", async () => {
    const obj = stub.makeObject();
    same(await Promise.all([obj.next(), obj.next(), obj.next()]), [1, 2, 3]);
    obj[Symbol.dispose]();
    const marks = stub.sync.watermarks();
    const sum = stub.add(1, 2);
    same(await stub.add(marks.currentRev, 3), 10);
    same(await stub.echo({ deep: [sum] }), { deep: [3] });
    marks[Symbol.dispose]();
    sum[Symbol.dispose]();
  });
  await check("map", async () => {
    const users = stub.users();
    const rows = stub.echo([[1, 2], [3]]);
    same(await users.map((u) => ({ id: u.id, n: u.obj.next(), two: stub.add(u.id, u.id) })),
      [{ id: 1, n: 1, two: 2 }, { id: 2, n: 1, two: 4 }]);
    same(await rows.map((row) => row.map((n) => stub.add(n, 1))), [[2, 3], [4]]);
    users[Symbol.dispose]();
    rows[Symbol.dispose]();
  });
  await check("callbacks", async () => {
    same(await stub.callBack((v) => v * 2, 21), 42);
    class Back extends RpcTarget { twice(n) { return n * 2; } }
    const back = stub.returnBack(new Back()); // cannot be awaited: it is not at the other end
    same(await back.twice(4), 8);
    back[Symbol.dispose]();
  });
  await check("a stream in a result", async () => {
    const { id, events } = await stub.count(5, 10);
    const got = await readAll(events);
    same([id, got.map((e) => e.seq), got[0].data.length], ["r", [1, 2, 3, 4, 5], 10]);
    same(await readAll(await stub.bare(0)), []);
    same((await readAll(await stub.bare(3))).length, 3);
  });
  await check("a large stream", async () => {
    let bytes = 0;
    for await (const e of (await stub.count(400, 64 * 1024)).events) bytes += e.data.length;
    same(bytes, 400 * 64 * 1024);
  });
  await check("many chunks", async () => {
    same((await readAll((await stub.count(5000, 0)).events)).length, 5000);
  });
  await check("a stream as an argument", async () => {
    same(await stub.sum({ items: streamOf([1, 2, 3]) }), 6);
    same(await stub.sum({ items: streamOf([...Array(2000).keys()]) }), 1999000);
    same(await stub.ignore(streamOf([1, 2, 3])), "ignored");
  });
  await check("a large stream as an argument", async () => {
    same(await stub.size(streamOf(Array.from({ length: 200 }, () => chunk(65536)))), 200 * 65536);
  });
  await check("broken streams", async () => {
    await fails(readAll(await stub.broken()), (err) => same([err.message, err.code], ["mid stream", "EUNKNOWN_HASH"]));
    const bad = new ReadableStream({ start(c) { c.error(Object.assign(new Error("gone"), { code: "EGONE" })); } });
    await fails(stub.sum({ items: bad }), (err) => same([err.message, err.code], ["gone", "EGONE"]));
  });
  await check("cancelling", async () => {
    const { events } = await stub.count(1e6, 1000);
    const reader = events.getReader();
    await reader.read();
    await reader.cancel(new Error("stop please"));
    same(await stub.lastCancel(), "stop please");
  });
  await check("a reader that does not read holds the writer back", async () => {
    const { events } = await stub.count(1e6, 64 * 1024);
    const reader = events.getReader();
    await reader.read();
    await new Promise((r) => setTimeout(r, 300));
    const sent = await stub.lastSeq();
    await reader.cancel(new Error("enough"));
    same(await stub.lastCancel(), "enough");
    if (sent > 40) throw new Error(`${sent} chunks of 64 KiB were taken`);
  });
  await check("a writable as an argument", async () => {
    const got = [];
    let closed = false;
    await stub.fill(new WritableStream({ write(v) { got.push(v); }, close() { closed = true; } }));
    same([got, closed], [[0, 1, 2], true]);
  });
  await check("disposal", async () => {
    const before = await stub.disposed();
    const obj = await stub.makeObject();
    await obj.next();
    obj[Symbol.dispose]();
    while (await stub.disposed() !== before + 1) ;
  });
  await check("many calls at once", async () => {
    const got = await Promise.all(Array.from({ length: 3000 }, (_, i) => stub.add(i, 1)));
    same(got.every((n, i) => n === i + 1), true);
  });
  await check("tables at rest", async () => {
    let got;
    for (let i = 0; i < 100; i++) {
      got = await stub.stats();
      if (got.Imports === 1 && got.Exports === 2) return; // the call itself
      await new Promise((r) => setTimeout(r, 20));
    }
    throw new Error(show(got));
  });
  await check("disposing the main stub", async () => {
    const closed = new Promise((r) => ws.addEventListener("close", r));
    stub[Symbol.dispose]();
    await closed;
  });
}

async function batch() {
  await check("batch", async () => {
    const stub = newHttpBatchRpcSession(url);
    const sum = stub.add(stub.sync.watermarks().currentRev, 3);
    const bad = stub.fail("EINVAL");
    const map = stub.echo([1, 2]).map((n) => stub.add(n, n));
    const events = stub.count(1, 1);
    const all = await Promise.allSettled([sum, bad, map, events]);
    same([all[0].value, all[1].reason.code, all[2].value, all[3].reason.code], [10, "EINVAL", [2, 4], "EPROTOCOL"]);
  });
  await check("batch of plain values", async () => {
    same(await newHttpBatchRpcSession(url).echo({ a: [1] }), { a: [1] });
  });
}

class Counter extends RpcTarget {
  constructor() { super(); this.n = 0; }
  next() { return ++this.n; }
  [Symbol.dispose]() { Main.disposed++; }
}

class Main extends RpcTarget {
  static disposed = 0;
  static cancelled = [];
  echo(v) { return v; }
  add(a, b) { return a + b; }
  fail(code) { throw Object.assign(new TypeError("no " + code), { code, path: "/p" }); }
  throwString() { throw "just a string"; }
  makeObject() { return new Counter(); }
  users() { return [{ id: 1, obj: new Counter() }, { id: 2, obj: new Counter() }]; }
  async callBack(f, v) { return await f(v); }
  disposed() { return Main.disposed; }
  lastCancel() { return Main.cancelled.pop() ?? null; }
  count(n, size) {
    let seq = 0;
    return { id: "r", events: new ReadableStream({
      pull(c) { if (seq === n) c.close(); else c.enqueue({ seq: ++seq, data: new Uint8Array(size) }); },
      cancel(reason) { Main.cancelled.push(reason?.message); },
    }) };
  }
  broken() { return new ReadableStream({ start(c) { c.error(Object.assign(new Error("mid stream"), { code: "EUNKNOWN_HASH" })); } }); }
  async sum({ items }) { return (await readAll(items)).reduce((a, b) => a + b, 0); }
  async size(stream) { let n = 0; for await (const c of stream) n += c.length; return n; }
  async fill(writable) {
    const w = writable.getWriter();
    for (const i of [0, 1, 2]) await w.write(i);
    await w.close();
  }
  ignore(stream) { return "ignored"; }
  never(stream) { Main.held = stream; return new Promise(() => {}); }
}

async function server() {
  const srv = http.createServer((req, res) => capnweb.nodeHttpBatchRpcResponse(req, res, new Main()));
  new WebSocketServer({ server: srv }).on("connection", (ws) => newWebSocketRpcSession(ws, new Main()));
  srv.listen(0, "127.0.0.1", () => console.log(`port ${srv.address().port}`));
  process.stdin.resume().on("end", () => process.exit(0));
}

await { client, batch, server }[role]();
if (role !== "server") process.exit(0);
