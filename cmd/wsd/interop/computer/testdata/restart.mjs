// A client whose server is killed and started again, twice: with its store, and without.
// The test does that when it reads a line that is no check, and says when it is done:
//   node --import ./preload.mjs restart.mjs FOLDER URL
import { createInterface } from "node:readline";
import { load, storage, same, truth, code, check, finish, drain } from "./client.mjs";

const [dir, url] = process.argv.slice(2);
const { Workspace, TestBackend } = await load(dir);
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
async function tell(line) {
  console.log(line);
  await answers.next();
}

const w = new Workspace({ storage: storage(), backends: [new TestBackend({ url })] });
const utf8 = { encoding: "utf8" };
const run = async (command, options) => (await w.runtime.exec(command, { ...utf8, ...options })).result();

await check("before", async () => {
  await w.fs.mkdir("/workspace", { recursive: true });
  await w.fs.writeFile("/workspace/old", "from the client");
  same((await run("cat old; echo from the command >made", { id: "first" })).stdout, "from the client");
  same(await w.fs.readFile("/workspace/made", "utf8"), "from the command\n");
});
// A command that runs while the server is killed.
await w.runtime.exec("echo begun; sleep 300", { id: "cut" });
await tell("restart");
await check("after a restart", async () => {
  await w.close();
  same((await run("cat old made; rm old")).stdout, "from the clientfrom the command\n");
  same(await code(w.fs.readFile("/workspace/old", "utf8")), "ENOENT");
});
await check("output is there after a restart", async () => {
  const first = await (await w.runtime.getExec("first", { ...utf8, resume: "full" })).result();
  same([first.stdout, first.exitCode], ["from the client", 0]);
  const cut = await (await w.runtime.getExec("cut", { ...utf8, resume: "full" })).result();
  truth(cut.exitCode === -1, `the run that was cut has the exit ${cut.exitCode}`);
});
await check("a write while the server was away", async () => {
  await tell("restart");
  await w.close();
  await w.fs.writeFile("/workspace/away", "a");
  same((await run("cat away")).stdout, "a");
});
await tell("lose the store");
await check("everything is pushed again to a new store", async () => {
  await w.close();
  same((await run("cat made away; ls")).stdout, "from the command\naaway\nmade\n");
});
await check("and what it makes comes back", async () => {
  await run("echo new >new");
  same(await w.fs.readFile("/workspace/new", "utf8"), "new\n");
  await drain(w.push());
  same(await w.fs.readFile("/workspace/made", "utf8"), "from the command\n");
});
finish();
