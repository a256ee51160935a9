//! Secrets in disguise, and where a scan might end or be cut: found all the same, by the way the shipped gateway is put
//! together.

use base64::Engine as _;
use serde_json::json;

use super::scene::{KEY_ID, SANITISED, TOKEN, contained, harbour, holds_nothing, is_withheld, text_of, texts};
use crate::support::{Beat, Harbour, Setup, Speaks, Turn, tool};

async fn redacting() -> Harbour {
    let set = |setup: Setup| setup.set("output_sanitisation.response_action", "redact");
    harbour(Speaks::Legacy, &[tool("work")], set).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_cut_by_what_nobody_sees_is_found_and_nothing_is_joined_again() {
    // R071, R074
    // Attack 8
    let inside = [
        "\u{200b}",
        "\u{ad}",
        "\u{1b}[0m",
        "\u{202e}",
        "\u{e0041}",
        "\u{7f}",
        "\\u200b",
        "\\u001b[1m",
    ];
    for strip in [false, true] {
        let set = |setup: Setup| {
            setup.set("servers.peer.trust", "community").set(
                "output_sanitisation",
                json!({"response_action": "redact", "strip_control_chars": strip}),
            )
        };
        let harbour = harbour(Speaks::Legacy, &[tool("work")], set).await;
        let agent = harbour.agent("ann").await;
        for hidden in inside {
            let (head, tail) = TOKEN.split_at(20);
            harbour
                .peer
                .always("work", Turn::Result(texts(&[&format!("a {head}{hidden}{tail} b")])));
            let text = text_of(&agent.call("work", json!({})).await, 0);
            assert_eq!(text, "a [REDACTED:api_token] b", "{hidden:?} {strip}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_behind_a_long_filler_is_found() {
    // Attack 11
    let harbour = redacting().await;
    let agent = harbour.agent("ann").await;
    for filler in [70_000, 300_000, 4_000_000] {
        let (before, after) = ("lorem ipsum ".repeat(filler / 12), "x ".repeat(50));
        harbour
            .peer
            .always("work", Turn::Result(texts(&[&format!("{before}{TOKEN} {after}")])));
        let text = text_of(&agent.call("work", json!({})).await, 0);
        assert!(
            text == format!("{before}[REDACTED:api_token] {after}"),
            "{filler}: {} bytes",
            text.len()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_in_two_pieces_is_masked_in_both() {
    // Attack 12
    let harbour = redacting().await;
    let agent = harbour.agent("ann").await;
    for at in [3, 10, 20, 39] {
        let (head, tail) = TOKEN.split_at(at);
        harbour.peer.always(
            "work",
            Turn::Result(texts(&[&format!("a {head}"), &format!("{tail} b")])),
        );
        let answer = agent.call("work", json!({})).await;
        let both = text_of(&answer, 0) + &text_of(&answer, 1);
        assert_eq!(both, "a [REDACTED:api_token][REDACTED:api_token] b", "{at}");
    }
    // In one message, written in many pieces: what comes in chunks is read as a whole.
    let result = texts(&[&format!("a {TOKEN} b")]);
    let event = format!("event: message\ndata: {{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{result}}}\n\n");
    harbour.peer.on("work", move |seen| {
        let event = event.replace("$id", &seen.json()["id"].to_string());
        let pieces = event
            .as_bytes()
            .chunks(7)
            .map(|piece| String::from_utf8_lossy(piece).into_owned());
        Turn::Stream(pieces.map(Beat::Raw).collect())
    });
    let answer = agent.call("work", json!({})).await;
    assert_eq!(text_of(&answer, 0), "a [REDACTED:api_token] b");
    holds_nothing("in chunks", &answer.messages());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encoded_secret_masks_its_run() {
    // Attack 13
    let harbour = redacting().await;
    let agent = harbour.agent("ann").await;
    let base64 = base64::engine::general_purpose::STANDARD.encode(format!("token={TOKEN}\n"));
    let hex: String = TOKEN.bytes().map(|byte| format!("{byte:02x}")).collect();
    let percent: String = TOKEN.bytes().map(|byte| format!("%{byte:02X}")).collect();
    for encoded in [base64, hex, percent] {
        harbour
            .peer
            .always("work", Turn::Result(texts(&[&format!("a {encoded} b")])));
        let text = text_of(&agent.call("work", json!({})).await, 0);
        assert!(
            !text.contains(&encoded) && text.contains("[REDACTED:api_token]"),
            "{text}"
        );
    }
    let twin = base64::engine::general_purpose::STANDARD.encode("nothing of any interest to anybody");
    harbour.peer.always("work", Turn::Result(texts(&[&twin])));
    assert_eq!(text_of(&agent.call("work", json!({})).await, 0), twin);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_keywords_holds_nobody_up() {
    // Attack 33
    let harbour = redacting().await;
    let agent = harbour.agent("ann").await;
    let keywords = [
        concat!("gh", "p_ "),
        concat!("AK", "IA "),
        "-----BEGIN PRIVATE KEY ",
        "postgres:// ",
        "Bearer ",
        "sk-ant- ",
    ]
    .concat();
    let flood = keywords.repeat((2 << 20) / keywords.len());
    harbour.peer.always("work", Turn::Result(texts(&[&flood, TOKEN])));
    let began = std::time::Instant::now();
    let answer = agent.call("work", json!({})).await;
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
    assert!(!answer.text().contains(TOKEN), "{} bytes", answer.body.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_logs_and_questions_that_cannot_be_edited_are_not_passed_on() {
    // Attack 5
    let harbour = harbour(Speaks::Legacy, &[tool("work")], contained).await;
    let log = |params: serde_json::Value| Beat::notify("notifications/message", &params);
    harbour.peer.always(
        "work",
        Turn::Stream(vec![
            log(json!({"level": "error", "data": {KEY_ID: 1}})),
            log(json!({"level": "error", "data": "fine"})),
            Beat::ask(
                "q",
                "sampling/createMessage",
                json!({"messages": [], "maxTokens": 1, KEY_ID: "x"}),
            ),
            Beat::result(&texts(&["done"])),
        ]),
    );
    let answer = harbour.able("ann").await.call("work", json!({})).await;
    let messages = answer.messages();
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert_eq!(messages[0]["params"]["data"], "fine");
    assert!(!answer.text().contains(KEY_ID), "{}", answer.text());
    assert!(harbour.peer.answer_to("q").unwrap()["error"]["code"].is_i64());
    let blocked = super::scene::decisions(&harbour.gateway.home, &["--status", "blocked"]);
    assert_eq!(blocked.len(), 2, "{blocked:?}");
    harbour
        .peer
        .always("work", Turn::Result(format!(r#"{{"content":[],"{KEY_ID}":1}}"#)));
    let answer = harbour.agent("ann").await.call("work", json!({})).await;
    is_withheld("a member nobody knows", &answer.last(), SANITISED);
}
