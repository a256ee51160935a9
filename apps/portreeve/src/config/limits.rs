//! `[limits]`: how much, how often, how long.

use std::time::Duration;

use ::policy::Rule;
use settings::{Complaint, Entry, Section};

use super::allowances;

/// How much, how often, how long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// A client's whole body.
    pub request: MessageLimits,
    /// A call's arguments.
    pub arguments: ArgumentLimits,
    /// Any message of a server.
    pub result: MessageLimits,
    /// Calls in a time; empty means no rate limit (`check` warns).
    pub rate: Vec<Rule>,
    /// The same, kept across restarts.
    pub quota: Vec<Rule>,
    /// Calls at a time.
    pub concurrency: Concurrency,
    /// How long a server may take to answer.
    pub timeout: Duration,
}

/// Bounds of one message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageLimits {
    /// Its size.
    pub max_bytes: usize,
    /// Its nesting; a scalar is 1.
    pub max_depth: usize,
}

/// Bounds of a call's arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArgumentLimits {
    /// Their size.
    pub max_bytes: usize,
    /// Their nesting; a scalar is 1.
    pub max_depth: usize,
    /// Bytes of one string.
    pub max_string: usize,
    /// Members and items, all together.
    pub max_items: usize,
}

/// Calls at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Concurrency {
    /// Of one caller.
    pub per_principal: usize,
    /// To one server.
    pub per_server: usize,
}

impl Limits {
    pub(super) fn check(mut section: Section<'_>) -> Option<Self> {
        let request = MessageLimits::check(section.section("request"));
        let arguments = ArgumentLimits::check(section.section("arguments"));
        let result = MessageLimits::check(section.section("result"));
        let rate = section.read("rate", rates);
        let quota = section.read("quota", allowances::of_all);
        let concurrency = Concurrency::check(section.section("concurrency"));
        let timeout = section.read("timeout", allowances::timeout);
        if let (Some(request), Some(arguments)) = (&request, &arguments)
            && arguments.max_bytes > request.max_bytes
        {
            section.warn(
                "arguments",
                Complaint::new("`max_bytes` is more than the whole request may have"),
            );
        }
        section.finish();
        Some(Self {
            request: request?,
            arguments: arguments?,
            result: result?,
            rate: rate?,
            quota: quota?,
            concurrency: concurrency?,
            timeout: timeout?,
        })
    }
}

impl MessageLimits {
    fn check(mut section: Section<'_>) -> Option<Self> {
        let max_bytes = section.read("max_bytes", bytes);
        let max_depth = section.read("max_depth", depth);
        section.finish();
        Some(Self {
            max_bytes: max_bytes?,
            max_depth: max_depth?,
        })
    }
}

impl ArgumentLimits {
    fn check(mut section: Section<'_>) -> Option<Self> {
        let max_bytes = section.read("max_bytes", bytes);
        let max_depth = section.read("max_depth", depth);
        let max_string = section.read("max_string", bytes);
        let max_items = section.read("max_items", |value| count(value, 100_000_000));
        section.finish();
        Some(Self {
            max_bytes: max_bytes?,
            max_depth: max_depth?,
            max_string: max_string?,
            max_items: max_items?,
        })
    }
}

impl Concurrency {
    fn check(mut section: Section<'_>) -> Option<Self> {
        let per_principal = section.read("per_principal", |value| count(value, 100_000));
        let per_server = section.read("per_server", |value| count(value, 100_000));
        section.finish();
        Some(Self {
            per_principal: per_principal?,
            per_server: per_server?,
        })
    }
}

fn rates(value: &Entry<'_>) -> Result<Vec<Rule>, Complaint> {
    let rates = allowances::of_all(value)?;
    if rates.is_empty() {
        value.warn(Complaint::new("no rate limit is in force"));
    }
    Ok(rates)
}

fn bytes(value: &Entry<'_>) -> Result<usize, Complaint> {
    let bytes = value.size()?;
    let fits = usize::try_from(bytes).ok().filter(|_| bytes <= MAX_MESSAGE);
    fits.ok_or_else(|| Complaint::new("is more than 1GiB, which no message may have"))
}

fn depth(value: &Entry<'_>) -> Result<usize, Complaint> {
    count(value, 1_024)
}

fn count(value: &Entry<'_>, most: u64) -> Result<usize, Complaint> {
    Ok(usize::try_from(value.number(1..=most)?).unwrap_or(usize::MAX))
}

/// Messages are held in memory while they are judged.
const MAX_MESSAGE: u64 = 1 << 30;
