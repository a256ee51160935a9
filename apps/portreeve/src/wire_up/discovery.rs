//! Keeps the inventory true: asks every server what it offers, at first, when told, and every few
//! minutes; pins what it says, and puts the result in force.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use control::ports::Trouble;
use gateway::ServerState;
use ledger::{
    Event, Judgement, Note, ScreeningAct, ScreeningDecision, ScreeningMode, ScreeningStage, ScreeningSubject,
};
use policy::{
    Change, DefinitionFault, Discovery, InventoryEvent, InventoryStore, ItemsSeen, Merged, QuarantineCause,
    ServerFacts, Standing, StoredServer, merge, merge_items,
};
use screening::recorded::without_secrets;
use screening::result::validate::{Declaration, Mode};
use upstream::Failure;
use vocabulary::{Digest, ServerId, Shadowing, ToolId, ToolName, lock};

use super::breather::Breather;
use super::plan;
use super::running::{Running, ServerLine};
use super::seen::{doubtful, looked_through, unforged_items, without_forgeries};
use crate::config::Reach;

const AGAIN_AFTER_SUCCESS: Duration = Duration::from_secs(5 * 60);
/// A process is started for it.
const AGAIN_FOR_PROCESSES: Duration = Duration::from_secs(60 * 60);
/// Once a server is up, its other lists may take this long before anybody who waits for it goes on without them.
const ITEMS_PATIENCE: Duration = Duration::from_secs(3);
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(60);

impl Running {
    /// Starts asking every server that nobody asks yet.
    pub(super) fn start_discovery(self: Arc<Self>) {
        let lines = self.with_current(|current| current.servers.clone());
        for (id, line) in lines {
            if line.asked.fetch_add(1, Ordering::SeqCst) == 0 {
                // To listen would keep a process running for nobody; those that are at work tell of changes.
                if !line.server.is_process() {
                    tokio::spawn(self.clone().keep_hearing(id.clone(), line.clone()));
                }
                tokio::spawn(self.clone().keep_asking(id, line));
            }
        }
    }

    /// Asks again whoever says that its tools changed, until the gateway stops.
    pub(super) async fn ask_the_stale(self: Arc<Self>) {
        let mut stale = gateway::stale_servers(self.gateway());
        while let Some(id) = stale.next().await {
            if let Some(line) = self.with_current(|current| current.servers.get(&id).cloned()) {
                line.bell.notify_one();
            }
        }
    }

    /// Hears what a server says of its lists, for as long as it is up and configured.
    async fn keep_hearing(self: Arc<Self>, id: ServerId, line: Arc<ServerLine>) {
        let mut state = line.state.subscribe();
        let mut retry = FIRST_RETRY;
        while self.is_current(&id, &line) {
            let up = state.wait_for(|state| *state == ServerState::Up);
            if tokio::time::timeout(LAST_RETRY, up).await.is_err() {
                continue;
            }
            let began = tokio::time::Instant::now();
            let _ = gateway::hear_changes(self.gateway(), &line.server).await;
            // A server without such a stream is tried now and then; one that closes it, soon.
            retry = if began.elapsed() > LAST_RETRY {
                FIRST_RETRY
            } else {
                (retry * 2).min(AGAIN_AFTER_SUCCESS)
            };
            tokio::time::sleep(retry).await;
        }
    }

    /// Asks until the line is replaced or the server is no longer configured.
    async fn keep_asking(self: Arc<Self>, id: ServerId, line: Arc<ServerLine>) {
        let mut retry = FIRST_RETRY;
        let mut breather = Breather::default();
        while self.is_current(&id, &line) {
            let wait = if self.ask(&id, &line).await {
                retry = FIRST_RETRY;
                match line.server.is_process() {
                    true => AGAIN_FOR_PROCESSES,
                    false => AGAIN_AFTER_SUCCESS,
                }
            } else {
                let wait = retry;
                retry = (retry * 2).min(LAST_RETRY);
                wait
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = line.bell.notified() => tokio::time::sleep(breather.next(Instant::now())).await,
                () = line.server.change_noted() => tokio::time::sleep(breather.next(Instant::now())).await,
            }
        }
    }

    fn is_current(&self, id: &ServerId, line: &Arc<ServerLine>) -> bool {
        self.with_current(|current| current.servers.get(id).is_some_and(|known| Arc::ptr_eq(known, line)))
    }

