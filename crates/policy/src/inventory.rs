//! What exists: servers the operator configured and the tools they were seen to offer, each with
//! risk, trust and standing. What is not in here cannot be seen or called.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use vocabulary::{
    Audience, Classified, Digest, Era, Face, Hints, Risk, RiskFound, RiskSource, ServerId, Shadowing, Timestamp,
    ToolId, ToolName, Trust,
};

pub(crate) mod beside;
pub(crate) mod diff;
pub(crate) mod entry;
pub(crate) mod identity;
pub(crate) mod item;
pub(crate) mod offered;
pub(crate) mod pin;
pub(crate) mod snapshot;
pub(crate) mod word;

use entry::{
    Before, DefinitionFault, InputState, OutputState, QuarantineCause, ReadDefinition, Schemas, Standing, ToolEntry,
    read,
};
use identity::{ServerIdentity, is_vouched_for};
use item::ItemEntry;
use pin::{Presence, StoredServer, StoredTool};
use word::{ItemId, ItemKind, Word};

/// What the operator says of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerFacts {
    /// Its id.
    pub id: ServerId,
    /// How far it is trusted.
    pub trust: Trust,
    /// By what it is known again.
    pub identity: ServerIdentity,
    /// The sandbox it runs in.
    pub tier: SandboxTier,
    /// The operator's word on single tools: by name, the risk if it was given.
    pub tools: BTreeMap<String, Option<Risk>>,
}

vocabulary::words! {
    /// The sandbox a server runs in, as policies see it.
    #[derive(Default)]
    pub enum SandboxTier {
        /// Namespaces, Landlock, seccomp.
        A = "A",
        /// Landlock and seccomp only.
        B = "B",
        /// None of ours: it is elsewhere, or the operator left it unconfined.
        #[default]
        Outside = "none",
    }
}

/// A configured server in the inventory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerEntry {
    /// Its id.
    pub id: ServerId,
    /// How far it is trusted.
    pub trust: Trust,
    /// The sandbox it runs in.
    pub tier: SandboxTier,
    /// When it was discovered first; `None` if it never was.
    pub discovered: Option<Timestamp>,
    /// Whom some of what it offers was approved of, where that is another server and the operator vouches for neither.
    pub approved_as: Option<ServerIdentity>,
    /// The eras it was seen in; empty where that is not known.
    pub eras: BTreeSet<Era>,
    /// Its approved instructions; changed ones are withheld.
    pub instructions: Option<Arc<str>>,
}

/// Why the store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[error("the inventory store failed")]
pub struct StoreError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Where inventory is kept between runs. Implemented by `store`.
pub trait InventoryStore: Send + Sync {
    /// Everything that was saved, servers that are not configured any more included.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn load(&self) -> Result<Vec<StoredServer>, StoreError>;

    /// Replaces what is kept of one server, whole or not at all.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn save(&self, server: &StoredServer) -> Result<(), StoreError>;
}

/// What rules on risk find in a tool's name and in what it says of itself.
pub type RiskOf<'a> = &'a dyn Fn(&str, &str) -> Option<RiskFound>;

/// Configured servers and the tools they offer, tools in order of id. A tool that has several definitions is there once for
/// each, those for the fewest clients first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Inventory {
    servers: BTreeMap<ServerId, ServerEntry>,
    tools: Vec<Arc<ToolEntry>>,
    places: HashMap<ServerId, HashMap<Arc<str>, usize>>,
    items: Vec<Arc<ItemEntry>>,
    /// What is not offered and has a pin all the same.
    vanished: BTreeSet<ItemId>,
    /// Servers that the operator vouches for and of which no pin was ever given up: what they list and nobody has seen is welcome.
    welcome: BTreeSet<ServerId>,
    /// What is approved of each kind, in one digest: another one means that lists may differ.
    marks: BTreeMap<(ServerId, ItemKind), Digest>,
}

