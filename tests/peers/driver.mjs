// What the official suite calls a client: a gateway whose only server is the suite's, and the TypeScript client in front of
// it. The suite appends its URL and says by variables what it wants to see.
//
// usage: driver.mjs NODE_MODULES PORTREEVE ERA URL        ERA: legacy | modern, what is spoken to the gateway
import { spawn, execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const [modules, portreeve, era, url] = process.argv.slice(2);
const { MCP_CONFORMANCE_SCENARIO: scenario, MCP_CONFORMANCE_CONTEXT: context = "{}" } = process.env;
const { resolve } = createRequire(pathToFileURL(`${modules}/`));
const { Client, StreamableHTTPClientTransport } = await import(pathToFileURL(resolve("@modelcontextprotocol/client")));

async function call(client, name, args = {}) {
  const result = await client.callTool({ name, arguments: args });
  if (result.isError) throw new Error(`${name}: ${JSON.stringify(result)}`);
}
const calls = (...names) => async (client) => {
  await client.listTools();
  for (const name of names) await call(client, name);
};

const plays = {
  initialize: calls(),
  "request-metadata": calls(),
  "json-schema-ref-no-deref": calls(),
  "sse-retry": calls("test_reconnection"),
  "elicitation-sep1034-client-defaults": calls("test_client_elicitation_defaults"),
  "sep-2322-client-request-state": calls(
    "test_mrtr_echo_state",
    "test_mrtr_unrelated",
    "test_mrtr_no_state",
    "test_mrtr_no_result_type",
  ),
  async tools_call(client) {
    await client.listTools();
    await call(client, "add_numbers", { a: 5, b: 3 });
  },
  async "http-standard-headers"(client) {
    for (const { name } of (await client.listTools()).tools) await call(client, name);
    for (const { uri } of (await client.listResources()).resources) await client.readResource({ uri });
    for (const { name } of (await client.listPrompts()).prompts) await client.getPrompt({ name });
  },
  async "http-custom-headers"(client) {
    await client.listTools();
    // One of them has a null where the tool's schema wants a boolean. The gateway holds it to that; absent counts as null.
    const given = (args) => Object.fromEntries(Object.entries(args).filter(([, value]) => value !== null));
    for (const { name, arguments: args } of JSON.parse(context).toolCalls) await call(client, name, given(args));
  },
  async "http-invalid-tool-headers"(client) {
    const { tools } = await client.listTools();
    for (const { name } of tools) await call(client, name, { region: "eu" });
  },
  async "json-schema-2020-12-preservation"(client) {
    const { tools } = await client.listTools();
    const { inputSchema } = tools.find(({ name }) => name === "json_schema_2020_12_tool");
    await call(client, "json_schema_echo", { schema: inputSchema });
  },
};

// Says yes to every question, with the defaults it suggests.
function fill({ params: { requestedSchema } }) {
  const fields = Object.entries(requestedSchema.properties ?? {});
  return { action: "accept", content: Object.fromEntries(fields.map(([key, field]) => [key, field.default ?? true])) };
}

async function play(gateway, token) {
  const mode = era === "modern" ? { pin: "2026-07-28" } : "legacy";
  const capabilities = { elicitation: { form: { applyDefaults: true } } };
  const client = new Client({ name: "driver", version: "0" }, { capabilities, versionNegotiation: { mode } });
  client.setRequestHandler("elicitation/create", fill);
  const headers = { Authorization: `Bearer ${token}` };
  await client.connect(new StreamableHTTPClientTransport(new URL(gateway), { requestInit: { headers } }));
  await plays[scenario](client);
  await client.close();
}

const home = mkdtempSync(join(tmpdir(), "portreeve-driver-"));
const at = (name) => join(home, name);
writeFileSync(at("all.cedar"), "permit (principal, action, resource);");
writeFileSync(
  at("portreeve.toml"),
  `[listen]
  mcp = "127.0.0.1:0"
  admin = "127.0.0.1:0"
  tls = { mode = "off" }
  [state]
  dir = ${JSON.stringify(at("state"))}
  [policy]
  files = ["all.cedar"]
  [servers.suite]
  url = ${JSON.stringify(url)}
  trust = "internal"
  [servers.suite.tools.json_schema_echo]
  unknown_fields = "allow"`,
);
const config = ["--config", at("portreeve.toml")];
const log = openSync(at("log"), "a");
const serving = spawn(portreeve, ["serve", ...config, "--ready-file", at("ready")], { stdio: ["ignore", log, log] });
const ended = new Promise((settle) => serving.on("exit", settle));
process.on("SIGTERM", () => serving.kill() && process.exit(1));
try {
  while (!existsSync(at("ready"))) {
    if (serving.exitCode !== null) throw new Error("the gateway ended");
    await sleep(20);
  }
  const { mcp } = JSON.parse(readFileSync(at("ready"), "utf8"));
  const token = execFileSync(portreeve, ["token", "create", "--sub", "driver", "--json", ...config], { encoding: "utf8" });
  await play(`${mcp}/suite`, JSON.parse(token).token);
} catch (error) {
  console.error(error);
  console.error(readFileSync(at("log"), "utf8"));
  process.exitCode = 1;
}
serving.kill();
await ended;
rmSync(home, { recursive: true });
