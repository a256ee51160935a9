//! Secrets: masked with the word for what they are, or the result is withheld; nothing in clear is ever left over.

use serde_json::{Value, json};

use super::scene::{
    GRAVE, KEY_ID, SANITISED, TOKEN, decisions, declaring, is_verbatim, is_withheld, statuses, text_of, texts,
};
use crate::support::{Act, Setup, Town, tool};

/// A token that a definition lists. The gateway keeps definitions, and so this is none of those that no file may hold.
const PUBLISHED: &str = concat!("gh", "p_K3wP8zL5nV1qY7rB2tM6hD9cX4jG0sFuRrTt");

/// A town of one tool, or of several, that does this about secrets.
async fn town(tools: &[Value], action: &str) -> Town {
    Town::offering(tools, |setup: Setup| {
        setup
            .set("output_sanitisation.response_action", action)
            .set("servers.files.trust", "community")
    })
    .await
}

fn armour(kind: &str) -> String {
    let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7q3Zk1xV9tY2n";
    format!(
        "-----BEGIN {kind}PRI{mid}-----\n{line}\n{line}\n{line}\n-----END {kind}PRI{mid}-----",
        mid = "VATE KEY"
    )
}

/// A secret of each category: the text, the part that is secret, its category.
fn secrets() -> Vec<(String, String, &'static str)> {
    let jwt = concat!(
        "ey",
        "JhbGciOiJFUzI1NiIsImtpZCI6IjdhIn0.eyJzdWIiOiJhbm4iLCJleHAiOjE4OTM0NTYwMDB9.Qx7Rk2Lm9Vb4Nc8Zy3Wq6Jt1Hf5Pd0Sg_aKeUi"
    );
    let password = "hV9-tq2Zr7Lk";
    let whole = |text: String, category| (text.clone(), text, category);
    vec![
        whole(armour("RSA "), "private_key"),
        whole(armour(""), "private_key"),
        whole(KEY_ID.to_owned(), "cloud_credentials"),
        whole(GRAVE.to_owned(), "cloud_credentials"),
        whole(TOKEN.to_owned(), "api_token"),
        whole(jwt.to_owned(), "auth_token"),
        (
            format!("postgres://app:{password}@db.internal:5432/orders"),
            password.to_owned(),
            "database_credential",
        ),
        whole("5457 6238 9823 4113".to_owned(), "credit_card"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_each_category_is_masked_by_its_name() {
    // R069, R073, R087
    // Attack 9
    let town = town(&[tool("work")], "redact").await;
    let agent = town.agent("ann").await;
    for (text, secret, category) in secrets() {
        let around = format!("before\n{text}\nafter");
        town.files.on("work", Act::Answer(texts(&[&around])));
        let answer = agent.call("work", json!({})).await;
        let masked = around.replace(&secret, &format!("[REDACTED:{category}]"));
        assert_eq!(text_of(&answer, 0), masked, "{category}");
        let record = decisions(&town.gateway.home, &[])[0].clone();
        assert_eq!(
            (&record["status"], &record["findings"][0]["category"]),
            (&json!("redacted"), &json!(category))
        );
        assert!(!record.to_string().contains(&secret), "{category}");
    }
    // The key inside the file of a service account.
    let account = json!({"type": "service_account", "private_key": armour(""), "client_id": "1"}).to_string();
    town.files.on("work", Act::Answer(texts(&[&account])));
    let text = text_of(&agent.call("work", json!({})).await, 0);
    assert!(
        text.contains("[REDACTED:private_key]") && !text.contains("MIIEv") && text.contains("client_id"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_documentation_shows_and_what_only_looks_like_a_secret_is_forwarded() {
    // R075
    // Attack 38
    let fine = [
        concat!("AK", "IAIOSFODNN7EXAMPLE").to_owned(),
        "pay with 4111 1111 1111 1111".to_owned(),
        "copy server.pem to /etc/ssl/server.pem and ~/.ssh/id_rsa".to_owned(),
        format!("https://b.s3.amazonaws.com/k?X-Amz-Credential={KEY_ID}%2F20261116%2Feu&X-Amz-Signature=00ff"),
        "Authorization: Bearer <token>".to_owned(),
        "order 1234567890123456 of 2026".to_owned(),
    ];
    for action in ["redact", "block"] {
        let town = town(&[tool("work")], action).await;
        let agent = town.agent("ann").await;
        for text in &fine {
            let result = texts(&[text]);
            town.files.on("work", Act::Answer(result.clone()));
            let answer = agent.call("work", json!({})).await;
            assert!(is_verbatim(&answer, &result), "{action} {text}: {}", answer.text());
        }
        assert!(
            statuses(&town.gateway.home).iter().all(|status| status == "warning"),
            "{action}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn up_to_the_limit_secrets_are_masked_and_one_more_withholds_the_result() {
    // R085
    // Attack 30
    for (set, limit) in [(None, 100), (Some(3), 3)] {
        let town = Town::with(&["work"], |setup: Setup| {
            let setup = setup.set("output_sanitisation.response_action", "redact");
            match set {
                Some(most) => setup.set("output_sanitisation.max_redactions", most),
                None => setup,
            }
        })
        .await;
        let agent = town.agent("ann").await;
        for count in [limit - 1, limit, limit + 1] {
            let text = vec![TOKEN; count].join(" ");
            town.files.on("work", Act::Answer(texts(&[&text])));
            let answer = agent.call("work", json!({})).await;
            assert!(!answer.text().contains(TOKEN), "{count}");
            if count <= limit {
                assert_eq!(
                    text_of(&answer, 0),
                    vec!["[REDACTED:api_token]"; count].join(" "),
                    "{count}"
                );
            } else {
                is_withheld("too many", &answer.last(), &format!("{SANITISED}redaction_limit"));
                assert_eq!(answer.reason_codes(), ["WITHHELD_SANITISATION"]);
            }
        }
        assert_eq!(statuses(&town.gateway.home), ["redacted", "redacted", "blocked"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_critical_secret_drops_the_whole_result_and_a_lesser_one_is_told() {
    // R075, R087, R088
    // Attack 4
    let town = town(&[tool("work")], "block").await;
    let agent = town.agent("ann").await;
    let text = |text: &str| format!(r#"{{"type":"text","text":"{text}"}}"#);
    let fine = text("VIOLATION of nothing");
    for (critical, place) in [
        (format!(r#"{{"content":[{fine},{}]}}"#, text(TOKEN)), "/content/1/text"),
        (
            format!(r#"{{"content":[{fine}],"structuredContent":{{"a":["{TOKEN}"]}}}}"#),
            "/structuredContent/",
        ),
        (
            format!(r#"{{"content":[{fine}],"structuredContent":{{"{TOKEN}":1}}}}"#),
            "/structuredContent/",
        ),
        (
            format!(r#"{{"content":[{fine}],"_meta":{{"a/b":"{TOKEN}"}}}}"#),
            "/_meta/",
        ),
        (format!(r#"{{"content":[{fine}],"novel":{{"a":"{TOKEN}"}}}}"#), "/"),
        (
            format!(r#"{{"content":[{fine},{}],"isError":true}}"#, text(TOKEN)),
            "/content/1/text",
        ),
        (
            format!(r#"{{"content":[{fine},{{"type":"resource","resource":{{"uri":"a:b","text":"{TOKEN}"}}}}]}}"#),
            "/content/1/resource/text",
        ),
        (
            format!(r#"{{"content":[{fine},{{"type":"resource_link","uri":"a:b","name":"{TOKEN}"}}]}}"#),
            "/content/1/name",
        ),
    ] {
        town.files.on("work", Act::Answer(critical.clone()));
        let answer = agent.call("work", json!({})).await;
        is_withheld(&critical, &answer.last(), &format!("{SANITISED}1 api_token"));
        let record = decisions(&town.gateway.home, &[])[0].clone();
        assert_eq!(record["status"], "blocked", "{record}");
        let at = record["findings"][0]["place"].as_str().unwrap();
        assert!(at.starts_with(place) && !record.to_string().contains(TOKEN), "{record}");
    }
    let lesser = format!(r#"{{"content":[{fine},{}]}}"#, text(GRAVE));
    town.files.on("work", Act::Answer(lesser.clone()));
    assert!(is_verbatim(&agent.call("work", json!({})).await, &lesser));
    assert_eq!(decisions(&town.gateway.home, &[])[0]["status"], "warning");
    assert_eq!(decisions(&town.gateway.home, &[]).len(), 9, "one record each");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_in_structured_output_is_masked_in_its_literal_alone_and_judged_again() {
    // R097
    // Attack 4
    // Attack 31
    let free = json!({"type": "object", "properties": {"s": {"type": "string"}, "n": {"type": "number"}}});
    let short = json!({"type": "object", "properties": {"s": {"type": "string", "maxLength": 40, "minLength": 30}}});
    let listed = json!({"type": "object", "properties": {"s": {"enum": [PUBLISHED, "x"]}}});
    let shaped = json!({"type": "object", "properties": {"s": {"type": "string", "pattern": "^gh"}}});
    let tools = [
        declaring("free", &free),
        declaring("short", &short),
        declaring("listed", &listed),
        declaring("shaped", &shaped),
        tool("undeclared"),
    ];
    let town = town(&tools, "redact").await;
    let agent = town.agent("ann").await;
    agent.names().await;
    // A definition that holds a secret waits for a person.
    town.gateway.home.cli(&["tool", "approve", "files/listed"]).success();
    let structured = |s: &str| format!(r#"{{ "n":1.0 ,"s":"\u0061 {s} é","z":[ 1e2 ]}}"#);
    let result = |s: &str, text: &str| {
        format!(
            r#"{{"structuredContent":{} ,"content":[{{"type":"text","text":{}}}]}}"#,
            structured(s),
            Value::from(text)
        )
    };
    let mask = "[REDACTED:api_token]";
    for name in ["free", "undeclared"] {
        let copy = structured(TOKEN);
        town.files.on(name, Act::Answer(result(TOKEN, &copy)));
        let answer = agent.call(name, json!({})).await;
        assert!(
            is_verbatim(&answer, &result(mask, &structured(mask))),
            "{name}: {}",
            answer.text()
        );
        let record = decisions(&town.gateway.home, &["--tool", name]);
        assert_eq!(
            (record.len(), record[0]["findings"].as_array().unwrap().len()),
            (1, 2),
            "one list: {record:?}"
        );
    }
    for (name, token) in [("short", TOKEN), ("listed", PUBLISHED), ("shaped", TOKEN)] {
        let plain = format!(r#"{{"content":[],"structuredContent":{{"s":"{token}"}}}}"#);
        town.files.on(name, Act::Answer(plain));
        let answer = agent.call(name, json!({})).await;
        let told = text_of(&answer, 0);
        assert!(
            told.starts_with(&format!("{SANITISED}redaction_breaks_schema")),
            "{name}: {told}"
        );
        // What is allowed is told, and a schema that lists a secret has listed it itself.
        if name != "listed" {
            is_withheld(name, &answer.last(), SANITISED);
        }
        let records = decisions(&town.gateway.home, &["--tool", name]);
        assert_eq!(
            (records.len(), &records[0]["status"]),
            (1, &json!("blocked")),
            "{records:?}"
        );
    }
    let card = "5457623898234113";
    for (case, payload) in [
        (
            "a name",
            format!(r#"{{"content":[],"structuredContent":{{"{TOKEN}":1}}}}"#),
        ),
        (
            "a number",
            format!(r#"{{"content":[],"structuredContent":{{"cardNumber":{card}}}}}"#),
        ),
        (
            "embedded",
            format!(r#"{{"content":[{{"type":"resource","resource":{{"uri":"a:b","text":"{TOKEN}"}}}}]}}"#),
        ),
        (
            "a link",
            format!(r#"{{"content":[{{"type":"resource_link","uri":"a:{TOKEN}","name":"n"}}]}}"#),
        ),
        (
            "annotations",
            format!(
                r#"{{"content":[{{"type":"image","data":"aGk=","mimeType":"image/png","annotations":{{"x":"{TOKEN}"}}}}]}}"#
            ),
        ),
        (
            "unheard of",
            format!(r#"{{"content":[{{"type":"novel","x":"{TOKEN}"}}]}}"#),
        ),
    ] {
        town.files.on("undeclared", Act::Answer(payload));
        let answer = agent.call("undeclared", json!({})).await;
        is_withheld(case, &answer.last(), &format!("{SANITISED}redaction_not_possible"));
        assert!(
            !answer.text().contains(TOKEN) && !answer.text().contains(card),
            "{case}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_blocks_without_a_secret_are_never_edited_and_unknown_members_stay() {
    // R078
    // Attack 36
    let town = Town::with(&["work"], |setup: Setup| {
        let all = json!({"spotlight_untrusted": true, "response_action": "redact", "strip_control_chars": true});
        setup
            .set("output_sanitisation", all)
            .set("servers.files.trust", "community")
    })
    .await;
    let blocks = r#"[ {"type":"image","data":"aGk=" ,"mimeType":"image/png"},{"type":"resource","resource":{"uri":"a:b","text":"«a»\u200b\u001b[0m&","mimeType":"text/plain"}}, {"type":"novel","text":"«x»\u200b","y":[1.0]}]"#;
    let result = format!(r#"{{"content":{blocks}, "novel":{{"b":1.0,"a":[ ]}} }}"#);
    town.files.on("work", Act::Answer(result.clone()));
    let answer = town.agent("ann").await.call("work", json!({})).await;
    assert!(is_verbatim(&answer, &result), "{}", answer.text());
    let records = decisions(&town.gateway.home, &[]);
    assert_eq!(
        (records.len(), &records[0]["status"]),
        (1, &json!("warning")),
        "{records:?}"
    );
    assert_eq!(records[0]["stripped"], json!({"ansi": 1, "zero_width": 2}));
}
