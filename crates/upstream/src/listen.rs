//! Listens to what a server says by itself: the stream of a session, or `subscriptions/listen`.

use std::borrow::Cow;
use std::sync::Arc;

use http::Response;
use mcp::Era;
use mcp::compose::{self, ModernMeta, Outgoing, OutgoingMeta};
use mcp::server::ServerMessage;

use crate::call::exchange::Exchange;
use crate::call::observer::{NoObserver, Observer, RawNotification, RawServerRequest, ServerEvent};
use crate::credentials::Behalf;
use crate::failure::Failure;
use crate::http::messages::Messages;
use crate::http::pool::ResponseBody;
use crate::http::{Post, check_status, plain_headers};
use crate::server::Server;
use crate::session::guest::Guest;
use crate::session::multiplex::Inbox;
use crate::session::open;
use crate::session::opened::Opened;

/// What is listened for. A session's stream says what it likes; a modern server only what is named.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Topics {
    /// Changes of the lists of tools.
    pub tools: bool,
    /// Of prompts.
    pub prompts: bool,
    /// Of resources.
    pub resources: bool,
    /// Changes of these resources.
    pub uris: Vec<String>,
}

impl Topics {
    /// The filter of a `subscriptions/listen`, raw.
    #[must_use]
    pub fn filter(&self) -> Vec<u8> {
        let uris: Vec<Vec<u8>> = self.uris.iter().map(|uri| compose::literal(uri)).collect();
        let uris = [b"[".as_slice(), &uris.join(&b','), b"]"].concat();
        let wanted = [
            ("toolsListChanged", self.tools),
            ("promptsListChanged", self.prompts),
            ("resourcesListChanged", self.resources),
        ];
        let mut members: Vec<(&str, &[u8])> = wanted
            .into_iter()
            .filter(|(_, wanted)| *wanted)
            .map(|(name, _)| (name, b"true".as_slice()))
            .collect();
        if !self.uris.is_empty() {
            members.push(("resourceSubscriptions", &uris));
        }
        let mut out = Vec::new();
        compose::object(members.into_iter(), &mut out);
        out
    }
}

/// Listens until the server ends it; `ready` is called once the server has taken the subscriptions.
///
/// # Errors
/// When there is no such stream, or it breaks.
pub async fn listen(
    server: &Arc<Server>,
    guest: &Guest,
    topics: &Topics,
    observer: &dyn Observer,
    ready: impl FnOnce() + Send,
) -> Result<(), Failure> {
    let guest = server.admitted(guest);
    match server.era_for(guest.era).await? {
        Era::Modern => subscribe(server, &guest, topics, observer, ready).await,
        Era::Legacy => {
            let opened = open::session(server, &guest).await?;
            if let Some(stream) = opened.stream() {
                let mut messages = stream.listen();
                for uri in &topics.uris {
                    subscribe_to(server, &opened, &guest.behalf, uri).await?;
                }
                ready();
                while let Some(message) = messages.recv().await {
                    observe(server, (&opened, &guest.behalf), message, observer).await;
                }
                return Ok(());
            }
            let (opened, response) = match open_stream(server, &opened, &guest.behalf).await {
                Err(Failure::SessionGone) => {
                    let again = open::reopen(server, &guest, &opened).await?;
                    let response = open_stream(server, &again, &guest.behalf).await?;
                    (again, response)
                }
                response => (opened, response?),
            };
            for uri in &topics.uris {
                subscribe_to(server, &opened, &guest.behalf, uri).await?;
            }
            ready();
            let mut messages = Messages::of(response, server.caps);
            while let Some(message) = messages.next().await? {
                observe(server, (&opened, &guest.behalf), message, observer).await;
            }
            Ok(())
        }
    }
}

async fn open_stream(server: &Server, opened: &Opened, behalf: &Behalf) -> Result<Response<ResponseBody>, Failure> {
    let open = async {
        let credential = server.credential_for(behalf).await?;
        server.link.open_stream(opened, &credential, None).await
    };
    let opening = tokio::time::timeout(server.caps.timeout, open);
    opening.await.map_err(|_| Failure::TimedOut)?
}

