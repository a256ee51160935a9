//! `[output_validation]`, `[output_sanitisation]`, `[detection]` and `[response]`: what happens to what servers send.

use std::sync::Arc;
use std::time::Duration;

use screening::detect::{Detector, Pack};
use screening::result::strip::{Class, Classes};
use screening::result::validate::{Missing, Mode, Uncompilable, ValidationRules};
use screening::result::{ResponseAction, Sanitisation, Spotlight};
use settings::{Complaint, Entry, Section};

use super::raw::Surroundings;

/// What happens to what servers send, and to secrets in what is sent to them.
#[derive(Clone, Debug)]
pub struct Output {
    /// `[output_validation]`
    pub validation: ValidationRules,
    /// `[output_sanitisation]`, with the rules of `[detection]` where secrets are looked for.
    pub sanitisation: Sanitisation,
    /// `[detection] arguments`
    pub arguments: InArguments,
    /// `[response]`
    pub response: Response,
}

/// What a secret in outgoing arguments leads to.
#[derive(Clone, Debug)]
pub enum InArguments {
    /// Nothing is looked for.
    Off,
    /// A record.
    Warn(Arc<Detector>),
    /// The call is refused.
    Block(Arc<Detector>),
}

/// Long texts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Response {
    /// A longer text is cut and kept for `read_cache`; `None`: never.
    pub limit_bytes: Option<usize>,
    /// How long it is kept.
    pub cache_ttl: Duration,
}

vocabulary::words! {
    /// What secrets in a result are to lead to, before any rule is compiled.
    enum Action {
        /// Nothing: texts are marked, not judged.
        Spotlight = "spotlight",
        /// They are taken out.
        Redact = "redact",
        /// The result is withheld.
        Block = "block",
    }
}

vocabulary::words! {
    /// What secrets in arguments are to lead to, before any rule is compiled.
    enum Arguments {
        /// Nothing.
        Off = "off",
        /// A record.
        Warn = "warn",
        /// The call is refused.
        Block = "block",
    }
}

impl Output {
    pub(super) fn check(root: &mut Section<'_>, around: &Surroundings) -> Option<Self> {
        let validation = validation(root.section("output_validation"));
        let mut sanitisation = root.section("output_sanitisation");
        let action = sanitisation.read("response_action", |value| value.word(Action::ALL, Action::as_str));
        let rest = Rest::check(sanitisation);
        let detection = Detection::check(root.section("detection"), around, action);
        let response = Response::check(root.section("response"));
        let (rest, detection) = (rest?, detection?);
        let detector = detection.detector;
        Some(Self {
            validation: validation?,
            sanitisation: Sanitisation {
                spotlight: rest.spotlight,
                action: match (action?, &detector) {
                    (Action::Spotlight, _) => ResponseAction::Spotlight,
                    (Action::Redact, detector) => ResponseAction::Redact(detector.clone()?),
                    (Action::Block, detector) => ResponseAction::Block(detector.clone()?),
                },
                strip: rest.strip,
                max_redactions: rest.max_redactions,
            },
            arguments: match detection.arguments {
                Arguments::Off => InArguments::Off,
                Arguments::Warn => InArguments::Warn(detector?),
                Arguments::Block => InArguments::Block(detector?),
            },
            response: response?,
        })
    }
}

fn validation(mut section: Section<'_>) -> Option<ValidationRules> {
    let mode = section.read("mode", |value| value.word(Mode::ALL, Mode::as_str));
    let max_bytes = section.read("max_bytes", bytes);
    let max_depth = section.read("max_depth", |value| value.number(1..=512));
    let missing = section.read("missing_structured_content", |value| {
        value.word(Missing::ALL, Missing::as_str)
    });
    let uncompilable = section.read("uncompilable_schema", |value| {
        value.word(Uncompilable::ALL, Uncompilable::as_str)
    });
    section.finish();
    Some(ValidationRules {
        mode: mode?,
        max_bytes: max_bytes?,
        max_depth: usize::try_from(max_depth?).ok()?,
        missing_structured_content: missing?,
        uncompilable_schema: uncompilable?,
    })
}

/// `[output_sanitisation]` without its action.
struct Rest {
    spotlight: Spotlight,
    strip: Classes,
    max_redactions: usize,
}

impl Rest {
    fn check(mut section: Section<'_>) -> Option<Self> {
        let spotlight = section.read("spotlight_untrusted", Entry::boolean);
        let strip = section.read("strip_control_chars", Entry::boolean);
        let classes = section.read("strip_classes", |value| {
            value.distinct(|item| item.word(Class::ALL, Class::as_str))
        });
        let max_redactions = section.read("max_redactions", |value| value.number(0..=1_000_000));
        section.finish();
        Some(Self {
            spotlight: if spotlight? {
                Spotlight::Untrusted
            } else {
                Spotlight::Nothing
            },
            strip: if strip? {
                classes?.into_iter().collect()
            } else {
                Classes::default()
            },
            max_redactions: usize::try_from(max_redactions?).ok()?,
        })
    }
}

struct Detection {
    arguments: Arguments,
    /// Compiled where somebody asks for it, and where the operator has packs of their own.
    detector: Option<Arc<Detector>>,
}

impl Detection {
    fn check(mut section: Section<'_>, around: &Surroundings, action: Option<Action>) -> Option<Self> {
        let arguments = section.read("arguments", |value| value.word(Arguments::ALL, Arguments::as_str));
        let packs = section.read("packs", |value| packs(value, around));
        let (arguments, packs) = (arguments?, packs?);
        let asked_for = action? != Action::Spotlight || arguments != Arguments::Off;
        let detector = if asked_for || !packs.is_empty() {
            let named: Vec<Pack<'_>> = packs.iter().map(|(name, text)| Pack { name, text }).collect();
            match Detector::with_packs(&named) {
                Ok(detector) => Some(Arc::new(detector)),
                Err(faults) => {
                    for fault in faults {
                        section.fault("packs", Complaint::new(fault.to_string()));
                    }
                    None
                }
            }
        } else {
            None
        };
        section.finish();
        Some(Self { arguments, detector })
    }
}

impl Response {
    fn check(mut section: Section<'_>) -> Option<Self> {
        let limit = section.read("limit_bytes", |value| match value.is_integer() {
            true => value.number(0..=1 << 30),
            false => value.size(),
        });
        let cache_ttl = section.read("cache_ttl", Entry::duration);
        section.finish();
        Some(Self {
            limit_bytes: Some(usize::try_from(limit?).ok()?).filter(|limit| *limit > 0),
            cache_ttl: cache_ttl?,
        })
    }
}

/// Every file that a pattern matches; a pattern that matches none is a mistake.
pub(super) fn packs(value: &Entry<'_>, around: &Surroundings) -> Result<Vec<(String, String)>, Complaint> {
    let found = value.list(|item| {
        let paths = around.matching(item.text()?)?;
        if paths.is_empty() {
            return Err(Complaint::new("matches no file"));
        }
        let read = |path: &std::path::PathBuf| Ok((around.relative(path), around.text(path)?));
        paths.iter().map(read).collect::<Result<Vec<_>, Complaint>>()
    })?;
    Ok(found.into_iter().flatten().collect())
}

fn bytes(entry: &Entry<'_>) -> Result<usize, Complaint> {
    let number = match entry.is_integer() {
        true => entry.number(1..=1 << 30)?,
        false => entry.size()?,
    };
    usize::try_from(number).map_err(|_| Complaint::new("is too large"))
}
