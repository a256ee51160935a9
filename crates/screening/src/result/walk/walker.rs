//! The pass itself: a stack of open containers, and for each value the role that its place gives it.

use vocabulary::json::span::{DEEPEST, Scanner, Span, SpanFault};

use super::file::{Label, begins_as_binary, is_encoded};
use super::role::{Name, Role, feigns, kind, mime, of_element, of_member, place};
use super::{
    Block, BlockKind, Braces, Literal, LiteralKind, Message, Mime, NameStart, Part, Place, SHORTEST_NUMBER, Walked,
};

/// Walks through UTF-8, but for the value at `quiet`.
pub(super) fn walk(raw: &[u8], message: Message, quiet: Option<Span>) -> Result<Walked, SpanFault> {
    if u32::try_from(raw.len()).is_err() {
        return Err(SpanFault::Grammar);
    }
    let heard = raw.len() - quiet.as_ref().map_or(0, Span::len);
    let mut walker = Walker {
        raw,
        message,
        scanner: Scanner::new(raw, DEEPEST),
        open: Vec::new(),
        quiet,
        walked: Walked {
            // Data has a literal in about as many bytes; a long text needs none of the room, and none is touched.
            literals: Vec::with_capacity(heard / 32),
            ..Walked::default()
        },
    };
    let mut next = Next {
        role: Role::Top,
        name: None,
    };
    loop {
        if let Some(first) = walker.begin(next)? {
            next = first;
            continue;
        }
        match walker.end()? {
            Some(follows) => next = follows,
            None => break,
        }
    }
    walker.scanner.finish()?;
    Ok(walker.walked)
}

struct Walker<'a> {
    raw: &'a [u8],
    message: Message,
    scanner: Scanner<'a>,
    open: Vec<Frame>,
    /// A value that nothing is told of.
    quiet: Option<Span>,
    walked: Walked,
}

/// A value that is about to be read.
#[derive(Clone, Copy)]
struct Next {
    role: Role,
    /// The name of the member it belongs to.
    name: Option<NameStart>,
}

/// A container whose end has not been met.
struct Frame {
    role: Role,
    shape: Shape,
    /// The member that the container belongs to.
    name: Option<NameStart>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Array,
    Object(Members),
}

/// What is remembered of an object's members.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Members {
    /// The comma before the current one.
    comma: usize,
    /// Where the current one begins.
    start: usize,
    /// The current one is forged.
    forged: bool,
    /// One before it stays.
    stays: bool,
}

