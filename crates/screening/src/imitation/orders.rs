//! Sentences in which one tool's definition tells a model what to do with another server's tool.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind, PatternID};
use regex::Regex;
use unicode_security::skeleton;
use vocabulary::ToolId;

use super::Offered;

/// Finds names of tools in texts.
pub(super) struct Mentions<'a> {
    /// By pattern, the tools that are called so.
    called: Vec<Vec<Called<'a>>>,
    /// None where there is nothing to find.
    finder: Option<AhoCorasick>,
}

/// A tool, and whether it can be called: orders about another are idle.
type Called<'a> = (&'a ToolId, bool);

impl<'a> Mentions<'a> {
    pub(super) fn new(tools: &[Offered<'a>]) -> Self {
        let mut by_name: HashMap<String, Vec<Called<'a>>> = HashMap::new();
        for tool in tools {
            let called = by_name.entry(plain(tool.id.name.as_str()).into_owned());
            called.or_default().push((tool.id, tool.in_use));
        }
        let (names, called): (Vec<String>, Vec<Vec<Called<'a>>>) = by_name.into_iter().unzip();
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .ascii_case_insensitive(true)
            .build(&names);
        Self {
            called,
            finder: finder.ok(),
        }
    }

    /// Whether a definition may name another server's tool at all: what it says plainly is found without reading it.
    pub(super) fn may_be_in(&self, definition: &[u8], speaker: &ToolId) -> bool {
        let Some(finder) = &self.finder else {
            return false;
        };
        let is_plain = definition.is_ascii() && memchr::memchr(b'\\', definition).is_none();
        let mut found = finder.find_iter(definition);
        !is_plain || found.any(|found| self.foreign(found.pattern(), speaker).is_some())
    }

    /// The first tool of another server that the text gives orders about.
    pub(super) fn ordered_about(&self, speaker: &ToolId, text: &str) -> Option<&'a ToolId> {
        let finder = self.finder.as_ref()?;
        let text = plain(text);
        finder.find_iter(&*text).find_map(|found| {
            let other = self.foreign(found.pattern(), speaker)?;
            let (before, after) = sentence(&text, found.range())?;
            let without_server = ["__", "/"].into_iter().find_map(|joint| {
                let server = before.strip_suffix(joint)?;
                server.strip_suffix(other.server.as_str())
            });
            let name = text.get(found.range())?;
            let is_meant = match without_server {
                Some(before) => is_whole(before, after),
                None => is_whole(before, after) && is_meant(name, before, after),
            };
            (is_meant && is_order(before, after)).then_some(other)
        })
    }

    /// The tool in use that a name means, unless the speaker's own server has it too: then it means its own.
    fn foreign(&self, pattern: PatternID, speaker: &ToolId) -> Option<&'a ToolId> {
        let called = self.called.get(pattern.as_usize())?;
        if called.iter().any(|(tool, _)| tool.server == speaker.server) {
            return None;
        }
        called.iter().find(|(_, in_use)| *in_use).map(|(tool, _)| *tool)
    }
}

/// Each character beyond ASCII as what it looks like, then small letters; what is plain stays as it is.
fn plain(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return match text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => Cow::Owned(text.to_ascii_lowercase()),
            false => Cow::Borrowed(text),
        };
    }
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_ascii() {
            true => plain.push(character),
            false => plain.extend(skeleton(character.encode_utf8(&mut [0; 4]))),
        }
    }
    Cow::Owned(plain.to_lowercase())
}

/// Whether no letter, digit or joint stands on either side.
fn is_whole(before: &str, after: &str) -> bool {
    let joins = |character: char| character.is_alphanumeric() || matches!(character, '_' | '-');
    !before.chars().next_back().is_some_and(joins) && !after.chars().next().is_some_and(joins)
}

/// What stands before and after a name in its sentence.
fn sentence(text: &str, name: Range<usize>) -> Option<(&str, &str)> {
    let ends = |character: char| matches!(character, '.' | '!' | '?' | ';' | '\n');
    let (before, after) = (text.get(..name.start)?, text.get(name.end..)?);
    let start = before.rfind(ends).map_or(0, |place| place + 1);
    let end = after.find(ends).unwrap_or(after.len());
    Some((before.get(start..)?, after.get(..end)?))
}

/// Whether the word is the tool's name and no ordinary word: it has a joint, is called a tool, or stands in quotes in a sentence about
/// tools.
fn is_meant(name: &str, before: &str, after: &str) -> bool {
    let quote = |character: char| matches!(character, '`' | '\'' | '"' | '“' | '”' | '‘' | '’' | '«' | '»');
    let quoted = before.chars().next_back().is_some_and(quote) && after.chars().next().is_some_and(quote);
    let about_tools = || before.contains("tool") || after.contains("tool");
    let next = after.trim_start_matches(|character: char| quote(character) || character == ' ');
    let called = ["tool", "function", "command"]
        .iter()
        .any(|word| next.starts_with(word));
    name.contains(['_', '-', '/', '.']) || called || (quoted && about_tools())
}

/// Whether a sentence tells somebody what to do.
fn is_order(before: &str, after: &str) -> bool {
    // Were the words not to be found, every mention would be an order.
    ORDERS
        .as_ref()
        .map_or(true, |orders| orders.is_match(before) || orders.is_match(after))
}

/// Words that tell a model which tool to take, or what to do before, after and instead.
static ORDERS: LazyLock<Result<Regex, regex::Error>> = LazyLock::new(|| {
    Regex::new(
        r"\b(?:instead(?:\s+of)?|rather\s+than|in\s+place\s+of|replac(?:e|es|ing)|supersedes?|overrid(?:e|es|ing)|before|prior\s+to|after|afterwards|first|always|never|must|shall|should|has\s+to|have\s+to|do\s+not|don['’]?t|cannot|ignore|avoid|stop|skip|prefer|only|whenever|every\s+time|each\s+time|when(?:ever)?\s+(?:you|using|calling)|required|mandatory|important|forward|redirect|bcc|deprecated|unsafe|broken|disabled)\b",
    )
});
