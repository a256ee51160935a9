//! Hears what a server says while it answers, or on a stream of its own: what it tells crosses the chokepoint and goes to
//! the client that asked, and to nobody else; what it asks is put to that client.

use std::sync::Arc;
use std::time::Instant;

use ledger::{Event, Judgement, ScreeningAct, ScreeningDecision, ScreeningGuard, ScreeningMode, ScreeningStage};
use mcp::translate::LogLevel;
use mcp::{ErrorCode, ServerNotice};
use policy::{Target, ToolEntry};
use screening::result::walk::Message;
use screening::result::{ScreenedResult, Withheld};
use upstream::{ListKind, Observer, OpenCall, RawNotification, RawServerRequest, ServerEvent, Waiting};
use vocabulary::ServerId;

use crate::context::RequestContext;
use crate::context::client::Client;
use crate::delivery::About;
use crate::events::server_request::put_to_client;
use crate::gateway::Gateway;
use crate::message::adapted::ProgressToken;
use crate::message::{Adapted, ClientMessage};
use crate::screen::{beside_a_call, of_tool, screen, screen_and_keep, subject};
use crate::session::Session;
use crate::state::event_budget::{EventBudget, MOST_TROUBLES, PassedOn};

/// See the module.
pub(crate) struct CallObserver<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) context: &'a RequestContext,
    pub(crate) server: &'a ServerId,
    /// The client's own progress token; none asked, none sent.
    pub(crate) token: Option<ProgressToken>,
    /// The token that the server was given.
    pub(crate) our_token: u64,
    pub(crate) budget: EventBudget,
    /// The tool that is called.
    pub(crate) tool: Option<&'a str>,
    /// What is observed: what the client must be allowed, to hear of it.
    pub(crate) about: About,
}

impl Observer for CallObserver<'_> {
    fn observe(&self, event: ServerEvent) -> Waiting<'_> {
        Box::pin(async move {
            match event {
                ServerEvent::Notification(told) => self.pass_on(told).await,
                ServerEvent::Request(question) => self.put(question).await,
            }
        })
    }

    fn quiet(&self) -> Waiting<'_> {
        Box::pin(async move {
            // The stream keeps itself alive from here on.
            self.context.stream.open(self.context.opener(self.about.clone())).await;
        })
    }

    fn last_asked(&self) -> Option<Instant> {
        self.budget.last_open()
    }

    fn open_call(&self) -> Option<OpenCall> {
        Some(OpenCall {
            tool: self.tool.map(str::to_owned),
            ..self.context.open_call()
        })
    }
}

/// What an exhausted budget leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Consequence {
    /// The call or the subscription ends.
    Ended,
    /// It goes on without what the server says beside.
    Unheard,
}

/// Puts on record, once, why a call or a subscription ends, or why no more is heard beside it.
pub(crate) async fn record_exhausted_budget(
    gateway: &Gateway,
    context: &RequestContext,
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
    let decision = ScreeningDecision::about(subject(context, server.to_string(), None), judgement);
    tracing::warn!(%server, "too much of what a server says beside its answers cannot be passed on as it came");
    if let Err(down) = gateway.ledger.append_event(Event::Screening(Box::new(decision))).await {
        let error = &down as &dyn std::error::Error;
        tracing::error!(error, "the end of a call cannot be recorded");
    }
}

