//! Connects the control plane's ports to store, log and gateway.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use control::Operator;
use control::ports::{
    self, ActivityFilter, Approval, GatewayStatus, Heeded, Later, PortError, Ports, RecordName, Reload, ReloadWhen,
    ServerHealth, ServerView, TokenView,
};
use gateway::Gateway;
use gateway::ServerState;
use gateway::edge::tokens::TokenTable;
use ledger::{Event, Payload, PayloadKind, PayloadRef, Payloads};
use policy::{InventoryEvent, InventoryStore, ItemId, OperatorOrder, PolicySnapshot, StoredServer, Usage};
use screening::recorded::recordable;
use store::{Activity, Filter, Order, RecordKey, RecordType, Status, Store, TokenKind, TokenRow};
use vocabulary::{Digest, ReceiptId, Risk, ServerId, Timestamp, ToolName, lock};

use super::discovery::note;
use super::orders::{Books, Configured, approve_item, heed_item};
use super::plan;
use super::running::{Running, issued};
use super::suppose::supposing;

/// Tokens in the store and, where a gateway runs, in its table.
pub struct StateTokens {
    store: Arc<Store>,
    live: Option<(Arc<TokenTable>, Arc<Gateway>)>,
}

impl StateTokens {
    /// Tokens of a state directory; `live` is the gateway that runs on it, and its table.
    #[must_use]
    pub fn new(store: Arc<Store>, live: Option<(Arc<TokenTable>, Arc<Gateway>)>) -> Self {
        Self { store, live }
    }

    fn publish(&self, row: &TokenRow) {
        if let (Some((table, _)), Some((digest, token))) = (&self.live, issued(row)) {
            table.set(digest, token);
        }
    }
}

impl ports::Tokens for StateTokens {
    fn add(&self, token: &TokenView, digest: Digest) -> Result<(), PortError> {
        let row = row(token, digest);
        self.store.insert_token(&row).map_err(PortError::new)?;
        self.publish(&row);
        Ok(())
    }

    fn list(&self) -> Result<Vec<TokenView>, PortError> {
        Ok(self.store.tokens().map_err(PortError::new)?.iter().map(view).collect())
    }

    fn revoke(&self, id: &str, at: Timestamp) -> Result<ports::Revocation, PortError> {
        self.store.revoke_token(id, at).map_err(PortError::new)?;
        let tokens = self.store.tokens().map_err(PortError::new)?;
        let Some(row) = tokens.iter().find(|row| row.id == id) else {
            return Ok(ports::Revocation::Unknown);
        };
        self.publish(row);
        if let Some((_, gateway)) = &self.live {
            gateway.recheck_streams();
        }
        Ok(ports::Revocation::Revoked(Box::new(view(row))))
    }

    fn admin_token(&self, digest: &Digest) -> Result<Option<TokenView>, PortError> {
        let tokens = self.store.tokens().map_err(PortError::new)?;
        Ok(tokens
            .iter()
            .find(|row| matches!(row.kind, TokenKind::Admin(_)) && row.hash == *digest)
            .map(view))
    }
}

fn row(token: &TokenView, hash: Digest) -> TokenRow {
    TokenRow {
        id: token.id.clone(),
        kind: match token.kind {
            ports::TokenKind::Agent => TokenKind::Agent,
            ports::TokenKind::Admin(role) => TokenKind::Admin(role),
        },
        hash,
        sub: token.sub.clone(),
        actor_type: token.actor_type,
        client_id: token.client_id.clone(),
        org_id: token.org_id.clone(),
        groups: token.groups.iter().cloned().collect(),
        servers: token.servers.clone(),
        run: token.run.clone(),
        created: token.created,
        expires: token.expires,
        revoked: token.revoked,
    }
}

