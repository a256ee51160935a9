//! Carries a permitted request to its server and brings the answer back: intent, credential,
//! dispatch, chokepoint, and the adaptation to the client's era.

use std::borrow::Cow;
use std::sync::Arc;

use ledger::{DecisionFacts, Era as ClientEra, Intent, MessageFacts, Status};
use mcp::compose::Progress;
use mcp::headers::Marks;
use mcp::translate::ResultKind;
use mcp::{Era, ErrorCode, Method, Request};
use policy::{InFlight, Target};
use screening::arguments::Checked;
use screening::result::ScreenedResult;
use upstream::{Dispatched, Failure, OutgoingRequest, PreparedCall, SeenConfinement, Server, TaskMode, prepare};
use vocabulary::Risk;

use crate::call::rounds::{Binding, Round, unusable};
use crate::context::Ended;
use crate::context::client::Client;
use crate::era::initialize::Offers;
use crate::events::observer::{CallObserver, Consequence, EventBudget};
use crate::outcome::{Case, Decided};
use crate::reply::Prepared;
use crate::session::OpenCall;

/// Everything a request takes along.
pub(crate) struct Permitted<'a> {
    pub(crate) decided: Decided,
    pub(crate) facts: MessageFacts,
    pub(crate) checked: &'a dyn Checked,
    /// Further members of `params`, raw.
    pub(crate) extras: Vec<(&'a str, Cow<'a, [u8]>)>,
    pub(crate) marks: &'a Marks,
    /// Whether the tool runs as a task of the legacy era only.
    pub(crate) needs_task: bool,
    pub(crate) kind: ResultKind,
}

/// A request on its way: what its record and its answer will need.
pub(crate) struct Forwarded {
    pub(crate) server: Arc<Server>,
    pub(crate) era: Era,
    pub(crate) facts: MessageFacts,
    pub(crate) decision: DecisionFacts,
    pub(crate) kind: ResultKind,
    pub(crate) binding: Binding,
    pub(crate) target: Target,
    /// The task it is about, by the client's name for it; empty where it is about none.
    pub(crate) task: String,
    /// Whether the answer is about a task of a server with sessions.
    pub(crate) session_task: bool,
    /// What stands around the process it goes to.
    pub(crate) walls: SeenConfinement,
    /// Held while the request is under way.
    pub(crate) seat: Option<InFlight>,
}

/// What the record of a request says, once it has arrived.
pub(crate) fn arrived(facts: MessageFacts, walls: &SeenConfinement) -> MessageFacts {
    MessageFacts {
        walls: walls.now(),
        ..facts
    }
}

