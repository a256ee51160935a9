//! The routes, in one table: the router is built from it, and so is the OpenAPI document.

use std::future::Future;
use std::pin::Pin;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Query, RawPathParams};
use axum::routing::{MethodFilter, on};
use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use ledger::Note;
use serde::de::DeserializeOwned;

use crate::answer::{Answer, Refusal};
use crate::authenticate::Operator;
use crate::openapi;
use crate::plane::ControlPlane;

mod activity;
mod inventory;
mod policy;
mod steer;
mod tokens;

/// One route.
pub(crate) struct Route {
    pub(crate) verb: Verb,
    /// Below `/api/v1`; `{name}` stands for one segment.
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) effect: Effect,
    /// Query parameters: name and meaning.
    pub(crate) query: &'static [(&'static str, &'static str)],
    /// The schema of the body, if there is one.
    pub(crate) body: Option<&'static str>,
    /// The schema of the answer.
    pub(crate) answer: &'static str,
    act: fn(Call) -> Acting,
}

type Acting = Pin<Box<dyn Future<Output = Result<Answer, Refusal>> + Send>>;

/// A route's method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verb {
    Get,
    Post,
    Delete,
}

impl Verb {
    /// The word in the OpenAPI document.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Post => "post",
            Self::Delete => "delete",
        }
    }

    fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}

/// What a route does to the gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// Nothing.
    Reads,
    /// It changes something; the word is the record's `action`.
    Changes(&'static str),
}

/// Where the API begins.
pub(crate) const BASE: &str = "/api/v1";

/// The largest body of a request.
const MAX_BODY: usize = 1 << 20;

macro_rules! act {
    ($handler:path) => {
        |call| Box::pin($handler(call))
    };
}

const fn get(path: &'static str, summary: &'static str, answer: &'static str, act: fn(Call) -> Acting) -> Route {
    Route {
        verb: Verb::Get,
        path,
        summary,
        effect: Effect::Reads,
        query: &[],
        body: None,
        answer,
        act,
    }
}

/// All routes.
pub(crate) static ROUTES: &[Route] = &[
    get("/status", "How the gateway stands.", "Status", act!(steer::status)),
    get(
        "/tokens",
        "Every token, oldest first; never the token itself.",
        "Tokens",
        act!(tokens::list),
    ),
    Route {
        verb: Verb::Post,
        effect: Effect::Changes("token.create"),
        body: Some("NewToken"),
        ..get(
            "/tokens",
            "Makes an agent token; its text is in this answer and nowhere else.",
            "CreatedToken",
            act!(tokens::create),
        )
    },
    Route {
        verb: Verb::Delete,
        effect: Effect::Changes("token.revoke"),
        ..get(
            "/tokens/{id}",
            "Takes a token back, from the next request on.",
            "Token",
            act!(tokens::revoke),
        )
    },
    Route {
        query: activity::PARAMETERS,
        ..get(
            "/activity",
            "Records, newest first, each exactly as stored.",
            "Records",
            act!(activity::list),
        )
    },
    get(
        "/activity/{id}",
        "One record, by receipt id or place in the log, exactly as stored.",
        "Record",
        act!(activity::show),
    ),
    Route {
        query: &[
            ("server", "Only tools of this server."),
            ("standing", "`approved` or `quarantined`."),
        ],
        ..get(
            "/tools",
            "Every tool with risk, trust and standing.",
            "Tools",
            act!(inventory::tools),
        )
    },
    get(
        "/tools/{server}/{tool}",
        "One tool with its definition.",
        "ToolInFull",
        act!(inventory::tool),
    ),
    Route {
        verb: Verb::Post,
        effect: Effect::Changes("tool.approve"),
        body: Some("Approval"),
        ..get(
            "/tools/{server}/{tool}/approve",
            "Approves a tool's definition.",
            "ToolInFull",
            act!(inventory::approve),
        )
    },
    get(
        "/servers",
        "Every configured server.",
        "Servers",
        act!(inventory::servers),
    ),
    Route {
        verb: Verb::Post,
        effect: Effect::Changes("server.refresh"),
        ..get(
            "/servers/{server}/refresh",
            "Discovers a server's tools again.",
            "Server",
            act!(inventory::refresh),
        )
    },
    Route {
        verb: Verb::Post,
        body: Some("Question"),
        ..get(
            "/policy/explain",
            "What would be decided of a call, and why. Nothing is called.",
            "Explanation",
            act!(policy::explain),
        )
    },
    Route {
        verb: Verb::Post,
        effect: Effect::Changes("configuration.reload"),
        ..get(
            "/reload",
            "Reads the configuration again: the whole new one or nothing.",
            "Reloaded",
            act!(steer::reload),
        )
    },
    get("/openapi.json", "This document.", "OpenApi", act!(openapi_document)),
];

/// The router over [`ROUTES`]. It expects the plane and an identified operator among a request's extensions.
pub(crate) fn router() -> Router {
    let routed = ROUTES.iter().fold(Router::new(), |router, route| {
        let path = format!("{BASE}{}", route.path);
        router.route(
            &path,
            on(route.verb.filter(), move |plane, operator, params, request| {
                run(route, plane, operator, params, request)
            }),
        )
    });
    routed.fallback(no_route).method_not_allowed_fallback(wrong_method)
}

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

async fn run(
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

async fn recorded(plane: &ControlPlane, operator: &Operator, action: &str, refusal: Refusal) -> Response<Body> {
    let note = Note::refused(action, operator.name(), None, refusal.code);
    match plane.record(note).await {
        Ok(()) => refusal.into_response(),
        Err(down) => Refusal::from(down).into_response(),
    }
}

async fn no_route(
    Extension(plane): Extension<ControlPlane>,
    Extension(operator): Extension<Operator>,
) -> Response<Body> {
    recorded(
        &plane,
        &operator,
        "admin.request",
        Refusal::not_found("there is no such route"),
    )
    .await
}

async fn wrong_method(
    Extension(plane): Extension<ControlPlane>,
    Extension(operator): Extension<Operator>,
) -> Response<Body> {
    let message = "the route is there, but not with this method";
    let refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message);
    recorded(&plane, &operator, "admin.request", refusal).await
}

async fn openapi_document(_: Call) -> Result<Answer, Refusal> {
    Ok(Answer::json(&openapi::document()))
}
