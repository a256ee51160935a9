//! `tools/call`: resolve, preflight, decide, credential, dispatch, screen. Each stage takes what
//! the last one proved; whatever ends early says why.

use std::sync::Arc;

use ledger::{
    CredentialFacts, DecisionFacts, Ending, Intent, MessageFacts, Outcome, Status, TokenMode, TokenSource, Verdict,
};
use mcp::method::recordable;
use mcp::{Method, Request, RequestId};
use policy::{CallFacts, Caller, Decision, Grounds, InFlight, KnownTool, NotKnown, OverLimit, Permit};
use screening::arguments::CheckedArguments;
use screening::result::Withheld;
use upstream::{CredentialSource, Departure, Dispatched, Failure, SessionKey};
use vocabulary::{ReasonCode, Risk};

use crate::answer::Gateway;
use crate::asked::{Asked, Ended, digest};
use crate::reply::{DecisionNote, Prepared};
use crate::session::OpenCall;
use crate::town::{Town, Wanted};

/// A call on its way through the stages.
struct Call<'a> {
    gateway: &'a Gateway,
    asked: &'a Asked,
    town: Arc<Town>,
    caller: Arc<Caller>,
    id: RequestId,
}

/// What was decided, kept for the record while the permit is spent.
struct Decided {
    permit: Permit,
    facts: DecisionFacts,
    _in_flight: InFlight,
}

impl Gateway {
    /// Answers `tools/call`.
    pub(crate) async fn call(&self, asked: &Asked, request: &Request, open: &OpenCall) -> Ended {
        let name = request.params().text("name");
        let named = name.as_deref().and_then(|name| asked.route.tool_named(name));
        let wanted = Wanted::Tool(named.as_ref().map(|(server, _)| server));
        self.await_first_discovery(&asked.who, &wanted).await;
        let town = self.town();
        let call = Call {
            gateway: self,
            asked,
            caller: town.policy.caller(&asked.who),
            town,
            id: request.id().clone(),
        };
        match call.walk(request, open).await {
            Ok(ended) => ended,
            Err(ended) => *ended,
        }
    }
}

