// A certified OpenID provider as identity provider and authorization server: client credentials (RFC 6749), token exchange
// (RFC 8693) of its own access tokens, resource indicators (RFC 8707), introspection (RFC 7662) and revocation (RFC 7009).
//
// Usage: authorization_server.mjs MODULES RESOURCE…
// Each RESOURCE is an address tokens may be for; the first is the gateway's own. Prints {"issuer"} when it answers; what it was
// asked is on standard error, a JSON object a line. Ends when its standard input does.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, ...resources] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const load = async (name) => import(pathToFileURL(require.resolve(name)).href);
const { default: Provider, errors } = await load("oidc-provider");
const { createLocalJWKSet, exportJWK, generateKeyPair, jwtVerify } = await load("jose");

const EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token";
const server = createServer();
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const issuer = `http://127.0.0.1:${server.address().port}`;

const { privateKey, publicKey } = await generateKeyPair("ES256", { extractable: true });
const named = { kid: "key-1", alg: "ES256", use: "sig" };
const keys = createLocalJWKSet({ keys: [{ ...(await exportJWK(publicKey)), ...named }] });

const client = (client_id, grant_types) => ({
  client_id, client_secret: `secret of ${client_id}: 50%/+&`, grant_types, redirect_uris: [], response_types: [],
  token_endpoint_auth_method: "client_secret_basic", id_token_signed_response_alg: "ES256",
});

const meant = (resource) => {
  if (!resources.includes(resource)) throw new errors.InvalidTarget();
  return { scope: "read write", audience: resource, accessTokenTTL: 120, accessTokenFormat: "jwt", jwt: { sign: { alg: "ES256" } } };
};

const provider = new Provider(issuer, {
  jwks: { keys: [{ ...(await exportJWK(privateKey)), ...named }] },
  clients: [client("gateway", ["client_credentials", EXCHANGE]), client("ann", ["client_credentials"]), client("bob", ["client_credentials"])],
  scopes: ["read", "write"],
  features: {
    devInteractions: { enabled: false }, clientCredentials: { enabled: true }, introspection: { enabled: true }, revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (ctx, resource) => meant(resource),
    },
  },
});

const bad = (why) => { throw new errors.InvalidRequest(why); };
provider.registerGrantType(EXCHANGE, async (ctx) => {
  const { params, client } = ctx.oidc;
  if (params.subject_token_type !== ACCESS_TOKEN || params.requested_token_type !== ACCESS_TOKEN) bad("unsupported token type");
  if (!params.resource || Array.isArray(params.resource)) throw new errors.InvalidTarget();
  let subject;
  try {
    subject = (await jwtVerify(params.subject_token, keys, { issuer, typ: "at+jwt" })).payload;
  } catch {
    throw new errors.InvalidGrant("the subject token is not good");
  }
  // Whoever exchanges a token must be meant by it.
  if (![subject.aud].flat().includes(resources[0])) throw new errors.InvalidTarget();
  const resourceServer = new provider.ResourceServer(params.resource, meant(params.resource));
  const wanted = params.scope ? params.scope.split(" ") : ["read"];
  if (!wanted.every((scope) => resourceServer.scope.split(" ").includes(scope))) throw new errors.InvalidScope("no such scope", params.scope);
  const token = new provider.AccessToken({ accountId: subject.sub, client, gty: "token-exchange", scope: wanted.join(" ") });
  token.resourceServer = resourceServer;
  ctx.body = {
    access_token: await token.save(), issued_token_type: ACCESS_TOKEN, token_type: token.tokenType,
    expires_in: token.expiration, scope: token.scope,
  };
}, ["subject_token", "subject_token_type", "requested_token_type", "resource", "audience", "scope", "actor_token", "actor_token_type"]);

provider.use(async (ctx, next) => {
  await next();
  const asked = ctx.oidc?.params?.grant_type ?? ctx.path;
  process.stderr.write(`${JSON.stringify({ asked, status: ctx.status, error: ctx.body?.error, detail: ctx.body?.error_description })}\n`);
});
provider.on("server_error", (ctx, error) => process.stderr.write(`${error.stack}\n`));
server.on("request", provider.callback());
process.stdout.write(`${JSON.stringify({ issuer })}\n`);
process.stdin.on("end", () => process.exit(0)).resume();
