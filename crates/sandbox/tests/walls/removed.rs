//! The attack table in tier B, and in tier A with one wall left out: what then gets through shows that the table is
//! able to fail.

use portreeve_sandbox::{LAUNCHER_WORD, LaunchFailure, Launcher, Layer, NetPolicy, Plan, Tier};

use crate::bench::{Place, sabotaged, script, walled};
use crate::hostile::{Attempt, Scene, attempts};

/// Everything a launcher lets through of these attempts.
async fn through(launcher: &Launcher, chosen: impl Fn(&Attempt) -> bool) -> Vec<String> {
    let scene = Scene::set();
    let mut attacker = scene.attacker(launcher).await;
    let mut found = Vec::new();
    for attempt in attempts().iter().filter(|attempt| chosen(attempt)) {
        let report = attacker.attempt(attempt).await;
        let errno = report["errno"].as_str().unwrap_or_default();
        assert!(!matches!(errno, "FAULT" | "ETIME"), "{}: {report}", attempt.name());
        if report["through"] == true {
            found.push(attempt.name());
        }
        if attempt.row().starts_with('F') {
            scene.must_be_untouched(&attempt.name());
        }
    }
    found
}

/// A launcher of tier A without one wall.
async fn without(layer: &str) -> Launcher {
    let launcher = Launcher::probe_with(walled(), sabotaged(layer, 0)).await;
    assert_eq!(launcher.strength().tier, Tier::A, "{:?}", launcher.strength());
    launcher
}

/// A launcher of a host without user namespaces.
async fn tier_b() -> Launcher {
    let launcher = Launcher::probe_with(walled(), sabotaged("userns", 1)).await;
    assert_eq!(launcher.strength().tier, Tier::B, "{:?}", launcher.strength());
    launcher
}

#[tokio::test]
async fn nothing_of_what_tier_b_promises_gets_through() {
    // R149
    let through = through(&tier_b().await, |attempt| {
        attempt.row().starts_with(['F', 'P', 'N', 'S', 'K', 'D', 'U'])
    })
    .await;
    assert_eq!(through, Vec::<String>::new());
    // The rest of the table is about doors (E, X1), of which it has none: there is no allowlist in tier B.
    let plan = NetPolicy::Allowlist;
    assert!(!Tier::B.offers(portreeve_sandbox::FsPolicy::WorkspaceOnly, plan));
}

#[tokio::test]
async fn what_tier_b_cannot_give_is_refused_and_not_weakened() {
    // R149
    let place = Place::new();
    let workspace = place.directory("workspace");
    let mut asking = script(&workspace, "true");
    asking.net = NetPolicy::Allowlist;
    let refused = tier_b().await.start(&Plan::check(asking).unwrap()).await;
    let failure = refused.err().unwrap();
    assert!(
        matches!(failure, LaunchFailure::TierTooWeak { tier: Tier::B, .. }),
        "{failure}"
    );
    assert!(
        failure.to_string().contains("unprivileged user namespaces"),
        "{failure}"
    );
    let none = Launcher::probe_with(walled(), vec![LAUNCHER_WORD.into(), "plan".into(), "38".into()]).await;
    assert_eq!(none.strength().tier, Tier::C);
    let failure = none
        .start(&Plan::check(script(&workspace, "true")).unwrap())
        .await
        .err()
        .unwrap();
    assert!(
        matches!(failure, LaunchFailure::TierTooWeak { tier: Tier::C, .. }),
        "{failure}"
    );
}

#[tokio::test]
async fn without_the_filters_on_system_calls_attempts_get_through() {
    let through = through(&without("seccomp").await, |attempt| {
        attempt.row().starts_with(['S', 'K']) && attempt.works_bare()
    })
    .await;
    for row in ["S2", "S4", "K4", "K5", "K6"] {
        assert!(
            through.iter().any(|name| name.starts_with(row)),
            "{row} still holds: {through:?}"
        );
    }
}

#[tokio::test]
async fn without_landlock_an_attempt_gets_through() {
    let through = through(&without("landlock").await, |attempt| attempt.row() == "D2").await;
    assert!(!through.is_empty());
}

#[tokio::test]
async fn without_a_namespace_for_shared_memory_an_attempt_gets_through() {
    let through = through(&without("ipcns").await, |attempt| attempt.row() == "P6").await;
    assert!(through.iter().any(|name| name.contains("shared_memory")), "{through:?}");
}

#[tokio::test]
async fn a_step_that_fails_leaves_nothing_running() {
    // R149
    let place = Place::new();
    let workspace = place.directory("workspace");
    for layer in Layer::ALL {
        // Failing with "not implemented", as a kernel without it would.
        let launcher = Launcher::probe_with(walled(), sabotaged(layer.as_str(), 38)).await;
        let strength = launcher.strength();
        assert_ne!(strength.tier, Tier::A, "{}", layer.as_str());
        // Who fails before reading its orders may be gone before they are sent.
        let is_named = strength.missing.iter().any(|missing| missing.layer == Some(layer));
        assert!(
            is_named || layer == Layer::Plan,
            "{} is not named: {strength:?}",
            layer.as_str()
        );
        let mut asking = script(&workspace, "touch ran");
        asking.net = NetPolicy::Allowlist;
        let failure = launcher.start(&Plan::check(asking).unwrap()).await.err().unwrap();
        assert!(matches!(failure, LaunchFailure::TierTooWeak { .. }), "{failure}");
        assert!(!workspace.join("ran").exists(), "{}", layer.as_str());
    }
}
