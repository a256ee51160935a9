//! What a client sends reaches the server as it is, and what belongs to another hop does not.

use serde_json::{Value, json};

use super::generate::{Keys, Odd, Text};
use crate::support::{Ask, Harbour, Peer, Setup, Speaks};

const CELLS: [(Speaks, Speaks); 4] = [
    (Speaks::Legacy, Speaks::Legacy),
    (Speaks::Modern, Speaks::Legacy),
    (Speaks::Legacy, Speaks::Modern),
    (Speaks::Modern, Speaks::Modern),
];

async fn harbour(server: Speaks) -> Harbour {
    let open = |setup: Setup| setup.set("servers.peer.tools.any.unknown_fields", "allow");
    let peer = Peer::start(server, &[]).await;
    let any = json!({"name": "any", "description": "Takes anything.", "inputSchema": {"type": "object"}});
    peer.list("tools", &[any]);
    Harbour::before(peer, open).await
}

async fn ask(harbour: &Harbour, client: Speaks, params: &str) -> Ask {
    match client {
        Speaks::Legacy => harbour.agent("ann").await.ask(format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{{params}}}}}"#
        )),
        Speaks::Modern => {
            let modern = harbour.modern("ann");
            let ours = modern.body("tools/call", json!({}))["params"]["_meta"].to_string();
            let ours = ours.strip_prefix('{').and_then(|ours| ours.strip_suffix('}')).unwrap();
            let params = params.replacen("\"_meta\":{", &format!("\"_meta\":{{{ours},"), 1);
            let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{{params}}}}}"#);
            modern.ask_raw("tools/call", body).header("Mcp-Name", "any")
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bytes_of_arguments_reach_the_server_in_every_cell() {
    // R011
    for (client, server) in CELLS {
        let harbour = harbour(server).await;
        let mut odd = Odd::new(7);
        for round in 0..100 {
            let arguments = odd.object(3, Text::Whole, Keys::Once);
            let params = format!(r#""name":"any","arguments":{arguments},"_meta":{{"vendor/key":1e2}}"#);
            let answer = harbour.gateway.ask(ask(&harbour, client, &params).await).await;
            assert_eq!(answer.status, 200, "seed 7, {round}: {arguments} {}", answer.text());
            let calls = harbour.peer.asked("tools/call");
            let last = String::from_utf8(calls.last().map_or_else(Vec::new, |call| call.body.clone())).unwrap();
            assert_eq!(calls.len(), round + 1, "seed 7: {arguments} {}", answer.text());
            let sent = format!("\"arguments\":{arguments}");
            assert!(
                last.contains(&sent),
                "seed 7, {client:?}→{server:?} {round}: {sent}\n{last}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_members_go_along_and_those_of_another_hop_do_not() {
    // R011, R106
    for (client, server) in CELLS {
        let harbour = harbour(server).await;
        let params = r#""x-params" : { "b":1e2 ,"a":-0},"name":"any","_meta":{ "vendor/key" :[ 1e2,12345678901234567890123 ],
            "io.modelcontextprotocol/evil":"LEAK","portreeve/decision":"LEAK","traceparent":"LEAK","tracestate":"LEAK",
            "baggage":"LEAK"}"#;
        let request = ask(&harbour, client, params).await;
        let request = request.header("baggage", "LEAK").header("tracestate", "l=LEAK");
        let request = request.header("Mcp-Param-Evil", "LEAK").header("Cookie", "LEAK");
        let answer = harbour.gateway.ask(request).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let call = harbour.peer.asked("tools/call").pop().expect("a call");
        let body = String::from_utf8(call.body.clone()).unwrap();
        assert!(body.contains(r#""x-params":{ "b":1e2 ,"a":-0}"#), "{body}");
        assert!(
            body.contains(r#""vendor/key":[ 1e2,12345678901234567890123 ]"#),
            "{body}"
        );
        assert_eq!(call.json()["params"].get("arguments"), None, "absent stays absent");
        let everything = format!("{:?} {body}", call.headers);
        for foreign in ["LEAK", "self-declared", "progressToken"] {
            assert!(
                !everything.contains(foreign),
                "{client:?}→{server:?} {foreign}: {everything}"
            );
        }
        let info = &call.json()["params"]["_meta"]["io.modelcontextprotocol/clientInfo"]["name"];
        let expected = if server == Speaks::Modern {
            json!("portreeve")
        } else {
            Value::Null
        };
        assert_eq!(*info, expected);
    }
}
