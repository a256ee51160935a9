//! Who is calling: JWTs of any number of issuers, and what the receipt says about them.

use serde_json::{Value, json};

use crate::support::agent::initialize_body;
use crate::support::issuer::{AUDIENCE, ISSUER, Key, but, claims};
use crate::support::{Agent, Ask, Issuer, Server, Setup, Town, tool};

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_a_credential_is_told_where_to_get_one() {
    let town = Town::with(&["read"], |setup| setup).await;
    for route in ["/mcp", "/mcp/files"] {
        let reply = town.gateway.ask(Ask::post(route, initialize_body())).await;
        assert_eq!(reply.status, 401);
        let challenge = reply.headers.get("www-authenticate").unwrap();
        let (_, rest) = challenge.split_once("resource_metadata=\"").unwrap();
        let url = rest.split('"').next().unwrap();
        let (_, path) = url.split_once(&town.gateway.mcp.address.to_string()).unwrap();
        assert_eq!(path, format!("/.well-known/oauth-protected-resource{route}"));
        let document = town.gateway.ask(Ask::new("GET", path)).await;
        assert_eq!(document.status, 200);
        assert_eq!(
            document.json()["resource"],
            format!("http://{}{route}", town.gateway.mcp.address)
        );
        assert_eq!(document.json()["authorization_servers"], json!([ISSUER]));
        assert_eq!(document.json()["bearer_methods_supported"], json!(["header"]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_all_three_algorithms_are_accepted() {
    for key in [Key::rs256("a"), Key::es256("b"), Key::eddsa("c")] {
        let issuer = Issuer::with_key(key).await;
        let server = Server::start(&[tool("read")]).await;
        let gateway = Setup::with(&issuer, &server).start().await;
        let agent = Agent::connect(&gateway, "/mcp/files", &issuer.token("ann")).await;
        assert_eq!(agent.names().await, ["read"], "{}", issuer.key().algorithm());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_unknown_keys_cause_two_fetches_at_most() {
    let town = Town::with(&["read"], |setup| setup).await;
    town.agent("ann").await;
    let before = town.issuer.fetches();
    let forger = Key::es256("x");
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..1000_u32 {
        let header = but(forger.header(), json!({"kid": format!("random-{number}")}));
        let ask = Ask::post("/mcp", initialize_body()).bearer(&forger.sign(&header, &claims("ann")));
        // INVARIANT of the scene: forty addresses, so that no flood folds and slows the run down.
        let door = town
            .gateway
            .mcp
            .calling_from([127, 0, 1, u8::try_from(number % 40).unwrap() + 1]);
        tasks.spawn(async move { door.ask(&ask).await.status });
        if tasks.len() >= 16 {
            assert_eq!(tasks.join_next().await.unwrap().unwrap(), 401);
        }
    }
    assert!(tasks.join_all().await.iter().all(|status| *status == 401));
    let fetches = town.issuer.fetches() - before;
    assert!(fetches <= 2, "{fetches} fetches");
    assert_eq!(
        status(&town, &town.issuer.token("ann")).await,
        200,
        "good tokens go on working"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn known_keys_outlive_a_broken_issuer() {
    let town = Town::with(&["read"], |setup| setup).await;
    town.agent("ann").await;
    town.issuer.break_down();
    assert_eq!(status(&town, &town.issuer.token("bob")).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_that_is_down_at_the_start_refuses_and_nothing_else() {
    let issuer = Issuer::start().await;
    issuer.break_down();
    let gateway = Setup::new().issuer(&issuer).start().await;
    let reply = gateway
        .ask(Ask::post("/mcp", initialize_body()).bearer(&issuer.token("ann")))
        .await;
    assert_eq!(reply.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_issuers_are_trusted_each_for_its_own_name() {
    // R117
    let (first, second) = (Issuer::start().await, Issuer::with_key(Key::eddsa("other")).await);
    let other = "https://other.test";
    let both = json!([{"issuer": ISSUER, "audience": AUDIENCE, "jwks": first.jwks_url()},
                      {"issuer": other, "audience": [AUDIENCE, "urn:second"], "jwks": second.jwks_url(), "algorithms": ["EdDSA"]}]);
    let gateway = Setup::new().set("identity.jwt", both).start().await;
    let status = async |token: String| {
        gateway
            .ask(Ask::post("/mcp", initialize_body()).bearer(&token))
            .await
            .status
    };
    assert_eq!(status(first.token("ann")).await, 200);
    assert_eq!(
        status(second.sign(&but(claims("ann"), json!({"iss": other, "aud": "urn:second"})))).await,
        200
    );
    assert_eq!(
        status(second.token("ann")).await,
        401,
        "the second issuer speaks in the name of the first"
    );
    assert_eq!(
        status(first.sign(&but(claims("ann"), json!({"aud": "urn:second"})))).await,
        401,
        "another issuer's audience"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audience_may_name_one_server_and_is_good_there_only() {
    let town = Town::with(&["read"], |setup| setup).await;
    let token = town
        .issuer
        .sign(&but(claims("ann"), json!({"aud": format!("{AUDIENCE}/files")})));
    let status = async |route: &str| {
        town.gateway
            .ask(Ask::post(route, initialize_body()).bearer(&token))
            .await
            .status
    };
    assert_eq!((status("/mcp/files").await, status("/mcp").await), (200, 401));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_audience_is_the_public_url() {
    let issuer = Issuer::start().await;
    let setup = Setup::new().set("identity.jwt", json!([{"issuer": ISSUER, "jwks": issuer.jwks_url()}]));
    let gateway = setup.set("listen.public_url", "https://mcp.example").start().await;
    let status = async |audience: &str| {
        let token = issuer.sign(&but(claims("ann"), json!({"aud": audience})));
        gateway
            .ask(Ask::post("/mcp", initialize_body()).bearer(&token))
            .await
            .status
    };
    assert_eq!(
        (status("https://mcp.example/mcp").await, status(AUDIENCE).await),
        (200, 401)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn on_loopback_a_client_is_answered_by_the_name_it_used() {
    let issuer = Issuer::start().await;
    let setup = Setup::new().set("identity.jwt", json!([{"issuer": ISSUER, "jwks": issuer.jwks_url()}]));
    let gateway = setup.start().await;
    let port = gateway.mcp.address.port();
    for host in [format!("localhost:{port}"), format!("127.0.0.1:{port}")] {
        let ask = |ask: Ask| ask.header("Host", &host);
        let refused = gateway.ask(ask(Ask::post("/mcp", initialize_body()))).await;
        let challenge = refused.headers.get("www-authenticate").unwrap();
        let document = format!("http://{host}/.well-known/oauth-protected-resource/mcp");
        assert!(
            challenge.contains(&format!("resource_metadata=\"{document}\"")),
            "{challenge}"
        );
        let found = gateway
            .ask(ask(Ask::new("GET", "/.well-known/oauth-protected-resource/mcp")))
            .await;
        let resource = format!("http://{host}/mcp");
        assert_eq!(found.json()["resource"], resource);
        // What an issuer makes for the resource that the client was told is taken.
        let token = issuer.sign(&but(claims("ann"), json!({"aud": resource})));
        let taken = gateway
            .ask(ask(Ask::post("/mcp", initialize_body()).bearer(&token)))
            .await;
        assert_eq!(taken.status, 200, "{host}");
    }
    let token = issuer.sign(&but(
        claims("ann"),
        json!({"aud": format!("http://localhost:{}/mcp", port ^ 1)}),
    ));
    let other = gateway.ask(Ask::post("/mcp", initialize_body()).bearer(&token)).await;
    assert_eq!(other.status, 401, "another port is another gateway");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_receipt_names_the_verified_principal() {
    // R108, R166, R167, R168, R169
    let town = Town::with(&["read"], |setup| setup).await;
    let cases = [
        (json!({}), principal("user", Value::Null, json!([]))),
        (json!({"org_id": "acme"}), principal("user", json!("acme"), json!([]))),
        (
            json!({"act": {"sub": "robot"}}),
            principal("agent", Value::Null, json!(["robot"])),
        ),
    ];
    for (changes, expected) in cases {
        let token = town.issuer.sign(&but(claims("ann"), changes));
        let agent = Agent::connect(&town.gateway, "/mcp/files", &token).await;
        let answer = agent.call("read", json!({})).await;
        assert_eq!(answer.result()["isError"], false);
        assert_eq!(town.gateway.receipt_of(&answer)["principal"], expected);
    }
}

fn principal(actor: &str, org: Value, act: Value) -> Value {
    json!({"sub": "ann", "actor_type": actor, "client_id": "client-7", "org_id": org, "issuer": ISSUER,
           "authn": "jwt", "act": act, "run": null})
}

async fn status(town: &Town, token: &str) -> u16 {
    town.gateway
        .ask(Ask::post("/mcp", initialize_body()).bearer(token))
        .await
        .status
}
