//! The OpenAPI document, generated from the table of routes.

use serde_json::{Map, Value, json};

use crate::api::{BASE, Effect, ROUTES, Route};

/// The document of this API, as served at `/api/v1/openapi.json`.
#[must_use]
pub fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let item = paths
            .entry(format!("{BASE}{}", route.path))
            .or_insert_with(|| json!({}));
        if let Some(item) = item.as_object_mut() {
            item.insert(route.verb.as_str().to_owned(), operation(route));
        }
    }
    let schemas: Map<String, Value> = SCHEMAS
        .iter()
        .map(|(name, text)| ((*name).to_owned(), schema(text)))
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Portreeve admin API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "See and steer a gateway. Every change and every refusal leaves an `admin` record.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "security": [{ "adminToken": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "adminToken": { "type": "http", "scheme": "bearer", "description": "An admin token, `ptr_adm_…`." },
            },
            "schemas": schemas,
        },
    })
}

fn operation(route: &Route) -> Value {
    let answer = |description: &str, name: &str| {
        json!({
            "description": description,
            "content": { "application/json": { "schema": { "$ref": format!("#/components/schemas/{name}") } } },
        })
    };
    let success = if route.answer.starts_with("Created") {
        "201"
    } else {
        "200"
    };
    let mut operation = json!({
        "operationId": operation_id(route),
        "summary": route.summary,
        "parameters": parameters(route),
        "x-portreeve-role": route.needs.as_str(),
        "responses": {
            success: answer("Done.", route.answer),
            "401": answer("No admin token, or not a good one.", "Error"),
            "403": answer("Another host, a foreign page, or a role that does not reach.", "Error"),
            "429": answer("Too many requests in a short time.", "Error"),
            "default": answer("Refused or failed.", "Error"),
        },
    });
    if let Some(members) = operation.as_object_mut() {
        if let Some(name) = route.body {
            let required = !matches!(name, "Approval" | "Word");
            let schema = json!({ "$ref": format!("#/components/schemas/{name}") });
            let body = json!({ "required": required, "content": { "application/json": { "schema": schema } } });
            members.insert("requestBody".to_owned(), body);
        }
        if let Effect::Changes(action) = route.effect {
            members.insert("x-portreeve-action".to_owned(), action.into());
        }
    }
    operation
}

/// `getToolsServerTool`: the verb and the path, in one word.
fn operation_id(route: &Route) -> String {
    let mut id = route.verb.as_str().to_owned();
    for word in route
        .path
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
    {
        let mut letters = word.chars();
        id.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        id.push_str(letters.as_str());
    }
    id
}

fn parameters(route: &Route) -> Vec<Value> {
    let in_path = route
        .path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path =
        in_path.map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }));
    let in_query = route.query.iter().map(|(name, about)| {
        json!({ "name": name, "in": "query", "required": false, "description": about, "schema": { "type": "string" } })
    });
    in_path.chain(in_query).collect()
}

fn schema(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or(Value::Null)
}

