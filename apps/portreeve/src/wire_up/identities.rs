//! Notices servers that are other ones than those that had their names before, at every start and reload.

use policy::{InventoryEvent, InventoryStore as _, ServerFacts, StoredServer, meet};
use vocabulary::ServerId;

use super::plan;
use super::running::Running;

impl Running {
    /// Meets every configured server as it is now: records who took another's place, and keeps what that comes to. A server that
    /// is not started, because nobody stands for it, is not met.
    pub(super) async fn meet_servers(&self) -> anyhow::Result<()> {
        let _building = self.building.lock().await;
        let met = self.with_current(|current| {
            let launcher = self.launcher.get().map(|launcher| &**launcher);
            let is_barred = |id: &ServerId| {
                current
                    .config
                    .servers
                    .get(id)
                    .is_some_and(|server| server.barred.is_some())
            };
            let facts = plan::facts(&current.config.servers, launcher);
            let stored = facts.into_iter().filter(|facts| !is_barred(&facts.id));
            let stored = stored.filter_map(|facts| Some((current.stored.get(&facts.id)?.clone(), facts)));
            stored.filter_map(changed).collect::<Vec<_>>()
        });
        if met.is_empty() {
            return Ok(());
        }
        let events: Vec<InventoryEvent> = met.iter().filter_map(|(_, event)| event.clone()).collect();
        self.record(&events).await?;
        for (stored, _) in met {
            let (store, keep) = (self.store.clone(), stored.clone());
            tokio::task::spawn_blocking(move || store.save(&keep)).await??;
            self.with_current(|current| current.stored.insert(stored.id.clone(), stored));
        }
        self.rebuild();
        Ok(())
    }
}

/// What is to be kept of a server that was not met as this one before.
fn changed((mut stored, facts): (StoredServer, ServerFacts)) -> Option<(StoredServer, Option<InventoryEvent>)> {
    if stored.identity.as_ref() == Some(&facts.identity) {
        return None;
    }
    let event = meet(&mut stored, &facts);
    Some((stored, event))
}
