//! `tools/call`: resolve, preflight, decide; then the call is forwarded. Each stage takes what the last one proved.

use ledger::{MessageFacts, Verdict};
use mcp::translate::ResultKind;
use mcp::{ErrorCode, Method, Request};
use policy::{CallFacts, Decision, KnownTool, NotKnown, Target};
use screening::arguments::{Beside, Checked as _, CheckedArguments, CheckedCall, Refusal, check_call, judge};
use screening::recorded::recordable;
use upstream::Files;
use vocabulary::{PrincipalKey, ReasonCode, RiskFound};

use crate::call::approval::{self, ApprovalWanted};
use crate::call::forward::{Permitted, Sent, forward, is_passed, passed_meta};
use crate::call::outgoing_secrets::look_for_secrets;
use crate::context::{Ended, RequestContext, digest};
use crate::message::error_data::ErrorData;
use crate::outcome::by_preflight;
use crate::snapshot::Snapshot;
use crate::snapshot::tool::CompiledTool;
use crate::stages::{Decided, Stages};
use crate::state::incidents::Says;

/// Answers `tools/call`.
pub(crate) async fn call(stages: &Stages<'_>, request: &Request) -> Ended {
    walk(stages, request).await.unwrap_or_else(|ended| *ended)
}

/// The stages, in order.
async fn walk(stages: &Stages<'_>, request: &Request) -> Result<Ended, Box<Ended>> {
    let known = resolve(stages, request)?;
    let tool = tool_of(stages, &known)?;
    let mut facts = stages.context.facts();
    describe(&mut facts, known.entry());
    let arguments = preflight(stages, request, tool, &mut facts).await?;
    let checked = check_beside(stages, request, arguments)?;
    look_for_secrets(stages, request, &checked, &facts).await?;
    let found = stages.snapshot.risk.of_arguments(checked.arguments().tree());
    raise(&mut facts, found.as_ref());
    let decided = decide(stages, request, known, (&checked, &mut facts)).await?;
    let permitted = Permitted {
        decided,
        facts,
        sent: Sent {
            checked: &checked,
            task_id: None,
            marks: &tool.marks,
            needs_task: tool.needs_task,
        },
        kind: ResultKind::Plain,
    };
    forward(stages, request, permitted).await
}

/// The tool a call is about, if its caller may know of it.
pub(crate) fn tool_in_sight<'s>(
    snapshot: &'s Snapshot,
    context: &RequestContext,
    request: &Request,
) -> Option<&'s CompiledTool> {
    let name = request.params().text("name")?;
    let (server, tool) = context.route.tool_named(&name)?;
    let known = snapshot
        .policy
        .resolve(
            &snapshot.policy.caller(&context.who),
            &server,
            tool,
            context.client.face(),
        )
        .ok()?;
    snapshot.tool(known.entry())
}

/// Unknown, hidden, quarantined or out of reach: one answer for all, the true code on record.
fn resolve(stages: &Stages<'_>, request: &Request) -> Result<KnownTool, Box<Ended>> {
    let Some(name) = request.params().text("name") else {
        return Err(stages.malformed(ErrorCode::InvalidParams, "`params.name` must be the name of a tool"));
    };
    let (context, snapshot) = (stages.context, &stages.snapshot);
    let named = context.route.tool_named(&name);
    let nowhere = || NotKnown {
        code: ReasonCode::DenyToolNotFound,
        policy_id: "builtin:default-deny".into(),
        entry: None,
    };
    let found = match &named {
        Some((server, tool)) => snapshot
            .policy
            .resolve(&stages.caller, server, tool, context.client.face()),
        None => Err(nowhere()),
    };
    found.map_err(|missing| {
        let mut facts = context.facts();
        (facts.args_hash, facts.args_canon) = digest(request.params().raw("arguments"), &snapshot.limits.arguments);
        facts.server_id = named
            .as_ref()
            .filter(|(id, _)| snapshot.server(id).is_some())
            .map(|(id, _)| id.to_string());
        unknown(stages, &name, facts, missing)
    })
}

fn unknown(stages: &Stages<'_>, name: &str, mut facts: MessageFacts, missing: NotKnown) -> Box<Ended> {
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
    let decision = stages.decision(Verdict::Deny, policy_id, missing.code);
    let message = format!("Unknown tool: {}", recordable(name));
    let data = ErrorData::denied(ErrorCode::InvalidParams, message, ReasonCode::DenyToolNotFound);
    stages.refused_as(&facts, decision, data)
}

/// What is kept beside the tool's entry; without it, it counts as quarantined.
fn tool_of<'s>(stages: &'s Stages<'_>, known: &KnownTool) -> Result<&'s CompiledTool, Box<Ended>> {
    stages.snapshot.tool(known.entry()).ok_or_else(|| {
        let missing = NotKnown {
            code: ReasonCode::DenyToolQuarantined,
            policy_id: "builtin:quarantine".into(),
            entry: Some(known.entry().clone()),
        };
        unknown(stages, known.entry().id.name.as_str(), stages.context.facts(), missing)
    })
}

