//! Tokens that must not be believed.

use aws_lc_rs::hmac;
use serde_json::{Value, json};

use crate::support::agent::initialize_body;
use crate::support::issuer::{AUDIENCE, Key, base64url, but, claims, unsigned};
use crate::support::{Agent, Ask, Gateway, Issuer, Setup, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn no_bad_token_is_believed_and_every_one_is_recorded() {
    // R108, R110, R166
    let issuer = Issuer::with_key(Key::rs256("key-1")).await;
    let gateway = Setup::new().issuer(&issuer).start().await;
    let good = gateway
        .ask(Ask::post("/mcp", initialize_body()).bearer(&issuer.token("ann")))
        .await;
    assert_eq!(good.status, 200, "the twin of all cases is accepted: {}", good.text());
    let cases = cases(&issuer);
    let seq = gateway.last_seq();
    for (case, ask, _) in &cases {
        let reply = gateway.ask(ask.clone()).await;
        assert_eq!(reply.status, 401, "{case}");
        let challenge = reply.headers.get("www-authenticate").unwrap_or_default();
        assert!(
            challenge.starts_with("Bearer") && challenge.contains("resource_metadata=\""),
            "{case}: {challenge}"
        );
        assert_eq!(reply.headers.get("mcp-session-id"), None, "{case}");
    }
    let receipts = gateway.receipts_after(seq);
    assert_eq!(receipts.len(), cases.len());
    for ((case, _, code), receipt) in cases.iter().zip(receipts) {
        assert_eq!(receipt["decision"]["reason_codes"], json!([code]), "{case}");
        assert_eq!(receipt["decision"]["result"], "deny", "{case}");
        assert_eq!(receipt["principal"]["sub"], "unauthenticated", "{case}");
        assert_eq!(receipt["principal"]["client_id"], Value::Null, "{case}");
        assert_eq!(
            (&receipt["outcome"]["status"], &receipt["outcome"]["executed"]),
            (&json!("error"), &json!(false)),
            "{case}"
        );
    }
    a_closed_session_is_no_way_in(&gateway, &issuer).await;
    keys_rotate_without_a_restart(&gateway, &issuer).await;
}

/// Whatever is shown with its id: a good token is told that the session is gone, a bad one is not even told that.
async fn a_closed_session_is_no_way_in(gateway: &Gateway, issuer: &Issuer) {
    let agent = Agent::connect(gateway, "/mcp", &issuer.token("ann")).await;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    assert_eq!(agent.send(ping).await.status, 200);
    let end = agent.ask("").instead("Content-Type", None).with_method("DELETE");
    assert_eq!(agent.submit(end).await.status, 204);
    assert_eq!(agent.send(ping).await.status, 404);
    let expired = json!({"exp": jiff::Timestamp::now().as_second() - 120});
    let expired = issuer.sign(&but(claims("ann"), expired));
    for authorization in [None, Some(format!("Bearer {expired}"))] {
        let replayed = agent.ask(ping).instead("Authorization", authorization.as_deref());
        assert_eq!(gateway.ask(replayed).await.status, 401, "{authorization:?}");
    }
}

async fn keys_rotate_without_a_restart(gateway: &Gateway, issuer: &Issuer) {
    let status = async |token: &str| gateway.ask(ask().bearer(token)).await.status;
    let old = issuer.key();
    assert_eq!(status(&old.sign(&old.header(), &claims("ann"))).await, 200);
    issuer.rotate_to(Key::rs256("key-2"));
    let after = issuer.token("ann");
    eventually("the new key is known", 20, async || status(&after).await == 200).await;
    // A token that was verified is remembered for a minute; this one is new.
    let late = old.sign(&old.header(), &claims("late"));
    assert_eq!(status(&late).await, 401, "the old key is good for nothing any more");
}

/// What is tried, how, and the reason on record.
type Case = (&'static str, Ask, &'static str);

const MISSING: &str = "DENY_NO_AUTHN";
const INVALID: &str = "DENY_INVALID_TOKEN";

fn cases(issuer: &Issuer) -> Vec<Case> {
    let mut cases = vec![
        ("no token", ask(), MISSING),
        ("another scheme", ask().header("Authorization", "Basic YTpi"), INVALID),
        (
            "two headers",
            ask().bearer(&issuer.token("ann")).bearer(&issuer.token("ann")),
            INVALID,
        ),
        (
            "in the query",
            Ask::post(&format!("/mcp?access_token={}", issuer.token("ann")), initialize_body()),
            INVALID,
        ),
        (
            "in a cookie",
            ask().header(
                "Cookie",
                &format!("token={0}; Authorization=Bearer {0}", issuer.token("ann")),
            ),
            INVALID,
        ),
    ];
    cases.extend(
        bad_claims(issuer)
            .into_iter()
            .map(|(case, token)| (case, ask().bearer(&token), INVALID)),
    );
    cases.extend(
        bad_signatures(issuer)
            .into_iter()
            .map(|(case, token)| (case, ask().bearer(&token), INVALID)),
    );
    cases
}

fn bad_claims(issuer: &Issuer) -> Vec<(&'static str, String)> {
    let now = jiff::Timestamp::now().as_second();
    let changes = [
        ("expired", json!({"exp": now - 120})),
        ("without expiry", json!({"exp": null})),
        ("expiry that is no number", json!({"exp": "never"})),
        ("not yet valid", json!({"nbf": now + 120})),
        ("wrong issuer", json!({"iss": "https://evil.example"})),
        ("issuer with a slash", json!({"iss": "https://idp.test/"})),
        ("without issuer", json!({"iss": null})),
        ("wrong audience", json!({"aud": "https://other.example/mcp"})),
        (
            "audience with more behind",
            json!({"aud": format!("{AUDIENCE}.evil.example")}),
        ),
        (
            "audience of a server, on the route of all",
            json!({"aud": format!("{AUDIENCE}/files")}),
        ),
        ("without audience", json!({"aud": null})),
        ("empty audience", json!({"aud": []})),
        ("without subject", json!({"sub": null})),
        ("a subject that is too long", json!({"sub": "x".repeat(256)})),
        ("a line end in the subject", json!({"sub": "ann\nroot"})),
        ("an escape in the subject", json!({"sub": "ann\u{1b}[2K"})),
        ("a control character in the client", json!({"azp": "c\u{0}"})),
        ("a control character in the organisation", json!({"org_id": "a\u{85}b"})),
        ("a control character in a group", json!({"groups": ["dev", "ad\rmin"]})),
        ("a control character in an actor", json!({"act": {"sub": "bot\u{7f}"}})),
        ("an organisation that is a number", json!({"org_id": 5})),
        ("an organisation that is a list", json!({"org_id": ["a"]})),
        ("a client that is a number", json!({"azp": 7})),
        ("a group that is a number", json!({"groups": ["dev", 5]})),
        ("groups that are an object", json!({"groups": {"dev": true}})),
        ("an actor that is a word", json!({"act": "bot"})),
        ("an actor without a name", json!({"act": {"iss": "https://idp.test"}})),
        ("a subject with what nobody sees", json!({"sub": "an\u{200b}n"})),
        ("a subject that turns what follows", json!({"sub": "ann\u{202e}toor"})),
        ("issued in the future", json!({"iat": now + 120})),
        ("issued in the far future", json!({"iat": 1e18})),
        ("issued at no time", json!({"iat": "now"})),
        ("a refresh token", json!({"typ": "Refresh"})),
        (
            "a logout token",
            json!({"events": {"http://schemas.openid.net/event/backchannel-logout": {}}}),
        ),
        (
            "ID token",
            json!({"nonce": "n-0S6", "at_hash": "MTIzNDU2Nzg5MDEyMzQ1Ng", "auth_time": now, "aud": [AUDIENCE, "client-7"]}),
        ),
    ];
    changes
        .into_iter()
        .map(|(case, change)| (case, issuer.sign(&but(claims("ann"), change))))
        .collect()
}

fn bad_signatures(issuer: &Issuer) -> Vec<(&'static str, String)> {
    let (key, stranger, claims) = (issuer.key(), Key::rs256("key-1"), claims("ann"));
    let header = key.header();
    let good = key.sign(&header, &claims);
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let other_claims = unsigned(&header, &but(claims.clone(), json!({"sub": "root"})));
    vec![
        ("bad signature", stranger.sign(&header, &claims)),
        ("signature of other claims", format!("{other_claims}.{signature}")),
        ("no signature", format!("{signed}.")),
        ("alg none", format!("{}.", unsigned(&json!({"alg": "none"}), &claims))),
        (
            "alg None with a kid",
            format!("{}.", unsigned(&json!({"alg": "None", "kid": "key-1"}), &claims)),
        ),
        (
            "alg none under a real signature",
            format!(
                "{}.{signature}",
                unsigned(&json!({"alg": "none", "kid": "key-1"}), &claims)
            ),
        ),
        ("HS256 with the public key", hs256(&key.public_bytes(), &claims)),
        ("HS256 with nothing", hs256(b"", &claims)),
        (
            "unknown kid",
            key.sign(&but(header.clone(), json!({"kid": "key-9"})), &claims),
        ),
        (
            "another algorithm's name",
            key.sign(&but(header.clone(), json!({"alg": "ES256"})), &claims),
        ),
        ("typ of a proof", typed(&key, "dpop+jwt")),
        ("typ of a logout", typed(&key, "logout+jwt")),
        ("typ of an event", typed(&key, "secevent+jwt")),
        ("typ of an ID token", typed(&key, "id_token+jwt")),
        ("typ of a client's assertion", typed(&key, "client-authentication+jwt")),
        ("typ that is empty", typed(&key, "")),
        ("the subject twice", twice(&key, "sub", "root")),
        ("the organisation twice", twice(&key, "org_id", "acme")),
        ("a claim twice, once in escapes", twice(&key, "s\\u0075b", "root")),
        (
            "crit",
            key.sign(&but(header.clone(), json!({"crit": ["exp"]})), &claims),
        ),
        (
            "key inside the token",
            stranger.sign(&but(header, json!({"kid": null, "jwk": stranger.jwk()})), &claims),
        ),
        ("not a token", "three.small.words".to_owned()),
        ("empty", String::new()),
    ]
}

/// A good token but for its type.
fn typed(key: &Key, typ: &str) -> String {
    key.sign(&but(key.header(), json!({"typ": typ})), &claims("ann"))
}

/// A good token but for a second value of a claim, behind or before the first.
fn twice(key: &Key, name: &str, value: &str) -> String {
    let whole = claims("ann").to_string();
    let text = format!(
        "{{\"org_id\":\"other\",{},\"{name}\":\"{value}\"}}",
        whole.trim_matches(|brace| matches!(brace, '{' | '}'))
    );
    key.sign_text(&key.header(), &text)
}

fn hs256(secret: &[u8], claims: &Value) -> String {
    let text = unsigned(&json!({"alg": "HS256", "kid": "key-1", "typ": "at+jwt"}), claims);
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), text.as_bytes());
    format!("{text}.{}", base64url(tag.as_ref()))
}

fn ask() -> Ask {
    Ask::post("/mcp", initialize_body())
}
