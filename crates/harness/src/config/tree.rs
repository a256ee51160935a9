//! Walks `harness.toml` and keeps count: every key is taken once, what is left over is unknown, and whatever cannot be
//! read is noted with its line while the walk goes on.

use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::fault::{Complaint, Notes, quoted};
use super::keys;

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

    /// Reads `name`, or its default; `None` if it has neither, or if it could not be read (then a fault is noted).
    pub(super) fn read<T>(&mut self, name: &str, parse: impl FnOnce(&Entry<'a>) -> Result<T, Complaint>) -> Option<T> {
        let entry = self.entry(name)?;
        parse(&entry).map_or_else(
            |complaint| {
                entry.fault(complaint);
                None
            },
            Some,
        )
    }

    /// As [`Section::read`], but a missing key is a fault.
    pub(super) fn require<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&Entry<'a>) -> Result<T, Complaint>,
    ) -> Option<T> {
        if !self.has(name) {
            let reason = keys::KEYS.iter().find(|key| key.pattern == join(&self.pattern, name));
            let complaint = Complaint::new("is missing");
            self.fault(name, complaint.hint(reason.map_or("", |key| key.reason)));
            return None;
        }
        self.read(name, parse)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.table.contains_key(name)
    }

    fn entry(&mut self, name: &str) -> Option<Entry<'a>> {
        let (path, pattern) = (join(&self.path, name), join(&self.pattern, name));
        let (span, value) = match self.table.remove(name) {
            Some(spanned) => (spanned.span(), spanned.into_inner()),
            None => {
                let text = keys::default_of(&pattern)?;
                (self.span.clone(), DeValue::parse(text).ok()?.into_inner())
            }
        };
        Some(Entry {
            path,
            pattern,
            span,
            value,
            notes: self.notes,
        })
    }

    /// The table `name`; empty where it is missing, or where something else stands there (then a fault is noted).
    pub(super) fn section(&mut self, name: &str) -> Section<'a> {
        let empty = Section {
            path: join(&self.path, name),
            pattern: join(&self.pattern, name),
            span: self.span.clone(),
            table: DeTable::default(),
            notes: self.notes,
        };
        match self.entry(name).map(Entry::into_section) {
            Some(Some(section)) => section,
            Some(None) | None => empty,
        }
    }

    /// The tables under `name` by the names the operator chose.
    pub(super) fn named_sections(&mut self, name: &str) -> Vec<(String, Section<'a>)> {
        let mut parent = self.section(name);
        parent.pattern = join(&parent.pattern, "*");
        let named = parent.remaining().into_iter();
        named
            .filter_map(|(name, entry)| Some((name, entry.into_section()?)))
            .collect()
    }

    /// All that has not been taken, each under the operator's own name.
    pub(super) fn remaining(&mut self) -> Vec<(String, Entry<'a>)> {
        let table = std::mem::take(&mut self.table);
        let entries = table.into_iter().map(|(name, value)| {
            let name = name.into_inner().into_owned();
            let entry = Entry {
                path: join(&self.path, &name),
                pattern: self.pattern.clone(),
                span: value.span(),
                value: value.into_inner(),
                notes: self.notes,
            };
            (name, entry)
        });
        entries.collect()
    }

    /// Notes a fault of the key `name`, at its place, or at the section's if it is missing.
    pub(super) fn fault(&self, name: &str, complaint: Complaint) {
        self.notes.fault(self.place(name), &join(&self.path, name), complaint);
    }

    /// Notes a fault of this table itself, such as its name.
    pub(super) fn fault_here(&self, complaint: Complaint) {
        self.notes.fault(self.span.start, &self.path, complaint);
    }

    /// Notes something worth a second look.
    pub(super) fn warn(&self, name: &str, complaint: Complaint) {
        self.notes.warn(self.place(name), &join(&self.path, name), complaint);
    }

    fn place(&self, name: &str) -> usize {
        let found = self.table.get(name);
        found.map_or_else(|| self.span.start, |value| value.span().start)
    }

    /// Ends the reading of a table: every key that nobody took is a fault.
    pub(super) fn finish(self) {
        let known = keys::names_under(&self.pattern).join(", ");
        for (name, value) in &self.table {
            let complaint = match known.is_empty() {
                true => Complaint::new("unknown key"),
                false => Complaint::new("unknown key").hint(format!("known here: {known}")),
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

    /// A whole number from `range`.
    pub(super) fn number(&self, range: RangeInclusive<u64>) -> Result<u64, Complaint> {
        let wanted = format!("a whole number from {} to {}", range.start(), range.end());
        let number = self.value.as_integer().ok_or_else(|| self.wrong(&wanted))?;
        let value = u64::from_str_radix(number.as_str(), number.radix()).ok();
        value
            .filter(|value| range.contains(value))
            .ok_or_else(|| Complaint::new(format!("is not {wanted}")))
    }

    /// A string, a whole number or a boolean, as canonical JSON.
    pub(super) fn scalar(&self) -> Result<String, Complaint> {
        let wanted = "a string, a whole number, true or false";
        if let Some(text) = self.value.as_str() {
            let mut out = Vec::new();
            vocabulary::canonical::write_string(text, &mut out);
            return Ok(String::from_utf8_lossy(&out).into_owned());
        }
        if let Some(value) = self.value.as_bool() {
            return Ok(value.to_string());
        }
        let number = self.value.as_integer().ok_or_else(|| self.wrong(wanted))?;
        let value = i64::from_str_radix(number.as_str(), number.radix()).ok();
        // Beyond this two spellings of different numbers may be one double.
        let exact = value.filter(|value| value.unsigned_abs() <= 1 << 53);
        exact.map(|value| value.to_string()).ok_or_else(|| self.wrong(wanted))
    }

    pub(super) fn duration(&self) -> Result<Duration, Complaint> {
        let wrong = || Complaint::new("is not a length of time").hint("write `90s`, `15m`, `1h` or `7d`");
        let text = self.text()?;
        let (number, unit) = split(text).ok_or_else(wrong)?;
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            "d" => 86_400,
            _ => return Err(wrong()),
        };
        let total = number
            .checked_mul(seconds)
            .filter(|total| (1..=MAX_SECONDS).contains(total));
        total.map(Duration::from_secs).ok_or_else(wrong)
    }

    pub(super) fn size(&self) -> Result<u64, Complaint> {
        let wrong = || Complaint::new("is not a size").hint("write `512KiB`, `10MiB` or a number of bytes");
        if self.value.is_integer() {
            return self.number(1..=MAX_BYTES);
        }
        let (number, unit) = split(self.text()?).ok_or_else(wrong)?;
        let factor: u64 = match unit {
            "" | "B" => 1,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            "TiB" => 1 << 40,
            _ => return Err(wrong()),
        };
        let bytes = number.checked_mul(factor);
        bytes.filter(|bytes| (1..=MAX_BYTES).contains(bytes)).ok_or_else(wrong)
    }

    /// Reads every item of a list; an item that cannot be read is a fault of its own. What stands there twice is one.
    pub(super) fn distinct<T: PartialEq>(
        &self,
        mut parse: impl FnMut(&Entry<'a>) -> Result<T, Complaint>,
    ) -> Result<Vec<T>, Complaint> {
        let mut seen: Vec<T> = Vec::new();
        for item in self.items()? {
            match parse(&item) {
                Ok(value) if seen.contains(&value) => item.fault(Complaint::new("stands here twice")),
                Ok(value) => seen.push(value),
                Err(complaint) => item.fault(complaint),
            }
        }
        Ok(seen)
    }

    /// Reads every item of a list.
    pub(super) fn list<T>(
        &self,
        mut parse: impl FnMut(&Entry<'a>) -> Result<T, Complaint>,
    ) -> Result<Vec<T>, Complaint> {
        let mut read = Vec::new();
        for item in self.items()? {
            match parse(&item) {
                Ok(value) => read.push(value),
                Err(complaint) => item.fault(complaint),
            }
        }
        Ok(read)
    }

    /// One of a few words.
    pub(super) fn choice<T: Clone>(&self, words: &[(&str, T)]) -> Result<T, Complaint> {
        let text = self.text()?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Ok(value.clone());
        }
        let known: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
        Err(Complaint::new(format!("{} is not known here", quoted(text))).hint(format!("one of {}", known.join(", "))))
    }

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
        match self.value {
            DeValue::Table(table) => Some(Section {
                path: self.path,
                pattern: self.pattern,
                span: self.span,
                table,
                notes: self.notes,
            }),
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => {
                self.notes.fault(self.span.start, &self.path, complaint);
                None
            }
        }
    }

    pub(super) fn fault(&self, complaint: Complaint) {
        self.notes.fault(self.span.start, &self.path, complaint);
    }

    fn wrong(&self, wanted: &str) -> Complaint {
        Complaint::new(format!("expected {wanted}, found {}", self.value.type_str()))
    }
}

fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, unit))
}

fn join(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        _ => format!("{path}.{name}"),
    }
}

const MAX_SECONDS: u64 = 100 * 366 * 86_400;
const MAX_BYTES: u64 = 1 << 60;
