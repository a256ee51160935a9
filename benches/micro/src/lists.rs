//! Policy: one decision, and one list, with 1,000 policies.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context, Result, ensure};
use policy::{CallFacts, Decision, PolicySnapshot};
use vocabulary::json::{Limits, Value};
use vocabulary::{Face, canonical};

use crate::stopwatch::Figure;
use crate::town::{self, ARGUMENTS, CALLED, Looking};

const LIMITS: Limits = Limits {
    max_bytes: 262_144,
    max_depth: 32,
    max_string: 65_536,
    max_items: 10_000,
};
const DECISION_US: f64 = 30.0;
const LIST_US: f64 = 20_000.0;

/// Measures both, with policies of both kinds.
pub(crate) fn measure(only: &str) -> Result<Vec<Figure>> {
    let kinds = [
        (Looking::ContextFree, "context-free"),
        (Looking::AtArguments, "argument rules"),
    ];
    let mut figures = Vec::new();
    for (looking, kind) in kinds {
        let names = [
            format!("decision, 1,000 policies, {kind}"),
            format!("first decision of a principal, {kind}"),
            format!("list of 500 tools, uncached, {kind}"),
            format!("list of 500 tools, again, {kind}"),
        ];
        if !names.iter().any(|name| name.contains(only)) {
            continue;
        }
        let snapshot = town::snapshot(looking)?;
        let [decision, first, list, again] = &names;
        let mut newcomers = 0;
        let mut newcomer = || {
            newcomers += 1;
            town::agent(&format!("newcomer-{newcomers}"))
        };
        let regular = town::agent("regular");
        ensure!(
            snapshot.visible(&snapshot.caller(&regular), None, Face::LEAST).len() == 500,
            "the agent does not see every tool"
        );
        let call = Call::new()?;
        ensure!(
            matches!(call.decide(&snapshot, &regular)?, Decision::Allow(..)),
            "the call is not allowed"
        );
        let wanted = |name: &str| name.contains(only);
        if wanted(decision) {
            figures.push(Figure::of(decision, || call.decide(&snapshot, &regular)).at_most(DECISION_US));
        }
        if wanted(first) {
            figures.push(Figure::of(first, || call.decide(&snapshot, &newcomer())));
        }
        if wanted(list) {
            figures.push(
                Figure::of(list, || {
                    snapshot.visible(&snapshot.caller(&newcomer()), None, Face::LEAST)
                })
                .at_most(LIST_US),
            );
        }
        if wanted(again) {
            figures.push(Figure::of(again, || {
                snapshot.visible(&snapshot.caller(&regular), None, Face::LEAST)
            }));
        }
    }
    Ok(figures)
}

/// A call as the gateway has it when it asks the policies.
struct Call {
    server: vocabulary::ServerId,
    arguments: Value<'static>,
    args_hash: vocabulary::Digest,
}

impl Call {
    fn new() -> Result<Self> {
        let arguments = Value::parse(ARGUMENTS, &LIMITS)?;
        let (args_hash, _) = canonical::digest(&arguments);
        Ok(Self {
            server: town::called_server()?,
            arguments,
            args_hash,
        })
    }

    /// From the principal to the decision, as in the gateway.
    fn decide(&self, snapshot: &PolicySnapshot, who: &std::sync::Arc<vocabulary::Principal>) -> Result<Decision> {
        let caller = snapshot.caller(who);
        let known = snapshot.resolve(&caller, &self.server, CALLED.1, Face::LEAST);
        let known = known.ok().context("the tool is hidden")?;
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let facts = CallFacts {
            arguments: &self.arguments,
            args_hash: self.args_hash,
            found: None,
            address,
        };
        Ok(snapshot.decide(&caller, known, &facts))
    }
}
