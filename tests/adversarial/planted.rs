//! A caller's own credential, planted wherever something leaves toward a server, in every disguise it can be told in. It is
//! blocked, the record says so, and nothing of it arrives.

use serde_json::{Value, json};

use crate::support::environment::repository;
use crate::support::harbour::everything;
use crate::support::issuer::base64url;
use crate::support::peer::ran;
use crate::support::{Agent, Answer, Beat, Gateway, Harbour, Modern, Speaks, Town, Turn, eventually};

/// The members of a JSON object, each of which holds the token in another disguise; as raw JSON strings.
fn disguises(token: &str) -> Vec<(&'static str, String)> {
    let hex: String = token.bytes().map(|byte| format!("{byte:02x}")).collect();
    let percent: String = token.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let escaped: String = token.chars().map(|c| format!("\\u{:04x}", c as u32)).collect();
    let url64 = |ahead: &str| base64url(format!("{ahead}{token}").as_bytes());
    let plain64 = |ahead: &str| url64(ahead).replace('-', "+").replace('_', "/");
    let lines: Vec<String> = plain64("")
        .as_bytes()
        .chunks(76)
        .map(|line| String::from_utf8(line.to_vec()).unwrap())
        .collect();
    let middle = token.len() / 2;
    vec![
        ("as it is", token.to_owned()),
        ("with its scheme", format!("Bearer {token}")),
        ("in a sentence", format!("my token is {token}, keep it")),
        ("in a URL", format!("https://api.example/?access_token={token}&x=1")),
        (
            "sixteen bytes from within",
            token.get(middle..middle + 16).unwrap().to_owned(),
        ),
        (
            "its last sixteen bytes",
            token.get(token.len() - 16..).unwrap().to_owned(),
        ),
        ("hexadecimal", hex.clone()),
        ("capital hexadecimal", hex.to_uppercase()),
        ("percent", percent.clone()),
        ("small percent", percent.to_lowercase()),
        ("percent for dots", token.replace('.', "%2e")),
        ("percent of percent", token.replace('J', "%254A")),
        ("JSON escapes", escaped.clone()),
        ("JSON escapes for some", token.replace('e', "\\u0065")),
        ("JSON in JSON", format!("{{\\\"token\\\":\\\"{token}\\\"}}")),
        ("escapes of escapes", escaped.replace('\\', "\\\\")),
        ("base64", plain64("")),
        ("base64 after one byte", plain64("x")),
        ("base64 after two bytes", plain64("xy")),
        ("basic authentication", format!("Basic {}", plain64("user:"))),
        ("base64 with slashes escaped", plain64("").replace('/', "\\/")),
        ("base64 for URLs", url64("")),
        ("base64 for URLs after one byte", url64("x")),
        ("base64 in lines", lines.join("\\r\\n")),
    ]
}

/// No sixteen bytes of a token are in a text, as they are, in hexadecimal or in base64.
fn has_nothing_of(token: &str, text: &str) {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let small = text.to_lowercase();
    for window in token.as_bytes().windows(16) {
        let piece = std::str::from_utf8(window).unwrap();
        assert!(!text.contains(piece), "{piece} in {text}");
        assert!(!small.contains(&hex(window)), "{piece} in {text}");
    }
    for ahead in ["", "x", "xy"] {
        let spelled = base64url(format!("{ahead}{token}").as_bytes());
        // The first characters hold bits of what stands ahead.
        for window in spelled.as_bytes()[4..].windows(24) {
            let piece = std::str::from_utf8(window).unwrap();
            let plain = piece.replace('-', "+").replace('_', "/");
            assert!(!text.contains(piece) && !text.contains(&plain), "{piece} in {text}");
        }
    }
}

/// Blocked, said so, and on record.
fn blocked(gateway: &Gateway, answer: &Answer, case: &str) {
    assert_eq!(answer.error_code(), -32003, "{case}: {}", answer.text());
    assert_eq!(answer.reason_codes(), ["DENY_PASSTHROUGH_BLOCKED"], "{case}");
    assert_eq!(answer.decision()["decision"], "deny", "{case}");
    let receipt = gateway.receipt_named_by(answer);
    assert_eq!(receipt["token_handling"]["mode"], "blocked", "{case}: {receipt}");
    assert_eq!(receipt["token_handling"]["passthrough_detected"], false, "{case}");
    assert_eq!(receipt["outcome"]["executed"], false, "{case}");
    assert_eq!(receipt["outcome"]["status"], "error", "{case}");
    assert_eq!(receipt["decision"]["result"], "deny", "{case}");
}

/// Everything that arrived, with its headers.
fn arrived(harbour: &Harbour) -> String {
    let seen: Vec<String> = harbour.peer.seen().iter().map(|seen| format!("{seen:?}")).collect();
    seen.join("\n")
}

