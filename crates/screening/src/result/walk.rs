//! Finds every string and number in what a server sent, and says what each one is: one pass over the raw bytes, no tree,
//! no recursion. Members that come twice are all taken, in whatever order and spelling.

mod file;
mod pair;
mod pointer;
mod role;
mod walker;

use std::borrow::Cow;
use std::ops::Range;

use vocabulary::json::plain_length;
use vocabulary::json::scanned;
use vocabulary::json::span::{Span, SpanFault, decode_name};

pub use file::Label;
pub use pointer::pointers;

/// What a message is, which says where its text is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// The result of `tools/call`.
    ToolResult,
    /// The result of `resources/read`.
    ResourceRead,
    /// The result of `prompts/get`.
    PromptGet,
    /// The state of a task; its `result` is a tool's.
    TaskState,
    /// An error: `code`, `message` and `data`.
    Error,
    /// Anything else that is no definition: completions, notifications, requests of servers, tasks.
    Other,
    /// Definitions of tools, prompts and resources, and instructions.
    Definitions,
}

/// A string or a number of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Literal {
    start: u32,
    end: u32,
    /// Where the name of the member begins that it is, or is in an array of.
    name: Option<NameStart>,
    kind: LiteralKind,
    place: Place,
}

/// Names stand behind a brace and a quote, so none begins at 0.
type NameStart = std::num::NonZeroU32;

/// What a literal is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LiteralKind {
    /// The value of a string.
    Text,
    /// The name of a member that is not one of the protocol's in its place.
    Name,
    /// A number of at least [`SHORTEST_NUMBER`] bytes.
    Number,
}

/// Shorter numbers are not told: they hold no secret, and an array of them would be several times larger as a list.
pub const SHORTEST_NUMBER: usize = 4;

/// Where a literal stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In a content block, a prompt's message or a resource's content.
    Block {
        /// Which, counted over the whole message.
        block: u32,
        /// Where in it.
        part: Part,
    },
    /// In `structuredContent`.
    Structured,
    /// In `_meta`, or in a member we do not know.
    Meta,
    /// In a message all of whose strings are alike.
    Free,
    /// In a definition.
    Definition,
    /// The value of a member that says what the message is.
    Protocol,
}

/// A part of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Its `text`.
    Text,
    /// Its `annotations`.
    Annotations,
    /// Its `data`: the bytes of a picture or a sound, in base64.
    Data,
    /// The bytes of a file, in base64.
    Blob,
    /// Either of them that does not begin as pictures, sounds and archives do.
    File,
    /// Something else where one of these two belongs.
    Misplaced,
    /// The embedded resource.
    Embedded,
    /// What says what the block is: `type`, `mimeType`, `uri`.
    Protocol,
    /// `_meta`, and members we do not know.
    Other,
}

/// A content block, or a resource's content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// What it is.
    pub kind: BlockKind,
    /// What its MIME type says, of a resource's content.
    pub mime: Mime,
    /// What the MIME type says of the file in it, its own or that of the resource in it.
    pub label: Label,
    /// Where it lies in the message.
    pub span: Range<usize>,
    /// Whether it stands in a list of content blocks, so that another can stand behind it.
    pub in_list: bool,
    /// Whether it says what it is.
    named: bool,
}

/// What a block calls itself. Where it says several things, text counts most: somebody may read it. So does one that
/// says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockKind {
    /// `text`
    Text,
    /// `image`
    Image,
    /// `audio`
    Audio,
    /// `resource`
    Resource,
    /// `resource_link`
    ResourceLink,
    /// Something else, or several things.
    Unknown,
    /// An element of the `contents` of `resources/read`.
    Contents,
}

/// Whether text of this MIME type is fenced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mime {
    /// No type is given.
    Missing,
    /// Plain text, Markdown or HTML.
    Prose,
    /// Anything else.
    Other,
}

/// Whether a literal may be edited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Editable {
    /// A mask may stand in it, and things may be stripped from it.
    Yes,
    /// Never: what needs an edit there withholds the message.
    No,
}

/// Whether a literal is looked through for secrets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scanned {
    /// It is.
    Yes,
    /// It is a file in base64: what it decodes to is.
    Inside,
    /// It is a picture, a sound or an archive.
    No,
}

/// The braces of an object: where something can be inserted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Braces {
    /// The place behind the opening brace.
    pub open: usize,
    /// Whether members stand there, forged ones not counted.
    pub has_members: bool,
}

/// Everything that was found in a message.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Walked {
    literals: Vec<Literal>,
    blocks: Vec<Block>,
    top: Option<Braces>,
    metas: Vec<Braces>,
    forged: Vec<Range<usize>>,
    feigned: Vec<Range<usize>>,
}

/// Goes through a message.
///
/// # Errors
/// When it is not one JSON document in UTF-8, nested too deeply, or of 4 GiB and more.
pub fn walk(raw: &[u8], message: Message) -> Result<Walked, SpanFault> {
    std::str::from_utf8(raw).map_err(|_| SpanFault::Grammar)?;
    walker::walk(raw, message, None)
}

/// The same for a message that was read through before, without what lies in the value at `quiet`. Only the pipeline
/// may leave something out, since only it knows why nothing can come of it.
///
/// # Errors
/// When it is nested too deeply, or of 4 GiB and more.
pub(super) fn walk_scanned(
    scanned: &scanned::Scanned,
    message: Message,
    quiet: Option<Span>,
) -> Result<Walked, SpanFault> {
    walker::walk(scanned.bytes(), message, quiet)
}

