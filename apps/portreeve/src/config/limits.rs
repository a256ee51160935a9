//! `[limits]`: how much, how often, how long.

use std::time::Duration;

use settings::{Complaint, Entry, Section};

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
    pub rate: Vec<Rate>,
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

/// So many calls in so long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// What is counted.
    pub per: Per,
    /// Number of calls; at least 1.
    pub calls: u32,
    /// Length of time.
    pub window: Duration,
}

vocabulary::words! {
    /// What a rate is counted by.
    pub enum Per {
        /// The caller.
        Principal = "principal",
        /// The tool, for all callers together.
        Tool = "tool",
    }
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
        let concurrency = Concurrency::check(section.section("concurrency"));
        let timeout = section.read("timeout", |value| {
            let time = value.duration()?;
            let longest = Duration::from_secs(3_600);
            (time <= longest)
                .then_some(time)
                .ok_or_else(|| Complaint::new("is longer than an hour"))
        });
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

fn rates(value: &Entry<'_>) -> Result<Vec<Rate>, Complaint> {
    let mut rates: Vec<Rate> = Vec::new();
    for item in value.items()? {
        let Some(mut section) = item.into_section() else {
            continue;
        };
        let per = section.require("per", |value| value.word(Per::ALL, Per::as_str));
        let calls = section.require("calls", |value| value.number(1..=u64::from(u32::MAX)));
        let window = section.require("window", Entry::duration);
        let (Some(per), Some(calls), Some(window)) = (per, calls, window) else {
            section.finish();
            continue;
        };
        if rates.iter().any(|known| known.per == per && known.window == window) {
            section.fault(
                "window",
                Complaint::new("this rate stands here twice, with the same `per` and `window`"),
            );
        }
        rates.push(Rate {
            per,
            calls: u32::try_from(calls).unwrap_or(u32::MAX),
            window,
        });
        section.finish();
    }
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
