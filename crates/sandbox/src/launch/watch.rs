//! Stays with a running instance and ends it when it has used up what it may as a whole.

use std::sync::{Arc, Weak};

use super::Cage;
use crate::limits::{INTERVAL, Limit, Observer, Sight};

/// Watches until the instance has ended or is dropped, whether or not anybody waits for it.
pub(super) fn watch(cage: &Arc<Cage>, observer: Observer) {
    let mut ended = cage.process.ended();
    let cage = Arc::downgrade(cage);
    tokio::spawn(async move {
        tokio::select! {
            _ = ended.wait_for(Option::is_some) => {}
            Some(limit) = passed(&cage, observer) => {
                if let Some(cage) = cage.upgrade() {
                    cage.end_for(limit);
                }
            }
        }
    });
}

/// The limit that the instance has passed, as soon as it has; `None` if it was dropped, and thus killed.
async fn passed(cage: &Weak<Cage>, mut observer: Observer) -> Option<Limit> {
    let mut unseen = 0;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let is_out_of_time = cage
            .upgrade()?
            .group
            .as_ref()
            .is_some_and(|group| group.is_out_of_time());
        if is_out_of_time {
            return Some(Limit::CpuSeconds);
        }
        let looked = tokio::task::spawn_blocking(move || (observer.look(), observer)).await;
        // Without anybody who looks nobody counts.
        let Ok((sight, looked)) = looked else {
            return Some(Limit::Memory);
        };
        observer = looked;
        match sight {
            Sight::Within => unseen = 0,
            Sight::Passed(limit) => return Some(limit),
            // It is about to be known to have ended; if not, nobody counts any more.
            Sight::Nobody if unseen < MOST_UNSEEN => unseen += 1,
            Sight::Nobody => return Some(Limit::Memory),
        }
    }
}

/// So many looks may show nobody.
const MOST_UNSEEN: u32 = 10;
