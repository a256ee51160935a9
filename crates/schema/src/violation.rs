//! Says what is wrong with a value without quoting it: where (by names the schema knows), which keyword,
//! and what is allowed (the schema's own words). Names that the schema does not know are numbered, unless whoever asks
//! says how they are told.

use std::collections::HashSet;
use std::fmt;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};
use vocabulary::json::Value;
use vocabulary::nearest;

/// Why a value does not fit a schema: at most five reasons of at most 200 bytes, value-free; of at most 480 bytes where
/// unknown names are told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violations {
    items: Vec<String>,
    /// The same reasons, taken apart.
    parts: Vec<Violation>,
    /// Of the first item.
    path: String,
    keyword: Option<String>,
    unknown_fields: bool,
}

/// One reason, taken apart: where, which keyword, what the schema asks for. Value-free; each part is at most 200 bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// A pointer of names the schema knows, `/` for the whole value.
    pub path: String,
    /// The keyword.
    pub keyword: String,
    /// What the schema asks for; empty where the keyword says it all.
    pub expected: String,
}

impl Violations {
    /// The reasons, taken apart.
    #[must_use]
    pub fn parts(&self) -> &[Violation] {
        &self.parts
    }

    /// Whether a member that the schema does not declare is among the reasons.
    #[must_use]
    pub fn has_unknown_fields(&self) -> bool {
        self.unknown_fields
    }

    /// The reasons, one by one.
    #[must_use]
    pub fn items(&self) -> &[String] {
        &self.items
    }

    /// Where the first of them was met: a pointer of names the schema knows, `/` for the whole value.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The keyword that the first of them is about, where it is about one.
    #[must_use]
    pub fn keyword(&self) -> Option<&str> {
        self.keyword.as_deref()
    }

    pub(crate) fn of_one(text: &str) -> Self {
        let mut violations = Self::none();
        violations.items.push(cut(text, MAX_ITEM_BYTES));
        violations.parts.push(Violation {
            path: "/".to_owned(),
            keyword: "limits".to_owned(),
            expected: cut(text.trim_start_matches("/: "), MAX_ITEM_BYTES),
        });
        violations
    }

    fn none() -> Self {
        Self {
            items: Vec::new(),
            parts: Vec::new(),
            path: "/".to_owned(),
            keyword: None,
            unknown_fields: false,
        }
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.items.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            f.write_str(item)?;
        }
        Ok(())
    }
}

/// How many reasons are given.
pub(crate) const MAX_ITEMS: usize = 5;
const MAX_ITEM_BYTES: usize = 200;
/// As long as a reason may be that tells names.
const MAX_TELLING_BYTES: usize = 480;

/// A step on the way into a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place<'v> {
    Name(&'v str),
    Index(usize),
}

/// A member that nothing declares.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unknown<'v> {
    pub(crate) path: Vec<Place<'v>>,
    pub(crate) name: &'v str,
    /// What is declared beside it.
    pub(crate) allowed: Vec<String>,
}

/// Makes a name that the schema does not know fit to be told; it is told as this returns it.
pub type TellName<'t> = dyn Fn(&str) -> ToldName + 't;

/// A name that the schema does not know, as it is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToldName {
    /// Escaped and cut; a known name may be offered for it.
    Shown(String),
    /// Something else stands for it.
    Masked(String),
}

/// Collects reasons about one value. Names the schema does not know are numbered in order of appearance, or told.
pub(crate) struct Printer<'s, 'v> {
    known: &'s HashSet<Box<str>>,
    root: &'v Value<'v>,
    strangers: Vec<&'v str>,
    tell: Option<&'s TellName<'s>>,
    violations: Violations,
    most: usize,
}

impl<'s, 'v> Printer<'s, 'v> {
    pub(crate) fn new(known: &'s HashSet<Box<str>>, root: &'v Value<'v>) -> Self {
        Self {
            known,
            root,
            strangers: Vec::new(),
            tell: None,
            violations: Violations::none(),
            most: MAX_ITEMS,
        }
    }

    /// Tells names that the schema does not know instead of numbering them.
    pub(crate) fn telling(mut self, tell: Option<&'s TellName<'s>>) -> Self {
        self.tell = tell;
        self
    }