/// A session's stream tells of the resources that were subscribed to in it. Whether the server has
/// this one is its own business.
async fn subscribe_to(server: &Arc<Server>, opened: &Opened, behalf: &Behalf, uri: &str) -> Result<(), Failure> {
    let id = server.link.next_id();
    let request = Outgoing {
        method: "resources/subscribe",
        members: vec![("uri", Cow::Owned(compose::literal(uri)))],
        meta: OutgoingMeta::default(),
    };
    let credential = server.credential_for(behalf).await?;
    let exchange = Exchange {
        server,
        id,
        session: Some(opened),
        behalf,
        observer: &NoObserver,
    };
    let asked = exchange.run(Post::legacy(request.write(id), opened, &credential));
    let answered = tokio::time::timeout(server.caps.timeout, asked).await;
    answered.map_err(|_| Failure::TimedOut)?.map(drop)
}

async fn observe(
    server: &Arc<Server>,
    (opened, behalf): (&Opened, &Behalf),
    message: ServerMessage,
    observer: &dyn Observer,
) {
    match message {
        ServerMessage::Notification(told) => {
            observer
                .observe(ServerEvent::Notification(RawNotification::new(told)))
                .await;
        }
        ServerMessage::Request(asked) => {
            let request = RawServerRequest::new(asked, server.clone(), opened.clone(), behalf.clone());
            if request.method() == "ping" {
                request.acknowledge().await;
            } else {
                observer.observe(ServerEvent::Request(request)).await;
            }
        }
        // Nothing was asked on this stream.
        ServerMessage::Result { .. } | ServerMessage::Error { .. } => {}
    }
}

async fn subscribe(
    server: &Arc<Server>,
    guest: &Guest,
    topics: &Topics,
    observer: &dyn Observer,
    ready: impl FnOnce() + Send,
) -> Result<(), Failure> {
    let id = server.link.next_id();
    let request = Outgoing {
        method: "subscriptions/listen",
        members: vec![("notifications", Cow::Owned(topics.filter()))],
        meta: OutgoingMeta {
            modern: Some(ModernMeta {
                capabilities: &guest.capabilities.modern,
                log_level: None,
            }),
            ..OutgoingMeta::default()
        },
    };
    let headers = plain_headers("subscriptions/listen");
    let credential = server.credential_for(&guest.behalf).await?;
    let process = open::process(server, guest).await?;
    let post = Post::modern(request.write(id), &headers, &credential).through(process.as_ref());
    let mut ready = Some(ready);
    let mut messages = Subscription::open(server, id, post, process.as_ref()).await?;
    while let Some(message) = messages.next().await? {
        match message {
            ServerMessage::Notification(told) if told.method == "notifications/subscriptions/acknowledged" => {
                if let Some(ready) = ready.take() {
                    ready();
                }
            }
            ServerMessage::Notification(told) if told.method == "notifications/cancelled" => return Ok(()),
            ServerMessage::Notification(told) => {
                observer
                    .observe(ServerEvent::Notification(RawNotification::new(told)))
                    .await;
            }
            ServerMessage::Result { .. } => return Ok(()),
            ServerMessage::Error { .. } => return Err(Failure::Refused("subscriptions/listen")),
            ServerMessage::Request(_) => {}
        }
    }
    Ok(())
}

/// What a modern server tells a listener: on a stream of its own, or among the lines of its process.
enum Subscription {
    Stream(Box<Messages>),
    Lines(Inbox),
}

impl Subscription {
    async fn open(server: &Arc<Server>, id: u64, post: Post<'_>, process: Option<&Opened>) -> Result<Self, Failure> {
        let open = async {
            match process.and_then(|process| process.multiplex.as_ref()) {
                Some(multiplex) => {
                    let inbox = multiplex.expect(id, None);
                    server.link.notify(post).await?;
                    Ok(Self::Lines(inbox))
                }
                None => {
                    let response = server.link.send(post).await?;
                    check_status(response.status(), false)?;
                    Ok(Self::Stream(Box::new(Messages::of(response, server.caps))))
                }
            }
        };
        let opened = tokio::time::timeout(server.caps.timeout, open);
        opened.await.map_err(|_| Failure::TimedOut)?
    }

    async fn next(&mut self) -> Result<Option<ServerMessage>, Failure> {
        match self {
            Self::Stream(messages) => messages.next().await,
            Self::Lines(inbox) => Ok(inbox.next().await),
        }
    }
}
