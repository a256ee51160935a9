//! `portreeve__read_cache`: the rest of a text that was cut, page by page, for the principal whose call brought it. A
//! page crosses the chokepoint like any result, by the rules in force now.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use ledger::{DecisionFacts, Ending, MessageFacts, Verdict};
use mcp::splice::Splice;
use mcp::{Method, Request, compose};
use screening::arguments::{ArgumentRules, CheckedArguments, Fields, check};
use screening::result::truncate::{Index, Page, Wanted as Extent};
use screening::result::validate::Declared;
use screening::result::walk::Message;
use screening::result::{Origin, OutputTrust, Raw, ScreenedResult};
use vocabulary::ReasonCode;
use vocabulary::json::{self, Value};

use crate::context::client::Client;
use crate::context::{Ended, RequestContext};
use crate::outcome::Case;
use crate::receive::Gateway;
use crate::reply::{ErrorData, Prepared};
use crate::screen::standing;
use crate::snapshot::{Display, Snapshot};
use crate::state::truncated::{Judged, StoredText};

/// Its name on every route.
pub(crate) const NAME: &str = "portreeve__read_cache";

const DEFINITION: &str = concat!(
    r#"{"name":"portreeve__read_cache","title":"Read on","description":"Reads on in a tool result that the gateway cut. "#,
    r#"The notice behind the result names the key and the offset. Offset and limit count bytes, or records where the text is a JSON array.","#,
    r#""inputSchema":{"type":"object","properties":{"key":{"type":"string","maxLength":128},"offset":{"type":"integer","minimum":0},"#,
    r#""limit":{"type":"integer","minimum":1}},"required":["key"]},"annotations":{"readOnlyHint":true,"openWorldHint":false}}"#
);

/// The definition, as lists show it.
pub(crate) static DISPLAY: LazyLock<Display> = LazyLock::new(|| Display::of(DEFINITION.as_bytes().to_vec()));

static RULES: LazyLock<Option<ArgumentRules>> = LazyLock::new(|| {
    let limits = json::Limits {
        max_bytes: 1024,
        max_depth: 4,
        max_string: 256,
        max_items: 8,
    };
    let schema = mcp::server::member_span(DEFINITION.as_bytes(), "inputSchema")?;
    ArgumentRules::compile(limits, DEFINITION.as_bytes().get(schema)?, Fields::Closed).ok()
});

/// Whether the tool is there at all.
pub(crate) fn is_offered(snapshot: &Snapshot) -> bool {
    snapshot.screening.truncation.is_some()
}

/// What is asked for.
struct Wanted {
    key: String,
    offset: usize,
    limit: Option<usize>,
}

impl Gateway {
    /// Answers a call of it.
    pub(crate) async fn read_cache(&self, asked: &RequestContext, request: &Request) -> Ended {
        let case = Case::new(self, asked, request);
        match case.read_cache(request).await {
            Ok(ended) => ended,
            Err(ended) => *ended,
        }
    }
}