    /// With room for `most` reasons instead of five.
    pub(crate) fn with_room_for(mut self, most: usize) -> Self {
        self.most = most;
        self
    }

    pub(crate) fn finish(mut self) -> Violations {
        if self.violations.items.is_empty() {
            self.push(
                "/",
                None,
                "/: does not fit the schema".to_owned(),
                "does not fit the schema",
            );
        }
        self.violations
    }

    /// Whether there is no room for a further reason.
    pub(crate) fn is_full(&self) -> bool {
        self.violations.items.len() >= self.most
    }

    /// Adds a member that nothing declares.
    pub(crate) fn unknown(&mut self, unknown: &Unknown<'v>) {
        let path = self.pointer(&unknown.path);
        let meant = self.meant(unknown.name, unknown.allowed.iter().map(String::as_str));
        let said = format!("unknown field {}{meant}", self.quoted_stranger(unknown.name));
        let allowed = if unknown.allowed.is_empty() {
            String::new()
        } else {
            format!(": one of {}", list(&unknown.allowed))
        };
        self.violations.unknown_fields = true;
        let said = said + &allowed;
        self.push(&path, None, format!("{path}: {said}"), &said);
    }

    /// Adds what the library found; `prefix` segments of its paths are ours, not the value's.
    pub(crate) fn error(&mut self, error: &ValidationError<'_>, prefix: usize) {
        if self.is_full() {
            return;
        }
        let places = self.places(error.instance_path().as_str(), prefix);
        let path = self.pointer(&places);
        let kind = error.kind();
        if let ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } = kind
        {
            // A library's list of names has no end; what is not said needs no looking up.
            for name in unexpected.iter().take(self.most) {
                if let Some(name) = self.name_at(&places, name) {
                    self.unexpected(&path, kind.keyword(), name);
                }
            }
        } else if let ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } = kind {
            match closest(context, error.instance_path().as_str()) {
                Some(branch) => branch.iter().for_each(|error| self.error(error, prefix)),
                None => self.add(&path, kind.keyword(), "none of the allowed forms fits"),
            }
        } else if let ValidationErrorKind::FalseSchema = kind {
            self.add(&path, keyword_of_false(error), &requirement(kind));
        } else {
            self.add(&path, kind.keyword(), &requirement(kind));
        }
    }

    /// Adds a member that the schema itself refuses, unless our own walk, which knows what is allowed
    /// instead, has named it before.
    fn unexpected(&mut self, path: &str, keyword: &str, name: &'v str) {
        self.violations.unknown_fields = true;
        let stranger = self.quoted_stranger(name);
        let head = cut(&format!("{path}: unknown field {stranger}"), self.longest());
        if !self.violations.items.iter().any(|item| item.starts_with(&head)) {
            let meant = self.meant(name, self.known.iter().map(|known| &**known));
            self.add(path, keyword, &format!("unknown field {stranger}{meant}"));
        }
    }

    fn add(&mut self, path: &str, keyword: &str, requirement: &str) {
        let item = match requirement {
            "" => format!("{path}: {keyword}"),
            _ => format!("{path}: {keyword}: {requirement}"),
        };
        self.push(path, Some(keyword), item, requirement);
    }

    fn push(&mut self, path: &str, keyword: Option<&str>, item: String, expected: &str) {
        let longest = self.longest();
        let item = cut(&item, longest);
        if self.violations.items.is_empty() {
            self.violations.path = cut(path, longest);
            self.violations.keyword = keyword.map(str::to_owned);
        }
        if !self.is_full() && !self.violations.items.contains(&item) {
            self.violations.items.push(item);
            self.violations.parts.push(Violation {
                path: cut(path, longest),
                keyword: keyword.unwrap_or("schema").to_owned(),
                expected: cut(expected, longest),
            });
        }
    }

    fn pointer(&mut self, places: &[Place<'v>]) -> String {
        let mut pointer = String::new();
        for place in places {
            pointer.push('/');
            match place {
                Place::Index(index) => pointer.push_str(&index.to_string()),
                Place::Name(name) if self.known.contains(*name) => pointer.push_str(&segment(name)),
                Place::Name(name) => match self.told(name) {
                    Some(ToldName::Shown(told) | ToldName::Masked(told)) => pointer.push_str(&segment(&told)),
                    None => pointer.push_str(&self.numbered(name)),
                },
            }
        }
        if pointer.is_empty() { "/".to_owned() } else { pointer }
    }

    fn told(&self, name: &str) -> Option<ToldName> {
        self.tell.map(|tell| tell(name))
    }

    /// A name that the schema does not know, within a sentence.
    fn quoted_stranger(&mut self, name: &'v str) -> String {
        match self.told(name) {
            Some(ToldName::Shown(told)) => format!("\"{told}\""),
            Some(ToldName::Masked(told)) => told,
            None => self.numbered(name),
        }
    }

    /// Which known name was probably meant, where names are told.
    fn meant<'k>(&self, name: &str, known: impl Iterator<Item = &'k str>) -> String {
        let shown = matches!(self.told(name), Some(ToldName::Shown(_)));
        match shown.then(|| nearest(name, known)).flatten() {
            Some(near) => format!(" (did you mean {}?)", list(&[near.to_owned()]).trim_matches(['[', ']'])),
            None => String::new(),
        }
    }

    /// A reason with a told name has room for it.
    fn longest(&self) -> usize {
        match self.tell {
            Some(_) => MAX_TELLING_BYTES,
            None => MAX_ITEM_BYTES,
        }
    }

    fn numbered(&mut self, name: &'v str) -> String {
        let number = self
            .strangers
            .iter()
            .position(|known| *known == name)
            .unwrap_or(self.strangers.len());
        if number == self.strangers.len() {
            self.strangers.push(name);
        }
        format!("<unexpected key #{}>", number + 1)
    }

    /// A path as the library spells it, as far as it leads into the value.
    fn places(&self, path: &str, prefix: usize) -> Vec<Place<'v>> {
        let mut value = Some(self.root);
        let mut places = Vec::new();
        for segment in path.split('/').skip(1 + prefix) {
            let segment = segment.replace("~1", "/").replace("~0", "~");
            let (place, next) = match value {
                Some(Value::Object(members)) => match members.iter().find(|(name, _)| *name == segment) {
                    Some((name, next)) => (Place::Name(name), next),
                    None => break,
                },
                Some(Value::Array(elements)) => {
                    match segment
                        .parse()
                        .ok()
                        .and_then(|index: usize| Some((index, elements.get(index)?)))
                    {
                        Some((index, next)) => (Place::Index(index), next),
                        None => break,
                    }
                }
                Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) | None => break,
            };
            places.push(place);
            value = Some(next);
        }
        places
    }

    /// The member name as it stands in the value, so that numbering does not depend on the library's copy.
    fn name_at(&self, places: &[Place<'v>], name: &str) -> Option<&'v str> {
        let value = places.iter().try_fold(self.root, |value, place| match (place, value) {
            (Place::Name(name), value) => value.member(name),
            (Place::Index(index), Value::Array(elements)) => elements.get(*index),
            (Place::Index(_), _) => None,
        });
        match value {
            Some(Value::Object(members)) => members.iter().find(|(key, _)| key == name).map(|(key, _)| key.as_ref()),
            _ => None,
        }
    }
}

/// The branch that the value at `path` came closest to: one it has at least the form of.
fn closest<'e>(branches: &'e [Vec<ValidationError<'static>>], path: &str) -> Option<&'e [ValidationError<'static>]> {
    let is_other_form = |error: &&ValidationError<'_>| {
        error.instance_path().as_str() == path
            && matches!(
                error.kind(),
                ValidationErrorKind::Type { .. }
                    | ValidationErrorKind::Constant { .. }
                    | ValidationErrorKind::Enum { .. }
            )
    };
    let branch = branches
        .iter()
        .min_by_key(|branch| (branch.iter().filter(is_other_form).count(), branch.len()))?;
    (!branch.is_empty() && !branch.iter().any(|error| is_other_form(&error))).then_some(branch)
}

/// The keyword that holds the `false` which a value met.
fn keyword_of_false(error: &ValidationError<'_>) -> &'static str {
    const HOLDERS: [&str; 12] = [
        "additionalProperties",
        "unevaluatedProperties",
        "properties",
        "patternProperties",
        "propertyNames",
        "items",
        "prefixItems",
        "additionalItems",
        "unevaluatedItems",
        "dependentSchemas",
        "then",
        "else",
    ];
    let way = error.schema_path().as_str().rsplit('/');
    way.filter_map(|step| HOLDERS.into_iter().find(|holder| *holder == step))
        .next()
        .unwrap_or("false")
}

/// What the schema asks for, in its own words.
fn requirement(kind: &ValidationErrorKind) -> String {
    use ValidationErrorKind as Kind;
    match kind {
        Kind::Type {
            kind: TypeKind::Single(expected),
        } => format!("must be {}", expected.as_str()),
        Kind::Type {
            kind: TypeKind::Multiple(expected),
        } => {
            let names: Vec<&str> = expected.iter().map(JsonType::as_str).collect();
            format!("must be {}", names.join(" or "))
        }
        Kind::Enum { options } => format!("one of {options}"),
        Kind::Constant { expected_value } => format!("must be {expected_value}"),
        Kind::Required { property } => format!("{property} is missing"),
        Kind::Format { format } => format!("must be a {format}"),
        Kind::Pattern { pattern } => format!("must match {pattern}"),
        Kind::Minimum { limit } => format!("at least {limit}"),
        Kind::Maximum { limit } => format!("at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("less than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("a multiple of {multiple_of}"),
        Kind::MinLength { limit } => format!("at least {limit} characters"),
        Kind::MaxLength { limit } => format!("at most {limit} characters"),
        Kind::MinItems { limit } => format!("at least {limit} items"),
        Kind::MaxItems { limit } => format!("at most {limit} items"),
        Kind::AdditionalItems { limit } => format!("at most {limit} items"),
        Kind::MinProperties { limit } => format!("at least {limit} members"),
        Kind::MaxProperties { limit } => format!("at most {limit} members"),
        Kind::OneOfMultipleValid { .. } => "more than one of the allowed forms fits".to_owned(),
        Kind::UniqueItems => "no two items may be equal".to_owned(),
        Kind::Contains => "no item fits what one must be".to_owned(),
        Kind::ContentEncoding { content_encoding } => format!("must be {content_encoding}"),
        Kind::ContentMediaType { content_media_type } => format!("must be {content_media_type}"),
        Kind::FalseSchema => "nothing is allowed here".to_owned(),
        Kind::AdditionalProperties { .. }
        | Kind::UnevaluatedProperties { .. }
        | Kind::AnyOf { .. }
        | Kind::OneOfNotValid { .. }
        | Kind::BacktrackLimitExceeded { .. }
        | Kind::RegexEngineFailure { .. }
        | Kind::Custom { .. }
        | Kind::FromUtf8 { .. }
        | Kind::Not { .. }
        | Kind::PropertyNames { .. }
        | Kind::UnevaluatedItems { .. }
        | Kind::Referencing(_) => String::new(),
    }
}

/// A name as a step of a JSON pointer.
fn segment(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Names as a JSON list, as many as an item has room for.
fn list(names: &[String]) -> String {
    let mut text = String::from("[");
    for (index, name) in names.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        if text.len() > MAX_ITEM_BYTES {
            text.push('…');
            break;
        }
        let mut literal = Vec::new();
        vocabulary::canonical::write_string(name, &mut literal);
        text.push_str(&String::from_utf8_lossy(&literal));
    }
    text.push(']');
    text
}

/// The first bytes, cut where a character ends. The words are the schema's, which a server wrote, so
/// what would steer a terminal is made visible.
fn cut(item: &str, longest: usize) -> String {
    let steers = |character: char| {
        character.is_control() || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if item.contains(steers) {
        return cut(&item.replace(steers, "\u{fffd}"), longest);
    }
    if item.len() <= longest {
        return item.to_owned();
    }
    let end = item.floor_char_boundary(longest - '…'.len_utf8());
    let (kept, _) = item.split_at(end);
    format!("{kept}…")
}
