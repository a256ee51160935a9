//! Tells a webhook that a call waits: which, and where to look. It is told nothing else, and what it answers is not listened to:
//! nobody approves anything that way.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::{Semaphore, mpsc};

use super::ApprovalDesk;
use crate::config::Webhook;

/// So many wait to be told; more are not.
const QUEUE: usize = 1000;
/// So many are told at a time.
const AT_ONCE: usize = 8;
/// How long one is given.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often one is tried, and the pause after the first failure; the next is four times as long.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);

impl ApprovalDesk {
    /// From now on the webhook, where there is one, is told of what begins to wait; `admin` is where to look.
    pub(crate) fn tell(&self, admin: String) -> anyhow::Result<()> {
        let client = crate::reach::client().timeout(PATIENCE).build()?;
        let (sender, mut waiting) = mpsc::channel::<String>(QUEUE);
        let _ = self.0.told.set(sender);
        let (desk, room) = (self.clone(), Arc::new(Semaphore::new(AT_ONCE)));
        tokio::spawn(async move {
            while let Some(id) = waiting.recv().await {
                let Some(webhook) = desk.settings().webhook else {
                    continue;
                };
                let Ok(room) = room.clone().acquire_owned().await else {
                    return;
                };
                let (client, link) = (client.clone(), format!("{admin}/api/v1/approvals/{id}"));
                tokio::spawn(async move {
                    post(&client, &webhook, &id, &link).await;
                    drop(room);
                });
            }
        });
        Ok(())
    }

    /// Does not wait for anybody.
    pub(super) fn announce(&self, id: &str) {
        if self.settings().webhook.is_none() {
            return;
        }
        if let Some(sender) = self.0.told.get()
            && sender.try_send(id.to_owned()).is_err()
        {
            tracing::warn!(id, "the webhook does not keep up, so it is not told of an approval");
        }
    }
}

async fn post(client: &reqwest::Client, webhook: &Webhook, id: &str, link: &str) {
    let body = json!({ "id": id, "link": link }).to_string();
    let signature = format!("sha256={}", webhook.secret.hmac_sha256(body.as_bytes()));
    let mut pause = PAUSE;
    for attempt in 1..=ATTEMPTS {
        let request = client.post(&webhook.url).header("content-type", "application/json");
        let request = request.header("x-portreeve-signature", &signature).body(body.clone());
        match request.send().await.map(|response| response.status()) {
            Ok(status) if status.is_success() => return,
            Ok(status) => tracing::warn!(id, attempt, status = status.as_u16(), "the webhook refused an approval"),
            // The address may hold a secret, so the error is told without it.
            Err(error) => {
                let error = error.without_url();
                tracing::warn!(
                    id,
                    attempt,
                    error = &error as &dyn std::error::Error,
                    "the webhook could not be told of an approval"
                );
            }
        }
        if attempt < ATTEMPTS {
            tokio::time::sleep(pause).await;
            pause *= 4;
        }
    }
}
