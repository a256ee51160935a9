//! The admin API from outside: over its ports, with everything it records in view.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed; the lints know only functions marked as tests"
)]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use http::{Method, Request, Response, header};
use http_body_util::BodyExt as _;
use ledger::{Event, LedgerDown, Payload, PayloadKind, PayloadRef, Verdict};
use policy::{
    Discovery, Incident, IncidentEndFault, Inventory, ItemId, OperatorOrder, Per, PerSet, PolicyFile, PolicySnapshot,
    Rules, Said, ServerFacts, Shown, StoredServer, approve, heed, merge,
};
use portreeve_control::ports::{
    Activity, ActivityFilter, Approval, ApprovalWord, ApprovalsPort, Arrangement, EndOfIncident, Gateway,
    GatewayStatus, Heeded, IncidentsPort, Inventory as InventoryPort, Later, NewIncident, NotDecided, NotEnded,
    NotStarted, Payloads, PortError, Ports, RecordName, Recorder, Reload, ReloadWhen, Revocation, ServerHealth,
    ServerView, ShownArguments, SummaryView, TokenKind, TokenView, Tokens, Trouble,
};
use portreeve_control::{ADMIN_PREFIX, ControlPlane, HostRule, Operator, mint_admin_token, openapi_document};
use serde_json::{Value, json};
use vocabulary::{ActorType, Clock, Digest, ReceiptId, Risk, Role, ServerId, ServerScope, Timestamp, ToolName, Trust};

/// A control plane whose every port is in sight.
struct Desk {
    plane: ControlPlane,
    state: Arc<State>,
    admin: String,
    clock: Clock,
}

struct State {
    tokens: Mutex<Vec<(TokenView, Digest)>>,
    server: Mutex<StoredServer>,
    records: Mutex<Vec<Event>>,
    ledger: Mutex<Result<(), LedgerDown>>,
    reload: Mutex<Reload>,
    asked: Mutex<Vec<ActivityFilter>>,
}

const LINE: &str = r#"{"b":1e2,"a":"exactly  as stored","seq":7}"#;
const DEFINITION: &str = r#"{"name":"get/it","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#;

impl Desk {
    fn new() -> Self {
        let clock = Clock::standing_at(Timestamp::parse("2026-11-15T12:00:00Z").unwrap());
        let discovery = Discovery {
            server: id(),
            instructions: None,
            shown: vec![Shown::to_all(vec![DEFINITION.as_bytes().into()])],
            told: Vec::new(),
            cut: None,
            doubtful: Default::default(),
        };
        let state = Arc::new(State {
            tokens: Mutex::default(),
            server: Mutex::new(merge(None, discovery, &facts(), clock.now()).stored),
            records: Mutex::default(),
            ledger: Mutex::new(Ok(())),
            reload: Mutex::new(Reload::Done { warnings: vec![] }),
            asked: Mutex::default(),
        });
        let port = Port(state.clone());
        let ports = Ports {
            tokens: Arc::new(port.clone()),
            payloads: Arc::new(port.clone()),
            activity: Arc::new(port.clone()),
            inventory: Arc::new(port.clone()),
            approvals: Arc::new(port.clone()),
            incidents: Arc::new(port.clone()),
            gateway: Arc::new(port.clone()),
        };
        let plane = ControlPlane::new(ports, Arc::new(port), clock.clone());
        let minted = mint_admin_token().unwrap();
        let admin = minted.text.expose().to_owned();
        let desk = Self {
            plane,
            state,
            admin,
            clock,
        };
        desk.keep(
            &minted.id,
            TokenKind::Admin(Role::Operator),
            minted.digest,
            Duration::from_secs(60),
        );
        desk
    }

    fn keep(&self, id: &str, kind: TokenKind, digest: Digest, ttl: Duration) {
        let now = self.clock.now();
        let view = TokenView {
            id: id.to_owned(),
            kind,
            sub: "operator".to_owned(),
            actor_type: ActorType::System,
            client_id: None,
            org_id: None,
            groups: vec![],
            servers: ServerScope::Every,
            run: None,
            created: now,
            expires: now.plus(ttl),
            revoked: None,
        };
        self.state.tokens.lock().unwrap().push((view, digest));
    }

    async fn send(&self, request: Request<Body>) -> Reply {
        let hosts: HostRule = Arc::new(|_, headers| headers.get(header::HOST).is_some_and(|host| host == "localhost"));
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Reply::of(self.plane.answer(request, address, &hosts).await).await
    }

    async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Reply {
        self.ask_as(&self.admin, method, path, body).await
    }

    async fn ask_as(&self, token: &str, method: Method, path: &str, body: Option<Value>) -> Reply {
        let request = head(method, path).header(header::AUTHORIZATION, format!("Bearer {token}"));
        let request = request.header(header::CONTENT_TYPE, "application/json");
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        self.send(request.body(body).unwrap()).await
    }

    async fn get(&self, path: &str) -> Reply {
        self.ask(Method::GET, path, None).await
    }

    async fn post(&self, path: &str, body: Value) -> Reply {
        self.ask(Method::POST, path, Some(body)).await
    }

    /// `action result subject` of every record so far.
    fn records(&self) -> Vec<String> {
        let told = |event: &Event| match event {
            Event::HarnessAttempt(attempt) => {
                format!("harness_attempt {} {}", attempt.class.as_str(), attempt.subject.agent)
            }
            Event::HarnessResult(result) => {
                format!("harness_result {} {}", result.status.as_str(), result.subject.agent)
            }
            Event::Egress(_) | Event::Screening(_) | Event::Approval(_) | Event::Incident(_) => {
                unreachable!("the control plane reaches nothing")
            }
            Event::Admin(note) | Event::Inventory(note) => {
                let result = if note.result == Verdict::Allow {
                    "done"
                } else {
                    "refused"
                };
                format!("{} {result} {}", note.action, note.subject.as_deref().unwrap_or("-"))
            }
        };
        self.state.records.lock().unwrap().iter().map(told).collect()
    }
}