impl CallObserver<'_> {
    async fn pass_on(&self, told: RawNotification) {
        // What servers may not tell is not even judged.
        let Some(method) = ServerNotice::parse(told.method()) else {
            return;
        };
        if let Some(kind) = changed_list(method) {
            if let Some(server) = self.gateway.in_force().server(self.server) {
                server.note_change(&self.context.guest());
            }
            self.gateway.changes.changed(self.server, kind);
            return;
        }
        if self.budget.is_exhausted() || self.budget.hears_no_notifications() {
            return;
        }
        let tool = self.tool_of_task(method, &told);
        let screened = self.screened(told, tool.as_ref()).await;
        let passed_on = match &screened {
            Ok(params) if params.acts().is_empty() => PassedOn::Unchanged,
            Ok(_) | Err(_) => PassedOn::Troublesome,
        };
        if self.budget.count_notification(passed_on) {
            record_exhausted_budget(self.gateway, self.context, self.server, Consequence::Unheard).await;
        }
        match screened {
            Ok(params) => {
                let about = tool.map_or_else(|| self.about.clone(), about_task);
                self.forward(method, params, about).await;
            }
            Err(_) => tracing::warn!(server = %self.server, %method, "a notification was withheld"),
        }
    }

    async fn screened(&self, told: RawNotification, tool: Option<&Arc<ToolEntry>>) -> Result<ScreenedResult, Withheld> {
        let params = told.into_params();
        match tool {
            // The result of a task is a tool's.
            Some(tool) => {
                let in_force = self.gateway.in_force();
                let origin = of_tool(&in_force, tool, Message::TaskState);
                screen_and_keep(self.gateway, params, &origin, tool, self.context).await
            }
            None => {
                let origin = beside_a_call(self.server, self.tool, Message::Other);
                screen(self.gateway, params, &origin, self.context).await
            }
        }
    }

    fn tool_of_task(&self, method: ServerNotice, told: &RawNotification) -> Option<Arc<ToolEntry>> {
        let about_task = matches!(method, ServerNotice::Task | ServerNotice::TaskStatus);
        let task = about_task.then(|| told.task()).flatten()?;
        self.gateway.tasks.tool_of(task, &self.context.who, self.server)
    }

    async fn forward(&self, method: ServerNotice, params: ScreenedResult, about: About) {
        let message = match method {
            ServerNotice::Progress => self.progress(params),
            ServerNotice::Message if self.is_anybodys() || !self.wants_logs(&params) => None,
            ServerNotice::ElicitationComplete if self.is_anybodys() => None,
            ServerNotice::Message | ServerNotice::ElicitationComplete => {
                Some(ClientMessage::notification(method, &params))
            }
            ServerNotice::Task | ServerNotice::TaskStatus => self.task_news(method, params),
            ServerNotice::ResourceUpdated => return self.resource_updated(&params).await,
            // Told by other ways, or not a client's business.
            ServerNotice::Cancelled
            | ServerNotice::ToolsChanged
            | ServerNotice::PromptsChanged
            | ServerNotice::ResourcesChanged
            | ServerNotice::SubscriptionAcknowledged => None,
        };
        if let Some(message) = message {
            self.context.say(about, &message).await;
        }
    }

    /// Progress of this call, under the client's own token.
    fn progress(&self, params: ScreenedResult) -> Option<ClientMessage> {
        let adapted = Adapted::progress(params, self.our_token, self.token.as_ref()?)?;
        Some(ClientMessage::adapted_notification(ServerNotice::Progress, &adapted))
    }

    /// News of a task of this client, under our id.
    fn task_news(&self, method: ServerNotice, params: ScreenedResult) -> Option<ClientMessage> {
        let span = mcp::server::member_span(params.bytes(), "taskId")?;
        let theirs = params.bytes().get(span)?;
        let ours = self.gateway.tasks.ours(theirs, &self.context.who, self.server)?;
        let adapted = Adapted::task_news(params, &ours)?;
        Some(ClientMessage::adapted_notification(method, &adapted))
    }

    /// A resource changed: told to the client if it subscribed.
    async fn resource_updated(&self, params: &ScreenedResult) {
        let Some(uri) = mcp::server::text_member(params.bytes(), "uri") else {
            return;
        };
        let subscribed = |session: &&Arc<Session>| session.is_subscribed(self.server, &uri);
        let Some(session) = self.context.session().filter(subscribed) else {
            return;
        };
        if let Some(standing) = session.standing() {
            let message = ClientMessage::notification(ServerNotice::ResourceUpdated, params);
            let about = About::Resource(self.server.clone(), uri.into(), self.context.arrival.address);
            standing.say(&message, about, None).await;
        }
    }

    /// Heard on the own stream of a session that principals share: nobody knows whom it concerns.
    fn is_anybodys(&self) -> bool {
        let in_force = self.gateway.in_force();
        self.our_token == 0 && in_force.server(self.server).is_some_and(|server| server.is_shared())
    }

    /// A modern client hears logs only if it asked for them, from the level on that it asked for.
    fn wants_logs(&self, params: &ScreenedResult) -> bool {
        let level = mcp::server::text_member(params.bytes(), "level").and_then(|level| LogLevel::parse(&level));
        match (&self.context.client, self.context.client.log_level(), level) {
            (Client::Modern(_), Some(wanted), Some(level)) => level >= wanted,
            (Client::Modern(_) | Client::Unknown, _, _) => false,
            (Client::Legacy(_), Some(wanted), Some(level)) => level >= wanted,
            (Client::Legacy(_), _, _) => true,
        }
    }

    /// Asks the client, while the server is read on.
    async fn put(&self, question: RawServerRequest) {
        match &self.context.client {
            Client::Legacy(_) if self.context.stream.takes_streams() => {
                self.context.stream.open(self.context.opener(self.about.clone())).await;
                put_to_client(self.gateway, self.context, &self.budget, self.server, question).await;
            }
            Client::Legacy(_) | Client::Modern(_) | Client::Unknown => {
                let (_, _, reply) = question.split();
                reply
                    .send(&mcp::compose::error_content(
                        ErrorCode::MethodNotFound,
                        "the client cannot be asked",
                    ))
                    .await;
            }
        }
    }
}

/// News of a task are for whoever may ask for it.
fn about_task(tool: Arc<ToolEntry>) -> About {
    About::Target(mcp::Method::TasksGet.as_str().into(), Target::Tool(tool))
}

/// The list that a notification says has changed.
pub(crate) fn changed_list(method: ServerNotice) -> Option<ListKind> {
    match method {
        ServerNotice::ToolsChanged => Some(ListKind::Tools),
        ServerNotice::PromptsChanged => Some(ListKind::Prompts),
        ServerNotice::ResourcesChanged => Some(ListKind::Resources),
        ServerNotice::Cancelled
        | ServerNotice::Progress
        | ServerNotice::Message
        | ServerNotice::ResourceUpdated
        | ServerNotice::ElicitationComplete
        | ServerNotice::Task
        | ServerNotice::TaskStatus
        | ServerNotice::SubscriptionAcknowledged => None,
    }
}
