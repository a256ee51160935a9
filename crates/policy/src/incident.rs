//! Incidents: how much is still allowed, to whom and of what, while something is wrong. A small document that says it all; what
//! is in it is asked before any policy, and can only take away.
//! ADR 0142: what an incident takes away.

use serde_json::{Value, json};
use vocabulary::{Principal, Risk, ServerId, Timestamp, ToolId, ToolName};

vocabulary::words! {
    /// How much is still allowed; the later, the less.
    #[derive(PartialOrd, Ord)]
    pub enum IncidentStage {
        /// Everything that policies allow.
        Normal = "normal",
        /// What is of high and critical risk needs a person.
        Heightened = "heightened",
        /// Only what is of low risk.
        Contain = "contain",
        /// Nothing.
        Lockdown = "lockdown",
    }
}

/// What an incident is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IncidentScope {
    /// Everything.
    All,
    /// A server.
    Server(ServerId),
    /// A tool.
    Tool(ToolId),
    /// Whoever has this `sub`, whoever vouches for it.
    Principal(String),
    /// Whoever comes with this client.
    Client(String),
    /// Calls of this risk and above.
    Risk(Risk),
}

/// Why a scope was not understood.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "`scope` is `all`, `server:ID`, `tool:SERVER/NAME`, `principal:SUB`, `client:ID` or `risk:low|medium|high|critical`"
)]
pub struct NoSuchScope;

impl IncidentScope {
    /// Reads a scope as people write it.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(text: &str) -> Result<Self, NoSuchScope> {
        if text == "all" {
            return Ok(Self::All);
        }
        let is_name = |name: &str| !name.is_empty() && name.len() <= 512 && !name.chars().any(char::is_control);
        match text.split_once(':').ok_or(NoSuchScope)? {
            ("server", id) => ServerId::parse(id).map(Self::Server).map_err(|_| NoSuchScope),
            ("tool", id) => tool(id).map(Self::Tool).ok_or(NoSuchScope),
            ("principal", sub) if is_name(sub) => Ok(Self::Principal(sub.to_owned())),
            ("client", id) if is_name(id) => Ok(Self::Client(id.to_owned())),
            ("risk", word) => Risk::parse(word).map(Self::Risk).ok_or(NoSuchScope),
            _ => Err(NoSuchScope),
        }
    }

    /// Whether it covers a request. What is not known of a request is in scope: only a name that is another's is outside.
    fn covers(&self, subject: &Subject<'_>) -> bool {
        match self {
            Self::All => true,
            Self::Server(id) => subject.server.is_some_and(|server| server == id),
            Self::Tool(id) => subject.tool.is_some_and(|tool| tool == id),
            Self::Principal(sub) => subject.who.sub == *sub || subject.who.act.contains(sub),
            Self::Client(id) => subject.who.client_id.as_deref() == Some(id),
            Self::Risk(least) => subject.risk >= *least,
        }
    }
}

fn tool(id: &str) -> Option<ToolId> {
    let (server, name) = id.split_once('/')?;
    Some(ToolId {
        server: ServerId::parse(server).ok()?,
        name: ToolName::parse(name).ok()?,
    })
}

impl std::fmt::Display for IncidentScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Server(id) => write!(f, "server:{id}"),
            Self::Tool(id) => write!(f, "tool:{id}"),
            Self::Principal(sub) => write!(f, "principal:{sub}"),
            Self::Client(id) => write!(f, "client:{id}"),
            Self::Risk(risk) => write!(f, "risk:{risk}"),
        }
    }
}

/// Something that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Incident {
    /// Its name, `inc_…`.
    pub id: String,
    /// How much is still allowed.
    pub stage: IncidentStage,
    /// Of what.
    pub scope: IncidentScope,
    /// Why, in somebody's words.
    pub reason: String,
    /// Who started it.
    pub started_by: String,
    /// When.
    pub started: Timestamp,
    /// When it ends by itself.
    pub expires: Option<Timestamp>,
    /// Who wants it to end, where a second person has to say so too.
    pub end_wanted_by: Option<String>,
}

impl Incident {
    /// Whether it counts at this time.
    #[must_use]
    pub fn is_active(&self, now: Timestamp) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }

    /// Whether it is about what this plan is about.
    #[must_use]
    pub fn covers_plan(&self, plan: &crate::Plan) -> bool {
        match &self.scope {
            IncidentScope::All => true,
            IncidentScope::Server(id) => plan.server == *id,
            IncidentScope::Tool(id) => (&plan.server, &plan.tool) == (&id.server, &id.name),
            IncidentScope::Principal(sub) => plan.sub == *sub,
            IncidentScope::Client(id) => plan.client_id.as_deref() == Some(id),
            IncidentScope::Risk(least) => plan.risk >= *least,
        }
    }
}

/// A request, as far as incidents look at it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Who asks.
    pub who: &'a Principal,
    /// Which server it is about; `None` for lists over several.
    pub server: Option<&'a ServerId>,
    /// Which tool it calls.
    pub tool: Option<&'a ToolId>,
    /// How dangerous it is; what asks what there is, is of low risk.
    pub risk: Risk,
}

/// What incidents say of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IncidentStanding<'a> {
    /// Nothing.
    Clear,
    /// A person has to allow it, whatever the policies say.
    NeedsPerson(&'a Incident),
    /// It may not be made.
    Denied(&'a Incident),
}

/// Everything that is wrong at the moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Incidents {
    /// Grows with every change.
    pub version: u64,
    /// Those that were started and not ended.
    pub all: Vec<Incident>,
}

/// Why an incident was not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum IncidentEndFault {
    /// There is none of this name.
    #[error("there is no such incident")]
    Unknown,
    /// The same person has said so already.
    #[error("you said so already; a second person has to")]
    SamePerson,
}

