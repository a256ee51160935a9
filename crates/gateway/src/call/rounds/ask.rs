//! A modern server asks, a client with a session answers: round after round on one stream.

use std::sync::Arc;

use ledger::Verdict;
use mcp::Request;
use mcp::mrtr::{self, ResultType};
use policy::{Decision, Grounds};
use upstream::{Dispatched, PreparedCall, RawResult, RoundPermit};

use crate::call::answer::{adapt, arrive, result_type, screened};
use crate::call::forwarded::{Forwarded, unusable, withheld};
use crate::call::rounds::question::ask_all;
use crate::call::send::send;
use crate::context::Ended;
use crate::snapshot::Snapshot;
use crate::stages::Stages;

/// How many rounds a server may take with a client that has a session.
const MOST_ROUNDS: usize = 8;

/// Where a question came from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AskedBy {
    Result,
    Task,
}

/// A permit for the next round by the rules in force now, or what they say instead.
fn permit_again(stages: &Stages<'_>, forwarded: &Forwarded) -> Result<RoundPermit, (Arc<Snapshot>, Verdict, Grounds)> {
    let in_force = stages.gateway.in_force();
    match forwarded.asked.decide_again(&in_force) {
        Decision::Allow(permit, _) => {
            let epoch = in_force.policy.epoch();
            Ok(RoundPermit { permit, epoch })
        }
        Decision::RequireApproval(wanted, grounds) => {
            let approved = forwarded.approved.as_ref();
            let permit =
                approved.and_then(|approved| wanted.beside(approved.approval().plan.beside).going_on(approved));
            let epoch = in_force.policy.epoch();
            match permit {
                Some(permit) => Ok(RoundPermit { permit, epoch }),
                None => Err((in_force, Verdict::RequireApproval, grounds)),
            }
        }
        Decision::Deny(grounds) => Err((in_force, Verdict::Deny, grounds)),
    }
}

/// See the module.
pub(crate) async fn send_in_rounds(
    stages: &Stages<'_>,
    request: &Request,
    forwarded: Forwarded,
    mut prepared: PreparedCall,
) -> Ended {
    for _ in 0..MOST_ROUNDS {
        let (raw, asked_by): (RawResult, AskedBy) = match send(stages, request, &forwarded, &mut prepared).await {
            Ok(Dispatched::Result(raw)) => (raw, AskedBy::Result),
            Ok(Dispatched::TaskAsks(raw)) => (raw, AskedBy::Task),
            other => return arrive(stages, forwarded, other).await,
        };
        let answer = match screened(stages, &forwarded, raw).await {
            Ok(answer) => answer,
            Err(kept) => return forwarded.withhold(stages, &kept),
        };
        if asked_by == AskedBy::Result && result_type(&answer.result) != ResultType::InputRequired {
            let outcome = adapt(stages, &forwarded, answer).await;
            return forwarded.end(stages, outcome);
        }
        let Ok(mut wanted) = answer.wanted() else {
            return forwarded.withhold(stages, &unusable());
        };
        // A task may show what was answered until it has read the answers.
        wanted.requests.retain(|asked| !prepared.has_answered(&asked.key));
        let answers = ask_all(stages, &forwarded, &answer.result, &wanted).await;
        // The rules may have changed while the client was asked.
        let permit = match permit_again(stages, &forwarded) {
            Ok(permit) => permit,
            Err((in_force, verdict, grounds)) => return forwarded.stop(stages, &in_force, verdict, grounds),
        };
        let answers = match answers {
            Ok(answers) => answers,
            Err(kept) => return forwarded.withhold(stages, &kept),
        };
        let next = match asked_by {
            AskedBy::Task => prepared.answer_task(permit, &answers),
            AskedBy::Result => {
                let responses = mrtr::compose_input_responses(&answers);
                prepared.next_round(permit, &responses, wanted.request_state.as_deref())
            }
        };
        if let Err(failure) = next {
            return forwarded.fail(stages, &failure);
        }
    }
    forwarded.withhold(stages, &withheld("the server asks again and again"))
}
