// Goes through what a server offers with a TypeScript SDK: a call with progress, a resource, a prompt, a completion, a call
// that asks its caller something, and one that logs; prints one JSON object.
//
// usage: tour.mjs NODE_MODULES CLIENT URL TOKEN PLAN        CLIENT: sdk | client | client-modern
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const [modules, which, url, token, plan] = process.argv.slice(2);
const { progress, resource, prompt, completion, asking, logging } = JSON.parse(plan);
const { resolve } = createRequire(pathToFileURL(`${modules}/`));
const load = async (name) => import(pathToFileURL(resolve(name)));
const sdk = "@modelcontextprotocol/sdk";
const names = which === "sdk" ? ["client/index.js", "client/streamableHttp.js", "types.js"].map((file) => `${sdk}/${file}`) : ["@modelcontextprotocol/client"];
const kit = Object.assign({}, ...(await Promise.all(names.map(load))));
const named = (schema, method) => (which === "sdk" ? kit[schema] : method);

const mode = which === "client-modern" ? { pin: "2026-07-28" } : "legacy";
const options = { capabilities: { elicitation: {} }, versionNegotiation: { mode } };
const client = new kit.Client({ name: "self-declared", version: "0" }, options);
const [asked, logs] = [[], []];
client.setRequestHandler(named("ElicitRequestSchema", "elicitation/create"), ({ params }) => {
  asked.push(params.message);
  return { action: "accept", content: { username: "ann", email: "ann@example.org" } };
});
client.setNotificationHandler(named("LoggingMessageNotificationSchema", "notifications/message"), ({ params }) => {
  logs.push(params.data);
});
const headers = { Authorization: `Bearer ${token}` };
await client.connect(new kit.StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));

const call = async ([name, args], onprogress) => {
  const request = { name, arguments: args };
  const options = { onprogress };
  const result = await (which === "sdk" ? client.callTool(request, undefined, options) : client.callTool(request, options));
  return result.content[0].text;
};
const seen = { tools: (await client.listTools()).tools.length > 0, progress: [] };
let began;
await call(progress, (step) => {
  began ??= performance.now();
  seen.progress.push(step.progress);
});
seen.ahead = Math.round(performance.now() - began);
seen.resource = (await client.readResource({ uri: resource })).contents[0].text;
seen.prompt = (await client.getPrompt({ name: prompt[0], arguments: prompt[1] })).messages[0].content.text;
const [name, argument, value] = completion;
const ref = { type: "ref/prompt", name };
seen.completion = (await client.complete({ ref, argument: { name: argument, value } })).completion.values;
if (asking) seen.answer = await call(asking);
seen.asked = asked;
if (logging && which !== "client-modern") {
  await client.setLoggingLevel("debug");
  await call(logging);
  for (let waited = 0; logs.length < 3 && waited < 100; waited += 1) await sleep(50);
}
seen.logs = logs;
console.log(JSON.stringify(seen));
await client.close();
