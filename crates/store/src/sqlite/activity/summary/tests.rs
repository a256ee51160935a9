//! A summary says what counting every record one by one says, however it was come by.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::json;
use vocabulary::{Timestamp, random_hex};

use super::*;
use crate::sqlite::activity::filter::Order;

struct Scene {
    folder: PathBuf,
    activity: Activity,
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A request as these tests know it.
#[derive(Clone)]
struct Asked {
    micros: i64,
    sub: &'static str,
    tool: Option<&'static str>,
    result: &'static str,
    outcome: &'static str,
    reasons: &'static [&'static str],
    count: u64,
    duration: u64,
}

impl Asked {
    fn line(&self, seq: usize) -> String {
        json!({
            "count": self.count,
            "decision": {"epoch": 1, "policy_id": "p", "policy_set": null, "reason_codes": self.reasons, "result": self.result},
            "mcp": {"method": if self.tool.is_some() { "tools/call" } else { "ping" }, "server_id": self.tool.map(|_| "files"),
                    "session": format!("sha256:{:064x}", seq % 3), "tool_name": self.tool},
            "outcome": {"duration_us": self.duration, "executed": true, "screening": [], "size_bytes_out": 1, "status": self.outcome},
            "phase": "final", "principal": {"run": null, "sub": self.sub}, "seq": seq,
            "ts": Timestamp::from_micros(self.micros).to_string(), "type": "request", "v": 1,
        })
        .to_string()
    }

    fn key(&self, by: Option<By>) -> String {
        match by {
            None => "*".to_owned(),
            Some(By::Principal) => self.sub.to_owned(),
            Some(By::Tool) => self.tool.map_or("-".to_owned(), |tool| format!("files/{tool}")),
            Some(By::Server) => self.tool.map_or("-", |_| "files").to_owned(),
            Some(By::Reason) => self.reasons.first().unwrap_or(&"-").to_string(),
            Some(By::Method) => self.tool.map_or("ping", |_| "tools/call").to_owned(),
        }
    }
}

/// A log of these, with an intent and an operator's act between them, which count for nothing.
fn log_of(asked: &[Asked]) -> Scene {
    let folder = std::env::temp_dir().join(format!("portreeve-summary-{}", random_hex(8).unwrap()));
    fs::create_dir_all(folder.join("ledger")).unwrap();
    let mut text = String::new();
    let mut seq = 0;
    for one in asked {
        seq += 1;
        text.push_str(&one.line(seq));
        text.push('\n');
    }
    if let Some(last) = asked.last() {
        let intent = last.line(seq + 1).replace("\"final\"", "\"intent\"");
        let act = json!({"action": "token.create", "actor": "admin", "result": "allow", "seq": seq + 2,
            "ts": Timestamp::from_micros(last.micros).to_string(), "type": "admin", "v": 1});
        text.push_str(&format!("{intent}\n{act}\n"));
    }
    fs::write(folder.join("ledger/00000001.jsonl"), text).unwrap();
    let activity = Activity::open(&folder).unwrap();
    Scene { folder, activity }
}

/// Many requests over some hours, unevenly.
fn many(number: usize) -> Vec<Asked> {
    let begin = 1_763_200_000_123_456_i64;
    let mut micros = begin;
    let mut dice = 7_u64;
    let mut roll = |sides: u64| {
        dice = dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % sides
    };
    (0..number)
        .map(|_| {
            micros += i64::try_from(roll(2_000_000)).unwrap();
            let tool = [Some("read"), Some("write"), None][roll(3) as usize];
            let (result, outcome, reasons): (_, _, &[&str]) = match roll(4) {
                0 => ("deny", "error", &["DENY_QUOTA", "DENY_RATE_LIMIT"]),
                1 => ("allow", "error", &["ALLOW_POLICY_MATCH", "ERROR_UPSTREAM"]),
                2 => ("require_approval", "error", &[]),
                _ => ("allow", "success", &["ALLOW_POLICY_MATCH"]),
            };
            let widest = 1 + roll(30);
            Asked {
                micros,
                sub: ["ann", "bob\"\\é"][roll(2) as usize],
                tool,
                result,
                outcome,
                reasons,
                count: 1 + roll(2) * roll(50),
                duration: roll(1 << widest),
            }
        })
        .collect()
}

