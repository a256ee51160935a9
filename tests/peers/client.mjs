// Lists the tools behind a URL and calls one of them with a TypeScript SDK; prints one JSON object.
//
// usage: client.mjs NODE_MODULES PACKAGE URL TOKEN TOOL ARGUMENTS        PACKAGE: client | client-modern | sdk
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, which, url, token, tool, args] = process.argv.slice(2);
const { resolve } = createRequire(pathToFileURL(`${modules}/`));
const load = async (name) => import(pathToFileURL(resolve(name)));

const parts =
  which === "sdk"
    ? [
        await load("@modelcontextprotocol/sdk/client/index.js"),
        await load("@modelcontextprotocol/sdk/client/streamableHttp.js"),
      ]
    : [await load("@modelcontextprotocol/client")];
const { Client, StreamableHTTPClientTransport } = Object.assign({}, ...parts);

const mode = which === "client-modern" ? { pin: "2026-07-28" } : "legacy";
const client = new Client({ name: "self-declared", version: "0" }, { versionNegotiation: { mode } });
const headers = { Authorization: `Bearer ${token}` };
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
const { tools } = await client.listTools();
const result = await client.callTool({ name: tool, arguments: JSON.parse(args) });
const texts = result.content.filter((block) => block.type === "text").map((block) => block.text);
const structured = result.structuredContent ?? null;
console.log(JSON.stringify({ names: tools.map((each) => each.name), texts, structured, isError: result.isError ?? false }));
await client.close();
