//! Limits: what a call costs that is counted by the default rules, by each further rule, and among a million callers.

use std::num::NonZeroU32;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use policy::{CallLimits, Class, LimitRules, Methods, Per, PerSet, Request, Rule, Window};
use vocabulary::{Clock, Principal, ServerId, ToolId, ToolName};

use crate::stopwatch::Figure;
use crate::town;

/// The project's target for one rule.
const RULE_US: f64 = 1.0;
const MILLION: u32 = 1_000_000;
/// What their counts may take, for each rule.
const MOST_BYTES: u64 = 300 << 20;

/// Measures them.
pub(crate) fn measure(only: &str) -> Result<Vec<Figure>> {
    let names = [
        "limits, default rules (3)",
        "limits, each further rule",
        "limits, default rules, a million callers",
    ];
    let mut figures = Vec::new();
    let wanted = |name: &str| name.contains(only);
    let [usual, further, crowd] = names;
    if !names.iter().any(|name| wanted(name)) {
        return Ok(figures);
    }
    let tool = ToolId {
        server: ServerId::parse("files")?,
        name: ToolName::parse("read")?,
    };
    let someone = town::agent("regular");
    let three = CallLimits::new(&rules(&[])?, Clock::system());
    let usual_figure = Figure::of(usual, || admit(&three, &someone, &tool));
    ensure!(admit(&three, &someone, &tool), "the call is not admitted");
    if wanted(further) {
        let pairs = [
            [Per::Principal, Per::Tool],
            [Per::Principal, Per::Server],
            [Per::Client, Per::Tool],
            [Per::Session, Per::Server],
        ];
        let seven = CallLimits::new(&rules(&pairs)?, Clock::system());
        let all = Figure::of(further, || admit(&seven, &someone, &tool));
        let each = |all: f64, three: f64| (all - three).max(0.0) / 4.0;
        figures.push(
            Figure {
                min_us: each(all.min_us, usual_figure.min_us),
                median_us: each(all.median_us, usual_figure.median_us),
                ..all
            }
            .at_most(RULE_US),
        );
    }
    if wanted(usual) {
        figures.insert(0, usual_figure.at_most(3.0 * RULE_US));
    }
    if wanted(crowd) {
        let many = CallLimits::new(&rules(&[])?, Clock::system());
        let mut caller = Principal::clone(&someone);
        let before = resident()?;
        for number in 0..MILLION {
            caller.sub = format!("caller-{number}");
            ensure!(admit(&many, &caller, &tool), "the call is not admitted");
        }
        // Two of the three rules count callers.
        let taken = (resident()? - before) / 2;
        ensure!(taken < MOST_BYTES, "a million keys of one rule take {taken} bytes");
        let mut number = 0u32;
        let figure = Figure::of(crowd, || {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            caller.sub = format!("caller-{}", number % MILLION);
            admit(&many, &caller, &tool)
        });
        figures.push(figure.at_most(3.0 * RULE_US));
    }
    Ok(figures)
}

/// The rules of a configuration that says nothing, with room for all of this; and further ones.
fn rules(further: &[[Per; 2]]) -> Result<LimitRules> {
    let rule = |per: PerSet, seconds| Rule {
        per,
        calls: NonZeroU32::MAX,
        window: Window::Rolling(Duration::from_secs(seconds)),
        methods: Methods::Calls,
    };
    let mut rate = vec![rule(Per::Principal.into(), 60), rule(Per::Tool.into(), 60)];
    for pair in further {
        rate.push(rule(PerSet::new(pair.to_vec()).context("two")?, 60));
    }
    Ok(LimitRules {
        rate,
        quota: vec![rule(Per::Principal.into(), 86_400)],
        per_principal: 16,
        per_server: 64,
        ..LimitRules::default()
    })
}

/// Resident memory of this process, in bytes.
fn resident() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = text.split(' ').nth(1).context("no such member")?.parse()?;
    Ok(pages * 4096)
}

fn admit(limits: &CallLimits, who: &Principal, tool: &ToolId) -> bool {
    let request = Request {
        who,
        session: None,
        server: Some(&tool.server),
        tool: Some(tool),
        class: Class::Call,
    };
    let admitted = pin!(limits.admit(&request, &tool.server)).poll(&mut Context::from_waker(Waker::noop()));
    matches!(admitted, Poll::Ready(Ok(_)))
}