/// The same summary, by counting.
fn counted(asked: &[Asked], arrangement: Arrangement) -> Vec<SummaryLine> {
    let mut lines: BTreeMap<(Option<i64>, String), (Vec<u64>, SummaryLine)> = BTreeMap::new();
    for one in asked {
        let length = arrangement
            .bucket_minutes
            .map(|minutes| i64::from(minutes) * 60_000_000);
        let bucket = length.map(|length| one.micros / length * length);
        let key = one.key(arrangement.by);
        let (times, line) = lines.entry((bucket, key.clone())).or_insert_with(|| {
            let bucket = bucket.map(Timestamp::from_micros);
            let none = SummaryLine {
                bucket,
                key,
                calls: 0,
                allowed: 0,
                denied: 0,
                errors: 0,
                pending: 0,
                p50_us: None,
                p99_us: None,
            };
            (Vec::new(), none)
        });
        line.calls += one.count;
        match (one.result, one.outcome) {
            ("deny", _) => line.denied += one.count,
            ("require_approval", _) => line.pending += one.count,
            (_, "error") => line.errors += one.count,
            _ => line.allowed += one.count,
        }
        times.push(one.duration);
    }
    let finish = |(mut times, mut line): (Vec<u64>, SummaryLine)| {
        times.sort_unstable();
        let at = |percent: usize| times.get((times.len() * percent).div_ceil(100).max(1) - 1).copied();
        (line.p50_us, line.p99_us) = (at(50), at(99));
        line
    };
    lines.into_values().map(finish).collect()
}

fn arrangements() -> Vec<Arrangement> {
    let by = [
        None,
        Some(By::Principal),
        Some(By::Tool),
        Some(By::Server),
        Some(By::Reason),
        Some(By::Method),
    ];
    let buckets = [None, Some(60), Some(7), Some(1440)];
    by.iter()
        .flat_map(|by| {
            buckets.map(|bucket_minutes| Arrangement {
                by: *by,
                bucket_minutes,
            })
        })
        .collect()
}

#[test]
fn a_few_records_are_summed_up_exactly() {
    let asked = many(500);
    let scene = log_of(&asked);
    for arrangement in arrangements() {
        let summary = scene.activity.summary(&Filter::default(), arrangement).unwrap();
        assert_eq!(summary, counted(&asked, arrangement), "{arrangement:?}");
    }
}

#[test]
fn many_records_are_summed_up_by_what_was_counted_of_them() {
    let asked = many(10_100);
    let scene = log_of(&asked);
    let (since, until) = (asked[37].micros, asked[10_090].micros);
    let within: Vec<Asked> = asked
        .iter()
        .filter(|one| (since..=until).contains(&one.micros))
        .cloned()
        .collect();
    let filter = Filter {
        since: Some(Timestamp::from_micros(since)),
        until: Some(Timestamp::from_micros(until)),
        ..Filter::default()
    };
    for arrangement in arrangements() {
        for (filter, asked) in [(&Filter::default(), &asked), (&filter, &within)] {
            let mut summary = scene.activity.summary(filter, arrangement).unwrap();
            let expected = counted(asked, arrangement);
            for (line, expected) in summary.iter_mut().zip(&expected) {
                for (told, exact) in [(&mut line.p50_us, expected.p50_us), (&mut line.p99_us, expected.p99_us)] {
                    let (time, exact_time) = (told.unwrap(), exact.unwrap());
                    assert!(
                        time.abs_diff(exact_time) <= exact_time / 128 + 1,
                        "{time} for {exact_time}"
                    );
                    *told = exact;
                }
            }
            assert_eq!(summary, expected, "{arrangement:?}");
        }
    }
}

