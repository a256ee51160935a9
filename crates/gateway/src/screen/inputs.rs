//! What a server wants of a client within a result: its own state is set aside before the result is screened, because
//! nobody but that server will read it, and the schema of a form is judged as the definition that it is.

use bytes::Bytes;
use mcp::mrtr::{self, BadInput, InputMethod, InputRequired, ResultType};
use mcp::splice::Splice;
use screening::definition::screen_schema;
use screening::result::walk::Message;
use screening::result::{Raw, ScreenedResult, Withheld};
use vocabulary::ServerId;
use vocabulary::json::scanned::Named;

use crate::context::RequestContext;
use crate::gateway::Gateway;
use crate::screen::{beside_a_call, recorded};

/// A result that crossed the chokepoint, without the state that its server keeps with the client.
pub(crate) struct ScreenedWithState {
    pub(crate) result: ScreenedResult,
    /// As the literal that came. It is sealed before it leaves, or goes back to its server; a client never sees it.
    state: Option<Bytes>,
}

impl ScreenedWithState {
    pub(crate) fn new(result: ScreenedResult, state: Option<Bytes>) -> Self {
        Self { result, state }
    }

    /// What the server wants, with its own state.
    pub(crate) fn wanted(&self) -> Result<InputRequired, BadInput> {
        let mut wanted = InputRequired::read(self.result.bytes())?;
        if let Some(state) = &self.state {
            wanted.request_state = Some(state.clone());
        }
        Ok(wanted)
    }
}

/// The schema of a form is never edited: a person is to see what a model reads, and any client can use it.
pub(crate) async fn screen_form(
    gateway: &Gateway,
    server: &ServerId,
    params: &Bytes,
    context: &RequestContext,
) -> Result<(), Withheld> {
    let Some(span) = mcp::server::member_span(params, "requestedSchema") else {
        return Ok(());
    };
    let rules = gateway.in_force().screening.clone();
    let origin = beside_a_call(server, None, Message::Definitions);
    let screening = screen_schema(params.slice(span), &origin, &rules);
    recorded(gateway, screening, &origin, context).await.map(drop)
}

/// Every form in a result of a modern server.
pub(crate) async fn screen_forms(
    gateway: &Gateway,
    server: &ServerId,
    raw: &Raw,
    context: &RequestContext,
) -> Result<(), Withheld> {
    if !may_name(raw, "inputRequests") {
        return Ok(());
    }
    // What cannot be read is not passed on; that is found out where it is adapted.
    let wanted = InputRequired::read(raw.bytes()).map_or_else(|_| Vec::new(), |wanted| wanted.requests);
    for input in wanted.iter().filter(|input| input.method == InputMethod::Elicit) {
        let Some(params) = &input.params else { continue };
        let screened = screen_form(gateway, server, params, context).await;
        screened.map_err(|withheld| Withheld {
            message: "tool output blocked by sanitisation policy: a form that nobody should fill in".to_owned(),
            ..withheld
        })?;
    }
    Ok(())
}

/// Leaves an empty state in a result of a modern server that will get a sealed one.
pub(crate) fn set_state_aside(gateway: &Gateway, raw: Raw) -> (Raw, Option<Bytes>) {
    if !may_name(&raw, "requestState") || raw.size() > gateway.in_force().screening.guards.max_bytes {
        return (raw, None);
    }
    match emptied(raw.bytes()) {
        Some((rest, state)) => (Raw::Unread(rest), Some(state)),
        None => (raw, None),
    }
}

fn emptied(result: &Bytes) -> Option<(Bytes, Bytes)> {
    // Only there a state is sealed; anything else of that name reaches the client.
    if mrtr::result_type(result) != ResultType::InputRequired {
        return None;
    }
    let mut splice = Splice::new(result).ok()?;
    let state = result.slice(splice.member("requestState")?);
    if !state.starts_with(b"\"") {
        return None;
    }
    splice.replace_or_insert("requestState", b"\"\"".as_slice());
    Some((splice.finish(), state))
}

fn may_name(raw: &Raw, member: &str) -> bool {
    match raw {
        Raw::Scanned(scanned) => scanned.member(member) != Named::Never,
        Raw::Unread(_) => true,
    }
}
