//! Finds secrets in what a server sends. It reads a view of the text (escapes decoded, invisible characters taken
//! out, adjacent blocks joined, encoded runs decoded once) and answers with places in the raw bytes. It never edits.
//! Reversed or home-made encodings are a known limit.

mod block;
mod card;
mod check;
mod digits;
mod encoded;
mod entropy;
mod escape;
mod group;
mod hidden;
mod keywords;
mod own;
mod pack;
mod quick;
mod rule;
mod sample;
mod scan;
mod search;
mod view;
mod work;

use std::ops::Range;
use std::sync::Arc;

use vocabulary::Digest;

use keywords::Keywords;
use rule::Rule;

pub use hidden::needs_view;
pub(crate) use hidden::{Written, written};
pub use own::{OWN_RULE, may_hold_own_token, own_tokens};
pub use pack::{Pack, PackFault};
pub(crate) use work::Work;

/// Decodes base64 of either alphabet; what stands behind padding is decoded as well.
pub(crate) fn decode_base64(signs: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(signs.len() / 4 * 3);
    for part in signs.split(|sign| *sign == b'=') {
        bytes.extend(encoded::base64(
            part.iter().copied().filter(|sign| !sign.is_ascii_whitespace()),
        ));
    }
    bytes
}

#[cfg(test)]
pub(crate) use sample::base64_of as encoded_base64;

/// The compiled rules. Immutable; share it in an `Arc`.
#[derive(Debug)]
pub struct Detector {
    rules: Vec<Rule>,
    keywords: Keywords,
    /// Values that documentation is full of; none of them is a secret.
    documented: std::collections::HashSet<Vec<u8>>,
    allowed: Vec<Allowed>,
    hash: Digest,
}

impl Detector {
    /// The rules that come with the gateway, alone.
    ///
    /// # Errors
    /// Never with the pack as shipped; every fault of it otherwise.
    pub fn embedded() -> Result<Self, Vec<PackFault>> {
        Self::with_packs(&[])
    }

    /// The rules that come with the gateway and those of `packs`.
    ///
    /// # Errors
    /// Every fault of every pack, with file and line. Examples in `packs` are tried here, so that a rule which does
    /// not find what its author means is refused at start and not discovered in an incident.
    pub fn with_packs(packs: &[Pack<'_>]) -> Result<Self, Vec<PackFault>> {
        let further: Vec<Pack<'_>> = std::iter::once(own::OWN).chain(packs.iter().copied()).collect();
        pack::compile(EMBEDDED, &further)
    }

    /// The digest of all rules: what was scanned under another one has to be scanned again.
    #[must_use]
    pub fn hash(&self) -> Digest {
        self.hash
    }

    /// Finds secrets in `pieces`, in document order. Parts of two findings may overlap, but none that says nothing new
    /// is given.
    #[must_use]
    pub fn find(&self, pieces: &[Piece<'_>], excuse: &Excuse<'_>) -> Vec<Finding> {
        let bytes = pieces.iter().map(|piece| piece.raw.len()).sum();
        self.find_with(pieces, excuse, &mut Work::of(bytes))
    }

    /// The same for some pieces of a larger message, whose work they share.
    pub(crate) fn find_with(&self, pieces: &[Piece<'_>], excuse: &Excuse<'_>, work: &mut Work) -> Vec<Finding> {
        search::run(self, pieces, excuse, work)
    }

    /// Whether a JSON value, which is the member `name` or stands in it, can be passed over: nothing in it is hidden, and
    /// no rule could find anything in its names, strings and numbers, neither in one nor in several together.
    pub(crate) fn passes_over(&self, name: &str, json: &[u8]) -> bool {
        !self.keywords.any(name.as_bytes()) && quick::is_quiet(self, json)
    }

    /// How many rules there are, by category and by what is done with a match.
    #[must_use]
    pub fn count(&self, category: Category, redact: Redact) -> usize {
        let wanted = |rule: &&Rule| rule.category == category && rule.redact == redact;
        self.rules.iter().filter(wanted).count()
    }
}

/// One string or number of a JSON document.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// What stands between the quotes, escapes as written.
    pub raw: &'a [u8],
    /// The nearest member name, decoded: context for rules that need one.
    pub name: Option<&'a str>,
    /// Whether it continues the piece before it.
    pub joins: Joins,
    /// What it is.
    pub kind: PieceKind,
}

/// Whether a piece is looked at as one text with its neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Joins {
    /// It stands alone.
    Nothing,
    /// It is a text block right behind the piece before it.
    Previous,
}

/// What a piece of a document is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PieceKind {
    /// The content of a string.
    Text,
    /// A member name.
    Name,
    /// A bare number: only card rules look at it, and only under a name that speaks of cards.
    Number,
}

