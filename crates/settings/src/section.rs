//! Walks a table and keeps count: every key is taken once, what is left over is unknown, and whatever cannot be read is
//! noted with its line while the walk goes on.

use toml::de::DeTable;
use vocabulary::nearest;

use crate::entry::Entry;
use crate::fault::{Complaint, not_yet};
use crate::format::Format;
use crate::keys::Standing;
use crate::notes::Notes;
use crate::outline::Outline;
use crate::place::Place;

/// A table of the file, given or empty.
pub struct Section<'a> {
    place: Place,
    table: DeTable<'a>,
    notes: &'a Notes,
}

impl<'a> Section<'a> {
    pub(crate) fn root(table: DeTable<'a>, notes: &'a Notes) -> Self {
        Self::at(Place::root(), table, notes)
    }

    pub(crate) fn at(place: Place, table: DeTable<'a>, notes: &'a Notes) -> Self {
        Self { place, table, notes }
    }

    /// Reads the value of `name`, or its default from the table of keys; `None` if it has neither, or if it could not be
    /// read (then a fault is noted).
    pub fn read<T>(&mut self, name: &str, parse: impl FnOnce(&Entry<'a>) -> Result<T, Complaint>) -> Option<T> {
        let entry = self.entry(name)?;
        entry.accept(parse(&entry))
    }

    /// As [`Section::read`], but a missing key is a fault.
    pub fn require<T>(&mut self, name: &str, parse: impl FnOnce(&Entry<'a>) -> Result<T, Complaint>) -> Option<T> {
        if !self.has(name) {
            let complaint = Complaint::new("is missing");
            let pattern = self.place.key(name, 0).pattern;
            let complaint = match self.notes.format().standing(&pattern) {
                Some(Standing::Required(hint)) => complaint.hint(hint),
                Some(Standing::Default(..) | Standing::Derived(..) | Standing::Optional | Standing::Later(_))
                | None => complaint,
            };
            self.fault(name, complaint);
            return None;
        }
        self.read(name, parse)
    }

    /// Whether the file itself has `name`.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.table.contains_key(name)
    }

    /// The value of `name`, given or default.
    pub fn entry(&mut self, name: &str) -> Option<Entry<'a>> {
        let place = self.place_of(name);
        let value = match self.table.remove(name) {
            Some(spanned) => spanned.into_inner(),
            None => self.notes.format().default_of(&place.pattern)?,
        };
        Some(Entry::at(place, value, self.notes))
    }

    /// The table `name`; empty where it is missing, or where something else stands there (then a fault is noted).
    #[must_use]
    pub fn section(&mut self, name: &str) -> Self {
        let empty = Self::at(self.place.key(name, self.place.at), DeTable::default(), self.notes);
        self.entry(name).and_then(Entry::into_section).unwrap_or(empty)
    }

    /// The tables under `name` by the names the operator chose, in the order of the names.
    pub fn named_sections(&mut self, name: &str) -> Vec<(String, Self)> {
        let named = self.section(name).remaining().into_iter();
        named
            .filter_map(|(name, entry)| Some((name, entry.into_section()?)))
            .collect()
    }

    /// All that has not been taken, each under the operator's own name.
    pub fn remaining(&mut self) -> Vec<(String, Entry<'a>)> {
        let table = std::mem::take(&mut self.table).into_iter();
        let entries = table.map(|(name, value)| {
            let name = name.into_inner().into_owned();
            let place = self.place.named(&name, value.span().start);
            (name, Entry::at(place, value.into_inner(), self.notes))
        });
        entries.collect()
    }

    /// Notes a fault of the key `name`, at its place, or at the section's if it is missing.
    pub fn fault(&self, name: &str, complaint: Complaint) {
        self.notes.fault(&self.place_of(name), complaint);
    }

    /// Notes a fault of this table itself, such as its name.
    pub fn fault_here(&self, complaint: Complaint) {
        self.notes.fault(&self.place, complaint);
    }

    /// Notes that what this table describes does not work on this machine, now; what others describe does.
    pub fn obstacle_here(&self, complaint: Complaint) {
        self.notes.obstacle(&self.place, complaint);
    }

    /// Notes something worth a second look, at the key's place or at the section's.
    pub fn warn(&self, name: &str, complaint: Complaint) {
        self.notes.warn(&self.place_of(name), complaint);
    }

    /// The places of all keys that were not taken yet, for whoever judges the whole in the end.
    #[must_use]
    pub fn outline(&self) -> Outline<'a> {
        Outline::of(&self.table, self.notes)
    }

    /// Where faults are gathered.
    #[must_use]
    pub fn notes(&self) -> &'a Notes {
        self.notes
    }

    /// Ends the reading of a table: every key that nobody took is a fault.
    pub fn finish(self) {
        let format = self.notes.format();
        for (name, value) in &self.table {
            let place = self.place.key(name.as_ref(), name.span().start.min(value.span().start));
            let complaint = match format.standing(&place.pattern) {
                Some(Standing::Later(feature)) => not_yet(feature),
                Some(Standing::Default(..) | Standing::Derived(..) | Standing::Required(_) | Standing::Optional) => {
                    Complaint::new("does not apply here")
                }
                None => unknown(name.as_ref(), format, &self.place.pattern),
            };
            self.notes.fault(&place, complaint);
        }
    }

    fn place_of(&self, name: &str) -> Place {
        let written = self.table.get(name).map(|value| value.span().start);
        self.place.key(name, written.unwrap_or(self.place.at))
    }
}

fn unknown(name: &str, format: &Format, section: &str) -> Complaint {
    let complaint = Complaint::new("unknown key");
    let known = format.names_under(section);
    match nearest(name, known.iter().copied()) {
        Some(meant) => complaint.hint(format!("did you mean `{meant}`?")),
        None if known.is_empty() => complaint,
        None => complaint.hint(format!("known here: {}", known.join(", "))),
    }
}
