//! How the gateway stands, and the order to read its configuration again.

use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::call::Call;
use crate::answer::{Answer, Refusal};
use crate::ports::{Reload, ReloadWhen};

pub(super) async fn status(call: Call) -> Result<Answer, Refusal> {
    let status = call.ask(|plane| plane.ports().gateway.status()).await?;
    let snapshot = call.ask(|plane| plane.ports().inventory.snapshot()).await?;
    Ok(Answer::json(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "running": status.mcp.is_some(),
        "mcp": status.mcp,
        "started": status.started.map(|time| time.to_string()),
        "log": status.log,
        "last_seq": status.last_seq,
        "ledger_healthy": status.ledger_healthy,
        "servers": snapshot.inventory().servers().count(),
        "tools": snapshot.inventory().tools().len(),
        "policies": snapshot.rules().ids().count(),
        "policy_set": snapshot.policy_set().to_string(),
        "epoch": snapshot.epoch(),
    })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    #[serde(default)]
    only_if_changed: bool,
}

pub(super) async fn reload(call: Call) -> Result<Answer, Refusal> {
    let body: Order = call.body()?;
    let when = match body.only_if_changed {
        true => ReloadWhen::Changed,
        false => ReloadWhen::Always,
    };
    call.record(None, "the configuration is read again").await?;
    match call.plane.ports().gateway.reload(when).await? {
        Reload::Done { warnings } => Ok(Answer::json(&json!({ "reloaded": true, "warnings": warnings }))),
        Reload::NotRunning => Err(Refusal::conflict(
            "no gateway runs; its next start reads the configuration",
        )),
        Reload::Refused { faults } => {
            let message = "the new configuration has faults; the old one stays";
            let refusal = Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "configuration_refused", message);
            Err(Refusal { faults, ..refusal })
        }
    }
}

/// The log records it itself: the record names the new key.
pub(super) async fn rotate_key(call: Call) -> Result<Answer, Refusal> {
    let operator = call.operator.clone();
    let vkey = call
        .ask(move |plane| plane.ports().gateway.rotate_key(&operator))
        .await?;
    Ok(Answer::json(&json!({"vkey": vkey})))
}
