//! What a value is, from the place it stands in: the shapes of the protocol's messages.

use std::borrow::Cow;

use vocabulary::json::span::{DEEPEST, Scanner};

use crate::result::STRUCTURED;
use crate::result::edit::units::decoded;

use super::{BlockKind, Message, Mime, Part, Place};

/// What a value is, before it is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// The message.
    Top,
    /// The result of a tool within the state of a task.
    TaskResult,
    /// The `_meta` of the message, or of the result in it.
    TopMeta,
    /// The `_meta` of something in it: a block, a resource, a message, a definition.
    InnerMeta(Place),
    /// A member that only we may write.
    Forged,
    /// The error in the state of a task.
    TaskError,
    /// The `data` of an error.
    ErrorData,
    /// The same, where it would be taken for a refusal of ours.
    Feigned,
    /// A list of blocks, or one block.
    Content,
    /// The contents of a resource.
    Contents,
    /// The messages of a prompt, or of a request to a model.
    Messages,
    /// One of them.
    Message,
    /// A block (its number, once it is open).
    Block(u32),
    /// The `type` of a block.
    BlockType(u32),
    /// The `mimeType` of a block.
    BlockMime(u32),
    /// The resource in a block.
    Resource(u32),
    /// Its `mimeType`.
    ResourceMime(u32),
    /// Anything in a place.
    Within(Place),
}

/// Whether a name is one of the protocol's in its place, so that it need not be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Name {
    Known,
    Unknown,
}

/// What the member `name` (as spelled) of an object in `role` is.
pub(super) fn of_member(role: Role, name: &[u8], message: Message) -> (Role, Name) {
    // Each byte of a known name may be an escape. One of ours may be as long as it likes.
    let may_be_known =
        matches!(role, Role::TopMeta | Role::InnerMeta(_)) || name.len() <= LONGEST_KNOWN * "\\u0000".len();
    let name = if may_be_known && name.contains(&b'\\') {
        Cow::Owned(decoded(name).into_bytes())
    } else {
        Cow::Borrowed(name)
    };
    let known = match role {
        Role::Top => of_top(&name, message),
        Role::TaskResult => of_top(&name, Message::ToolResult),
        Role::TopMeta | Role::InnerMeta(_) => name.starts_with(OURS).then_some(Role::Forged),
        Role::Forged => Some(Role::Forged),
        Role::TaskError => (*name == *b"data").then_some(Role::ErrorData),
        Role::Feigned => is_of_refusals(&name).then_some(Role::Forged),
        Role::Message => match &*name {
            b"content" => Some(Role::Content),
            b"role" => Some(Role::Within(Place::Protocol)),
            b"_meta" => Some(Role::InnerMeta(place(role, message))),
            _ => None,
        },
        Role::Block(block) => of_block(&name, block),
        Role::Resource(block) => match &*name {
            b"blob" => Some(part(block, Part::Blob)),
            b"mimeType" => Some(Role::ResourceMime(block)),
            b"uri" | b"text" => Some(part(block, Part::Embedded)),
            b"_meta" => Some(Role::InnerMeta(place(role, message))),
            _ => None,
        },
        Role::Within(Place::Free) => match &*name {
            b"messages" => Some(Role::Messages),
            b"_meta" => Some(Role::InnerMeta(Place::Free)),
            _ => None,
        },
        Role::ErrorData
        | Role::Content
        | Role::Contents
        | Role::Messages
        | Role::BlockType(_)
        | Role::BlockMime(_)
        | Role::ResourceMime(_)
        | Role::Within(_) => None,
    };
    match known {
        Some(role) => (role, Name::Known),
        None => (Role::Within(place(role, message)), Name::Unknown),
    }
}

/// What an element of an array in `role` is.
pub(super) fn of_element(role: Role, message: Message) -> Role {
    match role {
        Role::Content | Role::Contents => role,
        Role::Messages => Role::Message,
        Role::Forged => Role::Forged,
        Role::Top
        | Role::TaskResult
        | Role::TopMeta
        | Role::TaskError
        | Role::ErrorData
        | Role::Feigned
        | Role::InnerMeta(_)
        | Role::Message
        | Role::Block(_)
        | Role::BlockType(_)
        | Role::BlockMime(_)
        | Role::Resource(_)
        | Role::ResourceMime(_)
        | Role::Within(_) => Role::Within(place(role, message)),
    }
}