async fn preflight<'r>(
    stages: &Stages<'_>,
    request: &'r Request,
    tool: &CompiledTool,
    facts: &mut MessageFacts,
) -> Result<CheckedArguments<'r>, Box<Ended>> {
    match check(stages, request, tool).await {
        Ok(checked) => {
            facts.args_hash = Some(checked.digest());
            facts.args_canon = Some(checked.spelling());
            Ok(checked)
        }
        Err(refusal) => {
            facts.args_hash = refusal.digest;
            let decision = stages.decision(Verdict::Deny, by_preflight(), refusal.code);
            let told = |code| ErrorData::denied(code, refusal.message, refusal.code);
            // Nothing that the arguments could be changed to would help.
            if refusal.code == ReasonCode::DenySandboxUnavailable {
                return Err(stages.refused_as(facts, decision, told(ErrorCode::InternalError)));
            }
            Err(stages.refused_to_model(facts, decision, told(ErrorCode::InvalidParams)))
        }
    }
}

/// The arguments against their schema, then the paths among them, followed in the workspace of the process they would go
/// to, then the URLs.
async fn check<'r>(
    stages: &Stages<'_>,
    request: &'r Request,
    tool: &CompiledTool,
) -> Result<CheckedArguments<'r>, Refusal> {
    let raw = request.params().raw("arguments");
    if !tool.rules.has_paths() {
        return judge(raw, &tool.rules, None)?.settle(&[]);
    }
    let server = stages.snapshot.server(tool.server());
    let files = server.and_then(|server| server.files(&PrincipalKey::of(&stages.context.who)));
    let judged = judge(raw, &tool.rules, files.as_ref().map(Files::bounds))?;
    let leads = match &files {
        Some(files) if !judged.claims().is_empty() => files.follow(judged.claims()).await,
        Some(_) | None => Vec::new(),
    };
    judged.settle(&leads)
}

/// What goes along beside the arguments keeps to the same limits. Members of a dialogue are put in when they were judged.
fn check_beside<'r>(
    stages: &Stages<'_>,
    request: &'r Request,
    arguments: CheckedArguments<'r>,
) -> Result<CheckedCall<'r>, Box<Ended>> {
    const APART: [&str; 4] = ["name", "arguments", "inputResponses", "requestState"];
    let (params, limits) = (request.params(), &stages.snapshot.limits.arguments);
    let beside = Beside {
        members: params.members().filter(|(name, _)| !APART.contains(name)).collect(),
        meta: passed_meta(request),
    };
    let stays = params
        .members()
        .filter(|(name, _)| *name != "arguments" && APART.contains(name));
    let mut stays = stays.chain(params.meta_members().filter(|(name, _)| !is_passed(name)));
    let stays_within = stays.all(|(_, raw)| screening::arguments::is_within(raw, limits));
    match check_call(arguments, beside, limits) {
        Ok(checked) if stays_within => Ok(checked),
        Ok(_) | Err(_) => Err(stages.malformed(
            ErrorCode::InvalidParams,
            "a member of `params` is beyond the limits of arguments, or named twice within",
        )),
    }
}

/// Counts the call, keeps its arguments where arguments are kept, then asks the policies, and a person where they want one asked.
async fn decide(
    stages: &Stages<'_>,
    request: &Request,
    known: KnownTool,
    (checked, facts): (&CheckedCall<'_>, &mut MessageFacts),
) -> Result<Decided, Box<Ended>> {
    let target = Target::Tool(known.entry().clone());
    let says = stages.incident_says(&target, facts.risk.unwrap_or_else(|| target.risk()));
    if says == Says::Denied {
        return Err(stages.by_incident(facts));
    }
    let tool = &known.entry().id;
    let admitted = stages.admit(&tool.server, Some(tool)).await;
    let slot = admitted.map_err(|over| stages.over_limit(facts, &over))?;
    stages.keep_arguments(facts, checked.arguments().tree())?;
    let call = CallFacts {
        arguments: checked.arguments().tree(),
        args_hash: checked.digest(),
        found: facts.risk,
        address: stages.context.arrival.address,
    };
    match stages.snapshot.policy.decide(&stages.caller, known, &call) {
        Decision::RequireApproval(wanted, grounds) => {
            let call = ApprovalWanted {
                wanted,
                grounds,
                checked,
            };
            approval::settle(stages, request, call, (&*facts, slot)).await
        }
        Decision::Allow(permit, grounds) if says == Says::NeedsPerson => {
            let policy_set = stages.snapshot.policy.policy_set();
            let risk = facts.risk.unwrap_or_else(|| target.risk());
            let wanted = permit.until_a_person_agrees(risk, policy_set, &grounds);
            let call = ApprovalWanted {
                wanted,
                grounds,
                checked,
            };
            approval::settle(stages, request, call, (&*facts, slot)).await
        }
        decision @ (Decision::Allow(..) | Decision::Deny(_)) => stages.decided(decision, slot, facts),
    }
}

/// What rules on risk found in the arguments raises the risk of this call, and the record says which.
fn raise(facts: &mut MessageFacts, found: Option<&RiskFound>) {
    if let Some(found) = found.filter(|found| Some(found.risk) > facts.risk) {
        facts.risk = Some(found.risk);
        facts.risk_rule = Some(found.rule.clone());
    }
}

pub(crate) fn describe(facts: &mut MessageFacts, entry: &policy::ToolEntry) {
    facts.method = Method::ToolsCall.as_str().to_owned();
    facts.server_id = Some(entry.id.server.to_string());
    facts.tool_name = Some(entry.id.name.to_string());
    facts.trust = Some(entry.trust);
    facts.risk = Some(entry.risk);
    facts.definition_hash = Some(entry.definition_hash);
}