impl Walker<'_> {
    /// Takes a scalar or an empty container, or opens one and tells what comes first in it.
    fn begin(&mut self, next: Next) -> Result<Option<Next>, SpanFault> {
        if self.quiet.as_ref().is_some_and(|quiet| self.scanner.pass_over(quiet)) {
            return Ok(None);
        }
        match self.scanner.peek() {
            Some(b'{') => self.open_object(next),
            Some(b'[') => self.open_array(next),
            Some(b'"') => {
                let span = self.scanner.value(self.open.len())?;
                self.string(next, span.start + 1..span.end - 1);
                Ok(None)
            }
            Some(b'-' | b'0'..=b'9') => {
                let span = self.scanner.value(self.open.len())?;
                if span.len() >= SHORTEST_NUMBER {
                    self.tell(next, LiteralKind::Number, span);
                }
                Ok(None)
            }
            Some(_) | None => self.scanner.value(self.open.len()).map(|_| None),
        }
    }

    fn open_object(&mut self, next: Next) -> Result<Option<Next>, SpanFault> {
        self.scanner.enter(self.open.len())?;
        let behind = self.scanner.position();
        let role = match next.role {
            Role::Content => Role::Block(self.open_block(behind - 1, BlockKind::Unknown)),
            Role::Contents => Role::Block(self.open_block(behind - 1, BlockKind::Contents)),
            Role::ErrorData if feigns(self.raw.get(behind - 1..).unwrap_or_default()) => Role::Feigned,
            Role::Top
            | Role::TaskResult
            | Role::TopMeta
            | Role::InnerMeta(_)
            | Role::Forged
            | Role::TaskError
            | Role::ErrorData
            | Role::Feigned
            | Role::Messages
            | Role::Message
            | Role::Block(_)
            | Role::BlockType(_)
            | Role::BlockMime(_)
            | Role::Resource(_)
            | Role::ResourceMime(_)
            | Role::Within(_) => next.role,
        };
        let braces = Braces {
            open: behind,
            has_members: false,
        };
        if self.says_what_was_cut(role) {
            self.walked.top = Some(braces);
        } else if role == Role::TopMeta && self.is_within_that() {
            self.walked.metas.push(braces);
        }
        let mut frame = Frame {
            role,
            shape: Shape::Object(Members::default()),
            name: next.name,
        };
        if self.scanner.take(b'}') {
            self.close(&frame);
            return Ok(None);
        }
        let first = self.member(&mut frame, behind)?;
        self.open.push(frame);
        Ok(Some(first))
    }

    /// The result of a tool, which is further in where it is the result of a task.
    fn says_what_was_cut(&self, role: Role) -> bool {
        role == match self.message {
            Message::TaskState => Role::TaskResult,
            Message::ToolResult
            | Message::ResourceRead
            | Message::PromptGet
            | Message::Error
            | Message::Other
            | Message::Definitions => Role::Top,
        }
    }

    fn is_within_that(&self) -> bool {
        self.open
            .last()
            .is_some_and(|around| self.says_what_was_cut(around.role))
    }

    fn open_array(&mut self, next: Next) -> Result<Option<Next>, SpanFault> {
        if self.open.len() >= DEEPEST {
            return Err(SpanFault::TooDeep);
        }
        self.scanner.expect(b'[')?;
        if self.scanner.take(b']') {
            return Ok(None);
        }
        self.open.push(Frame {
            role: next.role,
            shape: Shape::Array,
            name: next.name,
        });
        Ok(Some(Next {
            role: of_element(next.role, self.message),
            name: next.name,
        }))
    }

    /// A value has ended: closes what ends with it and tells what follows; `None` at the end of the message.
    fn end(&mut self) -> Result<Option<Next>, SpanFault> {
        while let Some(mut frame) = self.open.pop() {
            let end = self.scanner.position();
            let more = self.scanner.take(b',');
            let behind = self.scanner.position();
            match &mut frame.shape {
                Shape::Array if more => {
                    let next = Next {
                        role: of_element(frame.role, self.message),
                        name: frame.name,
                    };
                    self.open.push(frame);
                    return Ok(Some(next));
                }
                Shape::Array => self.scanner.expect(b']')?,
                Shape::Object(members) => {
                    if members.forged {
                        // With the comma before it, or with the one behind it if nothing before it stays.
                        let range = match (members.stays, more) {
                            (true, _) => members.comma..end,
                            (false, true) => members.start..behind,
                            (false, false) => members.start..end,
                        };
                        if frame.role == Role::Feigned {
                            self.walked.feigned.push(range);
                        } else {
                            self.walked.forged.push(range);
                        }
                    } else {
                        members.stays = true;
                    }
                    if more {
                        let next = self.member(&mut frame, behind)?;
                        self.open.push(frame);
                        return Ok(Some(next));
                    }
                    self.scanner.expect(b'}')?;
                }
            }
            self.close(&frame);
        }
        Ok(None)
    }

    /// Takes a name; `behind` is the place behind the comma or the brace before it.
    fn member(&mut self, frame: &mut Frame, behind: usize) -> Result<Next, SpanFault> {
        let span = self.scanner.key_span()?;
        let spelled = self.raw.get(span.clone()).unwrap_or_default();
        let (role, known) = of_member(frame.role, spelled, self.message);
        let next = Next {
            role,
            name: NameStart::new(short(span.start)),
        };
        if let Shape::Object(members) = &mut frame.shape {
            members.comma = behind - 1;
            members.start = span.start - 1;
            members.forged = role == Role::Forged && frame.role != Role::Forged;
        }
        if known == Name::Unknown && !span.is_empty() {
            self.tell(next, LiteralKind::Name, span);
        }
        Ok(next)
    }

    fn open_block(&mut self, start: usize, kind: BlockKind) -> u32 {
        let in_list = self
            .open
            .last()
            .is_some_and(|frame| frame.shape == Shape::Array && frame.role == Role::Content);
        let number = short(self.walked.blocks.len());
        self.walked.blocks.push(Block {
            kind,
            mime: Mime::Missing,
            label: Label::Missing,
            span: start..start,
            in_list,
            named: false,
        });
        number
    }

    /// The scanner stands behind the end of a container.
    fn close(&mut self, frame: &Frame) {
        let has_members = matches!(frame.shape, Shape::Object(Members { stays: true, .. }));
        let end = self.scanner.position();
        match frame.role {
            Role::Block(number) => self.block(number, |block| {
                block.span.end = end;
                block.settle();
            }),
            Role::Top | Role::TaskResult if self.says_what_was_cut(frame.role) => {
                if let Some(top) = &mut self.walked.top {
                    top.has_members = has_members;
                }
            }
            Role::TopMeta if self.is_within_that() => {
                if let (Some(meta), Shape::Object(_)) = (self.walked.metas.last_mut(), frame.shape) {
                    meta.has_members = has_members;
                }
            }
            Role::Top
            | Role::TaskResult
            | Role::TopMeta
            | Role::InnerMeta(_)
            | Role::TaskError
            | Role::ErrorData
            | Role::Feigned
            | Role::Forged
            | Role::Content
            | Role::Contents
            | Role::Messages
            | Role::Message
            | Role::BlockType(_)
            | Role::BlockMime(_)
            | Role::Resource(_)
            | Role::ResourceMime(_)
            | Role::Within(_) => {}
        }
    }

    fn block(&mut self, number: u32, change: impl FnOnce(&mut Block)) {
        if let Some(block) = self.walked.blocks.get_mut(number as usize) {
            change(block);
        }
    }

    fn string(&mut self, mut next: Next, span: Span) {
        let text = self.raw.get(span.clone()).unwrap_or_default();
        match next.role {
            Role::Content => next.role = self.bare_text(&span, BlockKind::Text),
            Role::Contents => next.role = self.bare_text(&span, BlockKind::Contents),
            Role::BlockType(number) => {
                let told = kind(text);
                self.block(number, |block| block.say(told));
                if told != BlockKind::Unknown {
                    return;
                }
            }
            Role::BlockMime(number) => {
                let told = mime(text);
                self.block(number, |block| {
                    if block.mime != Mime::Prose {
                        block.mime = told;
                    }
                    block.label = block.label.and(Label::of(text));
                });
            }
            Role::ResourceMime(number) => {
                self.block(number, |block| block.label = block.label.and(Label::of(text)));
            }
            Role::Top
            | Role::TaskResult
            | Role::TopMeta
            | Role::InnerMeta(_)
            | Role::Forged
            | Role::TaskError
            | Role::ErrorData
            | Role::Feigned
            | Role::Messages
            | Role::Message
            | Role::Block(_)
            | Role::Resource(_)
            | Role::Within(_) => {}
        }
        if !span.is_empty() {
            self.tell(next, LiteralKind::Text, span);
        }
    }

    /// A string where a block should stand is the text of one: that is how somebody will read it.
    fn bare_text(&mut self, span: &Span, kind: BlockKind) -> Role {
        let number = self.open_block(span.start - 1, kind);
        self.block(number, |block| {
            block.span.end = span.end + 1;
            block.named = true;
        });
        Role::Within(Place::Block {
            block: number,
            part: Part::Text,
        })
    }

    fn tell(&mut self, next: Next, kind: LiteralKind, span: Span) {
        if next.role == Role::Forged {
            return;
        }
        let mut place = place(next.role, self.message);
        if let Place::Block {
            part: part @ (Part::Data | Part::Blob),
            ..
        } = &mut place
        {
            let raw = self.raw.get(span.clone()).unwrap_or_default();
            if !is_encoded(kind, raw) {
                *part = Part::Misplaced;
            } else if !begins_as_binary(raw) {
                *part = Part::File;
            }
        }
        self.walked.literals.push(Literal {
            start: short(span.start),
            end: short(span.end),
            name: next.name,
            kind,
            place,
        });
    }
}

impl Block {
    /// A block that does not say what it is counts as text: somebody may read it so.
    fn settle(&mut self) {
        if !self.named && self.kind == BlockKind::Unknown {
            self.kind = BlockKind::Text;
        }
    }

    /// The block names its type. Several that differ make it unknown, unless one of them is text.
    fn say(&mut self, told: BlockKind) {
        self.named = true;
        self.kind = match (self.kind, told) {
            (BlockKind::Contents, _) => BlockKind::Contents,
            (BlockKind::Text, _) | (_, BlockKind::Text) => BlockKind::Text,
            (BlockKind::Unknown, told) => told,
            (before @ (BlockKind::Image | BlockKind::Audio | BlockKind::Resource | BlockKind::ResourceLink), told) => {
                if before == told {
                    told
                } else {
                    BlockKind::Unknown
                }
            }
        };
    }
}

/// An offset into a message, of which it is known that it has less than 4 GiB.
fn short(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}
