//! The ledger: what one record costs when many requests end at once, and when one does.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use ledger::{
    Arrival, CredentialFacts, DecisionFacts, Ending, Ledger, MessageFacts, Outcome, Settings, Status, TokenMode,
    TokenSource, Verdict,
};
use vocabulary::canonical::Spelling;
use vocabulary::{Digest, Era, Principal, ReasonCode, ReceiptId, Risk, TraceId, Trust};

use crate::stopwatch::{Figure, spent_by_process};
use crate::town;

const ROUNDS: usize = 7;
const RECORDS: usize = 20_000;

/// Measures records of low risk under the default durability: CPU of the whole process, the
/// appender's thread and the commits to disk included.
pub(crate) fn measure(only: &str) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (stage, at_once, records) in [
        ("record, 32 requests at once", 32, RECORDS),
        ("record, one request at a time", 1, RECORDS / 4),
    ] {
        if !stage.contains(only) {
            continue;
        }
        let folder = Folder::new()?;
        let (ledger, _) = Ledger::open(&folder.0, Settings::new("bench/portreeve"))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let who = town::agent("regular");
        let mut rounds = Vec::new();
        let began = Instant::now();
        for _ in 0..ROUNDS {
            let before = spent_by_process();
            runtime.block_on(append(&ledger, &who, at_once, records))?;
            rounds.push(spent_by_process().saturating_sub(before).as_secs_f64() * 1e6 / records as f64);
        }
        let per_second = (ROUNDS * records) as f64 / began.elapsed().as_secs_f64();
        ledger.shutdown();
        figures.push(Figure::from_rounds(&format!("{stage} ({per_second:.0}/s)"), rounds));
    }
    Ok(figures)
}

async fn append(ledger: &Ledger, who: &Arc<Principal>, at_once: usize, records: usize) -> Result<()> {
    let mut at_work = Vec::new();
    for _ in 0..at_once {
        let (ledger, who) = (ledger.clone(), who.clone());
        at_work.push(tokio::spawn(async move {
            for _ in 0..records / at_once {
                let _receipt = ledger.append(&arrival(), called(who.clone()), 1_100).await?;
            }
            anyhow::Ok(())
        }));
    }
    for worker in at_work {
        worker.await??;
    }
    Ok(())
}

fn arrival() -> Arrival {
    Arrival {
        receipt_id: ReceiptId::mint(),
        trace_id: TraceId::mint(),
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        size_bytes_in: 200,
        began: Instant::now(),
    }
}

fn called(who: Arc<Principal>) -> Ending {
    let message = MessageFacts {
        method: "tools/call".to_owned(),
        server_id: Some("server-3".to_owned()),
        tool_name: Some("tool-17".to_owned()),
        trust: Some(Trust::Internal),
        risk: Some(Risk::Low),
        risk_rule: None,
        definition_hash: Some(Digest::of(b"definition")),
        era: Some(Era::Legacy),
        session: Some(Digest::of(b"session")),
        args_hash: Some(Digest::of(b"arguments")),
        args_canon: Some(Spelling::Jcs),
        args_ref: None,
        walls: None,
    };
    let decision = DecisionFacts {
        result: Verdict::Allow,
        policy_id: "tool-167".into(),
        reason_codes: vec![ReasonCode::AllowPolicyMatch],
        policy_set: Some(Digest::of(b"policies")),
        epoch: 1,
        approval: None,
    };
    let credential = CredentialFacts {
        mode: TokenMode::None,
        source: TokenSource::None,
        audience: None,
        audience_verified: None,
    };
    let outcome = Outcome {
        status: Status::Success,
        executed: Some(true),
        screening: Vec::new(),
    };
    Ending::Called {
        who,
        message,
        decision,
        credential,
        outcome,
    }
}

/// A directory that is gone when it is no longer needed.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("portreeve-micro-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
