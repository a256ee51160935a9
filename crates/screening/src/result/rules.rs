//! What the operator says about what servers send, compiled once and shared by all calls.

use std::sync::Arc;

use super::Guards;
use super::strip::Classes;
use super::validate::{Declared, ValidationRules};
use super::walk::Message;
use crate::detect::Detector;

/// Everything a message is judged by.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Absolute limits, in force in every mode.
    pub guards: Guards,
    /// `[output_validation]`
    pub validation: ValidationRules,
    /// `[output_sanitisation]`
    pub sanitisation: Sanitisation,
    /// `[response]`, unless texts are never cut.
    pub truncation: Option<Truncation>,
}

/// `[output_sanitisation]`. The default does nothing.
#[derive(Clone, Debug)]
pub struct Sanitisation {
    /// Which texts are fenced.
    pub spotlight: Spotlight,
    /// What a secret leads to.
    pub action: ResponseAction,
    /// What is taken out of untrusted text.
    pub strip: Classes,
    /// More masks than this in one message, and it is withheld.
    pub max_redactions: usize,
}

impl Default for Sanitisation {
    fn default() -> Self {
        Self {
            spotlight: Spotlight::Nothing,
            action: ResponseAction::Spotlight,
            strip: Classes::default(),
            max_redactions: 100,
        }
    }
}

/// Which texts are fenced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spotlight {
    /// None.
    Nothing,
    /// Those of servers and tools that are not trusted.
    Untrusted,
}

/// What a secret leads to. Where it leads to something, there are rules to find it by.
#[derive(Clone, Debug)]
pub enum ResponseAction {
    /// Nothing: it is not looked for.
    Spotlight,
    /// It is masked.
    Redact(Arc<Detector>),
    /// A critical one withholds the message.
    Block(Arc<Detector>),
}

impl ResponseAction {
    /// The rules, where secrets are looked for.
    #[must_use]
    pub fn detector(&self) -> Option<&Arc<Detector>> {
        match self {
            Self::Spotlight => None,
            Self::Redact(detector) | Self::Block(detector) => Some(detector),
        }
    }
}

/// How long texts are cut.
#[derive(Clone, Copy, Debug)]
pub struct Truncation {
    /// The longest text that is left alone, in bytes.
    pub limit_bytes: usize,
    /// Makes a key nobody can guess.
    pub mint: fn() -> String,
}

/// Whose message it is, and what is known of it before it is read.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The server's id.
    pub server: &'a str,
    /// The tool, the prompt or the URI; empty for what belongs to none.
    pub name: &'a str,
    /// What the message is.
    pub message: Message,
    /// Whether its texts are trusted.
    pub standing: OutputTrust,
    /// What the tool declared of its output.
    pub declared: Declared<'a>,
}

/// Whether texts are trusted: by the operator's word, never by a server's alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputTrust {
    /// The operator trusts the server, and the tool brings nothing from elsewhere.
    Trusted,
    /// Anything else.
    Untrusted,
}
