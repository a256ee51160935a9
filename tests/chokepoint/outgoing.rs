//! What leaves toward a server: a secret is found wherever it can stand, in every era, and nothing of it arrives.

use gateway::OutgoingPlace;
use serde_json::{Value, json};

use super::scene::{TOKEN, decisions};
use crate::support::harbour::everything;
use crate::support::peer::ran;
use crate::support::{Answer, Beat, Harbour, Setup, Speaks, Turn, tool};

/// A server whose tool `work` runs, whose tool `ask` asks once for a form, and that has a prompt and resources.
async fn peer(speaks: Speaks, mode: &str) -> Harbour {
    let harbour = super::scene::harbour(speaks, &[tool("work"), tool("ask")], |setup: Setup| {
        setup.set("detection.arguments", mode)
    })
    .await;
    harbour.peer.always("work", Turn::Result(ran("work")));
    harbour.peer.list("prompts", &[json!({"name": "p"})]);
    harbour.peer.list("resources", &[json!({"uri": "a:mine", "name": "r"})]);
    let form = json!({"mode": "form", "message": "who?",
        "requestedSchema": {"type": "object", "properties": {"a": {"type": "string"}}}});
    match speaks {
        Speaks::Legacy => {
            let beats = vec![
                Beat::ask("q", "elicitation/create", form.clone()),
                Beat::ask("s", "sampling/createMessage", json!({"messages": [], "maxTokens": 1})),
                Beat::result(&ran("ask")),
            ];
            harbour.peer.always("ask", Turn::Stream(beats));
        }
        Speaks::Modern => harbour.peer.on("ask", move |seen| {
            if seen.json()["params"]["inputResponses"].is_object() {
                return Turn::Result(ran("ask"));
            }
            let inputs = json!({"q": {"method": "elicitation/create", "params": form.clone()}});
            Turn::Result(json!({"resultType": "input_required", "inputRequests": inputs}).to_string())
        }),
    }
    harbour
}

/// Sends the secret in this place, in every way there is.
async fn send(harbour: &Harbour, speaks: Speaks, place: OutgoingPlace) {
    let (ann, bob) = (harbour.able("ann").await, harbour.modern("bob").able(everything()));
    match place {
        OutgoingPlace::Arguments => {
            refused(&ann.call("work", json!({"path": TOKEN})).await);
            refused(&bob.call("work", json!({"path": TOKEN})).await);
        }
        OutgoingPlace::Member => {
            let named = json!({"name": "work", "arguments": {}, TOKEN: 1});
            for params in [json!({"name": "work", "arguments": {}, "x": {"y": [TOKEN]}}), named] {
                refused(&ann.request("tools/call", params.clone()).await);
                refused(&bob.request("tools/call", params).await);
            }
            let reference = json!({"type": "ref/prompt", "name": "p"});
            for (method, params) in [
                ("resources/read", json!({"uri": format!("a:{TOKEN}")})),
                ("prompts/get", json!({"name": "p", "arguments": {"a": TOKEN}})),
                (
                    "completion/complete",
                    json!({"ref": reference, "argument": {"name": "a", "value": TOKEN}}),
                ),
                (
                    "completion/complete",
                    json!({"ref": reference, "argument": {"name": "a", "value": "v"}, "context": {"arguments": {"b": TOKEN}}}),
                ),
            ] {
                refused(&ann.request(method, params.clone()).await);
                refused(&bob.request(method, params).await);
            }
            refused(
                &ann.request("resources/subscribe", json!({"uri": format!("a:{TOKEN}")}))
                    .await,
            );
        }
        OutgoingPlace::Meta => {
            for meta in [json!({"x/y": TOKEN}), json!({TOKEN: 1}), json!({"x/y": {"z": [TOKEN]}})] {
                let call = json!({"name": "work", "arguments": {}, "_meta": meta});
                refused(&ann.request("tools/call", call).await);
                let read = json!({"uri": "a:mine", "_meta": meta});
                refused(&ann.request("resources/read", read).await);
                let bob = harbour.modern("bob").saying(meta);
                refused(&bob.call("work", json!({})).await);
            }
        }
        OutgoingPlace::InputResponses => {
            let asked = bob.call("ask", json!({})).await.result();
            assert_eq!(asked["resultType"], "input_required", "{asked}");
            let keys = asked["inputRequests"].as_object().unwrap().keys();
            let answers: serde_json::Map<String, Value> = keys.map(|key| (key.clone(), accepted())).collect();
            let mut again = json!({"name": "ask", "arguments": {}, "inputResponses": answers});
            if asked["requestState"].is_string() {
                again["requestState"] = asked["requestState"].clone();
            }
            refused(&bob.request("tools/call", again).await);
        }
        OutgoingPlace::AnswerResult => {
            answer(
                harbour,
                speaks,
                |id| json!({"jsonrpc": "2.0", "id": id, "result": accepted()}),
            )
            .await;
        }
        OutgoingPlace::AnswerError => {
            answer(harbour, speaks, |id| {
                let error = json!({"code": -1, "message": TOKEN, "data": {"x": TOKEN}});
                json!({"jsonrpc": "2.0", "id": id, "error": error})
            })
            .await;
        }
        OutgoingPlace::Subscription => {
            let uris = json!([format!("a:{TOKEN}"), "a:mine"]);
            let wanted = json!({"notifications": {"resourceSubscriptions": uris}});
            let mut stream = bob.follow("subscriptions/listen", wanted).await;
            let first = stream.next().await.unwrap();
            let taken = &first["params"]["notifications"]["resourceSubscriptions"];
            assert_eq!(*taken, json!(["a:mine"]), "{first}");
        }
    }
}

