//! Whether an operator stands for a lock: its text and the lines of `servers.lock.sig` are a signed note.

use vocabulary::note::{NoteFault, Verifier, verify};

/// What is known of the signature of a lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Signed {
    /// Nobody asks for one.
    NotAsked,
    /// A key that is trusted has signed it.
    Yes,
    /// Nobody may go by it, for this reason.
    No(String),
}

/// Judges a lock and its signatures, as far as they are there.
pub(crate) fn signed<'k>(
    lock: Option<&str>,
    signatures: Option<&str>,
    keys: &'k [Verifier],
) -> Result<Vec<&'k Verifier>, String> {
    let lock = lock.ok_or("there is no servers.lock")?;
    let signatures = signatures.ok_or("servers.lock is not signed: there is no servers.lock.sig")?;
    verify(lock, signatures, keys).map_err(|fault| match fault {
        NoteFault::Text => format!("servers.lock cannot be what was signed: {fault}"),
        NoteFault::Parts
        | NoteFault::Line(_)
        | NoteFault::TooMany
        | NoteFault::Unsigned
        | NoteFault::Forged(_)
        | NoteFault::Stranger(_) => format!("the signature of servers.lock does not count: {fault}"),
    })
}
