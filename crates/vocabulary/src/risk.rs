//! How dangerous a tool is and how far its server is trusted.

use std::fmt;

/// The risk of calling a tool, lowest first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Risk {
    /// Reads something harmless.
    Low,
    /// Changes something that can be undone.
    Medium,
    /// Changes something that cannot, or nobody has said.
    High,
    /// Can do lasting damage.
    Critical,
}

impl Risk {
    /// Every level, lowest first.
    pub const ALL: [Self; 4] = [Self::Low, Self::Medium, Self::High, Self::Critical];

    /// The name in configuration, policies and records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }

    /// Reads a level by its name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|risk| risk.as_str() == text)
    }

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

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How far the operator trusts a server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Trust {
    /// The operator's own.
    Internal,
    /// Somebody else's, looked at.
    Verified,
    /// Somebody else's, not looked at.
    Community,
    /// Nobody has said.
    Unknown,
}

impl Trust {
    /// Every level, most trusted first.
    pub const ALL: [Self; 4] = [Self::Internal, Self::Verified, Self::Community, Self::Unknown];

    /// The name in configuration, policies and records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Internal => "internal",
            Self::Verified => "verified",
            Self::Community => "community",
            Self::Unknown => "unknown",
        }
    }

    /// Reads a level by its name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|trust| trust.as_str() == text)
    }
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
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

#[cfg(test)]
mod tests {
    use super::*;

    // R100
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
