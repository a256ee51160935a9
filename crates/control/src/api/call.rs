//! One request of an identified operator: read after its head was judged, carried out on its own, and recorded
//! when it is refused.

use axum::body::Body;
use axum::extract::{Extension, Query, RawPathParams};
use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use ledger::Note;
use serde::de::DeserializeOwned;

use super::{Effect, Route};
use crate::answer::Refusal;
use crate::authenticate::Operator;
use crate::plane::ControlPlane;

/// A request of an identified operator, its body read.
pub(crate) struct Call {
    pub(crate) plane: ControlPlane,
    pub(crate) operator: Operator,
    action: &'static str,
    params: Vec<(String, String)>,
    query: Vec<(String, String)>,
    body: Bytes,
}

impl Call {
    /// A part of the path.
    pub(crate) fn part(&self, name: &str) -> &str {
        self.params
            .iter()
            .find(|(known, _)| known == name)
            .map_or("", |(_, value)| value)
    }

    /// A query parameter.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.query
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// The body, read as `T`; an empty one counts as `{}`. Unknown members are refused by `T`.
    pub(crate) fn body<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        let bytes: &[u8] = if self.body.is_empty() { b"{}" } else { &self.body };
        serde_json::from_slice(bytes).map_err(|error| Refusal::bad_request(format!("the body does not fit: {error}")))
    }

    /// Runs blocking work of a port off the event loop.
    pub(crate) async fn ask<T, W>(&self, work: W) -> Result<T, Refusal>
    where
        T: Send + 'static,
        W: FnOnce(&ControlPlane) -> Result<T, crate::ports::PortError> + Send + 'static,
    {
        let plane = self.plane.clone();
        match tokio::task::spawn_blocking(move || work(&plane)).await {
            Ok(done) => Ok(done?),
            Err(_) => Err(Refusal::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "failed",
                "the request failed",
            )),
        }
    }

    /// Records a change before it is made: what cannot be recorded does not happen.
    pub(crate) async fn record(&self, subject: Option<&str>, message: &str) -> Result<(), Refusal> {
        let note = Note::done(self.action, self.operator.name(), subject, message);
        Ok(self.plane.record(note).await?)
    }
}

pub(super) async fn run(
    route: &'static Route,
    Extension(plane): Extension<ControlPlane>,
    Extension(operator): Extension<Operator>,
    params: RawPathParams,
    request: Request<Body>,
) -> Response<Body> {
    let params = params
        .iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    if operator.role() < route.needs {
        return refuse(&plane, &operator, route, too_low(&operator, route)).await;
    }
    let (recorder, who) = (plane.clone(), operator.clone());
    // On its own: a caller who hangs up does not leave a recorded change half made.
    let acting = tokio::spawn(async move {
        let call = read(route, plane, operator, params, request).await?;
        (route.act)(call).await
    });
    let outcome = acting.await.unwrap_or_else(|_| {
        Err(Refusal::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "failed",
            "the request failed",
        ))
    });
    match outcome {
        Ok(answer) => answer.into_response(),
        Err(refusal) => refuse(&recorder, &who, route, refusal).await,
    }
}

/// A role that does not reach.
fn too_low(operator: &Operator, route: &Route) -> Refusal {
    let (has, needs) = (operator.role(), route.needs);
    let message = format!(
        "this needs the role `{needs}` and you are {has}; ask an operator for a token of that role (`portreeve admin create`)"
    );
    Refusal::new(StatusCode::FORBIDDEN, "role_too_low", message)
}

/// Reads what comes after the head.
async fn read(
    route: &Route,
    plane: ControlPlane,
    operator: Operator,
    params: Vec<(String, String)>,
    request: Request<Body>,
) -> Result<Call, Refusal> {
    let action = match route.effect {
        Effect::Changes(action) => action,
        Effect::Reads => "",
    };
    let query = parse_query(request.uri(), route)?;
    let json = request
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| is_json(value.as_bytes()));
    let body = match Limited::new(request.into_body(), MAX_BODY).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return Err(Refusal::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "too_large",
                "the body is larger than 1 MiB",
            ));
        }
        Err(_) => return Err(Refusal::bad_request("the body could not be read")),
    };
    if !body.is_empty() && !json {
        // A page can make a browser send other types without asking; JSON it cannot.
        let message = "the body's type is `application/json`";
        return Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            message,
        ));
    }
    Ok(Call {
        plane,
        operator,
        action,
        params,
        query,
        body,
    })
}

/// The parameters of a query; unknown and repeated ones are refused.
fn parse_query(uri: &Uri, route: &Route) -> Result<Vec<(String, String)>, Refusal> {
    let wrong = |_| Refusal::bad_request("the query cannot be read");
    let Query(pairs): Query<Vec<(String, String)>> = Query::try_from_uri(uri).map_err(wrong)?;
    for (index, (name, _)) in pairs.iter().enumerate() {
        if !route.query.iter().any(|(known, _)| known == name) {
            return Err(Refusal::bad_request(
                "the query has a parameter that this route does not know",
            ));
        }
        if pairs.iter().take(index).any(|(earlier, _)| earlier == name) {
            return Err(Refusal::bad_request(format!("the query has `{name}` twice")));
        }
    }
    Ok(pairs)
}

fn is_json(content_type: &[u8]) -> bool {
    let kind = content_type.split(|byte| *byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

/// Sends a refusal, with a record unless somebody only looked for something that is not there.
async fn refuse(plane: &ControlPlane, operator: &Operator, route: &Route, refusal: Refusal) -> Response<Body> {
    let action = match (route.effect, refusal.status) {
        (Effect::Changes(action), _) => action,
        (Effect::Reads, StatusCode::NOT_FOUND) => return refusal.into_response(),
        (Effect::Reads, _) => "admin.request",
    };
    recorded(plane, operator, action, refusal).await
}

pub(super) async fn recorded(
    plane: &ControlPlane,
    operator: &Operator,
    action: &str,
    refusal: Refusal,
) -> Response<Body> {
    let note = Note::refused(action, operator.name(), None, refusal.code);
    match plane.record(note).await {
        Ok(()) => refusal.into_response(),
        Err(down) => Refusal::from(down).into_response(),
    }
}

/// The largest body of a request.
const MAX_BODY: usize = 1 << 20;
