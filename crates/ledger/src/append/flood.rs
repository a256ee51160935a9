//! Folds floods: past 100 refusals of one kind from one address in a second, the rest of that second shares a record.
//! Those of strangers are told apart by the network they come from, and have a ceiling over all networks.
//! ADR 0005: folded refusals wait for the record they share.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use vocabulary::{Principal, ReasonCode};

use crate::append::queue::{Replies, Reply, Submission};
use crate::ending::{Ending, MessageFacts, Verdict};
use crate::entry::{Entry, Final};

/// Refusals of one kind that get a record each, per second.
const ALONE: u32 = 100;
/// Refusals of strangers that get a record each, per second and over all networks: beyond it each reason shares one.
const STRANGERS_ALONE: u32 = 300;
const WINDOW: Duration = Duration::from_secs(1);
/// Kinds watched at once. Refusals of further kinds get a record each.
const MOST_KINDS: usize = 8192;
/// Answers held back at once, over all kinds; past it everything held is released early.
const MOST_HELD: usize = 8192;

/// What makes two refusals alike.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Kind {
    address: IpAddr,
    reason_codes: Vec<ReasonCode>,
    policy_id: Option<Arc<str>>,
    who: Option<Arc<Principal>>,
    method: Option<String>,
    server_id: Option<String>,
    tool_name: Option<String>,
}

#[derive(Default)]
pub(crate) struct Floods {
    kinds: HashMap<Kind, Flood>,
    /// When each kind's second ends. All seconds are equally long, so the first to begin is the first to end.
    ends: VecDeque<(Instant, Kind)>,
    held: usize,
    strangers: Strangers,
}

/// The records that strangers got in this second.
#[derive(Default)]
struct Strangers {
    until: Option<Instant>,
    alone: u32,
}

impl Strangers {
    /// Whether one more may have a record of its own.
    fn admit(&mut self, now: Instant) -> bool {
        if self.until.is_none_or(|until| until <= now) {
            (self.until, self.alone) = (Some(now + WINDOW), 0);
        }
        self.alone = self.alone.saturating_add(1);
        self.alone <= STRANGERS_ALONE
    }
}

struct Flood {
    seen: u32,
    held: Option<Held>,
}

/// Refusals that will share a record, and who waits for it.
struct Held {
    shared: Box<Final>,
    waiting: Vec<Reply>,
}

impl Floods {
    /// Takes a refusal past its kind's hundred into keeping; gives everything else back to be written.
    pub(crate) fn sift(&mut self, submission: Submission, now: Instant) -> Option<Submission> {
        let Submission {
            entry: Entry::Final(entry),
            replies,
        } = submission
        else {
            return Some(submission);
        };
        let alone = |entry, replies| {
            Some(Submission {
                entry: Entry::Final(entry),
                replies,
            })
        };
        let Some(mut kind) = Kind::of(&entry) else {
            return alone(entry, replies);
        };
        let is_over = self.kinds.get(&kind).is_some_and(|flood| flood.seen >= ALONE);
        if kind.is_strangers() && !is_over && !self.strangers.admit(now) {
            kind.address = ANYWHERE;
        }
        if !self.kinds.contains_key(&kind) {
            if self.kinds.len() >= MOST_KINDS && kind.address != ANYWHERE {
                return alone(entry, replies);
            }
            self.ends.push_back((now + WINDOW, kind.clone()));
            // What comes from anywhere is over a limit already.
            let seen = if kind.address == ANYWHERE { ALONE } else { 0 };
            self.kinds.insert(kind.clone(), Flood { seen, held: None });
        }
        let Some(flood) = self.kinds.get_mut(&kind) else {
            return alone(entry, replies);
        };
        if flood.seen < ALONE {
            flood.seen += 1;
            return alone(entry, replies);
        }
        self.held += 1;
        match &mut flood.held {
            Some(Held { shared, waiting }) => {
                shared.absorb(&entry);
                waiting.extend(replies.into_each());
            }
            None => {
                flood.held = Some(Held {
                    shared: entry,
                    waiting: replies.into_each(),
                })
            }
        }
        None
    }

    /// Moves what has been held long enough, or is too much to hold, to `out`.
    pub(crate) fn release(&mut self, now: Instant, out: &mut Vec<Submission>) {
        let all = self.held >= MOST_HELD;
        if all {
            let held = self.kinds.values_mut().filter_map(|flood| flood.held.take());
            out.extend(held.map(Held::into_submission));
            self.held = 0;
        }
        while let Some((_, kind)) = self.ends.pop_front_if(|(end, _)| *end <= now) {
            if let Some(held) = self.kinds.remove(&kind).and_then(|flood| flood.held) {
                self.held = self.held.saturating_sub(held.waiting.len());
                out.push(held.into_submission());
            }
        }
    }

