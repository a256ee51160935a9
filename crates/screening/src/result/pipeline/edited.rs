//! Masks and strips, or withholds; what is left is judged again.

use std::collections::BTreeMap;

use bytes::Bytes;
use ledger::{Judgement, ScreeningAct, ScreeningMode};
use vocabulary::ReasonCode;

use super::super::edit::{Edit, Edits, Room, removed_beneath};
use super::super::judgement;
use super::super::redact::{Masked, Redaction, redact};
use super::super::rules::ResponseAction;
use super::super::search::Found;
use super::super::strip::{Classes, Counts, strip};
use super::super::validate::Verdict;
use super::super::walk::{Editable, Literal, LiteralKind, Message, Part, Place, Scanned, Walked, walk};
use super::super::{Withheld, unreadable};
use super::{Detected, Edited, Run, Step, Stopped, Validated, stop};
use crate::detect::Detector;

impl Run<'_> {
    /// Blocks, masks and strips.
    pub(super) fn edit(&self, detected: Detected) -> Step<Edited> {
        let Detected {
            mut validated,
            walked,
            found,
        } = detected;
        let redaction = self.act_on(&found, &walked, &mut validated)?;
        let mut layers = BTreeMap::new();
        let mut counts = Counts::default();
        let mut left = Counts::default();
        let classes = self.strips();
        let mut masked = redaction.masked.into_iter().peekable();
        let mut room = Room::of(validated.raw.size());
        for (index, literal) in walked.literals().iter().enumerate() {
            let masks = masked.next_if(|masked| masked.literal == index);
            if masks.is_none() && classes == Classes::default() {
                continue;
            }
            let inside = validated.raw.bytes().get(literal.span()).unwrap_or_default();
            let ranges = masks.as_ref().map(Masked::ranges).unwrap_or_default();
            let stripped = strip(inside, classes, &ranges);
            if masks.is_none() && stripped.removals.is_empty() {
                continue;
            }
            match walked.editable(literal) {
                Editable::Yes => counts.add_all(stripped.counts),
                Editable::No if is_shown(&walked, literal) => left.add_all(stripped.counts),
                Editable::No => {}
            }
            let removals = match walked.editable(literal) {
                Editable::Yes => stripped.removals.as_slice(),
                Editable::No => &[],
            };
            let layer = removed_beneath(masks.map(|masks| masks.masks).unwrap_or_default(), removals);
            if !room.holds(&layer) || !stripped.is_complete() {
                return Err(self.blocked(judgement::overfull(), undone(validated.facts)));
            }
            if !layer.is_empty() {
                layers.insert(index, layer);
            }
        }
        if self.origin.message == Message::Definitions && left != Counts::default() {
            let decision = judgement::definition(left);
            return Err(self.blocked(decision, validated.facts));
        }
        if counts != Counts::default() {
            validated.facts.push(judgement::stripped(counts));
        }
        if left != Counts::default() {
            validated.facts.push(judgement::left_in_place(left));
        }
        self.judge_again(validated, walked, layers)
    }

    /// What findings lead to: masks, a warning, or the end.
    fn act_on(&self, found: &[Found], walked: &Walked, validated: &mut Validated) -> Step<Redaction> {
        if found.is_empty() {
            return Ok(Redaction::default());
        }
        let secrets = self.secrets(validated.raw.bytes(), walked);
        let notes = secrets.notes(found);
        let facts = std::mem::take(&mut validated.facts);
        let (decision, redaction) = match &self.rules.sanitisation.action {
            ResponseAction::Block(_) if found.iter().any(Found::is_critical) => {
                return Err(self.blocked(
                    judgement::found(ScreeningAct::Blocked, ScreeningMode::Block, None, notes),
                    facts,
                ));
            }
            ResponseAction::Block(_) => (
                judgement::found(ScreeningAct::Warning, ScreeningMode::Block, None, notes),
                Redaction::default(),
            ),
            ResponseAction::Redact(_) | ResponseAction::Spotlight => {
                let mode = self.masking_mode();
                let hits: Vec<_> = found.iter().filter(|found| found.is_masked()).map(Found::hit).collect();
                if hits.is_empty() {
                    (
                        judgement::found(ScreeningAct::Warning, mode, None, notes),
                        Redaction::default(),
                    )
                } else {
                    let max = self.rules.sanitisation.max_redactions;
                    match redact(validated.raw.bytes(), walked, &hits, max) {
                        Ok(redaction) => (judgement::found(ScreeningAct::Redacted, mode, None, notes), redaction),
                        Err(refusal) => {
                            let word = refusal.to_string();
                            let decision = judgement::found(ScreeningAct::Blocked, mode, Some(&word), notes);
                            return Err(self.blocked(decision, facts));
                        }
                    }
                }
            }
        };
        validated.facts = facts;
        validated.facts.push(decision);
        Ok(redaction)
    }

    /// An edit may break what conformed, and must not leave or make a secret.
    fn judge_again(
        &self,
        mut validated: Validated,
        walked: Walked,
        layers: BTreeMap<usize, Vec<Edit>>,
    ) -> Step<Edited> {
        if !layers.is_empty() {
            let mut edits = Edits::default();
            let mut structured = false;
            for (index, layer) in &layers {
                if let Some(literal) = walked.literals().get(*index) {
                    structured |= literal.place() == Place::Structured;
                    edits.add_at(literal.span().start, layer.clone());
                }
            }
            let Ok(edited) = edits.apply(validated.raw.bytes()) else {
                return Err(stop(unreadable(), validated.facts));
            };
            if structured {
                self.still_conforms(&edited, &mut validated)?;
            }
            match &self.rules.sanitisation.action {
                ResponseAction::Redact(detector) => self.is_clean(detector, &edited, &mut validated)?,
                ResponseAction::Spotlight => {
                    if let Some(own) = self.own {
                        self.is_clean(own, &edited, &mut validated)?;
                    }
                }
                ResponseAction::Block(_) => {}
            }
        }
        Ok(Edited {
            bytes: validated.raw.into_bytes(),
            seen: validated.seen,
            facts: validated.facts,
            walked,
            layers,
        })
    }

    /// The setting that secrets are masked by; for tokens of ours there is none.
    fn masking_mode(&self) -> ScreeningMode {
        match self.rules.sanitisation.action {
            ResponseAction::Spotlight => ScreeningMode::Always,
            ResponseAction::Redact(_) | ResponseAction::Block(_) => ScreeningMode::Redact,
        }
    }

    fn still_conforms(&self, edited: &Bytes, validated: &mut Validated) -> Step<()> {
        match self.judge(edited, validated.seen.is_error, Some(&validated.verdict)) {
            Verdict::Conforms => Ok(()),
            Verdict::Violates(violation) => {
                let decision = judgement::violation(&violation, self.rules.validation.mode);
                Err(self.blocked(decision, undone(std::mem::take(&mut validated.facts))))
            }
        }
    }

    fn is_clean(&self, detector: &Detector, edited: &Bytes, validated: &mut Validated) -> Step<()> {
        let facts = std::mem::take(&mut validated.facts);
        let Ok(walked) = walk(edited, self.origin.message) else {
            return Err(stop(unreadable(), facts));
        };
        let secrets = self.secrets(edited, &walked);
        let mut found = secrets.find(detector);
        found.retain(Found::is_masked);
        if found.is_empty() {
            validated.facts = facts;
            return Ok(());
        }
        let word = Some("redaction_not_possible");
        let mode = self.masking_mode();
        let decision = judgement::found(ScreeningAct::Blocked, mode, word, secrets.notes(&found));
        Err(self.blocked(decision, undone(facts)))
    }

    pub(super) fn blocked(&self, decision: Judgement, mut facts: Vec<Judgement>) -> Box<Stopped> {
        let message = decision.message.clone();
        facts.push(decision);
        stop(
            Withheld {
                code: ReasonCode::WithheldSanitisation,
                message,
            },
            facts,
        )
    }
}

/// Nothing was edited after all: only what was said of the message as it came stays.
pub(super) fn undone(mut facts: Vec<Judgement>) -> Vec<Judgement> {
    facts.retain(|decision| match decision.act {
        ScreeningAct::Warning | ScreeningAct::Blocked => true,
        ScreeningAct::Redacted | ScreeningAct::Stripped => false,
    });
    facts
}

/// Whether somebody reads a literal that is never edited: no bytes of pictures, no words of the protocol.
fn is_shown(walked: &Walked, literal: &Literal) -> bool {
    let protocol = match literal.place() {
        Place::Protocol
        | Place::Block {
            part: Part::Protocol | Part::Misplaced,
            ..
        } => true,
        Place::Block { .. } | Place::Structured | Place::Meta | Place::Free | Place::Definition => false,
    };
    let text = match literal.kind() {
        LiteralKind::Text => true,
        // A definition's names are read as its texts are.
        LiteralKind::Name => literal.place() == Place::Definition,
        LiteralKind::Number => false,
    };
    text && !protocol && walked.scanned(literal) == Scanned::Yes
}
