//! Listens to what the gateway says by itself in a session, and takes the stream up again when it breaks.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Response;

use super::forward::{LAST_EVENT_ID, Relay};
use super::response::{LONGEST_WAIT, Messages, Resume, USUAL_WAIT};
use super::session::Generation;

/// Listens for as long as the session is the client's; a gateway without such a stream is no failure.
pub(super) fn start(relay: Arc<Relay>, session: Generation) {
    // Boxed because what it does includes this: a session that was lost is opened anew and listened to.
    let listening: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(listen(relay, session));
    tokio::spawn(listening);
}

async fn listen(relay: Arc<Relay>, session: Generation) {
    let mut place: Option<Resume> = None;
    let (mut wait, mut was_heard) = (USUAL_WAIT, false);
    loop {
        let (mut headers, now) = relay.session.headers();
        if now != Some(session) {
            return;
        }
        headers.extend(place.as_ref().map(|place| (LAST_EVENT_ID, place.last_id.clone())));
        let response = relay.exchange.open_stream(headers).await;
        let status = response.as_ref().map_or(503, |response| response.status().as_u16());
        match (response, status) {
            (Ok(response), 200) => {
                was_heard = true;
                place = hear(&relay, response).await.or(place);
                wait = place.as_ref().map_or(USUAL_WAIT, |place| place.wait);
            }
            (_, 401) => relay.exchange.another_token().await,
            (_, 404) if was_heard => {
                relay.renew(session).await;
                return;
            }
            (_, 429 | 500..=599) => wait = longer(wait),
            (_, _) => return,
        }
        tokio::time::sleep(wait).await;
    }
}

/// Gives the client every message of a stream; says where it can be taken up.
async fn hear(relay: &Relay, response: Response) -> Option<Resume> {
    let mut messages = Messages::of(response, relay.exchange.largest_answer())?;
    while let Ok(Some(message)) = messages.next().await {
        match mcp::server::parse(&message, mcp::span::DEEPEST) {
            Ok(_) => relay.out.print(message).await,
            Err(nonsense) => tracing::warn!("a message of the gateway was left out: {nonsense}"),
        }
    }
    messages.resume()
}

fn longer(wait: Duration) -> Duration {
    wait.saturating_mul(2).min(LONGEST_WAIT)
}
