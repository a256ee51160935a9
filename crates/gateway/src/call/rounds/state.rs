//! What a client brings along from the round before, sealed so that it is good for this request of this principal alone.

use bytes::Bytes;
use mcp::{ErrorCode, Method, Request, mrtr};
use upstream::RoundInput;
use vocabulary::{Digest, Era};

use crate::call::rounds::binding::Binding;
use crate::context::Ended;
use crate::gateway::Gateway;
use crate::stages::Stages;
use crate::state::parked::{LONGEST_PAUSE, ParkedCall};

/// See the module.
pub(crate) enum Round {
    /// Nothing, or what its server may take.
    ToServer(RoundInput),
    /// A call that waits here, and the answers to its questions.
    Parked(Box<ParkedCall>, Vec<(String, Bytes)>),
}

/// Whose state is sealed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sealed {
    /// A modern server's own, as the literal it sent.
    Servers,
    /// The id of a call that waits here.
    ParkedCall,
}

impl Sealed {
    const fn byte(self) -> u8 {
        match self {
            Self::Servers => 0,
            Self::ParkedCall => 1,
        }
    }
}

/// Reads what a modern client brings along; a seal that does not fit is refused.
pub(crate) fn read(stages: &Stages<'_>, request: &Request, binding: &Binding) -> Result<Round, Box<Ended>> {
    let params = request.params();
    if stages.context.client.era() == Era::Legacy || !takes_rounds(request.method()) {
        return Ok(Round::ToServer(RoundInput::default()));
    }
    let (responses, read) = match params.raw("inputResponses") {
        None => (None, Vec::new()),
        Some(raw) => {
            let within = screening::arguments::is_within(raw, &stages.snapshot.limits.arguments);
            let read = mrtr::read_input_responses(raw).ok().filter(|_| within);
            let read = read.ok_or_else(|| {
                stages.malformed(ErrorCode::InvalidParams, "`inputResponses` is not what was asked for")
            })?;
            (Some(Bytes::copy_from_slice(raw)), read)
        }
    };
    let Some(_) = params.raw("requestState") else {
        let state = None;
        return Ok(Round::ToServer(RoundInput { responses, state }));
    };
    let opened = params
        .text("requestState")
        .and_then(|sealed| unseal(stages.gateway, binding, &sealed));
    let refused = || {
        stages.malformed(
            ErrorCode::InvalidParams,
            "`requestState` is not of this request, or came too late; start again",
        )
    };
    match opened.ok_or_else(refused)? {
        (Sealed::Servers, state) => {
            let state = Some(state);
            Ok(Round::ToServer(RoundInput { responses, state }))
        }
        (Sealed::ParkedCall, id) => {
            let id = <[u8; 32]>::try_from(id.as_ref()).ok().map(Digest::from_bytes);
            let parked = id.and_then(|id| stages.gateway.parked.take(&id));
            let parked = parked.ok_or_else(refused)?;
            Ok(Round::Parked(Box::new(parked), read))
        }
    }
}

/// A modern server's own state, for the client to bring back.
pub(crate) fn seal_servers(gateway: &Gateway, binding: &Binding, state: &[u8]) -> Option<String> {
    seal(gateway, binding, Sealed::Servers, state)
}

/// The state under which a parked call is found again.
pub(crate) fn seal_parked(gateway: &Gateway, binding: &Binding, id: &Digest) -> Option<String> {
    seal(gateway, binding, Sealed::ParkedCall, id.as_bytes())
}

fn seal(gateway: &Gateway, binding: &Binding, kind: Sealed, state: &[u8]) -> Option<String> {
    let content = [&[kind.byte()], state].concat();
    gateway.seal.close(binding.digest(), &content, LONGEST_PAUSE)
}

fn unseal(gateway: &Gateway, binding: &Binding, sealed: &str) -> Option<(Sealed, Bytes)> {
    let content = gateway.seal.open(binding.digest(), sealed)?;
    let (byte, state) = content.split_first()?;
    let kinds = [Sealed::Servers, Sealed::ParkedCall];
    let kind = kinds.into_iter().find(|kind| kind.byte() == *byte)?;
    Some((kind, Bytes::copy_from_slice(state)))
}

/// Whether a method may take several rounds.
fn takes_rounds(method: &Method) -> bool {
    matches!(method, Method::ToolsCall | Method::ResourcesRead | Method::PromptsGet)
}
