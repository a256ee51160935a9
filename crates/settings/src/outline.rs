//! Where every key of a file stands, for whoever judges the whole after its parts were read.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

use crate::fault::Complaint;
use crate::notes::Notes;
use crate::place::Place;

/// The places of all keys of a file, taken before any was read.
pub struct Outline<'a> {
    places: BTreeMap<String, usize>,
    notes: &'a Notes,
}

impl<'a> Outline<'a> {
    pub(crate) fn of(table: &DeTable<'_>, notes: &'a Notes) -> Self {
        let mut places = BTreeMap::new();
        walk(table, "", &mut places);
        Self { places, notes }
    }

    /// Notes a fault of the key with this dotted path; where it is not written, at the table it belongs to.
    pub fn fault(&self, key: &str, complaint: Complaint) {
        let mut written = key;
        let at = loop {
            match (self.places.get(written), written.rsplit_once('.')) {
                (Some(at), _) => break *at,
                (None, Some((table, _))) => written = table,
                (None, None) => break 0,
            }
        };
        let place = Place {
            path: key.to_owned(),
            pattern: key.to_owned(),
            at,
        };
        self.notes.fault(&place, complaint);
    }
}

fn walk(table: &DeTable<'_>, below: &str, places: &mut BTreeMap<String, usize>) {
    for (name, value) in table {
        let path = match below {
            "" => name.get_ref().to_string(),
            _ => format!("{below}.{}", name.get_ref()),
        };
        if let DeValue::Table(inner) = value.get_ref() {
            walk(inner, &path, places);
        }
        places.insert(path, name.span().start.min(value.span().start));
    }
}
