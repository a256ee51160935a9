//! `subscriptions/listen`: how a modern client hears what changes. Only what it asked for, may know
//! of, and what a server can tell.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use mcp::{ErrorCode, Request, RequestId, ServerNotice};
use screening::result::walk::Message;
use tokio::sync::{broadcast, mpsc, oneshot};
use upstream::{Guest, ListKind, NoObserver, Observer, Server, ServerEvent, Topics, Waiting};
use vocabulary::ServerId;

use crate::context::{Ended, RequestContext};
use crate::delivery::{About, Told};
use crate::events::observer::{Consequence, record_exhausted_budget};
use crate::gateway::Gateway;
use crate::list::federated::Gathering;
use crate::message::adapted::SUBSCRIPTION_ID;
use crate::message::own::OwnValue;
use crate::message::{Adapted, ClientMessage, OwnResult};
use crate::offers::Offers;
use crate::outcome::answered_here;
use crate::reply::Prepared;
use crate::reply::body::EventBody;
use crate::screen::{beside_a_call, screen};
use crate::session::replay::BACKLOG;
use crate::stages::Stages;
use crate::state::changes::Change;
use crate::state::event_budget::{MOST_TROUBLES, PassedOn};
use crate::stream::allowed::allowed_subscriptions;
use crate::stream::change::{ForClient, ListsKnown, meaning, notification_of};
use crate::stream::standing::SUBSCRIBING;

const LONGEST_SUBSCRIPTION: Duration = Duration::from_secs(15 * 60);
/// The most resources of one subscription.
const MOST_URIS: usize = 256;

/// `subscriptions/listen`: an acknowledgement, then what changes.
pub(crate) async fn listen(stages: &Stages<'_>, request: &Request) -> Ended {
    let context = stages.context;
    let Some(wanted) = request
        .params()
        .raw("notifications")
        .filter(|raw| raw.first() == Some(&b'{'))
    else {
        return context.refused_with(
            request,
            ErrorCode::InvalidParams,
            "`params.notifications` must say what to listen for",
        );
    };
    if !context.stream.takes_streams() {
        let message = "Accept must admit text/event-stream";
        return context.refused_by_status(StatusCode::NOT_ACCEPTABLE, request, message);
    }
    let Some(gateway) = stages.gateway.shared() else {
        return context.refused_with(request, ErrorCode::InternalError, "the gateway stops");
    };
    let rules = gateway.clone();
    let (topics, by_server) = honoured(stages, wanted).await;
    let (sender, receiver) = mpsc::channel(BACKLOG);
    let subscription = Subscription {
        context: context.clone(),
        id: request.id().clone(),
        topics,
        sender,
    };
    let changes = gateway.changes.listen();
    let (told, updates) = mpsc::channel(BACKLOG);
    let guest = context.guest();
    relay_all(by_server, &guest, &told).await;
    drop(told);
    subscription.acknowledge().await;
    tokio::spawn(subscription.run(gateway, changes, updates));
    let body = EventBody::new(receiver, context.listener(), rules);
    answered_here(context, &stages.snapshot, Prepared::events(body))
}

