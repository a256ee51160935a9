//! What a client declared it can be asked, and the part of it that we tell a server. A member
//! that is no object declares nothing; what is not declared is not allowed.

use bytes::Bytes;

use crate::compose;
use crate::envelope::text_of;
use crate::members::{Members, is_object};
use crate::mrtr::InputMethod;
use crate::span::{DEEPEST, Scanner, SpanFault};

/// Capabilities that cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadCapabilities {
    /// Not one JSON object of a sensible size and depth.
    #[error("the client's capabilities are not an object within the limits")]
    NotAnObject,
    /// A member comes twice.
    #[error("the client's capabilities name a member twice")]
    Duplicate,
}

impl From<SpanFault> for BadCapabilities {
    fn from(fault: SpanFault) -> Self {
        match fault {
            SpanFault::Grammar | SpanFault::TooDeep | SpanFault::TooManyMembers => Self::NotAnObject,
            SpanFault::DuplicateKey => Self::Duplicate,
        }
    }
}

/// The largest declaration we read.
pub const LARGEST_CAPABILITIES: usize = 16 * 1024;
/// The tasks extension of the modern era.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
const MAX_DEPTH: usize = 16;

/// A client's capabilities, from a legacy `initialize` or the `_meta` of a modern request.
/// Equal if they declare the same to us and to a server, in whatever spelling.
#[derive(Clone, Default, Debug)]
pub struct Capabilities {
    sampling: Option<Declared>,
    elicitation: Option<Declared>,
    roots: Option<Declared>,
    tasks_extension: Option<Declared>,
    legacy_tasks: Option<Declared>,
    key: Vec<u8>,
}

/// A member that declares something: its raw object, and the names inside that say yes by an
/// object or `true`.
#[derive(Clone, Debug)]
struct Declared {
    raw: Bytes,
    inner: Vec<String>,
}

impl Capabilities {
    /// Reads a raw capabilities object.
    ///
    /// # Errors
    /// When it is too large, too deep, no object, or names a member twice.
    pub fn read(raw: &[u8]) -> Result<Self, BadCapabilities> {
        if raw.len() > LARGEST_CAPABILITIES || std::str::from_utf8(raw).is_err() {
            return Err(BadCapabilities::NotAnObject);
        }
        let members = Members::read(raw, MAX_DEPTH)?;
        let extension = match members.get("extensions").filter(|raw| is_object(raw)) {
            Some(extensions) => Declared::read(Members::read(extensions, MAX_DEPTH)?.get(TASKS_EXTENSION))?,
            None => None,
        };
        let mut capabilities = Self {
            sampling: Declared::read(members.get("sampling"))?,
            elicitation: Declared::read(members.get("elicitation"))?,
            roots: Declared::read(members.get("roots"))?,
            tasks_extension: extension,
            legacy_tasks: Declared::read(members.get("tasks"))?,
            key: Vec::new(),
        };
        let mut key = Vec::new();
        let (modern, legacy_tasks) = (capabilities.relayed_modern(), capabilities.legacy_tasks.as_ref());
        canonical(&modern, &mut key)?;
        if let Some(tasks) = legacy_tasks {
            canonical(&tasks.raw, &mut key)?;
        }
        capabilities.key = key;
        Ok(capabilities)
    }

    /// Whether the client can be asked for a completion.
    #[must_use]
    pub fn has_sampling(&self) -> bool {
        self.sampling.is_some()
    }

    /// Whether such a question may offer tools.
    #[must_use]
    pub fn has_sampling_tools(&self) -> bool {
        self.sampling.as_ref().is_some_and(|sampling| sampling.has("tools"))
    }

    /// Whether such a question may ask to include context.
    #[must_use]
    pub fn has_sampling_context(&self) -> bool {
        self.sampling.as_ref().is_some_and(|sampling| sampling.has("context"))
    }

    /// Whether the client shows forms: said so, or said nothing of how it elicits.
    #[must_use]
    pub fn has_form_elicitation(&self) -> bool {
        self.elicitation
            .as_ref()
            .is_some_and(|elicitation| elicitation.has("form") || !elicitation.has("url"))
    }

    /// Whether the client opens URLs.
    #[must_use]
    pub fn has_url_elicitation(&self) -> bool {
        self.elicitation
            .as_ref()
            .is_some_and(|elicitation| elicitation.has("url"))
    }

    /// Whether the client lists roots.
    #[must_use]
    pub fn has_roots(&self) -> bool {
        self.roots.is_some()
    }

    /// Whether the client tells when its roots change.
    #[must_use]
    pub fn has_roots_list_changed(&self) -> bool {
        self.roots.as_ref().is_some_and(|roots| roots.has("listChanged"))
    }

    /// Whether the client takes tasks of the modern era.
    #[must_use]
    pub fn has_tasks_extension(&self) -> bool {
        self.tasks_extension.is_some()
    }

