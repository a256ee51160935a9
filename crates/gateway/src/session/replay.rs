//! A stream of a session that can be resumed where it broke: events are numbered, and the last
//! ones are kept, bounded, as the bytes that were released.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, mpsc};

use crate::delivery::{About, Told};
use crate::message::{ClientMessage, Event};
use crate::state::unread::OnItsWay;

/// One stream of a session.
pub(crate) struct ReplayBuffer {
    number: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: u64,
    kept: VecDeque<Kept>,
    bytes: usize,
    listener: Option<mpsc::Sender<Told>>,
    ended: bool,
}

/// An event that can be heard again.
struct Kept {
    number: u64,
    told: Told,
    said: Instant,
}

/// Whether a stream begins with an event that only says how to resume it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Opening {
    /// Since 2025-11-25.
    Announced,
    /// Before, clients stumble over it.
    Silent,
}

/// Events that wait for a slow client; then the server waits too.
pub(crate) const BACKLOG: usize = 32;
const MOST_EVENTS: usize = 256;
const MOST_BYTES: usize = 1024 * 1024;
/// What is said so soon after the rules changed may have been judged by the old ones.
const BEING_JUDGED: Duration = Duration::from_secs(1);
/// A client that does not read for this long is no longer listening.
const LONGEST_STALL: Duration = Duration::from_secs(5);
/// How long a client is asked to wait before it resumes a stream.
const RETRY_MS: u64 = 1000;

impl ReplayBuffer {
    pub(crate) fn new(number: u64) -> Self {
        Self {
            number,
            state: Mutex::default(),
        }
    }

    /// Gives the stream its first listener.
    pub(crate) async fn begin(&self, listener: mpsc::Sender<Told>, opening: Opening) {
        let mut state = self.state.lock().await;
        if opening == Opening::Announced {
            let id = format!("{}.{}", self.number, state.last);
            let _ = listener.try_send(Told::sign(Event::opening(&id, RETRY_MS)));
        }
        state.listener = Some(listener);
    }

    /// Says something, and keeps it for a listener that comes back.
    pub(crate) async fn say(&self, message: &ClientMessage, about: About, hold: Option<Arc<OnItsWay>>) {
        let said = Instant::now();
        let mut state = self.state.lock().await;
        state.last += 1;
        let number = state.last;
        let told = Told::new(message, Some(&format!("{}.{number}", self.number)), about).counted(hold);
        state.keep(Kept {
            number,
            told: told.for_later(),
            said,
        });
        if let Some(listener) = &state.listener {
            let sent = tokio::time::timeout(LONGEST_STALL, listener.send(told)).await;
            if !matches!(sent, Ok(Ok(()))) {
                state.listener = None;
            }
        }
    }

    /// Nothing more comes.
    pub(crate) async fn end(&self) {
        let mut state = self.state.lock().await;
        state.ended = true;
        state.listener = None;
    }

    /// Whoever listens has to come again.
    pub(crate) async fn let_go(&self) {
        self.state.lock().await.listener = None;
    }

    /// Resumes the stream behind event `after`: what was kept since, then what comes. Whoever
    /// listened before hears nothing more. What was judged before the rules in force came, at `rules_since`, is not
    /// said again: they might not let it pass.
    pub(crate) async fn resume_after(&self, after: u64, rules_since: Option<Instant>) -> mpsc::Receiver<Told> {
        let mut state = self.state.lock().await;
        if let Some(since) = rules_since {
            state.forget_until(since);
        }
        let missed: Vec<Told> = state
            .kept
            .iter()
            .filter(|kept| kept.number > after)
            .map(|kept| kept.told.clone())
            .collect();
        let (sender, receiver) = mpsc::channel(missed.len() + BACKLOG);
        for told in missed {
            let _ = sender.try_send(told);
        }
        state.listener = (!state.ended).then_some(sender);
        receiver
    }
}

