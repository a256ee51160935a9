//! Who sees what: lists follow from the policies, and what is hidden is as if it were not there.

use serde_json::{Value, json};

use crate::support::agent::Answer;
use crate::support::issuer::{but, claims};
use crate::support::records::canonical_hash;
use crate::support::{Agent, Harbour, Issuer, Server, Setup, Speaks, Town, eventually, tool};

const TWO_PRINCIPALS: &str = r#"
    @id("ann-reads") permit (principal == User::"ann", action == Action::"tools/call", resource == Tool::"files/read");
    @id("bob-reads") permit (principal == User::"bob", action == Action::"tools/call", resource == Tool::"files/read");
    @id("bob-writes") permit (principal == User::"bob", action == Action::"tools/call", resource == Tool::"files/write");"#;

#[tokio::test(flavor = "multi_thread")]
async fn two_principals_see_different_lists() {
    // R111, R115, R189, R190
    let town = Town::with(&["read", "write"], |setup| setup.policy(TWO_PRINCIPALS)).await;
    assert_eq!(town.agent("ann").await.names().await, ["read"]);
    assert_eq!(town.agent("bob").await.names().await, ["read", "write"]);
    assert_eq!(town.agent("eve").await.names().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_what_is_listed_can_be_called() {
    // R111, R120
    let policy = r#"
        permit (principal == User::"ann", action == Action::"tools/call", resource in Server::"files") when { resource.risk == "low" };
        permit (principal in Group::"ops", action == Action::"tools/call", resource == Tool::"files/delete");
        permit (principal, action == Action::"tools/call", resource == Tool::"files/text") when { context.args has text };
        permit (principal, action == Action::"resources/read", resource);
        forbid (principal == User::"eve", action, resource);
        permit (principal == User::"eve", action, resource);"#;
    let tools = ["read", "write", "delete", "text", "other"];
    let town = Town::with(&tools, |setup| {
        setup
            .policy(policy)
            .risk("files/read", "low")
            .risk("files/write", "low")
    })
    .await;
    let people = [
        ("ann", json!([])),
        ("bob", json!(["ops"])),
        ("cid", json!([])),
        ("eve", json!(["ops"])),
    ];
    for (sub, groups) in people {
        let token = town.issuer.sign(&but(claims(sub), json!({ "groups": groups })));
        let agent = Agent::connect(&town.gateway, "/mcp/files", &token).await;
        let listed = agent.names().await;
        for name in tools {
            let before = town.files.calls().len();
            let answer = agent.call(name, json!({"text": "x"})).await;
            let allowed = answer.json().get("result").is_some();
            assert_eq!(
                allowed,
                listed.contains(&name.to_owned()),
                "{sub} {name}: {}",
                answer.text()
            );
            assert_eq!(town.files.calls().len() - before, usize::from(allowed), "{sub} {name}");
        }
    }
}

/// What is set up, how, and what is seen all the same.
type Case<'a> = (&'a str, &'a dyn Fn(Setup) -> Setup, &'a [&'a str]);

#[tokio::test(flavor = "multi_thread")]
async fn without_policies_nothing_is_seen_and_everything_is_denied() {
    // R112, R119, R192
    let elsewhere = r#"permit (principal, action, resource == Tool::"files/write");
                       permit (principal == User::"bob", action, resource == Tool::"files/read");"#;
    let setups: [Case<'_>; 4] = [
        ("no policies", &Setup::without_policy, &[]),
        ("an empty file", &|setup| setup.policy(""), &[]),
        (
            "no such file",
            &|setup| setup.set("policy.files", json!(["policies/no-such.cedar"])),
            &[],
        ),
        ("rules for others", &|setup| setup.policy(elsewhere), &["write"]),
    ];
    for (case, setup, seen) in setups {
        let town = Town::with(&["read", "write"], setup).await;
        let agent = town.agent("ann").await;
        assert_eq!(agent.names().await, seen, "{case}");
        let answer = agent.call("read", json!({})).await;
        assert_eq!(answer.error_code(), -32602);
        let receipt = town.gateway.receipt_named_by(&answer);
        assert_eq!(receipt["decision"]["result"], "deny");
        assert_eq!(receipt["decision"]["policy_id"], "builtin:default-deny");
        assert_eq!(receipt["decision"]["reason_codes"], json!(["DENY_NO_MATCHING_RULE"]));
        assert_eq!(town.files.calls().len(), 0, "{case}");
    }
    // The mutation: one rule turns the default round, and with it everything that was asserted here.
    let flipped = Town::with(&["read", "write"], |setup| {
        setup.policy("permit (principal, action, resource);")
    })
    .await;
    let agent = flipped.agent("ann").await;
    assert_eq!(agent.names().await, ["read", "write"]);
    assert_eq!(agent.call("read", json!({})).await.result()["isError"], false);
    assert_eq!(flipped.files.calls().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn hidden_quarantined_and_unknown_tools_give_one_answer() {
    // R099, R121, R172, R191
    let issuer = Issuer::start().await;
    let (files, shady) = (
        Server::start(&[tool("read"), tool("hidden")]).await,
        Server::start(&[tool("unseen")]).await,
    );
    let policy = r#"permit (principal, action, resource) unless { resource == Tool::"files/hidden" };
                    forbid (principal, action, resource == Tool::"files/barred");"#;
    files.offer(&[tool("read"), tool("hidden"), tool("barred")]);
    let setup = Setup::with(&issuer, &files)
        .server("shady", &shady)
        .set("servers.shady.trust", "unknown");
    let gateway = setup.policy(policy).start().await;
    let agent = Agent::connect(&gateway, "/mcp", &issuer.token("ann")).await;
    assert_eq!(agent.names().await, ["files__read"]);
    let unknown = agent.call("files__nosuch", json!({})).await;
    let cases = [
        ("files__nosuch", "DENY_TOOL_NOT_FOUND", "builtin:default-deny"),
        ("nowhere__read", "DENY_TOOL_NOT_FOUND", "builtin:default-deny"),
        ("unprefixed", "DENY_TOOL_NOT_FOUND", "builtin:default-deny"),
        ("files__hidden", "DENY_NO_MATCHING_RULE", "builtin:default-deny"),
        ("files__barred", "DENY_NO_PERMISSION", "main.cedar:2"),
        ("shady__unseen", "DENY_TOOL_QUARANTINED", "builtin:quarantine"),
    ];
    for (name, true_code, policy_id) in cases {
        let answer = agent.call(name, json!({"anything": [1, 2, 3]})).await;
        assert_eq!(
            anonymised(&answer, name),
            anonymised(&unknown, "files__nosuch"),
            "{name}"
        );
        assert_eq!((answer.status, answer.error_code()), (200, -32602));
        assert!(
            answer.json()["error"]["message"]
                .as_str()
                .unwrap()
                .starts_with("Unknown tool: ")
        );
        let decision = gateway.receipt_named_by(&answer)["decision"].clone();
        assert_eq!(decision["reason_codes"], json!([true_code]), "{name}");
        assert!(
            decision["policy_id"].as_str().unwrap().ends_with(policy_id),
            "{name}: {decision}"
        );
    }
    assert_eq!(files.calls().len() + shady.calls().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_route_shows_all_servers_and_another_a_single_one() {
    // R099, R171
    let (issuer, files, mail) = (
        Issuer::start().await,
        Server::start(&[tool("read")]).await,
        Server::start(&[tool("read__all")]).await,
    );
    let gateway = Setup::with(&issuer, &files).server("mail", &mail).start().await;
    let all = Agent::connect(&gateway, "/mcp", &issuer.token("ann")).await;
    let one = Agent::connect(&gateway, "/mcp/mail", &issuer.token("ann")).await;
    assert_eq!(all.names().await, ["files__read", "mail__read__all"]);
    assert_eq!(one.names().await, ["read__all"]);
    for answer in [
        all.call("mail__read__all", json!({})).await,
        one.call("read__all", json!({})).await,
    ] {
        assert_eq!(answer.result()["content"][0]["text"], "read__all ran");
        let receipt = gateway.receipt_of(&answer);
        assert_eq!(
            (&receipt["mcp"]["server_id"], &receipt["mcp"]["tool_name"]),
            (&json!("mail"), &json!("read__all"))
        );
    }
    assert_eq!(mail.calls().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_of_a_server_is_walked() {
    // R099
    let names: Vec<String> = (0..7).map(|number| format!("tool{number}")).collect();
    let (issuer, files) = (
        Issuer::start().await,
        Server::start(&names.iter().map(|name| tool(name)).collect::<Vec<_>>()).await,
    );
    files.list_one_by_one();
    let gateway = Setup::with(&issuer, &files).start().await;
    let agent = Agent::connect(&gateway, "/mcp/files", &issuer.token("ann")).await;
    assert_eq!(agent.names().await, names);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_filtered_before_it_is_paged_and_every_page_is_private() {
    // R114
    let policy = r#"permit (principal, action, resource) when { resource has readOnlyHint && resource.readOnlyHint };"#;
    let harbour = Harbour::with(Speaks::Modern, &["read"], |setup| setup.policy(policy)).await;
    // Every other one is hidden, and all of the first two hundred.
    let seen = |number: usize| number >= 200 && number.is_multiple_of(2);
    let definitions: Vec<Value> = (0..2600)
        .map(|number| {
            let mut definition = tool(&format!("t{number:04}"));
            definition["annotations"] = json!({"readOnlyHint": seen(number)});
            definition
        })
        .collect();
    harbour.peer.list("tools", &definitions);
    harbour.gateway.home.cli(&["server", "refresh", "peer"]).success();
    let modern = harbour.modern("ann");
    let (mut pages, mut names, mut cursor) = (Vec::new(), Vec::new(), None);
    loop {
        let params = cursor.map_or(json!({}), |cursor| json!({ "cursor": cursor }));
        let page = modern.request("tools/list", params).await.result();
        assert_eq!(page["cacheScope"], "private", "page {}", pages.len());
        let tools = page["tools"].as_array().unwrap();
        pages.push(tools.len());
        names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        cursor = page.get("nextCursor").cloned();
        if cursor.is_none() {
            break;
        }
    }
    let expected: Vec<String> = (0..2600).filter(|n| seen(*n)).map(|n| format!("t{n:04}")).collect();
    assert_eq!(names, expected);
    assert_eq!(pages, [1000, 200], "pages are full of what may be seen");
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_arrive_as_the_server_wrote_them() {
    // R099
    let raw = r#"{"name":"odd",  "title":"\u00dcber","inputSchema":{"type":"object","properties":{"n":{"maximum":1e2, "minimum":-0}}},"x-unknown":[1.0,{}],"description":"b"}"#;
    let (issuer, files) = (Issuer::start().await, Server::start(&[]).await);
    files.offer_raw(vec![raw.to_owned()]);
    let gateway = Setup::with(&issuer, &files).start().await;
    let one = Agent::connect(&gateway, "/mcp/files", &issuer.token("ann"))
        .await
        .request("tools/list", json!({}))
        .await;
    assert!(one.text().contains(raw), "{}", one.text());
    let all = Agent::connect(&gateway, "/mcp", &issuer.token("ann"))
        .await
        .request("tools/list", json!({}))
        .await;
    let renamed = raw.replacen("\"odd\"", "\"files__odd\"", 1);
    assert!(all.text().contains(&renamed), "{}", all.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_permission_shows_in_the_next_list_of_an_open_session() {
    // R115
    let mut town = Town::with(&["read", "write"], |setup| setup.policy(TWO_PRINCIPALS)).await;
    let agent = town.agent("ann").await;
    assert_eq!(agent.names().await, ["read"]);
    town.gateway
        .home
        .rewrite(|setup| setup.policy(&TWO_PRINCIPALS.replace("ann", "eve")));
    town.gateway.signal(rustix::process::Signal::HUP);
    eventually("the permission is gone", 10, async || agent.names().await.is_empty()).await;
    assert_eq!(agent.call("read", json!({})).await.error_code(), -32602);
    assert_eq!(town.agent("eve").await.names().await, ["read"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_leaves_a_receipt_with_the_hash_of_what_was_sent() {
    // R152, R170, R171
    let town = Town::with(&["read", "write"], |setup| setup.policy(TWO_PRINCIPALS)).await;
    for (route, server_id) in [("/mcp", "*"), ("/mcp/files", "files")] {
        let agent = Agent::connect(&town.gateway, route, &town.issuer.token("bob")).await;
        let answer = agent.request("tools/list", json!({})).await;
        let receipt = town.gateway.receipt_of(&answer);
        assert_eq!(receipt["catalog_hash"], canonical_hash(&answer.result()["tools"]));
        assert_eq!(
            (&receipt["mcp"]["server_id"], &receipt["mcp"]["method"]),
            (&json!(server_id), &json!("tools/list"))
        );
        assert_eq!(receipt["decision"]["policy_id"], "builtin:protocol");
        assert_eq!(receipt["decision"]["reason_codes"], json!(["ALLOW_BUILTIN"]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down_is_named_in_the_list_and_the_rest_is_there() {
    // R099
    let (issuer, files, gone) = (
        Issuer::start().await,
        Server::start(&[tool("read")]).await,
        Server::start(&[]).await,
    );
    gone.go_down().await;
    let gateway = Setup::with(&issuer, &files).server("gone", &gone).start().await;
    let agent = Agent::connect(&gateway, "/mcp", &issuer.token("ann")).await;
    let result = agent.request("tools/list", json!({})).await.result();
    assert_eq!(result["tools"].as_array().unwrap().len(), 1);
    assert_eq!(result["_meta"]["portreeve/unavailable"], json!(["gone"]));
}

/// An answer without what must differ: the receipt's id and the name asked for.
fn anonymised(answer: &Answer, name: &str) -> String {
    let id = answer.decision()["receipt_id"].as_str().unwrap().to_owned();
    let headers: Vec<_> = answer
        .headers
        .0
        .iter()
        .filter(|(key, _)| !["date", "content-length"].contains(&key.to_lowercase().as_str()))
        .collect();
    format!(
        "{} {headers:?} {}",
        answer.status,
        answer.text().replace(&id, "ID").replace(name, "NAME")
    )
}
