//! `tools/call`: resolve, preflight, decide; then the call is carried. Each stage takes what the
//! last one proved.

use std::borrow::Cow;

use ledger::{MessageFacts, Verdict};
use mcp::method::recordable;
use mcp::translate::ResultKind;
use mcp::{Method, Request};
use policy::{CallFacts, KnownTool, NotKnown};
use screening::arguments::CheckedArguments;
use vocabulary::ReasonCode;

use crate::call::forward::Permitted;
use crate::context::{Ended, RequestContext, digest};
use crate::outcome::{Case, Decided};
use crate::receive::Gateway;
use crate::reply::{ErrorData, Prepared};
use crate::snapshot::{CompiledTool, Snapshot, Wanted};
use crate::truncated as read_cache;

impl Gateway {
    /// Answers `tools/call`.
    pub(crate) async fn call(&self, asked: &RequestContext, request: &Request) -> Ended {
        let name = request.params().text("name");
        if name.as_deref() == Some(read_cache::NAME) && read_cache::is_offered(&self.snapshot()) {
            return Box::pin(self.read_cache(asked, request)).await;
        }
        let named = name.as_deref().and_then(|name| asked.route.tool_named(name));
        let wanted = Wanted::Tool(named.as_ref().map(|(server, _)| server));
        self.await_first_discovery(&asked.who, &wanted).await;
        let case = Case::new(self, asked, request);
        match case.call(request).await {
            Ok(ended) => ended,
            Err(ended) => *ended,
        }
    }

    /// The tool a call is about, if its caller may know of it.
    pub(crate) fn tool_in_sight<'t>(
        &self,
        snapshot: &'t Snapshot,
        asked: &RequestContext,
        request: &Request,
    ) -> Option<&'t CompiledTool> {
        let name = request.params().text("name")?;
        let (server, tool) = asked.route.tool_named(&name)?;
        let known = snapshot
            .policy
            .resolve(&snapshot.policy.caller(&asked.who), &server, tool)
            .ok()?;
        snapshot.tool(&known.entry().id)
    }
}

impl Case<'_> {
    /// The stages, in order.
    async fn call(&self, request: &Request) -> Result<Ended, Box<Ended>> {
        let known = self.resolve(request)?;
        let tool = self.tool_of(&known)?;
        let mut facts = self.asked.facts();
        describe(&mut facts, known.entry());
        let arguments = self.preflight(request, tool, &mut facts)?;
        self.check_extras(request)?;
        self.look_for_secrets(request.params().raw("arguments"), &facts).await?;
        let decided = self.decide(known, &arguments, &facts)?;
        let load = Permitted {
            decided,
            facts,
            checked: &arguments,
            extras: extras(request),
            marks: &tool.marks,
            needs_task: tool.needs_task,
            kind: ResultKind::Plain,
        };
        self.forward(request, load).await
    }

    /// Unknown, hidden, quarantined or out of reach: one answer for all, the true code on record.
    fn resolve(&self, request: &Request) -> Result<KnownTool, Box<Ended>> {
        let Some(name) = request.params().text("name") else {
            return Err(self.malformed(-32602, "`params.name` must be the name of a tool"));
        };
        let named = self.asked.route.tool_named(&name);
        let nowhere = || NotKnown {
            code: ReasonCode::DenyToolNotFound,
            policy_id: "builtin:default-deny".into(),
            entry: None,
        };
        let found = match &named {
            Some((server, tool)) => self.snapshot.policy.resolve(&self.caller, server, tool),
            None => Err(nowhere()),
        };
        found.map_err(|missing| {
            let mut facts = self.asked.facts();
            (facts.args_hash, facts.args_canon) =
                digest(request.params().raw("arguments"), &self.snapshot.limits.arguments);
            facts.server_id = named
                .as_ref()
                .filter(|(id, _)| self.snapshot.server(id).is_some())
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
        let note = ErrorData::denied(ReasonCode::DenyToolNotFound);
        let reply = Prepared::refusal(
            Some(self.id.clone()),
            -32602,
            format!("Unknown tool: {}", recordable(name)),
            note,
        );
        self.ended_refused(&facts, decision, reply)
    }

    /// What is kept beside the tool's entry; without it, it counts as quarantined.
    fn tool_of(&self, known: &KnownTool) -> Result<&CompiledTool, Box<Ended>> {
        self.snapshot.tool(&known.entry().id).ok_or_else(|| {
            let missing = NotKnown {
                code: ReasonCode::DenyToolQuarantined,
                policy_id: "builtin:quarantine".into(),
                entry: Some(known.entry().clone()),
            };
            self.unknown(known.entry().id.name.as_str(), self.asked.facts(), missing)
        })
    }

    fn preflight<'r>(
        &self,
        request: &'r Request,
        tool: &CompiledTool,
        facts: &mut MessageFacts,
    ) -> Result<CheckedArguments<'r>, Box<Ended>> {
        match screening::arguments::check(request.params().raw("arguments"), &tool.rules) {
            Ok(checked) => {
                facts.args_hash = Some(checked.digest());
                facts.args_canon = Some(checked.spelling());
                Ok(checked)
            }
            Err(refusal) => {
                facts.args_hash = refusal.digest;
                let decision = self.verdict(Verdict::Deny, "builtin:preflight".into(), vec![refusal.code]);
                let note = ErrorData::denied(refusal.code);
                let era = self.asked.client.era();
                let reply = Prepared::error_result(self.id.clone(), era, refusal.message, note);
                Err(self.ended_refused(facts, decision, reply))
            }
        }
    }

    /// What goes along beside the arguments keeps to the same limits.
    fn check_extras(&self, request: &Request) -> Result<(), Box<Ended>> {
        let limits = &self.snapshot.limits.arguments;
        let beside = request.params().members().filter(|(name, _)| *name != "arguments");
        let mut beside = beside.chain(request.params().meta_members());
        if beside.all(|(_, raw)| screening::arguments::is_within(raw, limits)) {
            Ok(())
        } else {
            Err(self.malformed(
                -32602,
                "a member of `params` is beyond the limits of arguments, or named twice within",
            ))
        }
    }

    /// Counts the call, then asks the policies.
    fn decide(
        &self,
        known: KnownTool,
        arguments: &CheckedArguments<'_>,
        facts: &MessageFacts,
    ) -> Result<Decided, Box<Ended>> {
        let admitted = self.snapshot.limiter.admit(&self.asked.who, &known.entry().id);
        let seat = admitted.map_err(|over| self.over_limit(facts, &over))?;
        let call = CallFacts {
            arguments: arguments.tree(),
            args_hash: arguments.digest(),
            address: self.asked.arrival.address,
        };
        let decision = self.snapshot.policy.decide(&self.caller, known, &call);
        self.decided(decision, seat, facts)
    }
}

/// Members of `params` that we do not know go along as they are; those of a dialogue are put in
/// when they were judged.
pub(crate) fn extras(request: &Request) -> Vec<(&str, Cow<'_, [u8]>)> {
    let known = ["name", "arguments", "inputResponses", "requestState"];
    let members = request.params().members().filter(|(name, _)| !known.contains(name));
    members.map(|(name, raw)| (name, Cow::Borrowed(raw))).collect()
}

pub(crate) fn describe(facts: &mut MessageFacts, entry: &policy::ToolEntry) {
    facts.method = Method::ToolsCall.as_str().to_owned();
    facts.server_id = Some(entry.id.server.to_string());
    facts.tool_name = Some(entry.id.name.to_string());
    facts.trust = Some(entry.trust);
    facts.risk = Some(entry.risk);
    facts.definition_hash = Some(entry.definition_hash);
}
