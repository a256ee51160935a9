//! Sentences in which one tool's definition tells a model what to do with another server's tool.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use regex::Regex;
use unicode_security::skeleton;
use vocabulary::{ServerId, ToolId};

use super::Offered;

/// Finds names of tools in texts.
pub(super) struct Mentions<'a> {
    /// By pattern, the tools that are called so.
    called: Vec<Vec<&'a ToolId>>,
    /// None where there is only one server, or nothing to find: then nobody gives orders about another's.
    finder: Option<AhoCorasick>,
}

impl<'a> Mentions<'a> {
    pub(super) fn new(tools: &[Offered<'a>]) -> Self {
        let servers: BTreeSet<&ServerId> = tools.iter().map(|tool| &tool.id.server).collect();
        if servers.len() < 2 {
            return Self {
                called: Vec::new(),
                finder: None,
            };
        }
        let mut by_name: HashMap<String, Vec<&ToolId>> = HashMap::new();
        for tool in tools {
            let name = plain(tool.id.name.as_str());
            let server = tool.id.server.as_str();
            for called in [format!("{server}__{name}"), format!("{server}/{name}"), name] {
                by_name.entry(called).or_default().push(tool.id);
            }
        }
        let (names, called): (Vec<String>, Vec<Vec<&ToolId>>) = by_name.into_iter().unzip();
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(&names);
        Self {
            called,
            finder: finder.ok(),
        }
    }

    /// The first tool of another server that the text gives orders about. A name that the server itself has is its own.
    pub(super) fn ordered_about(&self, speaker: &ToolId, text: &str) -> Option<&'a ToolId> {
        let finder = self.finder.as_ref()?;
        let text = plain(text);
        let found = finder.find_iter(&text).find_map(|found| {
            let called = self.called.get(found.pattern().as_usize())?;
            let foreign = called.iter().all(|tool| tool.server != speaker.server);
            let other = *called.first().filter(|_| foreign)?;
            let (before, after) = sentence(&text, found.range())?;
            let names_it = is_whole(before, after) && is_meant(text.get(found.range())?, before, after);
            (names_it && is_order(before, after)).then_some(other)
        });
        found
    }
}

/// Small letters, and each character beyond ASCII as what it looks like.
fn plain(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_ascii() {
            true => plain.push(character),
            false => plain.extend(skeleton(character.encode_utf8(&mut [0; 4]))),
        }
    }
    plain.to_lowercase()
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