struct Reply {
    status: u16,
    headers: http::HeaderMap,
    body: Vec<u8>,
}

impl Reply {
    async fn of(response: Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        Self {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
        }
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }
}

fn head(method: Method, path: &str) -> http::request::Builder {
    Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, "localhost")
}

fn id() -> ServerId {
    ServerId::parse("files").unwrap()
}

fn facts() -> ServerFacts {
    ServerFacts {
        id: id(),
        trust: Trust::Unknown,
        identity: policy::ServerIdentity::new("https://files.example/", Digest::of(b"files")),
        tier: policy::SandboxTier::default(),
        tools: BTreeMap::new(),
    }
}

#[derive(Clone)]
struct Port(Arc<State>);

impl Recorder for Port {
    fn record(&self, event: Event) -> Later<'_, Result<(), LedgerDown>> {
        Box::pin(async move {
            (*self.0.ledger.lock().unwrap())?;
            self.0.records.lock().unwrap().push(event);
            Ok(())
        })
    }
}

impl Tokens for Port {
    fn add(&self, token: &TokenView, digest: Digest) -> Result<(), PortError> {
        self.0.tokens.lock().unwrap().push((token.clone(), digest));
        Ok(())
    }

    fn list(&self) -> Result<Vec<TokenView>, PortError> {
        Ok(self
            .0
            .tokens
            .lock()
            .unwrap()
            .iter()
            .map(|(token, _)| token.clone())
            .collect())
    }

    fn revoke(&self, id: &str, at: Timestamp) -> Result<Revocation, PortError> {
        let mut tokens = self.0.tokens.lock().unwrap();
        let found = tokens.iter_mut().find(|(token, _)| token.id == id);
        Ok(found.map_or(Revocation::Unknown, |(token, _)| {
            token.revoked = Some(at);
            Revocation::Revoked(Box::new(token.clone()))
        }))
    }

    fn admin_token(&self, digest: &Digest) -> Result<Option<TokenView>, PortError> {
        let tokens = self.0.tokens.lock().unwrap();
        let found = tokens
            .iter()
            .find(|(token, known)| matches!(token.kind, TokenKind::Admin(_)) && known == digest);
        Ok(found.map(|(token, _)| token.clone()))
    }
}

impl Activity for Port {
    fn list(&self, filter: &ActivityFilter) -> Result<Vec<String>, PortError> {
        self.0.asked.lock().unwrap().push(filter.clone());
        Ok(vec![LINE.to_owned(), LINE.to_owned()])
    }

    fn is_behind(&self) -> bool {
        false
    }

    fn show(&self, name: RecordName) -> Result<Option<String>, PortError> {
        Ok((name == RecordName::Seq(7)).then(|| LINE.to_owned()))
    }

    fn summary(&self, filter: &ActivityFilter, arrangement: Arrangement) -> Result<Vec<SummaryView>, PortError> {
        self.0.asked.lock().unwrap().push(filter.clone());
        Ok(vec![SummaryView {
            bucket: arrangement.bucket_minutes.map(|_| Timestamp::from_micros(0)),
            key: format!("{arrangement:?}"),
            calls: 10,
            allowed: 1,
            denied: 2,
            errors: 3,
            pending: 4,
            p50_us: Some(5),
            p99_us: None,
        }])
    }

    fn reindex(&self) -> Result<u64, PortError> {
        Ok(7)
    }
}

impl Payloads for Port {
    fn read(&self, _: PayloadRef, _: ReceiptId, _: PayloadKind) -> Result<Payload, PortError> {
        Ok(Payload::Gone)
    }

    fn erase(&self, _: PayloadRef) -> Result<(), PortError> {
        Ok(())
    }
}

impl InventoryPort for Port {
    fn snapshot(&self) -> Result<Arc<PolicySnapshot>, PortError> {
        let text = r#"@id("all") permit (principal, action, resource) when { context.args has n };"#;
        let rules = Rules::load(&[PolicyFile {
            name: "a.cedar".to_owned(),
            text: text.to_owned(),
        }])
        .unwrap();
        let stored = self.0.server.lock().unwrap().clone();
        Ok(Arc::new(PolicySnapshot::build(
            Inventory::assemble(&[facts()], &[stored], &|_, _| None),
            Arc::new(rules),
            1,
        )))
    }

    fn risk_of_arguments(&self, _: &vocabulary::json::Value<'_>) -> Option<Risk> {
        None
    }

    fn supposing(&self, _: &ServerId, _: &ToolName) -> Result<Option<Arc<PolicySnapshot>>, PortError> {
        Ok(None)
    }

    fn approve(&self, item: &ItemId, seen: Digest, _: &Operator) -> Result<Approval, PortError> {
        let mut stored = self.0.server.lock().unwrap();
        let now = stored.tools[0].seen;
        if now != seen {
            return Ok(Approval::Changed { now });
        }
        approve(&mut stored, &item.name, seen).unwrap();
        Ok(Approval::Approved)
    }

    fn heed(&self, item: &ItemId, order: OperatorOrder, operator: &Operator) -> Result<Heeded, PortError> {
        let said = Said {
            by: operator.name().to_owned(),
            at: Timestamp::from_micros(0),
        };
        if order == OperatorOrder::Classify(Risk::Low) {
            return Ok(Heeded::Refused("nobody lowers this"));
        }
        let mut stored = self.0.server.lock().unwrap();
        heed(&mut stored, (item.kind, &item.name), order, said).unwrap();
        Ok(Heeded::Done)
    }
}

/// Nothing is ever wrong here; the binary's tests show what is.
impl IncidentsPort for Port {
    fn status(&self) -> Vec<Incident> {
        Vec::new()
    }

