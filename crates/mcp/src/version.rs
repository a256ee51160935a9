//! Protocol versions, the two eras they fall into, and which one a request gets.

use vocabulary::Era;

vocabulary::words! {
    /// A protocol version we speak.
    #[derive(PartialOrd, Ord)]
    pub enum Version {
        /// 2024-11-05: taken from servers, never offered to clients.
        November2024 = "2024-11-05",
        /// 2025-03-26: the only one with batches.
        March2025 = "2025-03-26",
        /// 2025-06-18
        June2025 = "2025-06-18",
        /// 2025-11-25
        November2025 = "2025-11-25",
        /// 2026-07-28: stateless.
        July2026 = "2026-07-28",
    }
}

impl Version {
    /// What we offer where sessions are wanted.
    pub const LATEST: Self = Self::November2025;

    /// What we offer where they are not.
    pub const MODERN: Self = Self::July2026;

    /// The family it belongs to.
    #[must_use]
    pub fn era(self) -> Era {
        match self {
            Self::November2024 | Self::March2025 | Self::June2025 | Self::November2025 => Era::Legacy,
            Self::July2026 => Era::Modern,
        }
    }

    /// The version for an `initialize` that asks for `requested`: that one, or our latest with sessions.
    #[must_use]
    pub fn negotiate(requested: &str) -> Self {
        Self::parse(requested)
            .filter(|version| version.era() == Era::Legacy && *version >= Self::March2025)
            .unwrap_or(Self::LATEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_we_lack_is_answered_with_our_latest() {
        assert_eq!(Version::negotiate("2025-03-26"), Version::March2025);
        assert_eq!(Version::negotiate("2025-06-18"), Version::June2025);
        for other in ["2024-11-05", "2026-07-28", "1999-01-01", ""] {
            assert_eq!(Version::negotiate(other), Version::November2025, "{other}");
        }
    }
}
