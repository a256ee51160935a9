//! Every carried request that is not a tool call: resources, prompts, completion, tasks, and what
//! the operator lets through by name. The same stages as for a call.

use std::borrow::Cow;
use std::sync::Arc;

use ledger::{MessageFacts, Verdict};
use mcp::headers::Marks;
use mcp::method::recordable;
use mcp::translate::ResultKind;
use mcp::{Method, Request, compose};
use policy::{CallFacts, KnownTarget, NotKnown, Target};
use screening::arguments::{CheckedParams, check_params};
use vocabulary::json::Value;
use vocabulary::{ReasonCode, ServerId};

use crate::call::forward::Permitted;
use crate::context::client::Client;
use crate::context::{Ended, RequestContext};
use crate::era::initialize::Offers;
use crate::outcome::{Case, Decided};
use crate::receive::Gateway;
use crate::reply::{ErrorData, Prepared};
use crate::snapshot::Wanted;

/// What an errand is about, and the members of its params that change on the way.
struct Errand<'a> {
    target: Target,
    replaced: Vec<(&'a str, Vec<u8>)>,
}

impl Gateway {
    /// Answers a request by asking its server.
    pub(crate) async fn errand(&self, asked: &RequestContext, request: &Request) -> Ended {
        self.await_first_discovery(&asked.who, &Wanted::List(asked.route.server()))
            .await;
        let case = Case::new(self, asked, request);
        if !Offers::of(&case.snapshot, &asked.who, &asked.route).include(request.method()) {
            return asked.no_such_method(request);
        }
        match case.errand(request).await {
            Ok(ended) => ended,
            Err(ended) => *ended,
        }
    }

    /// Whether the operator named this method for the server of the route.
    pub(crate) fn is_extension(&self, asked: &RequestContext, name: &str) -> bool {
        let Some(server) = asked.route.server() else {
            return false;
        };
        self.snapshot().extension_methods(server).any(|known| known == name)
    }
}

