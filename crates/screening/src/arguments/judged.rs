//! The call of a tool: its arguments against their schema, then the paths and the URLs among them. Where a path leads on a
//! disk is looked up by whoever can look, between [`judge`] and [`Judged::settle`]; without that nothing passes.
//! ADR 0071: paths and hosts.

use schema::{ArgumentSchema, Places};
use vocabulary::json::{Limits, Value};
use vocabulary::{Digest, HostList, ReasonCode};

use super::marked::{Marked, SeeText};
use super::path::{self, Base, Bounds, PathFault};
use super::pointer::{Pointer, Shown, Spot};
use super::url;
use super::{ArgumentRules, CheckedArguments, Refusal, check};

/// What the operator says of the paths and URLs in the arguments of a tool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldRules {
    /// Fields that hold paths.
    pub paths: Vec<Pointer>,
    /// Whether those that the schema marks hold paths, too.
    pub detect_paths: bool,
    /// Fields that hold URLs, beside those that the schema marks.
    pub urls: Vec<Pointer>,
    /// What URLs are held against.
    pub hosts: Hosts,
}

/// What the URLs in arguments are held against.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Hosts {
    /// There is nothing to hold them against: they are not judged.
    Unsaid,
    /// The server can reach no host: no URL passes where the operator says that there are URLs. What a schema calls a URI
    /// is a name there, and not judged.
    Nothing,
    /// These hosts.
    Only(HostList),
}

impl FieldRules {
    /// Nothing is said, and nothing is looked for.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            paths: Vec::new(),
            detect_paths: false,
            urls: Vec::new(),
            hosts: Hosts::Unsaid,
        }
    }
}

/// What the arguments of a tool must keep to: compiled once for each definition.
#[derive(Debug)]
pub struct ToolRules {
    arguments: ArgumentRules,
    paths: Option<Fields>,
    urls: Option<(Fields, HostList)>,
}

/// Fields of one kind; there is at least one.
#[derive(Debug)]
struct Fields {
    declared: Vec<Pointer>,
    marked: Option<Marked>,
}

impl Fields {
    fn of(declared: &[Pointer], marked: Option<Marked>) -> Option<Self> {
        let declared = declared.to_vec();
        (!declared.is_empty() || marked.is_some()).then_some(Self { declared, marked })
    }

    /// Shows `see` every string of these fields.
    fn visit<'f>(&'f self, tree: &Value<'_>, see: &mut SeeText<'_, 'f, Fault>) -> Result<(), Fault> {
        for pointer in &self.declared {
            pointer.visit(tree, &mut |value, spots| match value {
                Value::String(text) => see(text, spots),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                    let message = format!("the field {} must be a string", Shown(spots));
                    Err((ReasonCode::DenySchemaViolation, message))
                }
            })?;
        }
        self.marked.as_ref().map_or(Ok(()), |marked| marked.visit(tree, see))
    }
}

type Fault = (ReasonCode, String);

impl ToolRules {
    /// The operator's limits, the tool's own schema, and what the operator says of its fields.
    #[must_use]
    pub fn new(limits: Limits, mut schema: ArgumentSchema, fields: &FieldRules) -> Self {
        let places: Places = schema.take_places();
        let marked_paths = fields.detect_paths.then(|| Marked::paths(&places)).flatten();
        let urls = match &fields.hosts {
            Hosts::Unsaid => None,
            Hosts::Nothing => Some((None, HostList::default())),
            Hosts::Only(hosts) => Some((Marked::urls(&places), hosts.clone())),
        };
        Self {
            arguments: ArgumentRules::new(limits, schema),
            paths: Fields::of(&fields.paths, marked_paths),
            urls: urls.and_then(|(marked, hosts)| Some((Fields::of(&fields.urls, marked)?, hosts))),
        }
    }

    /// Whether any field holds a path: then a call is judged with [`Bounds`], where the server has any.
    #[must_use]
    pub fn has_paths(&self) -> bool {
        self.paths.is_some()
    }

    /// Whether the schema has patterns that are not checked.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.arguments.is_partial()
    }
}

/// A path whose text stays where files are allowed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathClaim {
    /// The directory it is beneath.
    pub base: Base,
    /// The way from there.
    pub relative: String,
    field: String,
}

/// Where a path leads on the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lead {
    /// To something beneath its directory, or to nothing yet there.
    Inside,
    /// Elsewhere, or nobody can tell.
    Outside,
    /// The workspace itself is gone, or is a link now.
    NoWorkspace,
}

