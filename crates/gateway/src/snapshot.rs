//! Everything one call looks at, assembled before any call and swapped as a whole. A call loads it once and sees nothing
//! else change; whoever means the rules in force at another moment asks for them by name.
//! ADR 0009: an epoch voids the permits of the one before.

pub(crate) mod tool;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use policy::{Inventory, ItemEntry, ItemKind, QuarantineCause, Rules, ServerFacts, Standing, StoredServer, ToolEntry};
use screening::arguments::{FieldRules, Fields};
use screening::detect::Detector;
use screening::imitation::{Offered, shadowing};
use screening::recorded;
use screening::risk::RiskRules;
use tokio::sync::watch;
use vocabulary::json;
use vocabulary::{Era, Principal, ServerId, Shadowing, ToolId};

use crate::edge::authenticate::Identity;
use crate::edge::host::AllowedHosts;
use crate::edge::metadata::PublicUrl;
use crate::snapshot::tool::{CompiledTool, ToolSettings};

/// Bounds on what a client and a server may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The largest body of a client.
    pub request_bytes: usize,
    /// The deepest body of a client.
    pub request_depth: usize,
    /// Bounds on arguments.
    pub arguments: json::Limits,
    /// How long the rest of a text that was cut can be read.
    pub cache_ttl: std::time::Duration,
    /// How long a list waits for a server that was never discovered.
    pub first_discovery: std::time::Duration,
}

/// What a secret in outgoing arguments leads to.
#[derive(Clone)]
pub enum ArgumentSecrets {
    /// Nothing is looked for.
    Pass,
    /// A record.
    Warn(Arc<Detector>),
    /// The call is refused.
    Block(Arc<Detector>),
}

/// Whether a server answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerState {
    /// Its first discovery since the start has not ended.
    Pending,
    /// It was discovered.
    Up,
    /// It could not be.
    Down,
}

/// What the operator says of paths and URLs in the arguments of a server's tools.
#[derive(Clone, Debug)]
pub struct ServerFields {
    /// Of all tools that are not named.
    pub usual: Arc<FieldRules>,
    /// Of those that are.
    pub tools: BTreeMap<String, Arc<FieldRules>>,
}

/// What a snapshot is assembled from.
pub struct SnapshotParts {
    /// The ways of proving who one is.
    pub identity: Arc<Identity>,
    /// Hosts and origins we serve.
    pub allowed_hosts: AllowedHosts,
    /// Our own URL.
    pub public_url: PublicUrl,
    /// What the operator says of each server.
    pub facts: Vec<ServerFacts>,
    /// What was discovered.
    pub stored: Vec<StoredServer>,
    /// The policies.
    pub rules: Arc<Rules>,
    /// How to reach each server.
    pub servers: Vec<Arc<upstream::Server>>,
    /// Whether each server answers.
    pub states: HashMap<ServerId, watch::Receiver<ServerState>>,
    /// Tools whose undeclared fields the operator lets through.
    pub open_tools: BTreeSet<(ServerId, String)>,
    /// Which arguments hold paths and URLs; nothing is looked for in those of a server that is not named.
    pub fields: BTreeMap<ServerId, ServerFields>,
    /// Methods beyond MCP that the operator lets through.
    pub extension_methods: BTreeMap<ServerId, Vec<String>>,
    /// Rate and concurrency.
    pub limiter: policy::CallLimits,
    /// Sizes.
    pub limits: Limits,
    /// What happens to what servers send; the same while nothing of it changed, since what was judged by others is
    /// judged again.
    pub screening: Arc<screening::result::Rules>,
    /// What happens to secrets in what is sent to them.
    pub arguments: ArgumentSecrets,
    /// What says how dangerous tools and calls are by what they say of themselves.
    pub risk: Arc<RiskRules>,
    /// Which permits are good: a new number voids those of the last.
    pub epoch: u64,
    /// The snapshot before this one; what did not change is taken over.
    pub previous: Option<Arc<Snapshot>>,
}

