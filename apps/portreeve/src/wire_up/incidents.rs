//! Incidents: started by people, by a signal or by a file, kept, put in force at once, and ended by people or by their time.
//! What is started denies before anything else is done about it; what is ended denies until that is on record.
//! ADR 0142: what an incident takes away.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use control::ports::{EndOfIncident, IncidentsPort, Later, NewIncident, NotEnded, NotStarted, PortError, Recorder};
use gateway::Gateway;
use ledger::{Event, IncidentAction, IncidentMark, IncidentStep, LedgerDown};
use policy::{EndBy, Incident, IncidentEnd, IncidentScope, IncidentStage, Incidents};
use store::Store;
use tokio::signal::unix::{SignalKind, signal};
use vocabulary::{Clock, Timestamp, lock, random_hex};

/// See the module. Clones share everything.
#[derive(Clone)]
pub(crate) struct IncidentDesk(Arc<Inner>);

struct Inner {
    store: Arc<Store>,
    recorder: Arc<dyn Recorder>,
    clock: Clock,
    end_by: Mutex<EndBy>,
    on: Mutex<Arc<Incidents>>,
    gateway: OnceLock<Weak<Gateway>>,
    on_start: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Held by whoever changes them.
    turn: tokio::sync::Mutex<()>,
}

/// The file in the state directory that starts one.
pub(crate) const INCIDENT_FILE: &str = "INCIDENT";
/// How often somebody looks for it, and for what is over.
const LOOK: Duration = Duration::from_millis(100);
/// Of its text so much is the reason.
const LONGEST_REASON: usize = 500;
const BY_ITSELF: &str = "system";

impl IncidentDesk {
    /// The incidents of a state directory, as they were kept.
    pub(crate) fn open(
        store: Arc<Store>,
        recorder: Arc<dyn Recorder>,
        (clock, end_by): (Clock, EndBy),
    ) -> anyhow::Result<Self> {
        let kept = match store.incidents()? {
            None => Incidents::default(),
            Some(document) => Incidents::from_document(&document).ok_or_else(|| {
                anyhow::anyhow!(
                    "what is kept of incidents in `state.db` cannot be read, so nobody knows what may be done"
                )
            })?,
        };
        Ok(Self(Arc::new(Inner {
            store,
            recorder,
            clock,
            end_by: Mutex::new(end_by),
            on: Mutex::new(Arc::new(kept)),
            gateway: OnceLock::new(),
            on_start: OnceLock::new(),
            turn: tokio::sync::Mutex::default(),
        })))
    }

    /// Puts what is on in force in a gateway, from now on and whenever it changes.
    pub(crate) fn rule(&self, gateway: &Arc<Gateway>) {
        let _ = self.0.gateway.set(Arc::downgrade(gateway));
        self.publish(&self.now());
    }

    /// How many people end one, from now on.
    pub(crate) fn follow(&self, end_by: EndBy) {
        *lock(&self.0.end_by) = end_by;
    }

    /// Told whenever one was started.
    pub(crate) fn on_start(&self, told: impl Fn() + Send + Sync + 'static) {
        let _ = self.0.on_start.set(Box::new(told));
    }

    /// Whether an approval is older than an incident that is about the same: what was thought then does not hold now.
    pub(crate) fn voids(&self, approval: &policy::Approval) -> bool {
        let on = self.now();
        on.all
            .iter()
            .any(|one| one.started >= approval.created && one.covers_plan(&approval.plan))
    }

    /// What is on.
    pub(crate) fn now(&self) -> Arc<Incidents> {
        lock(&self.0.on).clone()
    }

    fn publish(&self, incidents: &Arc<Incidents>) {
        *lock(&self.0.on) = incidents.clone();
        if let Some(gateway) = self.0.gateway.get().and_then(Weak::upgrade) {
            gateway.set_incidents(incidents.clone());
        }
    }

    async fn keep(&self, incidents: &Incidents) -> Result<(), PortError> {
        let (inner, document) = (self.0.clone(), incidents.to_document());
        let kept = tokio::task::spawn_blocking(move || inner.store.keep_incidents(&document)).await;
        kept.map_err(PortError::new)?.map_err(PortError::new)
    }