#[test]
fn a_summary_is_narrowed_as_a_listing_is() {
    let asked = many(10_050);
    let scene = log_of(&asked);
    let calls = |filter: Filter| -> u64 {
        let summary = scene.activity.summary(&filter, Arrangement::default()).unwrap();
        summary.iter().map(|line| line.calls).sum()
    };
    let of = |chosen: &dyn Fn(&Asked) -> bool| asked.iter().filter(|one| chosen(one)).map(|one| one.count).sum::<u64>();
    let text = |text: &str| Some(text.to_owned());
    let any = Filter::default;
    let session = format!("sha256:{:064x}", 1);
    assert_eq!(
        calls(Filter {
            principal: text("ann"),
            ..any()
        }),
        of(&|one| one.sub == "ann")
    );
    assert_eq!(
        calls(Filter {
            tool: text("read"),
            ..any()
        }),
        of(&|one| one.tool == Some("read"))
    );
    assert_eq!(
        calls(Filter {
            server: text("files"),
            ..any()
        }),
        of(&|one| one.tool.is_some())
    );
    assert_eq!(
        calls(Filter {
            status: Some(Status::Denied),
            ..any()
        }),
        of(&|one| one.result == "deny")
    );
    let of_session: u64 = (1..)
        .zip(&asked)
        .filter(|(seq, _)| seq % 3 == 1)
        .map(|(_, one)| one.count)
        .sum();
    assert_eq!(
        calls(Filter {
            session: Some(session),
            ..any()
        }),
        of_session
    );
    assert_eq!(
        calls(Filter {
            kind: Some(RecordType::Admin),
            ..any()
        }),
        0
    );
    assert_eq!(
        calls(Filter {
            principal: text("nobody"),
            ..any()
        }),
        0
    );
    assert_eq!(
        calls(Filter {
            since: Some(Timestamp::from_micros(i64::MAX - 1)),
            ..any()
        }),
        0
    );
}

#[test]
fn nothing_comes_to_nothing_and_a_log_taken_in_again_to_the_same() {
    let empty = log_of(&[]);
    assert_eq!(
        empty
            .activity
            .summary(&Filter::default(), Arrangement::default())
            .unwrap(),
        []
    );
    let asked = many(10_010);
    let scene = log_of(&asked);
    let by_tool = Arrangement {
        by: Some(By::Tool),
        bucket_minutes: Some(60),
    };
    let before = scene.activity.summary(&Filter::default(), by_tool).unwrap();
    assert_eq!(scene.activity.reindex().unwrap(), 10_012);
    assert_eq!(scene.activity.summary(&Filter::default(), by_tool).unwrap(), before);
    let newest = Filter {
        limit: 1,
        order: Order::NewestFirst,
        ..Filter::default()
    };
    assert_eq!(scene.activity.list(&newest).unwrap()[0].seq, 10_012);
}

#[test]
fn rare_records_are_found_among_many_in_either_direction() {
    let mut asked = many(9_000);
    for rare in [5, 4_095, 4_096, 8_500] {
        asked[rare].sub = "rare";
        asked[rare].tool = Some(if rare == 5 { "once" } else { "read" });
    }
    let scene = log_of(&asked);
    let seqs = |filter: Filter| -> Vec<u64> {
        scene
            .activity
            .list(&filter)
            .unwrap()
            .iter()
            .map(|line| line.seq)
            .collect()
    };
    let rare = Filter {
        principal: Some("rare".to_owned()),
        ..Filter::default()
    };
    assert_eq!(seqs(rare.clone()), [8_501, 4_097, 4_096, 6]);
    assert_eq!(
        seqs(Filter {
            order: Order::OldestFirst,
            limit: 2,
            ..rare.clone()
        }),
        [6, 4_096]
    );
    assert_eq!(
        seqs(Filter {
            after_seq: Some(6),
            order: Order::OldestFirst,
            ..rare.clone()
        }),
        [4_096, 4_097, 8_501]
    );
    assert_eq!(
        seqs(Filter {
            before_seq: Some(4_096),
            ..rare.clone()
        }),
        [6]
    );
    assert_eq!(
        seqs(Filter {
            tool: Some("once".to_owned()),
            ..rare.clone()
        }),
        [6]
    );
    assert_eq!(
        seqs(Filter {
            kind: Some(RecordType::Admin),
            ..rare.clone()
        }),
        [0; 0]
    );
    let since = Timestamp::from_micros(asked[4_096].micros);
    assert_eq!(
        seqs(Filter {
            since: Some(since),
            ..rare.clone()
        }),
        [8_501, 4_097]
    );
    assert_eq!(
        seqs(Filter {
            until: Some(since),
            ..rare
        }),
        [4_097, 4_096, 6]
    );
}
