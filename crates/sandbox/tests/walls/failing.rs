//! Every step of the launcher, made to fail: nothing runs, nothing is left.

use portreeve_sandbox::{LaunchFailure, Launcher, Layer, Plan, Tier};

use crate::bench::{Place, launcher, nothing_is_left_of, sabotaged, script, walled};

// R149
#[tokio::test]
async fn whichever_step_fails_nothing_runs() {
    const ENOSPC: i32 = 28;
    assert_eq!(launcher().await.strength().tier, Tier::A);
    for layer in Layer::ALL {
        let place = Place::new();
        let plan = Plan::check(script(&place.0, "echo ran > canary; sleep 1000")).unwrap();
        let launcher = launcher().await.with_arguments(sabotaged(layer.as_str(), ENOSPC));
        let failure = match launcher.start(&plan).await {
            Ok(starting) => starting.go().await.map(drop).unwrap_err(),
            Err(failure) => failure,
        };
        let LaunchFailure::Layer(failure) = failure else {
            panic!("{}: {failure}", layer.as_str());
        };
        assert_eq!((failure.layer, failure.errno), (layer, ENOSPC));
        assert!(!place.0.join("canary").exists(), "{}", layer.as_str());
        nothing_is_left_of(&place).await;
    }
}

#[tokio::test]
async fn without_namespaces_it_is_the_same() {
    const STEPS: [Layer; 15] = [
        Layer::Plan,
        Layer::DeathSignal,
        Layer::UidDrop,
        Layer::Session,
        Layer::Init,
        Layer::Limits,
        Layer::Capabilities,
        Layer::NoNewPrivileges,
        Layer::Landlock,
        Layer::LandlockScope,
        Layer::Handshake,
        Layer::Descriptors,
        Layer::WorkingDirectory,
        Layer::Seccomp,
        Layer::Execute,
    ];
    for layer in STEPS {
        let place = Place::new();
        let plan = Plan::check(script(&place.0, "echo ran > canary; sleep 1000")).unwrap();
        let weak = Launcher::probe_with(walled(), sabotaged("userns", 1)).await;
        assert_eq!(weak.strength().tier, Tier::B);
        let launcher = weak.with_arguments(sabotaged(layer.as_str(), 28));
        let failure = match launcher.start(&plan).await {
            Ok(starting) => starting.go().await.map(drop).unwrap_err(),
            Err(failure) => failure,
        };
        assert!(
            matches!(&failure, LaunchFailure::Layer(failure) if failure.layer == layer),
            "{}: {failure}",
            layer.as_str()
        );
        assert!(!place.0.join("canary").exists(), "{}", layer.as_str());
        nothing_is_left_of(&place).await;
    }
}

#[tokio::test]
async fn a_server_that_was_never_told_to_go_does_not_run() {
    let place = Place::new();
    let plan = Plan::check(script(&place.0, "echo ran > canary")).unwrap();
    let starting = launcher().await.start(&plan).await.unwrap();
    drop(starting);
    nothing_is_left_of(&place).await;
    assert!(!place.0.join("canary").exists());
}

#[tokio::test]
async fn a_program_that_vanished_after_the_check_is_a_failure_of_its_own() {
    let place = Place::new();
    let program = place.file("server", "#!/bin/sh\necho hello\n");
    crate::bench::open_to_all(&program);
    let plan = Plan::check(crate::bench::draft(&place.0, &[program.to_str().unwrap()])).unwrap();
    std::fs::remove_file(&program).unwrap();
    let failure = launcher()
        .await
        .start(&plan)
        .await
        .unwrap()
        .go()
        .await
        .map(drop)
        .unwrap_err();
    let LaunchFailure::Layer(failure) = failure else {
        panic!("{failure}");
    };
    assert_eq!((failure.layer, failure.errno), (Layer::Execute, 2));
}

#[tokio::test]
async fn a_workspace_that_became_a_link_after_the_check_is_not_followed() {
    let place = Place::new();
    let workspace = place.directory("workspace");
    let other = place.directory("other");
    let plan = Plan::check(script(&workspace, "echo ran > canary")).unwrap();
    std::fs::remove_dir(&workspace).unwrap();
    std::os::unix::fs::symlink(&other, &workspace).unwrap();
    let failure = launcher().await.start(&plan).await.map(drop).unwrap_err();
    let LaunchFailure::Layer(failure) = failure else {
        panic!("{failure}");
    };
    assert_eq!((failure.layer, failure.errno), (Layer::Trees, 40));
    assert!(!other.join("canary").exists());
}