impl Inventory {
    /// Lays what was discovered over what is configured; servers that are not configured are left out.
    #[must_use]
    pub fn assemble(facts: &[ServerFacts], stored: &[StoredServer], risk_of: RiskOf<'_>) -> Self {
        let mut servers = BTreeMap::new();
        let (mut tools, mut items) = (Vec::new(), Vec::new());
        let (mut vanished, mut welcome) = (BTreeSet::new(), BTreeSet::new());
        for facts in facts {
            let stored = stored.iter().find(|stored| stored.id == facts.id);
            servers.insert(facts.id.clone(), server_entry(facts, stored));
            if is_vouched_for(facts.trust) && stored.is_none_or(|stored| !stored.forgot_pins) {
                welcome.insert(facts.id.clone());
            }
            let Some(stored) = stored else { continue };
            vanished.extend(item::vanished(stored));
            let offered = stored.tools.iter().filter(|tool| tool.presence == Presence::Offered);
            tools.extend(offered.map(|tool| {
                let word = stored.word(ItemKind::Tool, tool.name.as_str());
                let mut entry = tool_entry(facts, tool, word, risk_of);
                let of = (ItemKind::Tool, tool.name.as_str(), entry.definition_hash);
                entry.standing = stored.as_this_server(facts, of, entry.standing);
                entry
            }));
            items.extend(item::instructions(facts, stored).map(Arc::new));
            items.extend(item::offered(facts, stored).map(Arc::new));
        }
        tools.sort_by(|one: &ToolEntry, other| (&one.id, narrowness(one)).cmp(&(&other.id, narrowness(other))));
        for definitions in tools.chunk_by_mut(|one, other| one.id == other.id) {
            judge_alike(definitions);
        }
        let tools: Vec<Arc<ToolEntry>> = tools.into_iter().map(Arc::new).collect();
        let mut places: HashMap<ServerId, HashMap<Arc<str>, usize>> = HashMap::new();
        for (place, tool) in tools.iter().enumerate() {
            let names = places.entry(tool.id.server.clone()).or_default();
            names.entry(tool.id.name.as_str().into()).or_insert(place);
        }
        items.sort_by(|one: &Arc<ItemEntry>, other| one.id.cmp(&other.id));
        Self {
            servers,
            tools,
            places,
            marks: item::marks(&items),
            items,
            vanished,
            welcome,
        }
    }

    /// A server with tools nobody has seen: the names given, all of one risk.
    pub(crate) fn imagined(server: &ServerEntry, names: &[ToolName], risk: Risk) -> Self {
        let tool = |name: &ToolName| ToolEntry {
            id: ToolId {
                server: server.id.clone(),
                name: name.clone(),
            },
            definition: Arc::default(),
            definition_hash: Digest::of(b""),
            input_schema: Arc::default(),
            output_schema: None,
            input: InputState::Declared,
            output: OutputState::Absent,
            risk,
            risk_source: RiskSource::Default,
            trust: server.trust,
            tier: server.tier,
            hints: Hints::default(),
            standing: Standing::Approved,
            approved: None,
            before: None,
            word: Word::default(),
            audience: Audience::EVERYBODY,
        };
        let tools = names.iter().map(tool).map(Arc::new).collect();
        let servers = BTreeMap::from([(server.id.clone(), server.clone())]);
        Self {
            servers,
            tools,
            places: HashMap::new(),
            items: Vec::new(),
            vanished: BTreeSet::new(),
            welcome: BTreeSet::new(),
            marks: BTreeMap::new(),
        }
    }

    /// Quarantines a tool whose input schema cannot be used: arguments never leave unchecked.
    pub fn quarantine_schema(&mut self, place: usize, fault: DefinitionFault) {
        self.change(place, |entry| {
            entry.standing = Standing::Quarantined(QuarantineCause::BadDefinition(fault));
        });
    }

    /// Says why a tool that waits for approval does, where its definition is doubtful.
    pub fn doubt(&mut self, place: usize) {
        self.change(place, |entry| {
            entry.standing = Standing::Quarantined(QuarantineCause::Doubtful)
        });
    }

