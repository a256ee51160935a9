//! How a server sees a client: the family of versions it is spoken to in, and what it is told that it may ask. Servers of
//! both families, and servers that look at what a client can, show different tools to different clients.
//! ADR 0055: the era follows the client, and definitions have faces.

use std::fmt;

crate::words! {
    /// A family of protocol versions.
    #[derive(PartialOrd, Ord)]
    pub enum Era {
        /// With `initialize` and sessions: up to 2025-11-25.
        Legacy = "legacy",
        /// Stateless, every request says all that is needed to answer it: 2026-07-28 and later.
        Modern = "modern",
    }
}

crate::words! {
    /// Something that a server may ask of a client, and that the gateway relays.
    #[derive(PartialOrd, Ord)]
    pub enum Capability {
        /// To let a person fill in a form, or open a page.
        Elicitation = "elicitation",
        /// To let a person open a page.
        UrlElicitation = "elicitation.url",
        /// For a completion of its model.
        Sampling = "sampling",
        /// For the directories it works in.
        Roots = "roots",
        /// To wait for a task (modern era).
        Tasks = "tasks",
    }
}

impl Capability {
    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of capabilities.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct CapabilitySet(u8);

impl CapabilitySet {
    /// None of them.
    pub const NONE: Self = Self(0);

    /// Those that a client of this era can have.
    #[must_use]
    pub fn all_of(era: Era) -> Self {
        let within = |capability: &Capability| match era {
            Era::Legacy => *capability != Capability::Tasks,
            Era::Modern => true,
        };
        Capability::ALL.into_iter().filter(within).collect()
    }

    /// Whether it holds this one.
    #[must_use]
    pub fn has(self, capability: Capability) -> bool {
        self.0 & capability.bit() != 0
    }

    /// Whether it holds all of `other`.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The same without one, and without what there is only with it.
    #[must_use]
    pub fn without(self, capability: Capability) -> Self {
        let with_it = match capability {
            Capability::Elicitation => Capability::UrlElicitation.bit(),
            Capability::UrlElicitation | Capability::Sampling | Capability::Roots | Capability::Tasks => 0,
        };
        Self(self.0 & !capability.bit() & !with_it)
    }

    /// This one alone, with what it needs itself.
    #[must_use]
    pub fn only(capability: Capability) -> Self {
        match capability {
            Capability::UrlElicitation => Self(capability.bit() | Capability::Elicitation.bit()),
            Capability::Elicitation | Capability::Sampling | Capability::Roots | Capability::Tasks => {
                Self(capability.bit())
            }
        }
    }

    /// How many.
    #[must_use]
    pub fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Capability> {
        Capability::ALL
            .into_iter()
            .filter(move |capability| self.has(*capability))
    }

    /// From the number of [`CapabilitySet::as_number`]; `None` where it is no such number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        let known: Self = Capability::ALL.into_iter().collect();
        known.covers(Self(number)).then_some(Self(number))
    }

    /// As a number, to be stored.
    #[must_use]
    pub fn as_number(self) -> u8 {
        self.0
    }
}

impl FromIterator<Capability> for CapabilitySet {
    fn from_iter<I: IntoIterator<Item = Capability>>(capabilities: I) -> Self {
        Self(
            capabilities
                .into_iter()
                .fold(0, |set, capability| set | capability.bit()),
        )
    }
}

/// A client as a server sees it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Face {
    /// The family of versions.
    pub era: Era,
    /// What it can be asked.
    pub can: CapabilitySet,
}

impl Face {
    /// A client with sessions that can be asked nothing: what it is shown, everybody of its era is shown.
    pub const LEAST: Self = Self {
        era: Era::Legacy,
        can: CapabilitySet::NONE,
    };
}

/// To which clients a definition is shown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Audience {
    /// Only to clients of this era; `None` for both.
    pub era: Option<Era>,
    /// Only to clients that can be asked all of these.
    pub needs: CapabilitySet,
}

impl Audience {
    /// Everybody.
    pub const EVERYBODY: Self = Self {
        era: None,
        needs: CapabilitySet::NONE,
    };

    /// Whether a client belongs to it.
    #[must_use]
    pub fn includes(self, client: Face) -> bool {
        self.era.is_none_or(|era| era == client.era) && client.can.covers(self.needs)
    }
}

impl fmt::Display for Audience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.era {
            None => f.write_str("clients of both eras")?,
            Some(era) => write!(f, "clients of the {era} era")?,
        }
        for (place, capability) in self.needs.iter().enumerate() {
            let before = if place == 0 { " that offer " } else { " and " };
            write!(f, "{before}{capability}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_audience_is_those_of_its_era_who_can_all_that_it_needs() {
        let both: CapabilitySet = [Capability::Sampling, Capability::Roots].into_iter().collect();
        let audience = Audience {
            era: Some(Era::Legacy),
            needs: both,
        };
        let client = |era, can| Face { era, can };
        assert!(audience.includes(client(Era::Legacy, both)));
        assert!(audience.includes(client(Era::Legacy, CapabilitySet::all_of(Era::Legacy))));
        assert!(!audience.includes(client(Era::Modern, both)));
        assert!(!audience.includes(client(Era::Legacy, both.without(Capability::Roots))));
        assert!(Audience::EVERYBODY.includes(client(Era::Modern, CapabilitySet::NONE)));
        assert_eq!(
            audience.to_string(),
            "clients of the legacy era that offer sampling and roots"
        );
    }

    #[test]
    fn whoever_can_show_no_form_can_open_no_page() {
        let all = CapabilitySet::all_of(Era::Legacy);
        assert!(!all.without(Capability::Elicitation).has(Capability::UrlElicitation));
        assert!(all.without(Capability::UrlElicitation).has(Capability::Elicitation));
        assert!(CapabilitySet::only(Capability::UrlElicitation).has(Capability::Elicitation));
        assert_eq!(CapabilitySet::only(Capability::Sampling).len(), 1);
    }

    #[test]
    fn a_set_is_stored_as_a_number_and_an_unknown_number_is_none() {
        for era in Era::ALL {
            let set = CapabilitySet::all_of(era);
            assert_eq!(CapabilitySet::from_number(set.as_number()), Some(set));
        }
        assert_eq!(CapabilitySet::from_number(0x80), None);
        assert!(!CapabilitySet::all_of(Era::Legacy).has(Capability::Tasks));
        assert_eq!(CapabilitySet::all_of(Era::Modern).iter().count(), Capability::ALL.len());
    }
}
