//! Tokens: made, listed, taken back. A token's text is in one answer and nowhere else.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use vocabulary::{ActorType, ServerId, ServerScope, Timestamp};

use super::call::Call;
use crate::answer::{Answer, Refusal};
use crate::authenticate::mint_agent_token;
use crate::ports::{Revocation, TokenKind, TokenView};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewToken {
    sub: String,
    actor: Option<String>,
    client_id: Option<String>,
    org_id: Option<String>,
    #[serde(default)]
    groups: BTreeSet<String>,
    servers: Option<BTreeSet<String>>,
    ttl_seconds: Option<u64>,
    run: Option<String>,
}

pub(super) async fn create(call: Call) -> Result<Answer, Refusal> {
    let wanted: NewToken = call.body()?;
    let minted = mint_agent_token()?;
    let token = check(wanted, minted.id, call.plane.clock().now())?;
    if let ServerScope::Only(servers) = &token.servers {
        let snapshot = call.ask(|plane| plane.ports().inventory.snapshot()).await?;
        if let Some(unknown) = servers.iter().find(|id| snapshot.inventory().server(id).is_none()) {
            return Err(Refusal::bad_request(format!("no server `{unknown}` is configured")));
        }
    }
    let answer = json!({ "id": token.id, "token": minted.text.expose(), "expires": token.expires.to_string() });
    let message = format!(
        "a token for {} `{}` until {}",
        token.actor_type.as_str(),
        token.sub,
        token.expires
    );
    call.record(Some(&token.id), &message).await?;
    call.ask(move |plane| plane.ports().tokens.add(&token, minted.digest))
        .await?;
    Ok(Answer::created(&answer))
}

pub(super) async fn list(call: Call) -> Result<Answer, Refusal> {
    let now = call.plane.clock().now();
    let tokens = call.ask(|plane| plane.ports().tokens.list()).await?;
    let shown: Vec<Value> = tokens.iter().map(|token| view(token, now)).collect();
    Ok(Answer::json(&json!({ "tokens": shown })))
}

pub(super) async fn revoke(call: Call) -> Result<Answer, Refusal> {
    let id = call.part("id").to_owned();
    let tokens = call.ask(|plane| plane.ports().tokens.list()).await?;
    let Some(token) = tokens.into_iter().find(|token| token.id == id) else {
        return Err(Refusal::not_found("there is no such token"));
    };
    if call.operator.uses(&token.id) {
        return Err(Refusal::conflict("an operator does not take back the token in use"));
    }
    let now = call.plane.clock().now();
    call.record(Some(&id), &format!("the token of `{}` is taken back", token.sub))
        .await?;
    match call.ask(move |plane| plane.ports().tokens.revoke(&id, now)).await? {
        Revocation::Revoked(token) => Ok(Answer::json(&view(&token, now))),
        Revocation::Unknown => Err(Refusal::not_found("there is no such token")),
    }
}

fn check(wanted: NewToken, id: String, now: Timestamp) -> Result<TokenView, Refusal> {
    let NewToken {
        sub,
        actor,
        client_id,
        org_id,
        groups,
        servers,
        ttl_seconds,
        run,
    } = wanted;
    name("sub", &sub)?;
    if sub == "unauthenticated" {
        // Receipts use this word for callers nobody knows.
        return Err(Refusal::bad_request("`sub` cannot be `unauthenticated`"));
    }
    client_id.iter().try_for_each(|text| name("client_id", text))?;
    org_id.iter().try_for_each(|text| name("org_id", text))?;
    run.iter().try_for_each(|text| name("run", text))?;
    groups.iter().try_for_each(|text| name("groups", text))?;
    if groups.len() > MOST_GROUPS {
        return Err(Refusal::bad_request(format!(
            "`groups` has more than {MOST_GROUPS} names"
        )));
    }
    let actor_type = match actor.as_deref() {
        None => ActorType::Agent,
        Some(word) => ActorType::parse(word)
            .ok_or_else(|| Refusal::bad_request("`actor` is one of `user`, `agent` and `system`"))?,
    };
    let ttl = ttl_seconds.unwrap_or(DEFAULT_TTL);
    if !(1..=MAX_TTL).contains(&ttl) {
        return Err(Refusal::bad_request("`ttl_seconds` is from 1 second to 366 days"));
    }
    Ok(TokenView {
        id,
        kind: TokenKind::Agent,
        sub,
        actor_type,
        client_id,
        org_id,
        groups: groups.into_iter().collect(),
        servers: scope(servers)?,
        run,
        created: now,
        expires: now.plus(Duration::from_secs(ttl)),
        revoked: None,
    })
}

fn scope(servers: Option<BTreeSet<String>>) -> Result<ServerScope, Refusal> {
    let Some(names) = servers else {
        return Ok(ServerScope::Every);
    };
    if names.is_empty() {
        return Err(Refusal::bad_request(
            "`servers` is empty; leave it out for every server that policy allows",
        ));
    }
    let parse = |text: &String| ServerId::parse(text).map_err(|fault| Refusal::bad_request(fault.to_string()));
    Ok(ServerScope::Only(names.iter().map(parse).collect::<Result<_, _>>()?))
}

/// A name that can stand in a record.
pub(super) fn name(member: &str, text: &str) -> Result<(), Refusal> {
    let fits = (1..=256).contains(&text.len()) && !text.chars().any(char::is_control);
    let wrong = || Refusal::bad_request(format!("`{member}` is 1 to 256 bytes without control characters"));
    fits.then_some(()).ok_or_else(wrong)
}

/// Whether a token is good.
pub(super) fn standing(token: &TokenView, now: Timestamp) -> &'static str {
    match token.revoked {
        Some(_) => "revoked",
        None if token.expires <= now => "expired",
        None => "live",
    }
}

fn view(token: &TokenView, now: Timestamp) -> Value {
    let servers: Vec<&str> = match &token.servers {
        ServerScope::Every => vec!["*"],
        ServerScope::Only(servers) => servers.iter().map(ServerId::as_str).collect(),
    };
    let kind = match token.kind {
        TokenKind::Agent => "agent",
        TokenKind::Admin(_) => "admin",
    };
    json!({
        "id": token.id,
        "kind": kind,
        "sub": token.sub,
        "actor_type": token.actor_type.as_str(),
        "client_id": token.client_id,
        "org_id": token.org_id,
        "groups": token.groups,
        "servers": servers,
        "run": token.run,
        "standing": standing(token, now),
        "created": token.created.to_string(),
        "expires": token.expires.to_string(),
        "revoked": token.revoked.map(|time| time.to_string()),
    })
}

const DEFAULT_TTL: u64 = 3_600;
pub(super) const MAX_TTL: u64 = 366 * 86_400;
const MOST_GROUPS: usize = 100;
