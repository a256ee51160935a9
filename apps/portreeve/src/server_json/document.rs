//! The document as it is spelled: the members that matter here, by the schema of 2025-12-11 and those before it that spell
//! them alike. A member that stands twice is refused by the reader.

use serde::Deserialize;

/// The whole document, or the answer of a registry that wraps it.
#[derive(Deserialize)]
pub(super) struct Document {
    pub(super) name: Option<String>,
    pub(super) packages: Option<Vec<Package>>,
    pub(super) remotes: Option<Vec<Remote>>,
    server: Option<Box<Document>>,
}

impl Document {
    pub(super) fn parse(text: &[u8]) -> Result<Self, &'static str> {
        let document: Self = serde_json::from_slice(text).map_err(
            |_| "is not a `server.json`: it is no JSON, or a member of it stands twice or is of another type",
        )?;
        match document {
            Self {
                name: None,
                packages: None,
                remotes: None,
                server: Some(inner),
            } => Ok(*inner),
            document => Ok(document),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Package {
    pub(super) registry_type: Option<String>,
    pub(super) registry_base_url: Option<String>,
    pub(super) identifier: Option<String>,
    pub(super) version: Option<String>,
    pub(super) file_sha256: Option<String>,
    transport: Option<Transport>,
    pub(super) package_arguments: Option<Vec<Argument>>,
    pub(super) environment_variables: Option<Vec<Variable>>,
}

impl Package {
    pub(super) fn transport(&self) -> Option<&str> {
        self.transport.as_ref()?.kind.as_deref()
    }
}

#[derive(Deserialize)]
struct Transport {
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Remote {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) url: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Variable {
    pub(super) name: Option<String>,
    pub(super) is_required: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Argument {
    #[serde(rename = "type")]
    kind: Option<String>,
    name: Option<String>,
    value: Option<String>,
    default: Option<String>,
    is_required: Option<bool>,
}

impl Argument {
    /// What it says for itself; a template is for the operator to fill in.
    fn said(&self) -> Option<&str> {
        let required = self.is_required == Some(true);
        let said = self.value.as_deref().or(self.default.as_deref().filter(|_| required));
        said.filter(|text| !text.contains(['{', '}']))
    }

    /// Whether only the operator can say what it is.
    pub(super) fn is_lacking(&self) -> bool {
        let is_flag = self.kind.as_deref() == Some("named") && self.value.is_none();
        self.is_required == Some(true) && self.said().is_none() && !is_flag
    }

    /// Its words on a command line.
    pub(super) fn words(&self) -> Vec<String> {
        match (self.kind.as_deref(), &self.name, self.said()) {
            (Some("named"), Some(name), Some(said)) => vec![name.clone(), said.to_owned()],
            (Some("named"), Some(name), None) if self.is_required == Some(true) => vec![name.clone()],
            (Some("positional"), _, Some(said)) => vec![said.to_owned()],
            _ => Vec::new(),
        }
    }
}