    fn start(&self, wanted: NewIncident) -> Later<'_, Result<Result<Incident, NotStarted>, PortError>> {
        let incident = Incident {
            id: "inc_1".to_owned(),
            stage: wanted.stage,
            scope: wanted.scope,
            reason: wanted.reason,
            started_by: wanted.by,
            started: Timestamp::from_micros(0),
            expires: None,
            end_wanted_by: None,
        };
        Box::pin(async { Ok(Ok(incident)) })
    }

    fn end(&self, _: &str, _: &str) -> Later<'_, Result<Result<EndOfIncident, NotEnded>, PortError>> {
        Box::pin(async { Ok(Err(NotEnded::Fault(IncidentEndFault::Unknown))) })
    }
}

/// Nobody is asked anything here; the binary's tests show what is.
impl ApprovalsPort for Port {
    fn list(&self) -> Result<Vec<policy::Approval>, PortError> {
        Ok(Vec::new())
    }

    fn find(&self, _: &str) -> Result<Option<policy::Approval>, PortError> {
        Ok(None)
    }

    fn arguments(&self, _: &policy::Approval) -> Result<Option<ShownArguments>, PortError> {
        Ok(None)
    }

    fn decide(&self, _: &str, _: ApprovalWord) -> Later<'_, Result<Result<policy::Approval, NotDecided>, PortError>> {
        Box::pin(async { Ok(Err(NotDecided::Unknown)) })
    }
}

impl Gateway for Port {
    fn rotate_key(&self, operator: &Operator) -> Result<String, PortError> {
        Ok(format!("a new key for {}", operator.name()))
    }

    fn status(&self) -> Result<GatewayStatus, PortError> {
        Ok(GatewayStatus {
            mcp: None,
            started: None,
            log: "test/log".into(),
            last_seq: 7,
            ledger_healthy: true,
        })
    }

    fn servers(&self) -> Result<Vec<ServerView>, PortError> {
        Ok(vec![ServerView {
            id: id(),
            url: "https://files.example/mcp".into(),
            reach: ServerHealth::Up,
        }])
    }

    fn limits(&self, most: usize) -> Result<Vec<policy::Usage>, PortError> {
        let usage = |per: Vec<Per>, key: &[&str]| policy::Usage {
            kind: policy::Kind::Quota,
            per: PerSet::new(per).unwrap(),
            key: key.iter().map(|name| (*name).to_owned()).collect(),
            used: 3,
            calls: 5,
            window: policy::Window::Day,
            methods: policy::Methods::All,
            resets: Timestamp::from_micros(0),
        };
        let pair = usage(vec![Per::Tool, Per::Principal], &["ann", "files/read"]);
        Ok([usage(vec![Per::Client], &["ide"]), pair]
            .into_iter()
            .take(most)
            .collect())
    }

    fn reload(&self, _: ReloadWhen) -> Later<'_, Result<Reload, PortError>> {
        Box::pin(async { Ok(self.0.reload.lock().unwrap().clone()) })
    }

    fn refresh(&self, _: &ServerId) -> Later<'_, Result<Option<ServerHealth>, PortError>> {
        Box::pin(async { Ok(Some(ServerHealth::Down(Trouble::of("timed out")))) })
    }
}

/// Every route, with its parameters filled.
fn routes() -> Vec<(Method, String)> {
    let mut routes = Vec::new();
    for (path, item) in openapi_document()["paths"].as_object().unwrap() {
        let path = path
            .replace("{server}", "files")
            .replace("{tool}", "get%2Fit")
            .replace("{id}", "7");
        for method in item.as_object().unwrap().keys() {
            routes.push((method.to_uppercase().parse().unwrap(), path.clone()));
        }
    }
    routes
}

// R107
#[tokio::test]
async fn no_route_answers_without_an_admin_token_and_no_body_is_read() {
    let desk = Desk::new();
    let mut all = routes();
    assert!(all.len() >= 14);
    all.push((Method::GET, "/metrics".into()));
    all.push((Method::PUT, "/api/v1/tokens".into()));
    for (method, path) in &all {
        let request = head(method.clone(), path).body(Body::new(Unread)).unwrap();
        let reply = desk.send(request).await;
        assert_eq!(
            (reply.status, reply.code()),
            (401, "DENY_NO_AUTHN".into()),
            "{method} {path}"
        );
        assert!(reply.headers.contains_key(header::WWW_AUTHENTICATE));
    }
    assert_eq!(desk.records(), vec!["admin.request refused -"; all.len()]);
}

/// A body nobody may look at.
struct Unread;

impl hyper::body::Body for Unread {
    type Data = bytes::Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<bytes::Bytes>, std::io::Error>>> {
        panic!("the body was read");
    }
}