/// The shapes of bodies and answers, by name.
const SCHEMAS: &[(&str, &str)] = &[
    (
        "Error",
        r#"{"type":"object","required":["error"],"properties":{"error":{"type":"object","required":["code","message"],"properties":{"code":{"type":"string"},"message":{"type":"string"},"faults":{"type":"array","items":{"type":"string"}}}}}}"#,
    ),
    (
        "Status",
        r#"{"type":"object","required":["version","running","mcp","started","log","last_seq","ledger_healthy","servers","tools","policies","policy_set","epoch"],"properties":{"version":{"type":"string"},"running":{"type":"boolean"},"mcp":{"type":["string","null"]},"started":{"type":["string","null"],"format":"date-time"},"log":{"type":"string"},"last_seq":{"type":"integer"},"ledger_healthy":{"type":"boolean"},"servers":{"type":"integer"},"tools":{"type":"integer"},"policies":{"type":"integer"},"policy_set":{"type":"string"},"epoch":{"type":"integer"}}}"#,
    ),
    (
        "LedgerKey",
        r#"{"type":"object","required":["vkey"],"properties":{"vkey":{"type":"string","description":"The new key, as C2SP spells public keys."}}}"#,
    ),
    (
        "Kept",
        r#"{"type":"object","description":"The arguments, or the JSON-RPC message that was the answer."}"#,
    ),
    (
        "Erasure",
        r#"{"type":"object","additionalProperties":false,"required":["reason"],"properties":{"reason":{"type":"string","minLength":1,"maxLength":500}}}"#,
    ),
    (
        "Erased",
        r#"{"type":"object","required":["id","erased"],"properties":{"id":{"type":"string"},"erased":{"type":"integer"}}}"#,
    ),
    (
        "Token",
        r#"{"type":"object","required":["id","kind","sub","actor_type","client_id","org_id","groups","servers","run","standing","created","expires","revoked"],"properties":{"id":{"type":"string"},"kind":{"enum":["agent","admin"]},"sub":{"type":"string"},"actor_type":{"enum":["user","agent","system"]},"client_id":{"type":["string","null"]},"org_id":{"type":["string","null"]},"groups":{"type":"array","items":{"type":"string"}},"servers":{"type":"array","items":{"type":"string"},"description":"`*` stands for every server that policy allows."},"run":{"type":["string","null"],"description":"The harness run it was made for."},"standing":{"enum":["live","expired","revoked"]},"created":{"type":"string","format":"date-time"},"expires":{"type":"string","format":"date-time"},"revoked":{"type":["string","null"],"format":"date-time"}}}"#,
    ),
    (
        "Tokens",
        r##"{"type":"object","required":["tokens"],"properties":{"tokens":{"type":"array","items":{"$ref":"#/components/schemas/Token"}}}}"##,
    ),
    (
        "NewToken",
        r#"{"type":"object","additionalProperties":false,"required":["sub"],"properties":{"sub":{"type":"string"},"actor":{"enum":["user","agent","system"],"default":"agent"},"client_id":{"type":"string"},"org_id":{"type":"string"},"groups":{"type":"array","items":{"type":"string"}},"servers":{"type":"array","minItems":1,"items":{"type":"string"}},"ttl_seconds":{"type":"integer","minimum":1,"maximum":31622400,"default":3600},"run":{"type":"string","description":"The harness run it is for; receipts of its calls carry it."}}}"#,
    ),
    (
        "CreatedToken",
        r#"{"type":"object","required":["id","token","expires"],"properties":{"id":{"type":"string"},"token":{"type":"string","description":"Shown here and nowhere else."},"expires":{"type":"string","format":"date-time"}}}"#,
    ),
    (
        "Admin",
        r#"{"type":"object","required":["id","name","role","standing","created","expires","revoked"],"properties":{"id":{"type":"string"},"name":{"type":"string"},"role":{"enum":["viewer","approver","operator"]},"standing":{"enum":["live","expired","revoked"]},"created":{"type":"string","format":"date-time"},"expires":{"type":"string","format":"date-time"},"revoked":{"type":["string","null"],"format":"date-time"}}}"#,
    ),
    (
        "Admins",
        r##"{"type":"object","required":["admins"],"properties":{"admins":{"type":"array","items":{"$ref":"#/components/schemas/Admin"}}}}"##,
    ),
    (
        "NewAdmin",
        r#"{"type":"object","additionalProperties":false,"required":["name","role"],"properties":{"name":{"type":"string","description":"The person's name, as records show it."},"role":{"enum":["viewer","approver","operator"]},"ttl_seconds":{"type":"integer","minimum":1,"maximum":31622400,"default":7776000}}}"#,
    ),
    (
        "CreatedAdmin",
        r#"{"type":"object","required":["id","token","name","role","expires"],"properties":{"id":{"type":"string"},"token":{"type":"string","description":"Shown here and nowhere else."},"name":{"type":"string"},"role":{"enum":["viewer","approver","operator"]},"expires":{"type":"string","format":"date-time"}}}"#,
    ),
    (
        "Record",
        r#"{"type":"object","required":["v","type","log","seq","ts","prev_hash","record_hash"]}"#,
    ),
    (
        "Records",
        r##"{"type":"object","required":["records"],"properties":{"records":{"type":"array","items":{"$ref":"#/components/schemas/Record"}},"index_behind":{"type":"boolean","description":"The newest records may be missing: the index of the log could not be written."}}}"##,
    ),
    (
        "Summary",
        r#"{"type":"object","required":["summary"],"properties":{"summary":{"type":"array","items":{"type":"object","required":["key","calls","allowed","denied","errors","pending","p50_us","p99_us"],"properties":{"key":{"type":"string","description":"`-` where a record names none; `*` for all."},"bucket":{"type":"string","format":"date-time","description":"When its stretch of time begins; there only where one was asked for."},"calls":{"type":"integer","description":"The sum of the next four."},"allowed":{"type":"integer"},"denied":{"type":"integer"},"errors":{"type":"integer"},"pending":{"type":"integer"},"p50_us":{"type":["integer","null"]},"p99_us":{"type":["integer","null"]}}}},"index_behind":{"type":"boolean","description":"The newest records may be missing: the index of the log could not be written."}}}"#,
    ),
    (
        "Reindexed",
        r#"{"type":"object","required":["records"],"properties":{"records":{"type":"integer","description":"How many records the log has."}}}"#,
    ),
    (
        "Tool",
        r#"{"type":"object","required":["id","kind","server","name","risk","risk_source","trust","standing","cause","definition_hash","approved_hash","output_schema"],"properties":{"id":{"type":"string"},"kind":{"enum":["tool","prompt","resource","template","instructions"]},"server":{"type":"string"},"name":{"type":"string"},"risk":{"enum":["low","medium","high","critical"]},"risk_source":{"enum":["operator","hint","pattern","default"]},"trust":{"enum":["internal","verified","community","unknown"]},"standing":{"enum":["approved","quarantined","disabled"]},"cause":{"type":["string","null"]},"server_identity":{"type":["object","null"],"description":"Of whom it was approved and who offers it now, where these are two servers.","properties":{"approved":{"type":"string"},"now":{"type":"string"}}},"definition_hash":{"type":"string"},"approved_hash":{"type":["string","null"]},"output_schema":{"type":"string"},"hints":{"type":"object"},"classified":{"type":["object","null"],"description":"Who classified it while the gateway ran, and when."},"disabled":{"type":["object","null"],"description":"Who disabled it, and when."}}}"#,
    ),
    (
        "Tools",
        r##"{"type":"object","required":["tools"],"properties":{"tools":{"type":"array","items":{"$ref":"#/components/schemas/Tool"}}}}"##,
    ),
    (
        "ToolInFull",
        r##"{"allOf":[{"$ref":"#/components/schemas/Tool"},{"type":"object","required":["definition"],"properties":{"definition":{"description":"As the server sent it."}}}]}"##,
    ),
    (
        "Approval",
        r#"{"type":"object","additionalProperties":false,"properties":{"definition_hash":{"type":"string","description":"The definition that was looked at; if the server has changed it since, nothing is approved."}}}"#,
    ),
    (
        "ApprovalAsked",
        r#"{"type":"object","required":["id","state","principal","issuer","client_id","org_id","server","tool","risk","policy_id","args_hash","plan_hash","definition_hash","created","expires","decided_by","decided_at","reason","step_up","arguments"],"properties":{"id":{"type":"string"},"state":{"enum":["pending","approved","denied","expired","used","void"]},"principal":{"type":"string","description":"The `sub` of who asked."},"issuer":{"type":"string"},"client_id":{"type":["string","null"]},"org_id":{"type":["string","null"]},"server":{"type":"string"},"tool":{"type":"string"},"risk":{"enum":["low","medium","high","critical"]},"policy_id":{"type":"string"},"args_hash":{"type":"string"},"plan_hash":{"type":"string"},"definition_hash":{"type":"string"},"created":{"type":"string","format":"date-time"},"expires":{"type":"string","format":"date-time"},"decided_by":{"type":["string","null"]},"decided_at":{"type":["string","null"],"format":"date-time"},"reason":{"type":["string","null"]},"step_up":{"enum":["mfa","none"]},"arguments":{"type":["object","null"],"description":"While it waits, and for approvers: hidden characters as `<U+202E>`, long texts folded."}}}"#,
    ),
    (
        "ApprovalInFull",
        r##"{"allOf":[{"$ref":"#/components/schemas/ApprovalAsked"},{"type":"object","required":["last_approved","changes"],"properties":{"last_approved":{"type":["string","null"],"format":"date-time","description":"When the same caller's last approved call of this tool was approved."},"changes":{"type":["array","null"],"description":"What differs from that call.","items":{"type":"object","required":["path","kind","old","new"],"properties":{"path":{"type":"string","description":"A JSON pointer into the arguments."},"kind":{"enum":["added","removed","changed"]},"old":true,"new":true}}}}}]}"##,
    ),
    (
        "Approvals",
        r##"{"type":"object","required":["approvals"],"properties":{"approvals":{"type":"array","items":{"$ref":"#/components/schemas/ApprovalAsked"}}}}"##,
    ),
    (
        "Word",
        r#"{"type":"object","additionalProperties":false,"properties":{"reason":{"type":"string","maxLength":500}}}"#,
    ),
    (
        "CreatedIncident",
        r#"{"type":"object","required":["id","stage","scope","reason","started","started_by","expires","end_wanted_by"],"properties":{"id":{"type":"string"},"stage":{"enum":["heightened","contain","lockdown"]},"scope":{"type":"string"},"reason":{"type":"string"},"started":{"type":"string","format":"date-time"},"started_by":{"type":"string"},"expires":{"type":["string","null"],"format":"date-time"},"end_wanted_by":{"type":["string","null"],"description":"Who wants it to end, where a second person has to say so too."}}}"#,
    ),
    (
        "EndedIncident",
        r##"{"allOf":[{"$ref":"#/components/schemas/CreatedIncident"},{"type":"object","required":["ended"],"properties":{"ended":{"type":"boolean","description":"Whether it is over."}}}]}"##,
    ),
    (
        "Incidents",
        r##"{"type":"object","required":["incidents"],"properties":{"incidents":{"type":"array","items":{"$ref":"#/components/schemas/CreatedIncident"}}}}"##,
    ),
    (
        "NewIncident",
        r#"{"type":"object","additionalProperties":false,"required":["reason"],"properties":{"stage":{"enum":["heightened","contain","lockdown"],"default":"contain"},"scope":{"type":"string","description":"`all`, `server:ID`, `tool:SERVER/NAME`, `principal:SUB`, `client:ID` or `risk:R` (calls of that risk and above).","default":"all"},"reason":{"type":"string","minLength":1,"maxLength":500},"ttl":{"type":["string","null"],"pattern":"^[0-9]+[smhd]$"}}}"#,
    ),
    (
        "Why",
        r#"{"type":"object","additionalProperties":false,"required":["reason"],"properties":{"reason":{"type":"string","minLength":1,"maxLength":500}}}"#,
    ),
    (
        "Diff",
        r#"{"type":"object","required":["id","kind","old_hash","new_hash","changes"],"properties":{"id":{"type":"string"},"kind":{"enum":["tool","prompt","resource","template","instructions"]},"old_hash":{"type":["string","null"]},"new_hash":{"type":"string"},"server_identity":{"type":["object","null"],"description":"Of whom it was approved and who offers it now, where these are two servers.","properties":{"approved":{"type":"string"},"now":{"type":"string"}}},"note":{"type":["string","null"]},"old_risk":{"type":["string","null"]},"new_risk":{"type":"string"},"changes":{"type":"array","items":{"type":"object","required":["path","kind","old","new"],"properties":{"path":{"type":"string","description":"A JSON pointer into the definition."},"kind":{"enum":["added","removed","narrowed","widened","reworded","flipped","other"]},"old":true,"new":true}}}}}"#,
    ),
    (
        "Classification",
        r#"{"type":"object","additionalProperties":false,"required":["risk"],"properties":{"risk":{"enum":["low","medium","high","critical"]}}}"#,
    ),
    ("Nothing", r#"{"type":"object","additionalProperties":false}"#),
    (
        "Server",
        r#"{"type":"object","required":["id","url","trust","reach","reason","discovered","tools","quarantined"],"properties":{"id":{"type":"string"},"url":{"type":"string"},"trust":{"type":["string","null"]},"reach":{"enum":["unknown","up","degraded","down"]},"reason":{"type":["string","null"]},"ending":{"type":["string","null"],"description":"How its process ended."},"stderr":{"type":["array","null"],"items":{"type":"string"},"description":"The last lines its process wrote to standard error, without secrets."},"log":{"type":["string","null"]},"hints":{"type":["array","null"],"items":{"type":"string"}},"discovered":{"type":["string","null"],"format":"date-time"},"tools":{"type":"integer"},"quarantined":{"type":"integer"},"tier":{"type":["string","null"],"enum":["A","B","none",null]},"approved_as":{"type":["string","null"],"description":"The server that what it offers was approved of, where that is another."},"eras":{"type":["array","null"],"items":{"enum":["legacy","modern"]}},"standings":{"type":"object","description":"By kind, how many are approved, quarantined and disabled.","additionalProperties":{"type":"object","additionalProperties":{"type":"integer"}}}}}"#,
    ),
    (
        "Servers",
        r##"{"type":"object","required":["servers"],"properties":{"servers":{"type":"array","items":{"$ref":"#/components/schemas/Server"}}}}"##,
    ),
    (
        "Limit",
        r#"{"type":"object","required":["kind","per","key","used","calls","window","methods","resets"],"properties":{"kind":{"enum":["rate","quota"]},"per":{"description":"What is counted apart: one word, or a list.","anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]},"key":{"description":"Whose count it is: a name for each of `per`; `(others)` where several share one.","anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]},"used":{"type":"integer"},"calls":{"type":"integer"},"window":{"type":"string"},"methods":{"enum":["calls","lists","all"]},"resets":{"type":"string","format":"date-time","description":"When nothing counts any more, if there are no further requests."}}}"#,
    ),
    (
        "Limits",
        r##"{"type":"object","required":["limits"],"properties":{"limits":{"type":"array","items":{"$ref":"#/components/schemas/Limit"}}}}"##,
    ),
    (
        "Question",
        r#"{"type":"object","additionalProperties":false,"required":["principal","server","tool"],"properties":{"principal":{"type":"object","additionalProperties":false,"required":["sub"],"properties":{"sub":{"type":"string"},"actor":{"enum":["user","agent","system"],"default":"agent"},"authn":{"enum":["jwt","token","mtls"],"default":"token"},"client_id":{"type":"string"},"org_id":{"type":"string"},"groups":{"type":"array","items":{"type":"string"}},"claims":{"type":"object"}}},"server":{"type":"string"},"tool":{"type":"string"},"arguments":{"type":"object"},"address":{"type":"string","default":"127.0.0.1"}}}"#,
    ),
    (
        "Explanation",
        r#"{"type":"object","required":["decision","policy_id","reason_code","told_to_caller","visible","policies","policy_set","epoch"],"properties":{"decision":{"enum":["allow","deny","require_approval"]},"policy_id":{"type":"string"},"reason_code":{"type":"string"},"told_to_caller":{"type":"string"},"visible":{"type":"boolean"},"standing":{"enum":["approved","quarantined","disabled","not_offered","undiscovered","server_not_configured"],"description":"What is known of the tool. An undiscovered one is explained as if it were offered, with the risk the operator says, or high."},"policies":{"type":"array","items":{"type":"object","required":["policy_id","effect","finding","error"]}},"policy_set":{"type":"string"},"epoch":{"type":"integer"}}}"#,
    ),
    (
        "ReloadOrder",
        r#"{"type":"object","additionalProperties":false,"properties":{"only_if_changed":{"type":"boolean","default":false,"description":"Only if the files say something else than what is in force."}}}"#,
    ),
    (
        "Reloaded",
        r#"{"type":"object","required":["reloaded","warnings"],"properties":{"reloaded":{"const":true},"warnings":{"type":"array","items":{"type":"string"}}}}"#,
    ),
    (
        "HarnessRecord",
        r#"{"type":"object","description":"A record of a harness run, as the harness of this machine hands it in.","required":["type"],"properties":{"type":{"enum":["harness_attempt","harness_result","egress","admin"]}}}"#,
    ),
    (
        "Recorded",
        r#"{"type":"object","required":["recorded"],"properties":{"recorded":{"const":true}}}"#,
    ),
    ("OpenApi", r#"{"type":"object"}"#),
];
