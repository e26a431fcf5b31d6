// A Worker with a Durable Object that has a workspace, whose backend makes the server dial
// back: the way of production. durable.mjs bundles and runs it.
import { DurableObject } from "cloudflare:workers";
import { Workspace } from "@cloudflare/computer";
import { ContainerBackend } from "@cloudflare/computer/backends/container";

const utf8 = { encoding: "utf8" };
const same = (got, want) => {
  if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
};
const drain = async (operation) => { for await (const _ of operation); };

export class Host extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    this.env = env;
    // A container that runs already, under the secret that was given to it.
    const container = {
      start: async () => ({ runtimeId: "one", clientSecret: env.SECRET, outcome: "adopted" }),
      restart: async () => ({ runtimeId: "one", clientSecret: env.SECRET, outcome: "adopted" }),
      interceptOutboundHttp: async () => {},
      interceptAllOutboundHttp: async () => {},
      fetchPort: (port, input, init) => fetch(env.SERVER + new URL(input).pathname, init),
      status: async () => ({ running: true }),
      exitInfo: async () => null,
    };
    this.backend = new ContainerBackend({
      container: () => ({ getWorkspaceContainer: () => container }),
      workspace: {}, egressHost: env.SELF, heartbeatIntervalMs: 200,
      ignore: ["**/node_modules/", "**/.cache"], // it connects to a server only that says so, too
    });
    this.workspace = new Workspace({ storage: ctx.storage, backends: [this.backend] });
  }

  async run(command, options) {
    return (await this.workspace.runtime.exec(command, { ...utf8, ...options })).result();
  }

  checks = {
    exec: async () => {
      const r = await this.run("echo out; echo err >&2; exit 3");
      same([r.stdout, r.stderr, r.exitCode], ["out\n", "err\n", 3]);
    },
    "write exec read": async () => {
      await this.workspace.fs.mkdir("/workspace/do", { recursive: true });
      await this.workspace.fs.writeFile("/workspace/do/in", "from the object\n");
      same((await this.run("cat in; echo from the command >out", { cwd: "/workspace/do" })).stdout, "from the object\n");
      same(await this.workspace.fs.readFile("/workspace/do/out", "utf8"), "from the command\n");
    },
    "push and pull": async () => {
      await this.workspace.fs.writeFile("/workspace/do/pushed", "x".repeat(600000));
      await drain(this.workspace.push());
      same((await this.run("wc -c <do/pushed; echo pulled >do/pulled")).stdout.trim(), "600000");
      await drain(this.workspace.pull());
      same(await this.workspace.fs.readFile("/workspace/do/pulled", "utf8"), "pulled\n");
    },
    "what is ignored stays there": async () => {
      same((await this.run("mkdir -p do/.cache do/node_modules/m && echo 1 >do/.cache/a && echo 2 >do/node_modules/m/b && echo 3 >do/c")).exitCode, 0);
      await drain(this.workspace.pull());
      same((await this.workspace.fs.readdir("/workspace/do")).map((e) => e.name ?? e).sort(), ["c", "in", "out", "pulled", "pushed"]);
    },
    "40 commands": async () => {
      for (let i = 0; i < 40; i++) same((await this.run(`echo ${i}`)).stdout, `${i}\n`);
    },
    "the socket is replaced": async () => {
      await this.workspace.close();
      same((await this.run("cat do/out")).stdout, "from the command\n");
    },
  };

  async fetch(request) {
    const url = new URL(request.url);
    if (url.pathname !== "/check") return this.backend.handleFetch(request);
    try {
      await this.checks[url.searchParams.get("name")]();
      return new Response("ok");
    } catch (err) {
      return new Response(String(err?.stack ?? err));
    }
  }
}

export default {
  async fetch(request, env) {
    const path = new URL(request.url).pathname;
    if (path === "/health") return new Response("ok");
    return env.HOST.get(env.HOST.idFromName("one")).fetch(request);
  },
};
