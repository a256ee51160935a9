// Everything the official suite asks for, on the published TypeScript SDK, as somebody would write it who never heard of a
// gateway: plain `elicitInput` and `requestSampling`, which the SDK offers in the older era alone, and for the newer one a
// result that asks. Serves Streamable HTTP: sessions to older clients, and the SDK's own handler to newer ones. On the
// SDK's first version (`sdk`) all clients are older ones. Prints its URL and ends with its standard input.
//
// node conformance_server.mjs NODE_MODULES server|sdk

import { randomBytes, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';

const here = createRequire(join(process.argv[2], 'package.json'));
const load = async (name) => import(pathToFileURL(here.resolve(name)).href);
const isFirst = process.argv[3] === 'sdk';
const {
  acceptedContent, createMcpHandler, createRequestStateCodec, fromJsonSchema, hostHeaderValidationResponse, inputRequired,
  inputResponse, isLegacyRequest, localhostAllowedHostnames, localhostAllowedOrigins, originValidationResponse, ...second
} = await load('@modelcontextprotocol/server');
const parts = ['server/mcp.js', 'server/completable.js', 'server/webStandardStreamableHttp.js', 'types.js'];
const first = isFirst && (await Promise.all(parts.map((part) => load(`@modelcontextprotocol/sdk/${part}`))));
const { McpServer, ResourceTemplate, WebStandardStreamableHTTPServerTransport, completable, ...types } =
  isFirst ? Object.assign({}, ...first) : second;
const { z } = await load('zod');

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC';
const WAV = 'UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQgAAAAAAAAAAAAAAA==';
const WATCHED = 'test://watched-resource';
const PACE = 50;

const states = createRequestStateCodec({ key: randomBytes(32) });
let alternatingIsListed = true;

const text = (text) => ({ type: 'text', text });
const image = () => ({ type: 'image', data: PNG, mimeType: 'image/png' });
const resource = (uri, mimeType, text) => ({ type: 'resource', resource: { uri, mimeType, text } });
const said = (...content) => ({ content });

function contents(server) {
  const tool = (name, description, play) => server.registerTool(name, { description }, play);
  tool('test_simple_text', 'Returns one block of text.', () => said(text('This is a simple text response for testing.')));
  tool('test_image_content', 'Returns a PNG of one pixel.', () => said(image()));
  tool('test_audio_content', 'Returns a short WAV.', () => said({ type: 'audio', data: WAV, mimeType: 'audio/wav' }));
  tool('test_embedded_resource', 'Returns an embedded resource.', () =>
    said(resource('test://embedded-resource', 'text/plain', 'This is an embedded resource content.')));
  tool('test_multiple_content_types', 'Returns text, an image and a resource.', () => {
    const data = resource('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}');
    return said(text('Multiple content types test:'), image(), data);
  });
  tool('test_error_handling', 'Always reports an error of its own.', () => {
    throw new Error('This tool intentionally returns an error for testing');
  });
  const given = (name, description, shape, play) =>
    server.registerTool(name, { description, inputSchema: z.object(shape) }, play);
  const [word, seconds] = [z.string(), z.number().default(0)];
  given('greet', 'Greets at once.', { name: word }, ({ name }) => said(text(`Hello, ${name}!`)));
  given('confirm_delete', 'Deletes nothing.', { filename: word }, ({ filename }) => said(text(`Kept ${filename}`)));
  given('slow_compute', 'Sleeps, then answers.', { seconds, label: word.default('') }, async ({ seconds, label }) => {
    await sleep(1000 * Math.min(seconds, 1));
    return said(text(`Computed ${label}`));
  });
}

/** Schemas that the SDK's first version cannot take. */
function schemas(server) {
  server.registerTool(
    'json_schema_2020_12_tool',
    { description: 'Takes arguments described with keywords of JSON Schema 2020-12.', inputSchema: fromJsonSchema(RICH) },
    ({ name }) => said(text(`Hello, ${name}!`)),
  );
  server.registerTool(
    'test_custom_header',
    { description: 'Takes arguments that a modern client repeats in headers.', inputSchema: fromJsonSchema(REPEATED) },
    ({ region }) => said(text(`Region: ${region}`)),
  );
}

const RICH = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  $defs: {
    address: {
      $anchor: 'addressDef',
      type: 'object',
      properties: { street: { type: 'string' }, city: { type: 'string' } },
    },
  },
  properties: {
    name: { type: 'string' },
    address: { $ref: '#/$defs/address' },
    contactMethod: { type: 'string', enum: ['phone', 'email'] },
    phone: { type: 'string' },
    email: { type: 'string' },
  },
  allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
  if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
  then: { required: ['phone'] },
  else: { required: ['email'] },
  additionalProperties: false,
};

