//! Every key `portreeve.toml` may hold, in one table. `docs/configuration.md` shows this table; a test compares them.
//! ADR 0008: what waits for a later version is a fault.

mod credential;
mod output;
mod process;
mod tool_limits;

use settings::Standing::{Default, Derived, Later, Optional, Required};
use settings::{Format, Key, key};

/// `portreeve.toml`.
pub static FORMAT: Format = Format {
    name: "configuration",
    keys: &KEYS,
};

static KEYS: [Key; BEFORE_PROCESSES.len()
    + process::KEYS.len()
    + AFTER_PROCESSES.len()
    + credential::KEYS.len()
    + AFTER_CREDENTIALS.len()
    + tool_limits::KEYS.len()
    + output::KEYS.len()] = joined(&[
    BEFORE_PROCESSES,
    process::KEYS,
    AFTER_PROCESSES,
    credential::KEYS,
    AFTER_CREDENTIALS,
    tool_limits::KEYS,
    output::KEYS,
]);

/// Several parts of the table as one.
#[expect(
    clippy::indexing_slicing,
    reason = "worked out by the compiler: a wrong length does not compile"
)]
const fn joined<const ALL: usize>(parts: &[&[Key]]) -> [Key; ALL] {
    let mut all = [key("", "", Optional); ALL];
    let (mut part, mut filled) = (0, 0);
    while part < parts.len() {
        let mut at = 0;
        while at < parts[part].len() {
            all[filled] = parts[part][at];
            filled += 1;
            at += 1;
        }
        part += 1;
    }
    all
}