/// Whether one person can end an incident.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndBy {
    /// One.
    OnePerson,
    /// Two different ones.
    TwoPeople,
}

/// What came of wanting an incident to end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IncidentEnd {
    /// It is over.
    Over(Incident),
    /// It goes on until a second person says so.
    Half(Incident),
}

impl Incidents {
    /// What they say of a request, by the table of stages: the strictest counts. One whose time is over counts until it was
    /// taken out.
    #[must_use]
    pub fn standing(&self, subject: &Subject<'_>) -> IncidentStanding<'_> {
        let in_scope = self.all.iter().filter(|one| one.scope.covers(subject));
        let mut found = IncidentStanding::Clear;
        for incident in in_scope {
            let says = match (incident.stage, subject.risk) {
                (IncidentStage::Normal, _)
                | (IncidentStage::Heightened, Risk::Low | Risk::Medium)
                | (IncidentStage::Contain, Risk::Low) => IncidentStanding::Clear,
                (IncidentStage::Heightened, Risk::High | Risk::Critical) => IncidentStanding::NeedsPerson(incident),
                (IncidentStage::Contain, Risk::Medium | Risk::High | Risk::Critical) | (IncidentStage::Lockdown, _) => {
                    IncidentStanding::Denied(incident)
                }
            };
            found = match (found, says) {
                (IncidentStanding::Denied(_), _) => found,
                (_, IncidentStanding::Clear) => found,
                (IncidentStanding::NeedsPerson(_), IncidentStanding::NeedsPerson(_)) => found,
                (IncidentStanding::Clear | IncidentStanding::NeedsPerson(_), says) => says,
            };
        }
        found
    }

    /// The one that records name: the strictest, and of several the first.
    #[must_use]
    pub fn worst(&self) -> Option<&Incident> {
        self.all.iter().fold(None, |worst: Option<&Incident>, one| match worst {
            Some(known) if known.stage >= one.stage => Some(known),
            Some(_) | None => Some(one),
        })
    }

    /// With another one.
    #[must_use]
    pub fn with(&self, incident: Incident) -> Self {
        let mut all = self.all.clone();
        all.push(incident);
        Self {
            version: self.version + 1,
            all,
        }
    }

    /// Without one that is over.
    #[must_use]
    pub fn without(&self, id: &str) -> Self {
        let all = self.all.iter().filter(|one| one.id != id).cloned().collect();
        Self {
            version: self.version + 1,
            all,
        }
    }

    /// Ends one, or notes that somebody wants it to.
    ///
    /// # Errors
    /// When there is none, or the same person asks twice.
    pub fn ended(&self, id: &str, by: &str, people: EndBy) -> Result<(Self, IncidentEnd), IncidentEndFault> {
        let known = self
            .all
            .iter()
            .find(|one| one.id == id)
            .ok_or(IncidentEndFault::Unknown)?;
        match (&known.end_wanted_by, people) {
            (None, EndBy::TwoPeople) => {
                let half = Incident {
                    end_wanted_by: Some(by.to_owned()),
                    ..known.clone()
                };
                let mut next = self.clone();
                next.version += 1;
                next.all
                    .iter_mut()
                    .filter(|one| one.id == id)
                    .for_each(|one| *one = half.clone());
                Ok((next, IncidentEnd::Half(half)))
            }
            (Some(first), EndBy::TwoPeople) if first.to_lowercase() == by.to_lowercase() => {
                Err(IncidentEndFault::SamePerson)
            }
            (Some(_), EndBy::TwoPeople) | (_, EndBy::OnePerson) => {
                Ok((self.without(id), IncidentEnd::Over(known.clone())))
            }
        }
    }

    /// The document that is kept.
    #[must_use]
    pub fn to_document(&self) -> String {
        let all: Vec<Value> = self.all.iter().map(document).collect();
        json!({ "version": self.version, "incidents": all }).to_string()
    }

    /// Reads what was kept; `None` where that is not what this program writes.
    #[must_use]
    pub fn from_document(text: &str) -> Option<Self> {
        let document: Value = serde_json::from_str(text).ok()?;
        let all = document.get("incidents")?.as_array()?.iter().map(read);
        Some(Self {
            version: document.get("version")?.as_u64()?,
            all: all.collect::<Option<_>>()?,
        })
    }
}

fn document(incident: &Incident) -> Value {
    json!({
        "id": incident.id,
        "stage": incident.stage.as_str(),
        "scope": incident.scope.to_string(),
        "reason": incident.reason,
        "started_by": incident.started_by,
        "started": incident.started.as_micros(),
        "expires": incident.expires.map(Timestamp::as_micros),
        "end_wanted_by": incident.end_wanted_by,
    })
}

fn read(value: &Value) -> Option<Incident> {
    let text = |name: &str| value.get(name)?.as_str().map(str::to_owned);
    let (expires, end_wanted_by) = (value.get("expires")?, value.get("end_wanted_by")?);
    let expires = match expires.is_null() {
        true => None,
        false => Some(Timestamp::from_micros(expires.as_i64()?)),
    };
    let end_wanted_by = match end_wanted_by.is_null() {
        true => None,
        false => Some(end_wanted_by.as_str()?.to_owned()),
    };
    Some(Incident {
        id: text("id")?,
        stage: IncidentStage::parse(&text("stage")?)?,
        scope: IncidentScope::parse(&text("scope")?).ok()?,
        reason: text("reason")?,
        started_by: text("started_by")?,
        started: Timestamp::from_micros(value.get("started")?.as_i64()?),
        expires,
        end_wanted_by,
    })
}

#[cfg(test)]
mod tests;
