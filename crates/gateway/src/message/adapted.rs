//! What crossed the chokepoint, with members of ours in it: ids and tokens that the client knows, and what its era wants
//! said. Each adaptation there is has a constructor here; nothing else of the bytes can be changed behind the chokepoint.

use bytes::Bytes;
use mcp::method::federated;
use mcp::splice::Splice;
use mcp::task::RELATED_TASK;
use mcp::translate::{self, ResultKind};
use mcp::{Method, RequestId, compose, task};
use screening::result::ScreenedResult;
use vocabulary::ServerId;

/// Something screened, and what of it the client gets. Bytes from elsewhere cannot be put in:
///
/// ```compile_fail,E0451
/// fn forge(screened: screening::result::ScreenedResult, bytes: bytes::Bytes) -> portreeve_gateway::Adapted {
///     portreeve_gateway::Adapted { screened, bytes }
/// }
/// ```
///
/// ```
/// fn read(adapted: &portreeve_gateway::Adapted) -> &bytes::Bytes {
///     adapted.bytes()
/// }
/// ```
#[derive(Debug)]
pub struct Adapted {
    screened: ScreenedResult,
    bytes: Bytes,
}

/// A client's own progress token, as the literal it sent.
#[derive(Clone, Debug)]
pub(crate) struct ProgressToken(Vec<u8>);

impl ProgressToken {
    /// The token a request asks for progress with.
    pub(crate) fn of(params: &mcp::Params) -> Option<Self> {
        params.meta("progressToken").map(|raw| Self(raw.to_vec()))
    }
}

/// What a page of a cut text says of itself.
pub(crate) struct PageNotice {
    /// A sentence for the model, behind the text and outside of any fence.
    pub(crate) sentence: String,
    pub(crate) offset: usize,
    pub(crate) next: Option<usize>,
    pub(crate) end: usize,
    pub(crate) unit: &'static str,
}

/// The id of a subscription, in `_meta`.
pub(crate) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// The longest name on the federated route.
const LONGEST_NAME: usize = 128;
const COMPLETE: &[u8] = b"\"complete\"";

impl Adapted {
    /// The bytes to forward.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// What crossed the chokepoint.
    #[must_use]
    pub fn screened(&self) -> &ScreenedResult {
        &self.screened
    }

