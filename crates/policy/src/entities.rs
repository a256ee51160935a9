//! Principals, servers and what servers offer as Cedar sees them: product names, exactly those
//! attributes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::str::FromStr;
use std::sync::LazyLock;

use cedar_policy::{Entity, EntityId, EntityTypeName, EntityUid, RestrictedExpression};
use vocabulary::{ActorType, ClaimValue, Hints, Principal, Risk, ServerId, ToolId, Trust};

use crate::access::methods::TargetKind;
use crate::inventory::entry::ToolEntry;
use crate::inventory::{Inventory, SandboxTier, ServerEntry};
use crate::rules::Rules;

/// The action of a tool call.
pub(crate) static CALL: LazyLock<EntityUid> = LazyLock::new(|| action_uid(CALL_METHOD));

/// The method of a tool call.
pub(crate) const CALL_METHOD: &str = "tools/call";

/// The action of a method.
pub(crate) fn action_uid(method: &str) -> EntityUid {
    uid(&TYPES.action, method)
}

/// The entity of every server and tool, and of the resources and prompts that rules name.
pub(crate) struct Cast {
    entities: HashMap<EntityUid, Entity>,
    tools: Vec<ToolUids>,
}

/// What a tool and its server are called.
pub(crate) struct ToolUids {
    pub(crate) tool: EntityUid,
    pub(crate) server: EntityUid,
}

impl ToolUids {
    fn of(id: &ToolId) -> Self {
        Self {
            tool: tool_uid(id),
            server: server_uid(&id.server),
        }
    }

    pub(crate) fn both(&self) -> [&EntityUid; 2] {
        [&self.tool, &self.server]
    }
}

impl Cast {
    /// An entity that could not be built is left out, and no rule about it can then be evaluated.
    pub(crate) fn new(inventory: &Inventory, rules: &Rules) -> Self {
        let servers = inventory.servers().map(server_entity);
        let tools = inventory.tools().iter().map(|tool| tool_entity(tool));
        // Nobody lists resources and prompts for us: those of a configured server exist by being named.
        let named = rules.iter().flat_map(|(_, rule)| &rule.named);
        let named = named.filter_map(|uid| offered_entity(uid, offering(uid, inventory)?));
        let built = servers.chain(tools).flatten().chain(named);
        Self {
            entities: built.map(|entity| (entity.uid(), entity)).collect(),
            tools: inventory.tools().iter().map(|tool| ToolUids::of(&tool.id)).collect(),
        }
    }

    /// The names of the tool at this place of the inventory.
    pub(crate) fn uids(&self, place: usize) -> Option<&ToolUids> {
        self.tools.get(place)
    }

    pub(crate) fn entity(&self, uid: &EntityUid) -> Option<&Entity> {
        self.entities.get(uid)
    }

    /// Everything, for the oracle that the slices are compared with.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entity> {
        self.entities.values()
    }
}

fn tool_uid(id: &ToolId) -> EntityUid {
    uid(&TYPES.tool, &id.to_string())
}

/// What a server offers, called by its own name for it.
pub(crate) fn offered_uid(kind: TargetKind, server: &ServerId, name: &str) -> EntityUid {
    uid(kind_type(kind), &format!("{server}/{name}"))
}

pub(crate) fn server_uid(id: &ServerId) -> EntityUid {
    uid(&TYPES.server, id.as_str())
}

pub(crate) fn tool_type() -> &'static EntityTypeName {
    &TYPES.tool
}

pub(crate) fn kind_type(kind: TargetKind) -> &'static EntityTypeName {
    match kind {
        TargetKind::Tool => &TYPES.tool,
        TargetKind::Resource => &TYPES.resource,
        TargetKind::Prompt => &TYPES.prompt,
        TargetKind::Server => &TYPES.server,
    }
}

pub(crate) fn principal_uid(who: &Principal) -> EntityUid {
    let kind = match who.actor_type {
        ActorType::User => &TYPES.user,
        ActorType::Agent => &TYPES.agent,
        ActorType::System => &TYPES.system,
    };
    uid(kind, &who.sub)
}

pub(crate) fn group_uids(who: &Principal) -> HashSet<EntityUid> {
    who.groups.iter().map(|group| uid(&TYPES.group, group)).collect()
}

