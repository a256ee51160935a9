//! Reads rule packs: TOML in, a detector or every fault with its line out.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;
use vocabulary::Digest;

use super::check::Check;
use super::group::Group;
use super::keywords::Keywords;
use super::rule::{self, Mask, Rule, Wake};
use super::sample::{Draw, fill};
use super::{Allowed, Category, Detector, Excuse, Joins, Name, Piece, PieceKind, Redact, Severity};

/// A file of rules.
#[derive(Clone, Copy, Debug)]
pub struct Pack<'a> {
    /// Its name in faults.
    pub name: &'a str,
    /// Its TOML.
    pub text: &'a str,
}

/// Something wrong with a pack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PackFault {
    /// The file.
    pub pack: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub hint: String,
}

impl PackFault {
    /// At a byte of a pack.
    pub(crate) fn at(pack: &Pack<'_>, at: usize, what: String, hint: &str) -> Self {
        let line = pack.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
        Self {
            pack: pack.name.to_owned(),
            line,
            what,
            hint: hint.to_owned(),
        }
    }
}

impl fmt::Display for PackFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.pack, self.line, self.what, self.hint)
    }
}

impl std::error::Error for PackFault {}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPack {
    #[serde(default)]
    documented: Vec<Text>,
    #[serde(default)]
    rule: Vec<Spanned<RawRule>>,
    #[serde(default)]
    allow: Vec<Spanned<RawAllow>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    id: String,
    category: Category,
    severity: Severity,
    #[serde(default)]
    keywords: Vec<String>,
    pattern: Spanned<String>,
    #[serde(default = "whole_match")]
    mask: Mask,
    max_len: Option<usize>,
    #[serde(default)]
    check: Check,
    #[serde(default = "yes")]
    redact: bool,
    #[serde(default)]
    allow: Vec<Spanned<String>>,
    examples: Examples,
}

/// Texts that a rule has to find a secret in, and texts in which it may not.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Examples {
    pub(super) finds: Vec<Text>,
    pub(super) passes: Vec<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAllow {
    rule: String,
    server: String,
    tool: String,
}

/// A text, or the pieces of one that would alarm other scanners in one piece.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Text {
    Whole(String),
    Split(Vec<String>),
}

impl Text {
    pub(super) fn joined(&self) -> String {
        match self {
            Self::Whole(text) => text.clone(),
            Self::Split(pieces) => pieces.concat(),
        }
    }
}

fn whole_match() -> Mask {
    Mask::Match
}

fn yes() -> bool {
    true
}

/// Compiles the embedded pack and those of the operator.
pub(super) fn compile(embedded: Pack<'_>, packs: &[Pack<'_>]) -> Result<Detector, Vec<PackFault>> {
    let mut faults = Vec::new();
    let all: Vec<_> = std::iter::once(embedded).chain(packs.iter().copied()).collect();
    let raw: Vec<(Pack<'_>, RawPack)> = all
        .iter()
        .filter_map(|pack| {
            parse(*pack)
                .map_err(|fault| faults.push(fault))
                .ok()
                .map(|raw| (*pack, raw))
        })
        .collect();
    let rules = rules_of(&raw, &mut faults);
    let allowed = allowed_of(&raw, &mut faults);
    let keywords = keywords_of(&raw);
    let Some(keywords) = Keywords::new(keywords)
        .map_err(|what| faults.push(PackFault::at(&embedded, 0, what, "use fewer or shorter keywords")))
        .ok()
        .filter(|_| faults.is_empty())
    else {
        return Err(faults);
    };
    let lengths: Vec<[u8; 8]> = all.iter().map(|pack| (pack.text.len() as u64).to_be_bytes()).collect();
    let hashed = all
        .iter()
        .zip(&lengths)
        .flat_map(|(pack, length)| [length.as_slice(), pack.text.as_bytes()]);
    let documented = raw
        .iter()
        .flat_map(|(_, raw)| &raw.documented)
        .map(|text| text.joined().into_bytes());
    let detector = Detector {
        rules,
        keywords,
        documented: documented.collect(),
        allowed,
        hash: Digest::of_pieces(std::iter::once(ENGINE).chain(hashed)),
    };
    // Our own examples are tested when we build.
    for (pack, raw) in raw.iter().skip(1) {
        faults.extend(example_faults(&detector, pack, raw));
    }
    if faults.is_empty() { Ok(detector) } else { Err(faults) }
}

/// Reads a pack without compiling it.
pub(super) fn parse(pack: Pack<'_>) -> Result<RawPack, PackFault> {
    toml::from_str(pack.text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        PackFault::at(
            &pack,
            at,
            error.message().to_owned(),
            "see the fields of a rule in the documentation of detection",
        )
    })
}