    fn edited(screened: ScreenedResult, edit: impl FnOnce(&mut Splice<'_>) -> Option<()>) -> Option<Self> {
        let original = screened.bytes().clone();
        let mut splice = Splice::new(&original).ok()?;
        edit(&mut splice)?;
        let bytes = splice.finish();
        Some(Self { screened, bytes })
    }

    /// A legacy server's result, for a modern client.
    pub(crate) fn for_modern(screened: ScreenedResult, kind: ResultKind) -> Option<Self> {
        let bytes = translate::for_modern(screened.bytes(), kind, compose::OUR_INFO.as_bytes()).ok()?;
        Some(Self { screened, bytes })
    }

    /// A legacy server's error, for a modern client.
    pub(crate) fn error_for_modern(screened: ScreenedResult) -> Self {
        let bytes = translate::error_for_modern(screened.bytes());
        Self { screened, bytes }
    }

    /// A modern server's error, for a client with a session.
    pub(crate) fn error_for_legacy(screened: ScreenedResult, method: &Method) -> Self {
        let bytes = translate::error_for_legacy(screened.bytes(), method);
        Self { screened, bytes }
    }

    /// Within the modern era only the scope of a cache is ours to say, and what a server forgot.
    pub(crate) fn complete(screened: ScreenedResult, kind: ResultKind) -> Option<Self> {
        Self::edited(screened, |splice| {
            splice.insert_if_absent("resultType", COMPLETE);
            if kind == ResultKind::Cacheable {
                splice.insert_if_absent("ttlMs", b"0".as_slice());
                if splice.raw("cacheScope") != Some(b"\"private\"") {
                    splice.replace_or_insert("cacheScope", b"\"private\"".as_slice());
                }
            }
            Some(())
        })
    }

    /// With the state that its server keeps with the client, sealed.
    pub(crate) fn with_state(screened: ScreenedResult, sealed: Option<&str>) -> Option<Self> {
        Self::edited(screened, |splice| {
            if let Some(sealed) = sealed {
                splice.replace_or_insert("requestState", compose::literal(sealed));
            }
            Some(())
        })
    }

    /// A task by our id; a result that names none stays as it is.
    pub(crate) fn naming_task(screened: ScreenedResult, ours: &str) -> Option<Self> {
        Self::edited(screened, |splice| {
            if splice.raw("taskId").is_some() {
                splice.replace_or_insert("taskId", compose::literal(ours));
            }
            Some(())
        })
    }

    /// The state of a modern server's task by our id.
    pub(crate) fn task_state(screened: ScreenedResult, ours: &str) -> Option<Self> {
        Self::edited(screened, |splice| {
            splice.insert_if_absent("resultType", COMPLETE);
            if splice.raw("taskId").is_some() {
                splice.replace_or_insert("taskId", compose::literal(ours));
            }
            Some(())
        })
    }

    /// What a notification or a list says of a task, by our id. Questions are put when the client asks for the task,
    /// where each is decided.
    pub(crate) fn task_news(screened: ScreenedResult, ours: &str) -> Option<Self> {
        Self::edited(screened, |splice| {
            if splice.raw("inputRequests").is_some() {
                splice.remove("inputRequests");
            }
            splice.replace_or_insert("taskId", compose::literal(ours));
            Some(())
        })
    }

    /// The task that a call of a session became, by our id.
    pub(crate) fn begun_task(screened: ScreenedResult, ours: &str) -> Option<Self> {
        Self::edited(screened, |splice| {
            let task = Bytes::copy_from_slice(splice.raw("task")?);
            let mut inner = Splice::new(&task).ok()?;
            inner.replace_or_insert("taskId", compose::literal(ours));
            splice.replace_or_insert("task", inner.finish().to_vec());
            Some(())
        })
    }

    /// The result of a task, which says in `_meta` which task it is of.
    pub(crate) fn related_to_task(screened: ScreenedResult, ours: &str) -> Option<Self> {
        Self::edited(screened, |splice| {
            if splice.meta_raw(RELATED_TASK).is_some() {
                let mut task = Vec::new();
                compose::object([("taskId", compose::literal(ours).as_slice())].into_iter(), &mut task);
                splice.meta_replace_or_insert(RELATED_TASK, task);
            }
            Some(())
        })
    }

    /// A server's request, without the task it belongs to: a modern client knows of none.
    pub(crate) fn unrelated(screened: &ScreenedResult) -> Option<Self> {
        let bytes = task::unrelated(screened.bytes());
        let screened = screened.part(screened.bytes())?;
        Some(Self { screened, bytes })
    }

    /// Progress of a call that goes by `our_token`, under the client's own token; `None` for any other call's.
    pub(crate) fn progress(screened: ScreenedResult, our_token: u64, token: &ProgressToken) -> Option<Self> {
        Self::edited(screened, |splice| {
            if !mcp::server::is_our_id(splice.raw("progressToken")?, our_token) {
                return None;
            }
            splice.replace_or_insert("progressToken", token.0.clone());
            Some(())
        })
    }

    /// A notification, under the id of the subscription it belongs to.
    pub(crate) fn of_subscription(screened: ScreenedResult, id: &RequestId) -> Option<Self> {
        Self::edited(screened, |splice| {
            splice.meta_replace_or_insert(SUBSCRIPTION_ID, id.as_raw().to_vec());
            Some(())
        })
    }

    /// A definition under `server__name`; `None` where that is too long.
    pub(crate) fn federated_name(screened: ScreenedResult, server: &ServerId) -> Option<Self> {
        Self::edited(screened, |splice| {
            let name = mcp::envelope::text_of(splice.raw("name")?)?;
            let name = federated(server.as_str(), &name);
            if name.chars().count() > LONGEST_NAME {
                return None;
            }
            splice.replace_or_insert("name", compose::literal(&name));
            Some(())
        })
    }

    /// A page of a cut text, and behind it where to read on.
    pub(crate) fn page(screened: ScreenedResult, notice: &PageNotice, era: vocabulary::Era) -> Option<Self> {
        let PageNotice { offset, end, unit, .. } = notice;
        let next = notice.next.map_or("null".to_owned(), |next| next.to_string());
        let meta = format!(r#"{{"offset":{offset},"next_offset":{next},"end_offset":{end},"unit":"{unit}"}}"#);
        Self::edited(screened, |splice| {
            let mut content = splice.raw("content")?.strip_suffix(b"]")?.to_vec();
            content.extend_from_slice(br#",{"type":"text","text":"#);
            compose::string(&notice.sentence, &mut content);
            content.extend_from_slice(b"}]");
            splice.replace_or_insert("content", content);
            splice.meta_replace_or_insert("portreeve/page", meta.into_bytes());
            if era == vocabulary::Era::Modern {
                splice.insert_if_absent("resultType", COMPLETE);
            }
            Some(())
        })
    }
}
