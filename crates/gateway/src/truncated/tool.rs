//! `portreeve__read_cache`: the rest of a text that was cut, page by page, for the principal whose call brought it. A
//! page crosses the chokepoint like any result, by the rules in force now.

use std::sync::Arc;

use bytes::Bytes;
use ledger::{DecisionFacts, Ending, MessageFacts, Verdict};
use mcp::{ErrorCode, Method, Request, compose};
use policy::Subject;
use screening::arguments::{CheckedArguments, check};
use screening::result::truncate::{Index, Page, Wanted as Extent};
use screening::result::validate::Declared;
use screening::result::walk::Message;
use screening::result::{Origin, OutputTrust, Raw, ScreenedResult, Withheld};
use vocabulary::json::{self, Value};
use vocabulary::{ReasonCode, Risk};

use crate::context::Ended;
use crate::message::Adapted;
use crate::message::adapted::PageNotice;
use crate::message::error_data::ErrorData;
use crate::reply::Prepared;
use crate::screen::{screen_kept, screen_page, standing};
use crate::stages::Stages;
use crate::state::incidents::Says;
use crate::state::truncated::{Judged, StoredText};
use crate::truncated::definition::RULES;

/// What is asked for.
struct Wanted {
    key: String,
    offset: usize,
    limit: Option<usize>,
}

/// Answers a call of it.
pub(crate) async fn call(stages: &Stages<'_>, request: &Request) -> Ended {
    read_on(stages, request).await.unwrap_or_else(|ended| *ended)
}

async fn read_on(stages: &Stages<'_>, request: &Request) -> Result<Ended, Box<Ended>> {
    let mut facts = MessageFacts {
        method: Method::ToolsCall.as_str().to_owned(),
        server_id: Some("portreeve".to_owned()),
        tool_name: Some("read_cache".to_owned()),
        ..stages.context.facts()
    };
    let wanted = wanted(stages, request, &mut facts)?;
    let (stored, standing) = stored(stages, &wanted).ok_or_else(|| no_such_text(stages, &facts))?;
    let subject = Subject {
        who: &stages.context.who,
        server: Some(&stored.tool.id.server),
        tool: Some(&stored.tool.id),
        risk: Risk::Low,
    };
    if stages.gateway.incidents.of(&subject) == Says::Denied {
        return Err(stages.by_incident(&facts));
    }
    let admitted = stages.admit(&stored.tool.id.server, None).await;
    let _slot = admitted.map_err(|over| stages.over_limit(&facts, &over))?;
    let stored = judged(stages, stored, standing, &wanted).await;
    let stored = stored.ok_or_else(|| no_such_text(stages, &facts))?;
    let (page, raw) = page_of(stages, &stored, &wanted).await;
    let origin = origin_of(&stored, standing);
    let reply = match screen_page(stages.gateway, raw, &origin, stages.context).await {
        Ok(result) => told(stages, result, &wanted, &page),
        Err(withheld) => stages.withheld_reply(&withheld),
    };
    let ending = Ending::Answered {
        who: stages.context.who.clone(),
        message: facts,
        decision: by_builtin(stages, Verdict::Allow, ReasonCode::AllowBuiltin),
        catalog: None,
    };
    Ok(Ended { ending, reply })
}

fn wanted(stages: &Stages<'_>, request: &Request, facts: &mut MessageFacts) -> Result<Wanted, Box<Ended>> {
    let rules = RULES
        .as_ref()
        .ok_or_else(|| stages.malformed(ErrorCode::InternalError, "the gateway's own tool cannot be used"))?;
    match check(request.params().raw("arguments"), rules) {
        Ok(checked) => {
            facts.args_hash = Some(checked.digest());
            facts.args_canon = Some(checked.spelling());
            Ok(Wanted::of(&checked))
        }
        Err(refusal) => {
            facts.args_hash = refusal.digest;
            let decision = by_builtin(stages, Verdict::Deny, refusal.code);
            let data = ErrorData::denied(ErrorCode::InvalidParams, refusal.message, refusal.code);
            Err(stages.refused_to_model(facts, decision, data))
        }
    }
}

/// The text, if it is this principal's and the tool that brought it is still theirs to call, and whether that tool
/// is trusted now.
fn stored(stages: &Stages<'_>, wanted: &Wanted) -> Option<(StoredText, OutputTrust)> {
    let stored = stages.gateway.truncated.find(&wanted.key, &stages.context.who)?;
    let id = &stored.tool.id;
    let policy = &stages.snapshot.policy;
    let known = policy.resolve(
        &stages.caller,
        &id.server,
        id.name.as_str(),
        stages.context.client.face(),
    );
    let standing = standing(known.ok()?.entry());
    Some((stored, standing))
}

