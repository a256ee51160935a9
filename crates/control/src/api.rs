//! The routes, in one table: the router is built from it, and so is the OpenAPI document.

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
use crate::openapi;
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
mod steer;
mod tokens;

use call::{Call, recorded, run};

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

macro_rules! act {
    ($handler:path) => {
        |call| Box::pin($handler(call))
    };
}

/// A route; there is none without a role that it needs.
const fn get(
    needs: Role,
    path: &'static str,
    summary: &'static str,
    answer: &'static str,
    act: fn(Call) -> Acting,
) -> Route {
    Route {
        verb: Verb::Get,
        path,
        summary,
        needs,
        effect: Effect::Reads,
        query: &[],
        body: None,
        answer,
        act,
    }
}

const KIND: &str = "`tool`, `prompt`, `resource`, `template` or `instructions`.";

/// Where things of several kinds share a name. With `instructions` the name says nothing.
const BY_KIND: &[(&str, &str)] = &[("kind", KIND)];

/// All routes.
pub(crate) static ROUTES: &[Route] = &[
    get(
        Role::Viewer,
        "/status",
        "How the gateway stands.",
        "Status",
        act!(steer::status),
    ),
    get(
        Role::Viewer,
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
            Role::Operator,
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
            Role::Operator,
            "/tokens/{id}",
            "Takes a token back, from the next request on.",
            "Token",
            act!(tokens::revoke),
        )
    },
    get(
        Role::Viewer,
        "/admins",
        "Everybody who has an admin token, oldest first; never the token itself.",
        "Admins",
        act!(admins::list),
    ),
    Route {
        verb: Verb::Post,
        effect: Effect::Changes("admin.create"),
        body: Some("NewAdmin"),
        ..get(
            Role::Operator,
            "/admins",
            "Makes an admin token for a person; its text is in this answer and nowhere else.",
            "CreatedAdmin",
            act!(admins::create),
        )
    },
    Route {
        verb: Verb::Delete,
        effect: Effect::Changes("admin.revoke"),
        ..get(
            Role::Operator,
            "/admins/{id}",
            "Takes an admin token back, from the next request on.",
            "Admin",
            act!(admins::revoke),
        )
    },
    get(
        Role::Viewer,
        "/incidents",
        "The incidents that are on.",
        "Incidents",
        act!(incidents::list),
    ),
    Route {
        verb: Verb::Post,
        effect: Effect::Changes("incident.start"),
        body: Some("NewIncident"),
        ..get(
            Role::Operator,
            "/incidents",
            "Starts an incident: it denies at once.",
            "CreatedIncident",
            act!(incidents::start),
        )
    },
    Route {
        verb: Verb::Post,
        effect: Effect::Changes("incident.end"),
        body: Some("Why"),
        ..get(
            Role::Operator,
            "/incidents/{id}/end",
            "Ends an incident, or notes that one of two people wants it to.",
            "EndedIncident",
            act!(incidents::end),
        )
    },
    Route {
        query: approvals::PARAMETERS,
        ..get(
            Role::Viewer,
            "/approvals",
            "What waits for a person and what became of it, newest first; the arguments of what waits, for approvers.",
            "Approvals",
            act!(approvals::list),
        )
    },
    get(
        Role::Viewer,
        "/approvals/{id}",
        "One approval, with what changed since the last approved call of the same caller and tool.",
        "ApprovalInFull",
        act!(approvals::show),
    ),
    Route {
        verb: Verb::Post,
        effect: Effect::Changes("approval.approve"),
        body: Some("Word"),
        ..get(
            Role::Approver,
            "/approvals/{id}/approve",
            "Lets exactly this call be made, once. Whoever asked does not answer.",
            "ApprovalAsked",
            act!(approvals::approve),
        )
    },
    Route {
        verb: Verb::Post,
        effect: Effect::Changes("approval.deny"),
        body: Some("Word"),
        ..get(
            Role::Approver,
            "/approvals/{id}/deny",
            "Refuses exactly this call until the approval's end.",
            "ApprovalAsked",
            act!(approvals::deny),
        )
    },
    Route {
        query: activity::PARAMETERS,
        ..get(
            Role::Viewer,
            "/activity",
            "Records, newest first, each exactly as stored.",
            "Records",
            act!(activity::list),
        )
    },
    Route {
        query: activity::SUMMARY_PARAMETERS,
        ..get(
            Role::Viewer,
            "/activity/summary",
            "What the requests of the log come to.",
            "Summary",
            act!(activity::summary),
        )
    },
    Route {
        verb: Verb::Post,
        effect: Effect::Changes("activity.reindex"),
        ..get(
            Role::Operator,
            "/activity/reindex",
            "Makes the index of the log anew, from the log.",
            "Reindexed",
            act!(activity::reindex),
        )
    },
    get(
        Role::Viewer,
        "/activity/{id}",
        "One record, by receipt id or place in the log, exactly as stored.",
        "Record",
        act!(activity::show),
    ),
    get(
        Role::Operator,
        "/activity/{id}/arguments",
        "The arguments that were kept for a request, in their canonical form.",
        "Kept",
        act!(payloads::arguments),
    ),
    get(
        Role::Operator,
        "/activity/{id}/result",
        "The answer that was kept for a request, as its client was sent it.",
        "Kept",
        act!(payloads::result),
    ),
    Route {
        verb: Verb::Post,
        effect: Effect::Changes("activity.erase"),
        body: Some("Erasure"),
        ..get(
            Role::Operator,
            "/activity/{id}/erase",
            "Destroys the keys of what was kept for a request. Its record stays.",
            "Erased",
            act!(payloads::erase),
        )
    },
    Route {
        verb: Verb::Post,
        effect: Effect::Changes("ledger.key.rotate"),
        ..get(
            Role::Operator,
            "/ledger/key/rotate",
            "Hands over to a new key of the log; the next checkpoint is signed by both.",
            "LedgerKey",
            act!(steer::rotate_key),
        )
    },
    Route {
        query: &[
            ("server", "Only tools of this server."),
            ("standing", "`approved`, `quarantined` or `disabled`."),
            ("kind", KIND),
        ],
        ..get(
            Role::Viewer,
            "/tools",
            "Every tool, prompt, resource and template, and the instructions, with risk, trust and standing.",
            "Tools",
            act!(inventory::tools),
        )
    },
    Route {
        query: BY_KIND,
        ..get(
            Role::Viewer,
            "/tools/{server}/{tool}",
            "One tool, or what else has this name, with its definition.",
            "ToolInFull",
            act!(inventory::tool),
        )
    },
    Route {
        query: BY_KIND,
        ..get(
            Role::Viewer,
            "/tools/{server}/{tool}/diff",
            "What changed in a definition since it was approved.",
            "Diff",
            act!(inventory::diff),
        )
    },
    Route {
        verb: Verb::Post,
        effect: Effect::Changes("tool.approve"),
        query: BY_KIND,
        body: Some("Approval"),
        ..get(
            Role::Operator,
            "/tools/{server}/{tool}/approve",
            "Approves a tool's definition.",
            "ToolInFull",
            act!(inventory::orders::approve),
        )
    },
    Route {
        verb: Verb::Post,
        effect: Effect::Changes("tool.classify"),
        query: BY_KIND,
        body: Some("Classification"),
        ..get(
            Role::Operator,
            "/tools/{server}/{tool}/classify",
            "Says how dangerous a tool is. The configuration file's word stands above this one.",
            "ToolInFull",
            act!(inventory::orders::classify),
        )
    },
    Route {
        verb: Verb::Post,
        effect: Effect::Changes("tool.disable"),
        query: BY_KIND,
        body: Some("Nothing"),
        ..get(
            Role::Operator,
            "/tools/{server}/{tool}/disable",
            "Takes a tool out of every list and denies its calls.",
            "ToolInFull",
            act!(inventory::orders::disable),
        )
    },
    Route {
        verb: Verb::Post,
        effect: Effect::Changes("tool.enable"),
        query: BY_KIND,
        body: Some("Nothing"),
        ..get(
            Role::Operator,
            "/tools/{server}/{tool}/enable",
            "Lets a disabled tool be used again, as far as its pin does.",
            "ToolInFull",
            act!(inventory::orders::enable),
        )
    },
    get(
        Role::Viewer,
        "/servers",
        "Every configured server.",
        "Servers",
        act!(inventory::servers),
    ),
    Route {
        query: limits::PARAMETERS,
        ..get(
            Role::Viewer,
            "/limits",
            "Who has used how much of what limits allow, those first who used most of it.",
            "Limits",
            act!(limits::show),
        )
    },
    Route {
        verb: Verb::Post,
        effect: Effect::Changes("server.refresh"),
        ..get(
            Role::Operator,
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
            Role::Viewer,
            "/policy/explain",
            "What would be decided of a call, and why. Nothing is called.",
            "Explanation",
            act!(policy::explain),
        )
    },
    Route {
        verb: Verb::Post,
        effect: Effect::Changes("configuration.reload"),
        body: Some("ReloadOrder"),
        ..get(
            Role::Operator,
            "/reload",
            "Reads the configuration again: the whole new one or nothing.",
            "Reloaded",
            act!(steer::reload),
        )
    },
    Route {
        verb: Verb::Post,
        effect: Effect::Changes("harness.record"),
        body: Some("HarnessRecord"),
        ..get(
            Role::Operator,
            "/harness/records",
            "Appends a record of a harness run to the log.",
            "Recorded",
            act!(harness::record),
        )
    },
    get(
        Role::Viewer,
        "/openapi.json",
        "This document.",
        "OpenApi",
        act!(openapi_document),
    ),
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
