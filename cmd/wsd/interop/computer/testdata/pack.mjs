// 20,001 entries at once, where the client sends a pack of them, and the pack of the
// server's, read as it comes:
//   node --import ./preload.mjs pack.mjs FOLDER URL
import { gunzipSync } from "node:zlib";
import { load, storage, same, truth, code, check, finish, drain, collect, streamOf } from "./client.mjs";

const [dir, url] = process.argv.slice(2);
const { Workspace, TestBackend } = await load(dir);
const { rpc } = await new TestBackend({ url }).connect();
let packed;

await check("the client pushes 20001 entries as a pack", async () => {
  const w = new Workspace({ storage: storage(), backends: [new TestBackend({ url })] });
  const p = w.provider();
  p.mkdirSync("/workspace");
  for (let d = 0; d < 200; d++) {
    p.mkdirSync(`/workspace/${d}`);
    for (let i = 0; i < 99; i++) p.mkdirSync(`/workspace/${d}/${i}`);
  }
  await drain(w.push());
  same((await rpc.sync.readEntry("/workspace/199/98")).kind, "dir");
  const { events } = await rpc.shell.exec({ source: "find . | wc -l" });
  same(Buffer.concat((await collect(events)).map((e) => e.value ?? "").filter((v) => v.length)).toString().trim(), "20001");
  await w.close();
}, 200);
await check("the server's pack has them", async () => {
  const result = await rpc.sync.fetchChangePack({ after: { rev: 0, path: null }, ignore: [], maxEntries: 50000, maxBytes: 1 << 30, generation: "g1" });
  packed = await collect(result.stream);
  truth(packed.every((p) => p.length <= 1 << 20), "a piece is too long");
  truth(result.drained && result.entryCount >= 20001, `${result.entryCount} entries`);
  const bytes = gunzipSync(Buffer.concat(packed));
  const seen = { 1: 0, 2: 0, 3: 0, 4: 0 };
  for (let at = 0; at < bytes.length; at += 5 + bytes.readUInt32BE(at + 1)) seen[bytes[at]]++;
  same(seen, { 1: 1, 2: 0, 3: result.entryCount, 4: 1 });
});
await check("the pack applies", async () => {
  const r = await rpc.sync.applyChangePack({ generation: "g1", stream: streamOf(packed) });
  truth(r.entryCount >= 20001, `${r.entryCount} entries`);
});
await check("a broken pack is refused", async () => {
  const broken = packed.map((p) => p.slice());
  broken.at(-1)[broken.at(-1).length - 20] ^= 1;
  same(await code(rpc.sync.applyChangePack({ generation: "g1", stream: streamOf(broken) })), "EPACK_PROTOCOL");
  same(await code(rpc.sync.applyChangePack({ generation: "g2", stream: streamOf(packed) })), "EPACK_PROTOCOL");
});
finish();