/// The text as the rules in force now leave it. Where they changed, the whole is judged again and not page by page:
/// what lies on the edge of a page would be found in neither.
async fn judged(stages: &Stages<'_>, stored: StoredText, standing: OutputTrust, wanted: &Wanted) -> Option<StoredText> {
    let gateway = stages.gateway;
    let rules = gateway.in_force().screening.clone();
    if stored.is_judged_by(&rules, standing) {
        return Some(stored);
    }
    let judging = stored.judging.clone();
    let _alone = judging.lock().await;
    // Whoever was first has done it.
    let mut stored = gateway.truncated.find(&wanted.key, &stages.context.who)?;
    if stored.is_judged_by(&rules, standing) {
        return Some(stored);
    }
    let pool = &gateway.screening_pool;
    let (size, whole) = (stored.whole.len(), stored.whole.clone());
    let raw = pool.run_if_large(size, || Raw::Unread(around(&whole))).await;
    let origin = origin_of(&stored, standing);
    let screened = screen_kept(gateway, raw, &origin, stages.context).await.ok()?;
    let read = || {
        let whole: Arc<str> = text_in(&screened)?.into();
        let index = Arc::new(Index::of(&whole));
        Some((whole, index))
    };
    (stored.whole, stored.index) = pool.run_if_large(size, read).await?;
    let now = (stored.whole.clone(), stored.index.clone());
    gateway
        .truncated
        .replace(&wanted.key, now, Judged::by(&rules, standing));
    Some(stored)
}

/// A page, and the same as the result of its tool. No page is longer than any other text, unless a single record is.
async fn page_of<'s>(stages: &Stages<'_>, stored: &'s StoredText, wanted: &Wanted) -> (Page<'s>, Raw) {
    let truncation = stages.snapshot.screening.truncation;
    let most = truncation.map_or(usize::MAX, |cut| cut.limit_bytes);
    let extent = Extent {
        offset: wanted.offset,
        limit: wanted.limit.unwrap_or(most),
        most_bytes: most,
    };
    let find = || {
        let page = stored.index.page(&stored.whole, &extent);
        (page, Raw::Unread(around(page.text)))
    };
    let size = stored.whole.len();
    stages.gateway.screening_pool.run_if_large(size, find).await
}

/// The page, and behind it where to read on: outside of any fence, and in `_meta`.
fn told(stages: &Stages<'_>, result: ScreenedResult, wanted: &Wanted, page: &Page<'_>) -> Prepared {
    let (unit, total, from) = (page.unit.as_str(), page.total, wanted.offset.min(page.total));
    let sentence = match page.next {
        Some(next) => format!("[portreeve: from {from} of {total} {unit}; read on at offset {next}.]"),
        None => format!("[portreeve: from {from} of {total} {unit}; this is the end.]"),
    };
    let notice = PageNotice {
        sentence,
        offset: from,
        next: page.next,
        end: total,
        unit,
    };
    let id = stages.id.clone();
    match Adapted::page(result, &notice, stages.context.client.era()) {
        Some(adapted) => Prepared::adapted_result(id, adapted),
        None => stages.withheld_reply(&Withheld {
            code: ReasonCode::ErrorUpstream,
            message: "the page cannot be told".to_owned(),
        }),
    }
}

fn no_such_text(stages: &Stages<'_>, facts: &MessageFacts) -> Box<Ended> {
    let code = ReasonCode::DenyNoPermission;
    let message = "there is nothing to read under this key any more; call the tool again";
    let decision = by_builtin(stages, Verdict::Deny, code);
    stages.refused_to_model(
        facts,
        decision,
        ErrorData::denied(ErrorCode::InvalidParams, message, code),
    )
}

fn by_builtin(stages: &Stages<'_>, verdict: Verdict, code: ReasonCode) -> DecisionFacts {
    stages.decision(verdict, Arc::from("builtin:read-cache"), code)
}

impl Wanted {
    fn of(checked: &CheckedArguments<'_>) -> Self {
        let member = |name: &str| checked.tree().member(name);
        let number = |name: &str| match member(name)? {
            Value::Number(text) => Some(whole_number(text)),
            Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => None,
        };
        Self {
            key: member("key").and_then(Value::as_str).unwrap_or_default().to_owned(),
            offset: number("offset").unwrap_or(0),
            limit: number("limit"),
        }
    }
}

/// A number that the schema lets pass for a whole one, also as `1.0` or `1e3`; too large a one is beyond any end.
fn whole_number(text: &str) -> usize {
    let plain = text.parse().ok();
    // The cast stops at the largest number.
    plain.unwrap_or_else(|| text.parse::<f64>().map_or(usize::MAX, |number| number as usize))
}

/// A text as the result of its tool.
fn around(text: &str) -> Bytes {
    let mut result = br#"{"content":[{"type":"text","text":"#.to_vec();
    compose::string(text, &mut result);
    result.extend_from_slice(b"}]}");
    result.into()
}

/// The text in such a result.
fn text_in(result: &ScreenedResult) -> Option<String> {
    let bytes = result.bytes();
    let limits = json::Limits {
        max_bytes: bytes.len(),
        max_depth: 8,
        max_string: bytes.len(),
        max_items: 16,
    };
    match Value::parse(bytes, &limits).ok()?.member("content")? {
        Value::Array(blocks) => blocks.first()?.member("text")?.as_str().map(str::to_owned),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => None,
    }
}

fn origin_of(stored: &StoredText, standing: OutputTrust) -> Origin<'_> {
    Origin {
        server: stored.tool.id.server.as_str(),
        name: stored.tool.id.name.as_str(),
        message: Message::ToolResult,
        standing,
        declared: Declared::Nothing,
    }
}
