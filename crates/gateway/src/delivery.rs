//! What is said on a stream, and to whom. Each message says what it is about; whether its listener may have it is decided
//! when it is handed to the connection, by the rules and the credential that are good at that moment.
//! ADR 0058: a stream does not outlive the permission.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcp::{Method, Request};
use policy::{CallFacts, Decision, Grounds, Permit, PolicySnapshot, Subject, Target};
use vocabulary::json::Value;
use vocabulary::{Digest, Principal, ReasonCode, Risk, ServerId};

use crate::edge::shown::ShownCredential;
use crate::message::{ClientMessage, Event};
use crate::offers::usable;
use crate::snapshot::Snapshot;
use crate::state::unread::OnItsWay;

/// Who listens, and what they showed.
#[derive(Clone, Debug)]
pub(crate) struct Listener {
    pub(crate) who: Arc<Principal>,
    pub(crate) shown: ShownCredential,
}

/// What a message is about: what its listener must be allowed, to hear it.
#[derive(Clone)]
pub(crate) enum About {
    /// The gateway's own words, which name nothing.
    Own,
    /// A server, as far as anything can be done there.
    Server(ServerId),
    /// A resource that was subscribed to, from this address.
    Resource(ServerId, Arc<str>, IpAddr),
    /// Something a method is used on, with whatever arguments.
    Target(Arc<str>, Target),
    /// A request under way, with its arguments.
    Request(Arc<Asked>),
    /// The answer to a request that was allowed when it began: it is kept back only from whoever asks for it again.
    Answer(Box<Self>),
}

/// A message on its way to a listener. Its event can be had by asking whether the listener may hear it, and not otherwise:
/// streams carry nothing else.
#[derive(Clone)]
pub(crate) struct Told {
    event: Event,
    about: About,
    /// Counted until it has left.
    hold: Option<Arc<OnItsWay>>,
}

/// An event that may be handed over, and what counts until it has left.
pub(crate) type Released = (Event, Option<Arc<OnItsWay>>);

/// Why a message is not handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unheard {
    /// The rules in force do not allow it.
    Withheld,
    /// What the listener showed is no longer good: nothing more is said.
    Ended,
}

/// Whoever knows the rules in force at any moment, and asks them about every message.
pub(crate) trait Releases: Send + Sync {
    /// The event of a message, if whoever listens may have it now.
    fn release(&self, told: Told, to: &Listener) -> Result<Released, Unheard>;

    /// Counts what is on its way to the listener.
    fn hold(&self, to: &Listener, bytes: usize) -> Option<Arc<OnItsWay>>;

    /// How long it is until what the listener showed ends.
    fn time_left(&self, to: &Listener) -> Duration;
}

impl Told {
    /// A message; under an id where the stream can be resumed.
    pub(crate) fn new(message: &ClientMessage, id: Option<&str>, about: About) -> Self {
        Self {
            event: Event::of(message, id),
            about,
            hold: None,
        }
    }

    /// The same, counted until it has left.
    pub(crate) fn counted(mut self, hold: Option<Arc<OnItsWay>>) -> Self {
        self.hold = hold;
        self
    }

    /// What keeps a stream going and says nothing.
    pub(crate) fn sign(event: Event) -> Self {
        Self {
            event,
            about: About::Own,
            hold: None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.event.len()
    }

    pub(crate) fn is_end(&self) -> bool {
        self.event.is_end()
    }

    #[cfg(test)]
    pub(crate) fn unasked(self) -> Event {
        self.event
    }

    /// The same for a listener who comes back: without what it was asked with, which nobody keeps for that long.
    pub(crate) fn for_later(&self) -> Self {
        Self {
            event: self.event.clone(),
            about: self.about.for_later(),
            hold: None,
        }
    }

    /// What incidents look at; nothing of what names nothing, and nothing of an answer: that is judged when it comes.
    pub(crate) fn subject<'t>(&'t self, who: &'t Principal) -> Option<Subject<'t>> {
        let (server, tool, risk) = match &self.about {
            About::Own | About::Answer(_) => return None,
            About::Server(server) | About::Resource(server, ..) => (server, None, Risk::Low),
            About::Target(_, target) => (target.server(), target.entry(), target.risk()),
            About::Request(asked) => (asked.target.server(), asked.target.entry(), asked.target.risk()),
        };
        Some(Subject {
            who,
            server: Some(server),
            tool: tool.map(|entry| &entry.id),
            risk,
        })
    }

    /// The event, if whoever listens may have it by these rules.
    pub(crate) fn released(self, in_force: &Snapshot, to: &Listener) -> Result<Released, Unheard> {
        if !in_force.identity.still_takes(&to.who, &to.shown) {
            return Err(Unheard::Ended);
        }
        let allowed = self.about.is_allowed(in_force, &to.who);
        allowed.then_some((self.event, self.hold)).ok_or(Unheard::Withheld)
    }
}

impl About {
    fn for_later(&self) -> Self {
        match self {
            Self::Request(asked) => Self::Target(asked.action.clone(), asked.target.clone()),
            Self::Answer(about) => about.for_later(),
            other @ (Self::Own | Self::Server(_) | Self::Resource(..) | Self::Target(..)) => other.clone(),
        }
    }