/// Answers every question of a call in a session.
async fn answer(harbour: &Harbour, speaks: Speaks, reply: impl Fn(&Value) -> Value) {
    let ann = harbour.able("ann").await;
    let mut stream = ann.follow("tools/call", json!({"name": "ask"})).await;
    let questions = match speaks {
        Speaks::Legacy => 2,
        Speaks::Modern => 1,
    };
    for _ in 0..questions {
        let put = stream.next().await.unwrap();
        ann.send(reply(&put["id"]).to_string()).await;
    }
    stream.answer().await;
    if speaks == Speaks::Legacy {
        let told = harbour.peer.answer_to("q").unwrap();
        assert!(told["error"]["message"].is_string(), "{told}");
    }
}

fn accepted() -> Value {
    json!({"action": "accept", "content": {"a": TOKEN}})
}

fn refused(answer: &Answer) {
    assert_eq!(answer.reason_codes(), ["DENY_SECRET_IN_ARGUMENTS"], "{}", answer.text());
    assert!(!answer.text().contains(TOKEN), "{}", answer.text());
}

fn arrived(harbour: &Harbour) -> bool {
    let seen = harbour.peer.seen();
    let whole = seen.iter().any(|seen| seen.json().to_string().contains(TOKEN));
    let answers = ["q", "s"].iter().filter_map(|id| harbour.peer.answer_to(*id));
    whole || answers.into_iter().any(|answer| answer.to_string().contains(TOKEN))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_leaves_from_no_place_in_no_era() {
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        for place in OutgoingPlace::ALL {
            let harbour = peer(speaks, "block").await;
            send(&harbour, speaks, place).await;
            let case = format!("{speaks:?} {place}");
            let told = decisions(&harbour.gateway.home, &[]);
            assert!(
                told.iter().any(|record| record["status"] == "blocked"),
                "{case}: {told:?}"
            );
            assert!(
                told.iter().all(|record| record["stage"] == "arguments"),
                "{case}: {told:?}"
            );
            assert!(!format!("{told:?}").contains(TOKEN), "{case}");
            assert!(!arrived(&harbour), "{case}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_only_warned_of_leaves_and_is_on_record() {
    let harbour = peer(Speaks::Legacy, "warn").await;
    let ann = harbour.able("ann").await;
    let meta = json!({"name": "work", "arguments": {}, "_meta": {"x/y": TOKEN}});
    let answer = ann.request("tools/call", meta).await;
    assert_eq!(answer.result()["content"][0]["text"], "work ran", "{}", answer.text());
    let mut stream = ann.follow("tools/call", json!({"name": "ask"})).await;
    for _ in 0..2 {
        let put = stream.next().await.unwrap();
        ann.answer(&put["id"], accepted()).await;
    }
    stream.answer().await;
    assert!(arrived(&harbour));
    let told = decisions(&harbour.gateway.home, &["--status", "warning"]);
    let places: Vec<&str> = told
        .iter()
        .map(|record| record["findings"][0]["place"].as_str().unwrap())
        .collect();
    assert_eq!(
        places,
        ["/result/content/a", "/result/content/a", "/_meta/x~1y"],
        "{told:?}"
    );
}

/// A token of the gateway's own form; nobody has it.
fn ours(prefix: &str) -> String {
    format!("ptr_{prefix}_{}", "0f1e2d3c4b5a69788796a5b4c3d2e1f0".repeat(2))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateways_own_tokens_cross_it_in_no_direction_whatever_is_switched_on() {
    let excused = tempfile::tempdir().unwrap();
    let pack = excused.path().join("pack.toml");
    let allow = "[[allow]]\nrule = \"portreeve-token\"\nserver = \"*\"\ntool = \"*\"\n";
    std::fs::write(&pack, allow).unwrap();
    for (arguments, packs) in [("off", vec![]), ("warn", vec![]), ("block", vec![&pack])] {
        let harbour = super::scene::harbour(Speaks::Legacy, &[tool("work"), tool("leak")], |setup: Setup| {
            setup
                .set("detection.arguments", arguments)
                .set("detection.packs", packs)
        })
        .await;
        harbour.peer.always("work", Turn::Result(ran("work")));
        let ann = harbour.agent("ann").await;
        for token in [ours("agt"), ours("adm")] {
            let hidden = token.replacen("ptr", "p\u{200b}tr", 1);
            for value in [&token, &hidden] {
                refused(&ann.call("work", json!({"path": value})).await);
                let meta = json!({"name": "work", "arguments": {}, "_meta": {"x/y": value}});
                refused(&ann.request("tools/call", meta).await);
            }
            let said = json!({"content": [{"type": "text", "text": format!("see {token} there")}]});
            harbour.peer.always("leak", Turn::Result(said.to_string()));
            let answer = ann.call("leak", json!({})).await;
            let text = &answer.result()["content"][0]["text"];
            assert_eq!(text, "see [REDACTED:api_token] there", "{arguments}");
        }
        assert!(
            !harbour
                .peer
                .seen()
                .iter()
                .any(|seen| seen.json().to_string().contains("ptr_"))
        );
        let told = decisions(&harbour.gateway.home, &[]);
        assert!(told.iter().all(|record| record["mode"] == "always"), "{told:?}");
        assert_eq!(told.len(), 10, "{told:?}");
    }
}
