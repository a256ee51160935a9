//! A kind of file, and the road from its text to what a program trusts.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use crate::fault::{Complaint, Fault, Faults};
use crate::keys::{self, Key, Standing};
use crate::notes::{Notes, Remarks};
use crate::place::Place;
use crate::section::Section;

/// A kind of configuration file.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// What messages call it: "2 faults in the …".
    pub name: &'static str,
    /// Every key it may hold.
    pub keys: &'static [Key],
}

impl Format {
    /// Reads a text. `check` is given the root table and notes what is wrong on its way; `None` stands for a value that
    /// could not be made. Gives the value and what deserves a second look.
    ///
    /// ```
    /// use portreeve_settings::{Format, Standing, key};
    ///
    /// static LAMP: Format = Format {
    ///     name: "lamp",
    ///     keys: &[key("watts", "How bright.", Standing::Default("5", "enough to read"))],
    /// };
    /// let read = |text: &str| {
    ///     LAMP.read("lamp.toml".as_ref(), text, |mut root| {
    ///         let watts = root.read("watts", |value| value.number(1..=60));
    ///         root.finish();
    ///         watts
    ///     })
    /// };
    /// assert_eq!(read("").map(|(watts, _)| watts), Ok(5));
    /// assert_eq!(read("watts = 7").map(|(watts, _)| watts), Ok(7));
    /// let faults = read("watts = 70\nwats = 1").unwrap_err();
    /// assert_eq!(faults.as_slice().len(), 2);
    /// ```
    ///
    /// # Errors
    /// Everything that is wrong with it, at once.
    pub fn read<T>(
        &'static self,
        file: &Path,
        text: &str,
        check: impl FnOnce(Section<'_>) -> Option<T>,
    ) -> Result<(T, Remarks), Faults> {
        let (value, said) = self.read_what_is_sound(file, text, check);
        let missing = || self.refuse(Fault::of_file(file, "a value is missing that has no default", None));
        let remarks = said?;
        Ok((value.ok_or_else(missing)?, remarks))
    }

    /// As [`Format::read`], for whoever needs little of a file: what `check` could make of it, faults or not.
    pub fn read_what_is_sound<T>(
        &'static self,
        file: &Path,
        text: &str,
        check: impl FnOnce(Section<'_>) -> Option<T>,
    ) -> (Option<T>, Result<Remarks, Faults>) {
        let notes = Notes::on(self, file, text);
        let (table, syntax) = DeTable::parse_recoverable(text);
        for error in syntax {
            // The error's own display quotes the line, which may hold a secret.
            let complaint = Complaint::new(format!("not TOML: {}", error.message()));
            let at = error.span().map_or(0, |span| span.start);
            notes.fault(&Place { at, ..Place::root() }, complaint);
        }
        let value = check(Section::root(table.into_inner(), &notes));
        (value, notes.finish())
    }

    /// A single fault as the whole answer.
    #[must_use]
    pub fn refuse(&self, fault: Fault) -> Faults {
        Faults::new(self.name, vec![fault])
    }

    /// Goes on only if there is no fault.
    ///
    /// # Errors
    /// The faults, if there is one.
    pub fn accept_without(&self, faults: Vec<Fault>) -> Result<(), Faults> {
        match faults.is_empty() {
            true => Ok(()),
            false => Err(Faults::new(self.name, faults)),
        }
    }

    /// What is wrong with the table of keys itself, for the tests of whoever wrote it: a key that stands twice, a default
    /// that is not TOML, a default without a reason.
    #[must_use]
    pub fn flaws(&self) -> Vec<String> {
        let mut flaws = Vec::new();
        for (index, key) in self.keys.iter().enumerate() {
            let mut flaw = |what: &str| flaws.push(format!("{}: {what}", key.path));
            if self.keys.iter().skip(index + 1).any(|other| other.path == key.path) {
                flaw("stands twice");
            }
            match key.standing {
                Standing::Default(value, _) if DeValue::parse(value).is_err() => flaw("its default is not TOML"),
                Standing::Default(_, "") | Standing::Derived(_, "") => flaw("its default has no reason"),
                Standing::Required("") => flaw("nothing is said to who leaves it out"),
                Standing::Default(..)
                | Standing::Derived(..)
                | Standing::Required(_)
                | Standing::Optional
                | Standing::Later(_) => {}
            }
        }
        flaws
    }

    pub(crate) fn standing(&self, pattern: &str) -> Option<Standing> {
        keys::find(self.keys, pattern).map(|key| key.standing)
    }

    pub(crate) fn default_of(&self, pattern: &str) -> Option<DeValue<'static>> {
        match self.standing(pattern)? {
            Standing::Default(value, _) => DeValue::parse(value).ok().map(toml::Spanned::into_inner),
            Standing::Derived(..) | Standing::Required(_) | Standing::Optional | Standing::Later(_) => None,
        }
    }

    pub(crate) fn names_under(&self, pattern: &str) -> Vec<&'static str> {
        keys::names_under(self.keys, pattern)
    }
}
