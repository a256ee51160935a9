//! Secrets in what is about to leave: recorded or refused, as the operator says.

use ledger::{Event, Judgement, MessageFacts, ScreeningAct, ScreeningDecision, ScreeningMode, ScreeningStage, Verdict};
use screening::arguments::secrets::{counted, secrets};
use screening::detect::Excuse;
use screening::result::FindingNote;
use vocabulary::ReasonCode;

use crate::context::Ended;
use crate::outcome::Case;
use crate::reply::{ErrorData, Prepared};
use crate::screen::finding;
use crate::snapshot::ArgumentSecrets;

impl Case<'_> {
    /// Looks through arguments or params that were checked.
    pub(crate) async fn look_for_secrets(&self, raw: Option<&[u8]>, facts: &MessageFacts) -> Result<(), Box<Ended>> {
        let (detector, act) = match &self.snapshot.arguments {
            ArgumentSecrets::Pass => return Ok(()),
            ArgumentSecrets::Warn(detector) => (detector, ScreeningAct::Warning),
            ArgumentSecrets::Block(detector) => (detector, ScreeningAct::Blocked),
        };
        let excuse = Excuse {
            server: facts.server_id.as_deref().unwrap_or_default(),
            tool: self.tool_called(facts),
        };
        let found = secrets(raw.unwrap_or(b"{}"), detector, &excuse);
        if found.is_empty() {
            return Ok(());
        }
        let event = Event::Screening(Box::new(self.about_arguments(&found, facts, act)));
        if self.gateway.ledger.append_event(event).await.is_err() {
            return Err(self.unrecordable(facts));
        }
        match act {
            ScreeningAct::Blocked => Err(self.holds_secrets(&found, facts)),
            ScreeningAct::Warning | ScreeningAct::Redacted | ScreeningAct::Stripped => Ok(()),
        }
    }

    /// The tool that is called; a prompt or a resource of the same name is none.
    fn tool_called<'f>(&self, facts: &'f MessageFacts) -> &'f str {
        let called = facts
            .tool_name
            .as_deref()
            .filter(|_| self.asked.method == mcp::Method::ToolsCall);
        called.unwrap_or_default()
    }

    fn about_arguments(&self, found: &[FindingNote], facts: &MessageFacts, act: ScreeningAct) -> ScreeningDecision {
        let counts = counted(found);
        let (mode, message) = match act {
            ScreeningAct::Blocked => (
                ScreeningMode::Block,
                format!("the call was refused: its arguments hold {counts}"),
            ),
            ScreeningAct::Warning | ScreeningAct::Redacted | ScreeningAct::Stripped => {
                (ScreeningMode::Warn, format!("arguments left with {counts}"))
            }
        };
        let judgement = Judgement {
            findings: found.iter().map(ledger::FindingNote::from).collect(),
            ..Judgement::new(act, ScreeningStage::Arguments, mode, message)
        };
        let server_id = facts.server_id.clone().unwrap_or_default();
        ScreeningDecision::about(subject(self.asked, server_id, facts.tool_name.clone()), judgement)
    }

    /// Tells a model which field, and nothing of what stands there.
    fn holds_secrets(&self, found: &[FindingNote], facts: &MessageFacts) -> Box<Ended> {
        let code = ReasonCode::DenySecretInArguments;
        let place = found.first().map_or("/", |finding| finding.place.as_str());
        let message = format!(
            "the arguments hold what looks like a secret ({}) at {}; leave it out",
            counted(found),
            mcp::method::recordable(place),
        );
        let note = ErrorData::denied(code);
        let reply = if self.asked.method == mcp::Method::ToolsCall {
            Prepared::error_result(self.id.clone(), self.asked.client.era(), message, note)
        } else {
            Prepared::refusal(Some(self.id.clone()), mcp::ErrorCode::InvalidParams, message, note)
        };
        let decision = self.verdict(Verdict::Deny, "builtin:preflight".into(), vec![code]);
        self.ended_refused(facts, decision, reply)
    }
}
