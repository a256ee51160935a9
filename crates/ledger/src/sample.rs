//! Endings and places to write them to, for the unit tests.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use vocabulary::canonical::Spelling;
use vocabulary::{
    ActorType, Authn, Digest, Era, Principal, ReasonCode, ReceiptId, Risk, ServerScope, TraceId, Trust, random_hex,
};

use crate::{
    Arrival, CredentialFacts, DecisionFacts, Ending, Intent, MessageFacts, Outcome, ScreeningAct, Status, TokenMode,
    TokenSource, Verdict,
};

pub(crate) fn arrival() -> Arrival {
    Arrival {
        receipt_id: ReceiptId::mint(),
        trace_id: TraceId::mint(),
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        size_bytes_in: 512,
        began: Instant::now(),
    }
}

pub(crate) fn principal() -> Arc<Principal> {
    Arc::new(Principal {
        sub: "al\"ice\\\u{7}\u{e9}".to_owned(),
        actor_type: ActorType::Agent,
        client_id: Some("client-1".to_owned()),
        org_id: None,
        issuer: "https://idp.example".to_owned(),
        authn: Authn::Jwt,
        act: vec!["bob".to_owned(), "carol".to_owned()],
        run: None,
        groups: ["readers".to_owned()].into(),
        claims: [].into(),
        servers: ServerScope::Every,
    })
}

pub(crate) fn message(risk: Risk) -> MessageFacts {
    MessageFacts {
        method: "tools/call".to_owned(),
        server_id: Some("files".to_owned()),
        tool_name: Some("write_file".to_owned()),
        trust: Some(Trust::Community),
        risk: Some(risk),
        risk_rule: None,
        definition_hash: Some(Digest::of(b"definition")),
        era: Some(Era::Legacy),
        session: Some(Digest::of(b"session")),
        args_hash: Some(Digest::of(b"{}")),
        args_canon: Some(Spelling::Jcs),
        args_ref: None,
        walls: None,
    }
}

pub(crate) fn decision(result: Verdict, code: ReasonCode) -> DecisionFacts {
    DecisionFacts {
        result,
        policy_id: "writers".into(),
        reason_codes: vec![code],
        policy_set: Some(Digest::of(b"policies")),
        epoch: 17,
        approval: None,
    }
}

pub(crate) fn refused(code: ReasonCode) -> Ending {
    Ending::Refused {
        who: principal(),
        message: message(Risk::Low),
        decision: decision(Verdict::Deny, code),
    }
}

pub(crate) fn called(risk: Risk, status: Status, executed: Option<bool>) -> Ending {
    Ending::Called {
        who: principal(),
        message: message(risk),
        decision: decision(Verdict::Allow, ReasonCode::AllowPolicyMatch),
        credential: CredentialFacts {
            mode: TokenMode::Vault,
            source: TokenSource::Reference,
            audience: Some("https://api.example".to_owned()),
            audience_verified: Some(true),
        },
        outcome: Outcome {
            status,
            executed,
            screening: vec![ScreeningAct::Redacted, ScreeningAct::Stripped],
        },
    }
}

pub(crate) fn answered() -> Ending {
    let list = MessageFacts {
        method: "tools/list".to_owned(),
        server_id: Some("*".to_owned()),
        era: Some(Era::Modern),
        ..MessageFacts::default()
    };
    Ending::Answered {
        who: principal(),
        message: list,
        decision: decision(Verdict::Allow, ReasonCode::AllowBuiltin),
        catalog: Some(Digest::of(b"[]")),
    }
}

pub(crate) fn intent(risk: Risk) -> Intent {
    Intent {
        who: principal(),
        message: message(risk),
        decision: decision(Verdict::Allow, ReasonCode::AllowPolicyMatch),
    }
}

/// A directory that goes away with the test; in memory where there is such a place.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let root = if memory.is_dir() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        let path = root.join(format!("portreeve-ledger-{}", random_hex(8).unwrap()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