    /// Says why something that waits for approval does, where its definition is doubtful.
    pub fn doubt_item(&mut self, place: usize) {
        if let Some(entry) = self.items.get_mut(place) {
            Arc::make_mut(entry).standing = Standing::Quarantined(QuarantineCause::Doubtful);
        }
    }

    /// Quarantines a tool that may be taken for another server's, or is set against one.
    pub fn shadow(&mut self, place: usize, why: Shadowing) {
        self.change(place, |entry| {
            entry.standing = Standing::Quarantined(QuarantineCause::Shadowing(why));
        });
    }

    /// Says what became of a tool's schemas.
    pub fn note_schemas(&mut self, place: usize, input: InputState, output: OutputState) {
        self.change(place, |entry| (entry.input, entry.output) = (input, output));
    }

    fn change(&mut self, place: usize, change: impl FnOnce(&mut ToolEntry)) {
        if let Some(entry) = self.tools.get_mut(place) {
            change(Arc::make_mut(entry));
        }
    }

    /// Every configured server, in order of id.
    pub fn servers(&self) -> impl Iterator<Item = &ServerEntry> {
        self.servers.values()
    }

    /// One configured server.
    #[must_use]
    pub fn server(&self, id: &ServerId) -> Option<&ServerEntry> {
        self.servers.get(id)
    }

    /// Every tool in order of id, quarantined ones included. For operators: callers see [`crate::PolicySnapshot::visible`].
    #[must_use]
    pub fn tools(&self) -> &[Arc<ToolEntry>] {
        &self.tools
    }

    /// One tool, quarantined or not, with each of its definitions; empty if there is none. For operators: callers go
    /// through [`crate::PolicySnapshot::resolve`].
    #[must_use]
    pub fn tool(&self, server: &ServerId, name: &str) -> &[Arc<ToolEntry>] {
        self.place(server, name).map_or(&[], |place| self.definitions_at(place))
    }

    /// Everything but tools, in order of id. For operators.
    #[must_use]
    pub fn items(&self) -> &[Arc<ItemEntry>] {
        &self.items
    }

    /// The kinds of things that a server offers under this name.
    #[must_use]
    pub fn kinds(&self, server: &ServerId, name: &str) -> Vec<ItemKind> {
        let tool = (!self.tool(server, name).is_empty()).then_some(ItemKind::Tool);
        let items = self
            .items
            .iter()
            .filter(|item| item.id.server == *server && &*item.id.name == name);
        let mut kinds: Vec<ItemKind> = tool.into_iter().chain(items.map(|item| item.id.kind)).collect();
        kinds.dedup();
        kinds
    }

    /// One thing that is no tool, with each of its definitions; empty if there is none. For operators.
    #[must_use]
    pub fn item(&self, id: &ItemId) -> &[Arc<ItemEntry>] {
        let first = self.items.partition_point(|item| item.id < *id);
        let rest = self.items.get(first..).unwrap_or_default();
        let end = rest.partition_point(|item| item.id == *id);
        rest.get(..end).unwrap_or_default()
    }

    /// The definitions of the tool that begins at a place.
    fn definitions_at(&self, place: usize) -> &[Arc<ToolEntry>] {
        let rest = self.tools.get(place..).unwrap_or_default();
        let mut tools = rest.chunk_by(|one, other| one.id == other.id);
        tools.next().unwrap_or_default()
    }

    /// Where the definitions of a tool begin.
    pub(crate) fn place(&self, server: &ServerId, name: &str) -> Option<usize> {
        self.places.get(server)?.get(name).copied()
    }

    /// Where the definition is that a client gets.
    pub(crate) fn place_for(&self, server: &ServerId, name: &str, client: Face) -> Option<usize> {
        let first = self.place(server, name)?;
        let mut definitions = self.definitions_at(first).iter();
        Some(first + definitions.position(|entry| entry.audience.includes(client))?)
    }
}

