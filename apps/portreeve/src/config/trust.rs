//! `[trust]`: whose signature servers need, and whether they need one.

use settings::{Complaint, Entry, Section, quoted};
use vocabulary::note::Verifier;

use super::raw::Surroundings;

/// Whose signature servers need.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Anchors {
    /// Whether only servers are started that stand in a signed `servers.lock`.
    pub require_signed: bool,
    /// The keys whose signature counts.
    pub keys: Vec<Verifier>,
}

impl Anchors {
    pub(super) fn check(mut section: Section<'_>, around: &Surroundings) -> Option<Self> {
        let lists = section.read("keys", |value| value.list(|item| keys(item, around)));
        let keys: Option<Vec<Verifier>> = lists.map(|lists| lists.into_iter().flatten().collect());
        let require_signed = section.read("require_signed", |value| {
            let required = value.boolean()?;
            match required && keys.as_ref().is_some_and(Vec::is_empty) {
                true => Err(
                    Complaint::new("needs a key in `keys`: without one nothing would be started")
                        .hint("make one with `portreeve keygen`, and write the line it prints into `trust.keys`"),
                ),
                false => Ok(required),
            }
        });
        section.finish();
        Some(Self {
            require_signed: require_signed?,
            keys: keys?,
        })
    }
}

/// One public key, or those of a file.
fn keys(item: &Entry<'_>, around: &Surroundings) -> Result<Vec<Verifier>, Complaint> {
    let text = item.text()?;
    match text.strip_prefix("file:") {
        Some(path) => in_file(&around.text(&around.resolve(path))?).map_err(Complaint::new),
        None => Verifier::parse(text).map(|key| vec![key]).map_err(|fault| {
            Complaint::new(format!("{} {fault}", quoted(text)))
                .hint("write what `portreeve keygen` printed, or `file:PATH`")
        }),
    }
}

/// The public keys of a file: one a line, `#` begins a comment.
pub(crate) fn in_file(text: &str) -> Result<Vec<Verifier>, String> {
    let mut keys = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let words = line.split_ascii_whitespace().take_while(|word| !word.starts_with('#'));
        let words: Vec<&str> = words.collect();
        match words.as_slice() {
            [] => {}
            [key] => keys.push(Verifier::parse(key).map_err(|fault| format!("line {} {fault}", at + 1))?),
            _ => return Err(format!("line {} holds more than one public key", at + 1)),
        }
    }
    match keys.is_empty() {
        true => Err("holds no public key".to_owned()),
        false => Ok(keys),
    }
}
