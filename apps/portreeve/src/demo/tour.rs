//! The tour: real calls through the gateway, each with what must come of it. A step that goes
//! otherwise ends the demo with an error.

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::{Agents, say};
use crate::wire_up::Started;

/// A client of the gateway, as an agent would be.
struct Client {
    http: reqwest::Client,
    url: String,
    token: String,
    session: String,
}

/// Takes the tour.
pub(super) async fn take(started: &Started, agents: &Agents) -> anyhow::Result<()> {
    let navigator = Client::connect(started, &agents.navigator).await?;
    let quartermaster = Client::connect(started, &agents.quartermaster).await?;
    say("A short tour:")?;
    by_the_navigator(&navigator).await?;
    by_the_quartermaster(&quartermaster).await?;
    of_the_smuggler(started, &navigator).await
}

async fn by_the_navigator(navigator: &Client) -> anyhow::Result<()> {
    let listed = navigator.tools().await?;
    let unseen = !listed.iter().any(|name| name == "harbour__assign_berth");
    step("the navigator lists tools", &listed.join(", "), unseen)?;

    let tides = navigator.call("harbour__tide_table", json!({"port": "Dover"})).await?;
    let structured = tides.pointer("/result/structuredContent").is_some();
    step("the navigator reads the tides: allowed", &outcome(&tides), structured)?;

    let hidden = navigator
        .call("harbour__assign_berth", json!({"ship": "Argo", "berth": 1}))
        .await?;
    step(
        "the navigator tries to assign a berth: hidden",
        &outcome(&hidden),
        code(&hidden) == Some(mcp::ErrorCode::InvalidParams),
    )
}

async fn by_the_quartermaster(quartermaster: &Client) -> anyhow::Result<()> {
    let assign = async |arguments| quartermaster.call("harbour__assign_berth", arguments).await;
    let inner = assign(json!({"ship": "Argo", "berth": 3})).await?;
    let assigned = inner.pointer("/result/content").is_some() && !is_error(&inner);
    step("the quartermaster assigns berth 3: allowed", &outcome(&inner), assigned)?;

    let outer = assign(json!({"ship": "Argo", "berth": 9})).await?;
    step(
        "the quartermaster assigns berth 9: denied",
        &outcome(&outer),
        code(&outer) == Some(mcp::ErrorCode::Denied),
    )?;

    let extra = assign(json!({"ship": "Argo", "berth": 3, "bribe": 100})).await?;
    step(
        "a field the tool does not declare: refused",
        &outcome(&extra),
        is_error(&extra),
    )
}

async fn of_the_smuggler(started: &Started, navigator: &Client) -> anyhow::Result<()> {
    let nonsense = navigator.call("smuggler__manifest", json!({})).await?;
    step(
        "the smuggler answers nonsense: contained",
        &outcome(&nonsense),
        code(&nonsense) == Some(mcp::ErrorCode::InternalError),
    )?;

    started.refresh("smuggler").await?;
    let listed = navigator.tools().await?;
    let gone = !listed.iter().any(|name| name == "smuggler__weather");
    step(
        "the smuggler changes `weather` after it was pinned: quarantined",
        &listed.join(", "),
        gone,
    )
}

fn step(what: &str, came: &str, as_it_must: bool) -> anyhow::Result<()> {
    say(&format!("  - {what}\n      {came}"))?;
    if as_it_must {
        Ok(())
    } else {
        bail!("the tour went otherwise than it must: {what}")
    }
}

fn code(answer: &Value) -> Option<mcp::ErrorCode> {
    answer
        .pointer("/error/code")
        .and_then(Value::as_i64)
        .and_then(mcp::ErrorCode::parse)
}

fn is_error(answer: &Value) -> bool {
    answer.pointer("/result/isError") == Some(&Value::Bool(true))
}

/// One line about an answer: what it says, and the receipt of a refusal.
fn outcome(answer: &Value) -> String {
    let text = ["/error/message", "/result/content/0/text"]
        .iter()
        .find_map(|place| answer.pointer(place)?.as_str());
    let receipt = ["/error/data/receipt_id", "/result/_meta/portreeve~1decision/receipt_id"];
    match receipt.iter().find_map(|place| answer.pointer(place)?.as_str()) {
        Some(receipt) => format!("{} (receipt {receipt})", text.unwrap_or_default()),
        None => text.unwrap_or_default().to_owned(),
    }
}

impl Client {
    async fn connect(started: &Started, token: &str) -> anyhow::Result<Self> {
        let whereabouts = started.whereabouts();
        let ca = whereabouts.ca.as_ref().context("the demo has a local CA")?;
        let certificate = reqwest::Certificate::from_pem(&std::fs::read(ca)?)?;
        let http = reqwest::Client::builder()
            .tls_certs_only([certificate])
            .no_proxy()
            .build()?;
        let mut client = Self {
            http,
            url: whereabouts.mcp.clone(),
            token: token.to_owned(),
            session: String::new(),
        };
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tour", "version": "1"}});
        let response = client
            .post(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}))
            .await?;
        let session = response
            .headers()
            .get("mcp-session-id")
            .context("no session was opened")?;
        client.session = session.to_str()?.to_owned();
        client
            .post(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await?;
        Ok(client)
    }

    async fn post(&self, message: Value) -> anyhow::Result<reqwest::Response> {
        let mut request = self
            .http
            .post(&self.url)
            .bearer_auth(&self.token)
            .header("accept", "application/json, text/event-stream")
            .json(&message);
        if !self.session.is_empty() {
            request = request
                .header("mcp-session-id", &self.session)
                .header("mcp-protocol-version", "2025-11-25");
        }
        Ok(request.send().await?)
    }

    async fn ask(&self, method: &str, params: Value) -> anyhow::Result<Value> {
        let response = self
            .post(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
            .await?;
        Ok(response.json().await?)
    }

    async fn tools(&self) -> anyhow::Result<Vec<String>> {
        let answer = self.ask("tools/list", json!({})).await?;
        let tools = answer
            .pointer("/result/tools")
            .and_then(Value::as_array)
            .context("no list came")?;
        Ok(tools
            .iter()
            .filter_map(|tool| Some(tool.get("name")?.as_str()?.to_owned()))
            .collect())
    }

    async fn call(&self, name: &str, arguments: Value) -> anyhow::Result<Value> {
        self.ask("tools/call", json!({"name": name, "arguments": arguments}))
            .await
    }
}