    /// Asks one server once; says whether it answered.
    pub(super) async fn ask(&self, id: &ServerId, line: &Arc<ServerLine>) -> bool {
        match upstream::discover(&line.server).await {
            Ok(seen) => match self.take_in(id, line, seen).await {
                Ok(Taken::Replaced) => false,
                Ok(Taken::InForce { cut }) => {
                    let cut = cut.map(|why| format!("{why}; what was not read does not exist here"));
                    if let Some(why) = &cut {
                        tracing::warn!(server = %id, why, "a server's list could not be read to its end");
                    }
                    *lock(&line.last_failure) = cut.map(Trouble::of);
                    let mut others = std::pin::pin!(self.ask_for_items(id, line));
                    if tokio::time::timeout(ITEMS_PATIENCE, &mut others).await.is_err() {
                        line.state.send_replace(ServerState::Up);
                        others.await;
                    }
                    line.state.send_replace(ServerState::Up);
                    true
                }
                Err(error) => {
                    tracing::error!(server = %id, error = format!("{error:#}"), "a discovery could not be kept");
                    self.mark_down(line, Trouble::of("its inventory could not be kept"));
                    false
                }
            },
            // What is known of it stays in force until somebody comes whose credential it takes.
            Err(failure)
                if failure.blocked().is_some()
                    && line.server.needs_somebody()
                    && *line.state.borrow() == ServerState::Up =>
            {
                true
            }
            Err(failure) => {
                tracing::warn!(server = %id, error = &failure as &dyn std::error::Error, "a server could not be discovered");
                let trouble = self.trouble(id, line, &failure).await;
                self.mark_down(line, trouble);
                false
            }
        }
    }

    /// Asks a server for what it lists beside its tools, and puts that in force. What cannot be kept is not in force.
    async fn ask_for_items(&self, id: &ServerId, line: &Arc<ServerLine>) {
        let seen = upstream::discover_items(&line.server).await;
        if let Err(error) = self.take_in_items(id, line, seen).await {
            tracing::error!(server = %id, error = format!("{error:#}"), "what a server lists could not be kept");
        }
    }

    fn mark_down(&self, line: &ServerLine, why: Box<Trouble>) {
        *lock(&line.last_failure) = Some(why);
        line.state.send_replace(ServerState::Down);
    }

    /// Why a server did not answer, with what is left of its process where it is one.
    async fn trouble(&self, id: &ServerId, line: &ServerLine, failure: &Failure) -> Box<Trouble> {
        let mut trouble = Trouble::of(chain(failure));
        let has_run = !matches!(failure, Failure::NotStarted(_) | Failure::Sandbox(_) | Failure::TooMany);
        if let Some(trace) = line.server.trace().await.filter(|_| has_run) {
            if let (Failure::Ended(_), Some(ending)) = (failure, &trace.ending) {
                trouble.reason = format!("the server's process {ending}");
            }
            trouble.ending = trace.ending;
            trouble.stderr = trace.last_lines;
            trouble.log = trace.log.map(|file| file.display().to_string());
        }
        trouble.hints = self.with_current(
            |current| match current.config.servers.get(id).map(|server| &server.reach) {
                Some(Reach::Process(process)) => process.unreadable_scripts(id, &current.config.state.dir),
                Some(Reach::Web(_)) | None => Vec::new(),
            },
        );
        trouble
    }

    /// Pins what was seen, keeps it, records what changed, and puts it in force: in this order, so
    /// that nothing is listed that is not kept.
    /// What a line that was replaced meanwhile brings is not taken: it is another server's.
    async fn take_in(&self, id: &ServerId, line: &Arc<ServerLine>, seen: Discovery) -> anyhow::Result<Taken> {
        let _building = self.building.lock().await;
        let Some((stored, facts, rules)) = self.known(id, line) else {
            return Ok(Taken::Replaced);
        };
        let (before, now, cut) = (stored.clone(), self.clock.now(), seen.cut);
        // Definitions are read through and schemas compiled.
        let judged = tokio::task::spawn_blocking(move || {
            let (seen, forged) = without_forgeries(seen);
            let doubtful = doubtful(&seen, rules.sanitisation.action.detector().map(AsRef::as_ref));
            let mut merged = merge(stored, Discovery { doubtful, ..seen }, &facts, now);
            tell_unusable_inputs(&mut merged);
            let mut warnings = unusable_schemas(before.as_ref(), &merged, rules.validation.mode);
            warnings.extend(forged_members(&merged, &forged));
            (merged, warnings)
        });
        let (merged, warnings) = judged.await?;
        let (store, keep) = (self.store.clone(), merged.stored.clone());
        tokio::task::spawn_blocking(move || store.save(&keep)).await??;
        self.record(&merged.events).await?;
        for warning in warnings {
            tracing::warn!(server = %id, tool = warning.subject.tool_name, "{}", warning.judgement.message);
            self.ledger.append_event(Event::Screening(Box::new(warning))).await?;
        }
        self.with_current(|current| current.stored.insert(id.clone(), merged.stored));
        let before = self.shadowed();
        self.rebuild();
        self.record(&news_of(&before, self.shadowed())).await?;
        Ok(Taken::InForce { cut })
    }

