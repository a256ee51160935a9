//! Turns an ending into bytes for the client. Nothing that says anything leaves without a receipt:
//! [`release`] takes one by value, and only what carries no message ([`Answer::acknowledged`],
//! probes, metadata) is made without.

pub(crate) mod error_data;
pub(crate) mod pieces;
pub(crate) mod stream;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use ledger::{Era, LedgerDown, Receipt, ScreeningAct};
use mcp::http::{AnswerForm, EVENT_STREAM, JSON, SESSION_ID};
use mcp::{RequestId, compose};
use screening::result::ScreenedResult;
use vocabulary::{ReasonCode, ReceiptId};

pub(crate) use crate::reply::error_data::ErrorData;
use crate::reply::pieces::Pieces;
use crate::reply::stream::{EventBody, ReplyBody, ResponseStream};

/// An answer that may leave.
///
/// It cannot be made from a response by hand, and [`release`] does not work without a receipt:
///
/// ```compile_fail,E0451
/// fn forge(response: http::Response<http_body_util::Full<bytes::Bytes>>) {
///     let answer = portreeve_gateway::Answer { response };
/// }
/// ```
///
/// ```compile_fail,E0061
/// fn answer_without_a_receipt(prepared: portreeve_gateway::Prepared) -> portreeve_gateway::Answer {
///     portreeve_gateway::release(prepared)
/// }
/// ```
///
/// ```
/// fn answer(prepared: portreeve_gateway::Prepared, receipt: ledger::Receipt) -> portreeve_gateway::Answer {
///     portreeve_gateway::release(prepared, receipt)
/// }
/// ```
pub struct Answer {
    response: Response<ReplyBody>,
}

/// An answer that waits for its receipt.
pub struct Prepared {
    status: StatusCode,
    form: AnswerForm,
    session: Option<String>,
    challenge: Option<String>,
    content: Content,
}

enum Content {
    Nothing,
    Screened {
        id: RequestId,
        result: ScreenedResult,
        adapted: Option<Bytes>,
    },
    ServerError {
        id: RequestId,
        error: ScreenedResult,
        adapted: Option<Bytes>,
    },
    Events(Box<EventBody>),
    Own {
        id: RequestId,
        result: Bytes,
    },
    Refusal {
        id: Option<RequestId>,
        code: mcp::ErrorCode,
        message: String,
        decision: ErrorData,
    },
    ErrorResult {
        id: RequestId,
        text: String,
        decision: ErrorData,
        era: Era,
    },
}

impl Prepared {
    fn ok(content: Content) -> Self {
        Self {
            status: StatusCode::OK,
            form: AnswerForm::Json,
            session: None,
            challenge: None,
            content,
        }
    }

    /// A server's result, screened.
    pub(crate) fn result(id: RequestId, result: ScreenedResult) -> Self {
        Self::ok(Content::Screened {
            id,
            result,
            adapted: None,
        })
    }

    /// A server's result, screened, then adapted to the client's era.
    pub(crate) fn adapted_result(id: RequestId, result: ScreenedResult, adapted: Bytes) -> Self {
        Self::ok(Content::Screened {
            id,
            result,
            adapted: Some(adapted),
        })
    }

    /// A stream without an end of its own.
    pub(crate) fn events(body: EventBody) -> Self {
        Self::ok(Content::Events(Box::new(body)))
    }

    /// A server's own error, screened.
    pub(crate) fn server_error(id: RequestId, error: ScreenedResult, adapted: Option<Bytes>) -> Self {
        Self::ok(Content::ServerError { id, error, adapted })
    }

    /// A result of the gateway's own.
    pub(crate) fn own(id: RequestId, result: Bytes) -> Self {
        Self::ok(Content::Own { id, result })
    }

    /// A JSON-RPC error.
    pub(crate) fn refusal(id: Option<RequestId>, code: i32, message: String, decision: ErrorData) -> Self {
        Self::ok(Content::Refusal {
            id,
            code,
            message,
            decision,
        })
    }

    /// A tool result that tells a model what is wrong.
    pub(crate) fn error_result(id: RequestId, era: Era, text: String, decision: ErrorData) -> Self {
        Self::ok(Content::ErrorResult {
            id,
            text,
            decision,
            era,
        })
    }

    /// A refusal by HTTP status, with a JSON-RPC error as body.
    pub(crate) fn status(status: StatusCode, id: Option<RequestId>, message: &str, code: ReasonCode) -> Self {
        Self {
            status,
            ..Self::refusal(id, -32600, message.to_owned(), ErrorData::denied(code))
        }
    }

