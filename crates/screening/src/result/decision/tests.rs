//! A message is released against the records of exactly its own decisions.

use std::path::PathBuf;

use ledger::{Ledger, ScreeningMode, ScreeningStage, Settings};
use tokio::runtime::Builder;
use vocabulary::random_hex;

use super::super::Said;
use super::super::guard::Seen;
use super::*;

/// A log in a directory that goes away with the test.
pub(crate) struct Log {
    ledger: Ledger,
    folder: PathBuf,
}

impl Log {
    pub(crate) fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("portreeve-screening-{}", random_hex(8).unwrap()));
        std::fs::create_dir_all(&folder).unwrap();
        let (ledger, _) = Ledger::open(&folder, Settings::new("gw/test")).unwrap();
        Self { ledger, folder }
    }

    pub(crate) fn record(&self, decisions: Vec<Decision>) -> Vec<Recorded<Decision>> {
        let subject = ScreeningSubject {
            receipt_id: None,
            principal: None,
            session: None,
            server_id: "srv".to_owned(),
            tool_name: None,
        };
        let runtime = Builder::new_current_thread().build().unwrap();
        let record = |decision| runtime.block_on(self.ledger.record(decision, subject.clone())).unwrap();
        decisions.into_iter().map(record).collect()
    }

    /// Records what was decided, and releases the message.
    pub(crate) fn release(&self, mut screening: Screening) -> Result<ScreenedResult, Withheld> {
        let recorded = self.record(screening.take_decisions());
        screening.release(recorded)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.ledger.shutdown();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn screening(acts: &[ScreeningAct]) -> Screening {
    let seen = Seen {
        is_error: false,
        result_type: Said::Nothing,
    };
    let result = ScreenedResult::new(bytes::Bytes::from_static(b"{}"), seen, Vec::new());
    let judgement = |act: &ScreeningAct| {
        Judgement::new(
            *act,
            ScreeningStage::Detection,
            ScreeningMode::Redact,
            "said".to_owned(),
        )
    };
    Screening::new(Ok(result), acts.iter().map(judgement).collect())
}

const TWO: [ScreeningAct; 2] = [ScreeningAct::Stripped, ScreeningAct::Redacted];

fn code(released: Result<ScreenedResult, Withheld>) -> Option<ReasonCode> {
    released.err().map(|withheld| withheld.code)
}

#[test]
fn exactly_its_own_decisions_on_record_release_a_message() {
    let log = Log::new();
    let released = log.release(screening(&TWO)).unwrap();
    assert_eq!(released.acts(), [ScreeningAct::Redacted, ScreeningAct::Stripped]);
    assert_eq!(log.ledger.last_seq(), 2);
}

#[test]
fn a_clean_message_needs_no_record_and_takes_none() {
    let log = Log::new();
    assert!(screening(&[]).is_clean() && !screening(&TWO).is_clean());
    assert_eq!(screening(&[]).release(Vec::new()).unwrap().acts(), []);
    let others = log.record(screening(&TWO).take_decisions());
    assert_eq!(
        code(screening(&[]).release(others)),
        Some(ReasonCode::DenyReceiptUnavailable)
    );
}

#[test]
fn without_a_record_of_every_decision_nothing_is_released() {
    let log = Log::new();
    let refused = Some(ReasonCode::DenyReceiptUnavailable);
    assert_eq!(code(screening(&TWO).release(Vec::new())), refused);
    let mut one = screening(&TWO);
    let mut decisions = one.take_decisions();
    decisions.pop();
    assert_eq!(code(one.release(log.record(decisions))), refused);
}

#[test]
fn the_records_of_another_message_release_nothing() {
    let log = Log::new();
    let refused = Some(ReasonCode::DenyReceiptUnavailable);
    let others = log.record(screening(&TWO).take_decisions());
    assert_eq!(code(screening(&TWO).release(others)), refused, "as many, and equal");
    let (mut one, mut other) = (screening(&TWO), screening(&TWO));
    let mut mixed = log.record(one.take_decisions());
    let foreign = log.record(other.take_decisions());
    mixed.extend(foreign);
    assert_eq!(code(one.release(mixed)), refused, "its own, and more");
}
