//! What an attempt to reach the network becomes: one record, and a count when it is repeated. A hostile server decides
//! how many attempts there are and what their host names say, so both are bounded here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use vocabulary::{Clock, Timestamp};

use crate::egress::host::{Asked, shown};

/// Hears of every attempt, repeats folded. It is called on the thread that serves the sandbox and must not block.
pub trait Witness: Send + Sync {
    /// Takes note of an attempt.
    fn saw(&self, attempt: Attempt);
}

/// One attempt to reach the network, or several that do not differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempt {
    /// The way it was tried.
    pub event: Event,
    /// What came of it.
    pub verdict: Verdict,
    /// Where to, escaped and at most 255 characters; `(various)` if too many places were tried to name each.
    pub host: String,
    /// The port; 0 if none was named.
    pub port: u16,
    /// Why.
    pub reason: Reason,
    /// How many attempts this record stands for.
    pub count: u64,
    /// When the first of them was made.
    pub at: Timestamp,
}

vocabulary::words! {
    /// The way an attempt was made.
    pub enum Event {
        /// A CONNECT request to the proxy.
        Connect = "connect",
        /// Plain HTTP, to the proxy or to port 80.
        Http = "http",
        /// A SOCKS5 request to the proxy.
        Socks5 = "socks5",
        /// A connection to port 443.
        Tls = "tls",
        /// A DNS question.
        Dns = "dns",
        /// A TCP connection that goes by no proxy, to another port than 443 and 80 or to an address without a name.
        DirectTcp = "direct_tcp",
        /// A UDP datagram to an address.
        DirectUdp = "direct_udp",
    }
}

vocabulary::words! {
    /// What came of an attempt.
    pub enum Verdict {
        /// It was let through.
        Allowed = "allowed",
        /// It was not.
        Blocked = "blocked",
    }
}

vocabulary::words! {
    /// Why an attempt was let through or not.
    pub enum Reason {
        /// No entry of the list names this host.
        DomainNotAllowlisted = "domain_not_allowlisted",
        /// The host is an address or no host name at all.
        IpLiteralOrMalformedHost = "ip_literal_or_malformed_host",
        /// The list names this host with other ports.
        PortNotAllowed = "port_not_allowed",
        /// At least one address of the host is not public.
        ResolvedToPrivateAddress = "resolved_to_private_address",
        /// The TLS client asks for another server than the one it is allowed.
        SniMismatch = "sni_mismatch",
        /// The TLS client does not say which server it wants.
        TlsWithoutSni = "tls_without_sni",
        /// Something else than TLS on port 443.
        NotTlsOn443 = "not_tls_on_443",
        /// The `Host` header names another host than the one that was allowed.
        HostHeaderMismatch = "host_header_mismatch",
        /// A SOCKS5 command other than CONNECT.
        SocksCommandNotAllowed = "socks_command_not_allowed",
        /// Nothing a proxy understands.
        NotAProxyRequest = "not_a_proxy_request",
        /// The head of a request is too long.
        HeaderTooLarge = "header_too_large",
        /// A packet to an address outside; there is no such road.
        NoRouteOutOfSandbox = "no_route_out_of_sandbox",
        /// The host's resolver has no answer.
        DnsFailure = "dns_failure",
        /// The far side could not be reached.
        UpstreamConnectFailed = "upstream_connect_failed",
        /// The sandbox holds as many connections as it may.
        TooManyConnections = "too_many_connections",
        /// The list names host and port.
        Allowlisted = "allowlisted",
        /// As above, and the address lies in a range of the `private` list.
        AllowlistedPrivate = "allowlisted_private",
    }
}

/// Where an attempt went, fit for a record.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Target {
    host: String,
    port: u16,
}

impl Target {
    pub(crate) fn new(host: &[u8], port: u16) -> Self {
        Self {
            host: shown(host),
            port,
        }
    }

    pub(crate) fn address(address: std::net::SocketAddr) -> Self {
        Self::new(address.ip().to_canonical().to_string().as_bytes(), address.port())
    }
}

impl From<&Asked> for Target {
    fn from(asked: &Asked) -> Self {
        Self::new(&asked.host, asked.port)
    }
}

/// Folds repeats. The first attempt of a kind is told at once; the rest of it once per [`TICK`], by [`Recorder::tick`].
pub(crate) struct Recorder {
    witness: Arc<dyn Witness>,
    clock: Clock,
    seen: Mutex<HashMap<Key, Fold>>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    event: Event,
    verdict: Verdict,
    reason: Reason,
    /// `None` is the fold of all places beyond the cap.
    target: Option<Target>,
}

struct Fold {
    waiting: u64,
    since: Timestamp,
}

impl Key {
    fn of(event: Event, verdict: Verdict, target: Target, reason: Reason) -> Self {
        Self {
            event,
            verdict,
            reason,
            target: Some(target),
        }
    }
}

impl Recorder {
    pub(crate) fn new(witness: Arc<dyn Witness>) -> Self {
        Self {
            witness,
            clock: Clock::system(),
            seen: Mutex::default(),
        }
    }

    pub(crate) fn allowed(&self, event: Event, target: Target, reason: Reason) {
        self.note(Key::of(event, Verdict::Allowed, target, reason), self.clock.now());
    }

