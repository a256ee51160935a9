//! A gateway with one server called `files`, and everything a test may want to be different about it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ledger::{Ledger, LedgerReader};
use policy::{
    CallLimits, Discovery, LimitRules, Methods, Per, PolicyFile, Rule, SandboxTier, ServerFacts, Shown, StoredServer,
    Window,
};
use portreeve_gateway::edge::authenticate::{CertificateUse, Identity};
use portreeve_gateway::edge::host::AllowedHosts;
use portreeve_gateway::edge::tokens::{IssuedToken, TokenStanding, TokenTable};
use portreeve_gateway::{ArgumentSecrets, Gateway, Limits, NobodyToAsk, ServerState, Snapshot, SnapshotParts};
use screening::detect::Detector;
use screening::result::validate::{Mode, ValidationRules};
use screening::result::{Guards, ResponseAction, Rules, Sanitisation};
use tempfile::TempDir;
use tokio::sync::watch;
use upstream::{Address, Caps, CredentialSource, EraSetting, Isolation, Reach, Server, ServerSettings};
use vocabulary::json as tree;
use vocabulary::{ActorType, Authn, Clock, Digest, Principal, Risk, ServerId, ServerScope, Timestamp, Trust};

use super::ledger_disk::LedgerDisk;
use super::scripted_server::{ScriptedServer, Speaks};

/// The token of the one principal there is.
pub(super) const TOKEN: &str = "ptr_agt_0123456789abcdef0123456789abcdef0123456789abcdef";
/// Another one, taken back.
pub(super) const REVOKED: &str = "ptr_agt_ffffffffffffffffffffffffffffffffffffffffffffffff";
/// What the detector takes for a secret: made up, and nowhere valid.
pub(super) const SECRET: &str = "ghp_x7Kq2mVt9RzB4nWc8LpY3sHd6JfGaEu1TvNb";