/// A secret, and where it lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The rule that found it.
    pub rule: Arc<str>,
    /// What it is.
    pub category: Category,
    /// How bad it is.
    pub severity: Severity,
    /// Index of a piece and bytes of its `raw`, whole characters and whole escapes; in document order, never empty.
    pub parts: Vec<(usize, Range<usize>)>,
    /// Whether it is to be masked.
    pub redact: Redact,
}

/// Whose result is scanned: operators excuse rules by server and tool.
#[derive(Clone, Copy, Debug)]
pub struct Excuse<'a> {
    /// The server's id.
    pub server: &'a str,
    /// The tool's name; empty for what no tool sent.
    pub tool: &'a str,
}

vocabulary::words! {
    /// What kind of secret; the word in the mask.
    #[derive(PartialOrd, Ord, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Category {
        /// A private key.
        PrivateKey = "private_key",
        /// Keys of cloud providers.
        CloudCredentials = "cloud_credentials",
        /// Tokens of services.
        ApiToken = "api_token",
        /// Passwords of databases.
        DatabaseCredential = "database_credential",
        /// JWTs and values of authorization headers.
        AuthToken = "auth_token",
        /// Card numbers.
        CreditCard = "credit_card",
        /// Something random beside a name that speaks of secrets.
        HighEntropy = "high_entropy",
        /// The path of a file that holds secrets.
        SensitiveFile = "sensitive_file",
        /// An operator's own.
        Custom = "custom",
    }
}

vocabulary::words! {
    /// How bad a finding is. Only a critical one blocks.
    #[derive(PartialOrd, Ord, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Severity {
        /// Worth a line in a record.
        Info = "info",
        /// Perhaps a secret, or one of little use.
        Medium = "medium",
        /// A secret.
        High = "high",
        /// A secret that opens a door by itself.
        Critical = "critical",
    }
}

/// What is done with a match when results are redacted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Redact {
    /// Its parts are masked.
    Mask,
    /// It is told, and stays.
    DetectOnly,
}

/// An operator's word that a rule does not apply to a tool.
#[derive(Debug)]
struct Allowed {
    rule: Arc<str>,
    server: Name,
    tool: Name,
}

/// Which servers or tools an operator means.
#[derive(Debug)]
enum Name {
    /// Written as `*`.
    Any,
    Exactly(String),
}

impl Name {
    fn covers(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exactly(wanted) => wanted == name,
        }
    }
}

impl Detector {
    /// Which rules an operator excused here; most often none.
    fn excused(&self, excuse: &Excuse<'_>) -> Vec<&str> {
        let here = |allowed: &&Allowed| {
            &*allowed.rule != OWN_RULE && allowed.server.covers(excuse.server) && allowed.tool.covers(excuse.tool)
        };
        self.allowed.iter().filter(here).map(|allowed| &*allowed.rule).collect()
    }
}

/// What the first line of a key begins with. The strings of an array that begins so are read together.
pub(crate) const ARMOUR: &[u8] = b"-----BEGIN";

/// Packs are read whole at build time: a gateway without its rules cannot be installed.
const EMBEDDED: Pack<'static> = Pack {
    name: "rules/secrets.toml",
    text: include_str!("../rules/secrets.toml"),
};

#[cfg(test)]
mod tests;
