//! Turns an ending into an answer. Nothing that says anything leaves without a receipt: [`release`] takes one by value,
//! and only what carries no message ([`Answer::acknowledged`], probes, metadata) is made without.

pub(crate) mod body;
pub(crate) mod stream;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use ledger::{LedgerDown, Receipt, ScreeningAct};
use mcp::http::{AnswerForm, EVENT_STREAM, JSON, SESSION_ID};
use mcp::{ErrorCode, RequestId};
use policy::InFlight;
use screening::result::ScreenedResult;
use vocabulary::{Era, ReasonCode, ReceiptId};

use crate::message::error_data::ErrorData;
use crate::message::pieces::Pieces;
use crate::message::{Adapted, ClientMessage, Event, OwnResult};
use crate::reply::body::{EventBody, ReplyBody};
use crate::session::Session;
use crate::state::unread::OnItsWay;

/// An answer that may leave.
///
/// It cannot be made by hand, and [`release`] does not work without a receipt:
///
/// ```compile_fail,E0451
/// fn forge(honest: portreeve_gateway::Answer) -> portreeve_gateway::Answer {
///     portreeve_gateway::Answer { ..honest }
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
    head: Head,
    said: Said,
    /// Counted until it has left.
    hold: Option<Arc<OnItsWay>>,
}

/// What an answer says.
enum Said {
    Nothing,
    Message(ClientMessage),
    /// The one event of a stream.
    Event(Event),
    Events(Box<EventBody>),
    /// A bare word for a probe.
    Word(&'static str),
    /// A public document.
    Document(Vec<u8>),
}

/// Status and headers of an answer.
struct Head {
    status: StatusCode,
    form: AnswerForm,
    session: Option<String>,
    challenge: Option<String>,
}

/// An answer that waits for its receipt.
pub struct Prepared {
    head: Head,
    content: Content,
    effect: Option<Effect>,
    /// The seat of the call that it answers.
    slot: Option<InFlight>,
}

/// What becomes of a session with the record of its request: nothing happens to it without.
pub(crate) enum Effect {
    /// It was opened, and stays only if that is on record.
    Opened(Arc<Session>),
    /// It ends once that is on record.
    Ends(Arc<Session>),
}

enum Content {
    Nothing,
    Screened(RequestId, ScreenedResult),
    Adapted(RequestId, Adapted),
    ServerError(RequestId, ScreenedResult),
    AdaptedError(RequestId, Adapted),
    Events(Box<EventBody>),
    Own(RequestId, OwnResult),
    Refusal(Option<RequestId>, ErrorData),
    ErrorResult(RequestId, Era, ErrorData),
}

impl Prepared {
    fn ok(content: Content) -> Self {
        let head = Head {
            status: StatusCode::OK,
            form: AnswerForm::Json,
            session: None,
            challenge: None,
        };
        Self {
            head,
            content,
            effect: None,
            slot: None,
        }
    }

    /// The same, with the seat of the call: it is held until the answer has left.
    pub(crate) fn holding(mut self, slot: Option<InFlight>) -> Self {
        self.slot = slot;
        self
    }

    pub(crate) fn take_slot(&mut self) -> Option<InFlight> {
        self.slot.take()
    }

    /// The same, with what becomes of a session.
    pub(crate) fn with_effect(mut self, effect: Effect) -> Self {
        self.effect = Some(effect);
        self
    }

    pub(crate) fn take_effect(&mut self) -> Option<Effect> {
        self.effect.take()
    }

    /// A server's result, screened.
    pub(crate) fn result(id: RequestId, result: ScreenedResult) -> Self {
        Self::ok(Content::Screened(id, result))
    }

    /// A server's result, screened, then adapted to the client's era.
    pub(crate) fn adapted_result(id: RequestId, adapted: Adapted) -> Self {
        Self::ok(Content::Adapted(id, adapted))
    }

    /// A stream without an end of its own.
    pub(crate) fn events(body: EventBody) -> Self {
        Self::ok(Content::Events(Box::new(body)))
    }

    /// A server's own error, screened.
    pub(crate) fn server_error(id: RequestId, error: ScreenedResult) -> Self {
        Self::ok(Content::ServerError(id, error))
    }

    /// A server's own error, screened, then adapted to the client's era.
    pub(crate) fn adapted_error(id: RequestId, error: Adapted) -> Self {
        Self::ok(Content::AdaptedError(id, error))
    }

    /// A result of the gateway's own.
    pub(crate) fn own(id: RequestId, result: OwnResult) -> Self {
        Self::ok(Content::Own(id, result))
    }

    /// A JSON-RPC error.
    pub(crate) fn refusal(id: Option<RequestId>, data: ErrorData) -> Self {
        Self::ok(Content::Refusal(id, data))
    }

    /// A tool result that tells a model what is wrong.
    pub(crate) fn error_result(id: RequestId, era: Era, data: ErrorData) -> Self {
        Self::ok(Content::ErrorResult(id, era, data))
    }

