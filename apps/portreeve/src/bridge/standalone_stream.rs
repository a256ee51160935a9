//! Listens to what the gateway says by itself in a session, and takes the stream up again when it breaks.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mcp::http::LAST_EVENT_ID;
use reqwest::Response;

use super::forward::Forwarder;
use super::response::{DEFAULT_WAIT, LONGEST_WAIT, Messages, ResumePoint};
use super::session::Generation;

/// Listens for as long as the session is the client's; a gateway without such a stream is no failure.
pub(super) fn start(forwarder: Arc<Forwarder>, session: Generation) {
    // Boxed because what it does includes this: a session that was lost is opened anew and listened to.
    let listening: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(listen(forwarder, session));
    tokio::spawn(listening);
}

async fn listen(forwarder: Arc<Forwarder>, session: Generation) {
    let mut place: Option<ResumePoint> = None;
    let (mut wait, mut was_heard) = (DEFAULT_WAIT, false);
    loop {
        let (mut headers, now) = forwarder.session.headers();
        if now != Some(session) {
            return;
        }
        headers.extend(place.as_ref().map(|place| (LAST_EVENT_ID, place.last_event_id.clone())));
        let response = forwarder.client.open_stream(headers).await;
        let status = response.as_ref().map_or(503, |response| response.status().as_u16());
        match (response, status) {
            (Ok(response), 200) => {
                was_heard = true;
                place = hear(&forwarder, response).await.or(place);
                wait = place.as_ref().map_or(DEFAULT_WAIT, |place| place.wait);
            }
            (_, 401) => forwarder.client.token_changed().await,
            (_, 404) if was_heard => {
                forwarder.renew(session).await;
                return;
            }
            (_, 429 | 500..=599) => wait = longer(wait),
            (_, _) => return,
        }
        tokio::time::sleep(wait).await;
    }
}

/// Gives the client every message of a stream; says where it can be taken up.
async fn hear(forwarder: &Forwarder, response: Response) -> Option<ResumePoint> {
    let mut messages = Messages::of(response, forwarder.client.max_message_bytes())?;
    while let Ok(Some(message)) = messages.next().await {
        match mcp::server::parse(&message, mcp::span::DEEPEST) {
            Ok(_) => forwarder.out.send(message).await,
            Err(nonsense) => tracing::warn!("a message of the gateway was left out: {nonsense}"),
        }
    }
    messages.resume_point()
}

fn longer(wait: Duration) -> Duration {
    wait.saturating_mul(2).min(LONGEST_WAIT)
}