// R107
#[tokio::test]
async fn only_a_live_admin_token_in_one_authorization_header_counts() {
    let desk = Desk::new();
    let agent = format!("ptr_agt_{}", "a".repeat(64));
    desk.keep(
        "tok_agent",
        TokenKind::Agent,
        Digest::of(agent.as_bytes()),
        Duration::from_secs(60),
    );
    let misfiled = format!("ptr_agt_{}", "b".repeat(64));
    desk.keep(
        "tok_odd",
        TokenKind::Admin(Role::Operator),
        Digest::of(misfiled.as_bytes()),
        Duration::from_secs(60),
    );
    let expired = format!("{ADMIN_PREFIX}{}", "e".repeat(64));
    desk.keep(
        "tok_old",
        TokenKind::Admin(Role::Operator),
        Digest::of(expired.as_bytes()),
        Duration::ZERO,
    );
    let revoked = format!("{ADMIN_PREFIX}{}", "f".repeat(64));
    desk.keep(
        "tok_gone",
        TokenKind::Admin(Role::Operator),
        Digest::of(revoked.as_bytes()),
        Duration::from_secs(60),
    );
    Port(desk.state.clone()).revoke("tok_gone", desk.clock.now()).unwrap();
    let good = format!("Bearer {}", desk.admin);
    for (values, code) in [
        (vec![format!("Bearer {agent}")], "DENY_INVALID_TOKEN"),
        (vec![format!("Bearer {misfiled}")], "DENY_INVALID_TOKEN"),
        (vec![format!("Bearer {expired}")], "DENY_INVALID_TOKEN"),
        (vec![format!("Bearer {revoked}")], "DENY_TOKEN_REVOKED"),
        (vec![format!("Bearer {ADMIN_PREFIX}unknown")], "DENY_INVALID_TOKEN"),
        (vec![format!("Basic {}", desk.admin)], "DENY_INVALID_TOKEN"),
        (vec![desk.admin.clone()], "DENY_INVALID_TOKEN"),
        (vec![format!("{good} x")], "DENY_INVALID_TOKEN"),
        (vec![good.clone(), good.clone()], "DENY_INVALID_TOKEN"),
    ] {
        let request = values
            .iter()
            .fold(head(Method::GET, "/api/v1/status"), |request, value| {
                request.header(header::AUTHORIZATION, value)
            });
        let reply = desk.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!((reply.status, reply.code().as_str()), (401, code), "{values:?}");
    }
    let in_query = head(Method::GET, &format!("/api/v1/status?access_token={}", desk.admin))
        .body(Body::empty())
        .unwrap();
    assert_eq!(desk.send(in_query).await.status, 401);
    let request = head(Method::GET, "/api/v1/status")
        .header(header::AUTHORIZATION, good)
        .body(Body::empty())
        .unwrap();
    assert_eq!(desk.send(request).await.status, 200);
}

/// Makes an admin through the API; their token.
async fn admin(desk: &Desk, name: &str, role: &str) -> String {
    let made = desk.post("/api/v1/admins", json!({"name": name, "role": role})).await;
    assert_eq!((made.status, &made.json()["role"]), (201, &json!(role)), "{name}");
    made.json()["token"].as_str().unwrap().to_owned()
}

// R107
#[tokio::test]
async fn every_route_needs_the_role_it_declares_and_a_lower_one_is_refused_and_recorded() {
    let desk = Desk::new();
    let document = openapi_document();
    let tokens = [
        (Role::Viewer, admin(&desk, "vera", "viewer").await),
        (Role::Approver, admin(&desk, "anton", "approver").await),
        (Role::Operator, admin(&desk, "olga", "operator").await),
    ];
    let operations = document["paths"].as_object().unwrap().values();
    let needed = operations.flat_map(|item| item.as_object().unwrap().values());
    let needed = needed.map(|operation| Role::parse(operation["x-portreeve-role"].as_str().unwrap()).unwrap());
    for ((method, path), needs) in routes().into_iter().zip(needed) {
        // What was kept of requests is not for everybody who may look.
        let is_kept = path.ends_with("/arguments") || path.ends_with("/result");
        let changes = method != Method::GET && path != "/api/v1/policy/explain" || is_kept;
        assert_eq!(
            needs == Role::Viewer,
            !changes,
            "{method} {path}: who looks changes nothing"
        );
        for (role, token) in &tokens {
            desk.state.records.lock().unwrap().clear();
            // A body that fits no route: what is let in changes nothing either.
            let body = (method == Method::POST).then(|| json!({"surprise": 1}));
            let reply = desk.ask_as(token, method.clone(), &path, body).await;
            let refused = (reply.status, reply.code()) == (403, "role_too_low".into());
            assert_eq!(refused, *role < needs, "{role}: {method} {path}");
            if refused {
                let events = desk.state.records.lock().unwrap().clone();
                let [Event::Admin(note)] = events.as_slice() else {
                    panic!("{events:?}")
                };
                assert_eq!(
                    (note.actor == "vera", note.result),
                    (*role == Role::Viewer, Verdict::Deny)
                );
                let told = reply.json()["error"]["message"].as_str().unwrap().to_owned();
                assert!(told.contains(needs.as_str()) && told.contains(role.as_str()), "{told}");
            }
        }
    }
}

#[tokio::test]
async fn admins_are_made_listed_and_taken_back_and_their_names_stand_in_records() {
    let desk = Desk::new();
    let olga = admin(&desk, "olga", "operator").await;
    assert!(olga.starts_with(ADMIN_PREFIX));
    let made = desk
        .ask_as(&olga, Method::POST, "/api/v1/tokens", Some(json!({"sub": "a"})))
        .await;
    assert_eq!(made.status, 201);
    let last = desk.state.records.lock().unwrap().last().cloned();
    assert!(matches!(last, Some(Event::Admin(note)) if note.actor == "olga"));
    let listed = desk.get("/api/v1/admins").await.json();
    let shown = &listed["admins"][1];
    assert_eq!(
        listed["admins"].as_array().unwrap().len(),
        2,
        "agents are not among them"
    );
    let told = (&shown["name"], &shown["role"], &shown["standing"]);
    assert_eq!(told, (&json!("olga"), &json!("operator"), &json!("live")));
    assert!(!listed.to_string().contains(&olga));
    let path = format!("/api/v1/admins/{}", shown["id"].as_str().unwrap());
    let own = desk.ask_as(&olga, Method::DELETE, &path, None).await;
    assert_eq!(own.status, 409, "nobody locks the door from inside");
    let gone = desk.ask(Method::DELETE, &path, None).await;
    assert_eq!((gone.status, &gone.json()["standing"]), (200, &json!("revoked")));
    let after = desk.ask_as(&olga, Method::GET, "/api/v1/status", None).await;
    assert_eq!((after.status, after.code()), (401, "DENY_TOKEN_REVOKED".into()));
    let agent = format!("/api/v1/admins/{}", made.json()["id"].as_str().unwrap());
    assert_eq!(
        desk.ask(Method::DELETE, &agent, None).await.status,
        404,
        "an agent is no admin"
    );
}

