//! `[sandbox]`: what holds for all sandboxes.

use std::ops::RangeInclusive;

use sandbox::Tier;
use settings::{Complaint, Entry, Section};

/// What holds for all sandboxes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sandbox {
    /// The weakest walls that are used; none where what was found before decides.
    pub tier: Option<Tier>,
    /// Users that servers run under if the gateway is root; none where this machine has no such users.
    pub uids: Option<RangeInclusive<u32>>,
}

impl Sandbox {
    pub(super) fn check(mut section: Section<'_>) -> Option<Self> {
        let written = section.has("tier");
        let tier = section.read("tier", tier);
        let asked = section.has("uids");
        let uids = section.read("uids", range)?;
        let mapped = ["/proc/self/uid_map", "/proc/self/gid_map"].iter().all(|map| {
            let map = std::fs::read_to_string(map).unwrap_or_default();
            covers(&map, &uids)
        });
        if asked && !mapped {
            let complaint = Complaint::new("names users that this machine, or this container, does not have");
            section.fault(
                "uids",
                complaint.hint("name users that /proc/self/uid_map shows, or remove the line"),
            );
        }
        section.finish();
        Some(Self {
            tier: if written { Some(tier?) } else { None },
            uids: mapped.then_some(uids),
        })
    }
}

/// A tier, by its letter.
pub(super) fn tier(value: &Entry<'_>) -> Result<Tier, Complaint> {
    value.word(Tier::ALL, Tier::as_str)
}

fn range(value: &Entry<'_>) -> Result<RangeInclusive<u32>, Complaint> {
    let wrong = || Complaint::new("is no range of users").hint("write `FIRST-LAST`, such as `1900000000-1900065535`");
    let (first, last) = value.text()?.split_once('-').ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
    let range = number(first)?..=number(last)?;
    match range.is_empty() || *range.start() == 0 || *range.end() == u32::MAX {
        true => Err(wrong()),
        false => Ok(range),
    }
}

/// Whether a map of `/proc` has all of these users.
fn covers(map: &str, wanted: &RangeInclusive<u32>) -> bool {
    map.lines().any(|line| {
        let mut fields = line.split_ascii_whitespace().map(str::parse::<u64>);
        let (Some(Ok(first)), Some(Ok(_)), Some(Ok(count))) = (fields.next(), fields.next(), fields.next()) else {
            return false;
        };
        first <= u64::from(*wanted.start()) && u64::from(*wanted.end()) < first + count
    })
}

#[cfg(test)]
mod tests {
    use super::covers;

    #[test]
    fn users_are_there_if_one_line_has_all_of_them() {
        let whole = "         0          0 4294967295\n";
        let container = "         0     100000      65536\n     70000     200000       1000\n";
        for (map, range, there) in [
            (whole, 1_900_000_000..=1_900_065_535, true),
            (container, 1_900_000_000..=1_900_065_535, false),
            (container, 65_000..=65_535, true),
            (container, 65_000..=65_536, false),
            (container, 70_000..=70_999, true),
            ("", 1000..=1001, false),
        ] {
            assert_eq!(covers(map, &range), there, "{map} {range:?}");
        }
    }
}