    /// Nothing but a status.
    pub(crate) fn empty(status: StatusCode) -> Self {
        Self {
            status,
            ..Self::ok(Content::Nothing)
        }
    }

    pub(crate) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    pub(crate) fn with_challenge(self, challenge: String) -> Self {
        Self {
            challenge: Some(challenge),
            ..self
        }
    }

    pub(crate) fn with_session(self, id: String) -> Self {
        Self {
            session: Some(id),
            ..self
        }
    }

    /// In the form the client asked for; a refusal by HTTP status is always plain JSON.
    pub(crate) fn in_form(self, form: AnswerForm) -> Self {
        if self.status == StatusCode::OK {
            Self { form, ..self }
        } else {
            self
        }
    }

    /// The JSON-RPC code of a refusal, for those that name one beside their status.
    pub(crate) fn with_code(mut self, wanted: mcp::ErrorCode) -> Self {
        if let Content::Refusal { code, .. } = &mut self.content {
            *code = wanted;
        }
        self
    }

    /// What the chokepoint did about what a server sent, for the receipt.
    pub(crate) fn acts(&self) -> Vec<ScreeningAct> {
        match &self.content {
            Content::Screened { result, .. } => result.acts().to_vec(),
            Content::ServerError { error, .. } => error.acts().to_vec(),
            Content::Refusal { decision, .. } | Content::ErrorResult { decision, .. } => {
                let withheld = [ReasonCode::WithheldSchema, ReasonCode::WithheldSanitisation];
                let blocked = withheld.contains(&decision.code);
                blocked.then_some(ScreeningAct::Blocked).into_iter().collect()
            }
            Content::Nothing | Content::Events(_) | Content::Own { .. } => Vec::new(),
        }
    }

    /// The HTTP status.
    pub(crate) fn http_status(&self) -> StatusCode {
        self.status
    }

    /// For `HEAD`: the head without the body.
    pub(crate) fn without_body(self) -> Self {
        Self {
            content: Content::Nothing,
            ..self
        }
    }

    /// The id of the request this answers, where one was read.
    pub(crate) fn request_id(&self) -> Option<&RequestId> {
        match &self.content {
            Content::Nothing | Content::Events(_) => None,
            Content::Refusal { id, .. } => id.as_ref(),
            Content::Screened { id, .. }
            | Content::ServerError { id, .. }
            | Content::Own { id, .. }
            | Content::ErrorResult { id, .. } => Some(id),
        }
    }

    /// The body under the receipt's name; its length does not depend on the name.
    pub(crate) fn body(&self, receipt: ReceiptId) -> Pieces {
        let message = match &self.content {
            Content::Nothing | Content::Events(_) => return Pieces::default(),
            Content::Screened { id, result, adapted } => {
                let result = adapted.as_ref().unwrap_or_else(|| result.bytes());
                if self.form == AnswerForm::Json && result.len() >= NOT_WORTH_COPYING {
                    return compose::result_pieces(id, result.clone()).into();
                }
                compose::result(id, result)
            }
            Content::ServerError { id, error, adapted } => {
                compose::server_error(id, adapted.as_ref().unwrap_or_else(|| error.bytes()))
            }
            Content::Own { id, result } => compose::result(id, result),
            Content::Refusal {
                id,
                code,
                message,
                decision,
            } => compose::error(id.as_ref(), *code, message, &decision.to_json(receipt)),
            Content::ErrorResult {
                id,
                text,
                decision,
                era,
            } => compose::result(id, &error_result(*era, text, &decision.to_json(receipt))),
        };
        match self.form {
            AnswerForm::Json => message.into(),
            AnswerForm::EventStream => mcp::sse::event(None, &message).into(),
        }
    }
}

/// From this size on a result is sent from where it lies.
const NOT_WORTH_COPYING: usize = 16 * 1024;

/// A tool result of ours; a modern one says that it is complete.
fn error_result(era: Era, text: &str, decision: &[u8]) -> Bytes {
    let result = compose::error_result(text, decision);
    match (era, result.strip_suffix(b"}")) {
        (Era::Modern, Some(open)) => [open, b",\"resultType\":\"complete\"}"].concat().into(),
        (Era::Modern | Era::Legacy, _) => result,
    }
}

/// Lets an answer go: its record is written.
#[must_use]
pub fn release(prepared: Prepared, receipt: Receipt) -> Answer {
    let body = prepared.body(receipt.id());
    Answer::of(prepared, body)
}

/// [`release`] for a body that was composed already under the same name.
pub(crate) fn release_composed(prepared: Prepared, body: Pieces, composed_for: ReceiptId, receipt: Receipt) -> Answer {
    if receipt.id() == composed_for {
        Answer::of(prepared, body)
    } else {
        release(prepared, receipt)
    }
}