impl SnapshotParts {
    fn settings_of(&self, entry: &ToolEntry) -> ToolSettings {
        let key = (entry.id.server.clone(), entry.id.name.as_str().to_owned());
        let server = self.fields.get(&key.0);
        let fields = server.map(|server| server.tools.get(&key.1).unwrap_or(&server.usual).clone());
        ToolSettings {
            closing: match self.open_tools.contains(&key) {
                true => Fields::Open,
                false => Fields::Closed,
            },
            limits: self.limits.arguments,
            fields: fields.unwrap_or_else(|| Arc::new(FieldRules::nothing())),
        }
    }

    fn rules_since(&self) -> Option<Instant> {
        let before = self.previous.as_ref()?;
        if Arc::ptr_eq(&before.screening, &self.screening) && Arc::ptr_eq(&before.rules, &self.rules) {
            before.rules_since
        } else {
            Some(Instant::now())
        }
    }
}

/// See the module.
pub struct Snapshot {
    rules: Arc<Rules>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) allowed_hosts: AllowedHosts,
    pub(crate) public_url: PublicUrl,
    pub(crate) policy: Arc<policy::PolicySnapshot>,
    pub(crate) limiter: policy::CallLimits,
    pub(crate) limits: Limits,
    pub(crate) screening: Arc<screening::result::Rules>,
    /// Since when things are decided and judged by these rules, if they were by others before.
    pub(crate) rules_since: Option<Instant>,
    pub(crate) arguments: ArgumentSecrets,
    pub(crate) risk: Arc<RiskRules>,
    servers: BTreeMap<ServerId, Arc<upstream::Server>>,
    extension_methods: BTreeMap<ServerId, Vec<String>>,
    states: HashMap<ServerId, watch::Receiver<ServerState>>,
    /// What is kept beside each definition, in the order of the inventory.
    tools: HashMap<ToolId, Vec<Arc<CompiledTool>>>,
}

impl Snapshot {
    /// Assembles a snapshot. A tool whose input schema cannot be used is quarantined: arguments never
    /// leave unchecked.
    #[must_use]
    pub fn assemble(plan: SnapshotParts) -> Self {
        let rules_since = plan.rules_since();
        recorded::foresee(operators_rules(&plan));
        let mut inventory = Inventory::assemble(&plan.facts, &plan.stored, &|name, description| {
            plan.risk.of_tool(name, description)
        });
        for (place, why) in shadowed(&inventory) {
            inventory.shadow(place, why);
        }
        let mut tools: HashMap<ToolId, Vec<Arc<CompiledTool>>> = HashMap::new();
        let (mut unusable, mut usable) = (Vec::new(), Vec::new());
        let entries = inventory.tools().iter().enumerate();
        for (place, entry) in entries.filter(|(_, entry)| entry.standing == Standing::Approved) {
            let settings = plan.settings_of(entry);
            let previous = plan.previous.as_ref();
            let kept = previous.and_then(|snapshot| {
                let mut known = snapshot.tools.get(&entry.id)?.iter();
                known.find(|tool| tool.is_for(entry, &settings)).cloned()
            });
            match kept.map_or_else(|| CompiledTool::compile(entry, settings), Ok) {
                Ok(tool) => {
                    usable.push((place, tool.input_state(), tool.output_state()));
                    tools.entry(entry.id.clone()).or_default().push(tool);
                }
                Err(fault) => unusable.push((place, fault)),
            }
        }
        for (place, fault) in unusable {
            inventory.quarantine_schema(place, fault);
        }
        for (place, input, output) in usable {
            inventory.note_schemas(place, input, output);
        }
        for place in doubtful(&inventory, &plan.screening) {
            inventory.doubt(place);
        }
        for place in doubtful_items(&inventory, &plan.screening) {
            inventory.doubt_item(place);
        }
        Self {
            rules: plan.rules.clone(),
            identity: plan.identity,
            allowed_hosts: plan.allowed_hosts,
            public_url: plan.public_url,
            policy: Arc::new(policy::PolicySnapshot::build(inventory, plan.rules, plan.epoch)),
            limiter: plan.limiter,
            limits: plan.limits,
            rules_since,
            screening: plan.screening,
            arguments: plan.arguments,
            risk: plan.risk,
            servers: plan
                .servers
                .into_iter()
                .map(|server| (server.id().clone(), server))
                .collect(),
            extension_methods: plan.extension_methods,
            states: plan.states,
            tools,
        }
    }