impl Case<'_> {
    async fn errand(&self, request: &Request) -> Result<Ended, Box<Ended>> {
        let errand = self.recognise(request).await?;
        let mut facts = self.asked.facts();
        facts.server_id = Some(errand.target.server().to_string());
        facts.tool_name = Some(recordable(name_of(&errand.target)));
        let checked = self.check_params(request, &mut facts)?;
        self.look_for_secrets(request.params().whole(), &facts).await?;
        let known = self.resolve_target(request, errand.target, &facts)?;
        let decided = self.decide_target(known, &checked, &facts)?;
        let load = Permitted {
            decided,
            facts,
            checked: &checked,
            extras: extras(request, errand.replaced),
            marks: &NO_MARKS,
            needs_task: false,
            kind: ResultKind::of(request.method()),
        };
        self.forward(request, load).await
    }

    /// What the request is about.
    async fn recognise<'r>(&self, request: &'r Request) -> Result<Errand<'r>, Box<Ended>> {
        let plain = |target| Errand {
            target,
            replaced: Vec::new(),
        };
        match request.method().as_str() {
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
                let uri = self.text(request, "uri")?;
                let server = self.owner_of(&uri).await?;
                let uri = uri.into();
                Ok(plain(Target::Resource { server, uri }))
            }
            "prompts/get" => {
                let name = self.text(request, "name")?;
                Ok(plain(self.prompt_named(&name)?))
            }
            "completion/complete" => self.recognise_reference(request).await,
            "tasks/get" | "tasks/update" | "tasks/cancel" | "tasks/result" => {
                let (entry, theirs) = self.recognise_task(request)?;
                Ok(Errand {
                    target: Target::Tool(entry),
                    replaced: vec![("taskId", theirs)],
                })
            }
            _ => match self.asked.route.server() {
                Some(server) => Ok(plain(Target::Server(server.clone()))),
                None => Err(self.malformed(mcp::ErrorCode::MethodNotFound, "this method is not offered here")),
            },
        }
    }

    fn text<'r>(&self, request: &'r Request, member: &str) -> Result<Cow<'r, str>, Box<Ended>> {
        let text = request.params().text(member);
        text.ok_or_else(|| {
            self.malformed(
                mcp::ErrorCode::InvalidParams,
                &format!("`params.{member}` must be a string"),
            )
        })
    }

    fn prompt_named(&self, name: &str) -> Result<Target, Box<Ended>> {
        let Some((server, prompt)) = self.asked.route.tool_named(name) else {
            return Err(self.not_found(&self.asked.facts(), name, None));
        };
        Ok(Target::Prompt {
            server,
            name: prompt.into(),
        })
    }

    /// `ref` of a completion: a prompt by its name, or a resource by its template.
    async fn recognise_reference<'r>(&self, request: &'r Request) -> Result<Errand<'r>, Box<Ended>> {
        let malformed = || {
            self.malformed(
                mcp::ErrorCode::InvalidParams,
                "`params.ref` must name a prompt or a resource",
            )
        };
        let reference = request.params().raw("ref").ok_or_else(malformed)?;
        let part = |name: &str| mcp::server::text_member(reference, name);
        match (part("type").as_deref(), part("name"), part("uri")) {
            (Some("ref/prompt"), Some(name), _) => {
                let target = self.prompt_named(&name)?;
                let replaced = self.renamed_reference(reference, name_of(&target));
                Ok(Errand {
                    replaced: vec![("ref", replaced.ok_or_else(malformed)?)],
                    target,
                })
            }
            (Some("ref/resource"), _, Some(uri)) => {
                let server = self.owner_of(&uri).await?;
                let uri = uri.into();
                Ok(Errand {
                    target: Target::Resource { server, uri },
                    replaced: Vec::new(),
                })
            }
            _ => Err(malformed()),
        }
    }

    fn renamed_reference(&self, reference: &[u8], name: &str) -> Option<Vec<u8>> {
        let whole = bytes::Bytes::copy_from_slice(reference);
        let mut splice = mcp::splice::Splice::new(&whole).ok()?;
        splice.replace_or_insert("name", compose::literal(name));
        Some(splice.finish().to_vec())
    }

    /// The server a URI belongs to: the route's, or the one visible server that lists it.
    async fn owner_of(&self, uri: &str) -> Result<ServerId, Box<Ended>> {
        if let Some(server) = self.asked.route.server() {
            return Ok(server.clone());
        }
        let uris = [uri.to_owned()];
        let owners = self.gateway.owners_of(self.asked, &self.snapshot, &uris).await;
        match owners.first().map_or(&[][..], Vec::as_slice) {
            [only] => Ok(only.clone()),
            [] => Err(self.not_found(&self.asked.facts(), uri, None)),
            _ => Err(self.malformed(
                mcp::ErrorCode::InvalidParams,
                "more than one server has this resource; ask at /mcp/{server}",
            )),
        }
    }

    fn check_params<'r>(
        &self,
        request: &'r Request,
        facts: &mut MessageFacts,
    ) -> Result<CheckedParams<'r>, Box<Ended>> {
        match check_params(request.params().whole(), &self.snapshot.limits.arguments) {
            Ok(checked) => {
                facts.args_hash = Some(checked.digest());
                facts.args_canon = Some(checked.spelling());
                Ok(checked)
            }
            Err(refusal) => {
                let decision = self.verdict(Verdict::Deny, "builtin:preflight".into(), vec![refusal.code]);
                let note = ErrorData::denied(refusal.code);
                let reply = Prepared::refusal(Some(self.id.clone()), -32602, refusal.message, note);
                Err(self.ended_refused(facts, decision, reply))
            }
        }
    }

    /// What a principal may not know of is not there.
    fn resolve_target(
        &self,
        request: &Request,
        target: Target,
        facts: &MessageFacts,
    ) -> Result<KnownTarget, Box<Ended>> {
        let name = name_of(&target).to_owned();
        let known = self
            .snapshot
            .policy
            .resolve_target(&self.caller, request.method().as_str(), &target);
        known.map_err(|missing| self.not_found(facts, &name, Some(missing)))
    }

    fn not_found(&self, facts: &MessageFacts, name: &str, missing: Option<NotKnown>) -> Box<Ended> {
        let (policy_id, code) = missing.map_or_else(
            || ("builtin:default-deny".into(), ReasonCode::DenyToolNotFound),
            |missing| (missing.policy_id, missing.code),
        );
        let decision = self.verdict(Verdict::Deny, policy_id, vec![code]);
        let modern = matches!(self.asked.client, Client::Modern(_));
        let (kind, number) = match self.asked.method.as_str() {
            "prompts/get" => ("prompt", mcp::ErrorCode::InvalidParams),
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" if !modern => {
                ("resource", mcp::ErrorCode::ResourceNotFound)
            }
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
                ("resource", mcp::ErrorCode::InvalidParams)
            }
            _ => ("reference", mcp::ErrorCode::InvalidParams),
        };
        let beside = if kind == "resource" {
            vec![("uri", compose::literal(&recordable(name)))]
        } else {
            Vec::new()
        };
        let note = ErrorData {
            beside,
            ..ErrorData::denied(ReasonCode::DenyToolNotFound)
        };
        let message = format!("Unknown {kind}: {}", recordable(name));
        let reply = Prepared::refusal(Some(self.id.clone()), number, message, note);
        self.ended_refused(facts, decision, reply)
    }

    fn decide_target(
        &self,
        known: KnownTarget,
        checked: &CheckedParams<'_>,
        facts: &MessageFacts,
    ) -> Result<Decided, Box<Ended>> {
        let admitted = self
            .snapshot
            .limiter
            .admit_request(&self.asked.who, known.target().server());
        let seat = admitted.map_err(|over| self.over_limit(facts, &over))?;
        let nothing = Value::Object(Vec::new());
        let arguments = match (&self.asked.method, checked.tree()) {
            (Method::PromptsGet, Value::Object(members)) => members
                .iter()
                .find(|(name, _)| name == "arguments")
                .map_or(&nothing, |(_, value)| value),
            (_, tree) => tree,
        };
        let call = CallFacts {
            arguments,
            args_hash: checked.digest(),
            address: self.asked.arrival.address,
        };
        let decision = self.snapshot.policy.decide_target(&self.caller, known, &call);
        self.decided(decision, seat, facts)
    }
}

