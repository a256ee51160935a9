//! What the gateway keeps beside a tool's entry: what its calls are judged by, and its definition as lists show it.

use std::sync::{Arc, OnceLock};

use mcp::headers::Marks;
use mcp::method::federated;
use policy::{DefinitionFault, InputState, OutputState, ToolEntry};
use screening::arguments::{ArgumentSchema, FieldRules, Fields, SchemaFault, ToolRules};
use screening::definition::unforged;
use screening::result::validate::Declaration;
use vocabulary::ServerId;
use vocabulary::canonical;
use vocabulary::json::{self, Value};

/// What the gateway keeps beside a tool's entry.
pub(crate) struct CompiledTool {
    pub(crate) rules: ToolRules,
    /// What the tool declares of its output.
    pub(crate) output: Declaration,
    /// What of the arguments a modern request repeats in its headers.
    pub(crate) marks: Marks,
    /// Whether the tool runs as a task of the legacy era only.
    pub(crate) needs_task: bool,
    settings: ToolSettings,
    entry: Arc<ToolEntry>,
    plain: OnceLock<ListedDefinition>,
    federated: OnceLock<Option<ListedDefinition>>,
}

/// What the operator says of the arguments of a tool.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ToolSettings {
    /// Whether its schema's objects are closed.
    pub(super) closing: Fields,
    /// How large they may be.
    pub(super) limits: json::Limits,
    /// Which of them hold paths and URLs.
    pub(super) fields: Arc<FieldRules>,
}

/// A definition as a list shows it, and its canonical form for the catalogue's hash.
#[derive(Debug)]
pub(crate) struct ListedDefinition {
    pub(crate) definition: Vec<u8>,
    pub(crate) canonical: Vec<u8>,
}

/// The longest name on the federated route; longer ones are listed on their server's own.
const LONGEST_NAME: usize = 128;

impl CompiledTool {
    /// What judges calls of a tool, or why its input schema cannot be used.
    pub(super) fn compile(entry: &Arc<ToolEntry>, settings: ToolSettings) -> Result<Arc<Self>, DefinitionFault> {
        let (schema, marks) = compile_input(&entry.input_schema, settings.closing)?;
        let (plain, federated) = (OnceLock::new(), OnceLock::new());
        let (server, tool) = (&entry.id.server, &entry.id.name);
        tracing::debug!(%server, %tool, "what judges calls of a tool was compiled");
        Ok(Arc::new(Self {
            rules: ToolRules::new(settings.limits, schema, &settings.fields),
            output: Declaration::compile(entry.output_schema.as_deref()),
            marks,
            needs_task: mcp::task::is_required(&entry.definition),
            settings,
            entry: entry.clone(),
            plain,
            federated,
        }))
    }

    pub(super) fn is_for(&self, entry: &ToolEntry, settings: &ToolSettings) -> bool {
        self.settings == *settings && *self.entry == *entry
    }

    /// The server it belongs to.
    pub(crate) fn server(&self) -> &ServerId {
        &self.entry.id.server
    }

    pub(super) fn is_of(&self, entry: &ToolEntry) -> bool {
        self.entry.definition_hash == entry.definition_hash
    }

    pub(super) fn input_state(&self) -> InputState {
        match self.rules.is_partial() {
            true => InputState::Partly,
            false => InputState::Enforced,
        }
    }

    pub(super) fn output_state(&self) -> OutputState {
        match &self.output {
            Declaration::Nothing => OutputState::Absent,
            Declaration::Uncompilable { .. } => OutputState::Unusable,
            Declaration::Schema(_) if self.output.is_vacuous() => OutputState::Vacuous,
            Declaration::Schema(_) if self.output.is_partial() => OutputState::Partly,
            Declaration::Schema(_) => OutputState::Enforced,
        }
    }

    /// The definition under its own name.
    pub(crate) fn plain(&self) -> &ListedDefinition {
        self.plain
            .get_or_init(|| ListedDefinition::of(unforged(&self.entry.definition).into_owned()))
    }

    /// The definition under `server__tool`; `None` where that is too long.
    pub(crate) fn federated(&self) -> Option<&ListedDefinition> {
        let make = || {
            let name = federated(self.entry.id.server.as_str(), self.entry.id.name.as_str());
            if name.chars().count() > LONGEST_NAME {
                return None;
            }
            let definition = unforged(&self.entry.definition);
            let span = mcp::server::member_span(&definition, "name")?;
            let mut renamed = definition.get(..span.start)?.to_vec();
            mcp::compose::string(&name, &mut renamed);
            renamed.extend_from_slice(definition.get(span.end..)?);
            Some(ListedDefinition::of(renamed))
        };
        self.federated.get_or_init(make).as_ref()
    }
}

/// What is wrong with an input schema, if something is: a tool with such a one is quarantined, approved or not.
#[must_use]
pub fn input_fault(input_schema: &[u8]) -> Option<DefinitionFault> {
    compile_input(input_schema, Fields::Closed).err()
}

fn compile_input(input_schema: &[u8], fields: Fields) -> Result<(ArgumentSchema, Marks), DefinitionFault> {
    let schema = ArgumentSchema::compile(input_schema, fields).map_err(|fault| {
        if fault == SchemaFault::BadPattern {
            DefinitionFault::BadPattern
        } else {
            DefinitionFault::UncheckableSchema
        }
    })?;
    let marks = Marks::read(input_schema).map_err(|_| DefinitionFault::BadHeaderMark)?;
    Ok((schema, marks))
}

impl ListedDefinition {
    /// The definition of a tool of our own.
    pub(crate) fn builtin(definition: &'static str) -> Self {
        Self::of(definition.as_bytes().to_vec())
    }

    fn of(definition: Vec<u8>) -> Self {
        let canonical = canonical_form(&definition);
        Self { definition, canonical }
    }
}

/// The canonical form of a definition, for the catalogue's hash; empty where it has none.
pub(crate) fn canonical_form(definition: &[u8]) -> Vec<u8> {
    const READING: json::Limits = json::Limits {
        max_bytes: 1 << 20,
        max_depth: 512,
        max_string: 1 << 20,
        max_items: 1 << 20,
    };
    let mut form = Vec::with_capacity(definition.len());
    if let Ok(tree) = Value::parse(definition, &READING) {
        canonical::write(&tree, &mut form);
    }
    form
}
