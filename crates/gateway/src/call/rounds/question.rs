//! The questions of a server within a result: each must be one that this client can and may be asked.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use ledger::{MessageFacts, Verdict};
use mcp::mrtr::{self, InputMethod, InputRequired};
use mcp::{Content, Era, ErrorCode, Request, compose};
use screening::result::walk::Message;
use screening::result::{ScreenedResult, Withheld};
use vocabulary::ServerId;

use crate::call::forwarded::{Forwarded, unusable, withheld};
use crate::call::rounds::state::Round;
use crate::call::send::unwanted;
use crate::context::Ended;
use crate::events::server_request::{allow_screened, check_answer, no_longer_allowed, record};
use crate::message::ClientMessage;
use crate::screen::{beside_a_call, screen};
use crate::session::{Posed, Session};
use crate::stages::Stages;
use crate::state::allowed_request::{AllowedRequest, may_ask};
use crate::state::parked::LONGEST_PAUSE;

/// Whether anything was taken out of a question.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Changed {
    No,
    Yes,
}

/// A question that was put on the stream of a call.
struct Put<'a> {
    key: &'a str,
    posed: Posed,
    allowed: AllowedRequest,
}

/// Decides on every question of a result that goes to a modern client as it is.
pub(crate) async fn allow_all(
    stages: &Stages<'_>,
    forwarded: &Forwarded,
    result: &ScreenedResult,
    wanted: &InputRequired,
) -> Result<(), Withheld> {
    let (gateway, context) = (stages.gateway, stages.context);
    for input in &wanted.requests {
        let params = input.params.as_ref().and_then(|params| result.part(params));
        let params = match by_itself(stages, forwarded, params).await? {
            // It goes on within the whole, where nothing can be taken out any more.
            (_, Changed::Yes) => return Err(unaskable()),
            (params, Changed::No) => params,
        };
        let server = forwarded.server.id();
        let allowed = allow_screened(gateway, context, server, input.method, params).await;
        let allowed = allowed.map_err(|_| unaskable())?;
        if !record(gateway, context, &allowed, None).await {
            return Err(unusable());
        }
    }
    Ok(())
}

/// What a modern client brings along for a modern server leaves only if it would be asked for it now: each kind of question
/// that it may be the answer to is decided again by the rules in force. Its answers must show which, for the state of such a
/// dialogue is the server's own; what shows none may be any.
pub(crate) fn still_asked(
    stages: &Stages<'_>,
    request: &Request,
    (server, era, round): (&ServerId, Era, &Round),
    facts: &MessageFacts,
) -> Result<(), Box<Ended>> {
    let brought = request.params().raw("inputResponses");
    let (Some(raw), Era::Modern, Round::ToServer(_)) = (brought, era, round) else {
        return Ok(());
    };
    let in_force = stages.gateway.in_force();
    // What cannot be read was refused before.
    let answers = mrtr::read_input_responses(raw).unwrap_or_default();
    let asked: BTreeSet<InputMethod> = answers
        .iter()
        .flat_map(|(_, raw)| InputMethod::answered_by(raw))
        .collect();
    for method in asked {
        if let Err(grounds) = may_ask(&in_force, stages.context, server, (method, b"")) {
            return Err(stages.denied_by(&in_force, facts, Verdict::Deny, grounds));
        }
    }
    Ok(())
}

/// Puts every question on the stream of the call, and waits for all answers.
pub(crate) async fn ask_all(
    stages: &Stages<'_>,
    forwarded: &Forwarded,
    result: &ScreenedResult,
    wanted: &InputRequired,
) -> Result<Vec<(String, Bytes)>, Withheld> {
    let context = stages.context;
    let session = context.session().filter(|_| context.stream.takes_streams());
    let session: &Arc<Session> = session.ok_or_else(unaskable)?;
    let mut open = Vec::new();
    for input in &wanted.requests {
        let params = input.params.as_ref().and_then(|params| result.part(params));
        let (params, _) = by_itself(stages, forwarded, params).await?;
        let server = forwarded.server.id();
        let allowed = allow_screened(stages.gateway, context, server, input.method, params)
            .await
            .map_err(|_| unaskable())?;
        let posed = session.pose();
        let message = ClientMessage::request(posed.id(), allowed.method, allowed.params.as_ref());
        context.say(allowed.about(), &message).await;
        open.push(Put {
            key: &input.key,
            posed,
            allowed,
        });
    }
    answers(stages, forwarded.server.id(), session, open).await
}

async fn answers(
    stages: &Stages<'_>,
    server: &ServerId,
    session: &Arc<Session>,
    open: Vec<Put<'_>>,
) -> Result<Vec<(String, Bytes)>, Withheld> {
    let gateway = stages.gateway;
    let mut answers = Vec::with_capacity(open.len());
    let cancelled = session.begin(stages.id.as_raw());
    let deadline = tokio::time::Instant::now() + LONGEST_PAUSE;
    for mut put in open {
        let answer = tokio::select! {
            answer = tokio::time::timeout_at(deadline, put.posed.answer()) => answer.ok().flatten(),
            () = unwanted(stages, Some(&cancelled)) => None,
            () = session.ended() => None,
            () = gateway.changes.stopped() => None,
        };
        let content = match answer {
            Some(_) if !put.allowed.is_allowed_now(&gateway.in_force(), stages.context) => no_longer_allowed(),
            Some(content) => check_answer(gateway, stages.context, server, content).await,
            None => compose::error_content(ErrorCode::InternalError, "no answer"),
        };
        if !record(gateway, stages.context, &put.allowed, Some(&content)).await {
            return Err(unusable());
        }
        match content {
            Content::Result(raw) => answers.push((put.key.to_owned(), raw)),
            Content::Error(_) => return Err(unanswered()),
        }
    }
    Ok(answers)
}

/// The params of a question within a result are a message of their own, whose `_meta` is at the top.
async fn by_itself(
    stages: &Stages<'_>,
    forwarded: &Forwarded,
    params: Option<ScreenedResult>,
) -> Result<(Option<ScreenedResult>, Changed), Withheld> {
    let Some(params) = params else {
        return Ok((None, Changed::No));
    };
    let before = params.bytes().clone();
    let origin = beside_a_call(forwarded.server.id(), None, Message::Other);
    let params = screen(stages.gateway, params, &origin, stages.context).await?;
    let changed = if *params.bytes() == before {
        Changed::No
    } else {
        Changed::Yes
    };
    Ok((Some(params), changed))
}

fn unaskable() -> Withheld {
    withheld("the server asks something that this client cannot or may not be asked")
}

fn unanswered() -> Withheld {
    withheld("the server asked something and the client did not answer it")
}
