use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use ::policy::{Methods, Per, PerSet, Rule, ToolLimits, Window};
use rustls_pki_types::CertificateDer;
use settings::{Key, Standing};
use vocabulary::{Risk, ServerId, ToolName, Trust};

use super::*;

/// A directory with files that configurations point to, and variables.
struct Desk {
    dir: tempfile::TempDir,
    variables: BTreeMap<String, String>,
}

impl Desk {
    fn new() -> Self {
        let variables = [
            ("TOKEN", "s3cret-value"),
            ("BROKEN", "two\nlines"),
            ("XDG_STATE_HOME", "/state"),
        ];
        let variables = variables
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        Self {
            dir: tempfile::tempdir().unwrap(),
            variables,
        }
    }

    fn with(self, name: &str, text: &str) -> Self {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    fn load(&self, text: &str) -> Result<Config, Faults> {
        RawConfig::from_text(text.to_owned(), self.dir.path().to_owned(), self.variables.clone()).try_into()
    }
}

fn load(text: &str) -> Result<Config, Faults> {
    Desk::new().load(text)
}

/// The faults of a text as (line, key).
fn places(text: &str) -> Vec<(usize, String)> {
    let faults = load(text).expect_err("faulty");
    faults
        .as_slice()
        .iter()
        .map(|fault| (fault.line, fault.key.clone()))
        .collect()
}

/// The single fault of a text, as people see it.
fn fault(text: &str) -> String {
    fault_at(&Desk::new(), text)
}

fn fault_at(desk: &Desk, text: &str) -> String {
    let faults = desk.load(text).expect_err("faulty");
    assert_eq!(faults.as_slice().len(), 1, "{faults}");
    faults.as_slice()[0].to_string()
}

fn warnings(desk: &Desk, text: &str) -> Vec<String> {
    desk.load(text)
        .expect("sound")
        .warnings()
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn hosts_that_are_listed_in_vain_are_told_with_what_to_write() {
    let told = |lists: &str| {
        let server = format!(
            "[servers.db]\ncommand = [\"true\"]\nisolation = \"shared\"\nsandbox = {{ net = \"allowlist\", {lists} }}\n"
        );
        let mut told = warnings(&Desk::new(), &server);
        told.retain(|warning| warning.contains("allow"));
        told
    };
    let [warning] = told(r#"allow = ["localhost:5432"]"#).try_into().unwrap();
    assert!(
        warning.contains("`localhost`") && warning.contains(r#"private = ["127.0.0.0/8", "::1/128"]"#),
        "{warning}"
    );
    assert_eq!(
        told(r#"allow = ["localhost:5432"], private = ["::1/128"]"#),
        Vec::<String>::new()
    );
    let [warning] = told(r#"allow = ["squid.example:3128", "db.example:5432"]"#)
        .try_into()
        .unwrap();
    assert!(warning.contains("port 3128"), "{warning}");
}

#[test]
fn an_empty_file_is_a_whole_configuration_with_the_defaults_of_the_contract() {
    let config = load("").expect("sound");
    assert_eq!(config.listen.mcp, "127.0.0.1:8443".parse().unwrap());
    assert_eq!(config.listen.admin, "127.0.0.1:8444".parse().unwrap());
    assert!(matches!(config.listen.tls, Tls::Auto));
    assert_eq!(config.listen.allowed_hosts, ["localhost", "127.0.0.1"]);
    assert_eq!(config.listen.allowed_origins, Vec::<String>::new());
    assert_eq!(config.listen.public_url, None);
    assert_eq!(config.state.dir, PathBuf::from("/state/portreeve"));
    assert!(config.audit.origin.ends_with("/portreeve"));
    assert_eq!(config.audit.durability, Durability::Writes);
    assert_eq!(
        config.audit.retention,
        Retention {
            days: 90,
            min_days: 30,
            max_bytes: 10 << 30
        }
    );
    assert_eq!(
        config.identity,
        Identity {
            jwt: vec![],
            tokens_enabled: true,
            mtls_enabled: false
        }
    );
    assert!(config.servers.is_empty());
    assert_eq!(config.policy.files, vec![]);
    let minute = std::time::Duration::from_secs(60);
    let rule = |per: Per, calls: u32, window| Rule {
        per: per.into(),
        calls: NonZeroU32::new(calls).unwrap(),
        window: Window::Rolling(window),
        methods: Methods::Calls,
    };
    let expected = Limits {
        request: MessageLimits {
            max_bytes: 4_194_304,
            max_depth: 64,
        },
        arguments: ArgumentLimits {
            max_bytes: 262_144,
            max_depth: 32,
            max_string: 65_536,
            max_items: 10_000,
        },
        result: MessageLimits {
            max_bytes: 33_554_432,
            max_depth: 512,
        },
        rate: vec![rule(Per::Principal, 120, minute), rule(Per::Tool, 600, minute)],
        quota: vec![rule(Per::Principal, 10_000, std::time::Duration::from_secs(86_400))],
        concurrency: Concurrency {
            per_principal: 16,
            per_server: 64,
        },
        timeout: minute,
    };
    assert_eq!(config.limits, expected);
}

#[test]
fn five_mistakes_are_five_faults_each_with_line_key_and_hint() {
    let text = r#"[listen]
mcp = "everywhere:1"
alowed_hosts = ["localhost"]
[servers.files]
url = "http://files.example/mcp"
trust = "comunity"
[limits]
timeout = "sixty seconds"
"#;
    let faults = load(text).expect_err("faulty");
    let lines = [
        "portreeve.toml:2: listen.mcp: is not an address\n    hint: write IP and port, such as `127.0.0.1:8443` or `[::1]:0`",
        "portreeve.toml:3: listen.alowed_hosts: unknown key\n    hint: did you mean `allowed_hosts`?",
        "portreeve.toml:5: servers.files.url: `http://` is accepted for loopback only\n    hint: write `https://host[:port]/path`",
        "portreeve.toml:6: servers.files.trust: `comunity` is not known here\n    hint: did you mean `community`?",
        "portreeve.toml:8: limits.timeout: is not a length of time\n    hint: write `90s`, `15m`, `1h` or `7d`",
    ];
    assert_eq!(
        faults.to_string(),
        format!("5 faults in the configuration\n{}", lines.join("\n"))
    );
}

#[test]
fn a_mistake_in_the_spelling_does_not_hide_the_mistakes_after_it() {
    let text = "[listen]\nmcp = \"127.0.0.1:1\nadmin = 5\n[limits]\ntimeout = 1\n";
    assert_eq!(
        places(text),
        [
            (2, String::new()),
            (3, "listen.admin".into()),
            (5, "limits.timeout".into())
        ]
    );
    let twice = "[listen]\nmcp = \"127.0.0.1:1\"\nmcp = \"127.0.0.1:2\"\n";
    assert_eq!(places(twice), [(3, String::new())]);
}

#[test]
fn every_unknown_key_is_a_fault_at_every_depth() {
    let text = r#"surprise = 1
[listen]
x = 1
tls = { mode = "auto", y = 2 }
[audit.retention]
z = 1
[[identity.jwt]]
issuer = "a"
jwks = "https://a"
w = 1
[servers.a]
url = "https://a/mcp"
v = 1
[servers.a.tools.t]
u = 1
[limits.arguments]
t = 1
"#;
    let keys: Vec<String> = places(text).into_iter().map(|(_, key)| key).collect();
    let expected = [
        "surprise",
        "listen.x",
        "listen.tls.y",
        "audit.retention.z",
        "identity.jwt[0].w",
        "servers.a.v",
        "servers.a.tools.t.u",
        "limits.arguments.t",
    ];
    assert_eq!(keys, expected);
}

#[test]
fn keys_of_later_features_are_refused_by_that_name() {
    for (text, key) in [
        (
            "[servers.a]\nurl = \"https://a\"\ncredential = { vault = \"a#b\" }",
            "servers.a.credential.vault",
        ),
        (
            "[servers.a]\nurl = \"https://a\"\ncredential = { oauth = {} }",
            "servers.a.credential.oauth",
        ),
        (
            "[servers.a]\nurl = \"https://a\"\ncredential = { secret = \"vault:a#b\" }",
            "servers.a.credential.secret",
        ),
        ("[state]\nstore = \"postgres://u:p@h/d\"", "state.store"),
        ("[state]\ncoordination = \"redis://h\"", "state.coordination"),
    ] {
        let told = fault(text);
        assert!(told.contains(&format!(" {key}: ")), "{key}: {told}");
        assert!(
            told.contains("known, but not available in this version yet"),
            "{key}: {told}"
        );
    }
}

// R106
#[test]
fn tls_can_be_off_on_loopback_only() {
    assert!(matches!(
        load("[listen]\ntls = { mode = \"off\" }").unwrap().listen.tls,
        Tls::Off
    ));
    for text in [
        "[listen]\nmcp = \"0.0.0.0:1\"\ntls.mode = \"off\"",
        "[listen]\nadmin = \"192.0.2.1:1\"\ntls.mode = \"off\"",
        "[listen]\nmcp = \"[::]:1\"\ntls.mode = \"off\"",
    ] {
        assert!(
            fault(text).contains("listen.tls.mode: `off` is for loopback only"),
            "{text}"
        );
    }
}

#[test]
fn own_certificates_must_be_there_and_fit_together() {
    let signed = |name: &str| {
        let key = rcgen::KeyPair::generate().unwrap();
        let cert = rcgen::CertificateParams::new(vec![name.to_owned()])
            .unwrap()
            .self_signed(&key)
            .unwrap();
        (cert.pem(), key.serialize_pem())
    };
    let ((cert, key), (_, other)) = (signed("a.example"), signed("b.example"));
    let desk = Desk::new()
        .with("c.pem", &cert)
        .with("k.pem", &key)
        .with("o.pem", &other)
        .with("junk", "junk");
    let config = desk.load("[listen]\ntls = { mode = \"files\", cert = \"c.pem\", key = \"k.pem\", client_ca = \"c.pem\" }\n[identity.mtls]\nenabled = true").unwrap();
    assert!(matches!(&config.listen.tls, Tls::Files { chain, key: kept } if chain.len() == 1 && kept.expose() == key));
    assert_eq!(
        config
            .listen
            .client_ca
            .as_ref()
            .map(|roots: &Vec<CertificateDer<'_>>| roots.len()),
        Some(1)
    );
    for (tls, expected) in [
        (r#"{ mode = "files" }"#, "cert: is missing"),
        (
            r#"{ mode = "files", cert = "c.pem", key = "o.pem" }"#,
            "key: does not fit the certificate",
        ),
        (
            r#"{ mode = "files", cert = "c.pem", key = "none.pem" }"#,
            "cannot be read",
        ),
        (
            r#"{ mode = "files", cert = "junk", key = "k.pem" }"#,
            "cert: holds no certificate",
        ),
        (
            r#"{ mode = "files", cert = "c.pem", key = "c.pem" }"#,
            "key: holds no private key",
        ),
        (r#"{ mode = "auto", cert = "c.pem" }"#, "cert: does not apply here"),
        (
            r#"{ mode = "off", client_ca = "c.pem" }"#,
            "client_ca: does not apply here",
        ),
    ] {
        let told = desk
            .load(&format!("[listen]\ntls = {tls}"))
            .expect_err("faulty")
            .to_string();
        assert!(told.contains(expected), "{tls}: {told}");
    }
    assert!(fault("[identity.mtls]\nenabled = true").contains("identity.mtls.enabled: needs `listen.tls.client_ca`"));
}

#[test]
fn listeners_hosts_and_origins_are_read_strictly() {
    let text = r#"[listen]
mcp = "[::1]:0"
admin = "127.0.0.1:0"
public_url = "https://gw.example/base/"
allowed_hosts = ["GW.example", "::1", "[::2]", "10.0.0.1"]
allowed_origins = ["https://App.Example:443", "http://localhost:3000"]
"#;
    let listen = load(text).unwrap().listen;
    assert_eq!(listen.allowed_hosts, ["gw.example", "::1", "::2", "10.0.0.1"]);
    assert_eq!(listen.allowed_origins, ["https://app.example", "http://localhost:3000"]);
    assert_eq!(listen.public_url.as_deref(), Some("https://gw.example/base"));
    for (text, expected) in [
        (r#"allowed_hosts = []"#, "is empty, so nothing would be answered"),
        (r#"allowed_hosts = ["*"]"#, "allowed_hosts[0]: is not a host name"),
        (r#"allowed_hosts = ["a:8443"]"#, "allowed_hosts[0]: is not a host name"),
        (
            r#"allowed_hosts = ["https://a"]"#,
            "allowed_hosts[0]: is not a host name",
        ),
        (r#"allowed_hosts = ["a", "A"]"#, "allowed_hosts[1]: stands here twice"),
        (r#"allowed_origins = ["*"]"#, "allowed_origins[0]: is not an origin"),
        (r#"allowed_origins = ["null"]"#, "is not an origin"),
        (r#"allowed_origins = ["https://a/path"]"#, "is not an origin"),
        (
            r#"public_url = "http://gw.example""#,
            "`http://` is accepted for loopback only",
        ),
        (r#"public_url = "https://gw.example?x=1""#, "has a query"),
        (
            r#"public_url = "https://u:pw@gw.example""#,
            "holds a user or a password",
        ),
        (r#"admin = "127.0.0.1:8443""#, "is the address of `listen.mcp`"),
        (r#"mcp = 8443"#, "expected a string in quotes, found integer"),
    ] {
        let told = fault(&format!("[listen]\n{text}"));
        assert!(told.contains(expected) && !told.contains("pw"), "{text}: {told}");
    }
}

#[test]
fn issuers_are_asymmetric_unique_and_say_where_their_keys_are() {
    let desk = Desk::new().with("keys.json", r#"{"keys": []}"#).with("bad.json", "[]");
    let text = r#"
[[identity.jwt]]
issuer = "https://idp.example"
jwks = "http://127.0.0.1:9/jwks"
claims = { groups = "roles", department = "dept" }
[[identity.jwt]]
issuer = "ci"
audience = ["a", "b"]
jwks_file = "keys.json"
algorithms = ["PS384"]
"#;
    let expected = vec![
        JwtIssuer {
            issuer: "https://idp.example".into(),
            audience: Audience::PublicUrl,
            keys: KeySource::Url("http://127.0.0.1:9/jwks".into()),
            algorithms: vec![
                SigningAlgorithm::Rs256,
                SigningAlgorithm::Es256,
                SigningAlgorithm::EdDsa,
            ],
            claims: ClaimNames {
                org: "org_id".into(),
                groups: "roles".into(),
                client: "azp".into(),
                further: BTreeMap::from([("department".into(), "dept".into())]),
            },
        },
        JwtIssuer {
            issuer: "ci".into(),
            audience: Audience::OneOf(vec!["a".into(), "b".into()]),
            keys: KeySource::File {
                path: desk.dir.path().join("keys.json"),
                text: r#"{"keys": []}"#.into(),
            },
            algorithms: vec![SigningAlgorithm::Ps384],
            claims: ClaimNames {
                org: "org_id".into(),
                groups: "groups".into(),
                client: "azp".into(),
                further: BTreeMap::new(),
            },
        },
    ];
    assert_eq!(desk.load(text).unwrap().identity.jwt, expected);
    let issuer = "[[identity.jwt]]\nissuer = \"i\"\n";
    for (more, expected) in [
        (
            "jwks = \"https://i\"\nalgorithms = [\"HS256\"]",
            "algorithms[0]: `HS256` is not accepted",
        ),
        (
            "jwks = \"https://i\"\nalgorithms = [\"none\"]",
            "algorithms[0]: `none` is not accepted",
        ),
        ("jwks = \"https://i\"\nalgorithms = []", "is empty"),
        (
            "jwks = \"https://i\"\nalgorithms = [\"RS255\"]",
            "did you mean `RS256`?",
        ),
        ("jwks = \"https://i\"\naudience = []", "is empty"),
        ("jwks = \"https://i\"\njwks_file = \"keys.json\"", "one of the two"),
        ("", "jwks: is missing"),
        (
            "jwks = \"http://idp.example/jwks\"",
            "`http://` is accepted for loopback only",
        ),
        ("jwks_file = \"bad.json\"", "is not a key set"),
        (
            "jwks = \"https://i\"\n[[identity.jwt]]\nissuer = \"i\"\njwks = \"https://i\"",
            "this issuer stands here twice",
        ),
    ] {
        let told = fault_at(&desk, &format!("{issuer}{more}"));
        assert!(told.contains(expected), "{more}: {told}");
    }
    assert!(fault("[identity.jwt]\nissuer = \"i\"").contains("write `[[identity.jwt]]`"));
}

#[test]
fn fields_of_a_tool_are_pointers_and_its_hosts_are_hosts() {
    let tool =
        |lines: &str| format!("[servers.web]\nurl = \"https://a.example/mcp\"\n[servers.web.tools.fetch]\n{lines}\n");
    let written =
        "paths = [\"/path\", \"/moves/*/to\"]\nurls = [\"/url\"]\nhosts = [\"api.example.org\"]\ndetect_paths = false";
    let config = load(&tool(written)).unwrap();
    let server = &config.servers[&ServerId::parse("web").unwrap()];
    let rule = &server.tools[&ToolName::parse("fetch").unwrap()];
    assert_eq!((rule.paths.len(), rule.urls.len(), rule.detect_paths), (2, 1, false));
    assert_eq!(rule.hosts.as_ref().map(|hosts| hosts.iter().count()), Some(1));
    for (lines, expected) in [
        ("paths = [\"path\"]", "is no JSON pointer to a field"),
        ("paths = [\"\"]", "is no JSON pointer to a field"),
        ("urls = [\"/a~\"]", "has a `~` that is no escape"),
        ("hosts = [\"127.0.0.1\"]", "is an address"),
        ("hosts = [\"*\"]", "names every host"),
        ("hosts = [\"https://a.example\"]", "is a URL"),
        ("hosts = [\"a.example:0\"]", "has no valid port"),
        ("detect_paths = \"no\"", "detect_paths"),
    ] {
        let fault = fault(&tool(lines));
        assert!(fault.contains(expected), "{lines}: {fault}");
    }
    let vain = warnings(&Desk::new(), &tool("urls = [\"/url\"]"));
    assert!(
        vain.iter().any(|warning| warning.contains("name them in `hosts`")),
        "{vain:?}"
    );
    let held = warnings(&Desk::new(), &tool("urls = [\"/url\"]\nhosts = []"));
    assert!(!held.iter().any(|warning| warning.contains("`hosts`")), "{held:?}");
}

// R101, R103
#[test]
fn servers_are_named_reached_and_judged_strictly() {
    let text = r#"[servers.files-2]
url = "https://files.example:8443/mcp?x=1"
era = "legacy"
isolation = "shared"
trust = "verified"
[servers.files-2.tools."write/file"]
risk = "medium"
unknown_fields = "allow"
"#;
    let config = load(text).unwrap();
    let server = &config.servers[&ServerId::parse("files-2").unwrap()];
    assert_eq!(
        (server.era, server.isolation, server.trust),
        (Era::Legacy, Isolation::Shared, Trust::Verified)
    );
    assert_eq!(server.reach.shown(), "https://files.example:8443/mcp?x=1");
    let rule = ToolRule {
        risk: Some(Risk::Medium),
        unknown_fields: UnknownFields::Allow,
        paths: Vec::new(),
        urls: Vec::new(),
        hosts: None,
        detect_paths: true,
        limits: ToolLimits::default(),
    };
    assert_eq!(
        server.tools,
        BTreeMap::from([(ToolName::parse("write/file").unwrap(), rule)])
    );
    for (text, expected) in [
        (
            "[servers.Files]\nurl = \"https://a\"",
            ":1: servers.Files: a server id is 1 to 32 characters",
        ),
        ("[servers.portreeve]\nurl = \"https://a\"", "reserved"),
        ("[servers.a]", ":1: servers.a: has neither `url` nor `command`"),
        ("[servers.a]\nurl = \"/mcp\"", "is not an absolute URL"),
        ("[servers.a]\nurl = \"ftp://a\"", "neither `https://` nor `http://`"),
        ("[servers.a]\nurl = \"http://10.0.0.1\"", "loopback only"),
        ("[servers.a]\nurl = \"http://127.0.0.1.example\"", "loopback only"),
        (
            "[servers.a]\nurl = \"https://u:hunter2@a\"",
            "holds a user or a password",
        ),
        ("[servers.a]\nurl = \"https://a#b\"", "fragment"),
        (
            "[servers.a]\nurl = \"https://a\"\ntrust = \"full\"",
            "servers.a.trust: `full` is not known here",
        ),
        (
            "[servers.a]\nurl = \"https://a\"\ntools.t.risk = \"LOW\"",
            "servers.a.tools.t.risk: `LOW` is not known here",
        ),
        (
            "[servers.a]\nurl = \"https://a\"\ntools.\"a b\".risk = \"low\"",
            "a tool name is",
        ),
        ("[servers.a]\nurl = \"https://a\"\nca = \"none.pem\"", "cannot be read"),
        ("servers = 5", "expected a table"),
    ] {
        let told = fault(text);
        assert!(told.contains(expected) && !told.contains("hunter2"), "{text}: {told}");
    }
    for url in ["http://localhost:1/mcp", "http://127.0.0.9/", "http://[::1]:3/mcp"] {
        assert!(load(&format!("[servers.a]\nurl = \"{url}\"")).is_ok(), "{url}");
    }
}

#[test]
fn secrets_are_references_and_are_never_repeated() {
    let desk = Desk::new().with("token", "from-file\n").with("empty", "\n");
    let with = |credential: &str| format!("[servers.a]\nurl = \"https://a\"\ncredential = {credential}");
    let shown = |credential: &str| match desk
        .load(&with(credential))
        .unwrap()
        .servers
        .into_values()
        .next()
        .unwrap()
        .credential
    {
        Credential::None => None,
        Credential::Reference { header, value } => Some((header.to_string(), value.expose().to_owned())),
        other @ (Credential::Granted(_) | Credential::Certificate { .. }) => panic!("{other:?}"),
    };
    let pair = |header: &str, value: &str| Some((header.to_owned(), value.to_owned()));
    assert_eq!(shown("\"none\""), None);
    assert_eq!(
        shown(r#"{ secret = "env:TOKEN" }"#),
        pair("authorization", "Bearer s3cret-value")
    );
    assert_eq!(
        shown(r#"{ secret = "file:token", header = "X-Api-Key" }"#),
        pair("x-api-key", "from-file")
    );
    assert_eq!(
        shown(r#"{ secret = "env:TOKEN", scheme = "" }"#),
        pair("authorization", "s3cret-value")
    );
    assert_eq!(
        shown(r#"{ secret = "env:TOKEN", header = "X-A", scheme = "Key" }"#),
        pair("x-a", "Key s3cret-value")
    );
    for (credential, expected) in [
        (r#""hunter2""#, "a secret is a reference, never the secret itself"),
        (
            r#"{ secret = "hunter2" }"#,
            "a secret is a reference, never the secret itself",
        ),
        (
            r#"{ secret = "https://hunter2" }"#,
            "a secret is a reference, never the secret itself",
        ),
        (
            r#"{ secret = "env:ABSENT" }"#,
            "environment variable `ABSENT` is not set",
        ),
        (r#"{ secret = "env:BROKEN" }"#, "line break"),
        (r#"{ secret = "file:absent" }"#, "cannot be read"),
        (r#"{ secret = "file:empty" }"#, "is empty"),
        (r#"{ header = "x-a" }"#, "credential.secret: is missing"),
        (
            r#"{ secret = "env:TOKEN", header = "Mcp-Session-Id" }"#,
            "is a header of the protocol",
        ),
        (
            r#"{ secret = "env:TOKEN", header = "host" }"#,
            "is a header of the protocol",
        ),
        (r#"{ secret = "env:TOKEN", scheme = "a b" }"#, "is not a single word"),
    ] {
        let told = fault_at(&desk, &with(credential));
        assert!(told.contains(expected), "{credential}: {told}");
        assert!(
            !told.contains("hunter2") && !told.contains("s3cret") && !told.contains("two"),
            "{told}"
        );
    }
    let config = desk.load(&with(r#"{ secret = "env:TOKEN" }"#)).unwrap();
    assert!(
        !format!("{config:?}").contains("s3cret"),
        "a configuration can be logged"
    );
}

#[test]
fn a_grant_names_endpoint_client_and_whom_its_tokens_are_for() {
    let desk = Desk::new();
    let with =
        |credential: &str| format!("[servers.a]\nurl = \"https://a.example/mcp\"\ncredential = {{ {credential} }}");
    let granted = |credential: &str| {
        let config = desk.load(&with(credential)).unwrap();
        match config.servers.into_values().next().unwrap().credential {
            Credential::Granted(granted) => granted,
            other @ (Credential::None | Credential::Reference { .. } | Credential::Certificate { .. }) => {
                panic!("{other:?}")
            }
        }
    };
    let client = r#"token_url = "https://idp.example/token", client_id = "gw", client_secret = "env:TOKEN""#;
    let plain = granted(&format!("exchange = {{ {client} }}"));
    assert_eq!(plain.way, GrantWay::Exchange);
    assert_eq!(plain.resource.as_deref(), Some("https://a.example/mcp"));
    assert_eq!((plain.audience, plain.scopes.len()), (None, 0));
    let named = granted(&format!(
        r#"exchange = {{ {client}, audience = "api", scopes = ["r", "w"] }}"#
    ));
    assert_eq!((named.audience.as_deref(), named.resource), (Some("api"), None));
    assert_eq!(named.scopes, ["r", "w"]);
    let own = granted(&format!("client_credentials = {{ {client} }}"));
    assert_eq!(
        (own.way, &own.audience, &own.resource),
        (GrantWay::ClientCredentials, &None, &None)
    );
    assert!(!format!("{own:?}").contains("s3cret"));
    for (credential, expected) in [
        (
            r#"exchange = { client_id = "a", client_secret = "env:TOKEN" }"#.to_owned(),
            "exchange.token_url: is missing",
        ),
        (
            r#"exchange = { token_url = "http://idp.example/", client_id = "a", client_secret = "env:TOKEN" }"#
                .to_owned(),
            "`http://` is accepted for loopback only",
        ),
        (
            r#"exchange = { token_url = "https://i", client_id = "", client_secret = "env:TOKEN" }"#.to_owned(),
            "client_id: is empty",
        ),
        (
            r#"exchange = { token_url = "https://i", client_id = "a", client_secret = "hunter2" }"#.to_owned(),
            "a secret is a reference, never the secret itself",
        ),
        (
            format!(r#"exchange = {{ {client}, resource = "a#b" }}"#),
            "is not an absolute URI",
        ),
        (
            format!(r#"exchange = {{ {client}, scopes = ["a b"] }}"#),
            "is not a single scope",
        ),
        (
            format!(r#"exchange = {{ {client}, passthrough = true }}"#),
            "passthrough",
        ),
        (
            format!(r#"exchange = {{ {client} }}, secret = "env:TOKEN""#),
            "names more than one of",
        ),
    ] {
        let told = fault_at(&desk, &with(&credential));
        assert!(told.contains(expected), "{credential}: {told}");
        assert!(!told.contains("hunter2") && !told.contains("s3cret"), "{told}");
    }
    let process = format!(
        "[servers.a]\ncommand = [\"/bin/cat\"]\ncredential = {{ exchange = {{ {client}, audience = \"x\" }} }}"
    );
    assert!(fault_at(&desk, &process).contains("a process has no header"));
}

#[test]
fn a_syntax_error_does_not_quote_the_line_it_is_in() {
    let told = fault("[servers.a]\nurl = \"https://a\"\ncredential = hunter2 hunter3\n");
    assert!(
        told.starts_with("portreeve.toml:3: not TOML") && !told.contains("hunter"),
        "{told}"
    );
}

// R119
#[test]
fn a_missing_policy_denies_with_a_warning_and_an_unreadable_one_is_a_fault() {
    let permit = "permit (principal, action, resource);";
    let desk = Desk::new()
        .with("policies/b.cedar", permit)
        .with("policies/a.cedar", permit)
        .with("policies/.swap.cedar", "x");
    let names = |text: &str| -> Vec<String> {
        desk.load(text)
            .unwrap()
            .policy
            .files
            .iter()
            .map(|file| file.name.clone())
            .collect()
    };
    assert_eq!(names(""), ["policies/a.cedar", "policies/b.cedar"]);
    assert_eq!(
        names("[policy]\nfiles = [\"policies/b.cedar\", \"policies/*\"]"),
        ["policies/b.cedar", "policies/a.cedar"]
    );
    assert_eq!(names("[policy]\nfiles = [\"none.cedar\"]"), Vec::<String>::new());
    let told = warnings(&desk, "[policy]\nfiles = [\"none.cedar\"]").join("\n");
    assert!(
        told.contains("portreeve.toml:2: policy.files[0]: matches no file"),
        "{told}"
    );
    assert!(told.contains("policy.files: no policy: everything is denied"), "{told}");
    assert!(
        warnings(&desk, "[policy]\nfiles = []")
            .join("\n")
            .contains("everything is denied")
    );
    std::fs::write(desk.dir.path().join("policies/c.cedar"), [0xff, 0xfe]).unwrap();
    assert!(fault_at(&desk, "").contains("is not UTF-8 text"));
    std::fs::write(
        desk.dir.path().join("policies/c.cedar"),
        "@id(\"x\")\npermit (principal",
    )
    .unwrap();
    assert!(
        fault_at(&desk, "").starts_with("policies/c.cedar:2: "),
        "{}",
        fault_at(&desk, "")
    );
    std::fs::write(
        desk.dir.path().join("policies/c.cedar"),
        "@require(\"magic\") permit (principal, action, resource);",
    )
    .unwrap();
    assert!(fault_at(&desk, "").contains("magic"));
}

#[test]
fn the_log_is_named_and_kept_as_the_operator_says() {
    let text = "[audit]\norigin = \"gw-1.example/portreeve\"\ndurability = \"always\"\ncommit_interval_ms = 20\nrecord_arguments = true\nretention = { days = 400, min_days = 180, max_bytes = \"1TiB\" }";
    let desk = Desk::new();
    let audit = desk.load(text).unwrap().audit;
    let expected = Audit {
        origin: "gw-1.example/portreeve".into(),
        durability: Durability::Always,
        commit_interval: std::time::Duration::from_millis(20),
        retention: Retention {
            days: 400,
            min_days: 180,
            max_bytes: 1 << 40,
        },
        record_arguments: true,
        record_results: false,
        witness: None,
    };
    assert_eq!(audit, expected);
    let told = warnings(&desk, text);
    assert!(!told.iter().any(|warning| warning.contains("audit")), "{told:?}");
    for (text, expected) in [
        ("origin = \"a b\"", "is not a name for a log"),
        ("origin = \"a+b\"", "is not a name for a log"),
        ("durability = \"sometimes\"", "one of `always`, `writes`, `interval`"),
        ("commit_interval_ms = 0", "is not a whole number from 1 to 1000"),
        ("retention = { days = 10 }", "min_days: is more than `days`"),
        ("origin = \"\"", "is not a name for a log"),
        ("retention = { max_bytes = \"10GB\" }", "is not a size"),
    ] {
        let told = fault(&format!("[audit]\n{text}"));
        assert!(told.contains(expected), "{text}: {told}");
    }
}

#[test]
fn the_name_of_a_log_that_is_there_stays() {
    let desk = Desk::new().with("state/ledger/origin", "old-name/portreeve\n");
    let state = "[state]\ndir = \"state\"\n";
    assert_eq!(desk.load(state).unwrap().audit.origin, "old-name/portreeve");
    let given = desk.load(&format!("{state}[audit]\norigin = \"new-name\"")).unwrap();
    assert_eq!(given.audit.origin, "new-name", "the log itself refuses another name");
}

#[test]
fn limits_are_positive_bounded_and_without_repetition() {
    for (text, expected) in [
        (
            "rate = [{ per = \"user\", calls = 1, window = \"1m\" }]",
            "rate[0].per: `user` is not known here",
        ),
        (
            "rate = [{ per = \"tool\", calls = 0, window = \"1m\" }]",
            "rate[0].calls: is not a whole number",
        ),
        ("rate = [{ per = \"tool\", calls = 1 }]", "rate[0].window: is missing"),
        (
            "rate = [{ per = \"tool\", calls = 1, window = \"1m\" }, { per = \"tool\", calls = 2, window = \"60s\" }]",
            "rate[1].window: stands here twice",
        ),
        (
            "request.max_bytes = 0",
            "request.max_bytes: is not a whole number from 1",
        ),
        ("request.max_bytes = \"2GiB\"", "is more than 1GiB"),
        ("request.max_depth = -1", "is not a whole number from 1 to 1024"),
        ("arguments.max_items = 1.5", "expected a whole number"),
        ("concurrency.per_server = 0", "is not a whole number"),
        ("timeout = \"2h\"", "is longer than an hour"),
        (
            "quota = [{ per = [], calls = 1, window = \"1m\" }]",
            "quota[0].per: names nothing that could be counted",
        ),
        (
            "quota = [{ per = [\"tool\", \"tool\"], calls = 1, window = \"1m\" }]",
            "quota[0].per[1]: stands here twice",
        ),
        (
            "quota = [{ per = \"tool\", calls = 1, window = \"week\" }]",
            "quota[0].window: is not a length of time, nor a part of the calendar",
        ),
        (
            "quota = [{ per = \"tool\", calls = 1, window = \"367d\" }]",
            "quota[0].window: is longer than 366 days",
        ),
        (
            "quota = [{ per = \"tool\", calls = 1, window = \"day\", methods = \"some\" }]",
            "quota[0].methods: `some` is not known here",
        ),
        (
            "quota = [{ per = [\"tool\", \"client\"], calls = 1, window = \"day\" }, { per = [\"client\", \"tool\"], calls = 9, window = \"day\" }]",
            "quota[1].window: stands here twice",
        ),
    ] {
        let told = fault(&format!("[limits]\n{text}"));
        assert!(told.contains(expected), "{text}: {told}");
    }
    let desk = Desk::new();
    assert!(
        warnings(&desk, "[limits]\nrate = []")
            .join("\n")
            .contains("no rate limit is in force")
    );
    let sizes = desk
        .load("[limits]\nrequest = { max_bytes = \"512KiB\" }")
        .unwrap()
        .limits
        .request;
    assert_eq!(
        sizes,
        MessageLimits {
            max_bytes: 524_288,
            max_depth: 64
        }
    );
}

#[test]
fn rates_and_quotas_are_read_with_all_that_they_count() {
    let desk = Desk::new();
    let text = r#"[limits]
rate = [
  { per = ["tool", "principal"], calls = 1, window = "1m" },
  { per = "session", calls = 2, window = "day", methods = "lists" },
]
quota = [
  { per = "client", calls = 3, window = "month", methods = "all" },
  { per = "client", calls = 3, window = "month" },
]
[servers.files]
url = "https://files.example/mcp"
[servers.files.tools.read.limits]
rate = [{ calls = 4, window = "1h" }, { per = "principal", calls = 5, window = "1h" }]
quota = [{ per = ["session", "client"], calls = 6, window = "day" }]
concurrency = 7
timeout = "5s"
"#;
    let config = desk.load(text).unwrap();
    let rule = |per: &[Per], calls, window, methods| Rule {
        per: PerSet::new(per.to_vec()).unwrap(),
        calls: NonZeroU32::new(calls).unwrap(),
        window,
        methods,
    };
    let rolling = |seconds| Window::Rolling(std::time::Duration::from_secs(seconds));
    let rate = [
        rule(&[Per::Principal, Per::Tool], 1, rolling(60), Methods::Calls),
        rule(&[Per::Session], 2, Window::Day, Methods::Lists),
    ];
    let quota = [
        rule(&[Per::Client], 3, Window::Month, Methods::All),
        rule(&[Per::Client], 3, Window::Month, Methods::Calls),
    ];
    assert_eq!((&*config.limits.rate, &*config.limits.quota), (&rate[..], &quota[..]));
    let server = &config.servers[&ServerId::parse("files").unwrap()];
    let of_tool = ToolLimits {
        rate: vec![
            rule(&[Per::Tool], 4, rolling(3_600), Methods::Calls),
            rule(&[Per::Principal], 5, rolling(3_600), Methods::Calls),
        ],
        quota: vec![rule(&[Per::Client, Per::Session], 6, Window::Day, Methods::Calls)],
        concurrency: Some(7),
        timeout: Some(std::time::Duration::from_secs(5)),
    };
    assert_eq!(server.tools[&ToolName::parse("read").unwrap()].limits, of_tool);
}

#[test]
fn limits_of_a_tool_are_held_to_what_a_tool_has() {
    for (text, expected) in [
        (
            "rate = [{ per = \"tool\", calls = 1, window = \"1m\" }]",
            "rate[0].per: `tool` is not known here",
        ),
        (
            "rate = [{ per = \"server\", calls = 1, window = \"1m\" }]",
            "rate[0].per: `server` is not known here",
        ),
        (
            "rate = [{ calls = 1, window = \"1m\", methods = \"all\" }]",
            "rate[0].methods: ",
        ),
        (
            "rate = [{ calls = 1, window = \"1m\" }, { calls = 2, window = \"60s\" }]",
            "rate[1].window: stands here twice",
        ),
        ("concurrency = 0", "concurrency: is not a whole number"),
        ("timeout = \"61m\"", "timeout: is longer than an hour"),
        ("speed = 3", "limits.speed: "),
    ] {
        let server = "[servers.files]\nurl = \"https://files.example/mcp\"\n[servers.files.tools.read.limits]\n";
        let told = fault(&format!("{server}{text}"));
        assert!(told.contains(expected), "{text}: {told}");
    }
}

#[test]
fn every_default_of_the_table_is_toml_and_every_key_stands_once() {
    assert_eq!(FORMAT.flaws(), Vec::<String>::new());
}

#[test]
fn the_page_for_people_has_every_key_with_its_default_and_reason() {
    let page = in_one_line(include_str!("../../../../docs/configuration.md"));
    let entries = FORMAT.keys.iter().map(entry);
    let missing: Vec<String> = entries.filter(|entry| !page.contains(&in_one_line(entry))).collect();
    assert!(
        missing.is_empty(),
        "docs/configuration.md lacks:\n{}",
        missing.join("\n")
    );
}

/// The page breaks long lines wherever it likes.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An entry of docs/configuration.md.
fn entry(key: &Key) -> String {
    let Key { path, about, standing } = key;
    match standing {
        Standing::Default(value, reason) => format!("- `{path}`: {about} Default: `{value}`. Why: {reason}."),
        Standing::Derived(value, reason) => format!("- `{path}`: {about} Default: {value}. Why: {reason}."),
        Standing::Required(_) => format!("- `{path}`: {about} Required."),
        Standing::Optional => format!("- `{path}`: {about} No default."),
        Standing::Later(feature) => format!("| `{path}` | {feature} |"),
    }
}

#[test]
fn every_example_is_a_sound_configuration() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut count = 0;
    for entry in std::fs::read_dir(&examples).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let names = ["TICKETS_TOKEN", "WEATHER_KEY"];
            let mut variables: BTreeMap<_, _> = names.map(|name| (name.to_owned(), "secret".to_owned())).into();
            variables.insert("XDG_STATE_HOME".into(), "/state".into());
            let text = std::fs::read_to_string(&path).unwrap();
            let config = Config::try_from(RawConfig::from_text(text, examples.clone(), variables));
            let config = config.unwrap_or_else(|faults| panic!("{}: {faults}", path.display()));
            assert_eq!(config.warnings(), [], "{}", path.display());
            assert!(
                !config.policy.files.is_empty(),
                "{}: an example shows a policy",
                path.display()
            );
            count += 1;
        }
    }
    assert!(count >= 2, "the examples are found");
}

#[test]
fn a_file_is_read_with_its_references_and_all_are_watched() {
    let desk = Desk::new().with(
        "portreeve.toml",
        "[policy]\nfiles = [\"rules/*.cedar\"]\n[state]\ndir = \"state\"\n",
    );
    let desk = desk.with("rules/one.cedar", "permit (principal, action, resource);");
    let dir = desk.dir.path();
    let config = Config::load(&dir.join("portreeve.toml")).unwrap();
    assert_eq!(config.state.dir, dir.join("state"));
    assert_eq!(
        config.files(),
        [
            dir.join("portreeve.toml"),
            dir.join("rules"),
            dir.join("rules/one.cedar"),
            dir.join("servers.lock")
        ]
    );
    assert!(
        Config::load(&dir.join("absent.toml"))
            .expect_err("absent")
            .to_string()
            .contains("cannot be read")
    );
}
