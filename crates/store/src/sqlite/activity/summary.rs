//! What the requests in the log come to, by caller, tool, server, reason or method. A few are looked at one by one; of
//! many, whole hours and minutes come from what was counted when they were indexed.
//! ADR 0088: what is exact, and what is within one part in 128.

use std::collections::BTreeMap;

use rusqlite::types::Value;
use rusqlite::{OptionalExtension, Row};
use vocabulary::{Timestamp, words};

use super::filter::{Filter, RecordType, Status};
use super::read::Facts;
use super::times::first_seq;
use super::{Activity, StoreFault, read_place};

mod latency;
mod measured;
pub(super) mod rollup;

use latency::Latency;
use measured::{Group, Measured};

const MINUTE: i64 = 60_000_000;
const HOUR: i64 = 60 * MINUTE;
/// So many records are looked at one by one, and their percentiles are exact.
const FEW: i64 = 10_000;
/// Places whose lines are read at once.
const CHUNK: usize = 1_024;

words! {
    /// What a summary has a line for each of.
    pub enum By {
        /// The caller's `sub`.
        Principal = "principal",
        /// `server/tool`.
        Tool = "tool",
        /// The server's id.
        Server = "server",
        /// The first reason code.
        Reason = "reason",
        /// The MCP method.
        Method = "method",
    }
}

/// How a summary is made up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Arrangement {
    /// A line for each of these; without it one line for all, under the key `*`.
    pub by: Option<By>,
    /// Whole minutes: lines are made for each stretch of this length, in UTC.
    pub bucket_minutes: Option<u32>,
}

/// What the requests under one key came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SummaryLine {
    /// When its stretch of time begins.
    pub bucket: Option<Timestamp>,
    /// Whose it is; `-` where a record names none.
    pub key: String,
    /// All requests: the sum of the others.
    pub calls: u64,
    /// Allowed, and did not fail.
    pub allowed: u64,
    /// Refused.
    pub denied: u64,
    /// Allowed, and failed.
    pub errors: u64,
    /// Waiting for a person.
    pub pending: u64,
    /// Half of them took no longer.
    pub p50_us: Option<u64>,
    /// All but one in a hundred took no longer.
    pub p99_us: Option<u64>,
}

impl Activity {
    /// What the requests that pass the filter come to, sorted by time and key, after catching up. The filter's limit and order do
    /// not matter.
    ///
    /// # Errors
    /// When the index or the ledger cannot be read.
    pub fn summary(&self, filter: &Filter, arrangement: Arrangement) -> Result<Vec<SummaryLine>, StoreFault> {
        self.catch_up_if_possible();
        let mut totals = Totals {
            arrangement,
            lines: BTreeMap::new(),
        };
        if matches!(filter.kind, None | Some(RecordType::Request)) {
            self.fill(filter, &mut totals)?;
        }
        Ok(totals.finish())
    }

    fn fill(&self, filter: &Filter, totals: &mut Totals) -> Result<(), StoreFault> {
        let Some((first, last)) = self.ends()? else {
            return Ok(());
        };
        let from = filter.since.map_or(first, |since| since.as_micros().max(first));
        let to = filter.until.map_or(last, |until| until.as_micros().min(last)) + 1;
        let narrow = filter.session.is_some()
            || filter.run.is_some()
            || filter.after_seq.is_some()
            || filter.before_seq.is_some();
        if narrow || self.span_of(from, to)? <= FEW {
            return self.scan(filter, (from, to), totals);
        }
        let whole_hours = totals
            .arrangement
            .bucket_minutes
            .is_none_or(|minutes| minutes % 60 == 0);
        let (minutes, hours) = stretches((from, to), whole_hours);
        self.scan(filter, (from, minutes.0), totals)?;
        self.scan(filter, (minutes.1, to), totals)?;
        self.counted(filter, HOUR, hours, totals)?;
        self.counted(filter, MINUTE, (minutes.0, hours.0), totals)?;
        self.counted(filter, MINUTE, (hours.1, minutes.1), totals)
    }

    /// The times of the first record and the last.
    fn ends(&self) -> Result<Option<(i64, i64)>, StoreFault> {
        let connection = self.connection();
        let end = |order: &str| {
            let query = format!("SELECT ts FROM records ORDER BY seq {order} LIMIT 1");
            connection.query_row(&query, [], |row| row.get(0)).optional()
        };
        Ok(end("ASC")?.zip(end("DESC")?))
    }

    /// How many places of the log lie in this stretch of time.
    fn span_of(&self, from: i64, to: i64) -> Result<i64, StoreFault> {
        let connection = self.connection();
        Ok(first_seq(&connection, to)? - first_seq(&connection, from)?)
    }

    /// Looks at the records of a stretch of time one by one.
    fn scan(&self, filter: &Filter, (from, to): (i64, i64), totals: &mut Totals) -> Result<(), StoreFault> {
        if from >= to {
            return Ok(());
        }
        let within = Filter {
            kind: Some(RecordType::Request),
            since: Some(Timestamp::from_micros(from)),
            until: Some(Timestamp::from_micros(to - 1)),
            ..filter.clone()
        };
        let places = {
            let connection = self.connection();
            let (condition, values) = within.condition(&connection)?;
            let query = format!("SELECT seq, segment, offset, length FROM records {condition} ORDER BY seq");
            let mut statement = connection.prepare_cached(&query)?;
            let rows = statement.query_map(rusqlite::params_from_iter(values), read_place)?;
            rows.collect::<Result<Vec<_>, _>>()?
        };
        for places in places.chunks(CHUNK) {
            for line in self.read(places.iter().copied())? {
                let facts = Facts::read(&line.bytes);
                if let Some(measured) = facts.and_then(|facts| Measured::read(&facts, &line.bytes)) {
                    let mut latency = Latency::default();
                    measured.duration.into_iter().for_each(|micros| latency.add(micros, 1));
                    totals.add(measured.micros, &measured.group, measured.calls, &latency);
                }
            }
        }
        Ok(())
    }