pub(crate) fn principal_entity(who: &Principal) -> Option<Entity> {
    let claims: BTreeMap<String, RestrictedExpression> = who
        .claims
        .iter()
        .map(|(name, value)| (name.clone(), claim(value)))
        .collect();
    // The names of a map are unique, so the record can be built.
    let claims = RestrictedExpression::new_record(claims).ok();
    let attributes = claims.map(|claims| ("claims".to_owned(), claims)).into_iter().collect();
    Entity::new(principal_uid(who), attributes, group_uids(who)).ok()
}

fn claim(value: &ClaimValue) -> RestrictedExpression {
    match value {
        ClaimValue::Text(text) => RestrictedExpression::new_string(text.clone()),
        ClaimValue::Integer(number) => RestrictedExpression::new_long(*number),
        ClaimValue::Boolean(truth) => RestrictedExpression::new_bool(*truth),
        ClaimValue::List(items) => {
            RestrictedExpression::new_set(items.iter().cloned().map(RestrictedExpression::new_string))
        }
    }
}

/// All that policies can see of a tool but its name: tools of one likeness differ in nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Likeness {
    risk: Risk,
    trust: Trust,
    tier: SandboxTier,
    hints: Hints,
}

impl Likeness {
    pub(crate) fn of(tool: &ToolEntry) -> Self {
        Self {
            risk: tool.risk,
            trust: tool.trust,
            tier: tool.tier,
            hints: tool.hints,
        }
    }

    fn attributes(self) -> HashMap<String, RestrictedExpression> {
        let mut attributes = place_attributes(self.trust, self.tier);
        attributes.insert(
            "risk".to_owned(),
            RestrictedExpression::new_string(self.risk.as_str().to_owned()),
        );
        for (name, hint) in [
            ("readOnlyHint", self.hints.read_only),
            ("destructiveHint", self.hints.destructive),
            ("idempotentHint", self.hints.idempotent),
            ("openWorldHint", self.hints.open_world),
        ] {
            attributes.extend(hint.map(|hint| (name.to_owned(), RestrictedExpression::new_bool(hint))));
        }
        attributes
    }
}

fn tool_entity(tool: &ToolEntry) -> Option<Entity> {
    let parents = HashSet::from([server_uid(&tool.id.server)]);
    Entity::new(tool_uid(&tool.id), Likeness::of(tool).attributes(), parents).ok()
}

fn server_entity(server: &ServerEntry) -> Option<Entity> {
    Entity::new(
        server_uid(&server.id),
        place_attributes(server.trust, server.tier),
        HashSet::new(),
    )
    .ok()
}

/// A resource or a prompt: of its own it has a name and nothing else.
pub(crate) fn offered_entity(uid: &EntityUid, server: &ServerEntry) -> Option<Entity> {
    let parents = HashSet::from([server_uid(&server.id)]);
    Entity::new(uid.clone(), place_attributes(server.trust, server.tier), parents).ok()
}

/// The configured server whose resource or prompt this is.
fn offering<'i>(uid: &EntityUid, inventory: &'i Inventory) -> Option<&'i ServerEntry> {
    let kind = uid.type_name();
    if *kind != TYPES.resource && *kind != TYPES.prompt {
        return None;
    }
    let (server, _) = uid.id().unescaped().split_once('/')?;
    inventory.server(&ServerId::parse(server).ok()?)
}

fn place_attributes(trust: Trust, tier: SandboxTier) -> HashMap<String, RestrictedExpression> {
    let text = |text: &str| RestrictedExpression::new_string(text.to_owned());
    HashMap::from([
        ("trust".to_owned(), text(trust.as_str())),
        ("tier".to_owned(), text(tier.as_str())),
    ])
}

fn uid(kind: &EntityTypeName, id: &str) -> EntityUid {
    EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(id))
}

struct Types {
    user: EntityTypeName,
    agent: EntityTypeName,
    system: EntityTypeName,
    group: EntityTypeName,
    tool: EntityTypeName,
    resource: EntityTypeName,
    prompt: EntityTypeName,
    server: EntityTypeName,
    action: EntityTypeName,
}

static TYPES: LazyLock<Types> = LazyLock::new(|| {
    #[expect(
        clippy::expect_used,
        reason = "the names below are constants and parse, as every test shows"
    )]
    let named = |name: &str| EntityTypeName::from_str(name).expect("a constant type name");
    Types {
        user: named("User"),
        agent: named("Agent"),
        system: named("System"),
        group: named("Group"),
        tool: named("Tool"),
        resource: named("Resource"),
        prompt: named("Prompt"),
        server: named("Server"),
        action: named("Action"),
    }
});
