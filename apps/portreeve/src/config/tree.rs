//! Walks a TOML document and keeps count: every key is taken once, what is left over is unknown, and
//! whatever cannot be read is noted with its line while the walk goes on.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::fault::{Complaint, Notes, nearest, quoted};
use super::keys::{self, Standing};

/// A table of the document, given or empty.
pub(super) struct Section<'a> {
    path: String,
    pattern: String,
    span: Range<usize>,
    table: DeTable<'a>,
    notes: &'a Notes,
}

impl<'a> Section<'a> {
    pub(super) fn root(table: DeTable<'a>, notes: &'a Notes) -> Self {
        Self {
            path: String::new(),
            pattern: String::new(),
            span: 0..0,
            table,
            notes,
        }
    }

    /// Reads the value of `name`, or its default from the table of keys; `None` if it has neither, or if
    /// it could not be read (then a fault is noted).
    pub(super) fn read<T>(&mut self, name: &str, parse: impl FnOnce(&Entry<'a>) -> Result<T, Complaint>) -> Option<T> {
        let entry = self.entry(name)?;
        parse(&entry).map_or_else(|complaint| entry.fault(complaint), Some)
    }

    /// As [`Section::read`], but a missing key is a fault.
    pub(super) fn require<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&Entry<'a>) -> Result<T, Complaint>,
    ) -> Option<T> {
        if !self.has(name) {
            self.fault(name, Complaint::new("is missing"));
        }
        self.read(name, parse)
    }

    /// Whether the document itself has `name`.
    pub(super) fn has(&self, name: &str) -> bool {
        self.table.contains_key(name)
    }

    /// The value of `name`, given or default.
    pub(super) fn entry(&mut self, name: &str) -> Option<Entry<'a>> {
        let (path, pattern) = (join(&self.path, name), join(&self.pattern, name));
        let (span, value) = match self.table.remove(name) {
            Some(spanned) => (spanned.span(), spanned.into_inner()),
            None => (self.span.clone(), default_of(&pattern)?),
        };
        Some(Entry {
            path,
            pattern,
            span,
            value,
            notes: self.notes,
        })
    }

    /// The table `name`; empty where it is missing, or where something else stands there (then a fault
    /// is noted).
    pub(super) fn section(&mut self, name: &str) -> Section<'a> {
        let empty = || Section {
            path: join(&self.path, name),
            pattern: join(&self.pattern, name),
            span: self.span.clone(),
            table: DeTable::default(),
            notes: self.notes,
        };
        let empty = empty();
        match self.entry(name).map(Entry::into_section) {
            Some(Some(section)) => section,
            Some(None) | None => empty,
        }
    }

    /// The tables under `name` by the names the operator chose, in the order of the names.
    pub(super) fn named_sections(&mut self, name: &str) -> Vec<(String, Section<'a>)> {
        let mut parent = self.section(name);
        parent.pattern = join(&parent.pattern, "*");
        parent
            .remaining()
            .into_iter()
            .filter_map(|(name, entry)| Some((name, entry.into_section()?)))
            .collect()
    }

    /// All that has not been taken, each under the operator's own name.
    pub(super) fn remaining(&mut self) -> Vec<(String, Entry<'a>)> {
        let (path, pattern, notes) = (self.path.clone(), self.pattern.clone(), self.notes);
        let entry_of = |name: String, span, value| {
            let path = join(&path, &name);
            (
                name,
                Entry {
                    path,
                    pattern: pattern.clone(),
                    span,
                    value,
                    notes,
                },
            )
        };
        let table = std::mem::take(&mut self.table);
        table
            .into_iter()
            .map(|(name, value)| entry_of(name.into_inner().into_owned(), value.span(), value.into_inner()))
            .collect()
    }

    /// Notes a fault of the key `name`, at its place, or at the section's if it is missing.
    pub(super) fn fault(&self, name: &str, complaint: Complaint) {
        let span = self
            .table
            .get(name)
            .map_or_else(|| self.span.clone(), toml::Spanned::span);
        self.notes.fault(span.start, &join(&self.path, name), complaint);
    }

    /// Notes a fault of this table itself, such as its name.
    pub(super) fn fault_here(&self, complaint: Complaint) {
        self.notes.fault(self.span.start, &self.path, complaint);
    }

    /// Notes something worth a second look, at the key's place or at the section's.
    pub(super) fn warn(&self, name: &str, complaint: Complaint) {
        let span = self
            .table
            .get(name)
            .map_or_else(|| self.span.clone(), toml::Spanned::span);
        self.notes.warn(span.start, &join(&self.path, name), complaint);
    }

    /// Where faults are gathered.
    pub(super) fn notes(&self) -> &'a Notes {
        self.notes
    }

    /// Ends the reading of a table: every key that nobody took is a fault.
    pub(super) fn finish(self) {
        for (name, value) in &self.table {
            let pattern = join(&self.pattern, name.as_ref());
            let complaint = match keys::find(&pattern).map(|key| key.standing) {
                Some(Standing::Later(feature)) => not_yet(feature),
                Some(Standing::Default(..) | Standing::Derived(..) | Standing::Required | Standing::Optional) => {
                    Complaint::new("does not apply here")
                }
                None => unknown(name.as_ref(), &self.pattern),
            };
            let at = name.span().start.min(value.span().start);
            self.notes.fault(at, &join(&self.path, name.as_ref()), complaint);
        }
    }
}