fn view(row: &TokenRow) -> TokenView {
    TokenView {
        id: row.id.clone(),
        kind: match row.kind {
            TokenKind::Agent => ports::TokenKind::Agent,
            TokenKind::Admin(role) => ports::TokenKind::Admin(role),
        },
        sub: row.sub.clone(),
        actor_type: row.actor_type,
        client_id: row.client_id.clone(),
        org_id: row.org_id.clone(),
        groups: row.groups.iter().cloned().collect(),
        servers: row.servers.clone(),
        run: row.run.clone(),
        created: row.created,
        expires: row.expires,
        revoked: row.revoked,
    }
}

/// What is kept of requests in a state directory.
pub(crate) struct StatePayloads(pub(crate) PathBuf);

impl ports::Payloads for StatePayloads {
    fn read(&self, reference: PayloadRef, receipt: ReceiptId, kind: PayloadKind) -> Result<Payload, PortError> {
        let payloads = Payloads::open(&self.0).map_err(PortError::new)?;
        payloads.read(reference, receipt, kind).map_err(PortError::new)
    }

    fn erase(&self, reference: PayloadRef) -> Result<(), PortError> {
        let payloads = Payloads::open(&self.0).map_err(PortError::new)?;
        payloads.erase(reference).map_err(PortError::new)
    }
}

/// The log of a state directory, through its index.
pub struct StateActivity(Arc<Activity>);

impl StateActivity {
    /// Reads the log through `index`.
    #[must_use]
    pub fn new(index: Activity) -> Self {
        Self(Arc::new(index))
    }

    /// Keeps the index behind the log, a batch a second: under load the calls come first, and a
    /// listing catches up with the rest.
    pub(super) fn follow(&self) {
        let index = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let Some(index) = index.upgrade() else { return };
                match tokio::task::spawn_blocking(move || index.advance()).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => {
                        tracing::warn!(error = &error as &dyn std::error::Error, "the log's index fell behind");
                    }
                    Err(_) => return,
                }
            }
        });
    }
}

impl ports::Activity for StateActivity {
    fn list(&self, filter: &ActivityFilter) -> Result<Vec<String>, PortError> {
        let Some(filter) = translate(filter) else {
            return Ok(Vec::new());
        };
        let lines = self.0.list(&filter).map_err(PortError::new)?;
        let newest_first = filter.order == Order::NewestFirst;
        let text = |line: store::Line| String::from_utf8_lossy(&line.bytes).into_owned();
        let lines = lines.into_iter().map(text);
        Ok(if newest_first {
            lines.collect()
        } else {
            lines.rev().collect()
        })
    }

    fn is_behind(&self) -> bool {
        self.0.is_behind()
    }

    fn show(&self, name: RecordName) -> Result<Option<String>, PortError> {
        let key = match name {
            RecordName::Receipt(id) => RecordKey::Receipt(id),
            RecordName::Seq(seq) => RecordKey::Seq(seq),
        };
        let line = self.0.show(key).map_err(PortError::new)?;
        Ok(line.map(|line| String::from_utf8_lossy(&line.bytes).into_owned()))
    }

    fn summary(
        &self,
        filter: &ActivityFilter,
        arrangement: ports::Arrangement,
    ) -> Result<Vec<ports::SummaryView>, PortError> {
        let Some(filter) = translate(filter) else {
            return Ok(Vec::new());
        };
        let arrangement = store::Arrangement {
            by: arrangement.by.map(|by| match by {
                ports::SummaryBy::Principal => store::By::Principal,
                ports::SummaryBy::Tool => store::By::Tool,
                ports::SummaryBy::Server => store::By::Server,
                ports::SummaryBy::Reason => store::By::Reason,
                ports::SummaryBy::Method => store::By::Method,
            }),
            bucket_minutes: arrangement.bucket_minutes,
        };
        let lines = self.0.summary(&filter, arrangement).map_err(PortError::new)?;
        let view = |line: store::SummaryLine| ports::SummaryView {
            bucket: line.bucket,
            key: line.key,
            calls: line.calls,
            allowed: line.allowed,
            denied: line.denied,
            errors: line.errors,
            pending: line.pending,
            p50_us: line.p50_us,
            p99_us: line.p99_us,
        };
        Ok(lines.into_iter().map(view).collect())
    }

