// What the scripts of this folder share: the client package of one version, storage for
// its workspaces, and checks that print a line each.
import { DatabaseSync } from "node:sqlite";
import { pathToFileURL } from "node:url";

// load imports the client that npm has put into a folder.
export const load = (dir) => import(pathToFileURL(`${dir}/node_modules/@cloudflare/computer/dist/index.js`));

// storage has the shape of a Durable Object's storage with SQLite.
export function storage() {
  const db = new DatabaseSync(":memory:");
  const prepared = new Map();
  const value = (v) => v === undefined ? null : typeof v === "boolean" ? Number(v) : v;
  return {
    sql: {
      exec(query, ...bindings) {
        let statement = prepared.get(query);
        if (!statement) prepared.set(query, statement = db.prepare(query));
        const rows = statement.all(...bindings.map(value));
        return { toArray: () => rows };
      },
    },
    transactionSync(work) {
      db.exec("BEGIN");
      try {
        const result = work();
        db.exec("COMMIT");
        return result;
      } catch (err) {
        db.exec("ROLLBACK");
        throw err;
      }
    },
  };
}

const show = (v) => JSON.stringify(v, (_, x) => typeof x === "bigint" ? `${x}n` : x === undefined ? "undefined" : x);

export function same(got, want, what = "") {
  if (show(got) !== show(want)) throw new Error(`${what} got ${show(got)}, want ${show(want)}`);
}

export function truth(ok, what) {
  if (!ok) throw new Error(what);
}

// code is that of the error with which a promise fails.
export async function code(promise) {
  try {
    await promise;
  } catch (err) {
    return err.code ?? `no code: ${err}`;
  }
  return "no error";
}

let failed = false;

// check runs one check and prints its line.
export async function check(name, f, seconds = 60) {
  let timer;
  const late = new Promise((_, no) => { timer = setTimeout(() => no(new Error("takes too long")), seconds * 1000); });
  try {
    await Promise.race([f(), late]);
    console.log(`ok ${name}`);
  } catch (err) {
    failed = true;
    console.log(`FAILED ${name}: ${String(err?.stack ?? err).replaceAll("\n", " | ")}`);
  }
  clearTimeout(timer);
}

// finish ends the program; sockets are left open on purpose.
export function finish() {
  console.log("done");
  process.exit(failed ? 1 : 0);
}

// drain waits for what push and pull give: a promise in the first versions, then a stream.
export async function drain(operation) {
  if (operation && typeof operation[Symbol.asyncIterator] === "function") {
    const all = [];
    for await (const progress of operation) all.push(progress);
    return all;
  }
  return await operation;
}

export async function collect(stream) {
  const all = [];
  for await (const item of stream) all.push(item);
  return all;
}

export const streamOf = (items) => {
  const left = [...items];
  return new ReadableStream({
    pull(c) { if (left.length) c.enqueue(left.shift()); else c.close(); },
  });
};

export async function sha256(bytes) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}