    /// The policies and the inventory in force.
    #[must_use]
    pub fn policy(&self) -> &Arc<policy::PolicySnapshot> {
        &self.policy
    }

    /// Whether a request is addressed to us, by its host and origin.
    #[must_use]
    pub fn admits(&self, uri: &http::Uri, headers: &http::HeaderMap) -> bool {
        self.allowed_hosts.admits(uri, headers)
    }

    /// A server's approved instructions, for a principal that sees a tool there: nobody else
    /// learns that the server exists.
    pub(crate) fn instructions_for(&self, who: &Arc<Principal>, server: &ServerId) -> Option<Arc<str>> {
        let instructions = self.policy.inventory().server(server)?.instructions.clone()?;
        let sees_a_tool = self.policy.sees_a_tool(&self.policy.caller(who), server);
        sees_a_tool.then_some(instructions)
    }

    /// Whether a server answers.
    #[must_use]
    pub fn state_of(&self, server: &ServerId) -> ServerState {
        self.states
            .get(server)
            .map_or(ServerState::Down, |state| *state.borrow())
    }

    pub(crate) fn server(&self, id: &ServerId) -> Option<&Arc<upstream::Server>> {
        self.servers.get(id)
    }

    pub(crate) fn servers(&self) -> impl Iterator<Item = &Arc<upstream::Server>> {
        self.servers.values()
    }

    /// The era to speak to a server in for a client of this one: of those that its definitions were seen in, and pinned. Of a
    /// server whose eras nobody kept, what is pinned was seen in the modern era where it has that.
    pub(crate) fn era_toward(&self, server: &ServerId, client: Era) -> Era {
        let eras = self.policy.inventory().server(server).map(|server| &server.eras);
        match eras.filter(|eras| !eras.is_empty()) {
            Some(eras) if eras.contains(&client) => client,
            Some(eras) => eras.first().copied().unwrap_or(client),
            None => Era::Modern,
        }
    }

    /// Whether the definitions of a server were seen in this era.
    pub(crate) fn is_pinned_in(&self, server: &ServerId, era: Era) -> bool {
        let eras = self.policy.inventory().server(server).map(|server| &server.eras);
        eras.is_none_or(|eras| eras.is_empty() || eras.contains(&era))
    }

    /// Methods beyond MCP that the operator lets through to a server.
    pub(crate) fn extension_methods(&self, server: &ServerId) -> impl Iterator<Item = &str> {
        self.extension_methods
            .get(server)
            .into_iter()
            .flatten()
            .map(String::as_str)
    }

    /// What is kept beside a definition.
    pub(crate) fn tool(&self, entry: &ToolEntry) -> Option<&CompiledTool> {
        let mut definitions = self.tools.get(&entry.id)?.iter();
        definitions.find(|tool| tool.is_of(entry)).map(Arc::as_ref)
    }

    /// Servers whose first discovery since the start has not ended, and which a request waits for,
    /// so that a definition that changed meanwhile is not shown. A server that the principal could
    /// not use takes as long as one that does not exist.
    pub(crate) fn pending(&self, who: &Arc<Principal>, wanted: &Wanted<'_>) -> Vec<watch::Receiver<ServerState>> {
        let pending = || {
            self.states
                .iter()
                .filter(|(_, state)| *state.borrow() == ServerState::Pending)
        };
        let usable = |id: &ServerId| who.servers.covers(id) && self.policy.could_use(&self.policy.caller(who), id);
        let waited_for: Vec<_> = match wanted {
            Wanted::Tool(_) | Wanted::List(_) if pending().next().is_none() => Vec::new(),
            Wanted::Tool(Some(id)) | Wanted::List(Some(id)) if usable(id) => {
                pending().filter(|(pending, _)| pending == id).collect()
            }
            Wanted::List(None) => pending().filter(|(id, _)| usable(id)).collect(),
            Wanted::Tool(_) | Wanted::List(Some(_)) => pending().collect(),
        };
        waited_for.into_iter().map(|(_, state)| state.clone()).collect()
    }

