//! What ends by itself: approvals whose time is over, and those that are about something that is not what it was.

use std::sync::Weak;
use std::time::Duration;

use control::ports::PortError;
use policy::{Approval, ApprovalState, ApprovalStore as _, PolicySnapshot, Standing};
use vocabulary::Timestamp;

use super::{ApprovalDesk, Inner, Trouble};

/// What ended is kept for so long, and so is what was approved last.
const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The longest pause between two looks.
const PAUSE: Duration = Duration::from_secs(60);
/// After a look that failed.
const SHORT_PAUSE: Duration = Duration::from_secs(2);

impl ApprovalDesk {
    /// Where an approval is over, though nobody said so yet.
    pub(super) fn overtaken(&self, approval: &Approval, now: Timestamp) -> Option<ApprovalState> {
        if !approval.state.is_open() {
            return None;
        }
        if approval.state_at(now) == ApprovalState::Expired {
            return Some(ApprovalState::Expired);
        }
        if self.0.voided.get().is_some_and(|voided| voided(approval)) {
            return Some(ApprovalState::Void);
        }
        let in_force = self.0.in_force.get()?()?;
        (!is_still_there(approval, &in_force)).then_some(ApprovalState::Void)
    }

    /// Something may have changed what approvals are about.
    pub(crate) fn look_again(&self) {
        self.0.bell.notify_one();
    }

    /// Ends what is over, again and again, for as long as there is a gateway.
    pub(crate) fn keep_sweeping(&self) {
        let inner = std::sync::Arc::downgrade(&self.0);
        tokio::spawn(async move {
            while let Some(pause) = look(&inner).await {
                let Some(desk) = inner.upgrade().map(ApprovalDesk) else {
                    return;
                };
                let _ = tokio::time::timeout(pause, desk.0.bell.notified()).await;
            }
        });
    }

    /// Ends what is over; gives the time until the next one is.
    pub(super) async fn sweep(&self) -> Result<Duration, Trouble> {
        let _turn = self.0.turn.lock().await;
        let now = self.0.clock.now();
        let long_ago = Timestamp::from_micros(now.as_micros() - i64::try_from(KEPT.as_micros()).unwrap_or(i64::MAX));
        let open = self
            .keep(move |inner| {
                inner.store.forget_approvals(long_ago).map_err(PortError::new)?;
                inner.store.open_approvals().map_err(PortError::new)
            })
            .await?;
        let mut pause = PAUSE;
        for approval in open {
            match self.overtaken(&approval, now) {
                Some(state) => self.end(&approval, state).await?,
                None => {
                    let left = approval.expires.as_micros().saturating_sub(now.as_micros());
                    pause = pause.min(Duration::from_micros(u64::try_from(left).unwrap_or(0)));
                }
            }
        }
        Ok(pause)
    }
}

/// `None` once nobody needs it any more.
async fn look(inner: &Weak<Inner>) -> Option<Duration> {
    let desk = ApprovalDesk(inner.upgrade()?);
    Some(desk.sweep().await.unwrap_or_else(|trouble| {
        tracing::error!(
            error = &trouble as &dyn std::error::Error,
            "approvals that are over could not be ended"
        );
        SHORT_PAUSE
    }))
}

/// Whether the tool is there as it was looked at, under the policies that asked.
fn is_still_there(approval: &Approval, in_force: &PolicySnapshot) -> bool {
    let plan = &approval.plan;
    let known = in_force.inventory().tool(&plan.server, plan.tool.as_str());
    let is_same = |tool: &std::sync::Arc<policy::ToolEntry>| {
        tool.definition_hash == plan.definition_hash && tool.standing == Standing::Approved
    };
    in_force.policy_set() == plan.policy_set && known.iter().any(is_same)
}
