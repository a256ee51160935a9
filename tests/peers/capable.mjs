// Calls every tool that a server shows to a client which can be asked everything, or nothing; prints one JSON object: what each
// tool answered, and what the server asked meanwhile.
//
// usage: capable.mjs NODE_MODULES URL TOKEN ABLE        TOKEN: '' for none        ABLE: everything | nothing
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, url, token, able] = process.argv.slice(2);
const { resolve } = createRequire(pathToFileURL(`${modules}/`));
const { Client, StreamableHTTPClientTransport } = await import(pathToFileURL(resolve("@modelcontextprotocol/client")));

const ARGUMENTS = {
  echo: { message: "hello" },
  "get-annotated-message": { messageType: "success", includeImage: false },
  "get-resource-links": { count: 2 },
  "get-resource-reference": { resourceType: "Text", resourceId: 1 },
  "get-structured-content": { location: "New York" },
  "get-sum": { a: 2, b: 3 },
  "gzip-file-as-resource": { name: "a.gz", data: "data:text/plain,hello", outputType: "resourceLink" },
  "simulate-research-query": { topic: "tides" },
  "trigger-long-running-operation": { duration: 0.1, steps: 1 },
  "trigger-sampling-request": { prompt: "say hello", maxTokens: 10 },
  "trigger-url-elicitation": { url: "https://example.org/form", message: "open it", elicitationId: "e1" },
};

const everything = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };
const capabilities = able === "everything" ? everything : {};
const client = new Client({ name: "self-declared", version: "0" }, { capabilities, versionNegotiation: { mode: "legacy" } });
const asked = new Set();
if (able === "everything") {
  client.setRequestHandler("elicitation/create", ({ params }) => {
    const mode = params.mode ?? "form";
    asked.add(mode);
    return { action: "accept", ...(mode === "form" ? { content: { name: "ann", check: true } } : {}) };
  });
  client.setRequestHandler("sampling/createMessage", () => {
    asked.add("sampling");
    return { role: "assistant", content: { type: "text", text: "it is low tide" }, model: "m" };
  });
  client.setRequestHandler("roots/list", () => {
    asked.add("roots");
    return { roots: [{ uri: "file:///srv/work", name: "work" }] };
  });
}
const headers = token ? { Authorization: `Bearer ${token}` } : {};
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
const tools = {};
for (const { name } of (await client.listTools()).tools) {
  try {
    const result = await client.callTool({ name, arguments: ARGUMENTS[name] ?? {} });
    const texts = result.content.filter((block) => block.type === "text").map((block) => block.text);
    tools[name] = [result.isError ? "error" : "result", ...texts.slice(0, 1).map((text) => text.slice(0, 40))];
  } catch (error) {
    // What the server itself refuses is part of the answer.
    tools[name] = ["refused", error.constructor.name];
  }
}
console.log(JSON.stringify({ tools, asked: [...asked].sort() }));
await client.close();
process.exit(0);