    /// A refusal by HTTP status, with a JSON-RPC error as body.
    pub(crate) fn status(status: StatusCode, id: Option<RequestId>, message: &str, reason: ReasonCode) -> Self {
        Self::refusal(id, ErrorData::denied(ErrorCode::InvalidRequest, message, reason)).with_status(status)
    }

    /// Nothing but a status.
    pub(crate) fn empty(status: StatusCode) -> Self {
        Self::ok(Content::Nothing).with_status(status)
    }

    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.head.status = status;
        self
    }

    pub(crate) fn with_challenge(mut self, challenge: String) -> Self {
        self.head.challenge = Some(challenge);
        self
    }

    pub(crate) fn with_session(mut self, id: String) -> Self {
        self.head.session = Some(id);
        self
    }

    /// In the form the client asked for; a refusal by HTTP status is always plain JSON.
    pub(crate) fn in_form(mut self, form: AnswerForm) -> Self {
        if self.head.status == StatusCode::OK {
            self.head.form = form;
        }
        self
    }

    /// For `HEAD`: the head without the body.
    pub(crate) fn without_body(self) -> Self {
        Self {
            content: Content::Nothing,
            ..self
        }
    }

    /// What the chokepoint did about what a server sent, for the receipt.
    pub(crate) fn acts(&self) -> Vec<ScreeningAct> {
        match &self.content {
            Content::Screened(_, screened) | Content::ServerError(_, screened) => screened.acts().to_vec(),
            Content::Adapted(_, adapted) | Content::AdaptedError(_, adapted) => adapted.screened().acts().to_vec(),
            Content::Refusal(_, data) | Content::ErrorResult(_, _, data) => {
                let withheld = [ReasonCode::WithheldSchema, ReasonCode::WithheldSanitisation];
                let blocked = withheld.contains(&data.reason);
                blocked.then_some(ScreeningAct::Blocked).into_iter().collect()
            }
            Content::Nothing | Content::Events(_) | Content::Own(..) => Vec::new(),
        }
    }

    /// What will be said under the receipt's name, in the form the client asked for; its length does not depend on the
    /// name.
    pub(crate) fn compose(&self, receipt: ReceiptId) -> Composed {
        match (self.message(receipt), self.head.form) {
            (None, _) => Composed::Nothing,
            (Some(message), AnswerForm::Json) => Composed::Message(message),
            (Some(message), AnswerForm::EventStream) => Composed::Event(Event::of(&message, None)),
        }
    }

    fn message(&self, receipt: ReceiptId) -> Option<ClientMessage> {
        match &self.content {
            Content::Nothing | Content::Events(_) => None,
            Content::Screened(id, result) => Some(ClientMessage::result(id, result)),
            Content::Adapted(id, adapted) => Some(ClientMessage::adapted_result(id, adapted)),
            Content::ServerError(id, error) => Some(ClientMessage::server_error(id, error)),
            Content::AdaptedError(id, adapted) => Some(ClientMessage::adapted_error(id, adapted)),
            Content::Own(id, result) => Some(ClientMessage::own_result(id, result)),
            Content::Refusal(id, data) => Some(ClientMessage::refusal(id.as_ref(), data, Some(receipt))),
            Content::ErrorResult(id, era, data) => Some(ClientMessage::error_result(id, *era, data, receipt)),
        }
    }

    /// The answer instead of this one when its record cannot be written: nothing of it is said, and no success is told.
    pub(crate) fn withheld_by_ledger(self, _: LedgerDown) -> Answer {
        let id = match self.content {
            // A refusal of `HEAD`: the head alone.
            Content::Nothing if !self.head.status.is_success() => {
                return Answer {
                    head: self.head,
                    said: Said::Nothing,
                    hold: None,
                };
            }
            Content::Nothing | Content::Events(_) => None,
            Content::Refusal(id, _) => id,
            Content::Screened(id, _)
            | Content::Adapted(id, _)
            | Content::ServerError(id, _)
            | Content::AdaptedError(id, _)
            | Content::Own(id, _)
            | Content::ErrorResult(id, ..) => Some(id),
        };
        let message = "the gateway cannot record this request, so nothing is released; try again later";
        let data = ErrorData::denied(ErrorCode::InternalError, message, ReasonCode::DenyReceiptUnavailable);
        let status = match self.head.status {
            StatusCode::NO_CONTENT => StatusCode::SERVICE_UNAVAILABLE,
            status => status,
        };
        Answer {
            head: Head {
                status,
                form: AnswerForm::Json,
                session: None,
                ..self.head
            },
            said: Said::Message(ClientMessage::refusal(id.as_ref(), &data, None)),
            hold: None,
        }
    }
}

/// What an answer says, ready to be sent, while it waits for its receipt.
pub(crate) enum Composed {
    Nothing,
    Message(ClientMessage),
    /// The one event of a stream.
    Event(Event),
}

impl Composed {
    /// How many bytes of body it is.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Message(message) => message.len(),
            Self::Event(event) => event.len(),
        }
    }

    /// A copy of what it says.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Message(message) => message.to_bytes(),
            Self::Event(event) => event.to_bytes(),
        }
    }
}