/// The part of what a client wants to hear that it may, and the servers to ask for it.
async fn honoured(stages: &Stages<'_>, wanted: &[u8]) -> (Topics, Vec<(Arc<Server>, Vec<String>)>) {
    let (context, snapshot) = (stages.context, &stages.snapshot);
    let offers = Offers::of(snapshot, &context.who, &context.route, context.client.era());
    let flag = |name: &str| {
        let span = mcp::server::member_span(wanted, name);
        span.and_then(|span| wanted.get(span)) == Some(b"true")
    };
    let mut topics = Topics {
        tools: flag("toolsListChanged"),
        prompts: flag("promptsListChanged") && offers.prompts_change,
        resources: flag("resourcesListChanged") && offers.resources_change,
        uris: Vec::new(),
    };
    let mut by_server: BTreeMap<ServerId, Vec<String>> = BTreeMap::new();
    if offers.subscriptions {
        let uris = listed_uris(wanted);
        let gathering = Gathering {
            gateway: stages.gateway,
            context,
            snapshot,
        };
        let owners = match context.route.server() {
            Some(server) => vec![vec![server.clone()]; uris.len()],
            None => gathering.owners_of(&uris).await,
        };
        let owned = uris.into_iter().zip(owners);
        let owned = owned.filter_map(|(uri, owners)| match owners.as_slice() {
            [owner] => Some((owner.clone(), uri)),
            _ => None,
        });
        for (server, uri) in allowed_subscriptions(stages, owned.collect()).await {
            by_server.entry(server).or_default().push(uri.clone());
            topics.uris.push(uri);
        }
    }
    let servers = by_server.into_iter();
    let servers = servers.filter_map(|(id, uris)| Some((snapshot.server(&id)?.clone(), uris)));
    (topics, servers.collect())
}

fn listed_uris(wanted: &[u8]) -> Vec<String> {
    let wanted = Bytes::copy_from_slice(wanted);
    let uris = mcp::server::text_list_member(&wanted, "resourceSubscriptions");
    uris.unwrap_or_default().into_iter().take(MOST_URIS).collect()
}

/// Begins to hear updates of resources of each server, and waits until they took the subscription.
async fn relay_all(by_server: Vec<(Arc<Server>, Vec<String>)>, guest: &Guest, told: &mpsc::Sender<Update>) {
    let mut readiness = Vec::new();
    for (server, uris) in by_server {
        let (ready, is_ready) = oneshot::channel();
        readiness.push(is_ready);
        tokio::spawn(relay_updates(server, guest.clone(), uris, told.clone(), ready));
    }
    for is_ready in readiness {
        let _ = tokio::time::timeout(SUBSCRIBING, is_ready).await;
    }
}

/// Hears updates of resources for a modern client's subscription.
async fn relay_updates(
    server: Arc<Server>,
    guest: Guest,
    uris: Vec<String>,
    told: mpsc::Sender<Update>,
    ready: oneshot::Sender<()>,
) {
    let topics = Topics {
        uris,
        ..Topics::default()
    };
    let observer = UpdateObserver(server.id().clone(), told.clone());
    let tell = || {
        let _ = ready.send(());
    };
    tokio::select! {
        _ = upstream::listen(&server, &guest, &topics, &observer, tell) => {}
        () = told.closed() => {}
    }
}

/// What a server tells of a resource.
type Update = (ServerId, upstream::RawNotification);

struct UpdateObserver(ServerId, mpsc::Sender<Update>);

impl Observer for UpdateObserver {
    fn observe(&self, event: ServerEvent) -> Waiting<'_> {
        Box::pin(async move {
            match event {
                ServerEvent::Notification(raw) if raw.method() == ServerNotice::ResourceUpdated.as_str() => {
                    let _ = self.1.send((self.0.clone(), raw)).await;
                }
                other @ (ServerEvent::Notification(_) | ServerEvent::Request(_)) => NoObserver.observe(other).await,
            }
        })
    }

    fn quiet(&self) -> Waiting<'_> {
        Box::pin(std::future::ready(()))
    }

    fn last_asked(&self) -> Option<std::time::Instant> {
        None
    }
}

/// A modern client's subscription.
struct Subscription {
    context: RequestContext,
    id: RequestId,
    topics: Topics,
    sender: mpsc::Sender<Told>,
}