    pub(crate) fn blocked(&self, event: Event, target: Target, reason: Reason) {
        self.note(Key::of(event, Verdict::Blocked, target, reason), self.clock.now());
    }

    /// An attempt of which we hear later than it was made; `None` if nobody can say when that was.
    pub(crate) fn blocked_at(&self, event: Event, target: Target, reason: Reason, at: Option<Timestamp>) {
        let now = self.clock.now();
        let at = at.map_or(now, |at| at.min(now));
        self.note(Key::of(event, Verdict::Blocked, target, reason), at);
    }

    fn note(&self, mut key: Key, at: Timestamp) {
        {
            let mut seen = vocabulary::lock(&self.seen);
            if !seen.contains_key(&key) && seen.len() >= MOST_KEYS {
                key.target = None;
            }
            if let Some(fold) = seen.get_mut(&key) {
                if fold.waiting == 0 {
                    fold.since = at;
                }
                fold.waiting = fold.waiting.saturating_add(1);
                return;
            }
            seen.insert(key.clone(), Fold { waiting: 0, since: at });
        }
        self.tell(key, 1, at);
    }

    /// Tells what has been folded since the last time, and forgets what was not repeated.
    pub(crate) fn tick(&self) {
        let mut due = Vec::new();
        {
            let mut seen = vocabulary::lock(&self.seen);
            seen.retain(|_, fold| fold.waiting > 0);
            for (key, fold) in seen.iter_mut() {
                due.push((key.clone(), std::mem::take(&mut fold.waiting), fold.since));
            }
        }
        for (key, count, at) in due {
            self.tell(key, count, at);
        }
    }

    fn tell(&self, key: Key, count: u64, at: Timestamp) {
        let (host, port) = match key.target {
            Some(target) => (target.host, target.port),
            None => (VARIOUS.to_owned(), 0),
        };
        self.witness.saw(Attempt {
            event: key.event,
            verdict: key.verdict,
            host,
            port,
            reason: key.reason,
            count,
            at,
        });
    }
}

/// How often folded attempts are told: every attempt has its record within a second.
pub(crate) const TICK: Duration = Duration::from_millis(900);

/// Kinds of attempts named singly within one tick; further ones share a record per event, verdict and reason.
const MOST_KEYS: usize = 64;

/// No sandbox can write it: [`shown`] escapes parentheses.
const VARIOUS: &str = "(various)";

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Heard(Mutex<Vec<Attempt>>);

    impl Witness for Heard {
        fn saw(&self, attempt: Attempt) {
            self.0.lock().unwrap().push(attempt);
        }
    }

    fn recorder() -> (Recorder, Arc<Heard>) {
        let heard = Arc::new(Heard::default());
        (Recorder::new(heard.clone()), heard)
    }

    fn told(heard: &Heard) -> Vec<(String, u64)> {
        let mut attempts = heard.0.lock().unwrap();
        attempts
            .drain(..)
            .map(|attempt| (attempt.host, attempt.count))
            .collect()
    }

    fn deny(recorder: &Recorder, host: &str) {
        recorder.blocked(
            Event::Connect,
            Target::new(host.as_bytes(), 443),
            Reason::DomainNotAllowlisted,
        );
    }

    #[test]
    fn the_first_is_told_at_once_and_ten_thousand_repeats_in_one_record() {
        let (recorder, heard) = recorder();
        for _ in 0..10_000 {
            deny(&recorder, "evil.test");
        }
        assert_eq!(told(&heard), [("evil.test".to_owned(), 1)]);
        recorder.tick();
        assert_eq!(told(&heard), [("evil.test".to_owned(), 9_999)]);
        recorder.tick();
        deny(&recorder, "evil.test");
        assert_eq!(told(&heard), [("evil.test".to_owned(), 1)]);
    }

    #[test]
    fn ten_thousand_places_are_told_in_a_bounded_number_of_records() {
        let (recorder, heard) = recorder();
        for number in 0..10_000 {
            deny(&recorder, &format!("a{number}.test"));
        }
        recorder.tick();
        let told = told(&heard);
        assert_eq!(told.iter().map(|(_, count)| count).sum::<u64>(), 10_000);
        assert!(told.len() <= MOST_KEYS + 2, "{}", told.len());
        assert_eq!(
            told.last(),
            Some(&("(various)".to_owned(), 10_000 - MOST_KEYS as u64 - 1))
        );
    }

    #[test]
    fn a_repeat_carries_the_time_of_the_first_that_it_stands_for() {
        let heard = Arc::new(Heard::default());
        let clock = Clock::standing_at(Timestamp::from_micros(1));
        let recorder = Recorder {
            clock: clock.clone(),
            ..Recorder::new(heard.clone())
        };
        for time in 1..4 {
            clock.turn_to(Timestamp::from_micros(time));
            deny(&recorder, "evil.test");
        }
        recorder.tick();
        let times: Vec<_> = heard
            .0
            .lock()
            .unwrap()
            .iter()
            .map(|attempt| attempt.at.as_micros())
            .collect();
        assert_eq!(times, [1, 2]);
    }
}
