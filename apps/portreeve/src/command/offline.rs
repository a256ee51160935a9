//! The control plane while no gateway runs: the same API over the state directory, for the command that
//! holds its lock. The log is opened for writing only when something has to be recorded.

use std::sync::{Arc, Mutex};

use control::ports::{
    self, Approval, GatewayStatus, Heeded, Later, PortError, Ports, Recorder, Reload, ReloadWhen, ServerHealth,
    ServerView,
};
use control::{ControlPlane, Operator};
use ledger::{Event, Ledger, LedgerDown};
use policy::{
    CallLimits, Inventory, InventoryEvent, InventoryStore as _, ItemId, OperatorOrder, PolicySnapshot, QuotaStore as _,
    StoredServer, Usage,
};
use store::{Activity, Store};
use vocabulary::{Clock, Digest, Risk, ServerId, Timestamp, ToolName, lock};

use crate::config::Local;
use crate::wire_up::{
    ApprovalDesk, Books, Configured, IncidentDesk, StateActivity, StatePayloads, StateTokens, approve_item, facts,
    heed_item, inventory_note, launcher_now, ledger_settings, limit_rules, shown, supposing,
};

/// The admin API over a state directory. The caller holds its lock.
pub(super) fn plane(config: &Local) -> anyhow::Result<(ControlPlane, Closing)> {
    let store = Arc::new(Store::open(&config.state.dir)?);
    let activity = Activity::open(&config.state.dir)?;
    let log = Log(Arc::new(Shared {
        config: config.clone(),
        open: Mutex::new(None),
    }));
    let desk = Arc::new(Desk {
        config: config.clone(),
        store: store.clone(),
        log: log.clone(),
    });
    let settings = (Clock::system(), config.approvals.clone());
    let approvals = ApprovalDesk::new(&config.state.dir, store.clone(), Arc::new(log.clone()), settings);
    let settings = (Clock::system(), config.incident.end_by);
    let incidents = IncidentDesk::open(store.clone(), Arc::new(log.clone()), settings)?;
    let shown = desk.clone();
    approvals.compare_with(move || ports::Inventory::snapshot(shown.as_ref()).ok());
    let ports = Ports {
        tokens: Arc::new(StateTokens::new(store, None)),
        activity: Arc::new(StateActivity::new(activity)),
        payloads: Arc::new(StatePayloads(config.state.dir.clone())),
        inventory: desk.clone(),
        approvals: Arc::new(approvals),
        incidents: Arc::new(incidents),
        gateway: desk,
    };
    Ok((
        ControlPlane::new(ports, Arc::new(log.clone()), Clock::system()),
        Closing(log),
    ))
}

/// Ends the work on the log.
pub(super) struct Closing(Log);

impl Closing {
    /// Brings what was recorded to the disk. Blocks.
    pub(super) fn close(self) {
        if let Some(ledger) = lock(&self.0.0.open).take() {
            ledger.shutdown();
        }
    }
}

/// The log, opened by its first record.
#[derive(Clone)]
struct Log(Arc<Shared>);

struct Shared {
    config: Local,
    open: Mutex<Option<Ledger>>,
}

impl Log {
    /// Blocks.
    fn append(&self, event: Event) -> Result<(), LedgerDown> {
        self.with(|ledger| ledger.append_event_blocking(event).map(drop))?
    }

    /// Does something with the log, opening it where nobody has yet.
    fn with<T>(&self, work: impl FnOnce(&Ledger) -> T) -> Result<T, LedgerDown> {
        let mut open = lock(&self.0.open);
        let ledger = match open.take() {
            Some(ledger) => ledger,
            None => {
                let Some(audit) = &self.0.config.audit else {
                    super::output::note(
                        "error: `[audit]` has faults, so nothing can be recorded; `portreeve check` tells them",
                    );
                    return Err(LedgerDown::Disk);
                };
                let settings = ledger_settings(audit, &Clock::system());
                let opened = Ledger::open(&self.0.config.state.dir, settings);
                opened.map(|(ledger, _)| ledger).map_err(|error| {
                    super::output::note(&format!("error: {error}"));
                    LedgerDown::Disk
                })?
            }
        };
        Ok(work(open.insert(ledger)))
    }
}

