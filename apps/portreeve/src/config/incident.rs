//! `[incident]`: how incidents end.

use ::policy::EndBy;
use settings::Section;

/// How incidents end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Incident {
    /// How many people it takes.
    pub end_by: EndBy,
}

impl Incident {
    pub(super) fn check(mut section: Section<'_>) -> Option<Self> {
        let end_by = section.read("two_person_end", |value| {
            Ok(match value.boolean()? {
                true => EndBy::TwoPeople,
                false => EndBy::OnePerson,
            })
        });
        section.finish();
        Some(Self { end_by: end_by? })
    }
}
