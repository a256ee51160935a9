//! The steps of the chokepoint, in the one order there is: each takes what the last one proved, by value, and facts for
//! the record ride along. Where no step has cause, the very bytes that came leave.
//! Structured output is seen as a whole first (ADR 0049).

mod edited;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use bytes::Bytes;
use ledger::Judgement;
use memchr::memmem::Finder;
use vocabulary::ReasonCode;
use vocabulary::json::scanned::{Named, Scanned, members_of};
use vocabulary::json::span::Span;

use super::decision::Screening;
use super::edit::{Edit, Edits, Room};
use super::guard::{self, Seen};
use super::judgement;
use super::rules::{Origin, OutputTrust, ResponseAction, Rules, Spotlight};
use super::search::{Found, Secrets};
use super::spotlight::{Mark, fence};
use super::strip::Classes;
use super::truncate::{Cut, cut, notices};
use super::validate::{self, Declared, Verdict, ViolationOutcome};
use super::walk::{Message, Walked, walk, walk_scanned};
use super::{Kept, Raw, STRUCTURED, ScreenedResult, Withheld, breached, unreadable};
use crate::detect::{Detector, Written, may_hold_own_token, own_tokens, written};
use edited::undone;

/// One message on its way through.
pub(super) struct Run<'a> {
    pub(super) origin: &'a Origin<'a>,
    pub(super) rules: &'a Rules,
    /// The rule of our own tokens, where nothing else is looked for and one could be there.
    own: Option<&'static Detector>,
}

/// Where a step ended the matter.
struct Stopped {
    withheld: Withheld,
    facts: Vec<Judgement>,
}

type Step<T> = Result<T, Box<Stopped>>;

/// Within the absolute limits.
struct Guarded {
    raw: Raw,
    seen: Seen,
}

/// Structured output was judged as it came.
struct Validated {
    raw: Raw,
    seen: Seen,
    verdict: Verdict,
    facts: Vec<Judgement>,
    cause: Cause,
}

/// Whether any further step could have something to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    None,
    Some,
}

/// Secrets were looked for, where that is asked for.
struct Detected {
    validated: Validated,
    walked: Walked,
    found: Vec<Found>,
}

/// Masked and stripped; what is left was judged again.
struct Edited {
    bytes: Bytes,
    seen: Seen,
    facts: Vec<Judgement>,
    walked: Walked,
    /// By literal.
    layers: BTreeMap<usize, Vec<Edit>>,
}

impl<'a> Run<'a> {
    /// For this message. A token of ours reaches nobody, whatever is switched on.
    pub(super) fn new(origin: &'a Origin<'a>, rules: &'a Rules, raw: &Raw) -> Self {
        let own = match &rules.sanitisation.action {
            ResponseAction::Spotlight if may_hold_own_token(raw.bytes()) => own_tokens(),
            ResponseAction::Spotlight | ResponseAction::Redact(_) | ResponseAction::Block(_) => None,
        };
        Self { origin, rules, own }
    }
}