impl Recorder for Log {
    fn record(&self, event: Event) -> Later<'_, Result<(), LedgerDown>> {
        let log = self.clone();
        Box::pin(async move {
            let appended = tokio::task::spawn_blocking(move || log.append(event)).await;
            appended.unwrap_or(Err(LedgerDown::Stopped))
        })
    }
}

/// Inventory and gateway as far as the state directory and the configuration tell.
struct Desk {
    config: Local,
    store: Arc<Store>,
    log: Log,
}

impl ports::Inventory for Desk {
    fn snapshot(&self) -> Result<Arc<PolicySnapshot>, PortError> {
        let stored = self.store.load().map_err(PortError::new)?;
        let inventory = Inventory::assemble(
            &facts(&self.config.servers, launcher_now(&self.config).as_deref()),
            &stored,
            &|name, description| self.config.risk_of(name, description),
        );
        Ok(Arc::new(PolicySnapshot::build(inventory, self.config.rules.clone(), 0)))
    }

    fn risk_of_arguments(&self, arguments: &vocabulary::json::Value<'_>) -> Option<Risk> {
        match &self.config.risk {
            Some(rules) => rules.of_arguments(arguments).map(|found| found.risk),
            None => Some(Risk::Critical),
        }
    }

    fn supposing(&self, server: &ServerId, tool: &ToolName) -> Result<Option<Arc<PolicySnapshot>>, PortError> {
        let Local { servers, rules, .. } = &self.config;
        Ok(supposing(servers, rules, server, tool, &|name, description| {
            self.config.risk_of(name, description)
        })
        .map(Arc::new))
    }

    fn approve(&self, item: &ItemId, seen: Digest, operator: &Operator) -> Result<Approval, PortError> {
        approve_item(self, (item, seen), operator)
    }

    fn heed(&self, item: &ItemId, order: OperatorOrder, operator: &Operator) -> Result<Heeded, PortError> {
        heed_item(self, (item, order), operator)
    }
}

impl Books for Desk {
    fn with_stored<Instead>(
        &self,
        server: &ServerId,
        change: impl FnOnce(&mut StoredServer) -> Result<InventoryEvent, Instead>,
        operator: &Operator,
    ) -> Result<Option<Result<(), Instead>>, PortError> {
        let stored = self.store.load().map_err(PortError::new)?;
        let Some(mut known) = stored.into_iter().find(|known| known.id == *server) else {
            return Ok(None);
        };
        let event = match change(&mut known) {
            Ok(event) => event,
            Err(instead) => return Ok(Some(Err(instead))),
        };
        let note = inventory_note(&event, operator.name());
        self.log.append(Event::Inventory(note)).map_err(PortError::new)?;
        self.store.save(&known).map_err(PortError::new)?;
        Ok(Some(Ok(())))
    }

    fn with_configured<T>(&self, server: &ServerId, read: impl FnOnce(&Configured<'_>) -> T) -> T {
        let facts = facts(&self.config.servers, launcher_now(&self.config).as_deref());
        read(&Configured {
            facts: facts.iter().find(|facts| facts.id == *server),
            risk_of: &|name, description| self.config.risk_of(name, description),
        })
    }

    fn now(&self) -> Timestamp {
        Clock::system().now()
    }
}

impl ports::Gateway for Desk {
    fn rotate_key(&self, operator: &Operator) -> Result<String, PortError> {
        let rotated = self.log.with(|ledger| ledger.rotate_key(operator.name()));
        let new = rotated.map_err(PortError::new)?.map_err(PortError::new)?;
        Ok(new.to_string())
    }

    fn status(&self) -> Result<GatewayStatus, PortError> {
        let audit = self.config.audit.as_ref();
        let log = audit.map(|audit| audit.origin.clone()).unwrap_or_default();
        Ok(GatewayStatus {
            mcp: None,
            started: None,
            log,
            last_seq: 0,
            ledger_healthy: true,
        })
    }

    fn servers(&self) -> Result<Vec<ServerView>, PortError> {
        let view = |(id, server): (&ServerId, &crate::config::Server)| ServerView {
            id: id.clone(),
            url: server.reach.shown(),
            reach: ServerHealth::Unknown,
        };
        Ok(self.config.servers.iter().map(view).collect())
    }

