//! Accompanies a request to its server and hears what the server says on the way: what is told
//! crosses the chokepoint and goes to the client that asked, and to nobody else.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use ledger::{Event, Judgement, ScreeningAct, ScreeningDecision, ScreeningGuard, ScreeningMode, ScreeningStage};
use mcp::Content;
use mcp::method::of_server;
use mcp::splice::Splice;
use mcp::translate::LogLevel;
use screening::result::ScreenedResult;
use screening::result::walk::Message;
use tokio::sync::Notify;
use upstream::{ListKind, Observer, OpenCall, RawNotification, RawServerRequest, ServerEvent, Waiting};
use vocabulary::ServerId;

use crate::context::RequestContext;
use crate::context::client::Client;
use crate::events::server_request::Allowed;
use crate::receive::Gateway;
use crate::reply::stream::ClientMessage;
use crate::screen::{beside_a_call, of_tool};

/// See the module.
pub(crate) struct CallObserver<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) asked: &'a RequestContext,
    pub(crate) server: &'a ServerId,
    /// The client's own progress token, raw; none asked, none sent.
    pub(crate) token: Option<&'a [u8]>,
    /// The token that the server was given.
    pub(crate) our_token: u64,
    pub(crate) asking: EventBudget,
    /// The tool that is called.
    pub(crate) tool: Option<&'a str>,
}

/// How many questions are open, and when one was last.
#[derive(Clone, Default)]
pub(crate) struct EventBudget(Arc<Questions>);

#[derive(Default)]
struct Questions {
    open: AtomicUsize,
    asked: AtomicUsize,
    troubles: AtomicUsize,
    unwelcome: AtomicUsize,
    exhausted: Notify,
    last: Mutex<Option<Instant>>,
}

/// What a server may say beside the answer of one call, or to one subscription, that has to be changed, withheld or
/// refused, each with a record. Then the call or the subscription ends, or, if it was notifications, no more of these is
/// heard: no server can fill the log.
pub(crate) const MOST_TROUBLES: usize = 100;
/// Questions of one call that leave their records and nothing else; what comes after them is trouble.
const MOST_ASKED: usize = 1_000;
/// Questions of one call that may be open at a time.
const MOST_QUESTIONS: usize = 16;

impl EventBudget {
    /// A question opens; `None` when too many are.
    pub(crate) fn begin(&self) -> Option<()> {
        let before = self.0.open.fetch_add(1, Ordering::SeqCst);
        if before >= MOST_QUESTIONS {
            self.0.open.fetch_sub(1, Ordering::SeqCst);
            return None;
        }
        Some(())
    }

    pub(crate) fn end(&self) {
        *self.0.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(Instant::now());
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }

    /// Too much had to be decided about; nothing more is heard.
    pub(crate) fn is_tired(&self) -> bool {
        self.0.troubles.load(Ordering::SeqCst) > MOST_TROUBLES
    }

    /// Completes when that is so.
    pub(crate) async fn exhausted(&self) {
        loop {
            let told = self.0.exhausted.notified();
            if self.is_tired() {
                return;
            }
            told.await;
        }
    }

    /// Too many notifications could not be passed on as they came; no more is heard.
    fn is_deaf(&self) -> bool {
        self.0.unwelcome.load(Ordering::SeqCst) > MOST_TROUBLES
    }

    /// Counts such a notification; true when it is the one too many.
    fn bear(&self) -> bool {
        self.0.unwelcome.fetch_add(1, Ordering::SeqCst) == MOST_TROUBLES
    }

    fn trouble(&self) {
        if self.0.troubles.fetch_add(1, Ordering::SeqCst) + 1 > MOST_TROUBLES {
            self.0.exhausted.notify_waiters();
        }
    }

    /// Counts a question: one that was refused or changed, and one too many.
    pub(crate) fn note_question(&self, allowed: Result<Allowed, Content>) -> Result<Allowed, Content> {
        let clean = allowed.as_ref().is_ok_and(|allowed| allowed.is_as_it_came());
        let before = self.0.asked.fetch_add(1, Ordering::SeqCst);
        if !clean || before >= MOST_ASKED {
            self.trouble();
        }
        allowed
    }

    pub(crate) fn last(&self) -> Option<Instant> {
        if self.0.open.load(Ordering::SeqCst) > 0 {
            return Some(Instant::now());
        }
        *self.0.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Companion for CallObserver<'_> {
    fn hear(&self, aside: Aside) -> Waiting<'_> {
        Box::pin(async move {
            match aside {
                ServerEvent::Notification(told) => self.pass_on(told).await,
                ServerEvent::Request(question) => self.put(question).await,
            }
        })
    }

    fn quiet(&self) -> Waiting<'_> {
        Box::pin(async move {
            // The stream keeps itself alive from here on.
            self.asked.stream.open(self.asked.session()).await;
        })
    }

    fn last_asked(&self) -> Option<Instant> {
        self.asking.last()
    }

    fn open_call(&self) -> Option<OpenCall> {
        Some(OpenCall {
            tool: self.tool.map(str::to_owned),
            ..self.asked.open_case()
        })
    }
}

/// What too much trouble leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Consequence {
    /// The call or the subscription ends.
    Ended,
    /// It goes on without what the server says beside.
    Unheard,
}