async fn harbour(speaks: Speaks) -> Harbour {
    let harbour = Harbour::with(speaks, &["work", "ask"], |setup| setup).await;
    harbour.peer.always("work", Turn::Result(ran("work")));
    harbour
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callers_own_credential_leaves_in_no_disguise_whatever_the_eras() {
    // R130, R122, R128, R181
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let harbour = harbour(speaks).await;
        let (ann, bob) = (harbour.issuer.token("ann"), harbour.issuer.token("bob"));
        let legacy = Agent::connect(&harbour.gateway, "/mcp/peer", &ann).await;
        let modern = Modern::new(&harbour.gateway, "/mcp/peer", &bob);
        let allowed = json!({"text": "an honest word, 100% of it", "path": "Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MA=="});
        assert_eq!(
            legacy.call("work", allowed.clone()).await.result()["content"][0]["text"],
            "work ran"
        );
        assert_eq!(
            modern.call("work", allowed).await.result()["content"][0]["text"],
            "work ran"
        );
        let before = harbour.peer.asked("tools/call").len();
        for (name, disguised) in disguises(&ann) {
            let answer = legacy.call_raw("work", &format!("{{\"text\":\"{disguised}\"}}")).await;
            blocked(&harbour.gateway, &answer, &format!("{speaks:?}, {name}"));
        }
        for (name, disguised) in disguises(&bob) {
            let body = modern.body("tools/call", json!({"name": "work", "arguments": {"text": "HERE"}}));
            let body = body.to_string().replace("HERE", &disguised);
            let ask = modern.ask_raw("tools/call", body).header("Mcp-Name", "work");
            blocked(
                &harbour.gateway,
                &modern.submit(ask).await,
                &format!("{speaks:?}, modern, {name}"),
            );
        }
        assert_eq!(harbour.peer.asked("tools/call").len(), before, "nothing was sent");
        // Another caller's business is not ours to guess: what is blocked is one's own.
        for token in [&ann, &bob] {
            has_nothing_of(token, &arrived(&harbour));
            has_nothing_of(token, &harbour.gateway.logs());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_leaves_by_no_side_path_of_a_request() {
    // R130
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let harbour = harbour(speaks).await;
        harbour.peer.list("prompts", &[json!({"name": "p"})]);
        harbour.peer.list("resources", &[json!({"uri": "a:mine", "name": "r"})]);
        let token = harbour.issuer.token("ann");
        let ann = Agent::connect(&harbour.gateway, "/mcp/peer", &token).await;
        let modern = Modern::new(&harbour.gateway, "/mcp/peer", &token);
        let reference = json!({"type": "ref/prompt", "name": "p"});
        for (method, params) in [
            (
                "tools/call",
                json!({"name": "work", "arguments": {"nested": {"inner": [{"x": [[token]]}]}}}),
            ),
            (
                "tools/call",
                json!({"name": "work", "arguments": {}, "x": {"y": [token]}}),
            ),
            (
                "tools/call",
                json!({"name": "work", "arguments": {}, "_meta": {"x/y": token}}),
            ),
            (
                "tools/call",
                json!({"name": "work", "arguments": {}, "_meta": {"x/y": {"z": [base64url(token.as_bytes())]}}}),
            ),
            ("resources/read", json!({"uri": format!("a:{token}")})),
            ("prompts/get", json!({"name": "p", "arguments": {"a": token}})),
            (
                "completion/complete",
                json!({"ref": reference, "argument": {"name": "a", "value": token}}),
            ),
        ] {
            let case = format!("{speaks:?} {method} {params}");
            blocked(&harbour.gateway, &ann.request(method, params.clone()).await, &case);
            if params.get("_meta").is_none() {
                blocked(&harbour.gateway, &modern.request(method, params).await, &case);
            }
        }
        let saying = modern.clone().saying(json!({"x/y": token}));
        blocked(&harbour.gateway, &saying.call("work", json!({})).await, "modern _meta");
        assert_eq!(harbour.peer.asked("tools/call").len(), 0);
        has_nothing_of(&token, &arrived(&harbour));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_leaves_in_no_answer_to_a_servers_question() {
    // R130
    let form = json!({"mode": "form", "message": "who?",
        "requestedSchema": {"type": "object", "properties": {"a": {"type": "string"}}}});
    let harbour = harbour(Speaks::Legacy).await;
    let beats = vec![Beat::ask("q", "elicitation/create", form), Beat::result(&ran("ask"))];
    harbour.peer.always("ask", Turn::Stream(beats));
    let (first, second) = (harbour.issuer.token("ann"), harbour.issuer.token("ann"));
    let declared = json!({"capabilities": everything()});
    let ann = Agent::declaring(&harbour.gateway, "/mcp/peer", &first, declared).await;
    // The answer comes with a newer token of the same person, and either may be in it.
    let mut renewed = Agent::connect(&harbour.gateway, "/mcp/peer", &second).await;
    renewed.session.clone_from(&ann.session);
    // Only the signatures differ in more than a few places.
    let (of_first, of_second) = (first.rsplit('.').next().unwrap(), second.rsplit('.').next().unwrap());
    for planted in [of_first, of_second] {
        let mut stream = ann.follow("tools/call", json!({"name": "ask"})).await;
        let put = stream.until("elicitation/create").await;
        let answered = renewed
            .answer(&put["id"], json!({"action": "accept", "content": {"a": planted}}))
            .await;
        if planted == of_second {
            assert_eq!(answered.status, 403, "{}", answered.text());
            blocked(&harbour.gateway, &answered, "an answer");
        }
        stream.answer().await;
        let told = harbour.peer.answer_to("q").unwrap();
        assert!(told["error"]["message"].is_string(), "{told}");
        has_nothing_of(planted, &told.to_string());
    }
    let codes = harbour.gateway.receipts_after(0);
    let questions: Vec<&Value> = codes
        .iter()
        .filter(|record| record["mcp"]["method"] == "elicitation/create")
        .collect();
    assert!(
        questions.iter().any(|record| record["decision"]["reason_codes"]
            .to_string()
            .contains("DENY_PASSTHROUGH_BLOCKED")),
        "{questions:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn it_leaves_in_no_answer_that_comes_with_another_request() {
    // R130
    let form = json!({"mode": "form", "message": "who?",
        "requestedSchema": {"type": "object", "properties": {"a": {"type": "string"}}}});
    let harbour = harbour(Speaks::Legacy).await;
    let beats = vec![Beat::ask("q", "elicitation/create", form), Beat::result(&ran("ask"))];
    harbour.peer.always("ask", Turn::Stream(beats));
    let first = harbour.issuer.token("ann");
    let modern = Modern::new(&harbour.gateway, "/mcp/peer", &first).able(everything());
    let asked = modern.call("ask", json!({})).await.result();
    let key = asked["inputRequests"]
        .as_object()
        .unwrap()
        .keys()
        .next()
        .unwrap()
        .clone();
    let answers = json!({key: {"action": "accept", "content": {"a": first}}});
    let again =
        json!({"name": "ask", "arguments": {}, "inputResponses": answers, "requestState": asked["requestState"]});
    let refused = modern.request("tools/call", again).await;
    assert_eq!(
        refused.reason_codes(),
        ["DENY_PASSTHROUGH_BLOCKED"],
        "{}",
        refused.text()
    );
    has_nothing_of(&first, &arrived(&harbour));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_own_credential_is_the_callers_is_not_called_with_it() {
    // R130, R126
    let mut town = Town::with(&["read"], |setup| setup).await;
    let home = &town.gateway.home;
    let created = |sub: &str| home.agent_token(&["--sub", sub])["token"].as_str().unwrap().to_owned();
    let (robot, other) = (created("robot"), created("other"));
    std::fs::write(home.path("key"), &robot).unwrap();
    for credential in [
        json!({"secret": "file:key"}),
        json!({"secret": "file:key", "header": "x-api-key"}),
        json!({"secret": "file:key", "header": "authorization", "scheme": "Basic"}),
    ] {
        town = town
            .restarted_with(|setup| setup.set("servers.files.credential", credential.clone()))
            .await;
        let before = town.files.seen().len();
        // Somebody else's key is the operator's business.
        let agent = Agent::connect(&town.gateway, "/mcp/files", &other).await;
        assert_eq!(agent.call("read", json!({})).await.result()["isError"], false);
        let agent = Agent::connect(&town.gateway, "/mcp/files", &robot).await;
        let calls = town.files.calls().len();
        blocked(
            &town.gateway,
            &agent.call("read", json!({})).await,
            &credential.to_string(),
        );
        assert_eq!(town.files.calls().len(), calls, "nothing was sent");
        assert!(town.files.seen().len() > before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_was_started_with_the_callers_credential_is_not_spoken_to() {
    // R130
    let diary = repository().join("tests/end_to_end/stdio");
    let command = json!(["/usr/bin/python3", diary.join("diary.py")]);
    let process = json!({"command": command, "trust": "internal", "sandbox": {"read": [diary]}});
    let town = Town::with(&["read"], |setup| setup.set("servers.process", process)).await;
    let mut home = town.gateway.stop().await;
    let robot = home.agent_token(&["--sub", "robot"])["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let other = home.agent_token(&["--sub", "other"])["token"]
        .as_str()
        .unwrap()
        .to_owned();
    std::fs::write(home.path("key"), &robot).unwrap();
    home.rewrite(|setup| setup.set("servers.process.sandbox.env", json!({"KEY": "file:key"})));
    let gateway = home.serve().await;
    let agent = Agent::connect(&gateway, "/mcp/process", &other).await;
    eventually("the process is listed", 60, async || {
        agent.names().await.contains(&"tell".to_owned())
    })
    .await;
    // Somebody else's key is the operator's business.
    assert_eq!(
        agent.call("tell", json!({"what": "x"})).await.result()["isError"],
        Value::Null
    );
    let robots = Agent::connect(&gateway, "/mcp/process", &robot).await;
    blocked(
        &gateway,
        &robots.call("tell", json!({"what": "x"})).await,
        "launch environment",
    );
    // And what is said to a process is looked at like what is sent elsewhere.
    for (name, disguised) in disguises(&other) {
        let answer = agent.call_raw("tell", &format!("{{\"what\":\"{disguised}\"}}")).await;
        blocked(&gateway, &answer, name);
    }
    let heard = agent.call("confess", json!({})).await.result()["content"][0]["text"].to_string();
    has_nothing_of(&other, &heard);
}