    fn limits(&self, most: usize) -> Result<Vec<Usage>, PortError> {
        let faulty = || PortError::new("`[limits]` has faults; `portreeve check` tells them");
        let limits = self.config.limits.as_ref().ok_or_else(faulty)?;
        let limiter = CallLimits::new(&limit_rules(limits, &self.config.servers), Clock::system());
        let kept = self.store.counts().map_err(PortError::new)?;
        limiter.restore(&kept, &limiter.kept_rules());
        Ok(shown(limiter.usage(most)))
    }

    fn reload(&self, _: ReloadWhen) -> Later<'_, Result<Reload, PortError>> {
        Box::pin(async { Ok(Reload::NotRunning) })
    }

    fn refresh(&self, _: &ServerId) -> Later<'_, Result<Option<ServerHealth>, PortError>> {
        Box::pin(async { Ok(Some(ServerHealth::Unknown)) })
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http::{Method, Request, header};
    use http_body_util::BodyExt as _;
    use serde_json::{Value, json};

    use super::*;
    use crate::config::{Config, RawConfig};

    fn config(dir: &std::path::Path) -> Local {
        let text = "[state]\ndir = \"state\"\n[audit]\norigin = \"test/log\"\n[servers.files]\nurl = \"https://files.example/mcp\"\n";
        let raw = RawConfig::from_text(text.to_owned(), dir.to_owned(), Default::default());
        Local::from(&Config::try_from(raw).expect("sound"))
    }

    async fn ask(plane: &ControlPlane, method: Method, path: &str, body: Value) -> (u16, Value) {
        let request = Request::builder().method(method).uri(format!("/api/v1{path}"));
        let request = request
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_string()))
            .unwrap();
        let response = plane.act(request, &Operator::at_the_machine()).await;
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap())
    }

    // R107
    #[tokio::test(flavor = "multi_thread")]
    async fn without_a_gateway_tokens_are_made_and_the_log_says_so() {
        let home = tempfile::tempdir().unwrap();
        let config = config(home.path());
        let (plane, closing) = plane(&config).unwrap();
        let (status, empty) = ask(&plane, Method::GET, "/activity", json!({})).await;
        assert_eq!((status, empty), (200, json!({"records": []})));
        assert!(!config.state.dir.join("ledger/origin").exists(), "reading opens no log");
        let (status, made) = ask(&plane, Method::POST, "/tokens", json!({"sub": "ci-bot"})).await;
        assert_eq!(status, 201);
        let (_, listed) = ask(&plane, Method::GET, "/tokens", json!({})).await;
        assert_eq!(listed["tokens"][0]["id"], made["id"]);
        let (_, records) = ask(&plane, Method::GET, "/activity?type=admin&limit=1", json!({})).await;
        let record = &records["records"][0];
        let told = (&record["action"], &record["actor"], &record["subject"]);
        assert_eq!(told, (&json!("token.create"), &json!("local"), &made["id"]));
        let (status, _) = ask(&plane, Method::POST, "/reload", json!({})).await;
        assert_eq!(status, 409, "nothing runs that could reload");
        tokio::task::spawn_blocking(move || closing.close()).await.unwrap();
        let finding = ledger::verify(&ledger::LedgerReader::of_state(&config.state.dir)).unwrap();
        assert!(matches!(finding, ledger::Finding::Intact(_)), "{finding:?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_log_that_cannot_be_opened_stops_changes_but_not_reading() {
        let home = tempfile::tempdir().unwrap();
        let config = config(home.path());
        std::fs::create_dir_all(&config.state.dir).unwrap();
        std::fs::write(config.state.dir.join("ledger"), "in the way").unwrap();
        let (plane, _closing) = plane(&config).unwrap();
        let (status, refused) = ask(&plane, Method::POST, "/tokens", json!({"sub": "ci-bot"})).await;
        assert_eq!(
            (status, &refused["error"]["code"]),
            (503, &json!("DENY_RECEIPT_UNAVAILABLE"))
        );
        assert_eq!(
            ask(&plane, Method::GET, "/tokens", json!({})).await,
            (200, json!({"tokens": []}))
        );
    }
}
