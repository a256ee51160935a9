//! What the operator allows.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use vocabulary::{ReasonCode, ToolId};

use super::key::{Class, PerSet};
use super::window::Window;

/// What the operator allows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LimitRules {
    /// Calls in a time; all of them apply.
    pub rate: Vec<Rule>,
    /// The same, kept across restarts.
    pub quota: Vec<Rule>,
    /// Calls at once by one principal; 0 allows none.
    pub per_principal: usize,
    /// Calls at once on one server; 0 allows none.
    pub per_server: usize,
    /// What holds for single tools beside all that.
    pub tools: BTreeMap<ToolId, ToolLimits>,
}

/// What holds for one tool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ToolLimits {
    /// Calls of it in a time.
    pub rate: Vec<Rule>,
    /// The same, kept across restarts.
    pub quota: Vec<Rule>,
    /// Calls of it at once.
    pub concurrency: Option<usize>,
    /// How long a call of it may take, instead of what its server may.
    pub timeout: Option<Duration>,
}

/// So many calls in so long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// What is counted apart.
    pub per: PerSet,
    /// How many calls.
    pub calls: NonZeroU32,
    /// In how long.
    pub window: Window,
    /// Which requests count.
    pub methods: Methods,
}

vocabulary::words! {
    /// Which requests a rule counts.
    #[derive(Default)]
    pub enum Methods {
        /// Those that do something.
        #[default]
        Calls = "calls",
        /// Those that ask what there is.
        Lists = "lists",
        /// Both.
        All = "all",
    }
}

impl Methods {
    /// Whether requests of this class count.
    #[must_use]
    pub fn include(self, class: Class) -> bool {
        match self {
            Self::Calls => class == Class::Call,
            Self::Lists => class == Class::List,
            Self::All => true,
        }
    }
}

vocabulary::words! {
    /// Whether counts outlive a run.
    pub enum Kind {
        /// They do not.
        Rate = "rate",
        /// They do.
        Quota = "quota",
    }
}

impl Kind {
    pub(super) fn code(self) -> ReasonCode {
        match self {
            Self::Rate => ReasonCode::DenyRateLimit,
            Self::Quota => ReasonCode::DenyQuota,
        }
    }
}

/// What makes two rules the same, whatever they allow: their counts go on. Displays as the name that counts are kept under.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Spec {
    pub(super) kind: Kind,
    pub(super) per: PerSet,
    pub(super) window: Window,
    pub(super) methods: Methods,
    pub(super) only: Option<ToolId>,
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            per, window, methods, ..
        } = self;
        write!(f, "{per} {window} {methods}")?;
        self.only.iter().try_for_each(|tool| write!(f, " {tool}"))
    }
}