/// A result with the secret in it.
pub(super) fn secret_result() -> String {
    format!(r#"{{"content":[{{"type":"text","text":"token {SECRET} here"}}]}}"#)
}

/// Everything but a hidden tool, large amounts, and what a person must approve.
pub(super) const POLICY: &str = r#"
    @id("all") permit (principal, action, resource);
    @id("hidden") forbid (principal, action, resource == Tool::"files/hidden");
    @id("amounts") forbid (principal, action, resource) when { context.args has amount && context.args.amount > 5 };
    @id("asked") @require("approval") permit (principal, action, resource == Tool::"files/guarded");
"#;

/// What may differ from test to test.
#[derive(Clone)]
pub(super) struct Setup {
    pub policy: &'static str,
    pub speaks: Speaks,
    pub era: EraSetting,
    pub timeout: Duration,
    pub limits: LimitRules,
    pub arguments: ArgumentSecrets,
    pub screening: Arc<Rules>,
    pub epoch: u64,
}

impl Setup {
    /// A server with sessions.
    pub(super) fn legacy() -> Self {
        Self {
            policy: POLICY,
            speaks: Speaks::Legacy,
            era: EraSetting::Legacy,
            timeout: Duration::from_secs(20),
            limits: LimitRules {
                per_principal: 100,
                per_server: 100,
                ..LimitRules::default()
            },
            arguments: ArgumentSecrets::Pass,
            screening: screening(Sanitisation::default(), Mode::Warn),
            epoch: 1,
        }
    }

    /// A server without.
    pub(super) fn modern() -> Self {
        Self {
            speaks: Speaks::Modern,
            era: EraSetting::Modern,
            ..Self::legacy()
        }
    }

    /// One call in an hour.
    pub(super) fn one_call() -> Self {
        let mut setup = Self::legacy();
        setup.limits.rate.push(Rule {
            per: Per::Principal.into(),
            calls: NonZeroU32::MIN,
            window: Window::Rolling(Duration::from_secs(3600)),
            methods: Methods::Calls,
        });
        setup
    }

    /// Secrets in what servers send are masked.
    pub(super) fn redacting() -> Self {
        Self::legacy().sanitising(ResponseAction::Redact(detector()))
    }

    /// Secrets in what servers send withhold it.
    pub(super) fn blocking() -> Self {
        Self::legacy().sanitising(ResponseAction::Block(detector()))
    }

    fn sanitising(mut self, action: ResponseAction) -> Self {
        let sanitisation = Sanitisation {
            action,
            ..Sanitisation::default()
        };
        self.screening = screening(sanitisation, Mode::Warn);
        self
    }

    /// What does not fit the declared schema is withheld.
    pub(super) fn strict() -> Self {
        Self {
            screening: screening(Sanitisation::default(), Mode::Strict),
            ..Self::legacy()
        }
    }

    /// Calls with secrets in their arguments are refused.
    pub(super) fn refusing_secrets() -> Self {
        Self {
            arguments: ArgumentSecrets::Block(detector()),
            ..Self::legacy()
        }
    }

    /// Calls with secrets in their arguments leave a record.
    pub(super) fn recording_secrets() -> Self {
        Self {
            arguments: ArgumentSecrets::Warn(detector()),
            ..Self::legacy()
        }
    }

    /// Starts the server and puts a gateway before it.
    pub(super) async fn start(self) -> Running {
        let server = ScriptedServer::start(self.speaks).await;
        let state = state_directory();
        let (ledger, _) = Ledger::open(state.path(), ledger::Settings::new("gateway.test/path")).unwrap();
        let parts = Parts::of(&self, &server);
        let gateway = Gateway::new(parts.snapshot(&self, None), ledger.clone(), Arc::new(NobodyToAsk)).unwrap();
        Running {
            disk: LedgerDisk::of(state.path()),
            gateway,
            ledger,
            server,
            setup: self,
            parts,
            state,
        }
    }
}

/// A gateway, its server and its log.
pub(super) struct Running {
    pub gateway: Arc<Gateway>,
    pub ledger: Ledger,
    pub server: ScriptedServer,
    pub disk: LedgerDisk,
    pub setup: Setup,
    parts: Arc<Parts>,
    state: TempDir,
}

impl Running {
    /// Reads the log's files.
    pub(super) fn reader(&self) -> LedgerReader {
        LedgerReader::of_state(self.state.path())
    }

    /// Puts another snapshot in force, whenever a script calls it.
    pub(super) fn replacement(&self, setup: Setup) -> impl Fn() + Send + Sync + 'static {
        let (gateway, parts) = (self.gateway.clone(), self.parts.clone());
        move || gateway.replace_snapshot(parts.snapshot(&setup, Some(gateway.in_force())))
    }
}

/// What all snapshots of one test have in common.
struct Parts {
    identity: Arc<Identity>,
    server: Arc<Server>,
    state: watch::Sender<ServerState>,
}

impl Parts {
    fn of(setup: &Setup, server: &ScriptedServer) -> Arc<Self> {
        let address = Address {
            url: format!("http://{}/mcp", server.address).parse().unwrap(),
            extra_roots: Vec::new(),
            certificate_name: None,
            identity: None,
        };
        let settings = ServerSettings {
            id: files(),
            reach: Reach::Http(address),
            credential: CredentialSource::None,
            caps: Caps {
                timeout: setup.timeout,
                max_bytes: 1 << 20,
                max_depth: 64,
            },
            isolation: Isolation::PerPrincipal,
            era: setup.era,
        };
        Arc::new(Self {
            identity: Arc::new(identity()),
            server: Arc::new(Server::new(settings).unwrap()),
            state: watch::Sender::new(ServerState::Up),
        })
    }

    fn snapshot(&self, setup: &Setup, previous: Option<Arc<Snapshot>>) -> Snapshot {
        let file = PolicyFile {
            name: "main.cedar".to_owned(),
            text: setup.policy.to_owned(),
        };
        Snapshot::assemble(SnapshotParts {
            identity: self.identity.clone(),
            allowed_hosts: AllowedHosts {
                hosts: vec!["gateway.test".to_owned()],
                origins: Vec::new(),
            },
            public_url: portreeve_gateway::edge::metadata::PublicUrl::fixed("https://gateway.test".to_owned()),
            facts: vec![facts()],
            stored: vec![stored()],
            rules: Arc::new(policy::Rules::load(&[file]).unwrap()),
            servers: vec![self.server.clone()],
            states: HashMap::from([(files(), self.state.subscribe())]),
            open_tools: BTreeSet::new(),
            fields: BTreeMap::new(),
            extension_methods: BTreeMap::new(),
            limiter: CallLimits::new(&setup.limits, Clock::system()),
            limits: limits(),
            screening: setup.screening.clone(),
            arguments: setup.arguments.clone(),
            risk: Arc::new(screening::risk::RiskRules::with_files(&[]).unwrap()),
            epoch: setup.epoch,
            previous,
        })
    }
}