const REPEATED = {
  type: 'object',
  properties: {
    region: { type: 'string', 'x-mcp-header': 'Region' },
    priority: { type: 'integer', 'x-mcp-header': 'Priority' },
  },
  required: ['region'],
};

/** What is said before the result, or elsewhere. */
function streams(server) {
  const tool = (name, description, play) => server.registerTool(name, { description }, play);
  tool('test_tool_with_progress', 'Reports progress at 0, 50 and 100.', async ({ mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken;
    for (const progress of progressToken === undefined ? [] : [0, 50, 100]) {
      await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total: 100 } });
      await sleep(PACE);
    }
    return said(text('Progress test completed'));
  });
  tool('test_tool_with_logging', 'Logs three lines, 50 ms apart.', async ({ mcpReq }) => {
    for (const line of ['started', 'processing data', 'completed']) {
      await mcpReq.log('info', `Tool execution ${line}`);
      await sleep(PACE);
    }
    return said(text('Logging test completed'));
  });
  tool('test_logging_tool', 'Logs one line if the caller wants logs.', async ({ mcpReq }) => {
    await mcpReq.log('info', 'The logging tool was called');
    return said(text('Logged, if that was wanted'));
  });
  tool('test_reconnection', 'Closes its event stream in the middle of the call.', async ({ http }) => {
    await sleep(PACE);
    http?.closeSSE?.();
    await sleep(4 * PACE);
    return said(text('Reconnection test completed'));
  });
  tool('test_trigger_tool_change', 'Takes test_alternating_tool off the list, or puts it back.', () => {
    alternatingIsListed = !alternatingIsListed;
    modern.notify.toolsChanged();
    return said(text('Changed and announced'));
  });
  tool('test_trigger_prompt_change', 'Announces that the prompts changed.', () => {
    modern.notify.promptsChanged();
    return said(text('Announced'));
  });
  if (alternatingIsListed) {
    tool('test_alternating_tool', 'Is listed or not; test_trigger_tool_change decides.', () => said(text('Listed')));
  }
}

const strings = (...fields) => ({
  type: 'object',
  properties: Object.fromEntries(fields.map((field) => [field, { type: 'string' }])),
  required: fields,
});
const prompt = (question) => ({ messages: [{ role: 'user', content: text(question) }], maxTokens: 100 });

const DEFAULTS = {
  type: 'object',
  properties: {
    name: { type: 'string', default: 'John Doe' },
    age: { type: 'integer', default: 30 },
    score: { type: 'number', default: 95.5 },
    status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
    verified: { type: 'boolean', default: true },
  },
};
const PLAIN = ['option1', 'option2', 'option3'];
const TITLED = [1, 2, 3].map((number) => ({ const: `value${number}`, title: `Value ${number}` }));
const CHOICES = {
  type: 'object',
  properties: {
    untitledSingle: { type: 'string', enum: PLAIN },
    titledSingle: { type: 'string', oneOf: TITLED },
    legacyEnum: {
      type: 'string',
      enum: ['opt1', 'opt2', 'opt3'],
      enumNames: ['Option One', 'Option Two', 'Option Three'],
    },
    untitledMulti: { type: 'array', items: { type: 'string', enum: PLAIN } },
    titledMulti: { type: 'array', items: { anyOf: TITLED } },
  },
};

/** Without this the SDK asks on the session's own stream, and asks nobody if the client has not opened it yet. */
const onStreamOf = ({ id }) => ({ relatedRequestId: id });

