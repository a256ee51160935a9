//! One compiled rule: what wakes it, what it matches, and how far around a keyword it has to look.

use std::sync::Arc;

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::Hir;
use regex_syntax::hir::literal::Extractor;

use super::check::Check;
use super::group::Group;
use super::{Category, Redact, Severity};

/// A rule, ready to run.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) id: Arc<str>,
    pub(super) category: Category,
    pub(super) severity: Severity,
    pub(super) redact: Redact,
    pub(super) mask: Mask,
    pub(super) check: Check,
    pub(super) wake: Wake,
    pub(super) pattern: Regex,
    /// The way to its group, if it masks one and the way is a short one.
    pub(super) group: Option<Group>,
    pub(super) reach: MatchReach,
    /// Matches that hold one of these are none.
    pub(super) allow: Vec<Regex>,
}

/// What of a match is the secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mask {
    /// All of it.
    Match,
    /// The first group.
    Group,
    /// All of it and the armoured block that follows.
    Block,
}

/// When a rule is tried at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wake {
    /// Around its keywords.
    Keywords,
    /// Around runs of digits as long as a card number.
    Digits,
}

/// How far around a keyword a match can lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MatchReach {
    /// Bytes before the keyword.
    pub(super) before: usize,
    /// Bytes after the end of the keyword.
    pub(super) after: usize,
    /// Bytes of the shortest match.
    pub(super) shortest: usize,
}

/// A pattern with its reach.
pub(super) struct Compiled {
    pub(super) pattern: Regex,
    pub(super) hir: Hir,
    pub(super) reach: MatchReach,
}

/// What may lie between a name and its value, in code, settings, lists of pairs and prose. Its repetitions have no bounds, so
/// that the automaton stays small; the length of a match is reckoned with [`IS_LONGEST`] in its place.
const IS: &str = r"[\x22'`\\)\]]*\s*(?:=>|:=|\?=|[:=,>]|(?:is|was|to|of)(?:\s+(?:now|set\s+to))?:?\s|,?\s*[\x22'<]?value[\x22']?\s*[:=>])\s*[\x22'`\\(\[]*";
const IS_LONGEST: &str = r"[\x22-\x7f\s]{1,64}";

/// Compiles `pattern`. Character classes are ASCII: tokens are, and the automata stay small.
///
/// # Errors
/// In words for the author of the pack.
pub(super) fn compile(pattern: &str, keywords: &[String], max_len: Option<usize>) -> Result<Compiled, String> {
    let parse = |is: &str| {
        let mut parser = ParserBuilder::new().unicode(false).utf8(false).build();
        let hir = parser.parse(&pattern.replace("{is}", is));
        hir.map_err(|error| format!("the pattern cannot be read: {error}"))
    };
    let (hir, bounded) = (parse(IS)?, parse(IS_LONGEST)?);
    let shortest = hir.properties().minimum_len().unwrap_or(1);
    if shortest == 0 {
        return Err("the pattern matches an empty text".to_owned());
    }
    let longest = max_len
        .or_else(|| bounded.properties().maximum_len())
        .ok_or("the pattern has no longest match: bound its repetitions or set `max_len`")?;
    let regex = plain(&pattern.replace("{is}", IS))?;
    let begins = |literal: &[u8]| {
        let head = |keyword: &String| literal.get(..keyword.len()).is_some_and(|head| eq(head, keyword));
        keywords.iter().any(head)
    };
    let prefixes = Extractor::new().extract(&hir);
    let led = prefixes
        .literals()
        .is_some_and(|literals| !literals.is_empty() && literals.iter().all(|literal| begins(literal.as_bytes())));
    // A match that can only begin with a keyword needs no look back; the engine itself sees the byte before.
    let before = if led { 0 } else { longest.clamp(BEFORE, 2 * BEFORE) };
    let reach = MatchReach {
        before,
        after: longest.max(1) + 1,
        shortest,
    };
    Ok(Compiled {
        pattern: regex,
        hir,
        reach,
    })
}

/// A pattern for places where length does not matter.
pub(super) fn plain(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern)
        .unicode(false)
        .size_limit(SIZE_LIMIT)
        .build()
        .map_err(|error| format!("the pattern cannot be compiled: {error}"))
}

fn eq(bytes: &[u8], word: &str) -> bool {
    bytes.eq_ignore_ascii_case(word.as_bytes())
}

/// How far before a keyword a match may begin.
const BEFORE: usize = 64;

/// Of a compiled pattern, in bytes: an operator's typo must not eat the memory of the gateway.
const SIZE_LIMIT: usize = 2 << 20;
