//! How dangerous a tool is and how far its server is trusted.
//! ADR 0006: what a server's hints do to risk.

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

impl Risk {
    /// The risk of a tool: the operator's word if there is one; else `high`, which the server's
    /// own hints lower only where the operator trusts that server (`internal`, `verified`).
    #[must_use]
    pub fn of_tool(operator: Option<Self>, trust: Trust, hints: Hints) -> Self {
        match (operator, trust) {
            (Some(risk), _) => risk,
            (None, Trust::Internal | Trust::Verified) if hints.read_only == Some(true) => Self::Low,
            (None, Trust::Internal | Trust::Verified) if hints.destructive == Some(false) => Self::Medium,
            (None, Trust::Internal | Trust::Verified | Trust::Community | Trust::Unknown) => Self::High,
        }
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
                Risk::of_tool(operator, trust, hints),
                expected,
                "{operator:?} {trust:?} {hints:?}"
            );
        }
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
