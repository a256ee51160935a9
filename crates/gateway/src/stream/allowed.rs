//! The subscriptions of a `subscriptions/listen`: each is decided like any other request, and all of them leave a bounded number
//! of records.

use ledger::{Arrival, Ending, MessageFacts, Verdict};
use mcp::Method;
use policy::{Decision, Grounds};
use screening::recorded::recordable;
use vocabulary::{ReasonCode, ReceiptId, ServerId};

use crate::call::outgoing_secrets::look_through_uri;
use crate::delivery::subscription;
use crate::outcome::by_preflight;
use crate::stages::Stages;

/// Records of one type that one request leaves at most.
const MOST_RECORDS: usize = 4;

/// A subscription that was decided on.
struct Decided {
    server: ServerId,
    uri: String,
    verdict: Verdict,
    grounds: Grounds,
}

/// Those that are allowed and on record. Few have a record each; of many, the first do, and the others share one for what was
/// allowed and one for what was not.
pub(crate) async fn allowed_subscriptions(
    stages: &Stages<'_>,
    wanted: Vec<(ServerId, String)>,
) -> Vec<(ServerId, String)> {
    let mut decided = Vec::with_capacity(wanted.len());
    let mut secrets = 0;
    for (server, uri) in wanted {
        let mut one = decide(stages, server, uri);
        if one.verdict == Verdict::Allow && (secrets == MOST_RECORDS || holds_a_secret(stages, &one).await) {
            secrets = MOST_RECORDS.min(secrets + 1);
            one.verdict = Verdict::Deny;
            one.grounds = Grounds::new(by_preflight(), ReasonCode::DenySecretInArguments);
        }
        decided.push(one);
    }
    let alone = if decided.len() > MOST_RECORDS {
        MOST_RECORDS - 2
    } else {
        decided.len()
    };
    let mut decided = decided.into_iter();
    let mut groups: Vec<Vec<Decided>> = decided.by_ref().take(alone).map(|one| vec![one]).collect();
    let (granted, denied): (Vec<_>, Vec<_>) = decided.partition(|one| one.verdict == Verdict::Allow);
    groups.extend([granted, denied]);
    let mut allowed = Vec::new();
    for group in groups {
        if record(stages, &group).await {
            let granted = group.into_iter().filter(|one| one.verdict == Verdict::Allow);
            allowed.extend(granted.map(|one| (one.server, one.uri)));
        }
    }
    allowed
}

fn decide(stages: &Stages<'_>, server: ServerId, uri: String) -> Decided {
    let context = stages.context;
    let address = context.arrival.address;
    let (verdict, grounds) = match subscription(&stages.snapshot, &context.who, (&server, &uri), address) {
        Decision::Allow(_, grounds) => (Verdict::Allow, grounds),
        Decision::RequireApproval(_, grounds) => (Verdict::RequireApproval, grounds),
        Decision::Deny(grounds) => (Verdict::Deny, grounds),
    };
    Decided {
        server,
        uri,
        verdict,
        grounds,
    }
}

/// Whether the URI may not leave; each that may not is on record.
async fn holds_a_secret(stages: &Stages<'_>, one: &Decided) -> bool {
    let facts = MessageFacts {
        method: Method::Subscribe.as_str().to_owned(),
        server_id: Some(one.server.to_string()),
        tool_name: Some(recordable(&one.uri)),
        ..stages.context.facts()
    };
    look_through_uri(stages, &one.uri, &facts).await.is_err()
}

/// Puts subscriptions of one verdict on record; what differs between them is not stated.
async fn record(stages: &Stages<'_>, group: &[Decided]) -> bool {
    let Some((first, others)) = group.split_first() else {
        return false;
    };
    let context = stages.context;
    let one_server = others.iter().all(|other| other.server == first.server);
    let message = MessageFacts {
        method: Method::Subscribe.as_str().to_owned(),
        server_id: Some(if one_server {
            first.server.to_string()
        } else {
            "*".to_owned()
        }),
        tool_name: others.is_empty().then(|| recordable(&first.uri)),
        ..context.facts()
    };
    let Grounds { policy_id, code, .. } = first.grounds.clone();
    let decision = stages.decision(first.verdict, policy_id, code);
    let who = context.who.clone();
    let ending = match first.verdict {
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
        ..context.arrival
    };
    let recorded = stages.gateway.ledger.append_alike(&arrival, ending, group.len() as u64);
    recorded.await.is_ok()
}