    async fn record(
        &self,
        incident: &Incident,
        (action, actor): (IncidentAction, &str),
        then: &Incidents,
    ) -> Result<(), LedgerDown> {
        let step = IncidentStep {
            action,
            actor: actor.to_owned(),
            id: incident.id.clone(),
            stage: incident.stage.as_str(),
            scope: incident.scope.to_string(),
            reason: incident.reason.clone(),
            started: incident.started,
            expires: incident.expires,
            then: then.worst().map(mark),
        };
        self.0.recorder.record(Event::Incident(Box::new(step))).await
    }

    /// Says in the log which incidents go on, before anything else is recorded.
    pub(crate) async fn note_start(&self) -> anyhow::Result<()> {
        let on = self.now();
        for incident in &on.all {
            self.record(incident, (IncidentAction::Continued, BY_ITSELF), &on)
                .await?;
        }
        Ok(())
    }

    async fn start_now(&self, wanted: NewIncident) -> Result<Result<Incident, NotStarted>, PortError> {
        let _turn = self.0.turn.lock().await;
        let random = random_hex(8).map_err(|_| PortError::new("no random bytes"))?;
        let now = self.0.clock.now();
        let incident = Incident {
            id: format!("inc_{random}"),
            stage: wanted.stage,
            scope: wanted.scope,
            reason: wanted.reason,
            started_by: wanted.by.clone(),
            started: now,
            expires: wanted.ttl.map(|ttl| now.plus(ttl)),
            end_wanted_by: None,
        };
        let next = Arc::new(self.now().with(incident.clone()));
        // First of all, whatever comes of the rest: from here on it is denied.
        self.publish(&next);
        if let Some(told) = self.0.on_start.get() {
            told();
        }
        let recorded = self
            .record(&incident, (IncidentAction::Started, &wanted.by), &next)
            .await;
        let kept = self.keep(&next).await;
        tracing::warn!(id = incident.id, stage = incident.stage.as_str(), scope = %incident.scope, "an incident is on");
        Ok(match (kept, recorded) {
            (Ok(()), Ok(())) => Ok(incident),
            (Err(fault), _) => {
                tracing::error!(
                    error = &fault as &dyn std::error::Error,
                    "an incident is on and could not be kept"
                );
                Err(NotStarted::OnAndNotKept(incident))
            }
            (Ok(()), Err(down)) => {
                tracing::error!(
                    error = &down as &dyn std::error::Error,
                    "an incident is on and could not be recorded"
                );
                Err(NotStarted::OnAndNotRecorded(incident))
            }
        })
    }

    async fn end_now(&self, id: &str, by: &str) -> Result<Result<EndOfIncident, NotEnded>, PortError> {
        let _turn = self.0.turn.lock().await;
        let people = *lock(&self.0.end_by);
        let (next, ended) = match self.now().ended(id, by, people) {
            Ok(ended) => ended,
            Err(fault) => return Ok(Err(NotEnded::Fault(fault))),
        };
        let (action, incident, end) = match ended {
            IncidentEnd::Over(incident) => (IncidentAction::Ended, incident.clone(), EndOfIncident::Over(incident)),
            IncidentEnd::Half(incident) => (
                IncidentAction::EndWanted,
                incident.clone(),
                EndOfIncident::Half(incident),
            ),
        };
        if let Err(down) = self.record(&incident, (action, by), &next).await {
            return Ok(Err(NotEnded::Unrecorded(down)));
        }
        self.keep(&next).await?;
        self.publish(&Arc::new(next));
        Ok(Ok(end))
    }

    /// Ends those whose time is over.
    async fn expire(&self) -> anyhow::Result<()> {
        let now = self.0.clock.now();
        if self.now().all.iter().all(|one| one.is_active(now)) {
            return Ok(());
        }
        let _turn = self.0.turn.lock().await;
        let on = self.now();
        for over in on.all.iter().filter(|one| !one.is_active(now)) {
            let next = self.now().without(&over.id);
            self.record(over, (IncidentAction::Expired, BY_ITSELF), &next).await?;
            self.keep(&next).await?;
            self.publish(&Arc::new(next));
        }
        Ok(())
    }