impl Case<'_> {
    async fn read_cache(&self, request: &Request) -> Result<Ended, Box<Ended>> {
        let mut facts = MessageFacts {
            method: Method::ToolsCall.as_str().to_owned(),
            server_id: Some("portreeve".to_owned()),
            tool_name: Some("read_cache".to_owned()),
            ..self.asked.facts()
        };
        let wanted = self.wanted(request, &mut facts)?;
        let (stored, standing) = self.stored(&wanted).ok_or_else(|| self.no_such_text(&facts))?;
        let admitted = self
            .snapshot
            .limiter
            .admit_request(&self.asked.who, &stored.tool.id.server);
        let _seat = admitted.map_err(|over| self.over_limit(&facts, &over))?;
        let stored = self.judged(stored, standing, &wanted).await;
        let stored = stored.ok_or_else(|| self.no_such_text(&facts))?;
        let (page, raw) = self.page_of(&stored, &wanted).await;
        let origin = origin_of(&stored, standing);
        let screened = self.gateway.screen_page(raw, &origin, self.asked).await;
        let reply = match screened {
            Ok(result) => self.told(result, &wanted, &page),
            Err(withheld) => self.withheld(&withheld).1,
        };
        let ending = Ending::Answered {
            who: self.asked.who.clone(),
            message: facts,
            decision: self.by_builtin(Verdict::Allow, ReasonCode::AllowBuiltin),
            catalog: None,
        };
        Ok(Ended { ending, reply })
    }

    fn wanted(&self, request: &Request, facts: &mut MessageFacts) -> Result<Wanted, Box<Ended>> {
        let rules = RULES
            .as_ref()
            .ok_or_else(|| self.malformed(mcp::ErrorCode::InternalError, "the gateway's own tool cannot be used"))?;
        match check(request.params().raw("arguments"), rules) {
            Ok(checked) => {
                facts.args_hash = Some(checked.digest());
                facts.args_canon = Some(checked.spelling());
                Ok(Wanted::of(&checked))
            }
            Err(refusal) => {
                facts.args_hash = refusal.digest;
                let note = ErrorData::denied(refusal.code);
                let era = self.asked.client.era();
                let reply = Prepared::error_result(self.id.clone(), era, refusal.message, note);
                Err(self.ended_refused(facts, self.by_builtin(Verdict::Deny, refusal.code), reply))
            }
        }
    }

    /// The text, if it is this principal's and the tool that brought it is still theirs to call, and whether that tool
    /// is trusted now.
    fn stored(&self, wanted: &Wanted) -> Option<(StoredText, Standing)> {
        let stored = self.gateway.cache.find(&wanted.key, &self.asked.who)?;
        let id = &stored.tool.id;
        let known = self.snapshot.policy.resolve(&self.caller, &id.server, id.name.as_str());
        let standing = standing(known.ok()?.entry());
        Some((stored, standing))
    }

    /// The text as the rules in force now leave it. Where they changed, the whole is judged again and not page by page:
    /// what lies on the edge of a page would be found in neither.
    async fn judged(&self, stored: StoredText, standing: Standing, wanted: &Wanted) -> Option<StoredText> {
        let rules = self.gateway.snapshot().screening.clone();
        if stored.is_judged_by(&rules, standing) {
            return Some(stored);
        }
        let judging = stored.judging.clone();
        let _alone = judging.lock().await;
        // Whoever was first has done it.
        let mut stored = self.gateway.cache.find(&wanted.key, &self.asked.who)?;
        if stored.is_judged_by(&rules, standing) {
            return Some(stored);
        }
        let screening_pool = &self.gateway.screening_pool;
        let (size, whole) = (stored.whole.len(), stored.whole.clone());
        let raw = screening_pool.run_if_large(size, || Raw::Unread(around(&whole))).await;
        let origin = origin_of(&stored, standing);
        let screened = self.gateway.screen_kept(raw, &origin, self.asked).await.ok()?;
        let read = || {
            let whole: Arc<str> = text_in(&screened)?.into();
            let index = Arc::new(Index::of(&whole));
            Some((whole, index))
        };
        (stored.whole, stored.index) = screening_pool.run_if_large(size, read).await?;
        let now = (stored.whole.clone(), stored.index.clone());
        self.gateway
            .cache
            .replace(&wanted.key, now, Judged::by(&rules, standing));
        Some(stored)
    }

    /// A page, and the same as the result of its tool. No page is longer than any other text, unless a single record is.
    async fn page_of<'s>(&self, stored: &'s StoredText, wanted: &Wanted) -> (Page<'s>, Raw) {
        let most = self
            .snapshot
            .screening
            .truncation
            .map_or(usize::MAX, |cut| cut.limit_bytes);
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
        self.gateway.screening_pool.run_if_large(size, find).await
    }

    /// The page, and behind it where to read on: outside of any fence, and in `_meta`.
    fn told(&self, result: ScreenedResult, wanted: &Wanted, page: &Page<'_>) -> Prepared {
        let (unit, total, from) = (page.unit.as_str(), page.total, wanted.offset.min(page.total));
        let next = page.next.map_or("null".to_owned(), |next| next.to_string());
        let meta = format!(r#"{{"offset":{from},"next_offset":{next},"end_offset":{total},"unit":"{unit}"}}"#);
        let sentence = match page.next {
            Some(next) => format!("[portreeve: from {from} of {total} {unit}; read on at offset {next}.]"),
            None => format!("[portreeve: from {from} of {total} {unit}; this is the end.]"),
        };
        match with_notice(&result, &sentence, meta, &self.asked.client) {
            Some(adapted) => Prepared::adapted_result(self.id.clone(), result, adapted),
            None => Prepared::result(self.id.clone(), result),
        }
    }

    fn no_such_text(&self, facts: &MessageFacts) -> Box<Ended> {
        let code = ReasonCode::DenyNoPermission;
        let message = "there is nothing to read under this key any more; call the tool again".to_owned();
        let era = self.asked.client.era();
        let reply = Prepared::error_result(self.id.clone(), era, message, ErrorData::denied(code));
        self.ended_refused(facts, self.by_builtin(Verdict::Deny, code), reply)
    }

    fn by_builtin(&self, verdict: Verdict, code: ReasonCode) -> DecisionFacts {
        self.verdict(verdict, Arc::from("builtin:read-cache"), vec![code])
    }
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

fn origin_of(stored: &StoredText, standing: Standing) -> Origin<'_> {
    Origin {
        server: stored.tool.id.server.as_str(),
        name: stored.tool.id.name.as_str(),
        message: Message::ToolResult,
        standing,
        declared: Declared::Nothing,
    }
}

fn with_notice(result: &ScreenedResult, sentence: &str, meta: String, client: &Client) -> Option<Bytes> {
    let mut splice = Splice::new(result.bytes()).ok()?;
    let mut content = splice.raw("content")?.strip_suffix(b"]")?.to_vec();
    content.extend_from_slice(br#",{"type":"text","text":"#);
    compose::string(sentence, &mut content);
    content.extend_from_slice(b"}]");
    splice.replace_or_insert("content", content);
    splice.meta_replace_or_insert("portreeve/page", meta.into_bytes());
    if matches!(client, Client::Modern(_)) {
        splice.insert_if_absent("resultType", b"\"complete\"".as_slice());
    }
    Some(splice.finish())
}
