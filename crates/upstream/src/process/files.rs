//! Where the files of a process are, and where a path leads there that a caller named.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandbox::{Directory, Leads, NoDirectory, Patience};
use screening::arguments::{Base, Bounds, Lead, PathClaim};
use vocabulary::PrincipalKey;

use super::running::Running;

/// Where the processes of one principal have their files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grounds {
    /// Their working directory, at the same path inside.
    pub workspace: PathBuf,
    /// Further directories that callers may have read.
    pub read: Vec<PathBuf>,
    /// Who makes the workspace.
    pub maker: Maker,
}

/// Who makes a workspace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Maker {
    /// The gateway, when a process is started.
    Gateway,
    /// The operator, before that.
    Operator,
}

/// The grounds of one principal, or of everybody: `None`.
pub type GroundsSource = dyn Fn(Option<&PrincipalKey>) -> Grounds + Send + Sync;

/// Where the files of the process are that a call goes to.
pub struct Files {
    running: Arc<Running>,
    maker: Maker,
    bounds: Arc<Bounds>,
}

impl Files {
    pub(super) fn of(grounds: &Grounds, running: &Arc<Running>) -> Option<Self> {
        let text = |path: &PathBuf| path.to_str().map(str::to_owned);
        Some(Self {
            running: running.clone(),
            maker: grounds.maker,
            bounds: Arc::new(Bounds {
                workspace: text(&grounds.workspace)?,
                read: grounds.read.iter().filter_map(text).collect(),
            }),
        })
    }

    /// Where paths may lead.
    #[must_use]
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Where each path leads. A few are looked up at once, if no disk has to be waited for.
    pub async fn follow(&self, claims: &[PathClaim]) -> Vec<Lead> {
        let missing = self.missing();
        if claims.len() <= MOST_AT_ONCE
            && let Some(leads) = follow(&self.bounds, claims, missing, Patience::None)
        {
            return leads;
        }
        let (bounds, claims) = (self.bounds.clone(), claims.to_vec());
        let count = claims.len();
        let looked = tokio::task::spawn_blocking(move || follow(&bounds, &claims, missing, Patience::Disk));
        looked
            .await
            .ok()
            .flatten()
            .unwrap_or_else(|| vec![Lead::Outside; count])
    }

    /// What it means if the workspace is not there: nothing, as long as it is made with the first process.
    fn missing(&self) -> Lead {
        let is_to_be_made = self.maker == Maker::Gateway && !self.running.is_in(Path::new(&self.bounds.workspace));
        if is_to_be_made { Lead::Inside } else { Lead::NoWorkspace }
    }
}

/// `None` if a disk would have to be waited for.
fn follow(bounds: &Bounds, claims: &[PathClaim], missing: Lead, patience: Patience) -> Option<Vec<Lead>> {
    let mut workspace = None;
    let mut leads = Vec::with_capacity(claims.len());
    for claim in claims {
        let opened = match claim.base {
            Base::Workspace => workspace
                .get_or_insert_with(|| Directory::without_links(Path::new(&bounds.workspace), patience))
                .as_ref()
                .map(|directory| directory.follow(&claim.relative))
                .map_err(|fault| match fault {
                    NoDirectory::Missing => Some(missing),
                    NoDirectory::Unusable => Some(Lead::NoWorkspace),
                    NoDirectory::Wait => None,
                }),
            Base::Read(index) => {
                let root = bounds.read.get(index).map_or("", String::as_str);
                Directory::as_named(Path::new(root), patience)
                    .map(|directory| directory.follow(&claim.relative))
                    .map_err(|fault| match fault {
                        NoDirectory::Missing | NoDirectory::Unusable => Some(Lead::Outside),
                        NoDirectory::Wait => None,
                    })
            }
        };
        leads.push(match opened {
            Ok(Leads::Beneath) => Lead::Inside,
            Ok(Leads::Elsewhere) => Lead::Outside,
            Ok(Leads::Wait) => return None,
            Err(lead) => lead?,
        });
    }
    Some(leads)
}

/// More than these keep others waiting.
const MOST_AT_ONCE: usize = 32;