impl Case<'_> {
    /// From medium risk on, the intent is on record before the request leaves.
    pub(crate) async fn forward(&self, request: &Request, load: Permitted<'_>) -> Result<Ended, Box<Ended>> {
        let Permitted {
            decided:
                Decided {
                    permit,
                    facts: decision,
                    seat,
                },
            facts,
            checked,
            mut extras,
            marks,
            needs_task,
            kind,
        } = load;
        let target = permit.target().clone();
        let Some(server) = self.snapshot.server(target.server()) else {
            return Ok(self.failed(facts, decision, None, &Failure::SessionGone));
        };
        let era = match server.era().await {
            Ok(era) => era,
            Err(failure) => return Ok(self.failed(facts, decision, Some(server.credential()), &failure)),
        };
        let session_task = self.session_task(request, era);
        if !session_task && (self.asked.client.era(), era) != (ClientEra::Modern, Era::Modern) {
            extras.retain(|(name, _)| *name != "task");
        }
        let binding = Binding::of(self.asked, permit.action(), &target, checked.digest());
        let round = self.round(request, &binding)?;
        self.announce(&facts, &decision).await?;
        let forwarded = Forwarded {
            server: server.clone(),
            era,
            facts,
            decision,
            kind,
            binding,
            target,
            task: request.params().text("taskId").unwrap_or_default().into_owned(),
            session_task,
            walls: SeenConfinement::default(),
            seat: Some(seat),
        };
        if era == Era::Modern && matches!(request.method(), Method::Subscribe | Method::Unsubscribe) {
            return Ok(Box::pin(self.subscribe_here(request, forwarded)).await);
        }
        if let Round::Parked(parked, answers) = round {
            return Ok(Box::pin(self.resume(request, forwarded, *parked, answers)).await);
        }
        round.put_into(&mut extras, era);
        let departure = OutgoingRequest {
            server,
            era,
            guest: self.asked.client.guest(&self.asked.who),
            credential: server.credential().fetch(),
            checked,
            extras,
            meta: passed_meta(request),
            progress: progress(request),
            log_level: self.asked.client.log_level().map(mcp::translate::LogLevel::as_str),
            marks,
            trace: self.asked.arrival.trace_id,
            epoch: self.gateway.snapshot().policy.epoch(),
            tasks: self.task_mode(request, server, era, needs_task),
        };
        let mut forwarded = forwarded;
        Ok(match embark(permit, departure) {
            Ok(flight) => {
                forwarded.walls = flight.walls();
                self.travel(request, forwarded, flight).await
            }
            Err(failure) => self.failed(forwarded.facts, forwarded.decision, Some(server.credential()), &failure),
        })
    }

    /// Tasks of servers with sessions stay within their era.
    fn session_task(&self, request: &Request, era: Era) -> bool {
        let about_tasks = match request.method().as_str() {
            "tools/call" => request.params().raw("task").is_some(),
            method => method.starts_with("tasks/"),
        };
        about_tasks && era == Era::Legacy && self.asked.client.era() == ClientEra::Legacy
    }

    /// Across eras the client knows of no tasks: the call itself sees one through that it becomes. A
    /// legacy server makes one only where it is asked to, a modern one where it wants to.
    fn task_mode(&self, request: &Request, server: &Server, era: Era, needs_task: bool) -> TaskMode {
        let call = *request.method() == Method::ToolsCall;
        let seen_through = match (self.asked.client.era(), era) {
            (ClientEra::Modern, Era::Legacy) => call && needs_task && Offers::by(server).session_tasks,
            (ClientEra::Legacy, Era::Modern) => call,
            (ClientEra::Legacy, Era::Legacy) | (ClientEra::Modern, Era::Modern) => false,
        };
        if seen_through {
            TaskMode::Gateway
        } else {
            TaskMode::Client
        }
    }

    async fn announce(&self, facts: &MessageFacts, decision: &DecisionFacts) -> Result<(), Box<Ended>> {
        if facts.risk >= Some(Risk::Medium) {
            let intent = Intent {
                who: self.asked.who.clone(),
                message: facts.clone(),
                decision: decision.clone(),
            };
            let written = self.gateway.ledger.append_intent(&self.asked.arrival, intent).await;
            written.map(drop).map_err(|_| self.unrecordable(facts))
        } else if self.gateway.ledger.is_healthy() {
            Ok(())
        } else {
            Err(self.unrecordable(facts))
        }
    }

    async fn travel(&self, request: &Request, forwarded: Forwarded, flight: Flight) -> Ended {
        match (self.asked.client.era(), forwarded.era) {
            // The rarer ways are boxed: the common one stays small.
            (ClientEra::Modern, Era::Legacy) => Box::pin(self.park(request, forwarded, flight)).await,
            (ClientEra::Legacy, Era::Modern) => Box::pin(self.converse(request, forwarded, flight)).await,
            (ClientEra::Legacy, Era::Legacy) | (ClientEra::Modern, Era::Modern) => {
                let mut flight = flight;
                let dispatched = self.fly(request, &forwarded, &mut flight).await;
                let subscribes = matches!(request.method(), Method::Subscribe | Method::Unsubscribe);
                if subscribes && matches!(dispatched, Ok(Dispatched::Result(_))) {
                    Box::pin(self.note_subscription(request, &forwarded)).await;
                }
                match dispatched {
                    Ok(Dispatched::Result(raw)) if forwarded.session_task => match self.screened(&forwarded, raw).await
                    {
                        Ok(screened_with_state) => {
                            let adapted = self.adapt_session_task(request, &forwarded, screened_with_state.result);
                            self.conclude(forwarded, adapted)
                        }
                        Err(withheld) => self.conclude(forwarded, self.kept_back(&withheld)),
                    },
                    other => self.arrive(forwarded, other).await,
                }
            }
        }
    }

    /// One flight, with an escort, until the answer comes or nobody wants it any more.
    pub(crate) async fn fly(
        &self,
        request: &Request,
        forwarded: &Forwarded,
        flight: &mut Flight,
    ) -> Result<Dispatched, Failure> {
        let observer = CallObserver {
            gateway: self.gateway,
            asked: self.asked,
            server: forwarded.server.id(),
            token: request.params().meta("progressToken"),
            our_token: flight.id(),
            asking: EventBudget::default(),
            tool: forwarded.facts.tool_name.as_deref(),
        };
        let open = self.asked.session().map(|session| session.begin(self.id.as_raw()));
        tokio::select! {
            biased;
            dispatched = flight.fly(&observer) => dispatched,
            () = observer.asking.exhausted() => {
                self.gateway.record_exhausted_budget(self.asked, forwarded.server.id(), Consequence::Ended).await;
                Err(Failure::Clamour)
            }
            () = self.unwanted(open.as_ref()) => Err(Failure::Cancelled),
        }
    }

    /// Completes when nobody waits for the answer any more: a session's client says so, any other
    /// hangs up.
    pub(crate) async fn unwanted(&self, open: Option<&OpenCall>) {
        match (&self.asked.client, open) {
            (Client::Legacy(_), Some(open)) => open.cancelled().await,
            (Client::Legacy(_) | Client::Unmet, _) => std::future::pending().await,
            (Client::Modern(_), _) => self.asked.stream.gone().await,
        }
    }

    /// The answer crosses the chokepoint, or stays here.
    pub(crate) async fn arrive(&self, forwarded: Forwarded, dispatched: Result<Dispatched, Failure>) -> Ended {
        let (status, reply, code) = match dispatched {
            Err(failure) => {
                let (facts, source) = (
                    arrived(forwarded.facts, &forwarded.walls),
                    forwarded.server.credential(),
                );
                return self.failed(facts, forwarded.decision, Some(source), &failure);
            }
            Ok(Dispatched::Result(raw)) => match self.screened(&forwarded, raw).await {
                Ok(screened_with_state) => self.adapt(&forwarded, screened_with_state).await,
                Err(withheld) => self.kept_back(&withheld),
            },
            // A task asks where it can be answered; here it cannot.
            Ok(Dispatched::TaskAsks(_)) => self.kept_back(&unusable()),
            Ok(Dispatched::Error(raw)) => {
                let code = raw.code();
                match self.screened_error(&forwarded, raw).await {
                    Ok(error) => (Status::Error, self.adapt_error(&forwarded, error, code), None),
                    Err(withheld) => self.kept_back(&withheld),
                }
            }
        };
        self.conclude(forwarded, (status, reply, code))
    }

    pub(crate) fn kept_back(
        &self,
        withheld: &screening::result::Withheld,
    ) -> (Status, Prepared, Option<vocabulary::ReasonCode>) {
        let (status, reply) = self.withheld(withheld);
        (status, reply, Some(withheld.code))
    }

    fn adapt_error(&self, forwarded: &Forwarded, error: ScreenedResult, code: i64) -> Prepared {
        let id = self.id.clone();
        match (self.asked.client.era(), forwarded.era) {
            (ClientEra::Modern, era) => {
                let adapted = (era == Era::Legacy).then(|| mcp::translate::error_for_modern(error.bytes()));
                let status = match ErrorCode::parse(code) {
                    Some(ErrorCode::MethodNotFound) => http::StatusCode::NOT_FOUND,
                    Some(ErrorCode::HeaderMismatch | ErrorCode::MissingCapability | ErrorCode::UnsupportedVersion) => {
                        http::StatusCode::BAD_REQUEST
                    }
                    Some(
                        ErrorCode::ParseError
                        | ErrorCode::InvalidRequest
                        | ErrorCode::InvalidParams
                        | ErrorCode::InternalError
                        | ErrorCode::ResourceNotFound
                        | ErrorCode::Denied,
                    )
                    | None => http::StatusCode::OK,
                };
                Prepared::server_error(id, error, adapted).with_status(status)
            }
            (ClientEra::Legacy, Era::Modern) => {
                let adapted = mcp::translate::error_for_legacy(error.bytes(), &self.asked.method);
                Prepared::server_error(id, error, Some(adapted))
            }
            (ClientEra::Legacy, Era::Legacy) => Prepared::server_error(id, error, None),
        }
    }
}

/// The client's own `_meta` keys that go along: not the protocol's, not ours, no trace of another hop.
fn passed_meta(request: &Request) -> Vec<(&str, &[u8])> {
    let ours = |name: &str| {
        matches!(name, "progressToken" | "traceparent" | "tracestate" | "baggage")
            || name.starts_with("io.modelcontextprotocol/")
            || name.starts_with("portreeve/")
    };
    request
        .params()
        .meta_members()
        .filter(|(name, _)| !ours(name))
        .collect()
}

fn progress(request: &Request) -> Progress {
    if request.params().meta("progressToken").is_some() {
        Progress::Wanted
    } else {
        Progress::Unwanted
    }
}
