//! Answers that have not left yet: what each principal's take until their client has read them. Whoever does not read is not
//! answered on, and the seat of a call is held until its answer has left.
//! ADR 0060: an answer counts until it has left.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use policy::InFlight;
use vocabulary::{Principal, PrincipalKey, lock};

/// What one principal's answers may take before nothing more is answered.
const MOST_PER_PRINCIPAL: usize = 64 << 20;
/// What all answers may take.
const MOST: usize = 512 << 20;
/// Less than this is not worth counting.
const COUNTED: usize = 4 * 1024;
/// Less than this is the kernel's, not ours, as soon as it is written: the seat of its call is free before.
const SEATED: usize = 16 * 1024;

/// See the module. Clones count together.
#[derive(Clone, Default)]
pub(crate) struct Unread(Arc<Mutex<Taken>>);

#[derive(Default)]
struct Taken {
    all: usize,
    by_principal: HashMap<PrincipalKey, usize>,
}

/// Something on its way to a client; over when the last of it has left.
pub(crate) struct OnItsWay {
    counted: Option<Counted>,
    slot: Option<InFlight>,
    /// What leaves with it.
    _others: Vec<Arc<Self>>,
}

struct Counted {
    unread: Unread,
    whose: PrincipalKey,
    bytes: usize,
}

impl Unread {
    /// Whether there is room for another answer.
    pub(crate) fn has_room_for(&self, who: &Principal) -> bool {
        let taken = lock(&self.0);
        if taken.by_principal.is_empty() {
            return true;
        }
        let own = taken.by_principal.get(&PrincipalKey::of(who)).copied();
        taken.all < MOST && own.unwrap_or_default() < MOST_PER_PRINCIPAL
    }

    /// Counts an answer, with the seat of its call, until what is given back is dropped; nothing where there is nothing
    /// to count.
    pub(crate) fn hold(&self, who: &Principal, bytes: usize, slot: Option<InFlight>) -> Option<Arc<OnItsWay>> {
        let counted = (bytes >= COUNTED).then(|| {
            let whose = PrincipalKey::of(who);
            let mut taken = lock(&self.0);
            taken.all += bytes;
            *taken.by_principal.entry(whose).or_default() += bytes;
            let unread = self.clone();
            Counted { unread, whose, bytes }
        });
        let slot = slot.filter(|_| bytes >= SEATED);
        let held = counted.is_some() || slot.is_some();
        held.then(|| {
            Arc::new(OnItsWay {
                counted,
                slot,
                _others: Vec::new(),
            })
        })
    }
}

impl OnItsWay {
    /// All of these, which leave as one.
    pub(crate) fn together(holds: Vec<Option<Arc<Self>>>) -> Option<Arc<Self>> {
        let others: Vec<Arc<Self>> = holds.into_iter().flatten().collect();
        (!others.is_empty()).then(|| {
            Arc::new(Self {
                counted: None,
                slot: None,
                _others: others,
            })
        })
    }

    /// Gives the seat back; the bytes count on.
    pub(crate) fn free_seat(&mut self) {
        self.slot = None;
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        let Some(Counted { unread, whose, bytes }) = self.counted.take() else {
            return;
        };
        let mut taken = lock(&unread.0);
        taken.all = taken.all.saturating_sub(bytes);
        match taken.by_principal.get_mut(&whose) {
            Some(own) if *own > bytes => *own -= bytes,
            Some(_) | None => drop(taken.by_principal.remove(&whose)),
        }
    }
}

impl std::fmt::Debug for OnItsWay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OnItsWay").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use vocabulary::{ActorType, Authn, ServerScope};

    use super::*;

    fn principal(sub: &str) -> Principal {
        Principal {
            sub: sub.into(),
            actor_type: ActorType::Agent,
            client_id: None,
            org_id: None,
            issuer: "portreeve".into(),
            authn: Authn::Token,
            act: Vec::new(),
            run: None,
            groups: BTreeSet::new(),
            claims: BTreeMap::new(),
            servers: ServerScope::Every,
        }
    }

    #[test]
    fn whoever_reads_nothing_is_not_answered_on_and_others_are() {
        let (unread, ann, bob) = (Unread::default(), principal("ann"), principal("bob"));
        let answers: Vec<_> = (0..4)
            .map(|_| unread.hold(&ann, MOST_PER_PRINCIPAL / 4, None))
            .collect();
        assert!(!unread.has_room_for(&ann) && unread.has_room_for(&bob));
        drop(answers);
        assert!(unread.has_room_for(&ann));
        assert!(
            lock(&unread.0).by_principal.is_empty(),
            "nothing is kept of who has read all"
        );
    }

    #[test]
    fn all_together_have_a_ceiling() {
        let unread = Unread::default();
        let answers: Vec<_> = (0..16)
            .map(|number| unread.hold(&principal(&number.to_string()), MOST / 16, None))
            .collect();
        assert!(!unread.has_room_for(&principal("last")));
        drop(answers);
        assert!(unread.has_room_for(&principal("last")));
    }

    #[test]
    fn small_answers_are_not_counted() {
        let unread = Unread::default();
        assert!(unread.hold(&principal("ann"), COUNTED - 1, None).is_none());
        assert!(unread.hold(&principal("ann"), COUNTED, None).is_some());
    }
}