/// Lets an answer go: its record is written.
#[must_use]
pub fn release(prepared: Prepared, receipt: Receipt) -> Answer {
    let composed = prepared.compose(receipt.id());
    Answer::of(prepared, composed)
}

/// [`release`] for what was composed already under the same name.
pub(crate) fn release_composed(
    prepared: Prepared,
    composed: Composed,
    composed_for: ReceiptId,
    receipt: Receipt,
) -> Answer {
    if receipt.id() == composed_for {
        Answer::of(prepared, composed)
    } else {
        release(prepared, receipt)
    }
}

impl Answer {
    fn of(prepared: Prepared, composed: Composed) -> Self {
        let said = match (prepared.content, composed) {
            (Content::Events(events), _) => Said::Events(events),
            (_, Composed::Message(message)) => Said::Message(message),
            (_, Composed::Event(event)) => Said::Event(event),
            (_, Composed::Nothing) => Said::Nothing,
        };
        Self {
            head: prepared.head,
            said,
            hold: None,
        }
    }

    /// The same, counted until it has left.
    pub(crate) fn counted(mut self, hold: Option<Arc<OnItsWay>>) -> Self {
        self.hold = hold;
        self
    }

    /// Lets the seat of its call go before it has left: its bytes still count.
    pub(crate) fn free_seat(&mut self) {
        if let Some(hold) = self.hold.as_mut().and_then(Arc::get_mut) {
            hold.free_seat();
        }
    }

    fn plain(status: StatusCode, said: Said) -> Self {
        let head = Prepared::empty(status).head;
        let hold = None;
        Self { head, said, hold }
    }

    /// The beginning of a stream whose answer comes as its last event, with its own receipt.
    pub(crate) fn stream(body: EventBody) -> Self {
        Self::plain(StatusCode::OK, Said::Events(Box::new(body)))
    }

    /// The answers of a batch, as one array.
    pub(crate) fn batch(answers: Vec<Self>, form: AnswerForm) -> Self {
        let said = answers.into_iter().filter_map(Self::into_message);
        let (messages, holds): (Vec<ClientMessage>, Vec<_>) = said.unzip();
        if messages.is_empty() {
            return Self::acknowledged();
        }
        let batch = ClientMessage::batch(messages);
        let said = match form {
            AnswerForm::Json => Said::Message(batch),
            AnswerForm::EventStream => Said::Event(Event::of(&batch, None)),
        };
        Self::plain(StatusCode::OK, said).counted(OnItsWay::together(holds))
    }

    /// A notification was taken; there is nothing to say.
    pub(crate) fn acknowledged() -> Self {
        Self::plain(StatusCode::ACCEPTED, Said::Nothing)
    }

    /// A bare word for a probe.
    pub(crate) fn probe(status: StatusCode, word: &'static str) -> Self {
        Self::plain(status, Said::Word(word))
    }

    /// A public document.
    pub(crate) fn document(json: Vec<u8>) -> Self {
        Self::plain(StatusCode::OK, Said::Document(json))
    }

    /// What it says, without its head: the last event of a stream, or a member of a batch.
    pub(crate) fn into_message(self) -> Option<(ClientMessage, Option<Arc<OnItsWay>>)> {
        match self.said {
            Said::Message(message) => Some((message, self.hold)),
            Said::Nothing | Said::Event(_) | Said::Events(_) | Said::Word(_) | Said::Document(_) => None,
        }
    }

    /// What goes on the wire.
    pub(crate) fn into_response(self) -> Response<ReplyBody> {
        let (body, media) = match self.said {
            Said::Nothing => (Pieces::default(), None),
            Said::Events(events) => {
                let media = Some(AnswerForm::EventStream);
                return self.head.onto(ReplyBody::Events(events), media);
            }
            Said::Message(message) => (message.into_pieces(), Some(AnswerForm::Json)),
            Said::Event(event) => (event.into_bytes().into(), Some(AnswerForm::EventStream)),
            Said::Word(word) => (Bytes::from_static(word.as_bytes()).into(), None),
            Said::Document(json) => (Bytes::from(json).into(), Some(AnswerForm::Json)),
        };
        self.head.onto(ReplyBody::Whole(body.counted(self.hold)), media)
    }
}

impl Head {
    fn onto(self, body: ReplyBody, media: Option<AnswerForm>) -> Response<ReplyBody> {
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        match media {
            None => {}
            Some(AnswerForm::Json) => {
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
            }
            Some(AnswerForm::EventStream) => stream_headers(headers),
        }
        if let Some(id) = self.session.and_then(|id| HeaderValue::try_from(id).ok()) {
            headers.insert(SESSION_ID, id);
        }
        if let Some(challenge) = self.challenge.and_then(|text| HeaderValue::try_from(text).ok()) {
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(header::ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
        }
        response
    }
}

/// Nobody on the way may hold events back.
fn stream_headers(headers: &mut HeaderMap) {
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, no-transform"),
    );
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
}
