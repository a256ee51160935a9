//! Keys of `servers.*.credential`: what a server is shown.

use settings::Standing::{Default, Derived, Optional, Required};
use settings::{Key, key};

pub(super) const KEYS: &[Key] = &[
    key(
        "servers.*.credential",
        "`\"none\"`, or one of `{ secret = … }`, `{ exchange = { … } }`, `{ client_credentials = { … } }`, `{ mtls = { … } }`.",
        Default(r#""none""#, "no credential leaves unless one is named"),
    ),
    key(
        "servers.*.credential.secret",
        "Reference to the secret: `env:NAME` or `file:PATH`, never the secret itself.",
        Optional,
    ),
    key(
        "servers.*.credential.exchange.token_url",
        "Token endpoint at which the caller's token is exchanged (RFC 8693): `https://`, or `http://` on loopback.",
        Required("write the token endpoint of your authorisation server"),
    ),
    key(
        "servers.*.credential.exchange.client_id",
        "The gateway's name there.",
        Required("register the gateway as a client that may exchange tokens"),
    ),
    key(
        "servers.*.credential.exchange.client_secret",
        "Reference to the secret that proves it.",
        Required("write `env:NAME` or `file:PATH`"),
    ),
    key(
        "servers.*.credential.exchange.audience",
        "Whom the token is for, by the authorisation server's name: a JWT that comes back must name exactly this or `resource`.",
        Optional,
    ),
    key(
        "servers.*.credential.exchange.resource",
        "Whom the token is for, by address (RFC 8707).",
        Derived(
            "the server's `url`, where no `audience` is named",
            "a token is for one server",
        ),
    ),
    key(
        "servers.*.credential.exchange.scopes",
        "What the token may be good for at most; a wider one is refused.",
        Default("[]", "what the authorisation server gives"),
    ),
    key(
        "servers.*.credential.exchange.ca",
        "PEM file with further trust roots, for this endpoint alone.",
        Optional,
    ),
    key(
        "servers.*.credential.client_credentials.token_url",
        "Token endpoint that grants the gateway tokens for its own word (RFC 6749 §4.4).",
        Required("write the token endpoint of your authorisation server"),
    ),
    key(
        "servers.*.credential.client_credentials.client_id",
        "The gateway's name there.",
        Required("register the gateway as a client"),
    ),
    key(
        "servers.*.credential.client_credentials.client_secret",
        "Reference to the secret that proves it.",
        Required("write `env:NAME` or `file:PATH`"),
    ),
    key(
        "servers.*.credential.client_credentials.audience",
        "Whom the token is for; a JWT that comes back must name exactly this.",
        Optional,
    ),
    key(
        "servers.*.credential.client_credentials.scopes",
        "What the token may be good for at most; a wider one is refused.",
        Default("[]", "what the authorisation server gives"),
    ),
    key(
        "servers.*.credential.client_credentials.ca",
        "PEM file with further trust roots, for this endpoint alone.",
        Optional,
    ),
    key(
        "servers.*.credential.mtls.cert",
        "PEM file with the certificate that the server is shown when a connection begins, and those that lead to its root.",
        Required("write the path of a PEM file"),
    ),
    key(
        "servers.*.credential.mtls.key",
        "Reference to its private key in PEM: `env:NAME` or `file:PATH`.",
        Required("write `env:NAME` or `file:PATH`"),
    ),
    key(
        "servers.*.credential.header",
        "Header that carries it.",
        Default(r#""authorization""#, "the standard place"),
    ),
    key(
        "servers.*.credential.scheme",
        "Word before it in the header; empty for none.",
        Derived(
            "`Bearer` in `Authorization`, else none",
            "RFC 6750; other headers carry bare keys",
        ),
    ),
];
