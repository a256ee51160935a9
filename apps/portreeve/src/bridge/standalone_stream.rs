//! The standalone stream of a session: what the gateway says by itself, resumed when the stream breaks.

use std::time::Duration;

use mcp::http::LAST_EVENT_ID;
use reqwest::Response;

use super::gateway_client::GatewayClient;
use super::response::{DEFAULT_WAIT, LONGEST_WAIT, Messages, ResumePoint};
use super::session::{Generation, Session};
use super::stdio::StdoutSender;

/// Why a stream is not listened to any longer.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum StreamEnd {
    /// The gateway does not know the session any more.
    SessionLost,
    /// The session is over, or has no such stream: no failure.
    Over,
}

/// Listens for as long as the session is the client's.
pub(super) async fn listen(
    client: &GatewayClient,
    session: &Session,
    generation: Generation,
    out: &StdoutSender,
) -> StreamEnd {
    let mut resume: Option<ResumePoint> = None;
    let (mut wait, mut was_open) = (DEFAULT_WAIT, false);
    loop {
        let (mut headers, current) = session.headers();
        if current != Some(generation) {
            return StreamEnd::Over;
        }
        headers.extend(
            resume
                .as_ref()
                .map(|resume| (LAST_EVENT_ID, resume.last_event_id.clone())),
        );
        let response = client.open_stream(headers).await;
        let status = response.as_ref().map_or(503, |response| response.status().as_u16());
        match (response, status) {
            (Ok(response), 200) => {
                was_open = true;
                resume = forward(response, client.max_message_bytes(), out).await.or(resume);
                wait = resume.as_ref().map_or(DEFAULT_WAIT, |resume| resume.wait);
            }
            (_, 401) => client.token_changed().await,
            (_, 404) if was_open => return StreamEnd::SessionLost,
            (_, 429 | 500..=599) => wait = longer(wait),
            (_, _) => return StreamEnd::Over,
        }
        tokio::time::sleep(wait).await;
    }
}

/// Gives the client every message of a stream; says where it can be resumed.
async fn forward(response: Response, max_message_bytes: usize, out: &StdoutSender) -> Option<ResumePoint> {
    let mut messages = Messages::of(response, max_message_bytes)?;
    while let Ok(Some(message)) = messages.next().await {
        match mcp::server::parse(&message, mcp::span::DEEPEST) {
            Ok(_) => out.send(message).await,
            Err(nonsense) => tracing::warn!("a message of the gateway was left out: {nonsense}"),
        }
    }
    messages.resume_point()
}

fn longer(wait: Duration) -> Duration {
    wait.saturating_mul(2).min(LONGEST_WAIT)
}
