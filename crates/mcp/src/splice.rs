//! Edits of one raw JSON object: members inserted, replaced or removed, all other bytes as they
//! came. Refuses an object that names a member twice, because its readers could differ.

use std::borrow::Cow;

use bytes::Bytes;

use crate::compose;
use crate::members::Members;
use crate::span::{DEEPEST, Scanner, Span, SpanFault};

/// Why an object cannot be edited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SpliceFault {
    /// Not one JSON object within the limits.
    #[error("not one JSON object within the limits")]
    NotAnObject,
    /// The object, or its `_meta`, names a member twice.
    #[error("a member is named twice")]
    Duplicate,
}

impl From<SpanFault> for SpliceFault {
    fn from(fault: SpanFault) -> Self {
        match fault {
            SpanFault::Grammar | SpanFault::TooDeep | SpanFault::TooManyMembers => Self::NotAnObject,
            SpanFault::DuplicateKey => Self::Duplicate,
        }
    }
}

/// An object under edit. Names are given unescaped, values as raw JSON.
///
/// The edits of one member follow each other: the last one counts. An edit of `_meta` as a whole
/// counts more than those inside it.
#[derive(Debug)]
pub struct Splice<'a> {
    bytes: &'a Bytes,
    top: Edits<'a>,
    meta: Meta<'a>,
}

#[derive(Debug)]
enum Meta<'a> {
    /// None yet; made when something is put into it.
    Missing(Edits<'a>),
    Object(Edits<'a>),
    /// Something else than an object: left alone.
    Other,
}

impl<'a> Splice<'a> {
    /// Looks through the object, once.
    ///
    /// # Errors
    /// When it is not one object, or it or its `_meta` names a member twice.
    pub fn new(bytes: &'a Bytes) -> Result<Self, SpliceFault> {
        let mut meta = Meta::Missing(Edits::default());
        let mut scanner = Scanner::new(bytes, DEEPEST);
        let top = Members::scan(&mut scanner, bytes, 1, |scanner, name| {
            if name != META {
                return Ok(None);
            }
            meta = Meta::Other;
            if scanner.peek() != Some(b'{') {
                return Ok(None);
            }
            let members = Members::scan(scanner, bytes, 2, |_, _| Ok(None))?;
            let span = members.inside().start - 1..members.inside().end + 1;
            meta = Meta::Object(Edits::new(&members));
            Ok(Some(span))
        })?;
        scanner.finish()?;
        let top = Edits::new(&top);
        Ok(Self { bytes, top, meta })
    }

    /// Where a member's value lies in the original; `None` if it has none of that name.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<Span> {
        self.top.original(name)
    }

    /// A member's value in the original.
    #[must_use]
    pub fn raw(&self, name: &str) -> Option<&'a [u8]> {
        self.bytes.get(self.member(name)?)
    }

    /// Adds a member, unless there is one of that name.
    pub fn insert_if_absent(&mut self, name: &'a str, raw: impl Into<Cow<'a, [u8]>>) {
        self.top.insert_if_absent(name, raw.into());
    }

    /// Gives a member this value, adding it if there is none.
    pub fn replace_or_insert(&mut self, name: &'a str, raw: impl Into<Cow<'a, [u8]>>) {
        self.top.put(self.bytes, name, raw.into());
    }

    /// Takes a member away.
    pub fn remove(&mut self, name: &str) {
        self.top.remove(name);
    }

    /// Where the value of a member of `_meta` lies in the original.
    #[must_use]
    pub fn meta_member(&self, name: &str) -> Option<Span> {
        match &self.meta {
            Meta::Object(edits) => edits.original(name),
            Meta::Missing(_) | Meta::Other => None,
        }
    }

    /// The value of a member of `_meta` in the original.
    #[must_use]
    pub fn meta_raw(&self, name: &str) -> Option<&'a [u8]> {
        self.bytes.get(self.meta_member(name)?)
    }

    /// Adds a member to `_meta`, unless there is one of that name. `_meta` is made where it is
    /// missing, and left alone where it is no object.
    pub fn meta_insert_if_absent(&mut self, name: &'a str, raw: impl Into<Cow<'a, [u8]>>) {
        if let Some(edits) = self.meta.edits() {
            edits.insert_if_absent(name, raw.into());
        }
    }

    /// Gives a member of `_meta` this value, likewise.
    pub fn meta_replace_or_insert(&mut self, name: &'a str, raw: impl Into<Cow<'a, [u8]>>) {
        let bytes = self.bytes;
        if let Some(edits) = self.meta.edits() {
            edits.put(bytes, name, raw.into());
        }
    }

    /// Takes a member of `_meta` away.
    pub fn meta_remove(&mut self, name: &str) {
        if let Some(edits) = self.meta.edits() {
            edits.remove(name);
        }
    }

    /// The object after the edits; the original itself, not a copy, if they change nothing.
    #[must_use]
    pub fn finish(mut self) -> Bytes {
        match std::mem::replace(&mut self.meta, Meta::Other) {
            Meta::Object(edits) if edits.change_something() => {
                let object = edits.braced(self.bytes);
                self.top.put_if_untouched(META, object);
            }
            Meta::Missing(edits) if edits.change_something() => {
                let object = edits.braced(self.bytes);
                self.top.insert_if_absent(META, object.into());
            }
            Meta::Missing(_) | Meta::Object(_) | Meta::Other => {}
        }
        if !self.top.change_something() {
            return self.bytes.clone();
        }
        let inside = self.top.inside.clone();
        let mut out = Vec::with_capacity(self.bytes.len() + self.top.growth());
        out.extend_from_slice(self.bytes.get(..inside.start).unwrap_or_default());
        self.top.write(self.bytes, &mut out);
        out.extend_from_slice(self.bytes.get(inside.end..).unwrap_or_default());
        out.into()
    }
}

