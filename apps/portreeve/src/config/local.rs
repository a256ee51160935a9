//! What the commands of this machine need of a configuration: where the state is, how its log is kept, and what is sound of
//! the rest. A typo in a policy, or a server that cannot start, keeps nobody from revoking a token.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ::policy::{EndBy, Rules};
use screening::risk::RiskRules;
use settings::{Fault, Faults, Section};
use vocabulary::{Risk, RiskFound, ServerId};

use super::raw::{RawConfig, Surroundings};
use super::{
    Anchors, Approvals, Audit, Config, FORMAT, Identity, Incident, Limits, Listen, Output, Policy, Profile, Sandbox,
    Server, State,
};

/// The parts of a configuration that commands need, as far as they are sound.
#[derive(Clone, Debug)]
pub struct Local {
    /// `[state]`
    pub state: State,
    /// `[audit]`; `None` where it has a fault: then nothing can be recorded without a running gateway.
    pub audit: Option<Audit>,
    /// `[listen]`, where it is sound.
    pub listen: Option<Listen>,
    /// The servers that are sound.
    pub servers: BTreeMap<ServerId, Server>,
    /// The policies; where one cannot be read, none is known and everything is denied.
    pub rules: Arc<Rules>,
    /// What says how dangerous tools are; `None` where it has a fault.
    pub risk: Option<Arc<RiskRules>>,
    /// `[approvals]`; the defaults where it has a fault.
    pub approvals: Approvals,
    /// `[incident]`; where it has a fault, two people end one.
    pub incident: Incident,
    /// `[limits]`, where it is sound.
    pub limits: Option<Limits>,
    /// The weakest walls that are used, where that is said.
    pub tier: Option<sandbox::Tier>,
    /// Whether agent tokens are accepted; `None` where `[identity]` has a fault.
    pub tokens_enabled: Option<bool>,
}

impl Local {
    /// Reads what is sound of a configuration, and says what is wrong with the rest, and what keeps servers from starting.
    ///
    /// # Errors
    /// When it does not tell where the state is.
    pub fn load(file: &Path) -> Result<(Self, Vec<Fault>), Faults> {
        let raw = RawConfig::read(file)?;
        let check = |root: Section<'_>| Self::check(root, &raw.surroundings);
        let (local, said) = FORMAT.read_what_is_sound(&raw.file, &raw.text, check);
        match (local, said) {
            (Some(local), Ok(remarks)) => Ok((local, remarks.obstacles)),
            (Some(local), Err(faults)) => Ok((local, faults.as_slice().to_vec())),
            (None, Err(faults)) => Err(faults),
            (None, Ok(_)) => Err(FORMAT.refuse(Fault::of_file(file, "does not say where the state is", None))),
        }
    }

    /// What rules find in a tool's name and in what it says of itself; the worst, where the rules have a fault.
    pub(crate) fn risk_of(&self, name: &str, description: &str) -> Option<RiskFound> {
        match &self.risk {
            Some(rules) => rules.of_tool(name, description),
            None => Some(RiskFound {
                risk: Risk::Critical,
                rule: "unreadable".into(),
            }),
        }
    }

    fn check(mut root: Section<'_>, around: &Surroundings) -> Option<Self> {
        // Of a text that is no TOML nobody knows what it would have said: the default is not where the state is.
        let is_broken = root.notes().has_faults();
        // Commands work whatever an installation is for.
        let _ = Profile::check(&mut root, around);
        let listen = Listen::check(root.section("listen"), around);
        let state = root.section("state");
        if is_broken && !state.has("dir") {
            return None;
        }
        let state = State::check(state, around);
        let audit = Audit::check(root.section("audit"), state.as_ref(), around);
        let identity = Identity::check(root.section("identity"), listen.as_ref(), around);
        let anchors = Anchors::check(root.section("trust"), around);
        let servers = super::servers::check(&mut root, (state.as_ref(), anchors.as_ref()), around);
        let sandbox = Sandbox::check(root.section("sandbox"));
        let policy = Policy::check(root.section("policy"), around);
        let approvals = Approvals::check(root.section("approvals"), around);
        let incident = Incident::check(root.section("incident"));
        let limits = Limits::check(root.section("limits"));
        // Looked at for its faults alone.
        let _ = Output::check(&mut root, around);
        let risk = super::risk::check(root.section("risk"), &servers, around);
        root.finish();
        Some(Self {
            risk,
            state: state?,
            audit,
            listen,
            servers,
            rules: policy.map(|policy| policy.rules).unwrap_or_default(),
            approvals: approvals.unwrap_or_default(),
            incident: incident.unwrap_or(Incident {
                end_by: EndBy::TwoPeople,
            }),
            limits,
            tier: sandbox.and_then(|sandbox| sandbox.tier),
            tokens_enabled: identity.map(|identity| identity.tokens_enabled),
        })
    }
}

impl From<&Config> for Local {
    fn from(config: &Config) -> Self {
        Self {
            risk: Some(config.risk.clone()),
            state: config.state.clone(),
            audit: Some(config.audit.clone()),
            listen: Some(config.listen.clone()),
            servers: config.servers.clone(),
            rules: config.policy.rules.clone(),
            approvals: config.approvals.clone(),
            incident: config.incident.clone(),
            limits: Some(config.limits.clone()),
            tier: config.sandbox.tier,
            tokens_enabled: Some(config.identity.tokens_enabled),
        }
    }
}