impl Subscription {
    fn meta(&self) -> OwnValue<'_> {
        OwnValue::Object(vec![(SUBSCRIPTION_ID, OwnValue::Id(&self.id))])
    }

    async fn acknowledge(&self) {
        let topics = &self.topics;
        let flag = |set: bool, name| set.then_some((name, OwnValue::Fixed("true")));
        let mut filter: Vec<(&'static str, OwnValue<'_>)> = [
            flag(topics.tools, "toolsListChanged"),
            flag(topics.prompts, "promptsListChanged"),
            flag(topics.resources, "resourcesListChanged"),
        ]
        .into_iter()
        .flatten()
        .collect();
        if !topics.uris.is_empty() {
            let uris = topics.uris.iter().map(|uri| OwnValue::Text(uri.as_str().into()));
            filter.push(("resourceSubscriptions", OwnValue::Array(uris.collect())));
        }
        let params = OwnValue::Object(vec![
            ("notifications", OwnValue::Object(filter)),
            ("_meta", self.meta()),
        ]);
        let method = ServerNotice::SubscriptionAcknowledged;
        self.say(&ClientMessage::own_notification(method, Some(&params)), About::Own)
            .await;
    }

    async fn say(&self, message: &ClientMessage, about: About) {
        let told = Told::new(message, None, about);
        let _ = tokio::time::timeout(SUBSCRIBING, self.sender.send(told)).await;
    }

    async fn run(
        self,
        gateway: Arc<Gateway>,
        mut changes: broadcast::Receiver<Change>,
        mut updates: mpsc::Receiver<Update>,
    ) {
        let mut known = ListsKnown::by(&gateway, &self.context);
        let mut troubles = 0;
        // The credential is to be shown again now and then.
        let mut too_long = std::pin::pin!(tokio::time::sleep(LONGEST_SUBSCRIPTION));
        loop {
            tokio::select! {
                () = self.sender.closed() => return,
                () = &mut too_long => return self.end().await,
                Some(update) = updates.recv() => {
                    let server = update.0.clone();
                    troubles += usize::from(self.update(&gateway, update).await == PassedOn::Troublesome);
                    if troubles > MOST_TROUBLES {
                        record_exhausted_budget(&gateway, &self.context, &server, Consequence::Ended).await;
                        return self.end().await;
                    }
                }
                change = changes.recv() => match meaning(&gateway, &self.context, change, &mut known) {
                    ForClient::ListsChanged(lists) => {
                        for (kind, about) in lists.into_iter().filter(|(kind, _)| self.wants(*kind)) {
                            self.change(kind, about).await;
                        }
                    }
                    ForClient::Nothing => {}
                    ForClient::Stop | ForClient::Recheck => return self.end().await,
                },
            }
        }
    }

    fn wants(&self, kind: ListKind) -> bool {
        match kind {
            ListKind::Tools => self.topics.tools,
            ListKind::Prompts => self.topics.prompts,
            ListKind::Resources | ListKind::Templates => self.topics.resources,
            ListKind::Tasks => false,
        }
    }

    async fn change(&self, kind: ListKind, about: About) {
        let params = OwnValue::Object(vec![("_meta", self.meta())]);
        let message = ClientMessage::own_notification(notification_of(kind), Some(&params));
        self.say(&message, about).await;
    }

    async fn update(&self, gateway: &Gateway, (server, raw): Update) -> PassedOn {
        let origin = beside_a_call(&server, None, Message::Other);
        let Ok(params) = screen(gateway, raw.into_params(), &origin, &self.context).await else {
            return PassedOn::Troublesome;
        };
        let passed_on = if params.acts().is_empty() {
            PassedOn::Unchanged
        } else {
            PassedOn::Troublesome
        };
        let uri = mcp::server::text_member(params.bytes(), "uri");
        let Some(uri) = uri.filter(|uri| self.topics.uris.contains(uri)) else {
            return passed_on;
        };
        if let Some(adapted) = Adapted::of_subscription(params, &self.id) {
            let message = ClientMessage::adapted_notification(ServerNotice::ResourceUpdated, &adapted);
            let about = About::Resource(server, uri.into(), self.context.arrival.address);
            self.say(&message, about).await;
        }
        passed_on
    }

    async fn end(&self) {
        let members = [("resultType", OwnValue::Fixed("\"complete\"")), ("_meta", self.meta())];
        let message = ClientMessage::own_response(&self.id, OwnResult::object(&members));
        let _ = self.sender.send(Told::new(&message, None, About::Own)).await;
    }
}
