//! An output that was validated, published and recorded: the only thing that conditions, hooks, dependants and standard
//! output take.

use std::path::{Path, PathBuf};

use vocabulary::json::{Limits, Value};
use vocabulary::{Digest, ReceiptId, canonical};

use crate::config::{AgentName, Condition};
use crate::contract::Validated;
use crate::record::Recorded;
use crate::run_directory::RunDirectory;

/// Proof that an output may be seen. Nothing outside this crate makes one:
///
/// ```compile_fail,E0451
/// use portreeve_harness::{AgentName, Released, Validated};
/// fn forge(agent: AgentName, validated: Validated, receipt: vocabulary::ReceiptId) -> Released {
///     Released { agent, validated, path: "x".into(), receipt }
/// }
/// ```
///
/// and validated bytes alone do not show themselves:
///
/// ```compile_fail,E0624
/// fn leak(validated: &portreeve_harness::Validated) -> &[u8] {
///     validated.bytes()
/// }
/// ```
///
/// while a released output does:
///
/// ```
/// fn show(released: &portreeve_harness::Released) -> &[u8] {
///     released.bytes()
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Released {
    agent: AgentName,
    validated: Validated,
    path: PathBuf,
    receipt: ReceiptId,
}

/// An output in its place, not yet recorded. It becomes visible by the proof that its record stands:
///
/// ```
/// use portreeve_harness::{Published, Recorded, Released, RecordOfAnother};
/// fn release(published: Published, recorded: Recorded) -> Result<Released, RecordOfAnother> {
///     published.release(recorded)
/// }
/// ```
///
/// the name of a record, which anybody can make up, does not do:
///
/// ```compile_fail,E0308
/// use portreeve_harness::{Published, Released, RecordOfAnother};
/// fn release(published: Published, receipt: vocabulary::ReceiptId) -> Result<Released, RecordOfAnother> {
///     published.release(receipt)
/// }
/// ```
///
/// and one proof is good for one output:
///
/// ```compile_fail,E0382
/// use portreeve_harness::{Published, Recorded};
/// fn release(one: Published, other: Published, recorded: Recorded) {
///     let _ = one.release(recorded);
///     let _ = other.release(recorded);
/// }
/// ```
#[derive(Debug)]
pub struct Published {
    run: String,
    agent: AgentName,
    validated: Validated,
    path: PathBuf,
}

/// The record that was shown is about another output; nothing was released.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the record is about another output, so this one is not released")]
pub struct RecordOfAnother;

impl Published {
    /// Puts validated bytes into the run's directory.
    pub(crate) fn put(directory: &RunDirectory, agent: &AgentName, validated: Validated) -> std::io::Result<Self> {
        let path = directory.publish(agent.as_str(), &validated)?;
        Ok(Self {
            run: directory.run().to_owned(),
            agent: agent.clone(),
            validated,
            path,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn validated(&self) -> &Validated {
        &self.validated
    }

    /// Takes it back: what was not recorded was not published.
    pub(crate) fn withdraw(self) {
        let _ = std::fs::remove_file(&self.path);
    }

    /// Lets it go, now that its record stands.
    ///
    /// # Errors
    /// When the record is about another run, agent or output; what was published is withdrawn.
    pub fn release(self, recorded: Recorded) -> Result<Released, RecordOfAnother> {
        if !recorded.is_of(&self.run, self.agent.as_str(), self.validated.hash()) {
            self.withdraw();
            return Err(RecordOfAnother);
        }
        Ok(Released {
            agent: self.agent,
            validated: self.validated,
            path: self.path,
            receipt: recorded.receipt(),
        })
    }
}

/// What a condition came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lookup {
    /// The value is one of those named.
    Holds,
    /// It is another.
    Differs,
    /// There is nothing at the pointer.
    Missing,
}

impl Released {
    /// Whose it is.
    #[must_use]
    pub fn agent(&self) -> &AgentName {
        &self.agent
    }

    /// The bytes, as the agent wrote them.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.validated.bytes()
    }

    /// Their digest.
    #[must_use]
    pub fn hash(&self) -> Digest {
        self.validated.hash()
    }

    /// The digest of the schema they fit.
    #[must_use]
    pub fn schema(&self) -> Digest {
        self.validated.schema()
    }

    /// Where they lie.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The record of the result.
    #[must_use]
    pub fn receipt(&self) -> ReceiptId {
        self.receipt
    }

    /// Asks a condition of the output.
    #[must_use]
    pub fn decide(&self, condition: &Condition) -> Lookup {
        let limits = Limits {
            max_bytes: usize::MAX,
            max_depth: Limits::DEEPEST,
            max_string: usize::MAX,
            max_items: usize::MAX,
        };
        // Validated bytes are JSON; if they were not, nothing would be found in them.
        let value = Value::parse(self.bytes(), &limits).ok();
        let found = value.as_ref().and_then(|value| at(value, &condition.pointer));
        let Some(found) = found else { return Lookup::Missing };
        let mut spelled = Vec::new();
        canonical::write(found, &mut spelled);
        match condition.values.iter().any(|value| value.as_bytes() == spelled) {
            true => Lookup::Holds,
            false => Lookup::Differs,
        }
    }
}

/// The value at a JSON pointer (RFC 6901).
fn at<'v, 'a>(value: &'v Value<'a>, pointer: &str) -> Option<&'v Value<'a>> {
    pointer.split('/').skip(1).try_fold(value, |value, step| {
        let step = step.replace("~1", "/").replace("~0", "~");
        match value {
            Value::Object(_) => value.member(&step),
            Value::Array(items) => {
                let digits = step.bytes().all(|byte| byte.is_ascii_digit());
                let plain = digits && (step == "0" || !step.starts_with('0'));
                let index: usize = step.parse().ok().filter(|_| plain)?;
                items.get(index)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    })
}

#[cfg(test)]
mod tests;
