//! Which records are listed.

use rusqlite::types::Value;
use vocabulary::{Digest, Timestamp};

/// What a listing asks for; what is `None` does not narrow it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filter {
    /// The record's type.
    pub kind: Option<RecordType>,
    /// What came of it.
    pub status: Option<Status>,
    /// The server's id.
    pub server: Option<String>,
    /// The tool's name.
    pub tool: Option<String>,
    /// The caller's `sub`, or who did it.
    pub principal: Option<String>,
    /// A session id, or its digest as records have it.
    pub session: Option<String>,
    /// The harness run.
    pub run: Option<String>,
    /// Not before this time.
    pub since: Option<Timestamp>,
    /// Not after this time.
    pub until: Option<Timestamp>,
    /// Only records after this place in the log.
    pub after_seq: Option<u64>,
    /// Only records before this place in the log.
    pub before_seq: Option<u64>,
    /// At most this many; never more than [`Filter::MOST`].
    pub limit: usize,
    /// Which come first.
    pub order: Order,
}

impl Filter {
    /// The most records one listing gives.
    pub const MOST: usize = 100_000;
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            kind: None,
            status: None,
            server: None,
            tool: None,
            principal: None,
            session: None,
            run: None,
            since: None,
            until: None,
            after_seq: None,
            before_seq: None,
            limit: 50,
            order: Order::NewestFirst,
        }
    }
}

/// Which records come first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// For listings.
    NewestFirst,
    /// For following the log.
    OldestFirst,
}

macro_rules! names {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident $text:literal,)* }) => {
        vocabulary::words! {
            $(#[$doc])*
            pub enum $name {
                $($(#[$variant_doc])* $variant = $text,)*
            }
        }

        impl $name {
            /// Reads one by its name as it stands in a line.
            pub(super) fn spelled(name: &[u8]) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.as_str().as_bytes() == name)
            }

            /// What stands for it in the index. It is the place in the list above: a new one goes to the end, or the
            /// index is made anew by a migration.
            pub(super) fn code(self) -> i64 {
                self as i64
            }
        }
    };
}

names! {
    /// The types of records in the log.
    RecordType {
        /// A request: its receipt, or its intent.
        Request "request",
        /// What screening decided.
        PolicyDecision "policy_decision",
        /// A connection out of a sandbox.
        Egress "egress",
        /// A step of an approval.
        Approval "approval",
        /// A step of an incident.
        Incident "incident",
        /// A change of the inventory.
        Inventory "inventory",
        /// One attempt of a harness run.
        HarnessAttempt "harness_attempt",
        /// The end of a harness run.
        HarnessResult "harness_result",
        /// What an operator did or was refused.
        Admin "admin",
    }
}

names! {
    /// What came of something. Of a request `denied` and `pending` come from its decision, `error` from the outcome
    /// of an allowed one.
    Status {
        /// It was allowed, and did not fail.
        Allowed "allowed",
        /// It was refused.
        Denied "denied",
        /// Screening held a result back.
        Blocked "blocked",
        /// Screening found something and let it pass.
        Warning "warning",
        /// Screening took something out.
        Redacted "redacted",
        /// Screening took characters out.
        Stripped "stripped",
        /// It waits for a person.
        Pending "pending",
        /// It was allowed and failed.
        Error "error",
    }
}

impl Filter {
    /// The `WHERE` clause and its values, the limit last.
    pub(super) fn condition(&self) -> (String, Vec<Value>) {
        let session = self.session.as_deref().map(|session| match Digest::parse(session) {
            Some(_) => session.to_owned(),
            None => Digest::of(session.as_bytes()).to_string(),
        });
        let text = |text: Option<&str>| text.map(|text| Value::Text(text.to_owned()));
        let code = |code: Option<i64>| code.map(Value::Integer);
        let number = |number: Option<u64>| number.map(|number| Value::Integer(number.try_into().unwrap_or(i64::MAX)));
        let time = |time: Option<Timestamp>| time.map(|time| Value::Integer(time.as_micros()));
        let parts = [
            ("type = ?", code(self.kind.map(RecordType::code))),
            ("status = ?", code(self.status.map(Status::code))),
            ("server = ?", text(self.server.as_deref())),
            ("tool = ?", text(self.tool.as_deref())),
            ("principal = ?", text(self.principal.as_deref())),
            ("session = ?", text(session.as_deref())),
            ("run = ?", text(self.run.as_deref())),
            ("ts >= ?", time(self.since)),
            ("ts <= ?", time(self.until)),
            ("seq > ?", number(self.after_seq)),
            ("seq < ?", number(self.before_seq)),
        ];
        let (conditions, mut values): (Vec<&str>, Vec<Value>) = parts
            .into_iter()
            .filter_map(|(condition, value)| value.map(|value| (condition, value)))
            .unzip();
        values.push(Value::Integer(
            self.limit.min(Self::MOST).try_into().unwrap_or(i64::MAX),
        ));
        let clause = if conditions.is_empty() {
            String::new()
        } else {
            format!("WHERE {}", conditions.join(" AND "))
        };
        (clause, values)
    }
}