    /// Whether the client declared the experimental tasks of 2025-11-25.
    #[must_use]
    pub fn has_legacy_tasks(&self) -> bool {
        self.legacy_tasks.is_some()
    }

    /// Whether a server may ask this client for `method` with these raw `params`.
    #[must_use]
    pub fn allows(&self, method: InputMethod, params: Option<&[u8]>) -> bool {
        let Ok(params) = Members::read(params.unwrap_or(b"{}"), DEEPEST) else {
            return false;
        };
        match method {
            InputMethod::CreateMessage => {
                let wants_tools = params.get("tools").is_some() || params.get("toolChoice").is_some();
                self.has_sampling() && (!wants_tools || self.has_sampling_tools())
            }
            InputMethod::Elicit => match params.get("mode").map(text_of) {
                None => self.has_form_elicitation(),
                Some(Some(mode)) if mode == "form" => self.has_form_elicitation(),
                Some(Some(mode)) if mode == "url" => self.has_url_elicitation(),
                Some(_) => false,
            },
            InputMethod::ListRoots => self.has_roots(),
        }
    }

    /// The capabilities we declare to a legacy server on this client's behalf.
    #[must_use]
    pub fn relayed_legacy(&self) -> Vec<u8> {
        self.relayed(None)
    }

    /// The capabilities we declare to a modern server on this client's behalf.
    #[must_use]
    pub fn relayed_modern(&self) -> Vec<u8> {
        self.relayed(self.tasks_extension.as_ref())
    }

    /// A canonical form: the same for all spellings of the same declaration.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        if self.key.is_empty() { b"{}" } else { &self.key }
    }

    fn relayed(&self, tasks_extension: Option<&Declared>) -> Vec<u8> {
        let mut out = b"{".to_vec();
        for (name, declared) in [
            ("sampling", &self.sampling),
            ("elicitation", &self.elicitation),
            ("roots", &self.roots),
        ] {
            if let Some(declared) = declared {
                member(name, &declared.raw, &mut out);
            }
        }
        if let Some(tasks) = tasks_extension {
            let mut extensions = b"{".to_vec();
            member(TASKS_EXTENSION, &tasks.raw, &mut extensions);
            extensions.push(b'}');
            member("extensions", &extensions, &mut out);
        }
        out.push(b'}');
        out
    }
}

impl PartialEq for Capabilities {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Capabilities {}

impl std::hash::Hash for Capabilities {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl Declared {
    /// `None` if there is no such member, or it is no object.
    fn read(raw: Option<&[u8]>) -> Result<Option<Self>, SpanFault> {
        let Some(raw) = raw.filter(|raw| is_object(raw)) else {
            return Ok(None);
        };
        let members = Members::read(raw, MAX_DEPTH)?;
        let says_yes = |name: &str| {
            members
                .get(name)
                .is_some_and(|value| is_object(value) || value == b"true")
        };
        let inner = members.iter().map(|member| member.name.as_ref());
        let inner = inner.filter(|name| says_yes(name)).map(str::to_owned).collect();
        let raw = Bytes::copy_from_slice(raw);
        Ok(Some(Self { raw, inner }))
    }

    fn has(&self, name: &str) -> bool {
        self.inner.iter().any(|known| known == name)
    }
}

/// Writes a member of an object that was opened in `out`.
fn member(name: &str, raw: &[u8], out: &mut Vec<u8>) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    compose::string(name, out);
    out.push(b':');
    out.extend_from_slice(raw);
}

/// Writes a raw value with sorted names, one spelling of strings and no white space. Numbers keep
/// their spelling: two spellings of one number only cost a session more.
fn canonical(raw: &[u8], out: &mut Vec<u8>) -> Result<(), SpanFault> {
    match raw.first() {
        Some(b'{') => {
            let members = Members::read(raw, MAX_DEPTH)?;
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_unstable_by(|one, other| one.name.cmp(&other.name));
            out.push(b'{');
            for one in sorted {
                member(&one.name, b"", out);
                canonical(raw.get(one.value.clone()).unwrap_or_default(), out)?;
            }
            out.push(b'}');
        }
        Some(b'[') => {
            let mut scanner = Scanner::new(raw, MAX_DEPTH);
            scanner.expect(b'[')?;
            out.push(b'[');
            while scanner.peek() != Some(b']') {
                let span = scanner.value(1)?;
                canonical(raw.get(span).unwrap_or_default(), out)?;
                if scanner.take(b',') {
                    out.push(b',');
                }
            }
            out.push(b']');
        }
        _ => match text_of(raw) {
            Some(text) => compose::string(&text, out),
            None => out.extend_from_slice(raw),
        },
    }
    Ok(())
}

#[cfg(test)]
mod tests;