impl Call<'_> {
    /// The stages, in order.
    async fn walk(&self, request: &Request, open: &OpenCall) -> Result<Ended, Box<Ended>> {
        let known = self.resolve(request)?;
        let mut facts = self.known_facts(&known);
        let arguments = self.preflight(request, &known, &mut facts)?;
        let decided = self.decide(known, &arguments, &facts)?;
        self.dispatch(decided, &arguments, facts, open).await
    }

    /// Unknown, hidden, quarantined or out of reach: one answer for all, the true code on record.
    fn resolve(&self, request: &Request) -> Result<KnownTool, Box<Ended>> {
        let Some(name) = request.params().text("name") else {
            let note = DecisionNote::denied(ReasonCode::DenyMalformed);
            let message = "`params.name` must be the name of a tool".to_owned();
            let reply = Prepared::refusal(Some(self.id.clone()), -32602, message, note);
            return Err(Box::new(self.asked.refused(ReasonCode::DenyMalformed, reply)));
        };
        let named = self.asked.route.tool_named(&name);
        let nowhere = || NotKnown {
            code: ReasonCode::DenyToolNotFound,
            policy_id: "builtin:default-deny".into(),
            entry: None,
        };
        let found = match &named {
            Some((server, tool)) => self.town.policy.resolve(&self.caller, server, tool),
            None => Err(nowhere()),
        };
        found.map_err(|missing| {
            let mut facts = self.asked.facts();
            (facts.args_hash, facts.args_canon) =
                digest(request.params().raw("arguments"), &self.town.limits.arguments);
            facts.server_id = named
                .as_ref()
                .filter(|(id, _)| self.town.server(id).is_some())
                .map(|(id, _)| id.to_string());
            self.unknown(&name, facts, missing)
        })
    }

    fn unknown(&self, name: &str, mut facts: MessageFacts, missing: NotKnown) -> Box<Ended> {
        match &missing.entry {
            Some(entry) => describe(&mut facts, entry),
            None => facts.tool_name = Some(recordable(name)),
        }
        let quarantined = missing.code == ReasonCode::DenyToolQuarantined;
        let policy_id = if quarantined {
            "builtin:quarantine".into()
        } else {
            missing.policy_id
        };
        let decision = self.verdict(Verdict::Deny, policy_id, vec![missing.code]);
        let note = DecisionNote::denied(ReasonCode::DenyToolNotFound);
        let reply = Prepared::refusal(
            Some(self.id.clone()),
            -32602,
            format!("Unknown tool: {}", recordable(name)),
            note,
        );
        self.ended_refused(&facts, decision, reply)
    }

    fn known_facts(&self, known: &KnownTool) -> MessageFacts {
        let mut facts = self.asked.facts();
        describe(&mut facts, known.entry());
        facts
    }

    fn preflight<'r>(
        &self,
        request: &'r Request,
        known: &KnownTool,
        facts: &mut MessageFacts,
    ) -> Result<CheckedArguments<'r>, Box<Ended>> {
        let Some(tool) = self.town.tool(&known.entry().id) else {
            let policy_id = "builtin:quarantine".into();
            let entry = Some(known.entry().clone());
            let missing = NotKnown {
                code: ReasonCode::DenyToolQuarantined,
                policy_id,
                entry,
            };
            return Err(self.unknown(known.entry().id.name.as_str(), facts.clone(), missing));
        };
        match screening::arguments::check(request.params().raw("arguments"), &tool.rules) {
            Ok(checked) => {
                facts.args_hash = Some(checked.digest());
                facts.args_canon = Some(checked.spelling());
                Ok(checked)
            }
            Err(refusal) => {
                facts.args_hash = refusal.digest;
                let decision = self.verdict(Verdict::Deny, "builtin:preflight".into(), vec![refusal.code]);
                let note = DecisionNote::denied(refusal.code);
                let reply = Prepared::error_result(self.id.clone(), refusal.message, note);
                Err(self.ended_refused(facts, decision, reply))
            }
        }
    }

    /// Counts the call, then asks the policies.
    fn decide(
        &self,
        known: KnownTool,
        arguments: &CheckedArguments<'_>,
        facts: &MessageFacts,
    ) -> Result<Decided, Box<Ended>> {
        let who = &self.asked.who;
        let admitted = self.town.limiter.admit(who, &known.entry().id);
        let _in_flight = admitted.map_err(|over| self.over_limit(facts, &over))?;
        let call = CallFacts {
            arguments: arguments.tree(),
            args_hash: arguments.digest(),
            address: self.asked.arrival.address,
        };
        match self.town.policy.decide(&self.caller, known, &call) {
            Decision::Allow(permit, Grounds { policy_id, code }) => Ok(Decided {
                permit,
                facts: self.verdict(Verdict::Allow, policy_id, vec![code]),
                _in_flight,
            }),
            Decision::RequireApproval(grounds) => Err(self.denied(facts, Verdict::RequireApproval, grounds)),
            Decision::Deny(grounds) => Err(self.denied(facts, Verdict::Deny, grounds)),
        }
    }

    fn over_limit(&self, facts: &MessageFacts, over: &OverLimit) -> Box<Ended> {
        let decision = self.verdict(Verdict::Deny, "builtin:limits".into(), vec![over.code]);
        let retry_after_ms = over
            .retry_after
            .map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1));
        let note = DecisionNote {
            retry_after_ms,
            ..DecisionNote::denied(over.code)
        };
        let reply = Prepared::refusal(Some(self.id.clone()), -32003, sentence(over.code), note);
        self.ended_refused(facts, decision, reply)
    }

    fn denied(&self, facts: &MessageFacts, verdict: Verdict, grounds: Grounds) -> Box<Ended> {
        let note = DecisionNote {
            verdict,
            code: grounds.code,
            retry_after_ms: None,
        };
        let reply = Prepared::refusal(Some(self.id.clone()), -32003, sentence(grounds.code), note);
        self.ended_refused(
            facts,
            self.verdict(verdict, grounds.policy_id, vec![grounds.code]),
            reply,
        )
    }

    /// From medium risk on, the intent is on record before the call leaves.
    async fn dispatch(
        &self,
        decided: Decided,
        arguments: &CheckedArguments<'_>,
        facts: MessageFacts,
        open: &OpenCall,
    ) -> Result<Ended, Box<Ended>> {
        let Decided {
            permit,
            facts: decision,
            _in_flight,
        } = decided;
        let id = permit.target().server().clone();
        let Some(server) = self.town.server(&id) else {
            return Ok(self.failed(facts, decision, None, &Failure::SessionGone));
        };
        let credential = server.credential().fetch();
        if facts.risk >= Some(Risk::Medium) {
            let intent = Intent {
                who: self.asked.who.clone(),
                message: facts.clone(),
                decision: decision.clone(),
            };
            if self
                .gateway
                .ledger
                .append_intent(&self.asked.arrival, intent)
                .await
                .is_err()
            {
                return Err(self.unrecordable(&facts));
            }
        } else if !self.gateway.ledger.is_healthy() {
            return Err(self.unrecordable(&facts));
        }
        let departure = Departure {
            server,
            session: SessionKey::Client(self.asked.session_digest()),
            credential,
            arguments,
            trace: self.asked.arrival.trace_id,
            epoch: self.gateway.town().policy.epoch(),
        };
        let dispatched = tokio::select! {
            dispatched = upstream::dispatch(permit, departure) => dispatched,
            () = open.cancelled() => Err(Failure::Cancelled),
        };
        let source = Some(server.credential());
        match dispatched {
            Ok(dispatched) => Ok(self.screen(facts, decision, server.credential(), dispatched)),
            Err(failure) => Ok(self.failed(facts, decision, source, &failure)),
        }
    }

    fn screen(
        &self,
        facts: MessageFacts,
        decision: DecisionFacts,
        credential: &CredentialSource,
        dispatched: Dispatched,
    ) -> Ended {
        let guards = &self.town.limits.result;
        let id = self.id.clone();
        let (status, reply, decision) = match dispatched {
            Dispatched::Result(raw) => match screening::result::screen(raw, guards) {
                Ok(result) if result.is_error() => (Status::Error, Prepared::result(id, result), decision),
                Ok(result) => (Status::Success, Prepared::result(id, result), decision),
                Err(withheld) => self.withheld(decision, &withheld),
            },
            Dispatched::Error(raw) => match screening::result::screen(raw, guards) {
                Ok(error) => (Status::Error, Prepared::server_error(id, error), decision),
                Err(withheld) => self.withheld(decision, &withheld),
            },
        };
        let outcome = Outcome {
            status,
            executed: Some(true),
            screening: Vec::new(),
        };
        Ended {
            ending: Ending::Called {
                who: self.asked.who.clone(),
                message: facts,
                decision,
                credential: credential_facts(Some(credential)),
                outcome,
            },
            reply,
        }
    }

    fn withheld(&self, mut decision: DecisionFacts, withheld: &Withheld) -> (Status, Prepared, DecisionFacts) {
        decision.reason_codes.push(withheld.code);
        let note = DecisionNote::allowed(withheld.code);
        (
            Status::Error,
            Prepared::error_result(self.id.clone(), withheld.message.clone(), note),
            decision,
        )
    }

    fn failed(
        &self,
        facts: MessageFacts,
        mut decision: DecisionFacts,
        credential: Option<&CredentialSource>,
        failure: &Failure,
    ) -> Ended {
        let code = failure.code();
        tracing::warn!(
            server = facts.server_id,
            code = code.as_str(),
            error = failure as &dyn std::error::Error,
            "a call failed"
        );
        decision.reason_codes.push(code);
        let status = if matches!(failure, Failure::TimedOut) {
            Status::Timeout
        } else {
            Status::Error
        };
        let outcome = Outcome {
            status,
            executed: failure.executed(),
            screening: Vec::new(),
        };
        let reply = Prepared::refusal(
            Some(self.id.clone()),
            -32603,
            sentence(code),
            DecisionNote::allowed(code),
        );
        Ended {
            ending: Ending::Called {
                who: self.asked.who.clone(),
                message: facts,
                decision,
                credential: credential_facts(credential),
                outcome,
            },
            reply,
        }
    }

    fn unrecordable(&self, facts: &MessageFacts) -> Box<Ended> {
        let code = ReasonCode::DenyReceiptUnavailable;
        let reply = Prepared::refusal(
            Some(self.id.clone()),
            -32603,
            sentence(code),
            DecisionNote::denied(code),
        );
        self.ended_refused(
            facts,
            self.verdict(Verdict::Deny, "builtin:protocol".into(), vec![code]),
            reply,
        )
    }

    fn verdict(&self, result: Verdict, policy_id: Arc<str>, reason_codes: Vec<ReasonCode>) -> DecisionFacts {
        let policy_set = Some(self.town.policy.policy_set());
        DecisionFacts {
            result,
            policy_id,
            reason_codes,
            policy_set,
            epoch: self.town.policy.epoch(),
        }
    }

    fn ended_refused(&self, facts: &MessageFacts, decision: DecisionFacts, reply: Prepared) -> Box<Ended> {
        let (who, message) = (self.asked.who.clone(), facts.clone());
        let ending = Ending::Refused { who, message, decision };
        Box::new(Ended { ending, reply })
    }
}

fn describe(facts: &mut MessageFacts, entry: &policy::ToolEntry) {
    facts.method = Method::ToolsCall.as_str().to_owned();
    facts.server_id = Some(entry.id.server.to_string());
    facts.tool_name = Some(entry.id.name.to_string());
    facts.trust = Some(entry.trust);
    facts.risk = Some(entry.risk);
    facts.definition_hash = Some(entry.definition_hash);
}

fn credential_facts(source: Option<&CredentialSource>) -> CredentialFacts {
    let (mode, source) = match source {
        None | Some(CredentialSource::None) => (TokenMode::None, TokenSource::None),
        Some(CredentialSource::Reference(_)) => (TokenMode::Vault, TokenSource::Reference),
    };
    CredentialFacts {
        mode,
        source,
        audience: None,
        audience_verified: None,
    }
}

/// What happened and what to do next, in one sentence.
fn sentence(code: ReasonCode) -> String {
    let remedy = code.remedy();
    format!("{}; {}", remedy.meaning, remedy.next)
}
