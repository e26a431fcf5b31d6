// Runs worker.mjs in workerd against a server with a secret:
//   node --import ./preload.mjs durable.mjs FOLDER-OF-MINIFLARE FOLDER-OF-CLIENT URL SECRET
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { fileURLToPath, pathToFileURL } from "node:url";
import { check, finish, same } from "./client.mjs";

const [tools, client, url, secret] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${tools}/x.js`));
const esbuild = require("esbuild");
const { Miniflare } = require("miniflare");

const dist = `${client}/node_modules/@cloudflare/computer/dist`;
const bundle = await esbuild.build({
  entryPoints: [fileURLToPath(new URL("worker.mjs", import.meta.url))], bundle: true, write: false, format: "esm",
  target: "es2024", conditions: ["workerd", "worker", "import"], external: ["cloudflare:*", "node:*"],
  alias: {
    "@cloudflare/computer": `${dist}/index.js`,
    "@cloudflare/computer/backends/container": `${dist}/backends/container/index.js`,
  },
});
const port = await new Promise((resolve) => {
  const probe = createServer().listen(0, "127.0.0.1", () => {
    const { port } = probe.address();
    probe.close(() => resolve(port));
  });
});
const mf = new Miniflare({
  host: "127.0.0.1", port, modules: [{ type: "ESModule", path: "worker.mjs", contents: bundle.outputFiles[0].text }],
  compatibilityDate: "2026-06-01", compatibilityFlags: ["nodejs_compat"],
  durableObjects: { HOST: { className: "Host", useSQLite: true } },
  bindings: { SERVER: url, SECRET: secret, SELF: `127.0.0.1:${port}` },
});
await mf.ready;
await check("without the secret", async () => {
  for (const path of ["/api", "/ws", "/connect", "/api/watermarks", "/__computerd/info"]) same((await fetch(url + path)).status, 401, path);
  for (const method of ["GET", "HEAD"]) same((await fetch(`${url}/health`, { method })).status, 200, method);
});
for (const name of ["exec", "write exec read", "push and pull", "what is ignored stays there", "40 commands", "the socket is replaced"]) {
  await check(name, async () => {
    same(await (await fetch(`http://127.0.0.1:${port}/check?name=${encodeURIComponent(name)}`)).text(), "ok");
  });
}
await mf.dispose();
finish();
