//! A running gateway: what must outlive a reload, and how a snapshot is assembled from it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};

use anyhow::Context;
use control::ports::Trouble;
use gateway::edge::authenticate::Identity;
use gateway::edge::tls::ServingCertificate;
use gateway::edge::tokens::{IssuedToken, TokenStanding, TokenTable};
use gateway::{Gateway, ServerState, Snapshot, SnapshotParts};
use ledger::{Event, Ledger, Note};
use policy::{InventoryStore, Rules, StoredServer};
use sandbox::Launcher;
use store::{Store, TokenKind, TokenRow};
use tokio::sync::{Notify, watch};
use vocabulary::{Authn, Clock, Principal, ServerId, Timestamp, lock};

use super::approvals::ApprovalDesk;
use super::incidents::IncidentDesk;
use super::plan;
use super::processes::{self, Harbour};
use super::quotas;
use super::reload::eyes::OpenFiles;
use super::tier::Memory;
use super::uids::Uids;
use crate::config::{Config, Local};

/// See the module.
pub struct Running {
    pub(crate) store: Arc<Store>,
    pub(crate) ledger: Ledger,
    pub(crate) clock: Clock,
    pub(super) tokens: Arc<TokenTable>,
    pub(super) certificate: Option<Arc<ServingCertificate>>,
    pub(super) public_url: String,
    pub(super) started: Timestamp,
    /// Taken while a snapshot is being replaced, so that two changes do not lose one another.
    pub(super) building: tokio::sync::Mutex<()>,
    /// Held by whoever reads the configuration again.
    pub(super) reading: tokio::sync::Mutex<()>,
    /// Files of the configuration that somebody is writing to.
    pub(super) open_files: Arc<OpenFiles>,
    /// What all tokens for servers are granted with.
    pub(super) grants: plan::Grants,
    /// Probed once, when the first server needs it.
    pub(super) launcher: tokio::sync::OnceCell<Arc<Launcher>>,
    pub(super) current: Mutex<Current>,
    pub(super) approvals: ApprovalDesk,
    pub(super) incidents: IncidentDesk,
    gateway: OnceLock<Arc<Gateway>>,
}

/// What a reload replaces.
pub(super) struct Current {
    pub(super) config: Arc<Config>,
    pub(super) identity: Arc<Identity>,
    pub(super) rules: Arc<Rules>,
    pub(super) screening: Arc<screening::result::Rules>,
    pub(super) limiter: policy::CallLimits,
    pub(super) servers: BTreeMap<ServerId, Arc<ServerLine>>,
    pub(super) stored: BTreeMap<ServerId, StoredServer>,
    /// Permits are good while this number stands: a reload begins another, and what was decided before it and has not
    /// left yet is decided again.
    pub(super) epoch: u64,
}

/// The line to one server: how to reach it, whether it answers, and a bell to ask again.
pub(super) struct ServerLine {
    pub(super) server: Arc<upstream::Server>,
    pub(super) state: watch::Sender<ServerState>,
    pub(super) last_failure: Mutex<Option<Box<Trouble>>>,
    pub(super) bell: Notify,
    pub(super) asked: AtomicU64,
}

/// An incident voids what waits for a person, and so does a change of what they would approve.
fn tie_together(approvals: &ApprovalDesk, incidents: &IncidentDesk, gateway: &Arc<Gateway>) {
    incidents.rule(gateway);
    let voids = incidents.clone();
    approvals.void_by(move |approval| voids.voids(approval));
    let woken = approvals.clone();
    incidents.on_start(move || woken.look_again());
    let asked = Arc::downgrade(gateway);
    approvals.compare_with(move || Some(asked.upgrade()?.in_force().policy().clone()));
}

