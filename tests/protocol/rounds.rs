//! Requests that take several rounds: the state a client carries is sealed for one principal and one request.

use serde_json::{Value, json};

use crate::support::harbour::everything;
use crate::support::peer::ran;
use crate::support::{Answer, Beat, Harbour, Modern, Speaks, Turn};

const STATE: &str = r#"the server's own: é\u0000 {}"#;

/// A server whose tools ask once, by its era's means, then run.
async fn asking(server: Speaks) -> Harbour {
    let harbour = Harbour::with(server, &["ask", "other", "read"], |setup| setup).await;
    for tool in ["ask", "other"] {
        match server {
            Speaks::Modern => harbour.peer.on(tool, move |seen| {
                let params = &seen.json()["params"];
                if params["requestState"] == STATE && params["inputResponses"]["q"]["roots"].is_array() {
                    return Turn::Result(ran(tool));
                }
                let inputs = json!({"q": {"method": "roots/list", "params": {}}});
                let result = json!({"resultType": "input_required", "inputRequests": inputs, "requestState": STATE});
                Turn::Result(result.to_string())
            }),
            Speaks::Legacy => {
                let beats = vec![Beat::ask("q", "roots/list", json!({})), Beat::result(&ran(tool))];
                harbour.peer.always(tool, Turn::Stream(beats));
            }
        }
    }
    harbour
}

async fn round(client: &Modern, tool: &str, arguments: Value, more: Value) -> Answer {
    let mut params = json!({"name": tool, "arguments": arguments});
    params
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    client.request("tools/call", params).await
}