/** Questions of the older era. */
function questions(server) {
  const elicited = async ({ mcpReq }, message, requestedSchema) => {
    const answer = await mcpReq.elicitInput({ mode: 'form', message, requestedSchema }, onStreamOf(mcpReq));
    return said(text(`User response: action=${answer.action}, content=${JSON.stringify(answer.content ?? {})}`));
  };
  server.registerTool(
    'test_sampling',
    { description: "Has the client's model answer a prompt.", inputSchema: z.object({ prompt: z.string() }) },
    async (given, { mcpReq }) => {
      const answer = await mcpReq.requestSampling(prompt(given.prompt), onStreamOf(mcpReq));
      return said(text(`LLM response: ${answer.content.text}`));
    },
  );
  server.registerTool(
    'test_elicitation',
    { description: 'Asks the user for a name and an address.', inputSchema: z.object({ message: z.string() }) },
    ({ message }, ctx) => elicited(ctx, message, strings('username', 'email')),
  );
  server.registerTool(
    'test_elicitation_sep1034_defaults',
    { description: 'Asks the user with a default for every field.' },
    (ctx) => elicited(ctx, 'Please review what is filled in', DEFAULTS),
  );
  server.registerTool(
    'test_elicitation_sep1330_enums',
    { description: 'Asks the user to choose, in five kinds of enumeration.' },
    (ctx) => elicited(ctx, 'Please choose', CHOICES),
  );
}

const form = (message, requestedSchema) => inputRequired.elicit({ message, requestedSchema });

/** Questions of the newer era. The SDK asks them by requests of its own in the older one. */
function results(server) {
  const tool = (name, description, play) =>
    server.registerTool(`test_input_required_result_${name}`, { description }, ({ mcpReq }) => play(mcpReq));
  tool('elicitation', 'Asks for a name and greets.', ({ inputResponses }) => {
    const answer = acceptedContent(inputResponses, 'user_name', z.object({ name: z.string() }));
    if (answer) return said(text(`Hello, ${answer.name}!`));
    return inputRequired({ inputRequests: { user_name: form('What is your name?', strings('name')) } });
  });
  tool('sampling', "Has the client's model name a capital.", ({ inputResponses }) => {
    const answer = inputResponse(inputResponses, 'capital_question');
    if (answer.kind === 'sampling') return said(text(`LLM response: ${answer.result.content.text}`));
    const question = inputRequired.createMessage(prompt('What is the capital of France?'));
    return inputRequired({ inputRequests: { capital_question: question } });
  });
  tool('list_roots', "Lists the client's roots.", ({ inputResponses }) => {
    const answer = inputResponse(inputResponses, 'client_roots');
    if (answer.kind === 'roots') return said(text(`Roots: ${answer.roots.map(({ uri }) => uri).join(', ')}`));
    return inputRequired({ inputRequests: { client_roots: inputRequired.listRoots() } });
  });
  for (const name of ['request_state', 'tampered_state']) {
    tool(name, 'Asks for a confirmation and keeps a state.', async ({ inputResponses, requestState }) => {
      const answer = acceptedContent(inputResponses, 'confirm');
      if (answer && requestState()?.asked) return said(text('state-ok'));
      const schema = { type: 'object', properties: { ok: { type: 'boolean' } }, required: ['ok'] };
      const inputRequests = { confirm: form('Please confirm', schema) };
      return inputRequired({ inputRequests, requestState: await states.mint({ asked: true }) });
    });
  }
  tool('multiple_inputs', 'Asks the user, the model and for roots at once.', async ({ inputResponses }) => {
    const inputRequests = {
      user_name: form('What is your name?', strings('name')),
      greeting: inputRequired.createMessage(prompt('Generate a greeting')),
      client_roots: inputRequired.listRoots(),
    };
    const isAnswered = (key) => inputResponse(inputResponses, key).kind !== 'missing';
    if (Object.keys(inputRequests).every(isAnswered)) return said(text('Everything was answered'));
    return inputRequired({ inputRequests, requestState: await states.mint({ asked: true }) });
  });
  tool('multi_round', 'Asks two questions, one after the other.', async ({ inputResponses, requestState }) => {
    const first = acceptedContent(inputResponses, 'step1');
    const second = acceptedContent(inputResponses, 'step2');
    const known = requestState()?.name;
    if (second && known) return said(text(`${known} likes ${second.color}`));
    const ask = async (key, message, field, state) =>
      inputRequired({ inputRequests: { [key]: form(message, strings(field)) }, requestState: await states.mint(state) });
    if (first) return ask('step2', 'Step 2: What is your favorite color?', 'color', { name: first.name });
    return ask('step1', 'Step 1: What is your name?', 'name', {});
  });
  tool('capabilities', 'Asks in the ways the client declared.', ({ inputResponses, envelope }) => {
    if (inputResponses) return said(text(`Answered: ${Object.keys(inputResponses).join(', ')}`));
    const { sampling, elicitation } = declared(envelope);
    const inputRequests = {
      ...(sampling && { model: inputRequired.createMessage(prompt('Who are you?')) }),
      ...(elicitation && { user: form('Who are you?', strings('name')) }),
    };
    return Object.keys(inputRequests).length ? inputRequired({ inputRequests }) : said(text('Nobody can be asked'));
  });
  const missing = 'Needs a client with sampling.';
  server.registerTool('test_missing_capability', { description: missing }, ({ mcpReq }) => {
    const answer = inputResponse(mcpReq.inputResponses, 'model');
    if (answer.kind === 'sampling') return said(text('There is a model'));
    return inputRequired({ inputRequests: { model: inputRequired.createMessage(prompt('Is there a model?')) } });
  });
  const streaming = 'Asks the user on the stream of the call.';
  server.registerTool('test_streaming_elicitation', { description: streaming }, ({ mcpReq }) => {
    const answer = acceptedContent(mcpReq.inputResponses, 'user');
    if (answer) return said(text(`Hello, ${answer.name}!`));
    return inputRequired({ inputRequests: { user: form('What is your name?', strings('name')) } });
  });
}

