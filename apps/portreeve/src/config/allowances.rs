//! Rates and quotas: of `[limits]`, and of single tools.

use std::num::NonZeroU32;
use std::time::Duration;

use ::policy::{Methods, Per, PerSet, Rule, ToolLimits, Window};
use settings::{Complaint, Entry, Section};

/// No call may take longer.
const LONGEST_CALL: Duration = Duration::from_secs(3_600);

/// `rate` or `quota` of `[limits]`.
pub(super) fn of_all(value: &Entry<'_>) -> Result<Vec<Rule>, Complaint> {
    rules(value, |section| {
        let per = section.require("per", |value| per(value, &Per::ALL));
        let methods = section.read("methods", |value| value.word(Methods::ALL, Methods::as_str));
        Some((per?, methods?))
    })
}

/// `limits` of a tool. What is counted is calls of it: `per` says whose.
pub(super) fn of_tool(mut section: Section<'_>) -> ToolLimits {
    let rate = section.read("rate", of_one);
    let quota = section.read("quota", of_one);
    let most = 100_000;
    let concurrency = section.read("concurrency", |value| value.number(1..=most));
    let timeout = section.read("timeout", timeout);
    section.finish();
    ToolLimits {
        rate: rate.unwrap_or_default(),
        quota: quota.unwrap_or_default(),
        concurrency: concurrency.and_then(|number| usize::try_from(number).ok()),
        timeout,
    }
}

/// How long a call may take.
pub(super) fn timeout(value: &Entry<'_>) -> Result<Duration, Complaint> {
    let time = value.duration()?;
    (time <= LONGEST_CALL)
        .then_some(time)
        .ok_or_else(|| Complaint::new("is longer than an hour"))
}

fn of_one(value: &Entry<'_>) -> Result<Vec<Rule>, Complaint> {
    rules(value, |section| {
        let callers = [Per::Principal, Per::Client, Per::Session];
        let per = match section.has("per") {
            true => section.read("per", |value| per(value, &callers))?,
            false => Per::Tool.into(),
        };
        Some((per, Methods::Calls))
    })
}

/// A list of rules, each with what `read` makes of what it counts.
fn rules(
    value: &Entry<'_>,
    read: impl Fn(&mut Section<'_>) -> Option<(PerSet, Methods)>,
) -> Result<Vec<Rule>, Complaint> {
    let mut rules: Vec<Rule> = Vec::new();
    for item in value.items()? {
        let Some(mut section) = item.into_section() else {
            continue;
        };
        let counted = read(&mut section);
        let calls = section.require("calls", |value| value.number(1..=u64::from(u32::MAX)));
        let window = section.require("window", window);
        let calls = calls.and_then(|calls| NonZeroU32::new(u32::try_from(calls).ok()?));
        let (Some((per, methods)), Some(calls), Some(window)) = (counted, calls, window) else {
            section.finish();
            continue;
        };
        let same = |known: &Rule| (&known.per, known.window, known.methods) == (&per, window, methods);
        if rules.iter().any(same) {
            let complaint = Complaint::new("stands here twice, with the same `per`, `window` and `methods`");
            section.fault("window", complaint.hint("keep the one that is meant"));
        }
        rules.push(Rule {
            per,
            calls,
            window,
            methods,
        });
        section.finish();
    }
    Ok(rules)
}

/// One word, or a list of them.
fn per(value: &Entry<'_>, known: &[Per]) -> Result<PerSet, Complaint> {
    let word = |value: &Entry<'_>| value.word(known, Per::as_str);
    let words = match value.is_list() {
        true => value.distinct(word)?,
        false => vec![word(value)?],
    };
    PerSet::new(words).ok_or_else(|| Complaint::new("names nothing that could be counted"))
}

/// A length of time that rolls on, or a day or month of the calendar.
fn window(value: &Entry<'_>) -> Result<Window, Complaint> {
    match value.text()? {
        "day" => Ok(Window::Day),
        "month" => Ok(Window::Month),
        _ => {
            let hint = "write `90s`, `15m`, `1h` or `7d`, or `day` or `month` for those of the calendar (UTC)";
            let length = value
                .duration()
                .map_err(|_| Complaint::new("is not a length of time, nor a part of the calendar").hint(hint))?;
            (length <= Window::LONGEST)
                .then_some(Window::Rolling(length))
                .ok_or_else(|| Complaint::new("is longer than 366 days"))
        }
    }
}