const BEFORE_PROCESSES: &[Key] = &[
    key(
        "profile",
        "What the installation is for: `production` refuses what has no place there.",
        Optional,
    ),
    key(
        "listen.mcp",
        "Address of the data plane; port 0 takes a free one.",
        Default(
            r#""127.0.0.1:8443""#,
            "loopback: nothing is offered to a network unless someone says so",
        ),
    ),
    key(
        "listen.admin",
        "Address of the control plane; port 0 takes a free one.",
        Default(r#""127.0.0.1:8444""#, "loopback, and apart from the data plane"),
    ),
    key(
        "listen.tls.mode",
        "`auto`: a local CA is made in the state directory; `files`: own certificate; `off`: on loopback only.",
        Default(r#""auto""#, "encrypted without any set-up"),
    ),
    key(
        "listen.tls.cert",
        "PEM file with the certificate chain (mode `files`).",
        Optional,
    ),
    key(
        "listen.tls.key",
        "PEM file with the private key (mode `files`).",
        Optional,
    ),
    key(
        "listen.tls.client_ca",
        "PEM file with the roots that client certificates must come from.",
        Optional,
    ),
    key(
        "listen.public_url",
        "How clients reach the gateway; names it in metadata and audiences.",
        Derived(
            "the bound address",
            "right until a proxy or another name stands before it",
        ),
    ),
    key(
        "listen.allowed_hosts",
        "Values of the `Host` header that are answered; ports are ignored.",
        Default(
            r#"["localhost", "127.0.0.1"]"#,
            "another name means DNS rebinding or a forgotten setting",
        ),
    ),
    key(
        "listen.allowed_origins",
        "Values of the `Origin` header that are answered, beside the gateway's own.",
        Default("[]", "no foreign page talks to the gateway"),
    ),
    key(
        "state.dir",
        "Directory of store, ledger, keys and certificates.",
        Derived(
            "the XDG state directory + `/portreeve`",
            "where such files live on this machine",
        ),
    ),
    key(
        "state.store",
        "Where inventory, tokens and the activity index are kept: `sqlite`.",
        Default(r#""sqlite""#, "needs no server"),
    ),
    key(
        "state.coordination",
        "How several gateways agree: `local`, a single gateway.",
        Default(r#""local""#, "one gateway needs nobody"),
    ),
    key(
        "audit.origin",
        "The log's name; fixed at first start.",
        Derived("the host name + `/portreeve`", "different on every machine"),
    ),
    key(
        "audit.durability",
        "What an answer waits for: `always` the disk; `writes` the disk from medium risk on; `interval` the kernel.",
        Default(
            r#""writes""#,
            "a call that changes something survives power loss; a read costs no disk wait",
        ),
    ),
    key(
        "audit.commit_interval_ms",
        "Longest time records are gathered before they are written to disk, in milliseconds.",
        Default("5", "about one disk sync"),
    ),
    key(
        "audit.retention.days",
        "Records are kept so long; whole segments go, each when its last record is older.",
        Default("90", "a quarter"),
    ),
    key(
        "audit.retention.min_days",
        "Younger records are never deleted, whatever the size.",
        Default("30", "an incident is often found weeks later"),
    ),
    key(
        "audit.retention.max_bytes",
        "A larger log loses its oldest segments earlier, down to `min_days`.",
        Default(r#""10GiB""#, "fits an ordinary disk"),
    ),
    key(
        "audit.record_arguments",
        "Whether arguments themselves are kept, encrypted, for operators to read and to erase; else their hash alone is.",
        Default("false", "arguments hold secrets and personal data"),
    ),
    key(
        "audit.witness.directory",
        "A directory, best of another machine, that gets a copy of every signed checkpoint.",
        Optional,
    ),
    key(
        "audit.record_results",
        "Whether answers are kept in the same way: what was sent to the client, after screening.",
        Default("false", "answers hold what the arguments asked for"),
    ),
    key(
        "identity.jwt[].issuer",
        "The `iss` of the tokens, compared exactly.",
        Required("write the `iss` of its tokens"),
    ),
    key(
        "identity.jwt[].audience",
        "The `aud` (one, or a list) that a token must hold.",
        Derived("`public_url` + `/mcp`", "a token for another service is not for us"),
    ),
    key(
        "identity.jwt[].jwks",
        "URL of the issuer's keys; this or `jwks_file`.",
        Optional,
    ),
    key(
        "identity.jwt[].jwks_file",
        "File with the issuer's keys; this or `jwks`.",
        Optional,
    ),
    key(
        "identity.jwt[].algorithms",
        "Signature algorithms that are accepted; asymmetric ones only.",
        Default(
            r#"["RS256", "ES256", "EdDSA"]"#,
            "what issuers use; a shared key would let any holder forge",
        ),
    ),
    key(
        "identity.jwt[].claims.org",
        "Claim that names the organisation.",
        Default(r#""org_id""#, "the usual name"),
    ),
    key(
        "identity.jwt[].claims.groups",
        "Claim that lists the groups.",
        Default(r#""groups""#, "the usual name"),
    ),
    key(
        "identity.jwt[].claims.client",
        "Claim that names the client.",
        Default(r#""azp""#, "the usual name"),
    ),
    key(
        "identity.jwt[].claims.*",
        "A further claim that policies read as `principal.claims.NAME`; the value is the claim's name in the token.",
        Optional,
    ),
    key(
        "identity.tokens.enabled",
        "Whether agent tokens (`portreeve token create`) are accepted.",
        Default(
            "true",
            "works without an identity provider; nobody has one until it is made",
        ),
    ),
    key(
        "identity.mtls.enabled",
        "Whether client certificates identify a caller; needs `listen.tls.client_ca`.",
        Default("false", "needs a CA of your own"),
    ),
    key(
        "servers.*.url",
        "Address of the server: `https://`, or `http://` on loopback. Every server has this or `command`.",
        Optional,
    ),
    key(
        "servers.*.command",
        "Program and arguments of a server that is started here, in a sandbox. `{workspace}` becomes the workspace's path.",
        Optional,
    ),
];

const AFTER_PROCESSES: &[Key] = &[
    key(
        "servers.*.transport",
        "`http`: Streamable HTTP; `sse`: HTTP+SSE of 2024-11-05.",
        Default(r#""http""#, "the transport of current servers"),
    ),
    key(
        "servers.*.era",
        "Protocol era: `auto`, `legacy` (with sessions) or `modern` (2026-07-28, stateless).",
        Default(r#""auto""#, "found by asking"),
    ),
    key(
        "servers.*.isolation",
        "`per_principal`: nothing is shared between callers; `shared`: for servers without per-user state.",
        Default(
            r#""per_principal""#,
            "one caller's session says nothing about another's",
        ),
    ),
    key(
        "servers.*.extension_methods",
        "Methods beyond MCP that are let through, `[\"vendor/…\"]`, decided like the others.",
        Default("[]", "what nobody named is refused"),
    ),
    key(
        "servers.*.ca",
        "PEM file with a further trust root, for this server alone.",
        Optional,
    ),
    key(
        "servers.*.certificate_name",
        "A name that the server's certificate must be good for, beside its host.",
        Optional,
    ),
    key(
        "servers.*.trust",
        "`internal`, `verified`, `community` or `unknown`.",
        Default(
            r#""unknown""#,
            "trust is given, not assumed; tools of unknown servers wait for approval",
        ),
    ),
];

const AFTER_CREDENTIALS: &[Key] = &[
    key(
        "servers.*.tools.*.risk",
        "`low`, `medium`, `high` or `critical`: the operator's word, above the server's hints.",
        Derived(
            "`high`; hints of `internal` and `verified` servers can lower it",
            "unclassified means dangerous",
        ),
    ),
    key(
        "servers.*.tools.*.unknown_fields",
        "`reject` or `allow` arguments that the tool's schema does not name.",
        Default(r#""reject""#, "an undeclared field is an unchecked one"),
    ),
    key(
        "servers.*.tools.*.paths",
        "JSON pointers to arguments that hold file paths, `*` for each item or member: `[\"/path\", \"/moves/*/to\"]`.",
        Default("[]", "what the schema marks as a path is found without them"),
    ),
    key(
        "servers.*.tools.*.detect_paths",
        "Whether arguments that the schema marks as paths are held to the workspace, where the server has one.",
        Default("true", "a path that nobody declared is a path all the same"),
    ),
    key(
        "servers.*.tools.*.urls",
        "JSON pointers to arguments that hold URLs, beside those with `format` `uri`, `url` or `iri`.",
        Default("[]", "schemas that say so need no more"),
    ),
    key(
        "servers.*.tools.*.hosts",
        "Hosts that URLs in the arguments may name, written as in `sandbox.allow`.",
        Derived(
            "`sandbox.allow`",
            "what the server cannot reach it need not be asked for",
        ),
    ),
    key(
        "trust.require_signed",
        "Whether only servers are started that stand in `servers.lock` as they are, under a signature of one of `keys`.",
        Default("false", "nobody has a key until it is made"),
    ),
    key(
        "trust.keys",
        "Public keys whose signature of `servers.lock` counts: `NAME+HASH+KEY`, or `file:PATH` of a file with one a line.",
        Default("[]", "nobody is trusted unless named"),
    ),
    key(
        "policy.files",
        "Cedar policies; `*` and `?` match within a name. Missing or empty: everything is denied.",
        Default(r#"["policies/*.cedar"]"#, "beside the configuration"),
    ),
    key(
        "approvals.ttl",
        "How long a call waits for a person, and how long their word is then good: from one second to one day.",
        Default(r#""15m""#, "somebody who was asked is still there"),
    ),
    key(
        "approvals.max_pending",
        "How many calls of one principal may wait for a person.",
        Default("10", "whoever decides cannot be flooded"),
    ),
    key(
        "approvals.four_eyes",
        "Whether somebody else has to decide than asked: an admin of another name than the requester's `sub`.",
        Default("true", "nobody approves their own calls"),
    ),
    key(
        "approvals.webhook.url",
        "Who is told of what begins to wait: `https://`, or `http://` on loopback. It is sent an id and a link.",
        Required("write an address"),
    ),
    key(
        "approvals.webhook.secret",
        "Reference to the secret that signs what is sent: `env:NAME` or `file:PATH`.",
        Required("write `env:NAME` or `file:PATH`"),
    ),
    key(
        "incident.two_person_end",
        "Whether it takes two different people to end an incident.",
        Default("false", "one person at night can let work go on"),
    ),
    key(
        "limits.request.max_bytes",
        "Size of a client's whole body.",
        Default("4194304", "room for large arguments and their envelope"),
    ),
    key(
        "limits.request.max_depth",
        "Nesting of a client's whole body; a scalar is 1.",
        Default("64", "deeper than honest clients go"),
    ),
    key(
        "limits.arguments.max_bytes",
        "Size of a call's arguments.",
        Default("262144", "a file of ordinary length"),
    ),
    key(
        "limits.arguments.max_depth",
        "Nesting of a call's arguments.",
        Default("32", "deeper than honest tools ask for"),
    ),
    key(
        "limits.arguments.max_string",
        "Bytes of one string in the arguments.",
        Default("65536", "a page of text, not a disk image"),
    ),
    key(
        "limits.arguments.max_items",
        "Members and items in the arguments, all together.",
        Default("10000", "bounds the work of checking"),
    ),
    key(
        "limits.result.max_bytes",
        "Size of any message of a server.",
        Default("33554432", "large results pass, endless ones do not"),
    ),
    key(
        "limits.result.max_depth",
        "Nesting of any message of a server.",
        Default("512", "bounds the work of reading"),
    ),
    key(
        "limits.rate",
        "How many requests in how long; all of these hold. See [limits](limits.md).",
        Default(
            r#"[{ per = "principal", calls = 120, window = "1m" }, { per = "tool", calls = 600, window = "1m" }]"#,
            "two calls a second suit an agent; a loop is stopped",
        ),
    ),
    key(
        "limits.rate[].per",
        "What is counted apart: `principal`, `client`, `session`, `server` or `tool`, or a list of them.",
        Required("write `principal`, or `[\"principal\", \"tool\"]`"),
    ),
    key(
        "limits.rate[].calls",
        "Number of calls.",
        Required("write a whole number"),
    ),
    key(
        "limits.rate[].window",
        "A length of time that rolls on, or `day` or `month` of the calendar (UTC).",
        Required("write `90s`, `15m`, `1h` or `7d`, or `day` or `month`"),
    ),
    key(
        "limits.rate[].methods",
        "`calls`: what does something; `lists`: lists, subscriptions, completions and what the gateway answers; `all`.",
        Default(r#""calls""#, "asking what there is has an allowance of its own"),
    ),
    key(
        "limits.quota",
        "As `rate`, counted across restarts.",
        Default(
            r#"[{ per = "principal", calls = 10000, window = "1d" }]"#,
            "a busy agent's day; what runs wild ends by evening",
        ),
    ),
    key(
        "limits.quota[].per",
        "As for `rate`.",
        Required("write `principal`, or `[\"principal\", \"tool\"]`"),
    ),
    key(
        "limits.quota[].calls",
        "Number of calls.",
        Required("write a whole number"),
    ),
    key(
        "limits.quota[].window",
        "As for `rate`.",
        Required("write `1h` or `7d`, or `day` or `month`"),
    ),
    key(
        "limits.quota[].methods",
        "As for `rate`.",
        Default(r#""calls""#, "what does something is what costs something"),
    ),
    key(
        "limits.concurrency.per_principal",
        "Calls of one caller at a time.",
        Default("16", "a caller cannot take the whole gateway"),
    ),
    key(
        "limits.concurrency.per_server",
        "Calls to one server at a time.",
        Default("64", "a slow server cannot take the whole gateway"),
    ),
    key(
        "limits.timeout",
        "How long a server may take to answer.",
        Default(r#""60s""#, "clients give up about then"),
    ),
    // Known, and refused with that word until the feature is there.
    key("audit.witness.command", "", Later("a command as a witness")),
    key("servers.*.credential.vault", "", Later("Vault")),
    key("servers.*.credential.oauth", "", Later("OAuth per user")),
];