    /// The same of what it lists beside its tools.
    async fn take_in_items(&self, id: &ServerId, line: &Arc<ServerLine>, seen: ItemsSeen) -> anyhow::Result<()> {
        let _building = self.building.lock().await;
        let Some((Some(stored), facts, rules)) = self.known(id, line) else {
            return Ok(());
        };
        let before = stored.clone();
        let merged = tokio::task::spawn_blocking(move || {
            let detector = rules.sanitisation.action.detector().map(AsRef::as_ref);
            merge_items(stored, looked_through(unforged_items(seen), detector), &facts)
        });
        let merged = merged.await?;
        if merged.stored == before {
            return Ok(());
        }
        let is_in_force = merged.stored.items == before.items;
        let (store, keep) = (self.store.clone(), merged.stored.clone());
        tokio::task::spawn_blocking(move || store.save(&keep)).await??;
        self.record(&merged.events).await?;
        self.with_current(|current| current.stored.insert(id.clone(), merged.stored));
        if !is_in_force {
            self.rebuild();
        }
        Ok(())
    }

    /// What is kept and configured of a server, and by what its definitions are judged; `None` where its line was replaced.
    fn known(
        &self,
        id: &ServerId,
        line: &Arc<ServerLine>,
    ) -> Option<(Option<StoredServer>, ServerFacts, Arc<screening::result::Rules>)> {
        if !self.is_current(id, line) {
            return None;
        }
        self.with_current(|current| {
            let launcher = self.launcher.get().map(|launcher| &**launcher);
            let facts = plan::facts(&current.config.servers, launcher)
                .into_iter()
                .find(|facts| facts.id == *id)?;
            Some((current.stored.get(id).cloned(), facts, current.screening.clone()))
        })
    }

    /// The tools that wait because of another server's.
    fn shadowed(&self) -> BTreeMap<ToolId, Shadowing> {
        let in_force = self.gateway().in_force();
        let tools = in_force.policy().inventory().tools().iter();
        tools
            .filter_map(|tool| match &tool.standing {
                Standing::Quarantined(QuarantineCause::Shadowing(why)) => Some((tool.id.clone(), why.clone())),
                Standing::Approved | Standing::Disabled | Standing::Quarantined(_) => None,
            })
            .collect()
    }

    pub(super) async fn record(&self, events: &[InventoryEvent]) -> anyhow::Result<()> {
        let events = events
            .iter()
            .map(|event| Event::Inventory(note(event, "system")))
            .collect();
        Ok(self.ledger.append_events(events).await?)
    }
}

/// What is shadowed now and was not, or for another reason.
fn news_of(before: &BTreeMap<ToolId, Shadowing>, now: BTreeMap<ToolId, Shadowing>) -> Vec<InventoryEvent> {
    let news = now.into_iter().filter(|(id, why)| before.get(id) != Some(why));
    news.map(|(id, why)| InventoryEvent {
        server: id.server,
        change: Change::Shadowing { tool: id.name, why },
    })
    .collect()
}

/// A failure with its cause, where it names one.
fn chain(failure: &Failure) -> String {
    match (failure, std::error::Error::source(failure)) {
        (Failure::Sandbox(_), Some(cause)) => format!("{failure}: {cause}"),
        _ => failure.to_string(),
    }
}

/// What became of a discovery.
enum Taken {
    InForce {
        /// Why there is more than was read, where there is.
        cut: Option<&'static str>,
    },
    Replaced,
}

/// A record for each tool that came with such members: once, when it is added or changed.
fn forged_members(merged: &Merged, forged: &BTreeSet<Digest>) -> Vec<ScreeningDecision> {
    let with_forgeries: BTreeSet<&ToolName> = merged
        .stored
        .tools
        .iter()
        .filter(|tool| !forged.is_empty() && forged.contains(&Digest::of(&tool.definition)))
        .map(|tool| &tool.name)
        .collect();
    let is_forged = |name: &&ToolName| with_forgeries.contains(*name);
    let record = |tool: &ToolName| {
        let message = "members of the definition's `_meta` that only the gateway may write were taken out".to_owned();
        let (act, stage) = (ScreeningAct::Stripped, ScreeningStage::Meta);
        let judgement = Judgement {
            stripped: vec![("forged_meta", 1)],
            ..Judgement::new(act, stage, ScreeningMode::Always, message)
        };
        about_a_tool(merged, tool, judgement)
    };
    news(merged).filter(is_forged).map(record).collect()
}

