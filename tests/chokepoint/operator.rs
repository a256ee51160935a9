//! What an operator is left with: sanitised records and logs, and nothing of a secret anywhere.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::scene::{KEY_ID, TOKEN, VIOLATION, contained, counted, declaring, harbour, hostile, leak, texts};
use crate::support::{Beat, Setup, Speaks, Turn, tool};

fn files_below(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Every file of a gateway's home, logs included, without these words.
pub(super) fn hold_nothing(home: &Path, words: &[&str]) {
    let mut files = Vec::new();
    files_below(home, &mut files);
    assert!(
        files.iter().any(|file| file.ends_with("stderr.log")) && files.len() > 5,
        "{files:?}"
    );
    for file in files {
        let bytes = std::fs::read(&file).unwrap_or_default();
        for word in words {
            let holds = bytes.windows(word.len()).any(|window| window == word.as_bytes());
            assert!(!holds, "{word:?} is in {}", file.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_came_by_any_way_is_in_no_file_and_no_log_at_any_level() {
    // R091
    // Attack 25
    // Attack 26
    for server in [Speaks::Legacy, Speaks::Modern] {
        let set = |setup: Setup| {
            contained(setup)
                .set("response.limit_bytes", 200)
                .variable("PORTREEVE_LOG", "trace")
        };
        let tools = [
            tool("leak"),
            tool("fails"),
            tool("chatty"),
            tool("names"),
            tool("long"),
            declaring("violate", &counted()),
        ];
        let harbour = harbour(server, &tools, set).await;
        let error = format!(r#"{{"code":-32055,"message":"{}","data":"{KEY_ID}"}}"#, hostile());
        harbour.peer.always("leak", Turn::Result(leak()));
        harbour.peer.always("fails", Turn::Error(200, error));
        let log = Beat::notify("notifications/message", &json!({"level": "error", "data": TOKEN}));
        harbour
            .peer
            .always("chatty", Turn::Stream(vec![log, Beat::result(&leak())]));
        harbour.peer.always(
            "names",
            Turn::Result(format!(r#"{{"content":[],"structuredContent":{{"{KEY_ID}":1}}}}"#)),
        );
        harbour.peer.always(
            "long",
            Turn::Result(texts(&[&format!("{} {TOKEN} {}", "w".repeat(180), "w".repeat(180))])),
        );
        harbour
            .peer
            .always("violate", Turn::Result(VIOLATION.replace("VIOLATION", TOKEN)));
        let (agent, modern) = (harbour.agent("ann").await, harbour.modern("ann"));
        for name in ["leak", "fails", "chatty", "names", "long", "violate"] {
            for answer in [agent.call(name, json!({})).await, modern.call(name, json!({})).await] {
                assert!(
                    !answer.text().contains(KEY_ID) && !answer.text().contains(TOKEN),
                    "{name}: {}",
                    answer.text()
                );
            }
        }
        let (head, tail) = TOKEN.split_at(17);
        let words = [TOKEN, KEY_ID, head, tail, "before "];
        hold_nothing(&harbour.gateway.home.path(""), &words);
        let home = harbour.gateway.stop().await;
        hold_nothing(&home.path(""), &words);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_calls_its_own_methods_is_nowhere_repeated() {
    // R091
    // Attack 25
    let set = |setup: Setup| contained(setup).variable("PORTREEVE_LOG", "trace");
    let harbour = harbour(Speaks::Legacy, &[tool("work")], set).await;
    let tell = |method: &str, params: &str| {
        let id = if method.starts_with("notifications/") {
            ""
        } else {
            r#""id":7,"#
        };
        Beat::Tell(format!(
            r#"{{"jsonrpc":"2.0",{id}"method":"{method}","params":{params}}}"#
        ))
    };
    harbour.peer.always(
        "work",
        Turn::Stream(vec![
            tell(&format!("notifications/{TOKEN}"), &format!(r#"{{"{KEY_ID}":1}}"#)),
            tell(&format!("evil/{TOKEN}"), "{}"),
            tell(&format!("other/{TOKEN}"), &format!(r#"{{"{KEY_ID}":1}}"#)),
            Beat::result(&crate::support::peer::ran("work")),
        ]),
    );
    let answer = harbour.able("ann").await.call("work", json!({})).await;
    assert!(answer.result()["content"].is_array(), "{}", answer.text());
    let refused = crate::support::records::list(&harbour.gateway.home, &["--status", "denied"]);
    let methods: Vec<_> = refused.iter().map(|record| record["mcp"]["method"].clone()).collect();
    assert_eq!(methods, ["unknown", "unknown"]);
    let home = harbour.gateway.stop().await;
    hold_nothing(&home.path(""), &[TOKEN, KEY_ID]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_excused_for_a_tool_is_excused_for_nothing_else_of_that_name() {
    let directory = tempfile::tempdir().unwrap();
    let pack = directory.path().join("pack.toml");
    std::fs::write(
        &pack,
        "[[allow]]\nrule = \"github-personal-token\"\nserver = \"peer\"\ntool = \"work\"\n",
    )
    .unwrap();
    let set = |setup: Setup| {
        setup
            .set("output_sanitisation.response_action", "redact")
            .set("detection.packs", [&pack])
            .set("detection.arguments", "block")
    };
    let harbour = harbour(Speaks::Legacy, &[tool("work"), tool("other")], set).await;
    harbour.peer.list("prompts", &[json!({"name": "work"})]);
    harbour
        .peer
        .list("resources", &[json!({"uri": "work", "name": "work"})]);
    harbour.peer.always("other", Turn::Result(texts(&[TOKEN])));
    harbour.peer.on("work", |seen| {
        let content = json!({"type": "text", "text": TOKEN});
        let result = match seen.method().as_str() {
            "prompts/get" => json!({"messages": [{"role": "user", "content": content}]}),
            "resources/read" => json!({"contents": [{"uri": "work", "text": TOKEN}]}),
            _ => json!({"content": [content]}),
        };
        Turn::Result(result.to_string())
    });
    let completion = json!({"completion": {"values": [TOKEN]}});
    harbour
        .peer
        .always("completion/complete", Turn::Result(completion.to_string()));
    let agent = harbour.agent("ann").await;
    let excused = agent.call("work", json!({})).await;
    assert!(
        excused.text().contains(TOKEN),
        "the operator says so: {}",
        excused.text()
    );
    let argument = json!({"name": "a", "value": "x"});
    for (method, params) in [
        ("tools/call", json!({"name": "other", "arguments": {}})),
        ("prompts/get", json!({"name": "work"})),
        ("resources/read", json!({"uri": "work"})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "work"}, "argument": argument}),
        ),
    ] {
        let answer = agent.request(method, params).await;
        assert!(!answer.text().contains(TOKEN), "{method}: {}", answer.text());
        assert!(answer.text().contains("REDACTED"), "{method}: {}", answer.text());
    }
    // What leaves is excused the same way.
    let secret = json!({"name": "work", "arguments": {"a": TOKEN}});
    let refused = agent.request("prompts/get", secret).await;
    assert_eq!(
        refused.reason_codes(),
        ["DENY_SECRET_IN_ARGUMENTS"],
        "{}",
        refused.text()
    );
}
