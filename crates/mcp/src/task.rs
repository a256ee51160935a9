//! What a server says of a task, in either era's spelling: read where a task is seen through on
//! behalf of a client that knows of none.

use std::time::Duration;

use bytes::Bytes;

use crate::capabilities::TASKS_EXTENSION;
use crate::envelope::text_of;
use crate::error_code::ErrorCode;
use crate::members::{Members, is_object};
use crate::server::Nonsense;
use crate::span::DEEPEST;
use crate::splice::Splice;
use vocabulary::Era;

/// `_meta` key by which messages of the legacy era say which task they belong to.
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
/// The longest id of a task that we carry, in bytes.
const LONGEST_ID: usize = 1024;

vocabulary::words! {
    /// How far a task is.
    pub enum TaskStatus {
        /// Under way.
        Working = "working",
        /// Waits for the client.
        InputRequired = "input_required",
        /// Ended with a result.
        Completed = "completed",
        /// Ended with an error.
        Failed = "failed",
        /// Ended before it was done.
        Cancelled = "cancelled",
    }
}

/// What a server says of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskState {
    /// The server's id of it.
    pub id: String,
    /// How far it is.
    pub status: TaskStatus,
    /// How long the server wants to be left alone before it is asked again.
    pub poll_after: Option<Duration>,
}

impl TaskState {
    /// Reads a raw task: the members are those of the era.
    ///
    /// # Errors
    /// When it is none, or in a state that the protocol does not know.
    pub fn read(task: &[u8], era: Era) -> Result<Self, Nonsense> {
        let members = Members::read(task, DEEPEST).map_err(|_| Nonsense::Incomplete)?;
        let text = |name| members.get(name).and_then(text_of);
        let id = text("taskId").filter(|id| !id.is_empty() && id.len() <= LONGEST_ID);
        let status = text("status").and_then(|status| TaskStatus::parse(&status));
        let interval = match era {
            Era::Legacy => "pollInterval",
            Era::Modern => "pollIntervalMs",
        };
        Ok(Self {
            id: id.ok_or(Nonsense::Incomplete)?.into_owned(),
            status: status.ok_or(Nonsense::Incomplete)?,
            poll_after: members.get(interval).and_then(milliseconds),
        })
    }

    /// The task that a legacy server made of a call; `None` where it answered at once.
    ///
    /// # Errors
    /// When there is one and it cannot be read.
    pub fn begun(result: &[u8]) -> Result<Option<Self>, Nonsense> {
        let members = Members::read(result, DEEPEST).map_err(|_| Nonsense::Incomplete)?;
        let task = members.get("task");
        task.map(|task| Self::read(task, Era::Legacy)).transpose()
    }
}

fn milliseconds(raw: &[u8]) -> Option<Duration> {
    let number: f64 = serde_json::from_slice(raw).ok()?;
    Duration::try_from_secs_f64(number / 1000.0).ok()
}

/// Whether a tool's raw definition says that it only runs as a task of the legacy era.
#[must_use]
pub fn is_required(definition: &[u8]) -> bool {
    let inside = |raw: &[u8]| -> Option<bool> {
        let members = Members::read(raw, DEEPEST).ok()?;
        let execution = Members::read(members.get("execution")?, DEEPEST).ok()?;
        Some(text_of(execution.get("taskSupport")?)? == "required")
    };
    inside(definition).unwrap_or_default()
}

/// Whether an error says that the client has to declare the tasks extension (−32021).
#[must_use]
pub fn wants_extension(error: &[u8]) -> bool {
    let inside = |raw: &[u8]| -> Option<bool> {
        let error = Members::read(raw, DEEPEST).ok()?;
        let data = Members::read(error.get("data")?, DEEPEST).ok()?;
        let required = Members::read(data.get("requiredCapabilities")?, DEEPEST).ok()?;
        let extensions = Members::read(required.get("extensions")?, DEEPEST).ok()?;
        Some(
            error.get("code")? == ErrorCode::MissingCapability.as_str().as_bytes()
                && extensions.get(TASKS_EXTENSION).is_some(),
        )
    };
    inside(error).unwrap_or_default()
}

/// The capabilities of a client with the tasks extension declared among them.
#[must_use]
pub fn with_extension(capabilities: &Bytes) -> Bytes {
    let declared = format!("{{\"{TASKS_EXTENSION}\":{{}}}}").into_bytes();
    let Ok(mut splice) = Splice::new(capabilities) else {
        return [b"{\"extensions\":", declared.as_slice(), b"}"].concat().into();
    };
    match splice.raw("extensions").filter(|raw| is_object(raw)) {
        Some(extensions) => {
            let extensions = Bytes::copy_from_slice(extensions);
            if let Ok(mut inner) = Splice::new(&extensions) {
                inner.insert_if_absent(TASKS_EXTENSION, b"{}".as_slice());
                splice.replace_or_insert("extensions", inner.finish().to_vec());
            }
        }
        None => splice.replace_or_insert("extensions", declared),
    }
    splice.finish()
}

