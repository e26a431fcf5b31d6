// Lets the client of Cloudflare's computer be imported outside of its Workers: what it
// takes from there are base classes, which are empty here. node --import ./preload.mjs ...
import { registerHooks } from "node:module";

const source = "export class RpcTarget {} export class WorkerEntrypoint {} export class DurableObject {} export const env = {};";
registerHooks({
  resolve: (name, context, next) => name === "cloudflare:workers"
    ? { url: "data:text/javascript," + encodeURIComponent(source), shortCircuit: true }
    : next(name, context),
});
