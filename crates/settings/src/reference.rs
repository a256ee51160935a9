//! How people name a value that does not stand in the file: secrets are written no other way.

/// A value by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reference<'a> {
    /// `env:NAME`: a variable of the environment.
    Variable(&'a str),
    /// `file:PATH`: what a file holds.
    File(&'a str),
    /// `text:VALUE`: written out as no secret.
    Plain(&'a str),
}

impl<'a> Reference<'a> {
    /// What to write, for whoever wrote something else.
    pub const HINT: &'static str = "write `env:NAME`, `file:PATH`, or `text:VALUE` for what is no secret";

    /// Reads a reference. What is none may be the secret itself, so it must not be repeated.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        match text.split_once(':')? {
            ("env", name) if !name.is_empty() => Some(Self::Variable(name)),
            ("file", path) if !path.is_empty() => Some(Self::File(path)),
            ("text", plain) => Some(Self::Plain(plain)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_names_its_place_and_a_secret_is_none() {
        for (text, reference) in [
            ("env:TOKEN", Some(Reference::Variable("TOKEN"))),
            ("file:a:b", Some(Reference::File("a:b"))),
            ("text:", Some(Reference::Plain(""))),
            ("text:env:X", Some(Reference::Plain("env:X"))),
            ("env:", None),
            ("file:", None),
            ("ENV:X", None),
            ("vault:a#b", None),
            ("hunter2", None),
            ("https://hunter2", None),
            ("", None),
        ] {
            assert_eq!(Reference::parse(text), reference, "{text}");
        }
    }
}
