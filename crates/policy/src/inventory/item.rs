//! What a server offers beside its tools, as the gateway knows it: the raw definition, its pin, and whether it may be used.

use std::sync::Arc;

use vocabulary::{Digest, Trust};

use super::ServerFacts;
use super::entry::{QuarantineCause, Standing};
use super::pin::StoredServer;
use super::word::{ItemId, ItemKind, Word};

/// Something in the inventory that is no tool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ItemEntry {
    /// Server, kind and name.
    pub id: ItemId,
    /// How far the operator trusts the server.
    pub trust: Trust,
    /// The definition as the server sent it; of instructions the text.
    pub definition: Arc<[u8]>,
    /// Its digest: of a definition's canonical form, of a text's bytes.
    pub definition_hash: Digest,
    /// Whether it may be seen and used.
    pub standing: Standing,
    /// The digest that was approved.
    pub approved: Option<Digest>,
    /// What was approved before this was seen, where it was kept and is another.
    pub before: Option<Arc<[u8]>>,
    /// What operators said of it while the gateway ran.
    pub word: Word,
}

/// What the pin and the operator's word come to.
pub(super) fn standing(seen: Digest, approved: Option<Digest>, trust: Trust, word: &Word) -> Standing {
    match (approved, trust) {
        _ if word.disabled.is_some() => Standing::Disabled,
        (Some(approved), _) if approved == seen => Standing::Approved,
        (Some(approved), _) => Standing::Quarantined(QuarantineCause::Changed { approved }),
        (None, Trust::Unknown) => Standing::Quarantined(QuarantineCause::FirstSight),
        (None, Trust::Internal | Trust::Verified | Trust::Community) => Standing::Quarantined(QuarantineCause::NewTool),
    }
}

/// The instructions of a server, if it has some.
pub(super) fn instructions(facts: &ServerFacts, stored: &StoredServer) -> Option<ItemEntry> {
    let pinned = &stored.instructions;
    let text = pinned.seen.as_deref()?;
    let seen = Digest::of(text.as_bytes());
    let word = stored.word(ItemKind::Instructions, "").cloned().unwrap_or_default();
    let before = pinned.approved_text.as_deref().map(str::as_bytes);
    let own = standing(seen, pinned.approved, facts.trust, &word);
    Some(ItemEntry {
        id: ItemId {
            server: facts.id.clone(),
            kind: ItemKind::Instructions,
            name: "".into(),
        },
        trust: facts.trust,
        definition: text.as_bytes().into(),
        definition_hash: seen,
        standing: stored.as_this_server(facts, (ItemKind::Instructions, "", seen), own),
        approved: pinned.approved,
        before: before
            .filter(|text| pinned.approved == Some(Digest::of(text)))
            .map(Arc::from),
        word,
    })
}
