//! Stays with a running instance and ends it when it has used up what it may as a whole.

use std::sync::{Arc, Weak};

use super::Cage;
use crate::limits::Limit;
use crate::limits::count::{self, Sight};

/// Watches until the instance has ended or is dropped, whether or not anybody waits for it.
pub(super) fn watch(cage: &Arc<Cage>) {
    let mut ended = cage.process.ended();
    let cage = Arc::downgrade(cage);
    tokio::spawn(async move {
        tokio::select! {
            _ = ended.wait_for(Option::is_some) => {}
            Some(limit) = passed(&cage) => {
                if let Some(cage) = cage.upgrade() {
                    cage.end_for(limit);
                }
            }
        }
    });
}

/// The limit that the instance has passed, as soon as it has; `None` if it was dropped, and thus killed.
async fn passed(cage: &Weak<Cage>) -> Option<Limit> {
    let mut unseen = 0;
    loop {
        tokio::time::sleep(count::INTERVAL).await;
        let (root, allowed) = {
            let cage = cage.upgrade()?;
            if let Some(group) = &cage.group {
                if group.is_out_of_time() {
                    return Some(Limit::CpuSeconds);
                }
                continue;
            }
            (cage.process.id(), cage.memory)
        };
        // Reading `/proc` may take as long as the server likes to make it.
        let sight = tokio::task::spawn_blocking(move || count::look(root, allowed)).await;
        match sight.unwrap_or(Sight::Nobody) {
            Sight::Within => unseen = 0,
            Sight::Over => return Some(Limit::Memory),
            // It is about to be known to have ended; if not, nobody counts any more.
            Sight::Nobody if unseen < MOST_UNSEEN => unseen += 1,
            Sight::Nobody => return Some(Limit::Memory),
        }
    }
}

/// So many looks may show nobody.
const MOST_UNSEEN: u32 = 10;
