//! How strong the walls of this machine are: found once, told, remembered in the state directory, and never less without a
//! word of the operator's. ADR 0063.

use std::path::Path;

use gateway::edge::tls::write_whole;
use sandbox::{Launcher, Standing, Tier};

/// Whether what is found is remembered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Memory {
    /// It is: servers or agents will run under it.
    Keep,
    /// It is not: a command only looks.
    Look,
}

/// The launcher, probed on this machine. It refuses less than `least`, or without one less than was found before.
pub(crate) async fn probed(state: &Path, least: Option<Tier>, memory: Memory) -> Launcher {
    let launcher = Launcher::probe().await;
    let strength = launcher.strength();
    let (tier, before) = (strength.tier, remembered(state));
    let least = least.or(before);
    match strength.standing {
        Standing::Unsettled => tracing::error!(
            why = strength.missing_text(),
            "which sandboxes this machine gives cannot be told now; nothing is started until it can"
        ),
        Standing::Found if least.is_some_and(|least| !tier.reaches(least)) => tracing::error!(
            tier = tier.as_str(),
            least = least.map(Tier::as_str),
            why = strength.missing_text(),
            "this machine gives weaker sandboxes than it must; nothing is started. If that is meant, write the tier into `[sandbox] tier`"
        ),
        Standing::Found => {
            tracing::info!(tier = tier.as_str(), "sandboxes of this tier are given here");
            if memory == Memory::Keep && before != Some(tier) {
                remember(state, tier);
            }
        }
    }
    match least {
        Some(least) => launcher.at_least(least),
        None => launcher,
    }
}

/// What was found before on this state directory.
fn remembered(state: &Path) -> Option<Tier> {
    let text = std::fs::read_to_string(state.join(FILE)).ok()?;
    Tier::ALL.iter().copied().find(|tier| tier.as_str() == text.trim())
}

fn remember(state: &Path, tier: Tier) {
    let line = format!("{}\n", tier.as_str());
    if let Err(error) = write_whole(&state.join(FILE), line.as_bytes(), 0o600) {
        tracing::warn!(%error, "the tier of the sandboxes could not be remembered");
    }
}

const FILE: &str = "sandbox.tier";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_is_remembered_and_nonsense_is_none() {
        let state = tempfile::tempdir().unwrap();
        assert_eq!(remembered(state.path()), None);
        for tier in Tier::ALL {
            remember(state.path(), tier);
            assert_eq!(remembered(state.path()), Some(tier));
        }
        std::fs::write(state.path().join(FILE), "AB\n").unwrap();
        assert_eq!(remembered(state.path()), None);
    }
}