impl Running {
    /// Opens ledger and store and assembles the first snapshot.
    pub(super) fn new(
        config: Config,
        (clock, launcher): (Clock, Option<Arc<Launcher>>),
        certificate: Option<Arc<ServingCertificate>>,
        public_url: String,
    ) -> anyhow::Result<Arc<Self>> {
        let state = &config.state.dir;
        let settings = ledger::Settings {
            retention: Some(plan::retention(&config.audit)),
            ..plan::ledger_settings(&config.audit, &clock)
        };
        let (ledger, _) = Ledger::open(state, settings)?;
        let store = Arc::new(Store::open(state)?);
        let stored = store.load().context("the inventory cannot be read")?;
        let tokens = Arc::new(TokenTable::default());
        tokens.replace(store.tokens()?.iter().filter_map(issued).collect());
        let identity = Arc::new(plan::identity(&config, &public_url, &tokens, &clock, None)?);
        let harbour = harbour(launcher.as_ref(), &ledger, &config);
        let approvals = ApprovalDesk::new(
            state,
            store.clone(),
            Arc::new(ledger.clone()),
            (clock.clone(), config.approvals.clone()),
        );
        let end_by = config.incident.end_by;
        let incidents = IncidentDesk::open(store.clone(), Arc::new(ledger.clone()), (clock.clone(), end_by))?;
        let grants = plan::Grants::new(&clock);
        let current = Current {
            identity,
            rules: config.policy.rules.clone(),
            screening: Arc::new(plan::screening(&config)),
            limiter: quotas::restored(
                &plan::limit_rules(&config.limits, &config.servers),
                clock.clone(),
                &store,
            )?,
            servers: lines(&config, None, (harbour.as_ref(), &grants))?,
            stored: stored.into_iter().map(|server| (server.id.clone(), server)).collect(),
            config: Arc::new(config),
            epoch: 1,
        };
        let running = Self {
            store,
            ledger: ledger.clone(),
            started: clock.now(),
            clock,
            tokens,
            certificate,
            public_url,
            building: tokio::sync::Mutex::default(),
            reading: tokio::sync::Mutex::default(),
            open_files: Arc::default(),
            grants,
            launcher: tokio::sync::OnceCell::new_with(launcher),
            current: Mutex::new(current),
            approvals: approvals.clone(),
            incidents: incidents.clone(),
            gateway: OnceLock::new(),
        };
        let gateway = Gateway::new(running.assemble(None), ledger, Arc::new(approvals.clone()))
            .context("no randomness can be had")?;
        tie_together(&approvals, &incidents, &gateway);
        let _ = running.gateway.set(gateway);
        Ok(Arc::new(running))
    }

    /// The gateway. Set before anybody else can hold a `Running`.
    #[expect(clippy::expect_used, reason = "`new` sets it before it returns")]
    pub(crate) fn gateway(&self) -> &Arc<Gateway> {
        self.gateway.get().expect("set by `new`")
    }

    pub(super) fn state_dir(&self) -> PathBuf {
        self.with_current(|current| current.config.state.dir.clone())
    }

    pub(super) fn with_current<T>(&self, read: impl FnOnce(&mut Current) -> T) -> T {
        read(&mut lock(&self.current))
    }

    /// A snapshot of what is known now; what did not change is taken over from `previous`.
    fn assemble(&self, previous: Option<Arc<Snapshot>>) -> Snapshot {
        let plan = self.with_current(|current| SnapshotParts {
            identity: current.identity.clone(),
            allowed_hosts: plan::allowed_hosts(&current.config),
            public_url: plan::public_url(&current.config, &self.public_url),
            facts: plan::facts(&current.config.servers, self.launcher.get().map(|launcher| &**launcher)),
            stored: current.stored.values().cloned().collect(),
            rules: current.rules.clone(),
            servers: current.servers.values().map(|line| line.server.clone()).collect(),
            states: current
                .servers
                .iter()
                .map(|(id, line)| (id.clone(), line.state.subscribe()))
                .collect(),
            open_tools: plan::open_tools(&current.config),
            fields: plan::fields(&current.config),
            extension_methods: plan::extension_methods(&current.config),
            limiter: current.limiter.clone(),
            limits: plan::limits(&current.config),
            screening: current.screening.clone(),
            arguments: plan::argument_secrets(&current.config),
            risk: current.config.risk.clone(),
            epoch: current.epoch,
            previous,
        });
        Snapshot::assemble(plan)
    }

    /// Puts a snapshot of what is known now in force.
    pub(super) fn rebuild(&self) {
        let snapshot = self.assemble(Some(self.gateway().in_force()));
        self.gateway().replace_snapshot(snapshot);
        self.approvals.look_again();
    }

    pub(super) async fn note_start(&self) -> anyhow::Result<()> {
        let message = format!("portreeve {} started", env!("CARGO_PKG_VERSION"));
        self.ledger
            .append_event(Event::Admin(Note::done("gateway.start", "system", None, &message)))
            .await?;
        Ok(())
    }

    /// Records which servers are not started because nobody stands for them; those that `before` had barred alike are known.
    pub(super) async fn note_barred(&self, before: Option<&Config>) -> anyhow::Result<()> {
        let config = self.with_current(|current| current.config.clone());
        let known = |id: &ServerId| before.and_then(|before| before.servers.get(id)?.barred.as_ref());
        let mut events = Vec::new();
        for (id, server) in &config.servers {
            if let Some(why) = server.barred.as_ref().filter(|why| known(id) != Some(why)) {
                events.push(Event::Inventory(Note::refused(
                    "server.refused",
                    "system",
                    Some(id.as_str()),
                    why,
                )));
            }
        }
        Ok(self.ledger.append_events(events).await?)
    }