/// Arguments that fit their schema, with paths that are still to be followed and URLs that are still to be judged.
#[derive(Debug)]
pub struct Judged<'a, 'r> {
    checked: CheckedArguments<'a>,
    rules: &'r ToolRules,
    bounds: Option<&'r Bounds>,
    claims: Vec<PathClaim>,
}

/// Checks the raw `arguments` of a call as [`check`] does, then the text of every path among them. A server without bounds
/// has no workspace: its paths must be relative.
///
/// # Errors
/// The first rule they break.
pub fn judge<'a, 'r>(
    raw: Option<&'a [u8]>,
    rules: &'r ToolRules,
    bounds: Option<&'r Bounds>,
) -> Result<Judged<'a, 'r>, Refusal> {
    let checked = check(raw, &rules.arguments)?;
    let claims = match &rules.paths {
        Some(fields) => claims(fields, checked.tree(), bounds).map_err(|fault| refusal(fault, checked.digest()))?,
        None => Vec::new(),
    };
    Ok(Judged {
        checked,
        rules,
        bounds,
        claims,
    })
}

impl<'a> Judged<'a, '_> {
    /// The paths to follow.
    #[must_use]
    pub fn claims(&self) -> &[PathClaim] {
        &self.claims
    }

    /// Takes where each path leads, in their order, and judges the URLs.
    ///
    /// # Errors
    /// The first rule that is broken; a path without an answer leads out.
    pub fn settle(self, leads: &[Lead]) -> Result<CheckedArguments<'a>, Refusal> {
        let digest = self.checked.digest();
        for (index, claim) in self.claims.iter().enumerate() {
            let fault = match leads.get(index) {
                Some(Lead::Inside) => continue,
                Some(Lead::NoWorkspace) => no_workspace(),
                Some(Lead::Outside) | None => leads_out(&claim.field, PathFault::LeadsOut, self.bounds),
            };
            return Err(refusal(fault, digest));
        }
        if let Some((fields, hosts)) = &self.rules.urls {
            let mut see = |text: &str, spots: &[Spot<'_>]| {
                url::judge(text, hosts).map_err(|fault| not_allowed(&Shown(spots).to_string(), &fault, hosts))
            };
            fields
                .visit(self.checked.tree(), &mut see)
                .map_err(|fault| refusal(fault, digest))?;
        }
        Ok(self.checked)
    }
}

fn claims(fields: &Fields, tree: &Value<'_>, bounds: Option<&Bounds>) -> Result<Vec<PathClaim>, Fault> {
    let mut claims = Vec::new();
    let mut see = |text: &str, spots: &[Spot<'_>]| {
        let field = || Shown(spots).to_string();
        let found = path::judge(text, bounds).map_err(|fault| leads_out(&field(), fault, bounds))?;
        claims.extend(found.map(|(base, relative)| PathClaim {
            base,
            relative: relative.to_owned(),
            field: field(),
        }));
        Ok(())
    };
    fields.visit(tree, &mut see)?;
    Ok(claims)
}

fn refusal((code, message): Fault, digest: Digest) -> Refusal {
    Refusal {
        code,
        message,
        digest: Some(digest),
    }
}

fn leads_out(field: &str, fault: PathFault, bounds: Option<&Bounds>) -> Fault {
    let allowed = match bounds {
        Some(Bounds { workspace, read }) if read.is_empty() => format!("inside the workspace {workspace}"),
        Some(Bounds { workspace, read }) => {
            format!("inside the workspace {workspace}, and to read in {}", some_of(read))
        }
        None => "relative to the server's own directory".to_owned(),
    };
    let message = format!(
        "the path in {field} {fault}; allowed are paths {allowed}: name the file from there, without `..`, `~`, backslashes, \
         escapes, look-alikes and links that lead out"
    );
    (ReasonCode::DenyPathTraversal, message)
}

fn no_workspace() -> Fault {
    let message = "the server's workspace is gone or has become a link; let the operator run `portreeve doctor`";
    (ReasonCode::DenySandboxUnavailable, message.to_owned())
}

fn not_allowed(field: &str, fault: &url::UrlFault, hosts: &HostList) -> Fault {
    let known: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    let next = match known.is_empty() {
        true => "this server may reach no host: leave the URL out".to_owned(),
        false => format!("allowed are {}: use `https://` and one of these", some_of(&known)),
    };
    let message = format!("the URL in {field} {fault}; {next}");
    (ReasonCode::DenyHostNotAllowed, message)
}

/// The first of a list, and how many more there are.
fn some_of(list: &[String]) -> String {
    const TOLD: usize = 8;
    let told = list
        .iter()
        .take(TOLD)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    match list.len().saturating_sub(TOLD) {
        0 => told,
        more => format!("{told} and {more} more"),
    }
}

#[cfg(test)]
mod tests;
