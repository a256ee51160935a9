//! The line of a request's record: its intent, or how it ended.

use std::borrow::Cow;
use std::slice;
use std::time::Instant;

use vocabulary::canonical::Spelling;
use vocabulary::{Confinement, Digest, Principal, ReasonCode};

use super::incident::write_mark;
use super::line::{Line, Seal, fill};
use crate::ending::{ApprovalFacts, Arrival, CredentialFacts, DecisionFacts, Ending, MessageFacts, Status, Verdict};
use crate::entry::{Announced, Final};
use crate::payload::PayloadRef;
use crate::screening::ScreeningAct;

/// What a request's record says, borrowed from its ending.
pub(crate) struct Request<'a> {
    phase: Phase,
    arrival: &'a Arrival,
    count: u64,
    who: Option<&'a Principal>,
    message: Message<'a>,
    decision: Decision<'a>,
    credential: Option<&'a CredentialFacts>,
    outcome: Option<Outcome<'a>>,
    catalog: Option<&'a Digest>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Intent,
    Final,
}

#[derive(Clone, Copy)]
struct Message<'a> {
    method: Option<&'a str>,
    server_id: Option<&'a str>,
    facts: Option<&'a MessageFacts>,
}

struct Decision<'a> {
    result: Verdict,
    policy_id: &'a str,
    reason_codes: &'a [ReasonCode],
    policy_set: Option<&'a Digest>,
    epoch: Option<u64>,
    approval: Option<&'a ApprovalFacts>,
}

pub(super) struct Outcome<'a> {
    pub(super) status: Status,
    pub(super) executed: Option<bool>,
    pub(super) screening: &'a [ScreeningAct],
    pub(super) size_bytes_out: u64,
    pub(super) duration_us: u64,
    pub(super) result_ref: Option<PayloadRef>,
}

impl<'a> Request<'a> {
    pub(crate) fn of_intent(entry: &'a Announced) -> Self {
        let Announced { arrival, intent } = entry;
        Self {
            phase: Phase::Intent,
            arrival,
            count: 1,
            who: Some(&intent.who),
            message: Message::of(&intent.message),
            decision: Decision::of(&intent.decision),
            credential: None,
            outcome: None,
            catalog: None,
        }
    }

    pub(crate) fn of_final(entry: &'a Final, now: Instant) -> Self {
        let (who, message, decision) = match &entry.ending {
            Ending::Unidentified { reason } => (None, Message::NONE, Decision::unread(reason)),
            Ending::Unreadable { who, reason, server_id } => (
                Some(who),
                Message {
                    server_id: server_id.as_deref(),
                    ..Message::NONE
                },
                Decision::unread(reason),
            ),
            Ending::Refused { who, message, decision }
            | Ending::Answered {
                who, message, decision, ..
            }
            | Ending::Called {
                who, message, decision, ..
            } => (Some(who), Message::of(message), Decision::of(decision)),
        };
        let (credential, catalog) = match &entry.ending {
            Ending::Called { credential, .. } => (Some(credential), None),
            Ending::Answered { catalog, .. } => (None, catalog.as_ref()),
            Ending::Unidentified { .. } | Ending::Unreadable { .. } | Ending::Refused { .. } => (None, None),
        };
        Self {
            phase: Phase::Final,
            arrival: &entry.arrival,
            count: entry.count,
            who: who.map(|who| &**who),
            outcome: Some(Outcome::of(entry, decision.result, now)),
            message,
            decision,
            credential,
            catalog,
        }
    }
}

impl<'a> Message<'a> {
    const NONE: Self = Self {
        method: None,
        server_id: None,
        facts: None,
    };

    fn of(facts: &'a MessageFacts) -> Self {
        Self {
            method: Some(facts.method.as_str()).filter(|method| !method.is_empty()),
            server_id: facts.server_id.as_deref(),
            facts: Some(facts),
        }
    }
}