    /// Takes what the file says; it is removed once an incident is on.
    async fn take_file(&self, file: &std::path::Path) -> anyhow::Result<()> {
        let path = file.to_owned();
        let Ok(text) = tokio::task::spawn_blocking(move || std::fs::read(path)).await? else {
            return Ok(());
        };
        let text = String::from_utf8_lossy(&text);
        self.start_by_itself(&format!("the file {INCIDENT_FILE}"), &text)
            .await?;
        let path = file.to_owned();
        Ok(tokio::task::spawn_blocking(move || std::fs::remove_file(path)).await??)
    }

    /// `contain` for all, unless just that is on already.
    async fn start_by_itself(&self, by: &str, reason: &str) -> Result<(), PortError> {
        let reason: String = reason
            .chars()
            .filter(|sign| !sign.is_control())
            .take(LONGEST_REASON)
            .collect();
        let reason = match reason.trim() {
            "" => format!("started by {by}"),
            said => said.to_owned(),
        };
        let is_this = |one: &Incident| (one.stage, &one.scope) == (IncidentStage::Contain, &IncidentScope::All);
        if self.now().all.iter().any(|one| is_this(one) && one.expires.is_none()) {
            return Ok(());
        }
        let wanted = NewIncident {
            stage: IncidentStage::Contain,
            scope: IncidentScope::All,
            reason,
            ttl: None,
            by: BY_ITSELF.to_owned(),
        };
        // Whatever could not be kept or recorded is said in the log of the program; it is on.
        self.start_now(wanted).await.map(drop)
    }

    /// Looks for the file and the signal, and for what is over, for as long as there is a gateway.
    pub(crate) fn keep_looking(&self, state: PathBuf) {
        let desk = self.clone();
        tokio::spawn(async move {
            let file = state.join(INCIDENT_FILE);
            let mut usr2 = signal(SignalKind::user_defined2()).ok();
            loop {
                let looked = tokio::select! {
                    Some(()) = async { usr2.as_mut()?.recv().await } => {
                        desk.start_by_itself("SIGUSR2", "").await.map_err(anyhow::Error::new)
                    }
                    () = tokio::time::sleep(LOOK) => match desk.take_file(&file).await {
                        Ok(()) => desk.expire().await,
                        failed => failed,
                    },
                };
                if let Err(error) = looked {
                    tracing::error!(error = format!("{error:#}"), "incidents could not be looked after");
                }
            }
        });
    }
}

fn mark(incident: &Incident) -> IncidentMark {
    IncidentMark {
        id: incident.id.as_str().into(),
        stage: incident.stage.as_str(),
    }
}

impl IncidentsPort for IncidentDesk {
    fn status(&self) -> Vec<Incident> {
        let now: Timestamp = self.0.clock.now();
        // Where a gateway runs, one whose time is over denies until it was taken out.
        let counts = |one: &&Incident| self.0.gateway.get().is_some() || one.is_active(now);
        self.now().all.iter().filter(counts).cloned().collect()
    }

    fn start(&self, wanted: NewIncident) -> Later<'_, Result<Result<Incident, NotStarted>, PortError>> {
        let desk = self.clone();
        Box::pin(async move {
            let started = tokio::spawn(async move { desk.start_now(wanted).await }).await;
            started.unwrap_or_else(|broken| Err(PortError::new(broken)))
        })
    }

    fn end(&self, id: &str, by: &str) -> Later<'_, Result<Result<EndOfIncident, NotEnded>, PortError>> {
        let (desk, id, by) = (self.clone(), id.to_owned(), by.to_owned());
        Box::pin(async move {
            let ended = tokio::spawn(async move { desk.end_now(&id, &by).await }).await;
            ended.unwrap_or_else(|broken| Err(PortError::new(broken)))
        })
    }
}