    /// Takes what was counted of a stretch of time when it was indexed.
    fn counted(
        &self,
        filter: &Filter,
        length: i64,
        (from, to): (i64, i64),
        totals: &mut Totals,
    ) -> Result<(), StoreFault> {
        let text = |text: &Option<String>| text.clone().map(Value::Text);
        let named = [
            ("server = ?", text(&filter.server)),
            ("tool = ?", text(&filter.tool)),
            ("principal = ?", text(&filter.principal)),
            ("status = ?", filter.status.map(|status| Value::Integer(status.code()))),
        ];
        let mut query = "SELECT start, principal, server, tool, method, reason, status, calls, latency FROM rollup
             WHERE length = ? AND start >= ? AND start < ?"
            .to_owned();
        let mut values = vec![Value::Integer(length), Value::Integer(from), Value::Integer(to)];
        for (condition, value) in named {
            if let Some(value) = value {
                query.push_str(" AND ");
                query.push_str(condition);
                values.push(value);
            }
        }
        let connection = self.connection();
        let mut statement = connection.prepare_cached(&query)?;
        let mut rows = statement.query(rusqlite::params_from_iter(values))?;
        while let Some(row) = rows.next()? {
            let latency = Latency::from_bytes(row.get_ref(8)?.as_blob().unwrap_or(&[0])).ok_or(rollup::DAMAGED)?;
            let calls: i64 = row.get(7)?;
            totals.add(row.get(0)?, &group(row)?, calls.unsigned_abs(), &latency);
        }
        Ok(())
    }
}

fn group(row: &Row<'_>) -> rusqlite::Result<Group> {
    Ok(Group {
        principal: row.get(1)?,
        server: row.get(2)?,
        tool: row.get(3)?,
        method: row.get(4)?,
        reason: row.get(5)?,
        status: row.get(6)?,
    })
}

/// The whole minutes of a stretch of time, and the whole hours in them. What is before and behind either is left.
fn stretches((from, to): (i64, i64), whole_hours: bool) -> ((i64, i64), (i64, i64)) {
    let whole = |(from, to): (i64, i64), length: i64| {
        let begin = from.div_euclid(length) * length;
        let begin = if begin < from { begin + length } else { begin };
        (begin, (to.div_euclid(length) * length).max(begin))
    };
    let minutes = whole((from, to), MINUTE);
    // A stretch within one minute has none; all of it is before.
    let minutes = (minutes.0.min(to), minutes.1.min(to).max(minutes.0.min(to)));
    let hours = whole(minutes, HOUR);
    if whole_hours && hours.1 > hours.0 {
        (minutes, hours)
    } else {
        (minutes, (minutes.1, minutes.1))
    }
}

/// What has been counted so far.
struct Totals {
    arrangement: Arrangement,
    lines: BTreeMap<(Option<i64>, String), Total>,
}

#[derive(Default)]
struct Total {
    calls: u64,
    allowed: u64,
    denied: u64,
    errors: u64,
    pending: u64,
    latency: Latency,
}

impl Totals {
    fn add(&mut self, micros: i64, group: &Group, calls: u64, latency: &Latency) {
        let bucket = self.arrangement.bucket_minutes.map(|minutes| {
            let length = i64::from(minutes.max(1)) * MINUTE;
            micros.div_euclid(length) * length
        });
        let total = self.lines.entry((bucket, key(self.arrangement.by, group))).or_default();
        total.calls += calls;
        let status = Status::ALL.into_iter().find(|status| status.code() == group.status);
        match status {
            Some(Status::Allowed) => total.allowed += calls,
            Some(Status::Denied) => total.denied += calls,
            Some(Status::Error) => total.errors += calls,
            Some(Status::Pending) => total.pending += calls,
            Some(Status::Blocked | Status::Warning | Status::Redacted | Status::Stripped) | None => {}
        }
        total.latency.merge(latency);
    }

    fn finish(self) -> Vec<SummaryLine> {
        let line = |((bucket, key), total): ((Option<i64>, String), Total)| SummaryLine {
            bucket: bucket.map(Timestamp::from_micros),
            key,
            calls: total.calls,
            allowed: total.allowed,
            denied: total.denied,
            errors: total.errors,
            pending: total.pending,
            p50_us: total.latency.percentile(50),
            p99_us: total.latency.percentile(99),
        };
        self.lines.into_iter().map(line).collect()
    }
}

fn key(by: Option<By>, group: &Group) -> String {
    let named = |name: &str| {
        if name.is_empty() {
            "-".to_owned()
        } else {
            name.to_owned()
        }
    };
    match by {
        None => "*".to_owned(),
        Some(By::Principal) => named(&group.principal),
        Some(By::Tool) if group.tool.is_empty() => "-".to_owned(),
        Some(By::Tool) => format!("{}/{}", named(&group.server), group.tool),
        Some(By::Server) => named(&group.server),
        Some(By::Reason) => named(&group.reason),
        Some(By::Method) => named(&group.method),
    }
}

#[cfg(test)]
mod tests;