/// One value of the document, with its place.
pub(super) struct Entry<'a> {
    path: String,
    pattern: String,
    span: Range<usize>,
    value: DeValue<'a>,
    notes: &'a Notes,
}

impl<'a> Entry<'a> {
    pub(super) fn text(&self) -> Result<&str, Complaint> {
        self.value.as_str().ok_or_else(|| self.wrong("a string in quotes"))
    }

    pub(super) fn boolean(&self) -> Result<bool, Complaint> {
        self.value.as_bool().ok_or_else(|| self.wrong("true or false"))
    }

    /// A whole number from `range`.
    pub(super) fn number(&self, range: std::ops::RangeInclusive<u64>) -> Result<u64, Complaint> {
        let wanted = format!("a whole number from {} to {}", range.start(), range.end());
        let number = self.value.as_integer().ok_or_else(|| self.wrong(&wanted))?;
        let value = u64::from_str_radix(number.as_str(), number.radix())
            .ok()
            .filter(|value| range.contains(value));
        value.ok_or_else(|| Complaint::new(format!("is not {wanted}")))
    }

    pub(super) fn is_integer(&self) -> bool {
        self.value.is_integer()
    }

    pub(super) fn is_list(&self) -> bool {
        self.value.is_array()
    }

    pub(super) fn is_table(&self) -> bool {
        self.value.is_table()
    }

    /// Reads every item of a list; an item that cannot be read is a fault of its own.
    pub(super) fn list<T>(
        &self,
        mut parse: impl FnMut(&Entry<'a>) -> Result<T, Complaint>,
    ) -> Result<Vec<T>, Complaint> {
        let read = |item: Entry<'a>| parse(&item).map_or_else(|complaint| item.fault(complaint), Some);
        Ok(self.items()?.into_iter().filter_map(read).collect())
    }

    /// As [`Entry::list`]; what stands there twice is a fault.
    pub(super) fn distinct<T: PartialEq + Clone>(
        &self,
        mut parse: impl FnMut(&Entry<'a>) -> Result<T, Complaint>,
    ) -> Result<Vec<T>, Complaint> {
        let mut seen: Vec<T> = Vec::new();
        self.list(|item| {
            let value = parse(item)?;
            if seen.contains(&value) {
                return Err(Complaint::new("stands here twice"));
            }
            seen.push(value.clone());
            Ok(value)
        })
    }

    /// One of a few words.
    pub(super) fn choice<T: Clone>(&self, words: &[(&str, T)]) -> Result<T, Complaint> {
        let text = self.text()?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Ok(value.clone());
        }
        let complaint = Complaint::new(format!("{} is not known here", quoted(text)));
        let known: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
        match nearest(text, words.iter().map(|(word, _)| *word)) {
            Some(meant) => Err(complaint.hint(format!("did you mean `{meant}`?"))),
            None => Err(complaint.hint(format!("one of {}", known.join(", ")))),
        }
    }

    /// The items of a list.
    pub(super) fn items(&self) -> Result<Vec<Entry<'a>>, Complaint> {
        let items = self.value.as_array().ok_or_else(|| self.wrong("a list"))?;
        let entry = |(index, item): (usize, &toml::Spanned<DeValue<'a>>)| Entry {
            path: format!("{}[{index}]", self.path),
            pattern: format!("{}[]", self.pattern),
            span: item.span(),
            value: item.get_ref().clone(),
            notes: self.notes,
        };
        Ok(items.iter().enumerate().map(entry).collect())
    }

    /// The value as a table; anything else is noted as a fault.
    pub(super) fn into_section(self) -> Option<Section<'a>> {
        let complaint = self.wrong("a table");
        let Self {
            path,
            pattern,
            span,
            value,
            notes,
        } = self;
        match value {
            DeValue::Table(table) => Some(Section {
                path,
                pattern,
                span,
                table,
                notes,
            }),
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => {
                notes.fault(span.start, &path, complaint);
                None
            }
        }
    }

    /// Notes a fault; gives the `None` that stands for the value that could not be read.
    pub(super) fn fault<T>(&self, complaint: Complaint) -> Option<T> {
        self.notes.fault(self.span.start, &self.path, complaint);
        None
    }

    pub(super) fn warn(&self, complaint: Complaint) {
        self.notes.warn(self.span.start, &self.path, complaint);
    }

    fn wrong(&self, wanted: &str) -> Complaint {
        Complaint::new(format!("expected {wanted}, found {}", self.value.type_str()))
    }
}

/// Says that a key or a value is known but belongs to a later version.
pub(super) fn not_yet(feature: &str) -> Complaint {
    Complaint::new(format!("is known, but not available in this version yet ({feature})")).hint("remove it")
}

fn unknown(name: &str, section: &str) -> Complaint {
    let complaint = Complaint::new("unknown key");
    match nearest(name, keys::names_under(section)) {
        Some(meant) => complaint.hint(format!("did you mean `{meant}`?")),
        None => {
            let mut known: Vec<_> = keys::names_under(section).filter(|name| *name != "*").collect();
            known.dedup();
            complaint.hint(format!("known here: {}", known.join(", ")))
        }
    }
}

fn default_of(pattern: &str) -> Option<DeValue<'static>> {
    match keys::find(pattern)?.standing {
        Standing::Default(value, _) => DeValue::parse(value).ok().map(toml::Spanned::into_inner),
        Standing::Derived(..) | Standing::Required | Standing::Optional | Standing::Later(_) => None,
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}