/// Params or a result of a legacy server without the task they belong to: the client knows of none.
#[must_use]
pub fn unrelated(raw: &Bytes) -> Bytes {
    let Ok(mut splice) = Splice::new(raw) else {
        return raw.clone();
    };
    splice.meta_remove(RELATED_TASK);
    splice.finish()
}

/// A client's answer to a question that belonged to a task: it says so, as the server wants it to.
#[must_use]
pub fn related_as(question: &[u8], answer: &Bytes) -> Bytes {
    let question = Bytes::copy_from_slice(question);
    let asked = Splice::new(&question).ok();
    let task = asked.as_ref().and_then(|asked| asked.meta_raw(RELATED_TASK));
    match (task, Splice::new(answer)) {
        (Some(task), Ok(mut splice)) => {
            splice.meta_replace_or_insert(RELATED_TASK, task);
            splice.finish()
        }
        _ => answer.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_read_as_its_era_spells_it() {
        let legacy = br#"{"taskId":"a\u0062","status":"working","pollInterval":1500,"pollIntervalMs":9,"ttl":null}"#;
        let state = TaskState::read(legacy, Era::Legacy).expect("a task");
        assert_eq!((state.id.as_str(), state.status), ("ab", TaskStatus::Working));
        assert_eq!(state.poll_after, Some(Duration::from_millis(1500)));
        let modern = TaskState::read(legacy, Era::Modern).expect("a task");
        assert_eq!(modern.poll_after, Some(Duration::from_millis(9)));
        for wrong in [
            r#"{"taskId":"a"}"#,
            r#"{"taskId":"","status":"working"}"#,
            r#"{"taskId":7,"status":"working"}"#,
            r#"{"taskId":"a","status":"done"}"#,
            r#"{"taskId":"a","taskId":"b","status":"working"}"#,
            "[]",
        ] {
            assert!(TaskState::read(wrong.as_bytes(), Era::Legacy).is_err(), "{wrong}");
        }
        for odd in ["-1", "1e999", "\"5\"", "null"] {
            let task = format!(r#"{{"taskId":"a","status":"working","pollInterval":{odd}}}"#);
            let state = TaskState::read(task.as_bytes(), Era::Legacy).expect("a task");
            assert_eq!(state.poll_after, None, "{odd}");
        }
    }

    #[test]
    fn an_answer_at_once_is_no_task_and_half_a_task_is_nonsense() {
        assert_eq!(TaskState::begun(br#"{"content":[]}"#), Ok(None));
        assert!(TaskState::begun(br#"{"task":{"taskId":"a","status":"completed"}}"#).is_ok_and(|task| task.is_some()));
        assert!(TaskState::begun(br#"{"task":{}}"#).is_err());
        assert!(TaskState::begun(br#"{"task":null}"#).is_err());
    }

    #[test]
    fn only_the_definition_itself_says_that_a_task_is_required() {
        assert!(is_required(br#"{"name":"a","execution":{"taskSupport":"required"}}"#));
        for other in [
            r#"{"name":"a"}"#,
            r#"{"execution":{"taskSupport":"optional"}}"#,
            r#"{"execution":{"taskSupport":true}}"#,
            r#"{"inputSchema":{"execution":{"taskSupport":"required"}}}"#,
            r#"{"execution":"required"}"#,
        ] {
            assert!(!is_required(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn an_error_wants_the_extension_only_if_it_says_so() {
        let error = |code: i64, extension: &str| {
            format!(
                r#"{{"code":{code},"message":"m","data":{{"requiredCapabilities":{{"extensions":{{"{extension}":{{}}}}}}}}}}"#
            )
        };
        assert!(wants_extension(error(-32021, TASKS_EXTENSION).as_bytes()));
        assert!(!wants_extension(error(-32602, TASKS_EXTENSION).as_bytes()));
        assert!(!wants_extension(error(-32021, "other").as_bytes()));
        assert!(!wants_extension(br#"{"code":-32021,"message":"m"}"#));
    }

    #[test]
    fn the_extension_is_declared_beside_what_was() {
        for (before, after) in [
            ("{}", r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#),
            (
                r#"{"roots":{},"extensions":{"x/y":{}}}"#,
                r#"{"roots":{},"extensions":{"x/y":{},"io.modelcontextprotocol/tasks":{}}}"#,
            ),
            (
                r#"{"extensions":{"io.modelcontextprotocol/tasks":{"a":1}}}"#,
                r#"{"extensions":{"io.modelcontextprotocol/tasks":{"a":1}}}"#,
            ),
        ] {
            let declared = with_extension(&Bytes::copy_from_slice(before.as_bytes()));
            assert_eq!(declared, after, "{before}");
        }
    }

    #[test]
    fn what_belongs_to_a_task_is_told_apart_and_answered_as_such() {
        let question =
            Bytes::from_static(br#"{"m":1,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}"#);
        assert!(!String::from_utf8_lossy(&unrelated(&question)).contains("taskId"));
        let plain = Bytes::from_static(br#"{"m":1e2}"#);
        assert_eq!(unrelated(&plain), plain);
        let answer = related_as(&question, &plain);
        assert_eq!(
            answer,
            r#"{"m":1e2,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}"#
        );
        assert_eq!(related_as(&plain, &plain), plain);
    }
}
