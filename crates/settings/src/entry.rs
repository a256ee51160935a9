//! One value: what it is read as, and what is said when it is something else.

use std::ops::RangeInclusive;
use std::time::Duration;

use toml::de::DeValue;
use vocabulary::{canonical, nearest};

use crate::fault::{Complaint, quoted};
use crate::notes::Notes;
use crate::place::Place;
use crate::section::Section;
use crate::units;

/// One value of the file, with its place.
pub struct Entry<'a> {
    place: Place,
    value: DeValue<'a>,
    notes: &'a Notes,
}

impl<'a> Entry<'a> {
    pub(crate) fn at(place: Place, value: DeValue<'a>, notes: &'a Notes) -> Self {
        Self { place, value, notes }
    }

    /// A string.
    ///
    /// # Errors
    /// When it is something else.
    pub fn text(&self) -> Result<&str, Complaint> {
        self.value.as_str().ok_or_else(|| self.wrong("a string in quotes"))
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// When it is something else.
    pub fn boolean(&self) -> Result<bool, Complaint> {
        self.value.as_bool().ok_or_else(|| self.wrong("true or false"))
    }

    /// A whole number from `range`.
    ///
    /// # Errors
    /// When it is something else, or another number.
    pub fn number(&self, range: RangeInclusive<u64>) -> Result<u64, Complaint> {
        let wanted = format!("a whole number from {} to {}", range.start(), range.end());
        let number = self.value.as_integer().ok_or_else(|| self.wrong(&wanted))?;
        let value = u64::from_str_radix(number.as_str(), number.radix()).ok();
        value
            .filter(|value| range.contains(value))
            .ok_or_else(|| Complaint::new(format!("is not {wanted}")))
    }

    /// A length of time: `90s`, `15m`, `1h`, `7d`.
    ///
    /// # Errors
    /// When it is something else.
    pub fn duration(&self) -> Result<Duration, Complaint> {
        let wrong = || Complaint::new("is not a length of time").hint("write `90s`, `15m`, `1h` or `7d`");
        units::duration(self.text()?).ok_or_else(wrong)
    }

    /// A size: `512KiB`, `10MiB`, or a number of bytes; never zero.
    ///
    /// # Errors
    /// When it is something else.
    pub fn size(&self) -> Result<u64, Complaint> {
        let wrong = || Complaint::new("is not a size").hint("write `512KiB`, `10MiB` or a number of bytes");
        if self.is_integer() {
            return self.number(1..=units::MAX_BYTES);
        }
        let bytes = units::size(self.text()?);
        bytes
            .filter(|bytes| (1..=units::MAX_BYTES).contains(bytes))
            .ok_or_else(wrong)
    }

    /// One of a few values that have a word each.
    ///
    /// # Errors
    /// When no value has the word.
    pub fn word<T: Copy>(&self, values: impl AsRef<[T]>, word: impl Fn(T) -> &'static str) -> Result<T, Complaint> {
        let (text, values) = (self.text()?, values.as_ref());
        if let Some(value) = values.iter().find(|value| word(**value) == text) {
            return Ok(*value);
        }
        let complaint = Complaint::new(format!("{} is not known here", quoted(text)));
        let known = values.iter().map(|value| word(*value));
        match nearest(text, known.clone()) {
            Some(meant) => Err(complaint.hint(format!("did you mean `{meant}`?"))),
            None => {
                let known: Vec<String> = known.map(|word| format!("`{word}`")).collect();
                Err(complaint.hint(format!("one of {}", known.join(", "))))
            }
        }
    }

    /// A string, a whole number or a boolean, as canonical JSON.
    ///
    /// # Errors
    /// When it is something else, or a number that JSON readers may take for another.
    pub fn scalar(&self) -> Result<String, Complaint> {
        let wanted = "a string, a whole number, true or false";
        if let Some(text) = self.value.as_str() {
            let mut out = Vec::new();
            canonical::write_string(text, &mut out);
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

    /// A list of strings.
    ///
    /// # Errors
    /// When it is no list.
    pub fn texts(&self) -> Result<Vec<String>, Complaint> {
        self.list(|item| Ok(item.text()?.to_owned()))
    }

    /// Reads every item of a list; an item that cannot be read is a fault of its own.
    ///
    /// # Errors
    /// When it is no list.
    pub fn list<T>(&self, mut parse: impl FnMut(&Self) -> Result<T, Complaint>) -> Result<Vec<T>, Complaint> {
        let items = self.items()?.into_iter();
        Ok(items.filter_map(|item| item.accept(parse(&item))).collect())
    }

    /// As [`Entry::list`]; what stands there twice is a fault.
    ///
    /// # Errors
    /// When it is no list.
    pub fn distinct<T: PartialEq>(
        &self,
        mut parse: impl FnMut(&Self) -> Result<T, Complaint>,
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

    /// The items of a list.
    ///
    /// # Errors
    /// When it is no list.
    pub fn items(&self) -> Result<Vec<Self>, Complaint> {
        let items = self.value.as_array().ok_or_else(|| self.wrong("a list"))?;
        let entry = |(index, item): (usize, &toml::Spanned<DeValue<'a>>)| {
            let place = self.place.item(index, item.span().start);
            Self::at(place, item.get_ref().clone(), self.notes)
        };
        Ok(items.iter().enumerate().map(entry).collect())
    }

    /// Whether it is a whole number.
    #[must_use]
    pub fn is_integer(&self) -> bool {
        self.value.is_integer()
    }

    /// Whether it is a list.
    #[must_use]
    pub fn is_list(&self) -> bool {
        self.value.is_array()
    }

    /// Whether it is a table.
    #[must_use]
    pub fn is_table(&self) -> bool {
        self.value.is_table()
    }

    /// The value as a table; anything else is noted as a fault.
    #[must_use]
    pub fn into_section(self) -> Option<Section<'a>> {
        match self.value {
            DeValue::Table(table) => Some(Section::at(self.place, table, self.notes)),
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => {
                self.fault(self.wrong("a table"));
                None
            }
        }
    }

    /// The value that was read; `None` after its fault was noted.
    pub fn accept<T>(&self, read: Result<T, Complaint>) -> Option<T> {
        read.map_err(|complaint| self.fault(complaint)).ok()
    }

    /// Notes a fault.
    pub fn fault(&self, complaint: Complaint) {
        self.notes.fault(&self.place, complaint);
    }

    /// Notes something worth a second look.
    pub fn warn(&self, complaint: Complaint) {
        self.notes.warn(&self.place, complaint);
    }

    fn wrong(&self, wanted: &str) -> Complaint {
        Complaint::new(format!("expected {wanted}, found {}", self.value.type_str()))
    }
}
