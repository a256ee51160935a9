//! `[output_validation]` alone: what each mode does about each kind of result, and that it does nothing else.

use serde_json::{Value, json};

use super::scene::{CONFORMING, SCHEMA, VIOLATION, counted, decisions, declaring, is_verbatim, is_withheld, statuses};
use crate::support::records::sha256;
use crate::support::{Act, Agent, Setup, Town, tool};

/// A kind of result: its tool, its bytes, and whether it is wrong.
struct Kind {
    tool: &'static str,
    result: String,
    wrong: bool,
}

fn kinds() -> Vec<Kind> {
    let kind = |tool, result: &str, wrong| Kind {
        tool,
        result: result.to_owned(),
        wrong,
    };
    vec![
        kind("valid", CONFORMING, false),
        kind("invalid", VIOLATION, true),
        kind(
            "large",
            &format!(r#"{{"content":[],"structuredContent":{{"n":1{}}}}}"#, " ".repeat(2000)),
            true,
        ),
        kind(
            "deep",
            r#"{"content":[],"structuredContent":{"n":[[[[[["VIOLATION"]]]]]]}}"#,
            true,
        ),
        kind("undeclared", VIOLATION, false),
        kind("text", r#"{"content":[{"type":"text","text":"just words"}]}"#, false),
        kind(
            "error",
            r#"{"content":[{"type":"text","text":"it failed"}],"structuredContent":{"n":"no"},"isError":true}"#,
            false,
        ),
    ]
}

fn definitions() -> Vec<Value> {
    let define = |kind: &Kind| match kind.tool {
        "undeclared" => tool(kind.tool),
        name => declaring(name, &counted()),
    };
    kinds().iter().map(define).collect()
}

/// Only `[output_validation]` is there.
async fn town(mode: Option<&str>) -> Town {
    let town = Town::offering(&definitions(), |setup: Setup| {
        let setup = setup
            .set("output_validation.max_bytes", 1000)
            .set("output_validation.max_depth", 6);
        match mode {
            Some(mode) => setup.set("output_validation.mode", mode),
            None => setup,
        }
    })
    .await;
    for kind in kinds() {
        town.files.on(kind.tool, Act::Answer(kind.result));
    }
    town
}

#[tokio::test(flavor = "multi_thread")]
async fn three_modes_and_seven_kinds_of_results_make_this_table() {
    // R001, R002, R006, R008, R009, R010, R020, R023, R026, R030, R039, R042, R043, R061
    for (mode, does) in [
        (Some("off"), None),
        (Some("warn"), Some("warning")),
        (None, Some("warning")),
        (Some("strict"), Some("blocked")),
    ] {
        let town = town(mode).await;
        let agent = town.agent("ann").await;
        let mut recorded = 0;
        for kind in kinds() {
            let case = format!("{mode:?} {}", kind.tool);
            let answer = agent.call(kind.tool, json!({})).await;
            let does = does.filter(|_| kind.wrong);
            match does {
                Some("blocked") => is_withheld(&case, &answer.last(), SCHEMA),
                _ => assert!(is_verbatim(&answer, &kind.result), "{case}: {}", answer.text()),
            }
            recorded += usize::from(does.is_some());
            let records = decisions(&town.gateway.home, &[]);
            assert_eq!(records.len(), recorded, "{case}: {records:?}");
            if let Some(status) = does {
                let receipt = town.gateway.receipt_of(&answer);
                assert_eq!(
                    (
                        &records[0]["status"],
                        &records[0]["tool_name"],
                        &records[0]["receipt_id"]
                    ),
                    (&json!(status), &json!(kind.tool), &receipt["receipt_id"]),
                    "{case}"
                );
                assert_eq!(receipt["outcome"]["executed"], true, "{case}: the call did run");
            }
        }
        assert_eq!(
            town.files.calls().len(),
            kinds().len(),
            "{mode:?}: each went to the server once"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_withheld_result_names_the_place_and_the_rule_and_not_a_word_of_the_payload() {
    // R001, R008, R025
    // Attack 32
    let schema = json!({"type": "object", "properties": {"items": {"type": "array", "items": {"type": "object",
        "properties": {"state": {"enum": ["open", "closed"]}}, "additionalProperties": false}}}});
    let town = Town::offering(&[declaring("work", &schema)], |setup| {
        setup.set("output_validation.mode", "strict")
    })
    .await;
    let agent = town.agent("ann").await;
    for (structured, told) in [
        (
            r#"{"items":[{"state":"open"},{"state":"SPEAK OF ME"}]}"#,
            "/items/1/state: enum",
        ),
        (r#"{"items":[{"SPEAK OF ME":1}]}"#, "<unexpected key #1>"),
        (
            r#"{"items":[{"state":"open","SPEAK«OF»ME":{"x":1}}]}"#,
            "<unexpected key #1>",
        ),
        (r#"{"items":"SPEAK OF ME"}"#, "/items: type"),
    ] {
        town.files.on(
            "work",
            Act::Answer(format!(
                r#"{{"content":[{{"type":"text","text":"SPEAK OF ME"}}],"structuredContent":{structured}}}"#
            )),
        );
        let answer = agent.call("work", json!({})).await;
        is_withheld(structured, &answer.last(), SCHEMA);
        assert!(answer.text().contains(told), "{}", answer.text());
        assert!(!answer.text().contains("SPEAK"), "{}", answer.text());
        assert_eq!(answer.reason_codes(), ["WITHHELD_SCHEMA"]);
        let record = decisions(&town.gateway.home, &[])[0].clone();
        assert!(!record.to_string().contains("SPEAK"), "{record}");
        assert!(record["message"].as_str().unwrap().contains(told), "{record}");
    }
    town.files.on(
        "work",
        Act::Answer(r#"{"content":[],"structuredContent":{"items":[{"state":"open"}]}}"#.to_owned()),
    );
    assert!(
        agent.call("work", json!({})).await.result()["structuredContent"].is_object(),
        "the twin"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn each_class_of_bad_output_is_stopped() {
    // R003
    let town = town(Some("strict")).await;
    let agent = town.agent("ann").await;
    for structured in [
        r#"{"n":"VIOLATION"}"#.to_owned(),
        "{}".to_owned(),
        r#"{"n":1,"VIOLATION":2}"#.to_owned(),
        format!(r#"{{"n":1{}}}"#, " ".repeat(1000)),
        r#"{"n":[[[[[[1]]]]]]}"#.to_owned(),
    ] {
        town.files.on(
            "invalid",
            Act::Answer(format!(r#"{{"content":[],"structuredContent":{structured}}}"#)),
        );
        is_withheld(&structured, &agent.call("invalid", json!({})).await.last(), SCHEMA);
    }
    assert_eq!(statuses(&town.gateway.home), ["blocked"; 5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_word_of_the_operator_nothing_is_withheld() {
    // R036, R055
    let town = Town::offering(&definitions(), |setup| setup).await;
    for kind in kinds() {
        town.files.on(kind.tool, Act::Answer(kind.result.clone()));
        let answer = town.agent("ann").await.call(kind.tool, json!({})).await;
        assert!(is_verbatim(&answer, &kind.result), "{}: {}", kind.tool, answer.text());
    }
    assert_eq!(statuses(&town.gateway.home), ["warning"; 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setting_nobody_knows_stops_the_start_and_is_named() {
    // R036, R046, R082, R084
    for (path, value) in [
        ("output_validation.mode", json!("lenient")),
        ("output_validation.mode", json!(true)),
        ("output_validation.max_bytes", json!(0)),
        ("output_validation.max_depth", json!(0)),
        ("output_validation.missing_structured_content", json!("maybe")),
        ("output_validation.uncompilable_schema", json!("warn")),
        ("output_validation.strictness", json!("high")),
        ("output_sanitisation.response_action", json!("mask")),
        ("output_sanitisation.response_action", json!("Redact")),
        ("output_sanitisation.spotlight_untrusted", json!("yes")),
        ("output_sanitisation.strip_control_chars", json!(1)),
        ("output_sanitisation.strip_classes", json!(["ansi", "emoji"])),
        ("output_sanitisation.max_redactions", json!(-1)),
        ("output_sanitisation.redact", json!(true)),
        ("detection.packs", json!(["nowhere/*.toml"])),
        ("detection.enabled", json!(false)),
        ("response.limit_bytes", json!("many")),
        ("response.cache_ttl", json!("soon")),
    ] {
        let home = Setup::new().set(path, &value).home();
        for command in [&["check"][..], &["serve"]] {
            let ended = home.cli(command);
            assert_eq!(ended.code, Some(1), "{path} {value} {command:?}: {ended:?}");
            let named = path.split('.').next_back().unwrap();
            assert!(
                format!("{}{}", ended.stdout, ended.stderr).contains(named),
                "{path} {value}: {ended:?}"
            );
        }
    }
    for (path, value) in [
        ("output_validation.mode", json!("off")),
        ("output_validation.mode", json!("warn")),
        ("output_validation.mode", json!("strict")),
        ("output_sanitisation.response_action", json!("spotlight")),
        ("output_sanitisation.response_action", json!("redact")),
        ("output_sanitisation.response_action", json!("block")),
        ("output_sanitisation.strip_classes", json!([])),
    ] {
        Setup::new().set(path, &value).home().cli(&["check"]).success();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn validation_alone_leaves_arguments_texts_and_conforming_output_as_they_are() {
    // R005, R031, R035, R057, R061, R065
    let open = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let blocks = r#"[{"type":"text","text":"\u001b[31m«red»\u200b"},{"type":"image","data":"aGk=","mimeType":"image/png"},{"type":"audio","data":"aGk=","mimeType":"audio/wav"},{"type":"resource","resource":{"uri":"a:b","text":"t"}},{"type":"resource","resource":{"uri":"a:c","blob":"aGk="}},{"type":"resource_link","uri":"a:b","name":"l"},{"type":"novel","x":1}]"#;
    let conforming = r#"{ "more":{"kept":[1,2,  3]},"n":1 ,"é":"\u00e9"}"#;
    let violating = r#"{ "n": "no" }"#;
    for mode in ["off", "warn", "strict"] {
        let town = Town::offering(&[declaring("work", &open)], |setup| {
            setup.set("output_validation.mode", mode)
        })
        .await;
        let agent: Agent = town.agent("ann").await;
        for structured in [conforming, violating] {
            let case = format!("{mode} {structured}");
            let result = format!(r#"{{"structuredContent":{structured}, "content":{blocks},"_meta":{{"a/b":1}}}}"#);
            town.files.on("work", Act::Answer(result.clone()));
            let answer = agent
                .call_raw("work", r#"{ "text":"\u001b[31m  \u200b", "amount":1.0}"#)
                .await;
            if mode == "strict" && structured == violating {
                is_withheld(&case, &answer.last(), SCHEMA);
                continue;
            }
            assert!(is_verbatim(&answer, &result), "{case}: {}", answer.text());
            let start = answer.text().find(structured).unwrap();
            let arrived = answer.body.get(start..start + structured.len()).unwrap();
            assert_eq!(sha256(arrived), sha256(structured.as_bytes()), "{case}");
            assert!(answer.text().contains(blocks), "{case}");
        }
        let expected: &[&str] = match mode {
            "off" => &[],
            "warn" => &["warning"],
            _ => &["blocked"],
        };
        assert_eq!(statuses(&town.gateway.home), expected, "{mode}");
        for call in town.files.calls() {
            assert_eq!(
                call.json()["params"]["arguments"],
                json!({"text": "\u{1b}[31m  \u{200b}", "amount": 1.0}),
                "{mode}"
            );
        }
    }
}
