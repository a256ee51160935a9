//! People who steer: made with a role, listed, taken back. A token's text is in one answer and nowhere else.
//! ADR 0096: names, roles and lifetimes.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use vocabulary::{ActorType, Role, ServerScope, Timestamp};

use super::call::Call;
use super::tokens::{MAX_TTL, name, standing};
use crate::answer::{Answer, Refusal};
use crate::authenticate::{RESERVED, mint_admin_token};
use crate::ports::{Revocation, TokenKind, TokenView};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewAdmin {
    name: String,
    role: String,
    ttl_seconds: Option<u64>,
}

pub(super) async fn create(call: Call) -> Result<Answer, Refusal> {
    let wanted: NewAdmin = call.body()?;
    let minted = mint_admin_token()?;
    let (token, role) = check(wanted, minted.id, call.plane.clock().now())?;
    let answer = json!({
        "id": token.id,
        "token": minted.text.expose(),
        "name": token.sub,
        "role": role.as_str(),
        "expires": token.expires.to_string(),
    });
    let message = format!("an admin token for `{}`, {role}, until {}", token.sub, token.expires);
    call.record(Some(&token.id), &message).await?;
    call.ask(move |plane| plane.ports().tokens.add(&token, minted.digest))
        .await?;
    Ok(Answer::created(&answer))
}

pub(super) async fn list(call: Call) -> Result<Answer, Refusal> {
    let now = call.plane.clock().now();
    let tokens = call.ask(|plane| plane.ports().tokens.list()).await?;
    let shown: Vec<Value> = tokens.iter().filter_map(|token| view(token, now)).collect();
    Ok(Answer::json(&json!({ "admins": shown })))
}

pub(super) async fn revoke(call: Call) -> Result<Answer, Refusal> {
    let id = call.part("id").to_owned();
    let tokens = call.ask(|plane| plane.ports().tokens.list()).await?;
    let unknown = || Refusal::not_found("there is no such admin token");
    let is_it = |token: &TokenView| token.id == id && matches!(token.kind, TokenKind::Admin(_));
    let token = tokens.into_iter().find(is_it).ok_or_else(unknown)?;
    if call.operator.uses(&token.id) {
        return Err(Refusal::conflict("an operator does not take back the token in use"));
    }
    let now = call.plane.clock().now();
    call.record(Some(&id), &format!("the admin token of `{}` is taken back", token.sub))
        .await?;
    match call.ask(move |plane| plane.ports().tokens.revoke(&id, now)).await? {
        Revocation::Revoked(token) => view(&token, now).map(|shown| Answer::json(&shown)).ok_or_else(unknown),
        Revocation::Unknown => Err(unknown()),
    }
}

fn check(wanted: NewAdmin, id: String, now: Timestamp) -> Result<(TokenView, Role), Refusal> {
    let NewAdmin {
        name: sub,
        role,
        ttl_seconds,
    } = wanted;
    name("name", &sub)?;
    if RESERVED.contains(&sub.as_str()) {
        return Err(Refusal::bad_request(
            "records use this name for somebody else than a person; choose another",
        ));
    }
    let wrong = || Refusal::bad_request("`role` is one of `viewer`, `approver` and `operator`");
    let role = Role::parse(&role).ok_or_else(wrong)?;
    let ttl = ttl_seconds.unwrap_or(DEFAULT_TTL);
    if !(1..=MAX_TTL).contains(&ttl) {
        return Err(Refusal::bad_request("`ttl_seconds` is from 1 second to 366 days"));
    }
    let token = TokenView {
        id,
        kind: TokenKind::Admin(role),
        sub,
        actor_type: ActorType::User,
        client_id: None,
        org_id: None,
        groups: Vec::new(),
        servers: ServerScope::Every,
        run: None,
        created: now,
        expires: now.plus(Duration::from_secs(ttl)),
        revoked: None,
    };
    Ok((token, role))
}

/// As people see it; an agent's token is none.
fn view(token: &TokenView, now: Timestamp) -> Option<Value> {
    let TokenKind::Admin(role) = token.kind else {
        return None;
    };
    Some(json!({
        "id": token.id,
        "name": token.sub,
        "role": role.as_str(),
        "standing": standing(token, now),
        "created": token.created.to_string(),
        "expires": token.expires.to_string(),
        "revoked": token.revoked.map(|time| time.to_string()),
    }))
}

/// Ninety days.
const DEFAULT_TTL: u64 = 90 * 86_400;