/// Definitions for fewer clients come first: whoever belongs to two audiences gets the narrower one's.
fn narrowness(tool: &ToolEntry) -> (std::cmp::Reverse<(u32, bool)>, Audience) {
    let audience = tool.audience;
    (
        std::cmp::Reverse((audience.needs.len(), audience.era.is_some())),
        audience,
    )
}

/// Policies speak of the tool: it is as dangerous as the worst of its definitions, and only what all of them say of it
/// counts as said.
fn judge_alike(definitions: &mut [ToolEntry]) {
    let Some((first, others)) = definitions.split_first() else {
        return;
    };
    let (mut worst, mut hints) = ((first.risk, first.risk_source), first.hints);
    for other in others {
        if other.risk > worst.0 {
            worst = (other.risk, other.risk_source);
        }
        hints = hints.agreed(other.hints);
    }
    for definition in definitions {
        (definition.risk, definition.risk_source) = worst;
        definition.hints = hints;
    }
}

fn server_entry(facts: &ServerFacts, stored: Option<&StoredServer>) -> ServerEntry {
    ServerEntry {
        id: facts.id.clone(),
        trust: facts.trust,
        tier: facts.tier,
        discovered: stored.and_then(|stored| stored.discovered),
        approved_as: stored.and_then(|stored| stored.approved_as(facts)).cloned(),
        eras: stored.map(|stored| stored.eras.clone()).unwrap_or_default(),
        instructions: stored.and_then(|stored| released(facts, stored)).map(Arc::from),
    }
}

/// The instructions, if they may be shown.
fn released<'a>(facts: &ServerFacts, stored: &'a StoredServer) -> Option<&'a str> {
    let entry = item::instructions(facts, stored)?;
    stored
        .instructions
        .seen
        .as_deref()
        .filter(|_| entry.standing == Standing::Approved)
}

fn tool_entry(facts: &ServerFacts, tool: &StoredTool, word: Option<&Word>, risk_of: RiskOf<'_>) -> ToolEntry {
    // The pin is compared with a digest computed anew, so that an edited store approves nothing.
    let (seen, hints, description, schemas) = match read(&tool.definition) {
        Ok(read) if read.name == tool.name => (read.hash, read.hints, read.description, read.schemas),
        Ok(ReadDefinition { hash, hints, .. }) => (hash, hints, String::new(), Err(DefinitionFault::BadName)),
        Err(fault) => (
            Digest::of(&tool.definition),
            Hints::default(),
            String::new(),
            Err(fault),
        ),
    };
    let pinned = StoredTool { seen, ..tool.clone() };
    let (schemas, standing) = match schemas {
        Ok(schemas) => (schemas, pinned.standing(facts.trust)),
        Err(fault) => (
            Schemas {
                input: Arc::default(),
                output: None,
            },
            Standing::Quarantined(QuarantineCause::BadDefinition(fault)),
        ),
    };
    let word = word.cloned().unwrap_or_default();
    let standing = match word.disabled {
        Some(_) => Standing::Disabled,
        None => standing,
    };
    let in_the_file = facts.tools.get(tool.name.as_str()).copied().flatten();
    let operator = in_the_file.or(word.risk.as_ref().map(|(risk, _)| *risk));
    let classify = |hints, description: &str| {
        let found = risk_of(tool.name.as_str(), description).map(|found| found.risk);
        Classified::of_tool(operator, facts.trust, hints, found)
    };
    let classified = classify(hints, &description);
    ToolEntry {
        id: ToolId {
            server: facts.id.clone(),
            name: tool.name.clone(),
        },
        definition: tool.definition.clone(),
        definition_hash: seen,
        input_schema: schemas.input,
        input: InputState::Declared,
        output: match &schemas.output {
            Some(_) => OutputState::Declared,
            None => OutputState::Absent,
        },
        output_schema: schemas.output,
        risk: classified.risk,
        risk_source: classified.source,
        trust: facts.trust,
        tier: facts.tier,
        hints,
        standing,
        approved: tool.approved,
        before: before(tool, |hints, description| classify(hints, description).risk),
        word,
        audience: tool.audience,
    }
}