impl State {
    fn forget_until(&mut self, rules_since: Instant) {
        self.kept.retain(|kept| kept.said > rules_since + BEING_JUDGED);
        self.bytes = self.kept.iter().map(|kept| kept.told.len()).sum();
    }

    fn keep(&mut self, kept: Kept) {
        if kept.told.len() > MOST_BYTES {
            // Too large to be kept: whoever comes back later does not get it, and nothing before it.
            self.kept.clear();
            self.bytes = 0;
            return;
        }
        self.bytes += kept.told.len();
        self.kept.push_back(kept);
        while self.kept.len() > MOST_EVENTS || self.bytes > MOST_BYTES {
            if let Some(dropped) = self.kept.pop_front() {
                self.bytes -= dropped.told.len();
            }
        }
    }
}

/// Reads an event id of ours: the stream and the event.
pub(crate) fn parse_event_id(id: &str) -> Option<(u64, u64)> {
    let (replay, event) = id.split_once('.')?;
    Some((replay.parse().ok()?, event.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use mcp::ServerNotice;

    use crate::message::own::OwnValue;

    use super::*;

    async fn heard(receiver: &mut mpsc::Receiver<Told>) -> String {
        let told = receiver.recv().await.expect("an event");
        String::from_utf8(told.unasked().into_bytes().to_vec()).expect("text")
    }

    fn told(text: &'static str) -> ClientMessage {
        ClientMessage::own_notification(ServerNotice::Message, Some(&OwnValue::Text(text.into())))
    }

    /// Whether the next event has this id and says this.
    async fn heard_as(receiver: &mut mpsc::Receiver<Told>, id: &str, text: &str) -> bool {
        let event = heard(receiver).await;
        event.contains(&format!("id: {id}\n")) && event.contains(&format!("\"params\":\"{text}\""))
    }

    #[tokio::test]
    async fn a_broken_stream_is_resumed_behind_the_last_event() {
        let replay = ReplayBuffer::new(3);
        let (sender, mut receiver) = mpsc::channel(BACKLOG);
        replay.begin(sender, Opening::Announced).await;
        replay.say(&told("one"), About::Own, None).await;
        assert!(heard(&mut receiver).await.starts_with("id: 3.0\nretry:"));
        assert!(heard_as(&mut receiver, "3.1", "one").await);
        drop(receiver);
        replay.say(&told("two"), About::Own, None).await;
        replay.say(&told("three"), About::Own, None).await;
        replay.end().await;
        let mut again = replay.resume_after(2, None).await;
        assert!(heard_as(&mut again, "3.3", "three").await);
        assert!(again.recv().await.is_none(), "the stream has ended");
    }

    #[tokio::test]
    async fn what_older_rules_let_pass_is_not_said_again() {
        let replay = ReplayBuffer::new(3);
        replay.say(&told("one"), About::Own, None).await;
        let mut again = replay.resume_after(0, Some(Instant::now())).await;
        assert!(again.try_recv().is_err());
        replay.say(&told("two"), About::Own, None).await;
        assert!(heard_as(&mut again, "3.2", "two").await, "it is heard on");
    }

    #[tokio::test]
    async fn what_is_kept_is_bounded() {
        let replay = ReplayBuffer::new(0);
        let text = OwnValue::Text("x".repeat(8192).into());
        let large = ClientMessage::own_notification(ServerNotice::Message, Some(&text));
        for _ in 0..MOST_EVENTS * 2 {
            replay.say(&large, About::Own, None).await;
        }
        let state = replay.state.lock().await;
        assert!(state.kept.len() <= MOST_EVENTS && state.bytes <= MOST_BYTES);
        assert_eq!(
            state.bytes,
            state.kept.iter().map(|kept| kept.told.len()).sum::<usize>()
        );
    }

    #[test]
    fn event_ids_of_others_are_not_ours() {
        assert_eq!(parse_event_id("3.7"), Some((3, 7)));
        for other in ["", "3", "3.x", "a.b", "-1.2", "1.2.3"] {
            assert_eq!(parse_event_id(other), None, "{other}");
        }
    }
}
