// A server with one tool, `fetch`, by the runtime's own means: no proxy variable is left to it.
import { createInterface } from 'node:readline';

for (const name of Object.keys(process.env)) {
  if (/proxy/i.test(name)) delete process.env[name];
}

const tool = {
  name: 'fetch',
  inputSchema: { type: 'object', properties: { url: { type: 'string' } }, required: ['url'] },
};

async function answer({ method, params }) {
  switch (method) {
    case 'initialize':
      return {
        protocolVersion: params.protocolVersion,
        capabilities: { tools: {} },
        serverInfo: { name: 'fetching', version: '1' },
      };
    case 'tools/list':
      return { tools: [tool] };
    case 'tools/call': {
      try {
        const response = await fetch(params.arguments.url);
        return { content: [{ type: 'text', text: await response.text() }] };
      } catch (error) {
        return { content: [{ type: 'text', text: String(error.cause ?? error) }], isError: true };
      }
    }
    default:
      return {};
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  if (message.id === undefined) continue;
  const result = await answer(message);
  process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id: message.id, result }) + '\n');
}
