//! Incidents: what is on, started and ended by operators.

use std::time::Duration;

use policy::{Incident, IncidentScope, IncidentStage};
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::Call;
use crate::answer::{Answer, Refusal};
use crate::ports::{EndOfIncident, NewIncident, NotEnded, NotStarted};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    stage: Option<String>,
    scope: Option<String>,
    reason: String,
    ttl: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Why {
    reason: String,
}

pub(super) async fn list(call: Call) -> Result<Answer, Refusal> {
    let shown: Vec<Value> = call.plane.ports().incidents.status().iter().map(view).collect();
    Ok(Answer::json(&json!({ "incidents": shown })))
}

pub(super) async fn start(call: Call) -> Result<Answer, Refusal> {
    let Wanted {
        stage,
        scope,
        reason,
        ttl,
    } = call.body()?;
    let stage = match stage.as_deref() {
        None => IncidentStage::Contain,
        Some(word) => IncidentStage::parse(word)
            .filter(|stage| *stage != IncidentStage::Normal)
            .ok_or_else(|| Refusal::bad_request("`stage` is one of `heightened`, `contain` and `lockdown`"))?,
    };
    let scope = IncidentScope::parse(scope.as_deref().unwrap_or("all"));
    let scope = scope.map_err(|fault| Refusal::bad_request(fault.to_string()))?;
    let wanted = NewIncident {
        stage,
        scope,
        reason: said(reason)?,
        ttl: ttl.as_deref().map(duration).transpose()?,
        by: call.operator.name().to_owned(),
    };
    match call.plane.ports().incidents.start(wanted).await? {
        Ok(incident) => Ok(Answer::created(&view(&incident))),
        Err(NotStarted::OnAndNotKept(incident)) => Err(half_on(
            &incident,
            "it could not be kept, so a restart would lose it: start it again as soon as the disk can be written",
        )),
        Err(NotStarted::OnAndNotRecorded(incident)) => Err(half_on(&incident, "it could not be recorded")),
    }
}

/// It denies from now on, and something else went wrong: said as a failure, so that nobody takes it for done.
fn half_on(incident: &Incident, what: &str) -> Refusal {
    let message = format!("the incident {} is on and denies, but {what}", incident.id);
    Refusal::new(http::StatusCode::SERVICE_UNAVAILABLE, "incident_half_started", message)
}

pub(super) async fn end(call: Call) -> Result<Answer, Refusal> {
    let Why { reason } = call.body()?;
    let (id, reason) = (call.part("id").to_owned(), said(reason)?);
    call.record(Some(&id), &format!("wants it to end: {reason}")).await?;
    match call.plane.ports().incidents.end(&id, call.operator.name()).await? {
        Ok(EndOfIncident::Over(incident)) => Ok(Answer::json(&ended(&incident, true))),
        Ok(EndOfIncident::Half(incident)) => Ok(Answer::json(&ended(&incident, false))),
        Err(NotEnded::Fault(policy::IncidentEndFault::Unknown)) => Err(Refusal::not_found("there is no such incident")),
        Err(NotEnded::Fault(fault @ policy::IncidentEndFault::SamePerson)) => Err(Refusal::conflict(fault.to_string())),
        Err(NotEnded::Unrecorded(down)) => Err(down.into()),
    }
}

fn view(incident: &Incident) -> Value {
    json!({
        "id": incident.id,
        "stage": incident.stage.as_str(),
        "scope": incident.scope.to_string(),
        "reason": incident.reason,
        "started": incident.started.to_string(),
        "started_by": incident.started_by,
        "expires": incident.expires.map(|time| time.to_string()),
        "end_wanted_by": incident.end_wanted_by,
    })
}

fn ended(incident: &Incident, over: bool) -> Value {
    let mut shown = view(incident);
    if let Some(members) = shown.as_object_mut() {
        members.insert("ended".to_owned(), over.into());
    }
    shown
}

fn said(reason: String) -> Result<String, Refusal> {
    const LONGEST: usize = 500;
    match reason.trim().is_empty() || reason.len() > LONGEST || reason.chars().any(char::is_control) {
        true => Err(Refusal::bad_request(
            "`reason` is one line of 1 to 500 bytes without control characters",
        )),
        false => Ok(reason),
    }
}

/// `90s`, `15m`, `1h` or `7d`.
fn duration(text: &str) -> Result<Duration, Refusal> {
    let wrong = || Refusal::bad_request("`ttl` is a time like `90s`, `15m`, `1h` or `7d`, of at most 366 days");
    let unit = text.chars().last().ok_or_else(wrong)?;
    let number: u64 = text
        .strip_suffix(unit)
        .and_then(|number| number.parse().ok())
        .ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let seconds = number
        .checked_mul(seconds)
        .filter(|all| (1..=366 * 86_400).contains(all));
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}
