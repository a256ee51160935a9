//! `subscriptions/listen`: how a modern client hears what changes. Only what it asked for, may know
//! of, and what a server can tell.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use ledger::{Arrival, Ending, MessageFacts, Verdict};
use mcp::method::recordable;
use mcp::splice::Splice;
use mcp::{Request, compose, sse};
use policy::{CallFacts, Decision, Grounds, Target};
use screening::result::walk::Message;
use tokio::sync::{Notify, broadcast, mpsc, oneshot};
use upstream::{Guest, ListKind, NoObserver, Observer, Server, ServerEvent, Topics, Waiting};
use vocabulary::json::Value;
use vocabulary::{Digest, ReceiptId, ServerId};

use crate::context::{Ended, RequestContext};
use crate::era::initialize::Offers;
use crate::events::observer::{Consequence, MOST_TROUBLES};
use crate::receive::Gateway;
use crate::reply::Prepared;
use crate::reply::stream::{BACKLOG, ClientMessage, EventBody};
use crate::screen::beside_a_call;
use crate::snapshot::Snapshot;
use crate::state::changes::Change;
use crate::stream::standing::{Heard, SUBSCRIBING, heard, notification_of};

const LONGEST_SUBSCRIPTION: Duration = Duration::from_secs(15 * 60);
/// The most resources of one subscription.
const MOST_URIS: usize = 256;

impl Gateway {
    /// `subscriptions/listen`: an acknowledgement, then what changes.
    pub(crate) async fn listen(&self, asked: &RequestContext, request: &Request) -> Ended {
        let Some(wanted) = request
            .params()
            .raw("notifications")
            .filter(|raw| raw.first() == Some(&b'{'))
        else {
            return asked.refused_with(
                request,
                mcp::ErrorCode::InvalidParams,
                "`params.notifications` must say what to listen for",
            );
        };
        if !asked.stream.takes_streams() {
            let message = "Accept must admit text/event-stream";
            return asked.refused_by_status(StatusCode::NOT_ACCEPTABLE, request, message);
        }
        let Some(gateway) = self.shared() else {
            return asked.refused_with(request, mcp::ErrorCode::InternalError, "the gateway stops");
        };
        let (topics, by_server) = self.honoured(asked, wanted).await;
        let (sender, receiver) = mpsc::channel(BACKLOG);
        let subscription = Subscription {
            asked: asked.clone(),
            id: request.id().as_raw().to_vec(),
            topics,
            sender,
        };
        let changes = self.changes.listen();
        let (told, updates) = mpsc::channel(BACKLOG);
        let mut readiness = Vec::new();
        for (server, uris) in by_server {
            let (ready, is_ready) = oneshot::channel();
            readiness.push(is_ready);
            tokio::spawn(relay_updates(
                server,
                asked.client.guest(&asked.who),
                uris,
                told.clone(),
                ready,
            ));
        }
        for is_ready in readiness {
            let _ = tokio::time::timeout(SUBSCRIBING, is_ready).await;
        }
        subscription.acknowledge().await;
        tokio::spawn(subscription.run(gateway, changes, updates));
        let body = EventBody::new(receiver, Arc::new(Notify::new()));
        self.answered_with(asked, Prepared::events(body))
    }

    /// The part of what a client wants to hear that it may, and the servers to ask for it.
    async fn honoured(&self, asked: &RequestContext, wanted: &[u8]) -> (Topics, Vec<(Arc<Server>, Vec<String>)>) {
        let snapshot = self.snapshot();
        let offers = Offers::of(&snapshot, &asked.who, &asked.route);
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
            let owners = match asked.route.server() {
                Some(server) => vec![vec![server.clone()]; uris.len()],
                None => self.owners_of(asked, &snapshot, &uris).await,
            };
            for (uri, owners) in uris.into_iter().zip(owners) {
                let [owner] = owners.as_slice() else { continue };
                if self.allow_subscription(asked, &snapshot, owner, &uri).await {
                    by_server.entry(owner.clone()).or_default().push(uri.clone());
                    topics.uris.push(uri);
                }
            }
        }
        let servers = by_server.into_iter();
        let servers = servers.filter_map(|(id, uris)| Some((snapshot.server(&id)?.clone(), uris)));
        (topics, servers.collect())
    }

    /// Decides one subscription like any other request, and puts it on record.
    async fn allow_subscription(
        &self,
        asked: &RequestContext,
        snapshot: &Snapshot,
        server: &ServerId,
        uri: &str,
    ) -> bool {
        const ACTION: &str = "resources/subscribe";
        let caller = snapshot.policy.caller(&asked.who);
        let target = Target::Resource {
            server: server.clone(),
            uri: uri.into(),
        };
        let args_hash = Digest::of(uri.as_bytes());
        let call = CallFacts {
            arguments: &Value::Object(Vec::new()),
            args_hash,
            address: asked.arrival.address,
        };
        let message = MessageFacts {
            method: ACTION.to_owned(),
            server_id: Some(server.to_string()),
            tool_name: Some(recordable(uri)),
            ..asked.facts()
        };
        let (verdict, grounds) = match snapshot.policy.resolve_target(&caller, ACTION, &target) {
            Ok(known) => match snapshot.policy.decide_target(&caller, known, &call) {
                Decision::Allow(_, grounds) => (Verdict::Allow, grounds),
                Decision::RequireApproval(grounds) => (Verdict::RequireApproval, grounds),
                Decision::Deny(grounds) => (Verdict::Deny, grounds),
            },
            Err(missing) => {
                let (policy_id, code) = (missing.policy_id, missing.code);
                (Verdict::Deny, Grounds { policy_id, code })
            }
        };
        let decision = self.decision(verdict, grounds.policy_id, grounds.code);
        let who = asked.who.clone();
        let ending = match verdict {
            Verdict::Allow => Ending::Answered {
                who,
                message,
                decision,
                catalog: None,
            },
            Verdict::Deny | Verdict::RequireApproval => Ending::Refused { who, message, decision },
        };
        let arrival = Arrival {
            receipt_id: ReceiptId::mint(),
            size_bytes_in: 0,
            ..asked.arrival
        };
        self.ledger.append(&arrival, ending, 0).await.is_ok() && verdict == Verdict::Allow
    }
}

