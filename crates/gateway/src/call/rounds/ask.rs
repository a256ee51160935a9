//! A modern server asks, a client with a session answers: round after round on one stream.

use mcp::Request;
use mcp::mrtr::{self, ResultType};
use upstream::{Dispatched, PreparedCall, RawResult};

use crate::call::answer::{adapt, arrive, result_type, screened};
use crate::call::forwarded::{Forwarded, unusable, withheld};
use crate::call::rounds::question::ask_all;
use crate::call::send::send;
use crate::context::Ended;
use crate::stages::Stages;

/// How many rounds a server may take with a client that has a session.
const MOST_ROUNDS: usize = 8;

/// Where a question came from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AskedBy {
    Result,
    Task,
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
        let answers = match ask_all(stages, &forwarded, &answer.result, &wanted).await {
            Ok(answers) => answers,
            Err(kept) => return forwarded.withhold(stages, &kept),
        };
        match asked_by {
            AskedBy::Task => prepared.answer_task(&answers),
            AskedBy::Result => {
                let responses = mrtr::compose_input_responses(&answers);
                prepared.next_round(&responses, wanted.request_state.as_deref());
            }
        }
    }
    forwarded.withhold(stages, &withheld("the server asks again and again"))
}
