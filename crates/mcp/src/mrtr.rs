//! Multi-round-trip results: what a server asks in a result and what a client answers, and the
//! requests and responses that do the same in the legacy era.

use bytes::Bytes;

use crate::compose;
use crate::envelope::text_of;
use crate::members::{Members, is_object};
use crate::server_method::ServerMethod;
use crate::span::{DEEPEST, SpanFault};

/// What a result says it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResultType {
    /// Final, or silent about it as legacy results are.
    Complete,
    /// Asks the client for more.
    InputRequired,
    /// A handle of the tasks extension.
    Task,
    /// None that we know, or unreadable: withheld.
    Unknown,
}

/// Reads what a raw result says it is.
#[must_use]
pub fn result_type(result: &[u8]) -> ResultType {
    Members::read(result, DEEPEST).map_or(ResultType::Unknown, |members| result_type_of(members.get("resultType")))
}

/// The same from the raw member `resultType`, for those who have it.
#[must_use]
pub fn result_type_of(raw: Option<&[u8]>) -> ResultType {
    let Some(raw) = raw else { return ResultType::Complete };
    match text_of(raw).as_deref() {
        Some("complete") => ResultType::Complete,
        Some("input_required") => ResultType::InputRequired,
        Some("task") => ResultType::Task,
        _ => ResultType::Unknown,
    }
}

/// Input requests or responses that we do not take. Never quotes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadInput {
    /// Not an object of objects, as the protocol has it.
    #[error("not the shape that input requests and responses have")]
    Shape,
    /// A member comes twice.
    #[error("a member is named twice")]
    Duplicate,
    /// More than we carry at once.
    #[error("more than {MOST_INPUTS} inputs at once")]
    TooMany,
    /// A key longer than we carry.
    #[error("a key is longer than {LONGEST_KEY} bytes")]
    KeyTooLong,
    /// Neither `inputRequests` nor `requestState`.
    #[error("a result that requires input asks nothing and has no state")]
    Empty,
    /// A request for something else than sampling, elicitation or roots.
    #[error("a request that servers may not make")]
    UnknownMethod,
}

impl From<SpanFault> for BadInput {
    fn from(fault: SpanFault) -> Self {
        match fault {
            SpanFault::Grammar | SpanFault::TooDeep | SpanFault::TooManyMembers => Self::Shape,
            SpanFault::DuplicateKey => Self::Duplicate,
        }
    }
}

/// The most questions in one result, and answers in one request.
pub const MOST_INPUTS: usize = 32;
/// The longest key of one, in bytes.
pub const LONGEST_KEY: usize = 256;

/// What a server may ask a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum InputMethod {
    /// `sampling/createMessage`
    CreateMessage,
    /// `elicitation/create`
    Elicit,
    /// `roots/list`
    ListRoots,
}

impl InputMethod {
    /// Recognises a method that servers may ask for.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        ServerMethod::parse(name)?.input()
    }

    /// The same among all that servers may ask.
    #[must_use]
    pub const fn method(self) -> ServerMethod {
        match self {
            Self::CreateMessage => ServerMethod::CreateMessage,
            Self::Elicit => ServerMethod::Elicit,
            Self::ListRoots => ServerMethod::ListRoots,
        }
    }

    /// What an answer may be the answer to, by the members that only answers to it have; everything where none shows.
    #[must_use]
    pub fn answered_by(answer: &[u8]) -> Vec<Self> {
        let members = Members::read(answer, DEEPEST);
        let has = |name: &str| members.as_ref().is_ok_and(|members| members.get(name).is_some());
        let shown = [
            (Self::Elicit, has("action")),
            (Self::ListRoots, has("roots")),
            (Self::CreateMessage, has("role") || has("model")),
        ];
        let none = !shown.iter().any(|(_, has)| *has);
        let may_be = shown.into_iter().filter(|(_, has)| *has || none);
        may_be.map(|(method, _)| method).collect()
    }

    /// The method's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.method().as_str()
    }
}

/// A result that requires input, split.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InputRequired {
    /// What the server asks, in its order.
    pub requests: Vec<InputRequest>,
    /// The server's state: a raw string literal, quotes included.
    pub request_state: Option<Bytes>,
}

