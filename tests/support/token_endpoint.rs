//! A token endpoint with every answer under control. It refuses what RFC 6749 and RFC 8693 do not define, and remembers what it was
//! asked.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::wire::{Headers, Wire};

/// The gateway's name at the endpoint, and what proves it.
pub(crate) const CLIENT: (&str, &str) = ("gateway", "the endpoint's secret: 50%/+&");
/// `urn:ietf:params:oauth:token-type:access_token`
pub(crate) const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";

/// What it answers.
#[derive(Clone)]
pub(crate) enum Grant {
    /// A good token for the resource or audience that was asked for, with these members replaced; null takes one away.
    Good(Value),
    /// The token that was to be exchanged.
    Subject,
    /// This, whole, head included.
    Raw(String),
    /// Nothing.
    Silence,
    /// A body without an end, a byte now and then.
    Drip,
    /// An error of the standard.
    Refusal(&'static str),
    /// A good token, after this long.
    Late(Duration),
}

/// A running endpoint.
pub(crate) struct TokenEndpoint {
    pub address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

struct State {
    grant: Mutex<Grant>,
    asked: Mutex<Vec<BTreeMap<String, String>>>,
    faults: Mutex<Vec<String>>,
}

impl TokenEndpoint {
    /// An endpoint that grants what it is asked for.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            grant: Mutex::new(Grant::Good(json!({}))),
            asked: Mutex::default(),
            faults: Mutex::default(),
        });
        let task = tokio::spawn(serve(listener, state.clone()));
        Self { address, state, task }
    }

    /// Its address.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/token", self.address)
    }

    /// The settings with which a server's tokens are exchanged here, with changes.
    pub(crate) fn exchange(&self, changes: Value) -> Value {
        json!({"exchange": self.settings(changes)})
    }

    /// The settings with which the gateway asks for a server's tokens on its own word, with changes.
    pub(crate) fn client_credentials(&self, changes: Value) -> Value {
        json!({"client_credentials": self.settings(changes)})
    }

    fn settings(&self, changes: Value) -> Value {
        let mut settings =
            json!({"token_url": self.url(), "client_id": CLIENT.0, "client_secret": "env:ENDPOINT_SECRET"});
        settings
            .as_object_mut()
            .unwrap()
            .extend(changes.as_object().unwrap().clone());
        settings
    }

    /// From now on it answers this.
    pub(crate) fn answer(&self, grant: Grant) {
        *self.state.grant.lock().unwrap() = grant;
    }

    /// What it was asked, form by form.
    pub(crate) fn asked(&self) -> Vec<BTreeMap<String, String>> {
        assert_eq!(*self.state.faults.lock().unwrap(), [""; 0], "what no standard defines");
        self.state.asked.lock().unwrap().clone()
    }

    /// Nobody answers any more.
    pub(crate) async fn go_down(&self) {
        self.task.abort();
        while tokio::net::TcpStream::connect(self.address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    while let Ok((stream, _)) = listener.accept().await {
        let state = state.clone();
        tokio::spawn(async move {
            let mut wire = Wire::over(stream);
            while let Ok((start, headers, body)) = wire.request().await {
                let form = match read(&start, &headers, &body) {
                    Ok(form) => form,
                    Err(fault) => {
                        state.faults.lock().unwrap().push(fault);
                        let _ = wire
                            .send(response("400 Bad Request", &json!({"error": "invalid_request"})).as_bytes())
                            .await;
                        continue;
                    }
                };
                state.asked.lock().unwrap().push(form.clone());
                let grant = state.grant.lock().unwrap().clone();
                answer(&mut wire, grant, &form).await;
            }
        });
    }
}

/// The form, if it is one that the standards define and that the gateway may post.
fn read(start: &str, headers: &Headers, body: &[u8]) -> Result<BTreeMap<String, String>, String> {
    if start != "POST /token HTTP/1.1" {
        return Err(format!("asked as {start}"));
    }
    if headers.get("content-type") != Some("application/x-www-form-urlencoded") {
        return Err(format!("a body of type {:?}", headers.get("content-type")));
    }
    let credentials = headers
        .get("authorization")
        .and_then(|value| value.strip_prefix("Basic "));
    let credentials = credentials.and_then(|value| {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.decode(value).ok()
    });
    let credentials = String::from_utf8(credentials.unwrap_or_default()).unwrap();
    let word = |text: &str| percent_decode_str(text).decode_utf8().unwrap().into_owned();
    let (name, secret) = credentials.split_once(':').unwrap_or_default();
    if (word(name).as_str(), word(secret).as_str()) != CLIENT {
        return Err("the client's word for itself is wrong".to_owned());
    }
    let text = std::str::from_utf8(body).map_err(|_| "a form that is no text")?;
    let mut form = BTreeMap::new();
    for pair in text.split('&') {
        let (name, value) = pair.split_once('=').ok_or("a member without a value")?;
        if value.contains('+') {
            return Err("a space spelled as a plus sign is read in two ways".to_owned());
        }
        if form.insert(word(name), word(value)).is_some() {
            return Err(format!("{name} stands twice"));
        }
    }
    let allowed: &[&str] = match form.get("grant_type").map(String::as_str) {
        Some(EXCHANGE) => &[
            "grant_type",
            "subject_token",
            "subject_token_type",
            "requested_token_type",
            "audience",
            "resource",
            "scope",
        ],
        Some("client_credentials") => &["grant_type", "audience", "scope"],
        other => return Err(format!("grant type {other:?}")),
    };
    match form.keys().find(|name| !allowed.contains(&name.as_str())) {
        Some(strange) => Err(format!("a member {strange}")),
        None => Ok(form),
    }
}

async fn answer(wire: &mut Wire, grant: Grant, form: &BTreeMap<String, String>) {
    let text = match grant {
        Grant::Good(changes) => response("200 OK", &good(form, &changes)),
        Grant::Late(time) => {
            tokio::time::sleep(time).await;
            response("200 OK", &good(form, &json!({})))
        }
        Grant::Subject => {
            let subject = form.get("subject_token").cloned().unwrap_or_default();
            response("200 OK", &good(form, &json!({"access_token": subject})))
        }
        Grant::Raw(text) => text,
        Grant::Refusal(code) => response(
            "400 Bad Request",
            &json!({"error": code, "error_description": "the-endpoints-words"}),
        ),
        Grant::Silence => std::future::pending().await,
        Grant::Drip => {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n";
            let _ = wire.send(head.as_bytes()).await;
            loop {
                if wire.send(b" ").await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
    };
    let _ = wire.send(text.as_bytes()).await;
}

/// Everything a good answer says. The token is a JWT that nobody can verify but its audience, and is different each time.
fn good(form: &BTreeMap<String, String>, changes: &Value) -> Value {
    let target = form.get("resource").or(form.get("audience"));
    let now = jiff::Timestamp::now().as_second();
    let claims = json!({"iss": "https://idp.test", "aud": target, "sub": "whoever", "exp": now + 300, "jti": super::agent::fresh_trace()});
    let signature = super::issuer::base64url(super::agent::fresh_trace().as_bytes());
    let token = format!(
        "{}.{signature}",
        super::issuer::unsigned(&json!({"alg": "ES256"}), &claims)
    );
    let mut answer =
        json!({"access_token": token, "token_type": "Bearer", "expires_in": 300, "issued_token_type": ACCESS_TOKEN});
    if let Some(scope) = form.get("scope") {
        answer["scope"] = scope.clone().into();
    }
    super::issuer::but(answer, changes.clone())
}

/// A whole answer with a JSON body.
pub(crate) fn response(status: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}
