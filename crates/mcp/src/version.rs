//! Protocol versions and which of them a request asks for.

/// A protocol version we speak. Both have sessions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Version {
    /// 2025-06-18
    June2025,
    /// 2025-11-25
    November2025,
}

impl Version {
    /// Every version, oldest first.
    pub const ALL: [Self; 2] = [Self::June2025, Self::November2025];

    /// What we offer by ourselves.
    pub const LATEST: Self = Self::November2025;

    /// The version's date.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::June2025 => "2025-06-18",
            Self::November2025 => "2025-11-25",
        }
    }

    /// Recognises a version by its date.
    #[must_use]
    pub fn parse(date: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.as_str() == date)
    }

    /// The version for an `initialize` that asks for `requested`: that one, or our latest.
    #[must_use]
    pub fn negotiate(requested: &str) -> Self {
        Self::parse(requested).unwrap_or(Self::LATEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_we_lack_is_answered_with_our_latest() {
        assert_eq!(Version::negotiate("2025-06-18"), Version::June2025);
        assert_eq!(Version::negotiate("2024-11-05"), Version::November2025);
    }
}