/// One question of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InputRequest {
    /// The server's name for it.
    pub key: String,
    /// What it asks for.
    pub method: InputMethod,
    /// The raw object `params`; only `roots/list` may lack it.
    pub params: Option<Bytes>,
    /// The raw request.
    pub whole: Bytes,
}

impl InputRequired {
    /// Splits a result whose type is [`ResultType::InputRequired`]. A member that is null counts
    /// as absent.
    ///
    /// # Errors
    /// When it is not of that shape, asks too much, or asks for what servers may not ask.
    pub fn read(result: &Bytes) -> Result<Self, BadInput> {
        let members = Members::read(result, DEEPEST)?;
        let given = |name: &str| members.get(name).filter(|raw| *raw != b"null");
        let request_state = match given("requestState") {
            Some(raw) if raw.starts_with(b"\"") => Some(result.slice_ref(raw)),
            Some(_) => return Err(BadInput::Shape),
            None => None,
        };
        let requests = match given("inputRequests") {
            Some(raw) => keyed(raw)?
                .into_iter()
                .map(|(key, raw)| InputRequest::read(result, key, raw))
                .collect::<Result<_, _>>()?,
            None if request_state.is_none() => return Err(BadInput::Empty),
            None => Vec::new(),
        };
        Ok(Self {
            requests,
            request_state,
        })
    }
}

impl InputRequest {
    fn read(result: &Bytes, key: String, raw: &[u8]) -> Result<Self, BadInput> {
        let members = Members::read(raw, DEEPEST)?;
        let name = members.get("method").and_then(text_of).ok_or(BadInput::Shape)?;
        let method = InputMethod::parse(&name).ok_or(BadInput::UnknownMethod)?;
        let params = match members.get("params") {
            Some(params) if is_object(params) => Some(result.slice_ref(params)),
            None if method == InputMethod::ListRoots => None,
            Some(_) | None => return Err(BadInput::Shape),
        };
        Ok(Self {
            key,
            method,
            params,
            whole: result.slice_ref(raw),
        })
    }
}

/// Reads a client's `inputResponses`: keys and raw values, in order.
///
/// # Errors
/// When it is no object, names a key twice, or is beyond the bounds.
pub fn read_input_responses(raw: &[u8]) -> Result<Vec<(String, Bytes)>, BadInput> {
    let responses = keyed(raw)?.into_iter();
    Ok(responses.map(|(key, raw)| (key, Bytes::copy_from_slice(raw))).collect())
}

/// The members of an object of inputs, within the bounds.
fn keyed(raw: &[u8]) -> Result<Vec<(String, &[u8])>, BadInput> {
    let members = Members::read(raw, DEEPEST)?;
    if members.len() > MOST_INPUTS {
        return Err(BadInput::TooMany);
    }
    if members.iter().any(|member| member.name.len() > LONGEST_KEY) {
        return Err(BadInput::KeyTooLong);
    }
    let entry = |member: &crate::members::Member<'_>| {
        let value = raw.get(member.value.clone()).unwrap_or_default();
        (member.name.clone().into_owned(), value)
    };
    Ok(members.iter().map(entry).collect())
}

/// A result of ours that requires input: key, method and raw params of each question.
#[must_use]
pub fn compose_input_required(requests: &[(String, &str, Option<&[u8]>)], request_state: &str) -> Bytes {
    let mut out = b"{\"resultType\":\"input_required\",\"inputRequests\":{".to_vec();
    for (place, (key, method, params)) in requests.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        compose::string(key, &mut out);
        out.extend_from_slice(b":{\"method\":");
        method_and_params(method, *params, &mut out);
        out.push(b'}');
    }
    out.extend_from_slice(b"},\"requestState\":");
    compose::string(request_state, &mut out);
    out.push(b'}');
    out.into()
}

/// The object `inputResponses` for a server: each value stands in it byte for byte.
#[must_use]
pub fn compose_input_responses(responses: &[(String, Bytes)]) -> Vec<u8> {
    let mut out = b"{".to_vec();
    for (place, (key, raw)) in responses.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        compose::string(key, &mut out);
        out.push(b':');
        out.extend_from_slice(raw);
    }
    out.push(b'}');
    out
}

fn method_and_params(method: &str, params: Option<&[u8]>, out: &mut Vec<u8>) {
    compose::string(method, out);
    if let Some(params) = params {
        out.extend_from_slice(b",\"params\":");
        out.extend_from_slice(params);
    }
}

#[cfg(test)]
mod tests;