/// The tools that are new or changed.
fn news(merged: &Merged) -> impl Iterator<Item = &ToolName> {
    merged.events.iter().filter_map(|event| match &event.change {
        Change::ToolAdded { tool, .. } | Change::ToolChanged { tool, .. } => Some(tool),
        Change::Discovered { .. }
        | Change::IdentityChanged { .. }
        | Change::ToolVanished { .. }
        | Change::ToolRejected { .. }
        | Change::Shadowing { .. }
        | Change::ToolApproved { .. }
        | Change::ItemAdded { .. }
        | Change::ItemChanged { .. }
        | Change::ItemVanished { .. }
        | Change::ItemRejected { .. }
        | Change::ItemApproved { .. }
        | Change::Further { .. }
        | Change::Disabled { .. }
        | Change::Enabled { .. }
        | Change::Classified { .. }
        | Change::InstructionsChanged { .. }
        | Change::InstructionsApproved { .. } => None,
    })
}

fn about_a_tool(merged: &Merged, tool: &ToolName, judgement: Judgement) -> ScreeningDecision {
    let subject = ScreeningSubject {
        receipt_id: None,
        principal: None,
        session: None,
        server_id: merged.stored.id.to_string(),
        tool_name: Some(tool.to_string()),
    };
    ScreeningDecision::about(subject, judgement)
}

/// A tool whose input schema cannot be used is quarantined, whatever its pin says: the log says so too.
fn tell_unusable_inputs(merged: &mut Merged) {
    let Merged { stored, events } = merged;
    let by_digest: HashMap<Digest, &[u8]> = stored.tools.iter().map(|tool| (tool.seen, &*tool.definition)).collect();
    for event in events {
        let (Change::ToolAdded { seen, standing, .. } | Change::ToolChanged { seen, standing, .. }) = &mut event.change
        else {
            continue;
        };
        let schema = by_digest.get(seen).and_then(|definition| {
            let span = mcp::server::member_span(definition, "inputSchema")?;
            definition.get(span)
        });
        let fault = match schema {
            Some(schema) => gateway::input_fault(schema),
            None => Some(DefinitionFault::BadInputSchema),
        };
        if let Some(fault) = fault {
            *standing = Standing::Quarantined(QuarantineCause::BadDefinition(fault));
        }
    }
}

/// A warning for each output schema that cannot be used: once for a tool and a schema, since a tool is added or changed
/// once, whatever is restarted meanwhile.
fn unusable_schemas(before: Option<&StoredServer>, merged: &Merged, mode: Mode) -> Vec<ScreeningDecision> {
    let mode = match mode {
        Mode::Off => return Vec::new(),
        Mode::Warn => ScreeningMode::Warn,
        Mode::Strict => ScreeningMode::Strict,
    };
    // Tools are stored in order of name.
    let schema_in = |server: &StoredServer, name: &ToolName| {
        let place = server.tools.partition_point(|tool| tool.name < *name);
        let tool = server.tools.get(place).filter(|tool| tool.name == *name)?;
        let span = mcp::server::member_span(&tool.definition, "outputSchema")?;
        Some(tool.definition.get(span)?.to_vec())
    };
    let warning = |tool: &ToolName| {
        let schema = schema_in(&merged.stored, tool)?;
        if before.and_then(|before| schema_in(before, tool)).as_ref() == Some(&schema) {
            return None;
        }
        match Declaration::compile(Some(&schema)) {
            Declaration::Nothing | Declaration::Schema(_) => None,
            Declaration::Uncompilable { hash, fault } => {
                let message =
                    format!("results of this tool are not validated, its output schema cannot be used: {fault}");
                let judgement = Judgement {
                    keyword: Some("uncompilable_schema".to_owned()),
                    schema_hash: Some(hash),
                    ..Judgement::new(ScreeningAct::Warning, ScreeningStage::Validation, mode, message)
                };
                Some(about_a_tool(merged, tool, judgement))
            }
        }
    };
    news(merged).filter_map(warning).collect()
}

/// What an inventory event says in the log.
pub(crate) fn note(event: &InventoryEvent, actor: &str) -> Note {
    let subject = match event.change.name() {
        Some(name) => format!("{}/{}", event.server, without_secrets(name)),
        None => event.server.to_string(),
    };
    let (action, message) = (event.change.action(), event.change.to_string());
    if let Change::IdentityChanged { .. } = event.change {
        // An address or a program's name is in the message.
        return Note::done(&action, actor, Some(&subject), &without_secrets(&message));
    }
    if let Change::Shadowing { .. } = event.change {
        // Another tool's name is in the message.
        return Note::refused(&action, actor, Some(&subject), &without_secrets(&message));
    }
    match matches!(event.change, Change::ToolRejected { .. } | Change::ItemRejected { .. }) {
        true => Note::refused(&action, actor, Some(&subject), &message),
        false => Note::done(&action, actor, Some(&subject), &message),
    }
}
