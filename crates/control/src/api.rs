//! What a route is, and the router that is built from their table.

use std::future::Future;
use std::pin::Pin;

use axum::Router;
use axum::body::Body;
use axum::extract::Extension;
use axum::routing::{MethodFilter, on};
use http::{Response, StatusCode};
use vocabulary::Role;

use crate::answer::{Answer, Refusal};
use crate::authenticate::Operator;
use crate::plane::ControlPlane;

mod activity;
mod admins;
mod approvals;
mod call;
mod harness;
mod incidents;
mod inventory;
mod limits;
mod payloads;
mod policy;
mod routes;
mod steer;
mod tokens;

use call::{Call, recorded, run};
pub(crate) use routes::ROUTES;

/// One route.
pub(crate) struct Route {
    pub(crate) verb: Verb,
    /// Below `/api/v1`; `{name}` stands for one segment.
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    /// What somebody must at least be to ask for it.
    pub(crate) needs: Role,
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

vocabulary::words! {
    /// A route's method.
    pub(crate) enum Verb {
        Get = "get",
        Post = "post",
        Delete = "delete",
    }
}

impl Verb {
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
