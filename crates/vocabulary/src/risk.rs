//! How dangerous a tool is and how far its server is trusted.
//! ADR 0006: what a server's hints do to risk. ADR 0072: what raises a risk, and who may lower it.

use std::sync::Arc;

crate::words! {
    /// The risk of calling a tool, lowest first.
    #[derive(PartialOrd, Ord)]
    pub enum Risk {
        /// Reads something harmless.
        Low = "low",
        /// Changes something that can be undone.
        Medium = "medium",
        /// Changes something that cannot, or nobody has said.
        High = "high",
        /// Can do lasting damage.
        Critical = "critical",
    }
}

crate::words! {
    /// Where a risk comes from.
    pub enum RiskSource {
        /// The operator said so.
        Operator = "operator",
        /// The server's own hints say so.
        Hint = "hint",
        /// A rule found it in the tool's name or in what it says of itself.
        Pattern = "pattern",
        /// Nobody has said.
        Default = "default",
    }
}

/// What a rule on risk found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RiskFound {
    /// How dangerous it is.
    pub risk: Risk,
    /// The rule's id.
    pub rule: Arc<str>,
}

/// How dangerous a tool is, and by whose word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Classified {
    /// How dangerous.
    pub risk: Risk,
    /// By whose word.
    pub source: RiskSource,
}

impl Classified {
    /// The risk of a tool: the operator's word if there is one, but what a rule calls critical stays critical; else what the
    /// server's hints and the rules say, whichever is worse.
    #[must_use]
    pub fn of_tool(operator: Option<Risk>, trust: Trust, hints: Hints, found: Option<Risk>) -> Self {
        let by_pattern = |risk| Self {
            risk,
            source: RiskSource::Pattern,
        };
        match (operator, found) {
            (_, Some(Risk::Critical)) if operator < Some(Risk::Critical) => by_pattern(Risk::Critical),
            (Some(risk), _) => Self {
                risk,
                source: RiskSource::Operator,
            },
            (None, found) => {
                let hinted = Self::by_hints(trust, hints);
                found.filter(|risk| *risk > hinted.risk).map_or(hinted, by_pattern)
            }
        }
    }

    /// `high`, which a server's own hints lower only where the operator trusts that server (`internal`, `verified`). Of hints
    /// that contradict each other the worse one counts.
    fn by_hints(trust: Trust, hints: Hints) -> Self {
        let is_trusted = match trust {
            Trust::Internal | Trust::Verified => true,
            Trust::Community | Trust::Unknown => false,
        };
        let reaches_out = hints.open_world == Some(true) && hints.read_only != Some(true);
        let (risk, source) = match hints {
            Hints {
                destructive: Some(true),
                ..
            } => (Risk::High, RiskSource::Hint),
            _ if reaches_out => (Risk::High, RiskSource::Hint),
            Hints {
                read_only: Some(true), ..
            } if is_trusted => (Risk::Low, RiskSource::Hint),
            Hints {
                destructive: Some(false),
                ..
            } if is_trusted => (Risk::Medium, RiskSource::Hint),
            Hints { .. } => (Risk::High, RiskSource::Default),
        };
        Self { risk, source }
    }
}

crate::words! {
    /// How far the operator trusts a server.
    pub enum Trust {
        /// The operator's own.
        Internal = "internal",
        /// Somebody else's, looked at.
        Verified = "verified",
        /// Somebody else's, not looked at.
        Community = "community",
        /// Nobody has said.
        Unknown = "unknown",
    }
}

/// What a server says of its own tool (`annotations`); `None` where it says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Hints {
    /// `readOnlyHint`
    pub read_only: Option<bool>,
    /// `destructiveHint`
    pub destructive: Option<bool>,
    /// `idempotentHint`
    pub idempotent: Option<bool>,
    /// `openWorldHint`
    pub open_world: Option<bool>,
}

impl Hints {
    /// What both say.
    #[must_use]
    pub fn agreed(self, other: Self) -> Self {
        let both = |one: Option<bool>, other| one.filter(|_| one == other);
        Self {
            read_only: both(self.read_only, other.read_only),
            destructive: both(self.destructive, other.destructive),
            idempotent: both(self.idempotent, other.idempotent),
            open_world: both(self.open_world, other.open_world),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_lower_risk_only_for_trusted_servers_and_the_operator_wins() {
        let read_only = Hints {
            read_only: Some(true),
            ..Hints::default()
        };
        let careful = Hints {
            destructive: Some(false),
            ..Hints::default()
        };
        for (operator, trust, hints, expected) in [
            (None, Trust::Unknown, read_only, Risk::High),
            (None, Trust::Community, read_only, Risk::High),
            (None, Trust::Verified, read_only, Risk::Low),
            (None, Trust::Internal, careful, Risk::Medium),
            (None, Trust::Internal, Hints::default(), Risk::High),
            (Some(Risk::Medium), Trust::Unknown, read_only, Risk::Medium),
            (Some(Risk::Critical), Trust::Internal, read_only, Risk::Critical),
        ] {
            assert_eq!(
                Classified::of_tool(operator, trust, hints, None).risk,
                expected,
                "{operator:?} {trust:?} {hints:?}"
            );
        }
    }

    #[test]
    fn hints_that_raise_count_and_of_contradictory_ones_the_worse() {
        let says = |read_only, destructive, open_world| Hints {
            read_only,
            destructive,
            open_world,
            idempotent: None,
        };
        for (hints, expected) in [
            (says(Some(true), Some(true), None), Risk::High),
            (says(Some(true), None, Some(true)), Risk::Low),
            (says(None, Some(false), Some(true)), Risk::High),
            (says(Some(false), Some(false), Some(true)), Risk::High),
            (says(Some(false), Some(false), Some(false)), Risk::Medium),
        ] {
            let classified = Classified::of_tool(None, Trust::Internal, hints, None);
            assert_eq!(
                (classified.risk, classified.source),
                (expected, RiskSource::Hint),
                "{hints:?}"
            );
        }
    }

    #[test]
    fn what_a_rule_calls_critical_nobody_lowers_and_what_it_calls_high_the_operator_alone() {
        let read_only = Hints {
            read_only: Some(true),
            ..Hints::default()
        };
        let classified = |operator, found| Classified::of_tool(operator, Trust::Internal, read_only, Some(found));
        for operator in [None, Some(Risk::Low), Some(Risk::Medium), Some(Risk::High)] {
            let critical = classified(operator, Risk::Critical);
            assert_eq!(
                (critical.risk, critical.source),
                (Risk::Critical, RiskSource::Pattern),
                "{operator:?}"
            );
        }
        assert_eq!(classified(None, Risk::High).risk, Risk::High);
        assert_eq!(classified(Some(Risk::Low), Risk::High).risk, Risk::Low);
        assert_eq!(classified(None, Risk::Medium).source, RiskSource::Pattern);
        assert_eq!(
            classified(Some(Risk::Critical), Risk::Critical).source,
            RiskSource::Operator
        );
    }

    #[test]
    fn names_read_back() {
        assert!(
            Risk::ALL
                .into_iter()
                .all(|risk| Risk::parse(risk.as_str()) == Some(risk))
        );
        assert!(
            Trust::ALL
                .into_iter()
                .all(|trust| Trust::parse(trust.as_str()) == Some(trust))
        );
        assert_eq!(Risk::parse("LOW"), None);
        assert!(Risk::Low < Risk::Medium && Risk::High < Risk::Critical);
    }
}