/// Compiles on as many threads as the machine has; patterns are most of the time to start.
fn rules_of(packs: &[(Pack<'_>, RawPack)], faults: &mut Vec<PackFault>) -> Vec<Rule> {
    let mut ids = HashSet::new();
    let mut written = Vec::new();
    for (pack, raw) in packs {
        for rule in &raw.rule {
            if !ids.insert(rule.get_ref().id.as_str()) {
                let what = format!("the rule id `{}` is used twice", rule.get_ref().id);
                faults.push(PackFault::at(pack, rule.span().start, what, "give the rule another id"));
            }
            written.push((pack, rule));
        }
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let compiled: Vec<_> = std::thread::scope(|scope| {
        let compile_all = |part: &[(&Pack<'_>, &Spanned<RawRule>)]| -> Vec<_> {
            part.iter().map(|(pack, rule)| rule_of(pack, rule)).collect()
        };
        let chunks = written.chunks(written.len().div_ceil(threads).max(1));
        let workers: Vec<_> = chunks
            .map(|part| (part, scope.spawn(move || compile_all(part))))
            .collect();
        // A thread that could not run is no reason to start without its rules.
        workers
            .into_iter()
            .flat_map(|(part, worker)| worker.join().unwrap_or_else(|_| compile_all(part)))
            .collect()
    });
    let mut rules = Vec::with_capacity(compiled.len());
    for outcome in compiled {
        match outcome {
            Ok(rule) => rules.push(rule),
            Err(fault) => faults.push(fault),
        }
    }
    rules
}

fn wake_of(check: Check) -> Wake {
    if check == Check::Luhn {
        Wake::Digits
    } else {
        Wake::Keywords
    }
}

fn rule_of(pack: &Pack<'_>, spanned: &Spanned<RawRule>) -> Result<Rule, PackFault> {
    let raw = spanned.get_ref();
    let here = |what: &str, hint| PackFault::at(pack, spanned.span().start, format!("rule `{}`: {what}", raw.id), hint);
    let wake = wake_of(raw.check);
    if raw.keywords.is_empty() != (wake == Wake::Digits) {
        return Err(here(
            "it has no keyword to wake it",
            "name a text that every match holds (card rules need none)",
        ));
    }
    if raw.keywords.iter().any(|keyword| keyword.len() < 3) {
        return Err(here(
            "a keyword is shorter than three characters",
            "use a longer one: short ones are everywhere",
        ));
    }
    if raw.examples.finds.is_empty() || raw.examples.passes.is_empty() {
        return Err(here(
            "it has no examples",
            "give at least one text in `finds` and one in `passes`",
        ));
    }
    let bad = |place: &Spanned<String>, what: String| {
        let what = format!("rule `{}`: {what}", raw.id);
        PackFault::at(
            pack,
            place.span().start,
            what,
            "correct the pattern (RE2 syntax, no look-around, no back-references)",
        )
    };
    let pattern = rule::compile(raw.pattern.get_ref(), &raw.keywords, raw.max_len);
    let compiled = pattern.map_err(|what| bad(&raw.pattern, what))?;
    if raw.mask == Mask::Group && compiled.pattern.captures_len() < 2 {
        return Err(here(
            "it masks a group and has none",
            "put the secret in parentheses, or mask the match",
        ));
    }
    let allow = raw
        .allow
        .iter()
        .map(|allow| rule::plain(allow.get_ref()).map_err(|what| bad(allow, what)));
    Ok(Rule {
        id: Arc::from(raw.id.as_str()),
        category: raw.category,
        severity: raw.severity,
        redact: if raw.redact { Redact::Mask } else { Redact::DetectOnly },
        mask: raw.mask,
        check: raw.check,
        wake,
        pattern: compiled.pattern,
        group: Some(&compiled.hir)
            .filter(|_| raw.mask == Mask::Group)
            .and_then(Group::cut),
        reach: compiled.reach,
        allow: allow.collect::<Result<_, _>>()?,
    })
}

fn allowed_of(packs: &[(Pack<'_>, RawPack)], faults: &mut Vec<PackFault>) -> Vec<Allowed> {
    let ids: HashSet<_> = packs
        .iter()
        .flat_map(|(_, raw)| &raw.rule)
        .map(|rule| rule.get_ref().id.as_str())
        .collect();
    let name = |written: &str| match written {
        "*" => Name::Any,
        _ => Name::Exactly(written.to_owned()),
    };
    let mut allowed = Vec::new();
    for (pack, raw) in packs {
        for allow in &raw.allow {
            let RawAllow { rule, server, tool } = allow.get_ref();
            if !ids.contains(rule.as_str()) {
                let what = format!("`{rule}` is not a rule");
                faults.push(PackFault::at(pack, allow.span().start, what, "name the id of a rule"));
            }
            allowed.push(Allowed {
                rule: Arc::from(rule.as_str()),
                server: name(server),
                tool: name(tool),
            });
        }
    }
    allowed
}

fn keywords_of(packs: &[(Pack<'_>, RawPack)]) -> Vec<(String, Vec<usize>)> {
    let mut keywords: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, rule) in packs.iter().flat_map(|(_, raw)| &raw.rule).enumerate() {
        for keyword in &rule.get_ref().keywords {
            let rules = keywords.entry(keyword.to_ascii_lowercase()).or_default();
            if rules.last() != Some(&index) {
                rules.push(index);
            }
        }
    }
    keywords.into_iter().collect()
}

/// Tries the examples of a pack.
fn example_faults(detector: &Detector, pack: &Pack<'_>, raw: &RawPack) -> Vec<PackFault> {
    let mut faults = Vec::new();
    for spanned in &raw.rule {
        let rule = spanned.get_ref();
        for (texts, wanted, what) in [
            (&rule.examples.finds, true, "does not find its own example"),
            (&rule.examples.passes, false, "finds what its own example lets pass"),
        ] {
            let broken = texts
                .iter()
                .any(|text| finds(detector, &rule.id, &text.joined()) != wanted);
            if broken {
                let what = format!("rule `{}` {what}", rule.id);
                faults.push(PackFault::at(
                    pack,
                    spanned.span().start,
                    what,
                    "correct the pattern or the example",
                ));
            }
        }
    }
    faults
}

fn finds(detector: &Detector, id: &str, template: &str) -> bool {
    let text = fill(template, &mut Draw::new(1));
    let raw = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let piece = Piece {
        raw: raw.as_bytes(),
        name: None,
        joins: Joins::Nothing,
        kind: PieceKind::Text,
    };
    let excuse = Excuse { server: "", tool: "" };
    detector
        .find(&[piece], &excuse)
        .iter()
        .any(|finding| &*finding.rule == id)
}

/// Part of the hash: findings may change with the code, too.
const ENGINE: &[u8] = b"portreeve detection 1";

#[cfg(test)]
pub(super) fn examples(pack: Pack<'_>) -> Vec<(String, Redact, Examples)> {
    let raw = parse(pack).expect("the pack is read");
    let redact = |rule: &RawRule| if rule.redact { Redact::Mask } else { Redact::DetectOnly };
    let each = raw.rule.into_iter().map(Spanned::into_inner);
    each.map(|rule| (rule.id.clone(), redact(&rule), rule.examples))
        .collect()
}

#[cfg(test)]
pub(super) fn keywords(pack: Pack<'_>) -> Vec<String> {
    let raw = parse(pack).expect("the pack is read");
    keywords_of(&[(pack, raw)]).into_iter().map(|(word, _)| word).collect()
}