impl Literal {
    /// What stands between the quotes, or the number.
    #[must_use]
    pub fn span(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> LiteralKind {
        self.kind
    }

    /// Where it stands.
    #[must_use]
    pub fn place(&self) -> Place {
        self.place
    }

    /// Whether both are strings of one array, or of one member that comes twice.
    #[must_use]
    pub fn is_beside(&self, other: &Self) -> bool {
        self.name.is_some()
            && self.name == other.name
            && (self.kind, other.kind) == (LiteralKind::Text, LiteralKind::Text)
    }

    /// The name of the member it is the value of, or stands in an array of.
    #[must_use]
    pub fn name<'a>(&self, raw: &'a [u8]) -> Option<Cow<'a, str>> {
        let rest = raw.get(self.name?.get() as usize..)?;
        let mut length = 0;
        loop {
            length += plain_length(rest.get(length..)?);
            match rest.get(length)? {
                b'\\' => length += 2,
                _ => return decode_name(rest.get(..length)?),
            }
        }
    }
}

impl Walked {
    /// Every literal, in the order of the message; empty strings are left out.
    #[must_use]
    pub fn literals(&self) -> &[Literal] {
        &self.literals
    }

    /// Every block, in the order of the message.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The result that says what was cut, if it is an object: the message itself, or the result in the state of a task.
    #[must_use]
    pub fn top(&self) -> Option<Braces> {
        self.top
    }

    /// The `_meta` objects at the top of that; more than one if the name comes more than once.
    #[must_use]
    pub fn metas(&self) -> &[Braces] {
        &self.metas
    }

    /// Members that bear our name, of any `_meta` that the protocol knows, each with its comma: take them away. Nothing
    /// in them is told among the literals.
    #[must_use]
    pub fn forged(&self) -> &[Range<usize>] {
        &self.forged
    }

    /// Members by which the `data` of an error would be taken for a refusal of ours, each with its comma: take them
    /// away. Nothing in them is told among the literals.
    #[must_use]
    pub fn feigned(&self) -> &[Range<usize>] {
        &self.feigned
    }

    /// Whether a literal may be edited.
    #[must_use]
    pub fn editable(&self, literal: &Literal) -> Editable {
        match literal.kind {
            LiteralKind::Name | LiteralKind::Number => return Editable::No,
            LiteralKind::Text => {}
        }
        match literal.place {
            Place::Structured | Place::Meta | Place::Free => Editable::Yes,
            Place::Definition | Place::Protocol => Editable::No,
            Place::Block { block, part } => match (self.kind(block), part) {
                (BlockKind::Text | BlockKind::Contents, Part::Text | Part::Other) => Editable::Yes,
                (
                    BlockKind::Text
                    | BlockKind::Contents
                    | BlockKind::Image
                    | BlockKind::Audio
                    | BlockKind::Resource
                    | BlockKind::ResourceLink
                    | BlockKind::Unknown,
                    _,
                ) => Editable::No,
            },
        }
    }

    /// Whether a literal is looked through for secrets.
    #[must_use]
    pub fn scanned(&self, literal: &Literal) -> Scanned {
        let Place::Block { block, part } = literal.place else {
            return Scanned::Yes;
        };
        match (self.kind(block), part) {
            (_, Part::File) => Scanned::Inside,
            (BlockKind::Image | BlockKind::Audio, Part::Data)
            | (BlockKind::Resource | BlockKind::Contents, Part::Blob) => match self.label(block) {
                Label::Binary => Scanned::No,
                Label::Missing | Label::Other => Scanned::Inside,
            },
            (
                BlockKind::Text
                | BlockKind::Image
                | BlockKind::Audio
                | BlockKind::Resource
                | BlockKind::ResourceLink
                | BlockKind::Unknown
                | BlockKind::Contents,
                _,
            ) => Scanned::Yes,
        }
    }

    /// The block whose text a literal is: what is cut, and joined with its neighbours.
    #[must_use]
    pub fn text_of(&self, literal: &Literal) -> Option<usize> {
        match (literal.kind, literal.place) {
            (
                LiteralKind::Text,
                Place::Block {
                    block,
                    part: Part::Text,
                },
            ) => match self.kind(block) {
                BlockKind::Text | BlockKind::Contents => Some(block as usize),
                BlockKind::Image
                | BlockKind::Audio
                | BlockKind::Resource
                | BlockKind::ResourceLink
                | BlockKind::Unknown => None,
            },
            (LiteralKind::Text | LiteralKind::Name | LiteralKind::Number, _) => None,
        }
    }

    /// Whether a literal is a text that is fenced if it is untrusted.
    #[must_use]
    pub fn is_fenced(&self, literal: &Literal) -> bool {
        let mime = self.text_of(literal).and_then(|block| self.blocks.get(block));
        mime.is_some_and(|block| block.kind == BlockKind::Text || block.mime != Mime::Other)
    }

    /// Whether a block is text and follows text, so that a secret may reach over the border.
    #[must_use]
    pub fn joins_previous(&self, block: usize) -> bool {
        let kind = |block: usize| self.blocks.get(block).map(|block| block.kind);
        match kind(block) {
            Some(same @ (BlockKind::Text | BlockKind::Contents)) => block.checked_sub(1).and_then(kind) == Some(same),
            Some(
                BlockKind::Image
                | BlockKind::Audio
                | BlockKind::Resource
                | BlockKind::ResourceLink
                | BlockKind::Unknown,
            )
            | None => false,
        }
    }

    fn label(&self, block: u32) -> Label {
        let block = self.blocks.get(block as usize);
        block.map_or(Label::Other, |block| block.label)
    }

    fn kind(&self, block: u32) -> BlockKind {
        let block = self.blocks.get(block as usize);
        block.map_or(BlockKind::Unknown, |block| block.kind)
    }
}

#[cfg(test)]
mod tests;
