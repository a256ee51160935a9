//! What a server was seen to offer, before it is pinned: without what only we may write, and with a note of what a person is to look
//! at first and of what is not even kept.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use policy::{Discovery, ItemsSeen, Shown};
use screening::definition::{holds_secret, is_doubtful, is_doubtful_text, unforged};
use screening::detect::Detector;
use vocabulary::Digest;

/// What was seen without what only we may write, and which definitions held some of it. What is pinned is what agents
/// are shown: a server that changes nothing else changes nothing.
pub(super) fn without_forgeries(seen: Discovery) -> (Discovery, BTreeSet<Digest>) {
    let mut forged = BTreeSet::new();
    let mut clean = |definition: Arc<[u8]>| match unforged(&definition) {
        Cow::Borrowed(_) => definition,
        Cow::Owned(clean) => {
            forged.insert(Digest::of(&clean));
            Arc::from(clean)
        }
    };
    let mut clean_list = |list: Shown| Shown {
        definitions: list.definitions.into_iter().map(&mut clean).collect(),
        ..list
    };
    let shown = seen.shown.into_iter().map(&mut clean_list).collect();
    let told = seen
        .told
        .into_iter()
        .map(|list| list.into_iter().map(&mut clean).collect())
        .collect();
    let seen = Discovery { shown, told, ..seen };
    (seen, forged)
}

/// The same of what is listed beside tools.
pub(super) fn unforged_items(seen: ItemsSeen) -> ItemsSeen {
    let clean = |definition: Arc<[u8]>| match unforged(&definition) {
        Cow::Borrowed(_) => definition,
        Cow::Owned(clean) => Arc::from(clean),
    };
    let clean_list = |list: Vec<Arc<[u8]>>| list.into_iter().map(clean).collect();
    let clean_lists = |lists: Vec<Vec<Arc<[u8]>>>| lists.into_iter().map(clean_list).collect();
    let lists = seen.lists.into_iter().map(|(kind, lists)| (kind, clean_lists(lists)));
    ItemsSeen {
        lists: lists.collect(),
        ..seen
    }
}

/// What of it a person is to look at first, and what is not even kept.
pub(super) fn looked_through(seen: ItemsSeen, detector: Option<&Detector>) -> ItemsSeen {
    let definitions: BTreeSet<&Arc<[u8]>> = seen.lists.values().flatten().flatten().collect();
    let doubtful: Vec<&Arc<[u8]>> = definitions
        .into_iter()
        .filter(|raw| is_doubtful(raw, detector))
        .collect();
    let secret = doubtful.iter().filter(|raw| holds_secret(raw, detector));
    ItemsSeen {
        secret: secret.map(|raw| Digest::of(raw)).collect(),
        doubtful: doubtful.iter().map(|raw| Digest::of(raw)).collect(),
        ..seen
    }
}

/// What a person is to look at first.
pub(super) fn doubtful(seen: &Discovery, detector: Option<&Detector>) -> BTreeSet<Digest> {
    let definitions: BTreeSet<&Arc<[u8]>> = seen
        .shown
        .iter()
        .flat_map(|list| &list.definitions)
        .chain(seen.told.iter().flatten())
        .collect();
    let definitions = definitions.into_iter().filter(|raw| is_doubtful(raw, detector));
    let instructions = seen.instructions.iter().filter(|text| is_doubtful_text(text, detector));
    let definitions = definitions.map(|raw| Digest::of(raw));
    definitions
        .chain(instructions.map(|text| Digest::of(text.as_bytes())))
        .collect()
}
