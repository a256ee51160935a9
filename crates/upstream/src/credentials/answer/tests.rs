use serde_json::{Value, json};
use vocabulary::Timestamp;

use super::{Granted, Kind, Wanted, judge};
use crate::credentials::token_endpoint::TokenAnswer;
use crate::credentials::unavailable::Unavailable;

const NOW: i64 = 1_800_000_000;
const TARGET: &str = "https://api.example";

fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        out.extend((0..=group.len()).map(|place| char::from(DIGITS[(bits >> (18 - 6 * place) & 63) as usize])));
    }
    out
}

fn jwt(claims: &Value) -> String {
    let part = |value: &Value| base64url(value.to_string().as_bytes());
    format!("{}.{}.c2lnbmF0dXJl", part(&json!({"alg": "ES256"})), part(claims))
}

fn good() -> Value {
    json!({"access_token": jwt(&json!({"aud": TARGET, "exp": NOW + 600})), "token_type": "Bearer", "expires_in": 300,
        "issued_token_type": "urn:ietf:params:oauth:token-type:access_token", "scope": "read"})
}

fn but(changes: Value) -> Value {
    let mut answer = good();
    let members = answer.as_object_mut().unwrap();
    for (name, value) in changes.as_object().unwrap() {
        members.insert(name.clone(), value.clone());
    }
    members.retain(|_, value| !value.is_null());
    answer
}

fn judged(answer: &TokenAnswer, grant: Kind) -> Result<Granted, Unavailable> {
    let wanted = Wanted {
        audiences: &[TARGET],
        scopes: &["read".to_owned(), "list".to_owned()],
        grant,
    };
    judge(answer, &wanted, Timestamp::from_micros(NOW * 1_000_000))
}

fn of(status: u16, body: &str) -> Result<Granted, Unavailable> {
    let answer = TokenAnswer {
        status,
        is_json: true,
        body: body.as_bytes().to_vec(),
    };
    judged(&answer, Kind::Exchange)
}

#[test]
fn a_token_that_is_what_was_asked_for_is_taken() {
    // R124
    let granted = of(200, &good().to_string()).ok().unwrap();
    assert_eq!(granted.audience.as_deref(), Some(TARGET));
    assert_eq!(granted.lifetime.unwrap().as_secs(), 300, "the shorter of two");
    let one = jwt(&json!({"aud": [TARGET], "exp": NOW + 60}));
    let granted = of(
        200,
        &but(json!({"access_token": one, "token_type": "bearer"})).to_string(),
    );
    assert_eq!(granted.ok().unwrap().lifetime.unwrap().as_secs(), 60);
    let opaque = of(
        200,
        &but(json!({"access_token": "opaque~token", "expires_in": null})).to_string(),
    );
    let opaque = opaque.ok().unwrap();
    assert_eq!(
        (opaque.audience, opaque.lifetime),
        (None, None),
        "nobody says whom it is for"
    );
}

#[test]
fn a_doubtful_answer_is_refused() {
    // R124
    let token = |claims: Value| json!({"access_token": jwt(&claims)});
    let later = NOW + 600;
    for (changes, why) in [
        (json!({"token_type": "DPoP"}), Unavailable::TokenType),
        (json!({"token_type": "N_A"}), Unavailable::TokenType),
        (json!({"issued_token_type": null}), Unavailable::IssuedTokenType),
        (
            json!({"issued_token_type": "urn:ietf:params:oauth:token-type:id_token"}),
            Unavailable::IssuedTokenType,
        ),
        (
            json!({"issued_token_type": "urn:ietf:params:oauth:token-type:refresh_token"}),
            Unavailable::IssuedTokenType,
        ),
        (json!({"scope": "read write"}), Unavailable::Scope),
        (json!({"scope": "admin"}), Unavailable::Scope),
        (json!({"expires_in": 0}), Unavailable::Expired),
        (json!({"expires_in": -5}), Unavailable::Expired),
        (json!({"expires_in": 86_401}), Unavailable::Lifetime),
        (json!({"expires_in": 1e300}), Unavailable::Lifetime),
        (json!({"expires_in": "300"}), Unavailable::Malformed),
        (json!({"access_token": ""}), Unavailable::Malformed),
        (json!({"access_token": "a b"}), Unavailable::Malformed),
        (json!({"access_token": "a\r\nX-Evil: 1"}), Unavailable::Malformed),
        (
            json!({"access_token": "x".repeat(16 * 1024 + 1)}),
            Unavailable::Malformed,
        ),
        (json!({"access_token": 5}), Unavailable::Malformed),
        (token(json!({"exp": later})), Unavailable::Audience),
        (
            token(json!({"aud": "https://other.example", "exp": later})),
            Unavailable::Audience,
        ),
        (
            token(json!({"aud": [TARGET, "https://other.example"], "exp": later})),
            Unavailable::Audience,
        ),
        (token(json!({"aud": [], "exp": later})), Unavailable::Audience),
        (
            token(json!({"aud": format!("{TARGET}/"), "exp": later})),
            Unavailable::Audience,
        ),
        (token(json!({"aud": 5, "exp": later})), Unavailable::Malformed),
        (token(json!({"aud": TARGET})), Unavailable::Lifetime),
        (token(json!({"aud": TARGET, "exp": NOW})), Unavailable::Expired),
        (token(json!({"aud": TARGET, "exp": NOW - 1})), Unavailable::Expired),
        (
            token(json!({"aud": TARGET, "exp": NOW + 90_000})),
            Unavailable::Lifetime,
        ),
    ] {
        let found = of(200, &but(changes.clone()).to_string()).err();
        assert_eq!(found, Some(why), "{changes}");
    }
}

#[test]
fn what_is_no_answer_at_all_is_refused_and_repeated_nowhere() {
    // R124
    for (status, body, why) in [
        (
            400,
            r#"{"error":"invalid_target"}"#,
            Unavailable::Refused("invalid_target"),
        ),
        (
            401,
            r#"{"error":"invalid_client"}"#,
            Unavailable::Refused("invalid_client"),
        ),
        (400, r#"{"error":"<script>"}"#, Unavailable::Status(400)),
        (302, "", Unavailable::Status(302)),
        (500, "oops", Unavailable::Status(500)),
        (201, &good().to_string(), Unavailable::Status(201)),
        (200, "", Unavailable::Malformed),
        (200, "[]", Unavailable::Malformed),
        (200, "{", Unavailable::Malformed),
        (
            200,
            r#"{"access_token":"a","access_token":"b","token_type":"Bearer"}"#,
            Unavailable::Malformed,
        ),
    ] {
        assert_eq!(of(status, body).err(), Some(why), "{status} {body}");
    }
    let html = TokenAnswer {
        status: 200,
        is_json: false,
        body: good().to_string().into_bytes(),
    };
    assert_eq!(judged(&html, Kind::Exchange).err(), Some(Unavailable::NotJson));
}

#[test]
fn for_the_gateways_own_word_nobody_need_say_what_was_issued() {
    let answer = TokenAnswer {
        status: 200,
        is_json: true,
        body: but(json!({"issued_token_type": null})).to_string().into_bytes(),
    };
    assert!(judged(&answer, Kind::ClientCredentials).is_ok());
}
