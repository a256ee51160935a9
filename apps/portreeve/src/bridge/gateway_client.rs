//! One HTTP exchange with the gateway: with the token, waiting a little for a gateway that is not there yet.
//! A request that may have arrived is never sent again.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, header};
use reqwest::Response;

use super::credential::Credential;
use super::endpoint::Endpoint;

/// Why a request has no answer of the gateway: what, why and what to do, in a sentence for the client.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct NoAnswer(pub(super) String);

/// Speaks HTTP to the gateway.
pub(super) struct GatewayClient {
    endpoint: Endpoint,
    credential: Credential,
}

impl GatewayClient {
    pub(super) fn new(endpoint: Endpoint, credential: Credential) -> Self {
        Self { endpoint, credential }
    }

    /// Sends a request; if the token is refused and there is another one by now, once more with that.
    pub(super) async fn send(&self, method: Method, headers: HeaderMap, body: Bytes) -> Result<Response, NoAnswer> {
        let token = self.credential.bearer();
        let mut headers = headers;
        headers.insert(header::AUTHORIZATION, token.clone());
        let response = self.send_with_token(&method, &headers, &body).await?;
        if response.status() != StatusCode::UNAUTHORIZED || !self.credential.reload_after(&token) {
            return Ok(response);
        }
        headers.insert(header::AUTHORIZATION, self.credential.bearer());
        self.send_with_token(&method, &headers, &body).await
    }

    /// Posts a message.
    pub(super) async fn post(&self, mut headers: HeaderMap, body: Bytes) -> Result<Response, NoAnswer> {
        headers.insert(
            header::CONTENT_TYPE,
            const { http::HeaderValue::from_static(mcp::http::JSON) },
        );
        headers.insert(header::ACCEPT, const { http::HeaderValue::from_static(EITHER_FORM) });
        self.send(Method::POST, headers, body).await
    }

    /// Opens a stream of messages.
    pub(super) async fn open_stream(&self, mut headers: HeaderMap) -> Result<Response, NoAnswer> {
        headers.insert(
            header::ACCEPT,
            const { http::HeaderValue::from_static(mcp::http::EVENT_STREAM) },
        );
        self.send(Method::GET, headers, Bytes::new()).await
    }

    /// Completes when there is another token.
    pub(super) async fn token_changed(&self) {
        self.credential.changed().await;
    }

    /// The largest message taken from the gateway.
    pub(super) fn max_message_bytes(&self) -> usize {
        self.endpoint.max_message_bytes()
    }

    async fn send_with_token(&self, method: &Method, headers: &HeaderMap, body: &Bytes) -> Result<Response, NoAnswer> {
        let began = Instant::now();
        loop {
            if let Some(target) = self.endpoint.target() {
                let request = target
                    .http
                    .request(method.clone(), &target.url)
                    .headers(headers.clone());
                let request = if body.is_empty() {
                    request
                } else {
                    request.body(body.clone())
                };
                match request.send().await {
                    Ok(response) => return Ok(response),
                    // Anything but a failure to connect may have come after the request was read.
                    Err(error) if !error.is_connect() => return Err(broken()),
                    Err(error) if is_distrusted(&error) => return Err(distrusted()),
                    Err(_) => {}
                }
            }
            if began.elapsed() >= PATIENCE {
                return Err(unreachable());
            }
            tokio::time::sleep(PAUSE).await;
            self.endpoint.refresh();
        }
    }
}

/// The connection ended before the answer came.
pub(super) fn broken() -> NoAnswer {
    NoAnswer(
        "the connection to the gateway broke before the answer came: whether the request was carried out is unknown; \
         see `portreeve activity list` before asking again"
            .to_owned(),
    )
}

fn unreachable() -> NoAnswer {
    NoAnswer(
        "the gateway cannot be reached: nothing answers where it should listen; start it with `portreeve serve`, or \
         correct --config or PORTREEVE_URL"
            .to_owned(),
    )
}

fn distrusted() -> NoAnswer {
    NoAnswer(
        "the gateway's certificate is not trusted: it comes from another CA or is for another name; correct --config \
         or PORTREEVE_CA"
            .to_owned(),
    )
}

/// Whether TLS failed, which waiting does not mend. An `io::Error` hides what it carries from `source`.
fn is_distrusted(error: &reqwest::Error) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = next {
        let carried = cause.downcast_ref::<std::io::Error>().and_then(|error| error.get_ref());
        if cause.is::<rustls::Error>() || carried.is_some_and(|inner| inner.is::<rustls::Error>()) {
            return true;
        }
        next = match carried {
            Some(inner) => Some(inner),
            None => cause.source(),
        };
    }
    false
}

const EITHER_FORM: &str = "application/json, text/event-stream";
/// How long a gateway that is not there is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(200);