/// The place of what is not known any better.
pub(super) fn place(role: Role, message: Message) -> Place {
    let block = |block: u32, part: Part| Place::Block { block, part };
    match role {
        Role::Top => match message {
            Message::ToolResult | Message::ResourceRead | Message::PromptGet => Place::Meta,
            Message::Other | Message::Error | Message::TaskState => Place::Free,
            Message::Definitions => Place::Definition,
        },
        Role::TaskResult => Place::Meta,
        Role::TopMeta | Role::Forged => match message {
            Message::ToolResult
            | Message::ResourceRead
            | Message::PromptGet
            | Message::TaskState
            | Message::Error
            | Message::Other => Place::Meta,
            Message::Definitions => Place::Definition,
        },
        Role::TaskError | Role::ErrorData | Role::Feigned => Place::Free,
        Role::Content | Role::Contents | Role::Messages | Role::Message => Place::Free,
        Role::Block(number) => block(number, Part::Other),
        Role::BlockType(number) | Role::BlockMime(number) => block(number, Part::Protocol),
        Role::Resource(number) | Role::ResourceMime(number) => block(number, Part::Embedded),
        Role::InnerMeta(place) | Role::Within(place) => place,
    }
}

/// The kind that the value of `type` names.
pub(super) fn kind(raw: &[u8]) -> BlockKind {
    match decoded(raw).as_str() {
        "text" => BlockKind::Text,
        "image" => BlockKind::Image,
        "audio" => BlockKind::Audio,
        "resource" => BlockKind::Resource,
        "resource_link" => BlockKind::ResourceLink,
        _ => BlockKind::Unknown,
    }
}

/// What the value of `mimeType` says; parameters do not count.
pub(super) fn mime(raw: &[u8]) -> Mime {
    let text = decoded(raw);
    let essence = text.split(';').next().unwrap_or_default().trim();
    let prose = ["", "text/plain", "text/markdown", "text/x-markdown", "text/html"];
    if prose.iter().any(|prose| essence.eq_ignore_ascii_case(prose)) {
        Mime::Prose
    } else {
        Mime::Other
    }
}

fn of_top(name: &[u8], message: Message) -> Option<Role> {
    match (name, message) {
        (b"_meta", _) => Some(Role::TopMeta),
        (b"content", Message::ToolResult) => Some(Role::Content),
        (b"structuredContent", Message::ToolResult) => Some(Role::Within(Place::Structured)),
        (b"isError", Message::ToolResult) => Some(Role::Within(Place::Protocol)),
        (b"contents", Message::ResourceRead) => Some(Role::Contents),
        (b"messages", Message::PromptGet | Message::Other) => Some(Role::Messages),
        (b"result", Message::TaskState) => Some(Role::TaskResult),
        (b"error", Message::TaskState) => Some(Role::TaskError),
        (b"data", Message::Error) => Some(Role::ErrorData),
        (b"taskId" | b"status", Message::TaskState) => Some(Role::Within(Place::Protocol)),
        (
            b"resultType",
            Message::ToolResult | Message::ResourceRead | Message::PromptGet | Message::TaskState | Message::Other,
        ) => Some(Role::Within(Place::Protocol)),
        _ => None,
    }
}

/// Whether an object, from its opening brace on, would be taken for a refusal of ours: it names reasons, or two things
/// that refusals have.
pub(super) fn feigns(raw: &[u8]) -> bool {
    let mut claimed = 0;
    let mut scanner = Scanner::new(raw, DEEPEST);
    let mut more = scanner.take(b'{');
    // What is malformed is so for the walk as well, and goes nowhere.
    while more && let Ok(name) = scanner.key_span() {
        let name = decoded(raw.get(name).unwrap_or_default());
        claimed += match name.as_bytes() {
            REASONS => ENOUGH,
            name => usize::from(is_of_refusals(name)),
        };
        more = scanner.value(1).is_ok() && scanner.take(b',');
    }
    claimed >= ENOUGH
}

fn is_of_refusals(name: &[u8]) -> bool {
    matches!(
        name,
        REASONS | b"decision" | b"receipt_id" | b"approval" | b"retry_after_ms"
    )
}

const REASONS: &[u8] = b"reason_codes";
/// How many names of a refusal make one.
const ENOUGH: usize = 2;

fn of_block(name: &[u8], block: u32) -> Option<Role> {
    Some(match name {
        b"type" => Role::BlockType(block),
        b"mimeType" => Role::BlockMime(block),
        b"resource" => Role::Resource(block),
        b"text" => part(block, Part::Text),
        b"data" => part(block, Part::Data),
        b"blob" => part(block, Part::Blob),
        b"uri" => part(block, Part::Protocol),
        b"annotations" => part(block, Part::Annotations),
        b"_meta" => Role::InnerMeta(Place::Block {
            block,
            part: Part::Other,
        }),
        _ => return None,
    })
}

fn part(block: u32, part: Part) -> Role {
    Role::Within(Place::Block { block, part })
}

/// Members of `_meta` that only we may write begin like this.
const OURS: &[u8] = b"portreeve/";
const LONGEST_KNOWN: usize = STRUCTURED.len();