    fn reindex(&self) -> Result<u64, PortError> {
        self.0.reindex().map_err(PortError::new)
    }
}

/// `None` where a type or status is named that no record has.
fn translate(filter: &ActivityFilter) -> Option<Filter> {
    let kind = filter.kind.as_deref().map(RecordType::parse);
    let status = filter.status.as_deref().map(Status::parse);
    if matches!(kind, Some(None)) || matches!(status, Some(None)) {
        return None;
    }
    Some(Filter {
        kind: kind.flatten(),
        status: status.flatten(),
        server: filter.server.clone(),
        tool: filter.tool.clone(),
        principal: filter.principal.clone(),
        session: filter.session.clone(),
        run: filter.run.clone(),
        since: filter.since,
        until: filter.until,
        after_seq: filter.after,
        before_seq: filter.before,
        limit: filter.limit,
        order: if filter.after.is_some() {
            Order::OldestFirst
        } else {
            Order::NewestFirst
        },
    })
}

/// The running gateway, as the control plane sees it.
struct Helm {
    running: Arc<Running>,
    mcp_url: String,
}

impl Running {
    /// Every port of the control plane.
    pub(super) fn ports(self: Arc<Self>, mcp_url: String) -> anyhow::Result<Ports> {
        let activity = StateActivity::new(Activity::open(&self.state_dir())?);
        let payloads = Arc::new(StatePayloads(self.state_dir()));
        activity.follow();
        let helm = Arc::new(Helm {
            running: self.clone(),
            mcp_url,
        });
        Ok(Ports {
            payloads,
            tokens: Arc::new(self.live_tokens()),
            activity: Arc::new(activity),
            inventory: helm.clone(),
            approvals: Arc::new(self.approvals.clone()),
            incidents: Arc::new(self.incidents.clone()),
            gateway: helm,
        })
    }
}

impl ports::Inventory for Helm {
    fn snapshot(&self) -> Result<Arc<PolicySnapshot>, PortError> {
        Ok(self.running.gateway().in_force().policy().clone())
    }

    fn risk_of_arguments(&self, arguments: &vocabulary::json::Value<'_>) -> Option<Risk> {
        let rules = self.running.with_current(|current| current.config.risk.clone());
        rules.of_arguments(arguments).map(|found| found.risk)
    }

