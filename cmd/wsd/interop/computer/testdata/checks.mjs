// The checks of one version of the client against a server that runs:
//   node --import ./preload.mjs checks.mjs FOLDER URL NAME
// in the directory NAME of the workspace.
// Each is a line "ok NAME" or "FAILED NAME: why"; the last line is "done".
import { load, storage, same, truth, code, check, finish, drain, collect, streamOf, sha256 } from "./client.mjs";

const [dir, url, name] = process.argv.slice(2);
const { Workspace, TestBackend } = await load(dir);
const text = new TextDecoder();
const utf8 = { encoding: "utf8" };
const make = (s = storage()) => new Workspace({ storage: s, backends: [new TestBackend({ url })] });
const w = make();
const { rpc } = await new TestBackend({ url }).connect();
const root = `/workspace/${name}`;
const exec = (command, options) => w.runtime.exec(command, { cwd: root, ...options });
const run = async (command, options) => (await exec(command, options)).result();
await w.fs.mkdir(root, { recursive: true });
await drain(w.push());

await check("exec stdout stderr exit", async () => {
  const r = await run("echo out; echo err >&2; exit 3", utf8);
  same([r.stdout, r.stderr, r.exitCode, r.status], ["out\n", "err\n", 3, "failed"]);
  const ok = await run("printf 'a\\377b'");
  same([[...ok.stdout], ok.exitCode, ok.status], [[97, 255, 98], 0, "completed"]);
});
await check("stdin env cwd", async () => {
  await w.fs.mkdir(`${root}/sub`, { recursive: true });
  await drain(w.push());
  const h = await exec('cat; echo "$NAME"; pwd', { ...utf8, stdin: "in\n", env: { NAME: "värde" }, cwd: `${root}/sub` });
  const r = await h.result();
  same(r.exitCode, 0);
  same(r.stdout.split("\n").slice(0, 2), ["in", "värde"]);
  truth(r.stdout.trim().endsWith("/sub"), `the directory is ${r.stdout}`);
});
await check("missing cwd", async () => {
  const r = await run("echo no", { ...utf8, cwd: `${root}/missing` });
  same([r.exitCode, r.stdout, r.status], [-1, "", "failed"]);
  truth(r.stderr.startsWith("spawn failed: "), r.stderr);
});
await check("busy id", async () => {
  const h = await exec("sleep 60", { id: "busy" });
  same(await code(exec("true", { id: "busy" })), "EEXEC_BUSY");
  same(await code(rpc.shell.getExec({ id: "busy" })), "EEXEC_BUSY");
  await h.kill("SIGKILL");
  same((await h.result()).exitCode, 137);
});
await check("kill default", async () => {
  const h = await exec("echo up; exec sleep 60", { id: "killed" });
  const events = h.getReader();
  same((await events.read()).value.name, "stdout");
  await w.runtime.killExec("killed");
  const { value } = await events.read();
  same([value.name, value.code], ["exit", 143]);
  events.releaseLock();
});
await check("getExec full after tail", async () => {
  await run("for i in 1 2 3; do echo $i; sleep 0.1; done; exit 4", { id: "log" });
  const replay = async (options) => {
    const h = await w.runtime.getExec("log", { ...utf8, ...options });
    return (await collect(h)).map((e) => [e.seq, e.name, e.value ?? e.code]);
  };
  const full = await replay({ resume: "full" });
  same(full.filter((e) => e[1] === "stdout").map((e) => e[2]).join(""), "1\n2\n3\n");
  same(full.map((e) => e[0]), full.map((_, i) => i + 1));
  same(full.at(-1).slice(1), ["exit", 4]);
  same(await replay({ resume: 2 }), full.slice(2));
  same(await replay({ resume: "tail" }), []);
});
await check("unknown id", async () => {
  same(await code(w.runtime.getExec("unknown")), "ENOENT");
  same(await code(rpc.shell.killExec({ id: "unknown" })), "ENOENT");
  same(await rpc.shell.disposeExec({ id: "unknown" }), undefined);
});
await check("dispose", async () => {
  await run("true", { id: "gone" });
  await w.runtime.disposeExec("gone");
  same(await code(rpc.shell.getExec({ id: "gone" })), "ENOENT");
  const { events } = await rpc.shell.exec({ source: "sleep 60", id: "live" });
  await rpc.shell.disposeExec({ id: "live" });
  same(await collect(events), []);
});
await check("dispose of a paused run", async () => {
  await rpc.shell.exec({ source: "head -c 3145728 /dev/zero", id: "paused" });
  await rpc.shell.disposeExec({ id: "paused" });
  same((await run("echo alive", utf8)).stdout, "alive\n");
});
await check("timeout", async () => {
  const began = Date.now();
  const r = await run("sleep 60", { timeoutMs: 200 });
  same([r.exitCode, r.status], [143, "cancelled"]);
  truth(Date.now() - began < 20000, "it took long");
});

