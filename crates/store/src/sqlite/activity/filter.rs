//! Which records are listed.

use rusqlite::Connection;
use rusqlite::types::Value;
use vocabulary::{Digest, Timestamp};

use super::StoreFault;
use super::times::first_seq;

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
    /// The `WHERE` clause and its values. Times become places in the log: it is in the order of time.
    pub(super) fn condition(&self, connection: &Connection) -> Result<(String, Vec<Value>), StoreFault> {
        let text = |text: Option<&str>| text.map(|text| Value::Text(text.to_owned()));
        let code = |code: Option<i64>| code.map(Value::Integer);
        let number = |number: Option<u64>| number.map(|number| Value::Integer(number.try_into().unwrap_or(i64::MAX)));
        let place = |micros: Option<i64>| {
            let seq = micros.map(|micros| first_seq(connection, micros)).transpose()?;
            Ok::<_, StoreFault>(seq.map(Value::Integer))
        };
        let parts = [
            ("type = ?", code(self.kind.map(RecordType::code))),
            ("status = ?", code(self.status.map(Status::code))),
            ("server = ?", text(self.server.as_deref())),
            ("tool = ?", text(self.tool.as_deref())),
            ("principal = ?", text(self.principal.as_deref())),
            ("session = ?", text(self.session_digest().as_deref())),
            ("run = ?", text(self.run.as_deref())),
            ("seq >= ?", place(self.since.map(Timestamp::as_micros))?),
            (
                "seq < ?",
                place(self.until.map(|until| until.as_micros().saturating_add(1)))?,
            ),
            ("seq > ?", number(self.after_seq)),
            ("seq < ?", number(self.before_seq)),
        ];
        let (conditions, values): (Vec<&str>, Vec<Value>) = parts
            .into_iter()
            .filter_map(|(condition, value)| value.map(|value| (condition, value)))
            .unzip();
        let clause = if conditions.is_empty() {
            "WHERE TRUE".to_owned()
        } else {
            format!("WHERE {}", conditions.join(" AND "))
        };
        Ok((clause, values))
    }

    /// What records must say, in the order in which [`super::blocks`] has the kinds of facts.
    pub(super) fn values(&self) -> [Option<Vec<u8>>; 7] {
        let code = |code: Option<i64>| code.map(|code| code.to_be_bytes().to_vec());
        let text = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
        [
            code(self.kind.map(RecordType::code)),
            code(self.status.map(Status::code)),
            text(self.server.as_deref()),
            text(self.tool.as_deref()),
            text(self.principal.as_deref()),
            text(self.session_digest().as_deref()),
            text(self.run.as_deref()),
        ]
    }

    fn session_digest(&self) -> Option<String> {
        self.session.as_deref().map(|session| match Digest::parse(session) {
            Some(_) => session.to_owned(),
            None => Digest::of(session.as_bytes()).to_string(),
        })
    }
}