    fn supposing(&self, server: &ServerId, tool: &ToolName) -> Result<Option<Arc<PolicySnapshot>>, PortError> {
        let (config, rules) = self
            .running
            .with_current(|current| (current.config.clone(), current.rules.clone()));
        Ok(supposing(&config.servers, &rules, server, tool, &|name, description| {
            config.risk.of_tool(name, description)
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

impl Books for Helm {
    /// Recorded, then kept, then in force.
    fn with_stored<Instead>(
        &self,
        server: &ServerId,
        change: impl FnOnce(&mut StoredServer) -> Result<InventoryEvent, Instead>,
        operator: &Operator,
    ) -> Result<Option<Result<(), Instead>>, PortError> {
        let running = &self.running;
        let _building = running.building.blocking_lock();
        let Some(mut stored) = running.with_current(|current| current.stored.get(server).cloned()) else {
            return Ok(None);
        };
        let event = match change(&mut stored) {
            Ok(event) => event,
            Err(instead) => return Ok(Some(Err(instead))),
        };
        let event = Event::Inventory(note(&event, operator.name()));
        running.ledger.append_event_blocking(event).map_err(PortError::new)?;
        running.store.save(&stored).map_err(PortError::new)?;
        running.with_current(|current| current.stored.insert(server.clone(), stored));
        running.rebuild();
        Ok(Some(Ok(())))
    }

    fn with_configured<T>(&self, server: &ServerId, read: impl FnOnce(&Configured<'_>) -> T) -> T {
        let running = &self.running;
        let (config, facts) = running.with_current(|current| {
            let launcher = running.launcher.get().map(|launcher| &**launcher);
            (current.config.clone(), plan::facts(&current.config.servers, launcher))
        });
        read(&Configured {
            facts: facts.iter().find(|facts| facts.id == *server),
            risk_of: &|name, description| config.risk.of_tool(name, description),
        })
    }

    fn now(&self) -> Timestamp {
        self.running.clock.now()
    }
}

/// Counts with names as records would have them: what an identity provider put there may be anything.
pub(crate) fn shown(usage: Vec<Usage>) -> Vec<Usage> {
    let name = |usage: Usage| Usage {
        key: usage.key.iter().map(|name| recordable(name)).collect(),
        ..usage
    };
    usage.into_iter().map(name).collect()
}

impl ports::Gateway for Helm {
    fn rotate_key(&self, operator: &Operator) -> Result<String, PortError> {
        let rotated = self
            .running
            .ledger
            .rotate_key(operator.name())
            .map_err(PortError::new)?;
        Ok(rotated.to_string())
    }

    fn status(&self) -> Result<GatewayStatus, PortError> {
        let log = self.running.with_current(|current| current.config.audit.origin.clone());
        Ok(GatewayStatus {
            mcp: Some(self.mcp_url.clone()),
            started: Some(self.running.started),
            log,
            last_seq: self.running.ledger.last_seq(),
            ledger_healthy: self.running.ledger.is_healthy(),
        })
    }

    fn servers(&self) -> Result<Vec<ServerView>, PortError> {
        let running = &self.running;
        let view = |(id, url): (&ServerId, String)| ServerView {
            id: id.clone(),
            url,
            reach: running.reach(id),
        };
        let known = running.with_current(|current| {
            let servers = current.config.servers.iter();
            servers
                .map(|(id, server)| (id.clone(), server.reach.shown()))
                .collect::<Vec<_>>()
        });
        Ok(known.iter().map(|(id, url)| view((id, url.clone()))).collect())
    }

    fn limits(&self, most: usize) -> Result<Vec<Usage>, PortError> {
        let limiter = self.running.with_current(|current| current.limiter.clone());
        Ok(shown(limiter.usage(most)))
    }

    fn reload(&self, when: ReloadWhen) -> Later<'_, Result<Reload, PortError>> {
        Box::pin(async move { Ok(self.running.clone().reload("operator", when).await) })
    }

    fn refresh(&self, server: &ServerId) -> Later<'_, Result<Option<ServerHealth>, PortError>> {
        let server = server.clone();
        Box::pin(async move { Ok(self.running.discover_again(&server).await) })
    }
}

impl Running {
    pub(super) fn live_tokens(&self) -> StateTokens {
        let live = (self.tokens.clone(), self.gateway().clone());
        StateTokens::new(self.store.clone(), Some(live))
    }

    /// Asks a server at once; `None` if it is not configured.
    pub(super) async fn discover_again(&self, id: &ServerId) -> Option<ServerHealth> {
        let line = self.with_current(|current| current.servers.get(id).cloned())?;
        self.ask(id, &line).await;
        Some(self.reach(id))
    }

    fn reach(&self, id: &ServerId) -> ServerHealth {
        let line = self.with_current(|current| current.servers.get(id).cloned());
        let Some(line) = line else { return ServerHealth::Unknown };
        let state = *line.state.borrow();
        match state {
            ServerState::Pending => ServerHealth::Unknown,
            ServerState::Up => match lock(&line.last_failure).clone() {
                Some(why) => ServerHealth::Degraded(why),
                None => ServerHealth::Up,
            },
            ServerState::Down => {
                let why = lock(&line.last_failure).clone();
                ServerHealth::Down(why.unwrap_or_default())
            }
        }
    }
}