impl<'a> Meta<'a> {
    fn edits(&mut self) -> Option<&mut Edits<'a>> {
        match self {
            Self::Missing(edits) | Self::Object(edits) => Some(edits),
            Self::Other => None,
        }
    }
}

/// The members of one object and what becomes of them.
#[derive(Default, Debug)]
struct Edits<'a> {
    members: Vec<Edited<'a>>,
    added: Vec<(&'a str, Cow<'a, [u8]>)>,
    inside: Span,
}

#[derive(Debug)]
struct Edited<'a> {
    name: Cow<'a, str>,
    segment: Span,
    value: Span,
    fate: Fate<'a>,
}

#[derive(PartialEq, Debug)]
enum Fate<'a> {
    Kept,
    Replaced(Cow<'a, [u8]>),
    Removed,
}

const META: &str = "_meta";

impl<'a> Edits<'a> {
    fn new(members: &Members<'a>) -> Self {
        let edited = members.iter().map(|member| Edited {
            name: member.name.clone(),
            segment: member.segment.clone(),
            value: member.value.clone(),
            fate: Fate::Kept,
        });
        Self {
            members: edited.collect(),
            added: Vec::new(),
            inside: members.inside(),
        }
    }

    fn original(&self, name: &str) -> Option<Span> {
        let member = self.members.iter().find(|member| member.name == name)?;
        Some(member.value.clone())
    }

    fn edited(&mut self, name: &str) -> Option<&mut Edited<'a>> {
        self.members.iter_mut().find(|member| member.name == name)
    }

    fn insert_if_absent(&mut self, name: &'a str, raw: Cow<'a, [u8]>) {
        if let Some(member) = self.edited(name) {
            if member.fate == Fate::Removed {
                member.fate = Fate::Replaced(raw);
            }
        } else if !self.added.iter().any(|(known, _)| *known == name) {
            self.added.push((name, raw));
        }
    }

    fn put(&mut self, bytes: &[u8], name: &'a str, raw: Cow<'a, [u8]>) {
        if let Some(member) = self.edited(name) {
            let same = bytes.get(member.value.clone()) == Some(&raw);
            member.fate = if same { Fate::Kept } else { Fate::Replaced(raw) };
        } else if let Some((_, known)) = self.added.iter_mut().find(|(known, _)| *known == name) {
            *known = raw;
        } else {
            self.added.push((name, raw));
        }
    }

    fn put_if_untouched(&mut self, name: &str, raw: Vec<u8>) {
        if let Some(member) = self.edited(name)
            && member.fate == Fate::Kept
        {
            member.fate = Fate::Replaced(raw.into());
        }
    }

    fn remove(&mut self, name: &str) {
        self.added.retain(|(known, _)| *known != name);
        if let Some(member) = self.edited(name) {
            member.fate = Fate::Removed;
        }
    }

    fn change_something(&self) -> bool {
        !self.added.is_empty() || self.members.iter().any(|member| member.fate != Fate::Kept)
    }

    /// By how much the object may grow at most.
    fn growth(&self) -> usize {
        let replaced = self.members.iter().map(|member| match &member.fate {
            Fate::Replaced(raw) => raw.len(),
            Fate::Kept | Fate::Removed => 0,
        });
        let added = self.added.iter().map(|(name, raw)| name.len() + raw.len() + 4);
        replaced.chain(added).sum()
    }

    fn braced(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(2 + self.inside.len() + self.growth());
        out.push(b'{');
        self.write(bytes, &mut out);
        out.push(b'}');
        out
    }

    /// Writes what stands between the braces. Each member keeps the white space around it.
    fn write(&self, bytes: &[u8], out: &mut Vec<u8>) {
        let copy = |span: Span, out: &mut Vec<u8>| out.extend_from_slice(bytes.get(span).unwrap_or_default());
        let mut comma = Comma::default();
        if self.members.is_empty() {
            copy(self.inside.clone(), out);
        }
        for member in &self.members {
            match &member.fate {
                Fate::Removed => {}
                Fate::Kept => {
                    comma.before_next(out);
                    copy(member.segment.clone(), out);
                }
                Fate::Replaced(raw) => {
                    comma.before_next(out);
                    copy(member.segment.start..member.value.start, out);
                    out.extend_from_slice(raw);
                    copy(member.value.end..member.segment.end, out);
                }
            }
        }
        for (name, raw) in &self.added {
            comma.before_next(out);
            compose::string(name, out);
            out.push(b':');
            out.extend_from_slice(raw);
        }
    }
}

/// Writes a comma before each but the first.
#[derive(Default)]
struct Comma {
    due: bool,
}

impl Comma {
    fn before_next(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.due, true) {
            out.push(b',');
        }
    }
}

#[cfg(test)]
mod tests;