const large = new Uint8Array(2 * 524288 + 1000).map((_, i) => i * 7 + (i >> 13));
await check("push dir small and large", async () => {
  await w.fs.mkdir(`${root}/p/deep`, { recursive: true });
  await w.fs.writeFile(`${root}/p/small`, "alpha");
  await w.fs.writeFile(`${root}/p/deep/large`, large);
  await drain(w.push());
  const deep = await rpc.sync.readEntry(`${root}/p/deep`);
  same([deep.kind, deep.mode & 0o777], ["dir", 0o755]);
  const small = await rpc.sync.readEntry(`${root}/p/small`);
  same([small.kind, small.size, small.chunks.length], ["file", 5, 1]);
  same([...small.chunks[0].hash], [...await sha256(new TextEncoder().encode("alpha"))]);
  const entry = await rpc.sync.readEntry(`${root}/p/deep/large`);
  same([entry.size, entry.chunks.map((c) => c.size)], [large.length, [524288, 524288, 1000]]);
  const objects = await collect(await rpc.sync.fetchObjects(entry.chunks.map((c) => c.hash)));
  same(Buffer.concat(objects.map((o) => o.bytes)).equals(Buffer.from(large)), true, "content");
  const r = await run("cat p/small; wc -c <p/deep/large", utf8);
  same(r.stdout.replaceAll(" ", ""), `alpha${large.length}\n`);
});
await check("second push sends nothing", async () => {
  const before = await rpc.sync.watermarks();
  await drain(w.push());
  same((await rpc.sync.watermarks()).currentRev, before.currentRev);
});
await check("symlink and mode", async () => {
  await w.fs.symlink("small", `${root}/p/link`);
  await w.fs.writeFile(`${root}/p/tool`, "#!/bin/sh\necho works\n", { mode: 0o755 });
  await w.fs.chmod(`${root}/p/tool`, 0o755);
  await drain(w.push());
  const link = await rpc.sync.readEntry(`${root}/p/link`);
  same([link.kind, link.target], ["symlink", "small"]);
  same((await rpc.sync.readEntry(`${root}/p/tool`)).mode & 0o777, 0o755);
  same((await run("readlink p/link; p/tool", utf8)).stdout, "small\nworks\n");
});
await check("chmod alone", async () => {
  await w.fs.chmod(`${root}/p/small`, 0o700);
  await drain(w.push());
  same((await rpc.sync.readEntry(`${root}/p/small`)).mode & 0o777, 0o700);
  same((await run("test -x p/small && echo yes", utf8)).stdout, "yes\n");
});
await check("delete", async () => {
  await w.fs.writeFile(`${root}/p/doomed`, "x");
  await drain(w.push());
  await w.fs.rm(`${root}/p/doomed`);
  await drain(w.push());
  same((await rpc.sync.readEntry(`${root}/p/doomed`)).kind, "delete");
  same((await run("test -e p/doomed || echo gone", utf8)).stdout, "gone\n");
});
await check("rename", async () => {
  w.provider().renameSync(`${root}/p/deep`, `${root}/p/moved`);
  await drain(w.push());
  same((await rpc.sync.readEntry(`${root}/p/deep/large`)).kind, "delete");
  same((await rpc.sync.readEntry(`${root}/p/moved/large`)).size, large.length);
  same((await run("ls p/moved; ls p/deep 2>/dev/null || echo none", utf8)).stdout, "large\nnone\n");
});
await check("pull of another's writes", async () => {
  const bytes = new TextEncoder().encode("by another");
  const hash = await sha256(bytes);
  await rpc.sync.pushObjects(streamOf([{ hash, bytes }]));
  const pushed = await rpc.sync.push({ senderRev: 0, changes: streamOf([
    { kind: "file", rev: 1, path: `${root}/other`, mode: 0o644, mtime: Date.now(), size: bytes.length, chunks: [{ hash, size: bytes.length }] },
  ]) });
  same(pushed.appliedPushCursor, { rev: 0, path: null });
  await drain(w.pull());
  same(await w.fs.readFile(`${root}/other`, "utf8"), "by another");
});
await check("command sees a push and its output comes back", async () => {
  await w.fs.writeFile(`${root}/in.txt`, "one\n");
  const r = await run("(cat in.txt; echo two) >out.txt; mkdir -p made/by; ln -s ../in.txt made/link; chmod 750 made/by; rm in.txt", utf8);
  same(r.exitCode, 0, r.stderr);
  same(await w.fs.readFile(`${root}/out.txt`, "utf8"), "one\ntwo\n");
  same(await code(w.fs.stat(`${root}/in.txt`)), "ENOENT", "in.txt");
  same((await w.fs.stat(`${root}/made/by`)).mode & 0o777, 0o750);
  same(await w.fs.readlink(`${root}/made/link`), "../in.txt");
});
await check("cold start of a fresh workspace", async () => {
  const fresh = make();
  await drain(fresh.pull());
  same(await fresh.fs.readFile(`${root}/out.txt`, "utf8"), "one\ntwo\n");
  same(Buffer.from(await new Response(await fresh.fs.readFile(`${root}/p/moved/large`)).arrayBuffer()).equals(Buffer.from(large)), true, "large");
  await fresh.close();
});
await check("a directory becomes a file, and a directory again", async () => {
  const other = make(), path = `${root}/kind`;
  await w.fs.mkdir(path);
  await w.fs.writeFile(`${path}/in`, "in");
  await drain(w.push());
  await drain(other.pull());
  await w.fs.rm(path, { recursive: true });
  await w.fs.writeFile(path, "file");
  await drain(w.push());
  await drain(w.pull()); // deletes below the file are in it
  same(await w.fs.readFile(path, "utf8"), "file");
  await w.fs.rm(path);
  await w.fs.mkdir(path);
  await drain(w.push());
  await drain(other.pull());
  same(await code(other.fs.stat(`${path}/in`)), "ENOENT", "in");
  same((await run("ls -d kind; ls kind", utf8)).stdout, "kind\n");
  await other.close();
});
await check("1 MiB of output", async () => {
  const r = await run("head -c 1048576 /dev/zero | tr '\\0' x; echo end >&2", { output: false });
  same([r.stdout.length, text.decode(r.stderr), r.exitCode], [1048576, "end\n", 0]);
});
await check("3 MiB of output read slowly", async () => {
  const { events } = await rpc.shell.exec({ source: "head -c 3145728 /dev/zero; echo end >&2", command: "head -c 3145728 /dev/zero; echo end >&2", id: "slow" });
  let size = 0, seq = 0, exit;
  for await (const e of events) {
    same(e.seq, ++seq);
    if (e.name === "stdout") size += e.value.length;
    if (e.name === "exit") exit = e.code;
    if (seq % 8 === 0) await new Promise((r) => setTimeout(r, 20));
  }
  same([size, exit], [3145728, 0]);
});
await check("a lie is refused", async () => {
  const bytes = new TextEncoder().encode("lie");
  truth(await code(rpc.sync.pushObjects(streamOf([{ hash: new Uint8Array(32), bytes }]))) === "EINVAL", "the hash was taken");
});
await check("40 commands in a row and 10 at once", async () => {
  for (let i = 0; i < 40; i++) same((await run(`echo ${i}`, utf8)).stdout, `${i}\n`);
  const all = await Promise.all([...Array(10).keys()].map(async (i) => (await run(`echo ${i}`, utf8)).stdout));
  same(all, [...Array(10).keys()].map((i) => `${i}\n`));
});
await w.close();
finish();
