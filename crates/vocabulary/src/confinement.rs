//! How a process is confined, as the launcher reported it: words for receipts and policies.

/// The confinement of one process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Confinement {
    /// `A`, `B` or `C`.
    pub tier: &'static str,
    /// `workspace_only`, `read_only` or `none`.
    pub fs_policy: &'static str,
    /// `allowlist`, `block_all` or `none`.
    pub net_policy: &'static str,
    /// The name of the process's sandbox.
    pub instance: String,
    /// The digest of what was asked for.
    pub policy_hash: String,
    /// Every layer, in the order of building.
    pub layers: Vec<&'static str>,
}