static NO_MARKS: std::sync::LazyLock<Marks> = std::sync::LazyLock::new(Marks::default);

/// The params' own members, but those that change on the way and those of a dialogue.
fn extras<'r>(request: &'r Request, replaced: Vec<(&'r str, Vec<u8>)>) -> Vec<(&'r str, Cow<'r, [u8]>)> {
    let taken = ["inputResponses", "requestState"];
    // `tasks/update` is all about its responses.
    let keeps_responses = *request.method() == Method::TasksUpdate;
    let members = request
        .params()
        .members()
        .filter(|(name, _)| keeps_responses || !taken.contains(name))
        .filter(|(name, _)| replaced.iter().all(|(other, _)| other != name))
        .map(|(name, raw)| (name, Cow::Borrowed(raw)));
    let mut extras: Vec<_> = members.collect();
    extras.extend(replaced.into_iter().map(|(name, raw)| (name, Cow::Owned(raw))));
    extras
}

fn name_of(target: &Target) -> &str {
    match target {
        Target::Tool(entry) => entry.id.name.as_str(),
        Target::Resource { uri, .. } => uri,
        Target::Prompt { name, .. } => name,
        Target::Server(server) => server.as_str(),
    }
}

/// The tool a task belongs to, and the server's own id of the task.
pub(crate) type TaskOf = (Arc<policy::ToolEntry>, Vec<u8>);