impl<'a> Decision<'a> {
    fn of(facts: &'a DecisionFacts) -> Self {
        Self {
            result: facts.result,
            policy_id: &facts.policy_id,
            reason_codes: &facts.reason_codes,
            policy_set: facts.policy_set.as_ref(),
            epoch: Some(facts.epoch),
            approval: facts.approval.as_deref(),
        }
    }

    /// The refusal of what was never read: no policy was asked.
    fn unread(reason: &'a ReasonCode) -> Self {
        let identity = matches!(
            reason,
            ReasonCode::DenyNoAuthn
                | ReasonCode::DenyInvalidToken
                | ReasonCode::DenyTokenRevoked
                | ReasonCode::DenyOrigin
        );
        Self {
            result: Verdict::Deny,
            policy_id: if identity {
                "builtin:authentication"
            } else {
                "builtin:protocol"
            },
            reason_codes: slice::from_ref(reason),
            policy_set: None,
            epoch: None,
            approval: None,
        }
    }
}

impl<'a> Outcome<'a> {
    pub(super) fn of(entry: &'a Final, result: Verdict, now: Instant) -> Self {
        let (status, executed, screening) = match (&entry.ending, result) {
            (Ending::Called { outcome, .. }, _) => (outcome.status, outcome.executed, outcome.screening.as_slice()),
            (Ending::Answered { .. }, Verdict::Allow) => (Status::Success, Some(true), [].as_slice()),
            (
                Ending::Answered { .. }
                | Ending::Unidentified { .. }
                | Ending::Unreadable { .. }
                | Ending::Refused { .. },
                _,
            ) => (Status::Error, Some(false), [].as_slice()),
        };
        let elapsed = now.saturating_duration_since(entry.arrival.began);
        Self {
            status,
            executed,
            screening,
            size_bytes_out: entry.size_bytes_out,
            duration_us: u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
            result_ref: entry.result_ref,
        }
    }
}