impl Gateway {
    /// Puts on record, once, why a call or a subscription ends, or why no more is heard beside it.
    pub(crate) async fn record_exhausted_budget(
        &self,
        asked: &RequestContext,
        server: &ServerId,
        consequence: Consequence,
    ) {
        let word = match consequence {
            Consequence::Ended => "ended",
            Consequence::Unheard => "no more notifications are passed on",
        };
        let message = format!(
            "{word}: more than {MOST_TROUBLES} messages that the server sent beside its answer had to be changed, withheld or refused"
        );
        let (act, stage) = (ScreeningAct::Blocked, ScreeningStage::Guard);
        let judgement = Judgement {
            guard: Some(ScreeningGuard::Messages),
            ..Judgement::new(act, stage, ScreeningMode::Always, message)
        };
        let decision = ScreeningDecision::about(subject(asked, server.to_string(), None), judgement);
        tracing::warn!(%server, "too much of what a server says beside its answers cannot be passed on as it came");
        if let Err(down) = self.ledger.append_event(Event::Screening(Box::new(decision))).await {
            let error = &down as &dyn std::error::Error;
            tracing::error!(error, "the end of a call cannot be recorded");
        }
    }
}

impl CallObserver<'_> {
    async fn pass_on(&self, told: RawNotification) {
        let method = told.method().to_owned();
        let named = of_server(&method);
        if let Some(kind) = changed_list(&method) {
            self.gateway.list_changed(self.server, kind);
            return;
        }
        if self.asking.is_tired() || self.asking.is_deaf() {
            return;
        }
        let snapshot = self.gateway.snapshot();
        let task = match method.as_str() {
            "notifications/tasks" | "notifications/tasks/status" => told.task(),
            _ => None,
        };
        let tool = task.and_then(|raw| self.gateway.tasks.tool_of(raw, &self.asked.who, self.server));
        let params = told.into_params();
        let screened = match &tool {
            // The result of a task is a tool's.
            Some(tool) => {
                let origin = of_tool(&snapshot, tool, Message::TaskState);
                self.gateway.screen_and_keep(params, &origin, tool, self.asked).await
            }
            None => {
                let origin = beside_a_call(self.server, self.tool, Message::Other);
                self.gateway.screen(params, &origin, self.asked).await
            }
        };
        let is_as_it_came = screened.as_ref().is_ok_and(|params| params.acts().is_empty());
        if !is_as_it_came && self.asking.bear() {
            let consequence = Consequence::Unheard;
            self.gateway
                .record_exhausted_budget(self.asked, self.server, consequence)
                .await;
        }
        let Ok(params) = screened else {
            tracing::warn!(server = %self.server, method = named, "a notification was withheld");
            return;
        };
        match method.as_str() {
            "notifications/progress" => {
                if let Some(message) = self.progress(&params) {
                    self.asked.say(&message).await;
                }
            }
            "notifications/message" | "notifications/elicitation/complete" if self.is_anybodys() => {}
            "notifications/message" if self.wants_logs(&params) => {
                self.asked.say(&ClientMessage::notification(&method, &params)).await;
            }
            "notifications/elicitation/complete" => {
                self.asked.say(&ClientMessage::notification(&method, &params)).await;
            }
            "notifications/tasks/status" | "notifications/tasks" => {
                let (who, tasks) = (&self.asked.who, &self.gateway.tasks);
                if let Some(renamed) = tasks.renamed(params.bytes(), who, self.server) {
                    self.asked
                        .say(&ClientMessage::adapted(&method, &params, &renamed))
                        .await;
                }
            }
            "notifications/resources/updated" => self.gateway.resource_updated(self.asked, self.server, &params).await,
            _ => {}
        }
    }

    /// Heard on the own stream of a session that principals share: nobody knows whom it concerns.
    fn is_anybodys(&self) -> bool {
        let snapshot = self.gateway.snapshot();
        self.our_token == 0 && snapshot.server(self.server).is_some_and(|server| server.is_shared())
    }

    /// Progress of this call, under the client's own token.
    fn progress(&self, params: &ScreenedResult) -> Option<ClientMessage> {
        let token = self.token?;
        let mut splice = Splice::new(params.bytes()).ok()?;
        let theirs = splice.raw("progressToken")?;
        if !mcp::server::is_our_id(theirs, self.our_token) {
            return None;
        }
        splice.replace_or_insert("progressToken", token);
        Some(ClientMessage::adapted(
            "notifications/progress",
            params,
            &splice.finish(),
        ))
    }

    /// A modern client hears logs only if it asked for them, from the level on that it asked for.
    fn wants_logs(&self, params: &ScreenedResult) -> bool {
        let level = mcp::server::text_member(params.bytes(), "level").and_then(|level| LogLevel::parse(&level));
        match (&self.asked.client, self.asked.client.log_level(), level) {
            (Client::Modern(_), Some(wanted), Some(level)) => level >= wanted,
            (Client::Modern(_) | Client::Unmet, _, _) => false,
            (Client::Legacy(_), Some(wanted), Some(level)) => level >= wanted,
            (Client::Legacy(_), _, _) => true,
        }
    }

    /// Asks the client, while the server is read on.
    async fn put(&self, question: RawServerRequest) {
        match &self.asked.client {
            Client::Legacy(_) if self.asked.stream.takes_streams() => {
                self.asked.stream.open(self.asked.session()).await;
                self.gateway.put_to_client(self, question).await;
            }
            Client::Legacy(_) | Client::Modern(_) | Client::Unmet => {
                let (_, _, reply) = question.split();
                reply
                    .send(&mcp::compose::error_content(
                        mcp::ErrorCode::MethodNotFound,
                        "the client cannot be asked",
                    ))
                    .await;
            }
        }
    }
}

/// The list that a notification says has changed.
pub(crate) fn changed_list(method: &str) -> Option<ListKind> {
    match method {
        "notifications/tools/list_changed" => Some(ListKind::Tools),
        "notifications/prompts/list_changed" => Some(ListKind::Prompts),
        "notifications/resources/list_changed" => Some(ListKind::Resources),
        _ => None,
    }
}