    /// What berths of `config` have in common, where it needs any.
    pub(super) async fn harbour(&self, config: &Config) -> Option<Harbour> {
        let needed = self.launcher.get().is_none();
        if let Some(launcher) = match needed {
            true => processes::launcher(&Local::from(config), Memory::Keep).await,
            false => None,
        } {
            let _ = self.launcher.set(launcher);
        }
        harbour(self.launcher.get(), &self.ledger, config)
    }

    /// Ends every process, and gives their last records a moment.
    pub(super) async fn end_processes(&self) {
        let servers = self.with_current(|current| current.servers.clone());
        let mut processes = servers.values().filter(|line| line.server.is_process()).peekable();
        if processes.peek().is_none() {
            return;
        }
        processes.for_each(|line| line.server.close());
        tokio::time::sleep(LAST_WORDS).await;
    }

    /// Completes when no request is at work any more. Only meaningful once no new ones come.
    pub(super) async fn until_idle(&self) {
        while self.gateway().at_work() > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
}

fn harbour(launcher: Option<&Arc<Launcher>>, ledger: &Ledger, config: &Config) -> Option<Harbour> {
    Some(Harbour {
        launcher: launcher?.clone(),
        ledger: ledger.clone(),
        state: config.state.dir.clone(),
        uids: Uids::of(config.sandbox.uids.as_ref(), &config.state.dir),
        detector: config.output.sanitisation.action.detector().cloned(),
    })
}

/// Processes are given half a second to end by themselves.
const LAST_WORDS: std::time::Duration = std::time::Duration::from_millis(700);

/// A token as the edge knows it; admin tokens are none of its business.
pub(super) fn issued(row: &TokenRow) -> Option<(vocabulary::Digest, IssuedToken)> {
    if row.kind != TokenKind::Agent {
        return None;
    }
    let principal = Principal {
        sub: row.sub.clone(),
        actor_type: row.actor_type,
        client_id: row.client_id.clone(),
        org_id: row.org_id.clone(),
        issuer: "portreeve".to_owned(),
        authn: Authn::Token,
        act: Vec::new(),
        run: row.run.clone(),
        groups: row.groups.clone(),
        claims: claims(row),
        servers: row.servers.clone(),
    };
    let standing = if row.revoked.is_some() {
        TokenStanding::Revoked
    } else {
        TokenStanding::Live
    };
    Some((
        row.hash,
        IssuedToken {
            principal: Arc::new(principal),
            expires: row.expires,
            standing,
        },
    ))
}

/// The claims policies see of a token: the same names as those mapped from a JWT.
fn claims(row: &TokenRow) -> BTreeMap<String, vocabulary::ClaimValue> {
    use vocabulary::ClaimValue::{List, Text};
    let org = row.org_id.iter().map(|org| ("org".to_owned(), Text(org.clone())));
    let client = row
        .client_id
        .iter()
        .map(|client| ("client".to_owned(), Text(client.clone())));
    let groups = (!row.groups.is_empty()).then(|| ("groups".to_owned(), List(row.groups.iter().cloned().collect())));
    org.chain(client).chain(groups).collect()
}

/// Lines to every configured server; those whose settings did not change are kept, with their
/// sessions.
pub(super) fn lines(
    config: &Config,
    before: Option<&Current>,
    means: (Option<&Harbour>, &plan::Grants),
) -> anyhow::Result<BTreeMap<ServerId, Arc<ServerLine>>> {
    let mut lines = BTreeMap::new();
    for (id, server) in &config.servers {
        let known = before.and_then(|before| Some((before, before.servers.get(id)?)));
        let known = known.filter(|(before, _)| before.config.servers.get(id) == Some(server));
        let same_caps = |before: &Current| {
            let (old, new) = (&before.config.limits, &config.limits);
            old.timeout == new.timeout && old.result == new.result
        };
        let line = match known {
            Some((before, line)) if same_caps(before) => line.clone(),
            other => {
                // The same server under other limits has been discovered already.
                let state = other.map_or(ServerState::Pending, |(_, line)| *line.state.borrow());
                let settings = plan::server_settings(id, server, &config.limits, means)?;
                let server = upstream::Server::new(settings).with_context(|| format!("server `{id}`"))?;
                Arc::new(ServerLine {
                    server: Arc::new(server),
                    state: watch::Sender::new(state),
                    last_failure: Mutex::default(),
                    bell: Notify::new(),
                    asked: AtomicU64::new(0),
                })
            }
        };
        lines.insert(id.clone(), line);
    }
    Ok(lines)
}