fn listed_uris(wanted: &[u8]) -> Vec<String> {
    let wanted = Bytes::copy_from_slice(wanted);
    let uris = mcp::server::text_list_member(&wanted, "resourceSubscriptions");
    uris.unwrap_or_default().into_iter().take(MOST_URIS).collect()
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
    let ear = UpdateEar(server.id().clone(), told.clone());
    let tell = || {
        let _ = ready.send(());
    };
    tokio::select! {
        _ = upstream::listen(&server, &guest, &topics, &ear, tell) => {}
        () = told.closed() => {}
    }
}

/// What a server tells of a resource.
type Update = (ServerId, upstream::RawNotification);

/// Whether an update had to be changed or withheld.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Plainly,
    Troublesome,
}

struct UpdateEar(ServerId, mpsc::Sender<Update>);

impl Observer for UpdateEar {
    fn observe(&self, aside: ServerEvent) -> Waiting<'_> {
        Box::pin(async move {
            match aside {
                ServerEvent::Notification(raw) if raw.method() == "notifications/resources/updated" => {
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
    asked: RequestContext,
    id: Vec<u8>,
    topics: Topics,
    sender: mpsc::Sender<Bytes>,
}

const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

impl Subscription {
    fn meta(&self) -> Vec<u8> {
        let mut out = Vec::new();
        compose::object([(SUBSCRIPTION_ID, self.id.as_slice())].into_iter(), &mut out);
        out
    }

    async fn acknowledge(&self) {
        let (filter, meta) = (self.topics.filter(), self.meta());
        let mut params = Vec::new();
        let members = [("notifications", filter.as_slice()), ("_meta", &meta)];
        compose::object(members.into_iter(), &mut params);
        let method = "notifications/subscriptions/acknowledged";
        self.say(&ClientMessage::own(method, Some(&params))).await;
    }

    async fn say(&self, message: &ClientMessage) {
        let event = sse::event(None, message.message());
        let _ = tokio::time::timeout(SUBSCRIBING, self.sender.send(event)).await;
    }

    async fn run(
        self,
        gateway: Arc<Gateway>,
        mut changes: broadcast::Receiver<Change>,
        mut updates: mpsc::Receiver<Update>,
    ) {
        let mut seen = gateway.tools_seen(&self.asked.who, self.asked.route.server());
        let mut troubles = 0;
        // The credential is to be shown again now and then.
        let mut too_long = std::pin::pin!(tokio::time::sleep(LONGEST_SUBSCRIPTION));
        loop {
            tokio::select! {
                () = self.sender.closed() => return,
                () = &mut too_long => return self.end().await,
                Some(update) = updates.recv() => {
                    let server = update.0.clone();
                    troubles += usize::from(self.update(&gateway, update).await == Told::Troublesome);
                    if troubles > MOST_TROUBLES {
                        gateway.record_exhausted_budget(&self.asked, &server, Consequence::Ended).await;
                        return self.end().await;
                    }
                }
                ring = changes.recv() => match heard(&gateway, &self.asked, ring, &mut seen) {
                    Heard::Change(kind) if self.wants(kind) => self.change(kind).await,
                    Heard::Change(_) | Heard::Nothing => {}
                    Heard::Stop | Heard::Recheck => return self.end().await,
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

    async fn change(&self, kind: ListKind) {
        let meta = self.meta();
        let mut params = Vec::new();
        compose::object([("_meta", meta.as_slice())].into_iter(), &mut params);
        self.say(&ClientMessage::own(notification_of(kind), Some(&params)))
            .await;
    }

    async fn update(&self, gateway: &Gateway, (server, raw): Update) -> Told {
        let origin = beside_a_call(&server, None, Message::Other);
        let Ok(params) = gateway.screen(raw.into_params(), &origin, &self.asked).await else {
            return Told::Troublesome;
        };
        let uri = mcp::server::text_member(params.bytes(), "uri");
        let wanted = uri.is_some_and(|uri| self.topics.uris.contains(&uri));
        if let Some(mut splice) = Splice::new(params.bytes()).ok().filter(|_| wanted) {
            splice.meta_replace_or_insert(SUBSCRIPTION_ID, self.id.as_slice());
            let message = ClientMessage::adapted("notifications/resources/updated", &params, &splice.finish());
            self.say(&message).await;
        }
        if params.acts().is_empty() {
            Told::Plainly
        } else {
            Told::Troublesome
        }
    }

    async fn end(&self) {
        let meta = self.meta();
        let mut result = Vec::new();
        let members = [("resultType", b"\"complete\"".as_slice()), ("_meta", &meta)];
        compose::object(members.into_iter(), &mut result);
        let message = compose::response(&self.id, &mcp::Content::Result(result.into()));
        let _ = self.sender.send(sse::event(None, &message)).await;
    }
}