#[tokio::test]
async fn an_admin_that_cannot_be_is_not_made() {
    let desk = Desk::new();
    for body in [
        json!({}),
        json!({"name": "a"}),
        json!({"name": "a", "role": "god"}),
        json!({"name": "a", "role": "Operator"}),
        json!({"name": "", "role": "viewer"}),
        json!({"name": "a\u{202e}\u{1b}", "role": "viewer"}),
        json!({"name": "local", "role": "viewer"}),
        json!({"name": "first-start", "role": "operator"}),
        json!({"name": "unauthenticated", "role": "viewer"}),
        json!({"name": "a", "role": "viewer", "ttl_seconds": 0}),
        json!({"name": "a", "role": "viewer", "ttl_seconds": 31_622_401}),
        json!({"name": "a", "role": "viewer", "token": "ptr_adm_mine"}),
    ] {
        let reply = desk.post("/api/v1/admins", body.clone()).await;
        assert_eq!((reply.status, reply.code()), (400, "bad_request".into()), "{body}");
    }
    assert_eq!(desk.state.tokens.lock().unwrap().len(), 1);
    assert_eq!(desk.records(), vec!["admin.create refused -"; 12]);
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_too_much_waits_and_others_do_not() {
    let desk = Desk::new();
    let vera = admin(&desk, "vera", "viewer").await;
    let mut told = BTreeMap::new();
    for _ in 0..1_010 {
        let reply = desk.ask_as(&vera, Method::GET, "/api/v1/limits", None).await;
        if reply.status == 429 {
            assert_eq!(
                (reply.code().as_str(), &reply.headers[header::RETRY_AFTER]),
                ("DENY_RATE_LIMIT", &"1".parse::<http::HeaderValue>().unwrap())
            );
        }
        *told.entry(reply.status).or_insert(0) += 1;
    }
    assert!(told[&429] >= 1 && told[&200] >= 1_000, "{told:?}");
    let events = desk.state.records.lock().unwrap().clone();
    assert!(matches!(events.last(), Some(Event::Admin(note)) if note.actor == "vera" && note.result == Verdict::Deny));
    assert_eq!(desk.get("/api/v1/status").await.status, 200);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(
        desk.ask_as(&vera, Method::GET, "/api/v1/status", None).await.status,
        200
    );
}

// R107
#[tokio::test]
async fn another_host_is_refused_before_the_token_is_looked_at() {
    let desk = Desk::new();
    let request = Request::builder()
        .uri("/api/v1/status")
        .header(header::HOST, "evil.example");
    let request = request
        .header(header::AUTHORIZATION, format!("Bearer {}", desk.admin))
        .body(Body::empty())
        .unwrap();
    let reply = desk.send(request).await;
    assert_eq!((reply.status, reply.code()), (403, "DENY_ORIGIN".into()));
    assert_eq!(desk.records(), ["admin.request refused -"]);
}

#[tokio::test]
async fn every_answer_has_strict_headers() {
    let desk = Desk::new();
    for (method, path) in routes() {
        let reply = desk.ask(method, &path, None).await;
        for (name, value) in [
            ("content-type", "application/json"),
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
        ] {
            assert_eq!(reply.headers[name], value, "{path}");
        }
        assert!(
            reply.headers["content-security-policy"]
                .to_str()
                .unwrap()
                .contains("default-src 'none'")
        );
    }
}

// R107
#[tokio::test]
async fn a_token_is_shown_once_listed_without_its_text_and_taken_back() {
    let desk = Desk::new();
    let wanted = json!({"sub": "ci-bot", "groups": ["dev"], "servers": ["files"], "ttl_seconds": 60, "run": "run_1"});
    let made = desk.post("/api/v1/tokens", wanted).await;
    assert_eq!(made.status, 201);
    let made = made.json();
    let (id, token) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    assert!(token.starts_with("ptr_agt_") && token.len() == 72, "256 bits in hex");
    assert_eq!(made["expires"], "2026-11-15T12:01:00.000000Z");
    assert_eq!(made.as_object().unwrap().len(), 3);
    assert_eq!(desk.state.tokens.lock().unwrap()[1].1, Digest::of(token.as_bytes()));
    let listed = desk.get("/api/v1/tokens").await;
    assert!(!String::from_utf8_lossy(&listed.body).contains(token));
    let expected = json!({
        "id": id, "kind": "agent", "sub": "ci-bot", "actor_type": "agent", "client_id": null, "org_id": null,
        "groups": ["dev"], "servers": ["files"], "run": "run_1", "standing": "live", "created": "2026-11-15T12:00:00.000000Z",
        "expires": "2026-11-15T12:01:00.000000Z", "revoked": null,
    });
    assert_eq!(listed.json()["tokens"][1], expected);
    let gone = desk.ask(Method::DELETE, &format!("/api/v1/tokens/{id}"), None).await;
    assert_eq!((gone.status, &gone.json()["standing"]), (200, &json!("revoked")));
    let unknown = desk.ask(Method::DELETE, "/api/v1/tokens/tok_none", None).await;
    assert_eq!((unknown.status, unknown.code()), (404, "not_found".into()));
    let expected = [
        format!("token.create done {id}"),
        format!("token.revoke done {id}"),
        "token.revoke refused -".into(),
    ];
    assert_eq!(desk.records(), expected);
}

#[tokio::test]
async fn a_token_that_makes_no_sense_is_not_made() {
    let desk = Desk::new();
    for body in [
        json!({}),
        json!({"sub": ""}),
        json!({"sub": "a\nb"}),
        json!({"sub": "unauthenticated"}),
        json!({"sub": "a", "actor": "god"}),
        json!({"sub": "a", "ttl_seconds": 0}),
        json!({"sub": "a", "ttl_seconds": 99_999_999_u64}),
        json!({"sub": "a", "servers": []}),
        json!({"sub": "a", "servers": ["nowhere"]}),
        json!({"sub": "a", "surprise": 1}),
    ] {
        let reply = desk.post("/api/v1/tokens", body.clone()).await;
        assert_eq!((reply.status, reply.code()), (400, "bad_request".into()), "{body}");
    }
    assert_eq!(desk.state.tokens.lock().unwrap().len(), 1);
    assert_eq!(desk.records(), vec!["token.create refused -"; 10]);
}

#[tokio::test]
async fn what_cannot_be_recorded_does_not_happen() {
    let desk = Desk::new();
    *desk.state.ledger.lock().unwrap() = Err(LedgerDown::Disk);
    let made = desk.post("/api/v1/tokens", json!({"sub": "a"})).await;
    assert_eq!((made.status, made.code()), (503, "DENY_RECEIPT_UNAVAILABLE".into()));
    assert_eq!(desk.state.tokens.lock().unwrap().len(), 1);
    let stranger = desk
        .send(head(Method::GET, "/api/v1/status").body(Body::empty()).unwrap())
        .await;
    assert_eq!(
        stranger.status, 503,
        "a refusal that cannot be recorded is not answered as one"
    );
    assert_eq!(
        desk.get("/api/v1/activity").await.status,
        200,
        "reading the log still works"
    );
}

#[tokio::test]
async fn records_leave_exactly_as_stored() {
    let desk = Desk::new();
    let listed = desk
        .get("/api/v1/activity?type=request&status=denied&since=2026-11-15T11:00:00Z&after=3&limit=2")
        .await;
    assert_eq!(
        String::from_utf8_lossy(&listed.body),
        format!(r#"{{"records":[{LINE},{LINE}]}}"#)
    );
    let expected = ActivityFilter {
        kind: Some("request".into()),
        status: Some("denied".into()),
        since: Timestamp::parse("2026-11-15T11:00:00Z"),
        after: Some(3),
        limit: 2,
        ..ActivityFilter::default()
    };
    assert_eq!(*desk.state.asked.lock().unwrap(), [expected]);
    assert_eq!(
        String::from_utf8_lossy(&desk.get("/api/v1/activity/7").await.body),
        LINE
    );
    for unknown in ["/api/v1/activity/8", "/api/v1/activity/rcp_none"] {
        assert_eq!(desk.get(unknown).await.status, 404);
    }
    assert_eq!(desk.records(), Vec::<String>::new(), "looking leaves no record");
    for bad in [
        "status=odd",
        "limit=0",
        "limit=100001",
        "since=yesterday",
        "after=-1",
        "surprise=1",
        "limit=1&limit=2",
    ] {
        assert_eq!(desk.get(&format!("/api/v1/activity?{bad}")).await.status, 400, "{bad}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_is_classified_disabled_and_enabled_and_each_is_on_record() {
    let desk = Desk::new();
    let tool = "/api/v1/tools/files/get%2Fit";
    desk.post(&format!("{tool}/approve"), json!({})).await;
    let classified = desk
        .post(&format!("{tool}/classify"), json!({"risk": "critical"}))
        .await;
    assert_eq!(classified.status, 200);
    let classified = classified.json();
    assert_eq!(
        (&classified["risk"], &classified["risk_source"]),
        (&json!("critical"), &json!("operator"))
    );
    assert!(classified["classified"]["by"].is_string(), "{classified}");
    let refused = desk.post(&format!("{tool}/classify"), json!({"risk": "low"})).await;
    assert_eq!(
        (refused.status, refused.json()["error"]["message"].as_str()),
        (409, Some("nobody lowers this"))
    );
    assert_eq!(
        desk.post(&format!("{tool}/classify"), json!({"risk": "mild"}))
            .await
            .status,
        400
    );
    assert_eq!(desk.post(&format!("{tool}/classify"), json!({})).await.status, 400);
    let disabled = desk.post(&format!("{tool}/disable"), json!({})).await.json();
    assert_eq!(
        (&disabled["standing"], &disabled["cause"]),
        (&json!("disabled"), &Value::Null)
    );
    let listed = desk.get("/api/v1/tools?standing=disabled").await.json();
    assert_eq!(listed["tools"][0]["id"], "files/get/it");
    let enabled = desk.post(&format!("{tool}/enable"), json!({})).await.json();
    assert_eq!(enabled["standing"], "approved");
    for order in ["disable", "enable", "classify"] {
        let path = format!("/api/v1/tools/files/none/{order}");
        assert_eq!(
            desk.post(&path, json!({"risk": "low"})).await.status,
            if order == "classify" { 404 } else { 400 }
        );
        if order != "classify" {
            assert_eq!(desk.post(&path, json!({})).await.status, 404, "{order}");
        }
    }
    let records = desk.records();
    for order in [
        "tool.classify done files/get/it",
        "tool.disable done files/get/it",
        "tool.enable done files/get/it",
    ] {
        assert!(records.iter().any(|record| record == order), "{order}: {records:?}");
    }
}

#[tokio::test]
async fn a_pin_without_its_definition_says_so_and_shows_the_whole() {
    let desk = Desk::new();
    let path = "/api/v1/tools/files/get%2Fit/diff";
    let fresh = desk.get(path).await.json();
    assert_eq!((&fresh["old_hash"], &fresh["note"]), (&Value::Null, &Value::Null));
    assert_eq!(
        (&fresh["changes"][0]["kind"], &fresh["changes"][0]["path"]),
        (&json!("added"), &json!(""))
    );
    let old = Digest::of(b"another");
    desk.state.server.lock().unwrap().tools[0].approved = Some(old);
    let told = desk.get(path).await.json();
    assert_eq!(told["old_hash"], old.to_string());
    assert!(
        told["note"].as_str().unwrap().contains("kept only its digest"),
        "{told}"
    );
    assert_eq!(
        told["changes"][0]["new"],
        serde_json::from_str::<Value>(DEFINITION).unwrap()
    );
    // Bytes that are not those of the digest are not what was approved.
    desk.state.server.lock().unwrap().tools[0].approved_definition = Some(b"{\"name\":\"get/it\"}".as_slice().into());
    assert!(desk.get(path).await.json()["note"].is_string());
    assert_eq!(desk.get(&format!("{path}?kind=prompt")).await.status, 404);
    assert_eq!(desk.get(&format!("{path}?kind=thing")).await.status, 400);
}

// R099, R101
#[tokio::test]
async fn a_tool_is_shown_with_risk_trust_and_standing_and_approved_as_it_was_seen() {
    let desk = Desk::new();
    let listed = desk.get("/api/v1/tools").await.json();
    let tool = &listed["tools"][0];
    let told = ["id", "risk", "trust", "standing", "cause"].map(|name| tool[name].as_str().unwrap());
    assert_eq!(told, ["files/get/it", "high", "unknown", "quarantined", "first_sight"]);
    assert_eq!(
        desk.get("/api/v1/tools?standing=approved").await.json(),
        json!({"tools": []})
    );
    let shown = desk.get("/api/v1/tools/files/get%2Fit").await.json();
    assert_eq!(shown["definition"], serde_json::from_str::<Value>(DEFINITION).unwrap());
    let path = "/api/v1/tools/files/get%2Fit/approve";
    let stale = desk
        .post(path, json!({"definition_hash": Digest::of(b"another").to_string()}))
        .await;
    assert_eq!((stale.status, stale.code()), (409, "conflict".into()));
    let approved = desk
        .post(path, json!({"definition_hash": tool["definition_hash"]}))
        .await;
    assert_eq!(
        (approved.status, approved.json()["standing"].as_str()),
        (200, Some("approved"))
    );
    assert_eq!(desk.get("/api/v1/tools/files/none").await.status, 404);
    assert_eq!(
        desk.post("/api/v1/tools/files/none/approve", json!({})).await.status,
        404
    );
    let expected = [
        "tool.approve done files/get/it",
        "tool.approve refused -",
        "tool.approve done files/get/it",
        "tool.approve refused -",
    ];
    assert_eq!(desk.records(), expected);
}

// R177
#[tokio::test]
async fn a_decision_is_explained_by_its_policies() {
    let desk = Desk::new();
    desk.post("/api/v1/tools/files/get%2Fit/approve", json!({})).await;
    let ask = |arguments: Value| json!({"principal": {"sub": "ann"}, "server": "files", "tool": "get/it", "arguments": arguments});
    let allowed = desk.post("/api/v1/policy/explain", ask(json!({"n": 1}))).await.json();
    assert_eq!(
        (&allowed["decision"], &allowed["policy_id"]),
        (&json!("allow"), &json!("all"))
    );
    let denied = desk.post("/api/v1/policy/explain", ask(json!({}))).await.json();
    assert_eq!(
        (&denied["decision"], &denied["visible"]),
        (&json!("deny"), &json!(true))
    );
    assert_eq!(denied["policies"][0]["finding"], "not_satisfied");
    let unknown = desk
        .post(
            "/api/v1/policy/explain",
            json!({"principal": {"sub": "a"}, "server": "files", "tool": "no"}),
        )
        .await
        .json();
    assert_eq!(
        (&unknown["told_to_caller"], &unknown["visible"]),
        (&json!("DENY_TOOL_NOT_FOUND"), &json!(false))
    );
    assert_eq!(desk.post("/api/v1/policy/explain", ask(json!([]))).await.status, 400);
}

#[tokio::test]
async fn servers_are_refreshed_and_configurations_reloaded_or_kept() {
    let desk = Desk::new();
    let server = desk.post("/api/v1/servers/files/refresh", json!({})).await.json();
    assert_eq!(
        (&server["reach"], &server["reason"], &server["tools"]),
        (&json!("down"), &json!("timed out"), &json!(1))
    );
    assert_eq!(desk.post("/api/v1/servers/none/refresh", json!({})).await.status, 404);
    assert_eq!(
        desk.post("/api/v1/reload", json!({})).await.json(),
        json!({"reloaded": true, "warnings": []})
    );
    *desk.state.reload.lock().unwrap() = Reload::Refused {
        faults: vec!["line 3".into()],
    };
    let kept = desk.post("/api/v1/reload", json!({})).await;
    assert_eq!(
        (kept.status, kept.json()["error"]["faults"].clone()),
        (422, json!(["line 3"]))
    );
    let expected = [
        "server.refresh done files",
        "server.refresh refused -",
        "configuration.reload done -",
        "configuration.reload done -",
        "configuration.reload refused -",
    ];
    assert_eq!(desk.records(), expected);
}

#[tokio::test]
async fn bodies_are_json_of_bounded_size_and_strangers_to_the_api_are_told_so() {
    let desk = Desk::new();
    let bearer = format!("Bearer {}", desk.admin);
    let send = |kind: &'static str, body: String| {
        let request = head(Method::POST, "/api/v1/tokens").header(header::AUTHORIZATION, bearer.clone());
        desk.send(
            request
                .header(header::CONTENT_TYPE, kind)
                .body(Body::from(body))
                .unwrap(),
        )
    };
    let token = json!({"sub": "a"}).to_string();
    assert_eq!(send("application/json; charset=utf-8", token.clone()).await.status, 201);
    assert_eq!(send("text/plain", token).await.status, 415);
    let at_most = |length: usize| format!("{{\"sub\":\"a\"{}}}", " ".repeat(length - 11));
    assert_eq!(send("application/json", at_most(1 << 20)).await.status, 201);
    assert_eq!(send("application/json", at_most((1 << 20) + 1)).await.status, 413);
    assert_eq!(send("application/json", "{".into()).await.status, 400);
    assert_eq!(desk.get("/api/v1/nothing").await.status, 404);
    assert_eq!(desk.ask(Method::PUT, "/api/v1/tokens", None).await.status, 405);
}

// R107
#[tokio::test(start_paused = true)]
async fn a_flood_of_strangers_cannot_fill_the_log_and_none_is_lost_from_the_count() {
    let desk = Arc::new(Desk::new());
    let mut tasks = Vec::new();
    for _ in 0..250 {
        let desk = desk.clone();
        tasks.push(tokio::spawn(async move {
            desk.send(head(Method::GET, "/api/v1/status").body(Body::empty()).unwrap())
                .await
                .status
        }));
    }
    for task in tasks {
        assert_eq!(task.await.unwrap(), 401);
    }
    let records = desk.state.records.lock().unwrap();
    let count = |event: &Event| match event {
        Event::Egress(_)
        | Event::Screening(_)
        | Event::Approval(_)
        | Event::Incident(_)
        | Event::HarnessAttempt(_)
        | Event::HarnessResult(_) => {
            unreachable!("the control plane reaches nothing")
        }
        Event::Admin(note) | Event::Inventory(note) => {
            let number = note
                .message
                .split(' ')
                .nth(1)
                .and_then(|word| word.parse::<usize>().ok());
            number.unwrap_or(1)
        }
    };
    assert_eq!(records.iter().map(count).sum::<usize>(), 250);
    assert!(records.len() <= 104, "{} records", records.len());
}

#[test]
fn the_document_is_the_golden_one() {
    let golden: Value = serde_json::from_str(include_str!("openapi.json")).unwrap();
    let ours = openapi_document();
    assert!(
        ours == golden,
        "the admin API has changed; if that is meant, tests/openapi.json is to be:\n{ours:#}"
    );
}

#[tokio::test]
async fn the_served_document_is_the_generated_one() {
    let desk = Desk::new();
    assert_eq!(desk.get("/api/v1/openapi.json").await.json(), openapi_document());
}

#[tokio::test]
async fn requests_are_summed_up_as_asked_and_the_index_is_made_anew() {
    let desk = Desk::new();
    let summed = desk
        .get("/api/v1/activity/summary?principal=ann&by=tool&bucket_minutes=60")
        .await;
    let line = json!({"bucket": "1970-01-01T00:00:00.000000Z", "key": "Arrangement { by: Some(Tool), bucket_minutes: Some(60) }",
        "calls": 10, "allowed": 1, "denied": 2, "errors": 3, "pending": 4, "p50_us": 5, "p99_us": null});
    assert_eq!(summed.json(), json!({"summary": [line]}));
    assert_eq!(desk.state.asked.lock().unwrap()[0].principal.as_deref(), Some("ann"));
    let whole = desk.get("/api/v1/activity/summary").await.json();
    assert_eq!(whole["summary"][0].get("bucket"), None);
    assert_eq!(desk.records(), Vec::<String>::new(), "looking leaves no record");
    for bad in [
        "by=day",
        "bucket_minutes=0",
        "bucket_minutes=x",
        "bucket_minutes=99999999999",
        "limit=1",
        "status=odd",
    ] {
        assert_eq!(
            desk.get(&format!("/api/v1/activity/summary?{bad}")).await.status,
            400,
            "{bad}"
        );
    }
    let before = desk.records().len();
    assert_eq!(
        desk.post("/api/v1/activity/reindex", json!({})).await.json(),
        json!({"records": 7})
    );
    assert_eq!(desk.records()[before..], ["activity.reindex done -"]);
}

// R256
#[tokio::test]
async fn records_of_harness_runs_are_taken_in_whole_or_refused() {
    let desk = Desk::new();
    let hash = Digest::of(b"x").to_string();
    let result = json!({"type": "harness_result", "receipt_id": "rcp_019a8f2d6c3b7d4e8f901a2b3c4d5e6f", "run": "run_1",
        "pipeline": null, "agent": "triage", "status": "ok", "reason": "valid", "class": "ok", "attempts": 1,
        "config_hash": hash, "schema_hash": hash, "prompt_hash": hash, "output": {"bytes": 3, "hash": hash},
        "inputs": [], "duration_us": 5, "usage": null, "sandbox": null});
    assert_eq!(desk.post("/api/v1/harness/records", result.clone()).await.status, 200);
    assert_eq!(desk.records(), ["harness_result ok triage"]);
    for (member, bad) in [
        ("status", json!("fine")),
        ("schema_hash", json!("sha256:1")),
        ("agent", json!("a\nb")),
        ("text", json!("smuggled")),
        ("receipt_id", json!("rcp_1")),
    ] {
        let mut wrong = result.clone();
        wrong[member] = bad;
        assert_eq!(
            desk.post("/api/v1/harness/records", wrong).await.status,
            400,
            "{member}"
        );
    }
    let foreign =
        json!({"type": "admin", "action": "token.create", "subject": null, "result": "allow", "message": "x"});
    assert_eq!(desk.post("/api/v1/harness/records", foreign).await.status, 400);
    let refused = desk
        .records()
        .iter()
        .filter(|record| record.starts_with("harness.record refused"))
        .count();
    assert_eq!(refused, 6, "{:?}", desk.records());
}

#[tokio::test]
async fn limits_are_told_as_configurations_have_them() {
    let desk = Desk::new();
    let told = desk.get("/api/v1/limits").await.json();
    let row = |per: Value, key: Value| {
        json!({"kind": "quota", "per": per, "key": key, "used": 3, "calls": 5,
        "window": "day", "methods": "all", "resets": "1970-01-01T00:00:00.000000Z"})
    };
    let both = [
        row(json!("client"), json!("ide")),
        row(json!(["principal", "tool"]), json!(["ann", "files/read"])),
    ];
    assert_eq!(told["limits"], json!(both));
    assert_eq!(
        desk.get("/api/v1/limits?limit=1").await.json()["limits"],
        json!([both[0]])
    );
    for wrong in ["0", "-1", "100001", "x", ""] {
        assert_eq!(
            desk.get(&format!("/api/v1/limits?limit={wrong}")).await.status,
            400,
            "{wrong}"
        );
    }
}
