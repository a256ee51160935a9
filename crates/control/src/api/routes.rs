//! The routes, in one table: the router is built from it, and so is the OpenAPI document.

use vocabulary::Role;

use super::call::Call;
use super::{
    Acting, Effect, Route, Verb, activity, admins, approvals, harness, incidents, inventory, limits, payloads, policy,
    steer, tokens,
};
use crate::answer::{Answer, Refusal};
use crate::openapi;

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

async fn openapi_document(_: Call) -> Result<Answer, Refusal> {
    Ok(Answer::json(&openapi::document()))
}
