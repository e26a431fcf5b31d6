// A client of whose files some are overwritten in the workspace between its calls: what it was
// offered, or told is there, is gone then. It has to come to the same as the workspace all the same.
//   node --import ./preload.mjs overwritten.mjs FOLDER URL WORKSPACE NAME
// in the directory NAME of the directory WORKSPACE.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { load, storage, same, truth, check, finish, drain } from "./client.mjs";

const [dir, url, workspace, name] = process.argv.slice(2);
const { Workspace, TestBackend } = await load(dir);
const root = `/workspace/${name}`, there = `${workspace}/${name}`;

// hook is called with the name of each call, before that leaves.
let hook = () => {};
const send = WebSocket.prototype.send;
WebSocket.prototype.send = function (data) {
  for (const [, call] of String(data).matchAll(/\["(?:sync|shell)","(\w+)"\]/g)) hook(call);
  return send.call(this, data);
};

// before does something before the first call of a name behind the first one of another name.
function before(call, f, behind = call) {
  const state = { begun: false, done: false };
  hook = (c) => {
    state.begun ||= c === behind;
    if (state.done || !state.begun || c !== call) return;
    state.done = true;
    f();
  };
  return state;
}

const make = () => new Workspace({ storage: storage(), backends: [new TestBackend({ url })] });
const w = make();
const read = (path, from = w) => from.fs.readFile(`${root}/${path}`, "utf8");
const on = (path) => readFileSync(`${there}/${path}`, "utf8");
const write = (path, text) => writeFileSync(`${there}/${path}`, text);
const run = async (command) => (await w.runtime.exec(command, { cwd: root, encoding: "utf8" })).result();
await w.fs.mkdir(root, { recursive: true });
await drain(w.push());

// until does something that may fail, up to some times, until something else is so.
async function until(f, done, times = 5) {
  const errors = [];
  for (let i = 0; i < times; i++) {
    try {
      await f();
    } catch (err) {
      errors.push(String(err?.code ?? err));
    }
    try {
      if (await done()) return;
    } catch (err) {
      errors.push(String(err));
    }
  }
  throw new Error(`not after ${times} times: ${errors.join(", ")}`);
}
const is = (path, text, from = w) => async () => await read(path, from) === text;

for (const [kind, size] of [["small", 1], ["large", 524288 + 1000]]) {
  // text is content that nothing else has.
  let texts = 0;
  const text = () => `${name} ${kind} ${++texts} `.padEnd(size, "x");
  for (const call of ["hasObjects", "fetchObjects"]) {
    await check(`${kind} overwritten before ${call} of a pull`, async () => {
      const path = `${kind}-${call}`, one = text(), two = text(), beside = text();
      write(path, one);
      write(`${path}-beside`, beside);
      const state = before(call, () => write(path, two), "fetchChanges");
      await until(() => drain(w.pull()), is(path, two));
      same(await read(`${path}-beside`), beside);
      truth(state.done, `there was no ${call}`);
    });
    await check(`${kind} overwritten before ${call} behind a command`, async () => {
      const path = `${kind}-run-${call}`, one = text(), two = text();
      write(path, "none");
      await drain(w.pull());
      const state = before(call, () => write(path, two), "exec");
      await until(() => state.done ? drain(w.pull()) : run(`printf '%s' '${one.slice(0, 1000)}' >${path}`), is(path, two));
      truth(state.done, `there was no ${call}`);
    });
  }
  await check(`${kind} overwritten at each fetch`, async () => {
    const path = `${kind}-always`, one = text();
    let n = 0;
    const next = () => write(path, `${++n} ${one}`);
    next();
    hook = (call) => { if (call === "fetchObjects") next(); };
    // Some version of it comes over while it goes on changing, and the last one in the end.
    await until(() => drain(w.pull()), async () => (await read(path)).endsWith(one), 10);
    hook = () => {};
    await until(() => drain(w.pull()), is(path, on(path)));
    truth(n > 1, "there was no fetchObjects");
  });
  await check(`${kind} overwritten as a fresh client begins`, async () => {
    const fresh = make(), path = `${kind}-fresh`;
    mkdirSync(`${there}/${path}`);
    const first = [0, 1, 2, 3, 4].map(text), then = first.map((t, i) => i % 2 ? t : text());
    first.forEach((t, i) => write(`${path}/${i}`, t));
    const state = before("fetchObjects", () => then.forEach((t, i) => write(`${path}/${i}`, t)));
    for (let i = 0; i < 5; i++) await until(() => drain(fresh.pull()), is(`${path}/${i}`, then[i], fresh));
    truth(state.done, "there was no fetchObjects");
    await fresh.close();
  });
  for (const call of ["pushObjects", "push"]) {
    await check(`${kind} overwritten before ${call}`, async () => {
      // The workspace has the content of the copy, until the file that has it is overwritten.
      const path = `${kind}-${call}`, one = text(), two = text(), fresh = text();
      await w.fs.writeFile(`${root}/${path}-held`, one);
      await drain(w.push());
      await w.fs.writeFile(`${root}/${path}-copy`, one);
      await w.fs.writeFile(`${root}/${path}-new`, fresh);
      const state = before(call, () => write(`${path}-held`, two), "hasObjects");
      await until(() => drain(w.push()), async () => on(`${path}-copy`) === one && on(`${path}-new`) === fresh);
      truth(state.done, `there was no ${call}`);
      await until(() => drain(w.pull()), is(`${path}-held`, two));
      same([await read(`${path}-copy`), on(`${path}-held`)], [one, two]);
    });
  }
  await check(`${kind} overwritten before a command's push`, async () => {
    const path = `${kind}-run`, one = text(), two = text();
    await w.fs.writeFile(`${root}/${path}-held`, one);
    await drain(w.push());
    await w.fs.writeFile(`${root}/${path}-copy`, one);
    const state = before("push", () => write(`${path}-held`, two), "hasObjects");
    let out;
    await until(async () => { out = await run(`wc -c <${path}-copy`); }, async () => out?.exitCode === 0);
    same(out.stdout.trim(), String(one.length));
    truth(state.done, "there was no push");
    await until(() => drain(w.pull()), is(`${path}-held`, two));
    same([on(`${path}-copy`), on(`${path}-held`)], [one, two]);
  });
}
await check("in the end both have the same", async () => {
  hook = () => {};
  await drain(w.push());
  await drain(w.pull());
  const fresh = make();
  await drain(fresh.pull());
  const files = readdirSync(there, { recursive: true, withFileTypes: true }).filter((f) => f.isFile());
  same(files.length, 40, "files");
  for (const f of files) {
    const path = `${f.parentPath}/${f.name}`.slice(there.length + 1);
    truth(await read(path) === on(path), `${path} here`);
    truth(await read(path, fresh) === on(path), `${path} of a fresh client`);
  }
  await fresh.close();
});
await w.close();
finish();