    fn is_allowed(&self, in_force: &Snapshot, who: &Arc<Principal>) -> bool {
        match self {
            Self::Own | Self::Answer(_) => true,
            Self::Server(server) => usable(in_force, who, server),
            Self::Resource(server, uri, address) => {
                let decided = subscription(in_force, who, (server, uri), *address);
                matches!(decided, Decision::Allow(..))
            }
            Self::Target(action, target) => {
                let caller = in_force.policy.caller(who);
                in_force.policy.resolve_target(&caller, action, target).is_ok()
            }
            Self::Request(asked) => asked.is_allowed(in_force, who),
        }
    }
}

/// Decides on a subscription to a resource: when it is asked for, and again whenever there is something to tell.
pub(crate) fn subscription(
    in_force: &Snapshot,
    who: &Arc<Principal>,
    (server, uri): (&ServerId, &str),
    address: IpAddr,
) -> Decision {
    let target = Target::Resource {
        server: server.clone(),
        uri: uri.into(),
    };
    let arguments = Value::Object(vec![("uri".into(), Value::String(uri.into()))]);
    let facts = CallFacts {
        arguments: &arguments,
        args_hash: Digest::of(uri.as_bytes()),
        found: None,
        address,
    };
    let (policy, caller) = (&in_force.policy, in_force.policy.caller(who));
    match policy.resolve_target(&caller, Method::Subscribe.as_str(), &target) {
        Ok(known) => policy.decide_target(&caller, known, &facts),
        Err(missing) => Decision::Deny(Grounds::new(missing.policy_id, missing.code)),
    }
}

/// What policies see of a request as its arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// Its member `arguments`.
    Arguments,
    /// All of its params, but for what belongs to a dialogue.
    Params,
}

/// A request that was allowed and is under way: all that is needed to decide on it again.
pub(crate) struct Asked {
    who: Arc<Principal>,
    action: Arc<str>,
    seen: Seen,
    target: Target,
    /// What policies see as its arguments, as it was sent.
    arguments: Option<Bytes>,
    args_hash: Digest,
    address: IpAddr,
    decided_by: Arc<PolicySnapshot>,
    /// Whether a person had to allow it, and did.
    is_approved: bool,
}

impl Asked {
    /// What `permit` was given for.
    pub(crate) fn new(
        request: &Request,
        permit: &Permit,
        args_hash: Digest,
        address: IpAddr,
        (decided_by, is_approved): (&Arc<PolicySnapshot>, bool),
    ) -> Arc<Self> {
        let params = request.params();
        let (seen, arguments) = if matches!(request.method(), Method::ToolsCall | Method::PromptsGet) {
            (Seen::Arguments, params.bytes("arguments"))
        } else {
            (Seen::Params, params.whole_bytes())
        };
        Arc::new(Self {
            who: permit.principal().clone(),
            action: permit.action().into(),
            seen,
            target: permit.target().clone(),
            arguments,
            args_hash,
            address,
            decided_by: decided_by.clone(),
            is_approved,
        })
    }

    /// Decides on it again, for whom it was allowed.
    pub(crate) fn decide_again(&self, in_force: &Snapshot) -> Decision {
        self.decide(in_force, &self.who)
    }

    fn decide(&self, in_force: &Snapshot, who: &Arc<Principal>) -> Decision {
        let raw = self.arguments.as_deref().unwrap_or(b"{}");
        let Ok(mut arguments) = Value::parse(raw, &in_force.limits.arguments) else {
            return Decision::Deny(Grounds::new(
                "builtin:preflight".into(),
                ReasonCode::DenyPayloadTooLarge,
            ));
        };
        if let Value::Object(members) = &mut arguments
            && self.seen == Seen::Params
        {
            members.retain(|(name, _)| !matches!(&**name, "_meta" | "inputResponses" | "requestState"));
        }
        let is_call = &*self.action == Method::ToolsCall.as_str();
        let found = is_call.then(|| in_force.risk.of_arguments(&arguments)).flatten();
        let facts = CallFacts {
            arguments: &arguments,
            args_hash: self.args_hash,
            found: found.map(|found| found.risk),
            address: self.address,
        };
        let (policy, caller) = (&in_force.policy, in_force.policy.caller(who));
        match policy.resolve_target(&caller, &self.action, &self.target) {
            Ok(known) => policy.decide_target(&caller, known, &facts),
            Err(missing) => Decision::Deny(Grounds::new(missing.policy_id, missing.code)),
        }
    }

    /// Nothing is decided again while nothing changed.
    fn is_allowed(&self, in_force: &Snapshot, who: &Arc<Principal>) -> bool {
        let as_it_was = Arc::ptr_eq(&self.decided_by, &in_force.policy) && Arc::ptr_eq(&self.who, who);
        as_it_was
            || match self.decide(in_force, who) {
                Decision::Allow(..) => true,
                // Nobody is asked again for what is under way.
                Decision::RequireApproval(..) => self.is_approved && Arc::ptr_eq(&self.who, who),
                Decision::Deny(_) => false,
            }
    }
}
