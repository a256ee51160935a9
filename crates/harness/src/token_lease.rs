//! What stands for a token while a run uses it. A run that is cut off leaves its lease, and the next run takes the token
//! back; one whose time is over has ended by itself.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use vocabulary::{Clock, Timestamp};

use crate::ports::{IssuedToken, TokenIssuer, TokenRequest, Unavailable};
use crate::regular::{self, Links};

/// A token that is in use. Its name stands in a file, locked for as long as its run goes on.
#[derive(Debug)]
pub(crate) struct TokenLease {
    token: IssuedToken,
    path: PathBuf,
    _held: File,
}

/// Why there is no lease, and no token in use either.
pub(crate) enum LeaseFailure {
    /// No token was issued.
    Refused(Unavailable),
    /// It could not be written down, so the token was revoked.
    Disk(io::Error),
}

impl TokenLease {
    /// Has a token issued and writes down that it is in use.
    pub(crate) async fn take(
        state: &Path,
        issuer: &dyn TokenIssuer,
        request: TokenRequest,
    ) -> Result<Self, LeaseFailure> {
        let (name, lasts) = (format!("{}-{}", request.run, request.sub), request.lasts);
        let token = issuer.issue(request).await.map_err(LeaseFailure::Refused)?;
        match write(&folder_of(state), &name, &token.id, lasts) {
            Ok((path, held)) => Ok(Self {
                token,
                path,
                _held: held,
            }),
            Err(error) => {
                // If this fails too, the token ends by itself with the run's time.
                let _ = issuer.revoke(token.id).await;
                Err(LeaseFailure::Disk(error))
            }
        }
    }

    /// The token.
    pub(crate) fn token(&self) -> &IssuedToken {
        &self.token
    }

    /// Revokes the token. One that cannot be revoked is left to the next run, and ends by itself with this one's time.
    pub(crate) async fn end(self, issuer: &dyn TokenIssuer) -> Result<(), Unavailable> {
        issuer.revoke(self.token.id).await?;
        let _ = fs::remove_file(&self.path);
        Ok(())
    }
}

/// Writes down that the token `id` is in use, for `lasts`.
fn write(folder: &Path, name: &str, id: &str, lasts: Duration) -> io::Result<(PathBuf, File)> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let path = folder.join(name);
    let mut held = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    flock(&held, FlockOperation::NonBlockingLockExclusive)?;
    let until = Clock::system().now().plus(lasts).as_micros();
    held.write_all(format!("{until} {id}\n").as_bytes())?;
    held.sync_all()?;
    Ok((path, held))
}

/// Takes back the tokens of runs that were cut off. One that cannot be taken back now is tried again by the next run.
pub(crate) async fn take_back(state: &Path, issuer: &dyn TokenIssuer) {
    let entries = fs::read_dir(folder_of(state)).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()).take(MOST) {
        let Some((_held, until, id)) = left(&path) else {
            continue;
        };
        let over = Clock::system().now() >= until;
        if over || issuer.revoke(id).await.is_ok() {
            let _ = fs::remove_file(&path);
        }
    }
}

/// A lease that nobody holds.
fn left(path: &Path) -> Option<(File, Timestamp, String)> {
    let held = regular::open(path, Links::Refuse).ok()?;
    flock(&held, FlockOperation::NonBlockingLockExclusive).ok()?;
    let text = String::from_utf8(regular::read(path, Links::Refuse, LARGEST).ok()??).ok()?;
    let told = text
        .trim_end()
        .split_once(' ')
        .and_then(|(until, id)| Some((until.parse().ok()?, id)));
    // Cut off while it was written: nobody knows the name.
    let (until, id) = told.unwrap_or((0, ""));
    Some((held, Timestamp::from_micros(until), id.to_owned()))
}

fn folder_of(state: &Path) -> PathBuf {
    state.join("harness").join("tokens")
}

const MOST: usize = 64;
const LARGEST: u64 = 1 << 10;