    /// Moves everything held to `out`.
    pub(crate) fn release_all(&mut self, out: &mut Vec<Submission>) {
        let held = self.kinds.drain().filter_map(|(_, flood)| flood.held);
        out.extend(held.map(Held::into_submission));
        self.ends.clear();
        self.held = 0;
    }

    /// When [`Floods::release`] has something to do next.
    pub(crate) fn next_release(&self) -> Option<Instant> {
        self.ends.front().filter(|_| self.held > 0).map(|(end, _)| *end)
    }
}

impl Held {
    fn into_submission(self) -> Submission {
        Submission {
            entry: Entry::Final(self.shared),
            replies: Replies::Many(self.waiting),
        }
    }
}

/// Where refusals come from that are past the ceiling: from more networks than can be told apart.
const ANYWHERE: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// The network of an address: who has one address of it has as many as they like.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & !0xff).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

impl Kind {
    fn is_strangers(&self) -> bool {
        self.who.is_none()
    }

    /// The kind of a refusal; `None` for what was not refused.
    fn of(entry: &Final) -> Option<Self> {
        let nothing_read = |reason: &ReasonCode| Self {
            address: entry.arrival.address,
            reason_codes: vec![*reason],
            policy_id: None,
            who: None,
            method: None,
            server_id: None,
            tool_name: None,
        };
        match &entry.ending {
            Ending::Unidentified { reason } => Some(Self {
                address: network(entry.arrival.address),
                ..nothing_read(reason)
            }),
            // The server of what nobody could read is a path that the caller made up, for all we know.
            Ending::Unreadable { who, reason, .. } => Some(Self {
                who: Some(Arc::clone(who)),
                ..nothing_read(reason)
            }),
            // What is kept for a refusal is found by its own record.
            Ending::Refused { message, .. } if message.args_ref.is_some() => None,
            Ending::Refused { who, message, decision } if decision.result == Verdict::Deny => Some(Self {
                address: entry.arrival.address,
                reason_codes: decision.reason_codes.clone(),
                policy_id: Some(Arc::clone(&decision.policy_id)),
                who: Some(Arc::clone(who)),
                // What is not in the inventory is the caller's own text: varying it makes no new kind.
                method: message.definition_hash.map(|_| message.method.clone()),
                server_id: message.server_id.clone().filter(|_| message.definition_hash.is_some()),
                tool_name: message.tool_name.clone().filter(|_| message.definition_hash.is_some()),
            }),
            Ending::Refused { .. } | Ending::Answered { .. } | Ending::Called { .. } => None,
        }
    }
}

impl Final {
    /// Counts one more refusal of this kind: sizes add up, and what differs between them is no longer stated.
    fn absorb(&mut self, other: &Self) {
        self.count += other.count;
        self.arrival.size_bytes_in = self.arrival.size_bytes_in.saturating_add(other.arrival.size_bytes_in);
        self.size_bytes_out = self.size_bytes_out.saturating_add(other.size_bytes_out);
        if let (Some(ours), Some(theirs)) = (self.refused_message(), other.ending.refused_message()) {
            if (ours.args_hash, ours.args_canon) != (theirs.args_hash, theirs.args_canon) {
                ours.args_hash = None;
                ours.args_canon = None;
            }
            if ours.session != theirs.session {
                ours.session = None;
            }
            if ours.method != theirs.method {
                ours.method.clear();
            }
            if ours.tool_name != theirs.tool_name {
                ours.tool_name = None;
            }
            if ours.server_id != theirs.server_id {
                ours.server_id = None;
            }
        }
        if let (Ending::Unreadable { server_id: ours, .. }, Ending::Unreadable { server_id: theirs, .. }) =
            (&mut self.ending, &other.ending)
            && ours != theirs
        {
            *ours = None;
        }
    }

    fn refused_message(&mut self) -> Option<&mut MessageFacts> {
        match &mut self.ending {
            Ending::Refused { message, .. } => Some(message),
            Ending::Unidentified { .. }
            | Ending::Unreadable { .. }
            | Ending::Answered { .. }
            | Ending::Called { .. } => None,
        }
    }
}

impl Ending {
    fn refused_message(&self) -> Option<&MessageFacts> {
        match self {
            Self::Refused { message, .. } => Some(message),
            Self::Unidentified { .. } | Self::Unreadable { .. } | Self::Answered { .. } | Self::Called { .. } => None,
        }
    }
}

impl Replies {
    fn into_each(self) -> Vec<Reply> {
        match self {
            Self::One(reply) => vec![reply],
            Self::Many(replies) => replies,
        }
    }
}

#[cfg(test)]
mod tests;
