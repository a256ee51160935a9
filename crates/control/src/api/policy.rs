//! Explains a decision without making one: what each policy says of a call that nobody sends.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use policy::{CallFacts, Explanation, Finding, Standing, Verdict};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use vocabulary::json as tree;
use vocabulary::{ActorType, Authn, ClaimValue, Principal, ReasonCode, ServerId, ServerScope, ToolName, canonical};

use super::call::Call;
use crate::answer::{Answer, Refusal};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    principal: Who,
    server: String,
    tool: String,
    arguments: Option<Box<RawValue>>,
    address: Option<IpAddr>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Who {
    sub: String,
    actor: Option<String>,
    authn: Option<String>,
    client_id: Option<String>,
    org_id: Option<String>,
    #[serde(default)]
    groups: BTreeSet<String>,
    #[serde(default)]
    claims: BTreeMap<String, Claim>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Claim {
    Boolean(bool),
    Integer(i64),
    Text(String),
    List(Vec<String>),
}

pub(super) async fn explain(call: Call) -> Result<Answer, Refusal> {
    let Question {
        principal,
        server,
        tool,
        arguments,
        address,
    } = call.body()?;
    let server = ServerId::parse(&server).map_err(|fault| Refusal::bad_request(fault.to_string()))?;
    let who = Arc::new(principal.check()?);
    let snapshot = call.ask(|plane| plane.ports().inventory.snapshot()).await?;
    let raw = arguments.as_ref().map_or("{}", |raw| raw.get());
    let wrong = |_| Refusal::bad_request("`arguments` cannot be read as a call's arguments");
    let tree = tree::Value::parse(raw.as_bytes(), &READING).map_err(wrong)?;
    if !matches!(tree, tree::Value::Object(_)) {
        return Err(Refusal::bad_request("`arguments` is not an object"));
    }
    let (args_hash, _) = canonical::digest(&tree);
    let address = address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let facts = CallFacts {
        arguments: &tree,
        args_hash,
        found: call.plane.ports().inventory.risk_of_arguments(&tree),
        address,
    };
    let standing = standing(&snapshot, &server, &tool);
    let supposed = match (standing, ToolName::parse(&tool)) {
        ("undiscovered", Ok(name)) => {
            let server = server.clone();
            call.ask(move |plane| plane.ports().inventory.supposing(&server, &name))
                .await?
        }
        _ => None,
    };
    let snapshot = supposed.unwrap_or(snapshot);
    let mut shown = view(&snapshot.explain(&who, &server, &tool, &facts), &snapshot);
    if let Some(members) = shown.as_object_mut() {
        members.insert("standing".to_owned(), standing.into());
    }
    Ok(Answer::json(&shown))
}

/// What is known of a tool: an undiscovered one is explained as if it were offered, with the risk that the operator says or
/// `high`.
fn standing(snapshot: &policy::PolicySnapshot, server: &ServerId, tool: &str) -> &'static str {
    let inventory = snapshot.inventory();
    match (inventory.tool(server, tool).last(), inventory.server(server)) {
        (Some(known), _) => match known.standing {
            Standing::Approved => "approved",
            Standing::Quarantined(_) => "quarantined",
            Standing::Disabled => "disabled",
        },
        (None, None) => "server_not_configured",
        (None, Some(known)) if known.discovered.is_none() => "undiscovered",
        (None, Some(_)) => "not_offered",
    }
}

impl Who {
    fn check(self) -> Result<Principal, Refusal> {
        let actor_type = match self.actor.as_deref() {
            None => ActorType::Agent,
            Some(word) => ActorType::parse(word)
                .ok_or_else(|| Refusal::bad_request("`actor` is one of `user`, `agent` and `system`"))?,
        };
        let authn = match self.authn.as_deref() {
            None | Some("token") => Authn::Token,
            Some("jwt") => Authn::Jwt,
            Some("mtls") => Authn::Mtls,
            Some(_) => return Err(Refusal::bad_request("`authn` is one of `jwt`, `token` and `mtls`")),
        };
        let claim = |claim| match claim {
            Claim::Boolean(value) => ClaimValue::Boolean(value),
            Claim::Integer(value) => ClaimValue::Integer(value),
            Claim::Text(value) => ClaimValue::Text(value),
            Claim::List(value) => ClaimValue::List(value),
        };
        Ok(Principal {
            sub: self.sub,
            actor_type,
            client_id: self.client_id,
            org_id: self.org_id,
            issuer: "portreeve".to_owned(),
            authn,
            act: Vec::new(),
            run: None,
            groups: self.groups,
            claims: self
                .claims
                .into_iter()
                .map(|(name, value)| (name, claim(value)))
                .collect(),
            servers: ServerScope::Every,
        })
    }
}

fn view(explained: &Explanation, snapshot: &policy::PolicySnapshot) -> Value {
    // What callers get: a tool they cannot see is refused whatever its policies say of this call.
    let (decision, policy_id, code) = match &explained.visibility {
        Err(hidden) => ("deny", &hidden.policy_id, hidden.code),
        Ok(()) => (
            verdict(explained.verdict),
            &explained.grounds.policy_id,
            explained.grounds.code,
        ),
    };
    let visible = explained.visibility.is_ok();
    let told = if visible { code } else { ReasonCode::DenyToolNotFound };
    let policies: Vec<Value> = explained
        .policies
        .iter()
        .map(|policy| {
            let (finding, error) = match &policy.finding {
                Finding::Satisfied => ("satisfied", None),
                Finding::NotSatisfied => ("not_satisfied", None),
                Finding::Failed(error) => ("failed", Some(error)),
            };
            json!({ "policy_id": policy.policy_id.as_ref(), "effect": policy.effect.as_str(), "finding": finding, "error": error })
        })
        .collect();
    json!({
        "decision": decision,
        "policy_id": policy_id.as_ref(),
        "reason_code": code.as_str(),
        "told_to_caller": told.as_str(),
        "visible": visible,
        "policies": policies,
        "policy_set": snapshot.policy_set().to_string(),
        "epoch": snapshot.epoch(),
    })
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allow",
        Verdict::Deny => "deny",
        Verdict::RequireApproval => "require_approval",
    }
}

const READING: tree::Limits = tree::Limits {
    max_bytes: 1 << 20,
    max_depth: 64,
    max_string: 1 << 20,
    max_items: 100_000,
};