impl Answer {
    /// What goes on the wire.
    #[must_use]
    pub(crate) fn into_response(self) -> Response<ReplyBody> {
        self.response
    }

    /// The beginning of a stream whose answer comes as its last event, with its own receipt.
    pub(crate) fn stream(body: EventBody) -> Self {
        let mut response = Response::new(ReplyBody::Events(Box::new(body)));
        stream_headers(response.headers_mut());
        Self { response }
    }

    /// Sends the answer as the last event of a stream that has begun.
    pub(crate) async fn into_last_event(self, stream: &ResponseStream) -> Self {
        if let Some(message) = whole(self.response.into_body()) {
            stream.finish(&message).await;
        }
        Self::acknowledged()
    }

    /// The answers of a batch, as one array.
    pub(crate) fn batch(answers: Vec<Self>, form: AnswerForm) -> Self {
        let bodies = answers
            .into_iter()
            .filter_map(|answer| whole(answer.response.into_body()));
        let bodies: Vec<Bytes> = bodies.filter(|body| !body.is_empty()).collect();
        if bodies.is_empty() {
            return Self::acknowledged();
        }
        let array = [b"[".as_slice(), &bodies.join(&b','), b"]"].concat();
        match form {
            AnswerForm::Json => Self::json(StatusCode::OK, array.into()),
            AnswerForm::EventStream => {
                let mut response = Response::new(full(mcp::sse::event(None, &array)));
                stream_headers(response.headers_mut());
                Self { response }
            }
        }
    }

    /// The record could not be written: the answer stays here, and this is said instead.
    pub(crate) fn withheld_by_ledger(_: LedgerDown, status: StatusCode, id: Option<&RequestId>) -> Self {
        let code = ReasonCode::DenyReceiptUnavailable;
        let data = format!("{{\"decision\":\"deny\",\"reason_codes\":[\"{code}\"],\"receipt_id\":null}}");
        let message = "the gateway cannot record this request, so nothing is released; try again later";
        Self::json(
            status,
            compose::error(id, mcp::ErrorCode::InternalError, message, data.as_bytes()),
        )
    }

    /// A notification was taken; there is nothing to say.
    pub(crate) fn acknowledged() -> Self {
        Self::of(Prepared::empty(StatusCode::ACCEPTED), Pieces::default())
    }

    /// A bare word for a probe.
    pub(crate) fn probe(status: StatusCode, word: &'static str) -> Self {
        let mut response = Response::new(full(Bytes::from_static(word.as_bytes())));
        *response.status_mut() = status;
        Self { response }
    }

    /// A public document.
    pub(crate) fn document(json: Vec<u8>) -> Self {
        Self::json(StatusCode::OK, json.into())
    }

    fn json(status: StatusCode, body: Bytes) -> Self {
        let mut response = Response::new(full(body));
        *response.status_mut() = status;
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        Self { response }
    }

    fn of(prepared: Prepared, body: Pieces) -> Self {
        let form = match (&prepared.content, prepared.form) {
            (Content::Nothing, _) => None,
            (Content::Events(_), _) => Some(AnswerForm::EventStream),
            (_, form) => Some(form),
        };
        let body = match prepared.content {
            Content::Events(events) => ReplyBody::Events(events),
            Content::Nothing
            | Content::Screened { .. }
            | Content::ServerError { .. }
            | Content::Own { .. }
            | Content::Refusal { .. }
            | Content::ErrorResult { .. } => ReplyBody::Whole(body),
        };
        let mut response = Response::new(body);
        *response.status_mut() = prepared.status;
        let headers = response.headers_mut();
        match form {
            None => {}
            Some(AnswerForm::Json) => {
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
            }
            Some(AnswerForm::EventStream) => stream_headers(headers),
        }
        if let Some(id) = prepared.session.and_then(|id| HeaderValue::try_from(id).ok()) {
            headers.insert(SESSION_ID, id);
        }
        if let Some(challenge) = prepared.challenge.and_then(|text| HeaderValue::try_from(text).ok()) {
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        if prepared.status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(header::ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
        }
        Self { response }
    }
}

fn full(body: Bytes) -> ReplyBody {
    ReplyBody::Whole(body.into())
}

/// The bytes of a body that is no stream, if it has any.
fn whole(body: ReplyBody) -> Option<Bytes> {
    match body {
        ReplyBody::Whole(body) => Some(body.joined()).filter(|body| !body.is_empty()),
        ReplyBody::Events(_) => None,
    }
}

/// Nobody on the way may hold events back.
fn stream_headers(headers: &mut http::HeaderMap) {
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, no-transform"),
    );
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
}
