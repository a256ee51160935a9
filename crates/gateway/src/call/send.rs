//! One request to a server, with an observer of what else it says, until the answer comes or nobody wants it any more.

use mcp::Request;
use upstream::{Dispatched, Failure, PreparedCall};

use crate::call::forwarded::Forwarded;
use crate::context::client::Client;
use crate::events::observer::{CallObserver, Consequence, record_exhausted_budget};
use crate::message::adapted::ProgressToken;
use crate::session::CancellableCall;
use crate::stages::Stages;
use crate::state::event_budget::EventBudget;

/// See the module.
pub(crate) async fn send(
    stages: &Stages<'_>,
    request: &Request,
    forwarded: &Forwarded,
    prepared: &mut PreparedCall,
) -> Result<Dispatched, Failure> {
    let (gateway, context) = (stages.gateway, stages.context);
    let observer = CallObserver {
        gateway,
        context,
        server: forwarded.server.id(),
        token: ProgressToken::of(request.params()),
        our_token: prepared.id(),
        budget: EventBudget::default(),
        tool: forwarded.name(),
        about: forwarded.about(),
    };
    let open = context.session().map(|session| session.begin(stages.id.as_raw()));
    tokio::select! {
        biased;
        dispatched = prepared.send(&observer) => dispatched,
        () = observer.budget.exhausted() => {
            record_exhausted_budget(gateway, context, forwarded.server.id(), Consequence::Ended).await;
            Err(Failure::TooManyEvents)
        }
        () = unwanted(stages, open.as_ref()) => Err(Failure::Cancelled),
    }
}

/// Completes when nobody waits for the answer any more (a session's client says so, any other hangs up), or when an incident
/// denies what is under way.
pub(crate) async fn unwanted(stages: &Stages<'_>, open: Option<&CancellableCall>) {
    let given_up = async {
        match (&stages.context.client, open) {
            (Client::Legacy(_), Some(open)) => open.cancelled().await,
            (Client::Legacy(_) | Client::Unknown, _) => std::future::pending().await,
            (Client::Modern(_), _) => stages.context.stream.gone().await,
        }
    };
    tokio::select! {
        () = given_up => {}
        () = stages.denied_by_incident() => {}
    }
}