impl Run<'_> {
    /// Every step, in order.
    pub(super) fn through(&self, raw: Raw) -> Screening {
        let guarded = match self.guard(raw) {
            Ok(guarded) => guarded,
            Err(stopped) => return stopped.into_screening(),
        };
        let validated = match self.validate(guarded) {
            Ok(validated) if validated.cause == Cause::None => return validated.untouched(),
            Ok(validated) => validated,
            Err(stopped) => return stopped.into_screening(),
        };
        let edited = self.detect(validated).and_then(|detected| self.edit(detected));
        match edited.and_then(|edited| self.finish(edited)) {
            Ok(screening) => screening,
            Err(stopped) => stopped.into_screening(),
        }
    }

    fn guard(&self, raw: Raw) -> Step<Guarded> {
        let guards = &self.rules.guards;
        let seen = match &raw {
            Raw::Unread(bytes) => guard::scan(bytes, guards),
            Raw::Scanned(scanned) => guard::judge(scanned, guards),
        };
        match seen {
            Ok(seen) => Ok(Guarded { raw, seen }),
            Err(breach) => {
                let (withheld, guard) = breached(breach, guards);
                let facts = guard.map(|guard| judgement::limit(guard, &withheld.message));
                Err(Box::new(Stopped {
                    withheld,
                    facts: facts.into_iter().collect(),
                }))
            }
        }
    }

    fn validate(&self, Guarded { raw, seen }: Guarded) -> Step<Validated> {
        let rules = &self.rules.validation;
        let verdict = match (&raw, self.origin.message) {
            (Raw::Scanned(scanned), Message::ToolResult) => {
                validate::validate_scanned(scanned, seen.is_error, self.origin.declared, rules)
            }
            (Raw::Unread(bytes), _) => self.judge(bytes, seen.is_error, None),
            (Raw::Scanned(scanned), _) => self.judge(scanned.bytes(), seen.is_error, None),
        };
        let mut facts = Vec::new();
        if let Verdict::Violates(violation) = &verdict {
            facts.push(judgement::violation(violation, rules.mode));
            if violation.outcome == ViolationOutcome::Withhold {
                return Err(Box::new(Stopped {
                    withheld: Withheld {
                        code: ReasonCode::WithheldSchema,
                        message: violation.message.clone(),
                    },
                    facts,
                }));
            }
        }
        let cause = self.cause(&raw);
        Ok(Validated {
            raw,
            seen,
            verdict,
            facts,
            cause,
        })
    }

    /// Judges structured output, for the first time or after an edit.
    fn judge(&self, bytes: &Bytes, is_error: bool, before: Option<&Verdict>) -> Verdict {
        let (declared, rules) = (self.origin.declared, &self.rules.validation);
        let judge = |bytes: &Bytes, is_error| match before {
            None => validate::validate(bytes, is_error, declared, rules),
            Some(before) => validate::revalidate(bytes, is_error, before, declared, rules),
        };
        match (self.origin.message, declared) {
            (Message::ToolResult, _) => judge(bytes, is_error),
            (Message::TaskState, Declared::Schema(_) | Declared::Uncompilable { .. }) => {
                let Ok([Some(result)]) = members_of(bytes, self.rules.guards.max_depth, ["result"]) else {
                    return Verdict::Conforms;
                };
                let is_error = matches!(result.member("isError"), Named::Once(b"true"));
                judge(result.bytes(), is_error)
            }
            (Message::TaskState, Declared::Nothing)
            | (
                Message::ResourceRead | Message::PromptGet | Message::Error | Message::Other | Message::Definitions,
                _,
            ) => Verdict::Conforms,
        }
    }

    /// Nothing is walked through where nothing could come of it.
    fn cause(&self, raw: &Raw) -> Cause {
        let long = self.limit().is_some_and(|limit| raw.size() > limit);
        let some = self.detector().is_some()
            || self.strips() != Classes::default()
            || self.fences()
            || long
            || self.origin.message == Message::Definitions
            || self.may_be_forged(raw)
            || self.may_feign(raw);
        if some { Cause::Some } else { Cause::None }
    }

    /// Whether some `_meta` could hold a member under our name. Structured output holds none that the protocol knows.
    fn may_be_forged(&self, raw: &Raw) -> bool {
        match (raw, self.origin.message) {
            (Raw::Scanned(scanned), Message::ToolResult) => match scanned.around(STRUCTURED) {
                Some((before, behind)) => may_be_forged(before) || may_be_forged(behind),
                None => may_be_forged(scanned.bytes()),
            },
            (Raw::Scanned(scanned), _) => may_be_forged(scanned.bytes()),
            (Raw::Unread(bytes), _) => may_be_forged(bytes),
        }
    }

    /// Whether the message has an error that could be taken for a refusal of ours.
    fn may_feign(&self, raw: &Raw) -> bool {
        match (self.origin.message, raw) {
            (Message::Error, _) | (Message::TaskState, Raw::Unread(_)) => true,
            (Message::TaskState, Raw::Scanned(scanned)) => scanned.member("error") != Named::Never,
            (
                Message::ToolResult
                | Message::ResourceRead
                | Message::PromptGet
                | Message::Other
                | Message::Definitions,
                _,
            ) => false,
        }
    }

    fn detector(&self) -> Option<&Detector> {
        self.rules
            .sanitisation
            .action
            .detector()
            .map(AsRef::as_ref)
            .or(self.own)
    }

    fn strips(&self) -> Classes {
        match (self.origin.message, self.origin.standing) {
            (Message::Definitions, _) => Classes::ALL,
            (_, OutputTrust::Untrusted) => self.rules.sanitisation.strip,
            (_, OutputTrust::Trusted) => Classes::default(),
        }
    }

    fn fences(&self) -> bool {
        let texts = match self.origin.message {
            Message::ToolResult | Message::TaskState | Message::ResourceRead | Message::PromptGet => true,
            Message::Error | Message::Other | Message::Definitions => false,
        };
        let wanted = self.rules.sanitisation.spotlight == Spotlight::Untrusted;
        texts && wanted && self.origin.standing == OutputTrust::Untrusted
    }

    /// Only what tools say is cut: nothing else could be read on.
    fn limit(&self) -> Option<usize> {
        let truncation = self.rules.truncation.as_ref()?;
        match self.origin.message {
            Message::ToolResult | Message::TaskState => Some(truncation.limit_bytes),
            Message::ResourceRead | Message::PromptGet | Message::Error | Message::Other | Message::Definitions => None,
        }
    }

    fn detect(&self, validated: Validated) -> Step<Detected> {
        let walked = match &validated.raw {
            Raw::Unread(bytes) => walk(bytes, self.origin.message),
            Raw::Scanned(scanned) => walk_scanned(scanned, self.origin.message, self.quiet(scanned)),
        };
        let Ok(walked) = walked else {
            return Err(stop(unreadable(), validated.facts));
        };
        let found = match self.detector() {
            Some(detector) => self.secrets(validated.raw.bytes(), &walked).find(detector),
            None => Vec::new(),
        };
        Ok(Detected {
            validated,
            walked,
            found,
        })
    }

    /// Structured output of which nothing has to be told: it holds no text to cut or to fence, no `_meta` the protocol
    /// knows, and, seen as a whole, nothing to find and nothing to strip. Most of it is like that, and to see it costs
    /// far less than to take every string by itself.
    fn quiet(&self, scanned: &Scanned) -> Option<Span> {
        if self.origin.message != Message::ToolResult {
            return None;
        }
        let span = scanned.span_of(STRUCTURED)?;
        let json = scanned.bytes().get(span.clone())?;
        let quiet = match self.detector() {
            Some(detector) => detector.passes_over(STRUCTURED, json),
            None => self.strips() == Classes::default() || written(json) != Written::Otherwise,
        };
        quiet.then_some(span)
    }

    fn secrets<'b>(&'b self, bytes: &'b Bytes, walked: &'b Walked) -> Secrets<'b> {
        Secrets {
            run: self,
            bytes,
            walked,
        }
    }

    /// Cuts, fences, and puts all edits in at once.
    fn finish(&self, edited: Edited) -> Step<Screening> {
        let Edited {
            bytes,
            seen,
            mut facts,
            walked,
            mut layers,
        } = edited;
        let mark = self.fences().then(|| self.mark());
        let mut room = Room::of(bytes.len());
        let (mut cuts, mut edits, mut fences): (Vec<(String, usize, Cut)>, _, _) = (Vec::new(), Edits::default(), 0);
        for (index, literal) in walked.literals().iter().enumerate() {
            let mut layer = layers.remove(&index).unwrap_or_default();
            let inside = bytes.get(literal.span()).unwrap_or_default();
            if let (Some(block), Some(limit)) = (walked.text_of(literal), self.limit())
                && let Some(cut) = cut(inside, &layer, limit)
            {
                layer = cut.shorten(layer);
                cuts.push((self.key(), block, cut));
            }
            if let Some(mark) = mark.as_ref().filter(|_| walked.is_fenced(literal)) {
                layer = fence(inside, layer, mark);
                fences += 1;
            }
            if !room.holds(&layer) {
                return Err(self.blocked(judgement::overfull(), undone(facts)));
            }
            if !layer.is_empty() {
                edits.add_at(literal.span().start, layer);
            }
        }
        let told: Vec<_> = cuts.iter().map(|(key, block, cut)| cut.notice(key, *block)).collect();
        edits.add_at(0, notices(&walked, &told));
        if !walked.forged().is_empty() {
            facts.push(judgement::forged(walked.forged().len()));
        }
        if !walked.feigned().is_empty() {
            facts.push(judgement::feigned(walked.feigned().len()));
        }
        for range in walked.forged().iter().chain(walked.feigned()) {
            edits.add(Edit::removal(range.clone()));
        }
        let kept = cuts.into_iter().map(|(key, _, cut)| Kept {
            key,
            whole: cut.whole,
            index: cut.index,
        });
        match edits.apply(&bytes) {
            Ok(bytes) => {
                let result = ScreenedResult {
                    fences,
                    ..ScreenedResult::new(bytes, seen, kept.collect())
                };
                Ok(Screening::new(Ok(result), facts))
            }
            Err(_) => Err(stop(unreadable(), facts)),
        }
    }

    fn mark(&self) -> Mark {
        let Origin {
            server, name, message, ..
        } = self.origin;
        match message {
            Message::ToolResult | Message::TaskState => Mark::tool(server, name),
            Message::PromptGet => Mark::prompt(server, name),
            Message::ResourceRead | Message::Error | Message::Other | Message::Definitions => {
                Mark::resource(server, name)
            }
        }
    }

    fn key(&self) -> String {
        self.rules
            .truncation
            .as_ref()
            .map_or_else(String::new, |truncation| (truncation.mint)())
    }
}

impl Validated {
    fn untouched(self) -> Screening {
        let result = ScreenedResult::new(self.raw.into_bytes(), self.seen, Vec::new());
        Screening::new(Ok(result), self.facts)
    }
}

impl Stopped {
    fn into_screening(self) -> Screening {
        Screening::new(Err(self.withheld), self.facts)
    }
}

fn stop(withheld: Withheld, facts: Vec<Judgement>) -> Box<Stopped> {
    Box::new(Stopped { withheld, facts })
}

/// Whether some `_meta` could hold a member under our name, in whatever spelling: each letter of it is one of those that
/// `\u006` and `\u007` begin.
pub(crate) fn may_be_forged(raw: &[u8]) -> bool {
    static OURS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("portreeve"));
    static ESCAPED: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\\u00"));
    let one_of_ours = |at: usize| matches!(raw.get(at + ESCAPED.needle().len()), Some(b'6' | b'7'));
    OURS.find(raw).is_some() || ESCAPED.find_iter(raw).any(one_of_ours)
}

#[cfg(test)]
mod tests;
