//! Requests that take several rounds: a server needs something of the client first. Towards a
//! modern client each round is a request of its own, held together by a seal; towards a client
//! with a session the questions are put on the stream of the call.

pub(crate) mod park;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ledger::{Era as ClientEra, Status};
use mcp::mrtr::{self, InputRequired, ResultType};
use mcp::splice::Splice;
use mcp::translate::{self, ResultKind};
use mcp::{Content, Era, Request, compose};
use policy::Target;
use screening::result::walk::Message;
use screening::result::{Said, ScreenedResult, Withheld};
use upstream::{Dispatched, Failure, PreparedCall};
use vocabulary::{Digest, ReasonCode};

use crate::call::forward::{Forwarded, arrived};
use crate::call::rounds::park::Parked;
use crate::context::{Ended, RequestContext};
use crate::outcome::Case;
use crate::reply::stream::ClientMessage;
use crate::reply::{ErrorData, Prepared};
use crate::screen::beside_a_call;
use crate::screen::inputs::ScreenedWithState;
use crate::session::Posed;

/// How long a client may take between two rounds.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// How many rounds a server may take with a client that has a session.
const MOST_ROUNDS: usize = 8;

/// What a sealed state is good for: one principal, one request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Binding(Digest);

impl Binding {
    pub(crate) fn of(asked: &RequestContext, action: &str, target: &Target, args: Digest) -> Self {
        if asked.client.era() == ClientEra::Legacy {
            // A client with a session carries no state.
            return Self(args);
        }
        let who = &asked.who;
        let route = asked.route.resource_path();
        let name = match target {
            Target::Tool(entry) => entry.id.name.as_str(),
            Target::Resource { uri, .. } => uri,
            Target::Prompt { name, .. } => name,
            Target::Server(_) => "",
        };
        let parts: [&[u8]; 9] = [
            who.issuer.as_bytes(),
            who.sub.as_bytes(),
            who.client_id.as_deref().unwrap_or_default().as_bytes(),
            who.actor_type.as_str().as_bytes(),
            route.as_bytes(),
            action.as_bytes(),
            target.server().as_str().as_bytes(),
            name.as_bytes(),
            args.as_bytes(),
        ];
        let lengths = parts.map(|part| (part.len() as u64).to_be_bytes());
        let framed = lengths
            .iter()
            .zip(parts)
            .flat_map(|(length, part)| [length.as_slice(), part]);
        Self(Digest::of_pieces(framed))
    }
}

/// What a client brings along from the round before.
pub(crate) enum Round {
    /// Nothing, or answers that a server may take without a state.
    Fresh { responses: Option<Bytes> },
    /// A modern server's own state, as the literal it sent, and the answers.
    Again { state: Bytes, responses: Option<Bytes> },
    /// A call that waits here, and the answers to its questions.
    Parked(Box<Parked>, Vec<(String, Bytes)>),
}

/// Whether anything was taken out of a question.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Changed {
    No,
    Yes,
}

const SERVERS_OWN: u8 = 0;
const PARKED: u8 = 1;

impl Round {
    /// What a modern server is given of it.
    pub(crate) fn put_into<'a>(&self, extras: &mut Vec<(&'a str, Cow<'a, [u8]>)>, era: Era) {
        let (state, responses) = match self {
            Self::Fresh { responses } => (None, responses),
            Self::Again { state, responses } => (Some(state), responses),
            Self::Parked(..) => return,
        };
        if era == Era::Modern {
            let members = [("inputResponses", responses.as_ref()), ("requestState", state)];
            let members = members.into_iter().filter_map(|(name, raw)| Some((name, raw?)));
            extras.extend(members.map(|(name, raw)| (name, Cow::Owned(raw.to_vec()))));
        }
    }
}