/// The answers to what a result asks.
fn answers(result: &Value) -> Value {
    let keys = result["inputRequests"].as_object().unwrap().keys();
    keys.map(|key| (key.clone(), json!({"roots": []})))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_is_good_for_its_principal_tool_and_arguments_alone() {
    // R108, R118
    for server in [Speaks::Modern, Speaks::Legacy] {
        let harbour = asking(server).await;
        let ann = harbour.modern("ann").able(everything());
        let bob = harbour.modern("bob").able(everything());
        let first = round(&ann, "ask", json!({"text": "a"}), json!({})).await;
        let result = first.result();
        assert_eq!(result["resultType"], "input_required", "{}", first.text());
        assert!(!first.text().contains("the server's own"), "{}", first.text());
        let state = result["requestState"].as_str().unwrap().to_owned();
        let brought = |state: &str| json!({"requestState": state, "inputResponses": answers(&result)});
        let mut bent = state.clone().into_bytes();
        let middle = bent.len() / 2;
        bent[middle] = if bent[middle] == b'0' { b'1' } else { b'0' };
        let bent = String::from_utf8(bent).unwrap();
        let cases = [
            ("tampered", &ann, "ask", json!({"text": "a"}), brought(&bent)),
            (
                "cut",
                &ann,
                "ask",
                json!({"text": "a"}),
                brought(state.get(2..).unwrap()),
            ),
            (
                "longer",
                &ann,
                "ask",
                json!({"text": "a"}),
                brought(&format!("{state}00")),
            ),
            ("made up", &ann, "ask", json!({"text": "a"}), brought("made up")),
            ("the server's own", &ann, "ask", json!({"text": "a"}), brought(STATE)),
            ("empty", &ann, "ask", json!({"text": "a"}), brought("")),
            ("another principal", &bob, "ask", json!({"text": "a"}), brought(&state)),
            ("another tool", &ann, "other", json!({"text": "a"}), brought(&state)),
            ("other arguments", &ann, "ask", json!({"text": "b"}), brought(&state)),
            ("no arguments", &ann, "ask", json!({}), brought(&state)),
            ("no text", &ann, "ask", json!({"text": "a"}), json!({"requestState": 7})),
            (
                "answers in a list",
                &ann,
                "ask",
                json!({"text": "a"}),
                json!({"requestState": state, "inputResponses": []}),
            ),
        ];
        let asked = harbour.peer.asked("tools/call").len();
        for (case, client, tool, arguments, more) in cases {
            let refused = round(client, tool, arguments, more).await;
            assert_eq!(
                (refused.status, refused.error_code()),
                (200, -32602),
                "{case}: {}",
                refused.text()
            );
            harbour.gateway.receipt_named_by(&refused);
        }
        assert_eq!(
            harbour.peer.asked("tools/call").len(),
            asked,
            "nothing reached the server"
        );
        // The twin, spelled otherwise, still finds its call.
        let done = round(&ann, "ask", json!({"text": "a"}), brought(&state)).await;
        assert_eq!(done.result()["content"][0]["text"], "ask ran", "{}", done.text());
        assert_eq!(done.result()["resultType"], "complete");
        if server == Speaks::Legacy {
            assert_eq!(harbour.peer.answer_to("q").unwrap()["result"], json!({"roots": []}));
            let again = round(&ann, "ask", json!({"text": "a"}), brought(&state)).await;
            assert_eq!(again.error_code(), -32602, "a parked call is found once");
        }
        harbour.serves_others("read").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_asked_again_and_what_nobody_asked_is_ignored() {
    let harbour = asking(Speaks::Legacy).await;
    let ann = harbour.modern("ann").able(everything());
    let first = round(&ann, "ask", json!({}), json!({})).await.result();
    let more = json!({"requestState": first["requestState"], "inputResponses": {"unheard-of": {"roots": []}}});
    let again = round(&ann, "ask", json!({}), more).await.result();
    assert_eq!(again["resultType"], "input_required", "{again}");
    assert_eq!(again["inputRequests"], first["inputRequests"]);
    let more = json!({"requestState": again["requestState"], "inputResponses": answers(&again)});
    assert_eq!(
        round(&ann, "ask", json!({}), more).await.result()["content"][0]["text"],
        "ask ran"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_and_resources_take_rounds_too() {
    let harbour = asking(Speaks::Modern).await;
    let ann = harbour.modern("ann").able(everything());
    for (method, label, params) in [
        (
            "prompts/get",
            "greet",
            json!({"name": "greet", "arguments": {"a": "b"}}),
        ),
        ("resources/read", "a:b", json!({"uri": "a:b"})),
    ] {
        harbour.peer.on(label, |seen| {
            if seen.json()["params"]["requestState"] == STATE {
                return Turn::Result(r#"{"resultType":"complete","messages":[],"contents":[]}"#.to_owned());
            }
            let inputs = json!({"q": {"method": "roots/list"}});
            let result = json!({"resultType": "input_required", "inputRequests": inputs, "requestState": STATE});
            Turn::Result(result.to_string())
        });
        let first = ann.request(method, params.clone()).await.result();
        let mut more = params.clone();
        more["requestState"] = first["requestState"].clone();
        more["inputResponses"] = json!({"q": {"roots": []}});
        assert_eq!(
            ann.request(method, more.clone()).await.result()["resultType"],
            "complete",
            "{method}"
        );
        let member = if method == "prompts/get" { "name" } else { "uri" };
        more[member] = json!("a:other");
        assert_eq!(ann.request(method, more).await.error_code(), -32602, "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_modern_server_that_asks_what_the_client_cannot_is_withheld() {
    let harbour = asking(Speaks::Modern).await;
    let unable = harbour.modern("ann").able(json!({"sampling": {}}));
    let withheld = round(&unable, "ask", json!({}), json!({})).await;
    assert_eq!(withheld.result()["isError"], true, "{}", withheld.text());
    assert!(!withheld.text().contains("inputRequests"), "{}", withheld.text());
    let named = withheld.decision()["receipt_id"].clone();
    let records = crate::support::records::all(&harbour.gateway.home);
    assert!(
        records
            .iter()
            .any(|record| record["receipt_id"] == named && record["outcome"]["status"] == "error")
    );
    let endless = json!({"resultType": "input_required", "inputRequests": {"q": {"method": "roots/list"}}});
    harbour.peer.always("other", Turn::Result(endless.to_string()));
    // A client with a session is asked round by round, but not for ever.
    let bob = harbour.able("bob").await;
    let mut stream = bob.follow("tools/call", json!({"name": "other"})).await;
    let mut rounds = 0;
    let last = loop {
        let message = stream.next().await.unwrap();
        if message.get("method").is_none() {
            break message;
        }
        rounds += 1;
        bob.answer(&message["id"], json!({"roots": []})).await;
    };
    assert_eq!((rounds, &last["result"]["isError"]), (8, &json!(true)), "{last}");
    harbour.serves_others("read").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_modern_servers_questions_are_put_on_the_stream_of_a_sessions_call() {
    let harbour = asking(Speaks::Modern).await;
    let bob = harbour.able("bob").await;
    let mut stream = bob.follow("tools/call", json!({"name": "ask"})).await;
    let question = stream.next().await.unwrap();
    assert_eq!(question["method"], "roots/list");
    bob.answer(&question["id"], json!({"roots": []})).await;
    assert_eq!(stream.answer().await["result"]["content"][0]["text"], "ask ran");
    let rounds = harbour.peer.asked("tools/call");
    let ids: Vec<_> = rounds.iter().map(|call| call.json()["id"].clone()).collect();
    assert_eq!((ids.len(), ids[0] != ids[1]), (2, true), "a new request for each round");
    assert_eq!(
        rounds[1].json()["params"]["requestState"],
        STATE,
        "the server has its own back"
    );
}