fn identity() -> Identity {
    let tokens = TokenTable::default();
    for (text, standing) in [(TOKEN, TokenStanding::Live), (REVOKED, TokenStanding::Revoked)] {
        let token = IssuedToken {
            principal: Arc::new(principal()),
            expires: Clock::system().now().plus(Duration::from_secs(3600)),
            standing,
        };
        tokens.set(Digest::of(text.as_bytes()), token);
    }
    Identity::new(
        Vec::new(),
        Some(Arc::new(tokens)),
        CertificateUse::Ignored,
        Clock::system(),
    )
}

fn principal() -> Principal {
    Principal {
        sub: "ann".to_owned(),
        actor_type: ActorType::Agent,
        client_id: None,
        org_id: None,
        issuer: "portreeve".to_owned(),
        authn: Authn::Token,
        act: Vec::new(),
        run: None,
        groups: BTreeSet::new(),
        claims: BTreeMap::new(),
        servers: ServerScope::Every,
    }
}

fn files() -> ServerId {
    ServerId::parse("files").unwrap()
}

fn facts() -> ServerFacts {
    let risks = [("read", Risk::Low), ("typed", Risk::Low), ("write", Risk::Medium)];
    ServerFacts {
        id: files(),
        trust: Trust::Internal,
        identity: policy::ServerIdentity::new("https://files.example/", Digest::of(b"files")),
        tier: SandboxTier::Outside,
        tools: risks.map(|(name, risk)| (name.to_owned(), Some(risk))).into(),
    }
}

/// Every tool is pinned as it was seen; one waits for approval.
fn stored() -> StoredServer {
    let plain = |name: &str| {
        let properties = r#"{"text":{"type":"string"},"amount":{"type":"number"}}"#;
        format!(r#"{{"name":"{name}","inputSchema":{{"type":"object","properties":{properties}}}}}"#)
    };
    let typed = r#"{"name":"typed","inputSchema":{"type":"object"},
        "outputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}"#;
    let names = ["read", "write", "hidden", "guarded", "waiting"];
    let definitions = names.map(plain).into_iter().chain([typed.to_owned()]);
    let seen = Discovery {
        server: files(),
        instructions: None,
        shown: vec![Shown::to_all(
            definitions.map(|text| text.into_bytes().into()).collect(),
        )],
        told: Vec::new(),
        cut: None,
        doubtful: BTreeSet::new(),
    };
    let mut stored = policy::merge(None, seen, &facts(), Timestamp::from_micros(0)).stored;
    let waiting = stored.tools.iter_mut().find(|tool| tool.name.as_str() == "waiting");
    waiting.unwrap().approved = None;
    // The servers of these tests are of either era.
    stored.eras.clear();
    stored
}

fn limits() -> Limits {
    Limits {
        request_bytes: 20_000,
        request_depth: 64,
        arguments: tree::Limits {
            max_bytes: 2_000,
            max_depth: 16,
            max_string: 1_000,
            max_items: 100,
        },
        cache_ttl: Duration::from_secs(60),
        first_discovery: Duration::from_secs(1),
    }
}

fn detector() -> Arc<Detector> {
    Arc::new(Detector::embedded().unwrap())
}

fn screening(sanitisation: Sanitisation, mode: Mode) -> Arc<Rules> {
    Arc::new(Rules {
        guards: Guards {
            max_bytes: 1 << 20,
            max_depth: 64,
        },
        validation: ValidationRules {
            mode,
            ..ValidationRules::default()
        },
        sanitisation,
        truncation: None,
    })
}

/// In memory where that can be had: what is tested is who waits for the log, not how fast a disk is.
fn state_directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        TempDir::new_in(memory).unwrap()
    } else {
        TempDir::new().unwrap()
    }
}
