//! What was not recorded is not released.

use std::sync::Mutex;

use ledger::{Event, HarnessOutput, HarnessResult, HarnessSubject, RunReason, RunStatus};
use screening::result::strip::Classes;
use vocabulary::lock;

use super::*;
use crate::contract::{Contract, Secrets};
use crate::intake::RawOutput;
use crate::ports::{Later, Recorder, Unavailable};
use crate::record::record_result;

/// Keeps the receipts of what it wrote, or writes nothing.
enum Log {
    Writes(Mutex<Vec<ReceiptId>>),
    Fails,
}

impl Recorder for Log {
    fn record(&self, event: Event) -> Later<'_, Result<(), Unavailable>> {
        let done = match (self, event) {
            (Self::Writes(written), Event::HarnessResult(result)) => {
                lock(written).push(result.subject.receipt_id);
                Ok(())
            }
            (Self::Writes(_) | Self::Fails, _) => Err(Unavailable::new("no record", "the disk is full")),
        };
        Box::pin(std::future::ready(done))
    }
}

fn validated(document: &str) -> Validated {
    let schema = br#"{"type":"object"}"#;
    let contract = Contract::compile(schema, (4096, 8), Classes::default(), Secrets::Off).unwrap();
    contract
        .validate(&RawOutput::new(document.as_bytes().to_vec()))
        .0
        .unwrap()
}

fn result_of(run: &str, agent: &str, output: Option<&Validated>) -> HarnessResult {
    let hash = Digest::of(b"");
    HarnessResult {
        subject: HarnessSubject {
            receipt_id: ReceiptId::mint(),
            run: run.to_owned(),
            pipeline: None,
            agent: agent.to_owned(),
        },
        status: RunStatus::Ok,
        reason: RunReason::Valid,
        class: None,
        attempts: 1,
        config_hash: hash,
        schema_hash: hash,
        prompt_hash: hash,
        output: output.map(|output| HarnessOutput {
            bytes: output.size(),
            hash: output.hash(),
        }),
        inputs: Vec::new(),
        duration_us: 0,
        usage: None,
        walls: None,
    }
}

#[tokio::test]
async fn a_record_releases_the_output_it_is_about_and_no_other() {
    let home = tempfile::tempdir().unwrap();
    let directory = RunDirectory::make(home.path(), "run_1").unwrap();
    let (agent, ours) = (AgentName::parse("judge").unwrap(), validated("{\"a\":1}"));
    let log = Log::Writes(Mutex::default());
    let of_others = [
        result_of("run_2", "judge", Some(&ours)),
        result_of("run_1", "other", Some(&ours)),
        result_of("run_1", "judge", Some(&validated("{\"a\":2}"))),
        result_of("run_1", "judge", None),
    ];
    for result in of_others {
        let published = Published::put(&directory, &agent, ours.clone()).unwrap();
        let path = published.path().to_owned();
        let recorded = record_result(&log, result).await.unwrap();
        assert_eq!(published.release(recorded).err(), Some(RecordOfAnother));
        assert!(!path.exists());
    }
    let published = Published::put(&directory, &agent, ours.clone()).unwrap();
    let recorded = record_result(&log, result_of("run_1", "judge", Some(&ours)))
        .await
        .unwrap();
    let released = published.release(recorded).unwrap();
    let Log::Writes(written) = log else { unreachable!() };
    assert_eq!(released.bytes(), b"{\"a\":1}");
    assert!(released.path().exists());
    assert_eq!(Some(&released.receipt()), lock(&written).last());
    let asked = |pointer: &str, value: &str| {
        released.decide(&Condition {
            from: agent.clone(),
            pointer: pointer.to_owned(),
            values: vec!["null".to_owned(), value.to_owned()],
        })
    };
    assert_eq!(asked("/a", "1"), Lookup::Holds);
    assert_eq!(asked("/a", "2"), Lookup::Differs);
    assert_eq!(asked("/b", "1"), Lookup::Missing);
}

#[test]
fn a_pointer_leads_as_its_standard_says() {
    let limits = Limits {
        max_bytes: 1_000,
        max_depth: 9,
        max_string: 100,
        max_items: 100,
    };
    let items = (0..12).map(|item| item.to_string()).collect::<Vec<_>>().join(",");
    let text = format!(r#"{{"list":[{items}],"a/b":{{"~":"tilde"}},"":"empty"}}"#);
    let value = Value::parse(text.as_bytes(), &limits).unwrap();
    let found = |pointer: &str| at(&value, pointer).map(|found| format!("{found:?}"));
    for (pointer, item) in [("/list/0", "0"), ("/list/1", "1"), ("/list/10", "10")] {
        assert_eq!(found(pointer), Some(format!("{:?}", Value::Number(item))), "{pointer}");
    }
    assert_eq!(found("/a~1b/~0"), Some(format!("{:?}", Value::String("tilde".into()))));
    assert_eq!(found("/"), Some(format!("{:?}", Value::String("empty".into()))));
    assert_eq!(found(""), Some(format!("{value:?}")));
    for nowhere in [
        "/list/00",
        "/list/01",
        "/list/12",
        "/list/-",
        "/list/+1",
        "/none",
        "/list/0/0",
    ] {
        assert_eq!(found(nowhere), None, "{nowhere}");
    }
}

#[tokio::test]
async fn a_record_that_was_not_written_proves_nothing() {
    let result = result_of("run_1", "judge", Some(&validated("{}")));
    assert!(record_result(&Log::Fails, result).await.is_err());
}