/** A prompt of the newer era. */
function asking(server) {
  const described = { description: 'A prompt that asks what it is about.' };
  server.registerPrompt('test_input_required_result_prompt', described, ({ mcpReq }) => {
    const answer = acceptedContent(mcpReq.inputResponses, 'user_context');
    if (answer) return { messages: [{ role: 'user', content: text(`Consider ${answer.context}`) }] };
    return inputRequired({ inputRequests: { user_context: form('What is this about?', strings('context')) } });
  });
}

/** What a newer client says it can do. */
const declared = (envelope) => envelope?.['io.modelcontextprotocol/clientCapabilities'] ?? {};

function resources(server) {
  const add = (name, uri, mimeType, content) =>
    server.registerResource(name, uri, { description: `The ${name} resource.`, mimeType }, ({ href }) => ({
      contents: [{ uri: href, mimeType, ...content }],
    }));
  add('static-text', 'test://static-text', 'text/plain', { text: 'This is the content of the static text resource.' });
  add('static-binary', 'test://static-binary', 'image/png', { blob: PNG });
  add('watched-resource', WATCHED, 'text/plain', { text: 'Watched resource content' });
  const template = new ResourceTemplate('test://template/{id}/data', { list: undefined });
  const described = { description: 'Data of an id.', mimeType: 'application/json' };
  server.registerResource('template', template, described, ({ href }, { id }) => {
    const data = JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` });
    return { contents: [{ uri: href, mimeType: 'application/json', text: data }] };
  });
}

function prompts(server) {
  const messages = (...contents) => ({ messages: contents.map((content) => ({ role: 'user', content })) });
  server.registerPrompt('test_simple_prompt', { description: 'A prompt without arguments.' }, () =>
    messages(text('This is a simple prompt for testing.')));
  const known = ['paris', 'park', 'party'];
  const argument = completable(z.string(), (value) => known.filter((name) => name.startsWith(value)));
  server.registerPrompt(
    'test_prompt_with_arguments',
    { description: 'A prompt with two arguments.', argsSchema: z.object({ arg1: argument, arg2: z.string() }) },
    ({ arg1, arg2 }) => messages(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)),
  );
  server.registerPrompt(
    'test_prompt_with_embedded_resource',
    { description: 'A prompt that brings a resource.', argsSchema: z.object({ resourceUri: z.string() }) },
    ({ resourceUri }) => {
      const content = resource(resourceUri, 'text/plain', 'Embedded resource content for testing.');
      return messages(content, text('Please process the embedded resource above.'));
    },
  );
  server.registerPrompt('test_prompt_with_image', { description: 'A prompt that brings an image.' }, () =>
    messages(image(), text('Please analyze the image above.')));
}

/** What a tool is given by the SDK's first version, as the second gives it. */
function context({ requestId, _meta, sendNotification, sendRequest, closeSSEStream }) {
  const ask = (method, answer) => (params) => sendRequest({ method, params }, answer);
  const mcpReq = {
    id: requestId,
    _meta,
    notify: sendNotification,
    log: (level, data) => sendNotification({ method: 'notifications/message', params: { level, data } }),
    elicitInput: ask('elicitation/create', types.ElicitResultSchema),
    requestSampling: ask('sampling/createMessage', types.CreateMessageResultSchema),
  };
  return { mcpReq, http: { closeSSE: closeSSEStream } };
}

/** Registers with the SDK's first version what was written for the second. */
function translated(server) {
  const registerTool = (name, config, play) =>
    server.registerTool(
      name,
      config,
      config.inputSchema ? (given, extra) => play(given, context(extra)) : (extra) => play(context(extra)),
    );
  const registerPrompt = (name, { argsSchema, ...config }, play) =>
    server.registerPrompt(name, { ...config, ...(argsSchema && { argsSchema: argsSchema.shape }) }, play);
  return { registerTool, registerPrompt, registerResource: server.registerResource.bind(server) };
}

/** A server for one session or, in the newer era, one request. */
function build({ era }) {
  const list = { listChanged: true };
  const capabilities = { tools: list, prompts: list, resources: { ...list, subscribe: true }, logging: {}, completions: {} };
  const identity = { name: 'conformance-typescript', version: '1.0.0' };
  const server = new McpServer(identity, { capabilities, requestState: { verify: states.verify } });
  const inBoth = [contents, streams, questions, resources, prompts];
  for (const register of inBoth) register(isFirst ? translated(server) : server);
  for (const register of isFirst ? [] : [schemas, results, asking]) register(server);
  if (era === 'legacy') {
    const { SubscribeRequestSchema, UnsubscribeRequestSchema } = types;
    const methods = isFirst
      ? [SubscribeRequestSchema, UnsubscribeRequestSchema]
      : ['resources/subscribe', 'resources/unsubscribe'];
    for (const method of methods) server.server.setRequestHandler(method, () => ({}));
  }
  return server;
}

const modern = createMcpHandler(build, { legacy: 'reject' });
const sessions = new Map();

/** What was said on each stream of a session, so that a stream can be resumed. */
function events() {
  const said = [];
  return {
    async storeEvent(stream, message) {
      return String(said.push({ stream, message }) - 1);
    },
    async replayEventsAfter(last, { send }) {
      const { stream } = said[Number(last)];
      for (const [number, event] of [...said.entries()].slice(Number(last) + 1)) {
        if (event.stream === stream && event.message.jsonrpc) await send(String(number), event.message);
      }
      return stream;
    },
  };
}

async function legacy(request) {
  const known = sessions.get(request.headers.get('mcp-session-id'));
  if (known) return known.handleRequest(request);
  if (request.headers.has('mcp-session-id')) return Response.json({ error: 'no such session' }, { status: 404 });
  const transport = new WebStandardStreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => void sessions.set(id, transport),
    onsessionclosed: (id) => void sessions.delete(id),
    eventStore: events(),
    retryInterval: 100,
  });
  await build({ era: 'legacy' }).connect(transport);
  return transport.handleRequest(request);
}

async function answer(request) {
  return (
    hostHeaderValidationResponse(request, localhostAllowedHostnames()) ??
    originValidationResponse(request, localhostAllowedOrigins()) ??
    (isFirst || (await isLegacyRequest(request)) ? legacy(request) : modern.fetch(request))
  );
}

const listener = createServer(async (incoming, outgoing) => {
  const gone = new AbortController();
  outgoing.on('close', () => gone.abort());
  const body = Buffer.concat(await incoming.toArray());
  const request = new Request(`http://${incoming.headers.host}${incoming.url}`, {
    method: incoming.method,
    headers: incoming.headers,
    signal: gone.signal,
    ...(incoming.method === 'POST' && { body }),
  });
  const response = await answer(request);
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  outgoing.flushHeaders();
  if (response.body) await pipeline(Readable.fromWeb(response.body), outgoing).catch(() => {});
  else outgoing.end();
});
listener.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${listener.address().port}/mcp`));
process.stdin.resume().on('end', () => process.exit());