/// What was approved before, if it was kept: bytes that are not those of the digest are not it.
fn before(tool: &StoredTool, risk: impl FnOnce(Hints, &str) -> Risk) -> Option<Arc<Before>> {
    let definition = tool.approved_definition.as_ref()?;
    let read = read(definition).ok().filter(|read| tool.approved == Some(read.hash))?;
    Some(Arc::new(Before {
        risk: risk(read.hints, &read.description),
        definition: definition.clone(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{digest, discovered, facts, server, town};

    // R099, R101
    #[test]
    fn every_entry_has_risk_trust_and_standing() {
        let shown: Vec<(String, Risk, Trust, String)> = town()
            .tools()
            .iter()
            .map(|tool| (tool.id.to_string(), tool.risk, tool.trust, tool.standing.to_string()))
            .collect();
        let row = |id: &str, risk, trust, standing: &str| (id.to_owned(), risk, trust, standing.to_owned());
        assert_eq!(
            shown,
            [
                row("files/read", Risk::Low, Trust::Verified, "approved"),
                row("files/wipe", Risk::Critical, Trust::Verified, "approved"),
                row("files/write", Risk::Medium, Trust::Verified, "approved"),
                row(
                    "lab/probe",
                    Risk::High,
                    Trust::Unknown,
                    "quarantined: server of unknown trust"
                ),
                row("web/fetch", Risk::High, Trust::Community, "approved"),
                row("web/post", Risk::High, Trust::Community, "approved"),
            ]
        );
    }

    #[test]
    fn definitions_and_schemas_are_kept_as_the_bytes_they_were() {
        let raw = r#" {"name":"t", "outputSchema" : {"type": "object" ,"x":1.0} ,"inputSchema":{ "type":"object" } } "#;
        let facts = facts("files", Trust::Internal);
        let inventory = Inventory::assemble(std::slice::from_ref(&facts), &[discovered(&facts, &[raw])], &|_, _| {
            None
        });
        let entry = &inventory.tool(&server("files"), "t")[0];
        assert_eq!(&*entry.definition, raw.as_bytes());
        assert_eq!(&*entry.input_schema, br#"{ "type":"object" }"#);
        assert_eq!(
            entry.output_schema.as_deref(),
            Some(br#"{"type": "object" ,"x":1.0}"#.as_slice())
        );
    }

    #[test]
    fn servers_that_are_not_configured_are_left_out() {
        let facts = facts("files", Trust::Internal);
        let stored = discovered(&facts, &[r#"{"name":"t","inputSchema":{}}"#]);
        assert_eq!(Inventory::assemble(&[], &[stored], &|_, _| None), Inventory::default());
    }

    // R103
    #[test]
    fn a_store_that_was_edited_approves_nothing() {
        let facts = facts("files", Trust::Internal);
        let mut stored = discovered(&facts, &[r#"{"name":"t","inputSchema":{}}"#]);
        let other: Arc<[u8]> = br#"{"name":"t","inputSchema":{"type":"object"}}"#.as_slice().into();
        stored.tools[0].definition = other;
        let standing = |stored: &StoredServer| {
            let inventory =
                Inventory::assemble(std::slice::from_ref(&facts), std::slice::from_ref(stored), &|_, _| None);
            inventory
                .tool(&server("files"), "t")
                .first()
                .map(|entry| entry.standing.clone())
        };
        let approved = stored.tools[0].approved.expect("approved");
        assert_eq!(
            standing(&stored),
            Some(Standing::Quarantined(QuarantineCause::Changed { approved }))
        );

        stored.tools[0].definition = b"{}".as_slice().into();
        stored.tools[0].approved = Some(digest("{}"));
        let bad = Standing::Quarantined(QuarantineCause::BadDefinition(DefinitionFault::BadName));
        assert_eq!(standing(&stored), Some(bad));
    }
}