impl Case<'_> {
    /// Reads what a modern client brings along; a seal that does not fit is refused.
    pub(crate) fn round(&self, request: &Request, binding: &Binding) -> Result<Round, Box<Ended>> {
        let params = request.params();
        if self.asked.client.era() == ClientEra::Legacy || !takes_rounds(request) {
            return Ok(Round::Fresh { responses: None });
        }
        let (raw, read) = match params.raw("inputResponses") {
            None => (None, Vec::new()),
            Some(raw) => {
                let within = screening::arguments::is_within(raw, &self.snapshot.limits.arguments);
                let read = mrtr::read_input_responses(raw).ok().filter(|_| within);
                let read = read.ok_or_else(|| {
                    self.malformed(
                        mcp::ErrorCode::InvalidParams,
                        "`inputResponses` is not what was asked for",
                    )
                })?;
                (Some(Bytes::copy_from_slice(raw)), read)
            }
        };
        let Some(_) = params.raw("requestState") else {
            return Ok(Round::Fresh { responses: raw });
        };
        let opened = params
            .text("requestState")
            .and_then(|sealed| self.unseal(binding, &sealed));
        let refused = || {
            self.malformed(
                mcp::ErrorCode::InvalidParams,
                "`requestState` is not of this request, or came too late; start again",
            )
        };
        match opened.ok_or_else(refused)? {
            (SERVERS_OWN, state) => Ok(Round::Again { state, responses: raw }),
            (_, id) => {
                let id = <[u8; 32]>::try_from(id.as_ref()).ok().map(Digest::from_bytes);
                let parked = id.and_then(|id| self.gateway.parked.take(&id));
                let parked = parked.ok_or_else(refused)?;
                Ok(Round::Parked(Box::new(parked), read))
            }
        }
    }

    fn unseal(&self, binding: &Binding, sealed: &str) -> Option<(u8, Bytes)> {
        let content = self.gateway.seal.open(&binding.0, sealed)?;
        let (kind, state) = content.split_first()?;
        Some((*kind, Bytes::copy_from_slice(state)))
    }

    fn sealed(&self, binding: &Binding, kind: u8, state: &[u8]) -> Option<String> {
        let content = [&[kind], state].concat();
        self.gateway.seal.close(&binding.0, &content, LONGEST_PAUSE)
    }

    /// The state under which a parked call is found again.
    pub(crate) fn parking_ticket(&self, binding: &Binding, id: &Digest) -> Option<String> {
        self.sealed(binding, PARKED, id.as_bytes())
    }

    /// A result that crossed the chokepoint, in the form the client's era wants.
    pub(crate) async fn adapt(
        &self,
        forwarded: &Forwarded,
        screened_with_state: ScreenedWithState,
    ) -> (Status, Prepared, Option<ReasonCode>) {
        let result = &screened_with_state.result;
        let status = if result.is_error() {
            Status::Error
        } else {
            Status::Success
        };
        let id = self.id.clone();
        match (self.asked.client.era(), forwarded.era) {
            (ClientEra::Legacy, Era::Legacy) => (status, Prepared::result(id, screened_with_state.result), None),
            (ClientEra::Legacy, Era::Modern) => match result_type(result) {
                ResultType::Complete => (status, Prepared::result(id, screened_with_state.result), None),
                ResultType::InputRequired | ResultType::Task | ResultType::Unknown => self.kept_back(&unusable()),
            },
            (ClientEra::Modern, Era::Legacy) => {
                let adapted = translate::for_modern(result.bytes(), forwarded.kind, compose::OUR_INFO.as_bytes());
                match adapted {
                    Ok(adapted) => (
                        status,
                        Prepared::adapted_result(id, screened_with_state.result, adapted),
                        None,
                    ),
                    Err(_) => self.kept_back(&unusable()),
                }
            }
            (ClientEra::Modern, Era::Modern) => match result_type(result) {
                ResultType::Complete if forwarded.facts.method.starts_with("tasks/") => {
                    Box::pin(self.adapt_task_state(forwarded, screened_with_state.result)).await
                }
                ResultType::Complete => self.adapt_complete(forwarded, status, screened_with_state.result),
                ResultType::InputRequired => Box::pin(self.adapt_input_required(forwarded, screened_with_state)).await,
                ResultType::Task => self.adapt_task(forwarded, screened_with_state.result),
                ResultType::Unknown => self.kept_back(&unusable()),
            },
        }
    }

    /// Within the modern era only the scope of a cache is ours to say, and what a server forgot.
    fn adapt_complete(
        &self,
        forwarded: &Forwarded,
        status: Status,
        result: ScreenedResult,
    ) -> (Status, Prepared, Option<ReasonCode>) {
        let id = self.id.clone();
        if forwarded.kind == ResultKind::Plain && result.result_type() == Said::Complete {
            return (status, Prepared::result(id, result), None);
        }
        let Ok(mut splice) = Splice::new(result.bytes()) else {
            return self.kept_back(&unusable());
        };
        splice.insert_if_absent("resultType", b"\"complete\"".as_slice());
        if forwarded.kind == ResultKind::Cacheable {
            splice.insert_if_absent("ttlMs", b"0".as_slice());
            if splice.raw("cacheScope") != Some(b"\"private\"") {
                splice.replace_or_insert("cacheScope", b"\"private\"".as_slice());
            }
        }
        let adapted = splice.finish();
        (status, Prepared::adapted_result(id, result, adapted), None)
    }

    /// The server needs something first: every question must be one this client can be asked.
    async fn adapt_input_required(
        &self,
        forwarded: &Forwarded,
        screened_with_state: ScreenedWithState,
    ) -> (Status, Prepared, Option<ReasonCode>) {
        let Ok(wanted) = screened_with_state.wanted() else {
            return self.kept_back(&unusable());
        };
        let result = screened_with_state.result;
        if let Err(withheld) = self.allow_inputs(forwarded, &result, &wanted).await {
            return self.kept_back(&withheld);
        }
        let Ok(mut splice) = Splice::new(result.bytes()) else {
            return self.kept_back(&unusable());
        };
        if let Some(state) = &wanted.request_state {
            let Some(sealed) = self.sealed(&forwarded.binding, SERVERS_OWN, state) else {
                return self.kept_back(&unusable());
            };
            splice.replace_or_insert("requestState", compose::literal(&sealed));
        }
        let adapted = splice.finish();
        (
            Status::Success,
            Prepared::adapted_result(self.id.clone(), result, adapted),
            None,
        )
    }

    /// Every question of a server must be one that this client can and may be asked.
    pub(crate) async fn allow_inputs(
        &self,
        forwarded: &Forwarded,
        result: &ScreenedResult,
        wanted: &InputRequired,
    ) -> Result<(), Withheld> {
        for input in &wanted.requests {
            let params = self.by_itself(forwarded, input.params.as_ref().and_then(|params| result.part(params)));
            let params = match params.await? {
                // It goes on within the whole, where nothing can be taken out any more.
                (_, Changed::Yes) => return Err(unaskable()),
                (params, Changed::No) => params,
            };
            let method = input.method.as_str().to_owned();
            let server = forwarded.server.id();
            let allowed = self.gateway.allow_screened(self.asked, server, method, params).await;
            let allowed = allowed.map_err(|_| unaskable())?;
            if !self.gateway.record_question(self.asked, &allowed, None).await {
                return Err(unusable());
            }
        }
        Ok(())
    }

    /// The params of a question within a result are a message of their own, whose `_meta` is at the top.
    async fn by_itself(
        &self,
        forwarded: &Forwarded,
        params: Option<ScreenedResult>,
    ) -> Result<(Option<ScreenedResult>, Changed), Withheld> {
        let Some(params) = params else {
            return Ok((None, Changed::No));
        };
        let before = params.bytes().clone();
        let origin = beside_a_call(forwarded.server.id(), None, Message::Other);
        let params = self.gateway.screen(params, &origin, self.asked).await?;
        let changed = if *params.bytes() == before {
            Changed::No
        } else {
            Changed::Yes
        };
        Ok((Some(params), changed))
    }

    /// A modern server asks, a client with a session answers: round after round on one stream.
    pub(crate) async fn converse(&self, request: &Request, forwarded: Forwarded, mut flight: Flight) -> Ended {
        for _ in 0..MOST_ROUNDS {
            let dispatched = self.fly(request, &forwarded, &mut flight).await;
            let (raw, of_task) = match dispatched {
                Ok(Dispatched::Result(raw)) => (raw, false),
                Ok(Dispatched::TaskAsks(raw)) => (raw, true),
                other => return self.arrive(forwarded, other).await,
            };
            let screened_with_state = match self.screened(&forwarded, raw).await {
                Ok(screened_with_state) => screened_with_state,
                Err(withheld) => return self.conclude(forwarded, self.kept_back(&withheld)),
            };
            if !of_task && result_type(&screened_with_state.result) != ResultType::InputRequired {
                let adapted = self.adapt(&forwarded, screened_with_state).await;
                return self.conclude(forwarded, adapted);
            }
            let answered = match screened_with_state.wanted() {
                Ok(mut wanted) => {
                    // A task may show what was answered until it has read the answers.
                    wanted.requests.retain(|asked| !flight.has_answered(&asked.key));
                    let answers = self.ask_all(&forwarded, &screened_with_state.result, &wanted).await;
                    answers.map(|answers| (wanted, answers))
                }
                Err(_) => Err(unusable()),
            };
            match answered {
                Ok((_, answers)) if of_task => flight.answer_task(&answers),
                Ok((wanted, answers)) => {
                    let responses = mrtr::compose_input_responses(&answers);
                    flight.next_round(&responses, wanted.request_state.as_deref());
                }
                Err(withheld) => return self.conclude(forwarded, self.kept_back(&withheld)),
            }
        }
        self.conclude(forwarded, self.kept_back(&endless()))
    }

    pub(crate) fn conclude(
        &self,
        forwarded: Forwarded,
        (status, reply, code): (Status, Prepared, Option<ReasonCode>),
    ) -> Ended {
        let facts = arrived(forwarded.facts, &forwarded.walls);
        let mut decision = forwarded.decision;
        decision.reason_codes.extend(code);
        let source = forwarded.server.credential();
        self.ended_called(facts, decision, Some(source), (status, Some(true), reply))
    }

    /// Puts every question on the stream of the call, and waits for all answers.
    async fn ask_all(
        &self,
        forwarded: &Forwarded,
        result: &ScreenedResult,
        wanted: &InputRequired,
    ) -> Result<Vec<(String, Bytes)>, Withheld> {
        let session = self.asked.session().filter(|_| self.asked.stream.takes_streams());
        let session: &Arc<_> = session.ok_or_else(unaskable)?;
        let mut open: Vec<(&str, Posed, _)> = Vec::new();
        for input in &wanted.requests {
            let params = self.by_itself(forwarded, input.params.as_ref().and_then(|params| result.part(params)));
            let (params, _) = params.await?;
            let method = input.method.as_str().to_owned();
            let allowed = self
                .gateway
                .allow_screened(self.asked, forwarded.server.id(), method, params)
                .await
                .map_err(|_| unaskable())?;
            let posed = session.pose();
            let question = ClientMessage::question(posed.id(), &allowed.method, allowed.params.as_ref());
            self.asked.say(&question).await;
            open.push((&input.key, posed, allowed));
        }
        let mut answers = Vec::with_capacity(open.len());
        let cancelled = self.asked.session().map(|session| session.begin(self.id.as_raw()));
        let deadline = tokio::time::Instant::now() + LONGEST_PAUSE;
        for (key, mut posed, allowed) in open {
            let answer = tokio::select! {
                answer = tokio::time::timeout_at(deadline, posed.answer()) => answer.ok().flatten(),
                () = self.unwanted(cancelled.as_ref()) => None,
                () = session.ended() => None,
                () = self.gateway.changes.stopped() => None,
            };
            let answer = answer.map(|content| self.gateway.check_answer(content));
            let content = answer.unwrap_or_else(|| compose::error_content(mcp::ErrorCode::InternalError, "no answer"));
            if !self.gateway.record_question(self.asked, &allowed, Some(&content)).await {
                return Err(unusable());
            }
            match content {
                Content::Result(raw) => answers.push((key.to_owned(), raw)),
                Content::Error(_) => return Err(unanswered()),
            }
        }
        Ok(answers)
    }

    /// A refusal by JSON-RPC error that a client's own declaration causes.
    pub(crate) fn lacks_capability(&self, required: &str) -> Prepared {
        let note = ErrorData {
            beside: vec![("requiredCapabilities", required.as_bytes().to_vec())],
            ..ErrorData::denied(ReasonCode::DenyMalformed)
        };
        let message = "the client did not declare a capability that this needs".to_owned();
        Prepared::refusal(Some(self.id.clone()), mcp::ErrorCode::MissingCapability, message, note)
            .with_status(http::StatusCode::BAD_REQUEST)
    }
}

/// What a result is; where the chokepoint saw it already, nothing is read again.
fn result_type(result: &ScreenedResult) -> ResultType {
    match result.result_type() {
        Said::Nothing | Said::Complete => ResultType::Complete,
        Said::Otherwise => mrtr::result_type(result.bytes()),
    }
}

/// Whether a method may take several rounds.
fn takes_rounds(request: &Request) -> bool {
    use mcp::Method::{PromptsGet, ResourcesRead, ToolsCall};
    matches!(request.method(), ToolsCall | ResourcesRead | PromptsGet)
}

pub(crate) fn unusable() -> Withheld {
    withheld("the server's answer is not one of this protocol version")
}

fn unaskable() -> Withheld {
    withheld("the server asks something that this client cannot or may not be asked")
}

fn unanswered() -> Withheld {
    withheld("the server asked something and the client did not answer it")
}

fn endless() -> Withheld {
    withheld("the server asks again and again")
}

fn withheld(message: &str) -> Withheld {
    Withheld {
        code: ReasonCode::ErrorUpstream,
        message: message.to_owned(),
    }
}

/// What a flight came back with.
pub(crate) type Landing = Result<Dispatched, Failure>;
