//! What goes back: JSON with strict headers, and one shape for everything that is refused.

use axum::body::Body;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

/// A body that is ready to be sent.
#[derive(Debug)]
pub(crate) struct Answer {
    status: StatusCode,
    body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(value: &Value) -> Self {
        Self::raw(value.to_string().into_bytes())
    }

    pub(crate) fn created(value: &Value) -> Self {
        Self {
            status: StatusCode::CREATED,
            ..Self::json(value)
        }
    }

    /// JSON that is spelled already.
    pub(crate) fn raw(body: Vec<u8>) -> Self {
        Self {
            status: StatusCode::OK,
            body,
        }
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        respond(self.status, self.body)
    }
}

/// Why a request got something else than it asked for.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// A reason code, or a word of this API.
    pub(crate) code: &'static str,
    /// A sentence for people; quotes no secret and no payload.
    pub(crate) message: String,
    pub(crate) faults: Vec<String>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            faults: Vec::new(),
        }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let (false, Some(members)) = (self.faults.is_empty(), error.as_object_mut()) {
            members.insert("faults".to_owned(), self.faults.into());
        }
        let mut response = respond(self.status, json!({ "error": error }).to_string().into_bytes());
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"portreeve admin\""),
            );
        }
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl From<crate::ports::PortError> for Refusal {
    fn from(error: crate::ports::PortError) -> Self {
        let cause = error.0.to_string();
        tracing::error!(cause, "a request of an operator failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", error.to_string())
    }
}

impl From<ledger::LedgerDown> for Refusal {
    fn from(error: ledger::LedgerDown) -> Self {
        let code = vocabulary::ReasonCode::DenyReceiptUnavailable.as_str();
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            code,
            format!("nothing was changed: {error}"),
        )
    }
}

fn respond(status: StatusCode, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// On every answer: nothing is cached, sniffed, framed or run.
const HEADERS: [(header::HeaderName, &str); 7] = [
    (header::CONTENT_TYPE, "application/json"),
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; frame-ancestors 'none'; sandbox",
    ),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        header::HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];