/// Appends the record's line, newline included, to `out`; gives back its hash.
pub(crate) fn write_request(out: &mut Vec<u8>, record: &Request<'_>, seal: &Seal<'_>) -> Digest {
    let start = out.len();
    let mut line = Line(out);
    write_approval(&mut line, &record.decision);
    line.raw(r#","catalog_hash":"#);
    line.digest(record.catalog);
    line.raw(r#","count":"#);
    line.number(Some(record.count));
    line.raw(r#","csp_profile":"tool_safety","csp_version":"1.0.0-rc1""#);
    write_decision(&mut line, &record.decision);
    line.raw(r#","incident":"#);
    write_mark(&mut line, seal.incident);
    line.raw(r#","log":"#);
    line.bytes(seal.log);
    write_message(&mut line, &record.message);
    write_outcome(&mut line, record.outcome.as_ref());
    line.raw(match record.phase {
        Phase::Intent => r#","phase":"intent","prev_hash":"#,
        Phase::Final => r#","phase":"final","prev_hash":"#,
    });
    line.digest(Some(seal.prev));
    write_principal(&mut line, record.who);
    line.raw(r#","receipt_id":"#);
    line.receipt_id(Some(record.arrival.receipt_id));
    let gap = line.gap();
    write_arguments(&mut line, record);
    write_sandbox(&mut line, record.message.facts.and_then(|facts| facts.walls.as_deref()));
    line.raw(r#","seq":"#);
    line.number(Some(seal.seq));
    write_credential(&mut line, record.phase, record.credential);
    line.raw(r#","trace_id":"#);
    line.trace_id(record.arrival.trace_id);
    line.raw(r#","ts":"#);
    line.quoted(seal.ts);
    line.raw(r#","type":"request","v":1}"#);
    fill(out, start, gap)
}

/// The approval it asked for, or the one it rests on.
fn write_approval(line: &mut Line<'_>, decision: &Decision<'_>) {
    let Some(approval) = decision.approval else {
        line.raw(r#"{"approval":{"approved_at":null,"approved_by":null,"id":null,"plan_hash":null,"required":"#);
        let asked = decision.reason_codes.contains(&ReasonCode::RequireApproval);
        line.bool(Some(asked || decision.result == Verdict::RequireApproval));
        return line.raw(r#","step_up":"none"}"#);
    };
    let approved = approval.approved.as_ref();
    line.raw(r#"{"approval":{"approved_at":"#);
    line.text(approved.map(|(_, at)| at.to_string()).as_deref());
    line.raw(r#","approved_by":"#);
    line.text(approved.map(|(by, _)| by.as_str()));
    line.raw(r#","id":"#);
    line.text(Some(&approval.id));
    line.raw(r#","plan_hash":"#);
    line.digest(Some(&approval.plan_hash));
    line.raw(r#","required":true,"step_up":"#);
    line.text(Some(approval.step_up.as_str()));
    line.raw("}");
}

/// What stands around the server's process; a server that is elsewhere is not confined by us.
fn write_sandbox(line: &mut Line<'_>, walls: Option<&Confinement>) {
    let Some(walls) = walls else {
        return line.raw(r#","sandbox":{"fs_policy":"none","instance":null,"layers":[],"net_policy":"none","policy_hash":null,"tier":null}"#);
    };
    line.raw(r#","sandbox":{"fs_policy":"#);
    line.text(Some(walls.fs_policy));
    line.raw(r#","instance":"#);
    line.text(Some(&walls.instance));
    line.raw(r#","layers":"#);
    line.list(walls.layers.iter().copied());
    line.raw(r#","net_policy":"#);
    line.text(Some(walls.net_policy));
    line.raw(r#","policy_hash":"#);
    line.text(Some(&walls.policy_hash));
    line.raw(r#","tier":"#);
    line.text(Some(walls.tier));
    line.raw("}");
}

fn write_decision(line: &mut Line<'_>, decision: &Decision<'_>) {
    line.raw(r#","decision":{"epoch":"#);
    line.number(decision.epoch);
    line.raw(r#","policy_id":"#);
    line.text(Some(decision.policy_id));
    line.raw(r#","policy_set":"#);
    line.digest(decision.policy_set);
    line.raw(r#","reason_codes":"#);
    line.list(decision.reason_codes.iter().map(|code| code.as_str()));
    line.raw(r#","result":"#);
    line.quoted(decision.result.as_str().as_bytes());
    line.raw("}");
}

fn write_message(line: &mut Line<'_>, message: &Message<'_>) {
    let facts = message.facts;
    line.raw(r#","mcp":{"definition_hash":"#);
    line.digest(facts.and_then(|facts| facts.definition_hash.as_ref()));
    line.raw(r#","era":"#);
    line.text(facts.and_then(|facts| facts.era).map(|era| era.as_str()));
    line.raw(r#","method":"#);
    line.text(message.method.map(bounded).as_deref());
    line.raw(r#","risk":"#);
    line.text(facts.and_then(|facts| facts.risk).map(|risk| risk.as_str()));
    // Only a call that was raised has one.
    if let Some(rule) = facts.and_then(|facts| facts.risk_rule.as_deref()) {
        line.raw(r#","risk_rule":"#);
        line.text(Some(rule));
    }
    line.raw(r#","server_id":"#);
    line.text(message.server_id.map(bounded).as_deref());
    line.raw(r#","session":"#);
    line.digest(facts.and_then(|facts| facts.session.as_ref()));
    line.raw(r#","tool_name":"#);
    match facts {
        // A tool of the inventory has a definition; any other name is the caller's text.
        Some(MessageFacts {
            definition_hash: Some(_),
            tool_name,
            ..
        }) => line.text(tool_name.as_deref()),
        Some(MessageFacts {
            definition_hash: None,
            tool_name,
            ..
        }) => {
            line.text(tool_name.as_deref().map(bounded).as_deref());
        }
        None => line.text(None),
    }
    line.raw(r#","trust_level":"#);
    line.text(facts.and_then(|facts| facts.trust).map(|trust| trust.as_str()));
    line.raw("}");
}

fn write_outcome(line: &mut Line<'_>, outcome: Option<&Outcome<'_>>) {
    line.raw(r#","outcome":{"duration_us":"#);
    line.number(outcome.map(|outcome| outcome.duration_us));
    line.raw(r#","executed":"#);
    line.bool(outcome.and_then(|outcome| outcome.executed));
    if let Some(kept) = outcome.and_then(|outcome| outcome.result_ref) {
        line.raw(r#","result_ref":"#);
        line.quoted(kept.to_string().as_bytes());
    }
    line.raw(r#","screening":"#);
    line.list(
        outcome
            .map_or([].as_slice(), |outcome| outcome.screening)
            .iter()
            .map(|act| act.as_str()),
    );
    line.raw(r#","size_bytes_out":"#);
    line.number(outcome.map(|outcome| outcome.size_bytes_out));
    line.raw(r#","status":"#);
    line.text(outcome.map(|outcome| outcome.status.as_str()));
    line.raw("}");
}

fn write_principal(line: &mut Line<'_>, who: Option<&Principal>) {
    let Some(who) = who else {
        return line.raw(
            r#","principal":{"act":[],"actor_type":"agent","authn":"none","client_id":null,"issuer":null,"org_id":null,"run":null,"sub":"unauthenticated"}"#,
        );
    };
    line.raw(r#","principal":{"act":"#);
    line.list(who.act.iter().map(String::as_str));
    line.raw(r#","actor_type":"#);
    line.quoted(who.actor_type.as_str().as_bytes());
    line.raw(r#","authn":"#);
    line.quoted(who.authn.as_str().as_bytes());
    line.raw(r#","client_id":"#);
    line.text(who.client_id.as_deref());
    line.raw(r#","issuer":"#);
    line.text(Some(&who.issuer));
    line.raw(r#","org_id":"#);
    line.text(who.org_id.as_deref());
    line.raw(r#","run":"#);
    line.text(who.run.as_deref());
    line.raw(r#","sub":"#);
    line.text(Some(&who.sub));
    line.raw("}");
}

fn write_arguments(line: &mut Line<'_>, record: &Request<'_>) {
    let facts = record.message.facts;
    line.raw(r#","request":{"args_canon":"#);
    line.text(facts.and_then(|facts| facts.args_canon).map(Spelling::as_str));
    line.raw(r#","args_hash":"#);
    line.digest(facts.and_then(|facts| facts.args_hash.as_ref()));
    if let Some(kept) = facts.and_then(|facts| facts.args_ref) {
        line.raw(r#","args_ref":"#);
        line.quoted(kept.to_string().as_bytes());
    }
    line.raw(r#","size_bytes_in":"#);
    line.number(Some(record.arrival.size_bytes_in));
    line.raw("}");
}

fn write_credential(line: &mut Line<'_>, phase: Phase, credential: Option<&CredentialFacts>) {
    line.raw(r#","token_handling":{"audience":"#);
    line.text(credential.and_then(|credential| credential.audience.as_deref()));
    line.raw(r#","audience_verified":"#);
    line.bool(credential.and_then(|credential| credential.audience_verified));
    line.raw(r#","mode":"#);
    line.text(credential.map(|credential| credential.mode.as_str()));
    // INVARIANT: whatever leaves was compared with the caller's credential, and stays where it holds it: the way out takes nothing
    // that was not (`upstream`, `credentials`). Before it left there is nothing to be said.
    line.raw(r#","passthrough_detected":"#);
    line.bool((phase == Phase::Final).then_some(false));
    line.raw(r#","source":"#);
    line.text(credential.map(|credential| credential.source.as_str()));
    line.raw("}");
}

/// A caller's own text, fit for a record: no control characters, at most 128 bytes.
fn bounded(text: &str) -> Cow<'_, str> {
    const LIMIT: usize = 128;
    if text.len() <= LIMIT && !text.chars().any(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut kept = String::with_capacity(LIMIT);
    for character in text.chars().filter(|character| !character.is_control()) {
        if kept.len() + character.len_utf8() > LIMIT {
            break;
        }
        kept.push(character);
    }
    Cow::Owned(kept)
}