    /// Servers that a request may need, that this principal may use, and that could not be discovered for want of somebody whose
    /// credential they take.
    pub(crate) fn waiting_for_somebody(
        &self,
        who: &Arc<Principal>,
        wanted: &Wanted<'_>,
    ) -> Vec<(Arc<upstream::Server>, watch::Receiver<ServerState>)> {
        let (Wanted::Tool(only) | Wanted::List(only)) = wanted;
        let down = self
            .states
            .iter()
            .filter(|(_, state)| *state.borrow() == ServerState::Down);
        let named = down.filter(|(id, _)| only.is_none_or(|only| only == *id));
        let waiting = named.filter_map(|(id, state)| Some((self.server(id)?, state)));
        waiting
            .filter(|(server, _)| server.wants_somebody())
            .filter(|(server, _)| {
                who.servers.covers(server.id()) && self.policy.could_use(&self.policy.caller(who), server.id())
            })
            .map(|(server, state)| (server.clone(), state.clone()))
            .collect()
    }
}

/// What a request is about.
pub(crate) enum Wanted<'a> {
    /// A tool, of this server if its name tells one.
    Tool(Option<&'a ServerId>),
    /// A list, of this server or of all.
    List(Option<&'a ServerId>),
}

/// The rules by which secrets are looked for, where the operator has that switched on.
fn operators_rules(plan: &SnapshotParts) -> Option<Arc<Detector>> {
    match &plan.arguments {
        ArgumentSecrets::Warn(rules) | ArgumentSecrets::Block(rules) => Some(rules.clone()),
        ArgumentSecrets::Pass => plan.screening.sanitisation.action.detector().cloned(),
    }
}

/// Tools that may be taken for another server's, or are set against one. ADR 0075.
fn shadowed(inventory: &Inventory) -> Vec<(usize, Shadowing)> {
    let entries = inventory.tools();
    let offered = entries.iter().map(|entry| Offered {
        id: &entry.id,
        trust: entry.trust,
        definition: &entry.definition,
        in_use: entry.standing == Standing::Approved,
        settled: entry.word.settled.contains(&entry.definition_hash),
    });
    let mut found = shadowing(&offered.collect::<Vec<_>>());
    // Who is quarantined for another reason stays so for that.
    found.retain(|(place, _)| {
        entries
            .get(*place)
            .is_some_and(|entry| entry.standing == Standing::Approved || waits(&entry.standing))
    });
    found
}

/// The same of what is no tool.
fn doubtful_items(inventory: &Inventory, screening: &screening::result::Rules) -> Vec<usize> {
    let detector = screening.sanitisation.action.detector().map(AsRef::as_ref);
    let is_doubtful = |entry: &ItemEntry| match entry.id.kind {
        ItemKind::Instructions => std::str::from_utf8(&entry.definition)
            .map_or(true, |text| screening::definition::is_doubtful_text(text, detector)),
        ItemKind::Tool | ItemKind::Prompt | ItemKind::Resource | ItemKind::Template => {
            screening::definition::is_doubtful(&entry.definition, detector)
        }
    };
    let items = inventory.items().iter().enumerate();
    let waiting = items.filter(|(_, entry)| waits(&entry.standing));
    let doubtful = waiting.filter(|(_, entry)| is_doubtful(entry));
    doubtful.map(|(place, _)| place).collect()
}

/// Whether something waits for no other reason than that nobody has looked at it yet.
fn waits(standing: &Standing) -> bool {
    match standing {
        Standing::Quarantined(QuarantineCause::FirstSight | QuarantineCause::NewTool) => true,
        Standing::Approved
        | Standing::Disabled
        | Standing::Quarantined(
            QuarantineCause::Doubtful
            | QuarantineCause::IdentityChanged(_)
            | QuarantineCause::Shadowing(_)
            | QuarantineCause::Changed { .. }
            | QuarantineCause::BadDefinition(_),
        ) => false,
    }
}

/// Tools that wait for approval because of what their definitions hold.
fn doubtful(inventory: &Inventory, screening: &screening::result::Rules) -> Vec<usize> {
    let detector = screening.sanitisation.action.detector().map(AsRef::as_ref);
    let tools = inventory.tools().iter().enumerate();
    let waiting = tools.filter(|(_, entry)| waits(&entry.standing));
    let doubtful = waiting.filter(|(_, entry)| screening::definition::is_doubtful(&entry.definition, detector));
    doubtful.map(|(place, _)| place).collect()
}
