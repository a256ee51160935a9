//! `structuredContent`: the bytes that conform are the bytes that arrive, and absence is not null.

use serde_json::{Value, json};

use super::scene::{SCHEMA, counted, decisions, declaring, is_verbatim, is_withheld};
use crate::support::{Act, Harbour, Peer, Setup, Speaks, Town, Turn, tool};

/// Conforming output in spellings that every re-serialisation changes.
const ODD: [&str; 8] = [
    r#"{ "b" : 1.0 , "a":1e2,"z":-0 }"#,
    r#"{"n":12345678901234567890123,"N":9007199254740993}"#,
    r#"{"u":"\u00fc\/\ud83d\ude00 é","<>&":"<>&"}"#,
    r#"{"z":1,"a":2,"A":[ ],"dup":{"k":1},"dup2":{"k":1}}"#,
    "{\"t\":\"tab\\t\",\"lines\":\n\t[1,\r\n2]}",
    r#"{"":"","e":1E+2,"f":0.10,"g":1e-7}"#,
    r#"{"nested":{"nested":{"nested":[null,true,false]}}}"#,
    r#"{"s":"\u2028\u2029"}"#,
];

fn result(structured: &str) -> String {
    format!(r#"{{ "_meta":{{"v/k":[1,  2]}},"structuredContent":{structured} ,"content":[ ],"x-unknown":null}}"#)
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_spellings_arrive_as_they_were_sent_in_every_mode_and_era() {
    // R005, R007, R034, R035, R043
    // Attack 27
    for server in [Speaks::Legacy, Speaks::Modern] {
        let peer = Peer::start(server, &[]).await;
        peer.list(
            "tools",
            &[
                declaring("odd", &json!({"type": "object"})),
                declaring("wrong", &json!({"type": "array"})),
            ],
        );
        let harbour = Harbour::before(peer, |setup| setup.set("output_validation.mode", "strict")).await;
        let agent = harbour.agent("ann").await;
        for odd in ODD {
            // Whoever writes it anew is found out by every one of these.
            let anew: Value = serde_json::from_str(&result(odd)).unwrap();
            assert_ne!(anew.to_string(), result(odd));
            harbour.peer.always("odd", Turn::Result(result(odd)));
            let answer = agent.call("odd", json!({})).await;
            assert!(is_verbatim(&answer, &result(odd)), "{odd}: {}", answer.text());
            let modern = harbour.modern("ann").call("odd", json!({})).await;
            assert!(
                modern
                    .text()
                    .contains(&format!(r#""structuredContent":{odd} ,"content":[ ],"x-unknown":null"#)),
                "{}",
                modern.text()
            );
            harbour.peer.always("wrong", Turn::Result(result(odd)));
            is_withheld(odd, &agent.call("wrong", json!({})).await.last(), SCHEMA);
        }
        let mut gateway = harbour.gateway.stop().await;
        gateway.rewrite(|setup| setup.set("output_validation.mode", "warn"));
        let gateway = gateway.serve().await;
        let agent = crate::support::Agent::connect(&gateway, "/mcp/peer", &harbour.issuer.token("ann")).await;
        for odd in ODD {
            harbour.peer.always("wrong", Turn::Result(result(odd)));
            let answer = agent.call("wrong", json!({})).await;
            assert!(
                is_verbatim(&answer, &result(odd)),
                "warned of, untouched: {}",
                answer.text()
            );
        }
        assert_eq!(decisions(&gateway.home, &["--status", "warning"]).len(), ODD.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_said_twice_is_a_violation_however_it_is_spelled() {
    // R003
    // Attack 27
    let town = Town::offering(&[declaring("work", &json!({"type": "object"}))], |setup| {
        setup.set("output_validation.mode", "strict")
    })
    .await;
    let agent = town.agent("ann").await;
    for result in [
        r#"{"content":[],"structuredContent":{"n":1,"n":"VIOLATION"}}"#,
        r#"{"content":[],"structuredContent":{"n":1,"\u006e":"VIOLATION"}}"#,
        r#"{"content":[],"structuredContent":{"a":{"n":1,"\u006e":"VIOLATION"}}}"#,
        r#"{"content":[],"structuredContent":{},"structuredContent":"VIOLATION"}"#,
        r#"{"content":[],"structuredContent":{},"structured\u0043ontent":"VIOLATION"}"#,
        r#"{"content":[],"structuredContent":{"n":1e400,"x":"VIOLATION"}}"#,
        r#"{"content":[],"structuredContent":{"n":"\ud800","x":"VIOLATION"}}"#,
    ] {
        town.files.on("work", Act::Answer(result.to_owned()));
        is_withheld(result, &agent.call("work", json!({})).await.last(), SCHEMA);
    }
    let twin = r#"{"content":[],"structuredContent":{"n":1,"N":2,"\u006f":{"n":3}}}"#;
    town.files.on("work", Act::Answer(twin.to_owned()));
    assert!(is_verbatim(&agent.call("work", json!({})).await, twin));
}

#[tokio::test(flavor = "multi_thread")]
async fn null_is_a_value_absence_is_absence_and_the_operator_says_what_it_means() {
    // R026, R027, R040
    let nullable = json!({"type": ["object", "null"]});
    let tools = [declaring("whole", &counted()), declaring("nullable", &nullable)];
    for (mode, missing) in [
        ("warn", "allow"),
        ("warn", "block"),
        ("strict", "allow"),
        ("strict", "block"),
    ] {
        let town = Town::offering(&tools, |setup: Setup| {
            setup
                .set("output_validation.mode", mode)
                .set("output_validation.missing_structured_content", missing)
        })
        .await;
        let agent = town.agent("ann").await;
        let (absent, null) = (r#"{"content":[]}"#, r#"{"content":[],"structuredContent":null}"#);
        let mut records = 0;
        for (tool, result, stands) in [
            ("whole", absent, mode == "warn" || missing == "allow"),
            ("nullable", absent, mode == "warn" || missing == "allow"),
            ("nullable", null, true),
            ("whole", null, mode == "warn"),
        ] {
            town.files.on(tool, Act::Answer(result.to_owned()));
            let answer = agent.call(tool, json!({})).await;
            let case = format!("{mode} {missing} {tool} {result}");
            assert_eq!(is_verbatim(&answer, result), stands, "{case}: {}", answer.text());
            // Null violates in both modes where it is not allowed; absence only where the operator says so.
            records += usize::from(!stands || (tool == "whole" && result == null));
            assert_eq!(decisions(&town.gateway.home, &[]).len(), records, "{case}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_nobody_can_use_reads_no_file_and_asks_nobody_and_blocks_only_where_it_is_told_to() {
    // Attack 22
    // Attack 28
    let trap = Peer::start(Speaks::Legacy, &[]).await;
    let mut doubling = json!({"d0": {"type": "integer"}});
    for n in 1..30 {
        let below = json!({"$ref": format!("#/$defs/d{}", n - 1)});
        doubling[format!("d{n}")] = json!({"allOf": [below, below]});
    }
    let schemas: Vec<(&str, Value)> = vec![
        ("fetching", json!({"$ref": format!("http://{}/schema", trap.address)})),
        ("reading", json!({"$ref": "file:///etc/passwd"})),
        ("nonsense", json!({"type": "whatever"})),
        (
            "dialect",
            json!({"$schema": "https://example.com/novel", "type": "object"}),
        ),
        ("doubling", json!({"$defs": doubling, "$ref": "#/$defs/d29"})),
        ("cyclic", json!({"$ref": "#"})),
    ];
    let tools: Vec<Value> = schemas
        .iter()
        .map(|(name, schema)| declaring(name, schema))
        .chain([tool("plain")])
        .collect();
    for posture in ["allow", "block"] {
        let town = Town::offering(&tools, |setup: Setup| {
            setup
                .set("output_validation.mode", "strict")
                .set("output_validation.uncompilable_schema", posture)
        })
        .await;
        let agent = town.agent("ann").await;
        for (name, _) in &schemas {
            let (with, without) = (r#"{"content":[],"structuredContent":1}"#, r#"{"content":[]}"#);
            town.files.on(name, Act::Answer(with.to_owned()));
            let answer = agent.call(name, json!({})).await;
            match posture {
                "allow" => assert!(is_verbatim(&answer, with), "{name}: {}", answer.text()),
                _ => is_withheld(name, &answer.last(), SCHEMA),
            }
            town.files.on(name, Act::Answer(without.to_owned()));
            assert!(
                is_verbatim(&agent.call(name, json!({})).await, without),
                "{posture} {name}"
            );
        }
        assert_eq!(agent.call("plain", json!({})).await.result()["isError"], false);
    }
    assert_eq!(trap.seen().len(), 0, "nobody was asked for a schema");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catastrophic_pattern_costs_nothing() {
    // Attack 28
    let schema = json!({"type": "object", "properties": {"s": {"type": "string", "pattern": "^(a+)+$"}}});
    let town = Town::offering(&[declaring("work", &schema)], |setup| {
        setup.set("output_validation.mode", "strict")
    })
    .await;
    let agent = town.agent("ann").await;
    let text = "a".repeat(200_000);
    town.files.on(
        "work",
        Act::Answer(format!(r#"{{"content":[],"structuredContent":{{"s":"{text}!"}}}}"#)),
    );
    let began = std::time::Instant::now();
    is_withheld("a pattern", &agent.call("work", json!({})).await.last(), SCHEMA);
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
    town.files.on(
        "work",
        Act::Answer(format!(r#"{{"content":[],"structuredContent":{{"s":"{text}"}}}}"#)),
    );
    assert!(
        agent.call("work", json!({})).await.result()["structuredContent"].is_object(),
        "the twin"
    );
}
