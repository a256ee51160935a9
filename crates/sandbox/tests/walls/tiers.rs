//! Weaker hosts: what they still give, and that they say so instead of giving less.

use portreeve_sandbox::{DEDICATED_UID, Ending, FsPolicy, LaunchFailure, Launcher, Layer, NetPolicy, Plan, Tier};

use crate::bench::{Place, as_ordinary_user, run_with, sabotaged, script, server_uid, walled};

async fn without(layer: &str) -> Launcher {
    Launcher::probe_with(walled(), sabotaged(layer, 1)).await
}

#[tokio::test]
async fn the_tier_falls_with_what_is_missing_and_the_reason_is_kept() {
    for (layer, tier) in [
        ("userns", Tier::B),
        ("id-map", Tier::B),
        ("netns", Tier::B),
        ("landlock", Tier::C),
        ("seccomp", Tier::C),
    ] {
        let strength = without(layer).await.strength().clone();
        assert_eq!(strength.tier, tier, "{layer}: {strength:?}");
        let first = strength.missing.first().unwrap();
        assert_eq!(
            (first.tier, first.layer.map(Layer::as_str), first.errno),
            (Tier::A, Some(layer), 1)
        );
    }
    let text = without("userns").await.strength().missing_text();
    assert!(text.contains("unprivileged user namespaces"), "{text}");
}

// R149
#[tokio::test]
async fn a_plan_beyond_the_tier_is_refused_not_weakened() {
    let place = Place::new();
    let weak = without("userns").await;
    let none = without("landlock").await;
    let confined = [FsPolicy::WorkspaceOnly, FsPolicy::ReadOnly];
    let refused = confined
        .iter()
        .map(|fs| (&weak, *fs, NetPolicy::Allowlist))
        .chain([
            (&weak, FsPolicy::Unconfined, NetPolicy::BlockAll),
            (&none, FsPolicy::ReadOnly, NetPolicy::BlockAll),
        ])
        .chain([(&none, FsPolicy::WorkspaceOnly, NetPolicy::Unconfined)]);
    for (launcher, fs, net) in refused {
        let mut draft = script(&place.0, "echo ran > canary");
        (draft.fs, draft.net) = (fs, net);
        let failure = launcher
            .start(&Plan::check(draft).unwrap())
            .await
            .map(drop)
            .unwrap_err();
        assert!(matches!(failure, LaunchFailure::TierTooWeak { .. }), "{failure}");
        assert!(failure.to_string().contains("portreeve doctor"), "{failure}");
    }
    // Landlock cannot make a part of the workspace read-only; only mounts can.
    let mut part = script(&place.0, "echo ran > canary");
    part.read.push(place.directory("part"));
    let failure = weak.start(&Plan::check(part).unwrap()).await.map(drop).unwrap_err();
    assert!(matches!(failure, LaunchFailure::TierTooWeak { .. }), "{failure}");
    assert!(!place.0.join("canary").exists());
}

#[tokio::test]
async fn tier_b_confines_files_and_sockets() {
    let place = Place::new();
    let workspace = place.directory("workspace");
    let secret = place.file("secret", "canary");
    let weak = without("userns").await;
    let tries = format!(
        "echo kept > file; cat {0}; echo x > {1}/new; ls {1}; ls /proc/self/fd; kill -0 $PPID || echo fenced; \
         grep NoNewPrivs /proc/self/status | cut -f2",
        secret.display(),
        place.0.display()
    );
    let said = run_with(&weak, script(&workspace, &tries)).await.unwrap();
    assert_eq!(std::fs::read_to_string(workspace.join("file")).unwrap(), "kept\n");
    assert!(
        said.stdout.contains("fenced") && !said.stdout.contains("canary"),
        "{said:?}"
    );
    assert!(!place.0.join("new").exists());
    assert_eq!(said.report.tier, Tier::B);
    assert_eq!(
        said.report.layers,
        [
            Layer::NoNewPrivileges,
            Layer::Landlock,
            Layer::LandlockScope,
            Layer::Seccomp
        ]
        .iter()
        .copied()
        .fold(vec![Layer::Capabilities], |mut all, layer| {
            all.push(layer);
            all
        })
    );
    if crate::bench::is_installed("/usr/bin/python3") {
        let program =
            "import socket\nfor f in (2, 10, 1):\n    try: socket.socket(f)\n    except OSError as e: print(e.errno)";
        let said = run_with(
            &weak,
            crate::bench::draft(&workspace, &["/usr/bin/python3", "-c", program]),
        )
        .await
        .unwrap();
        assert_eq!(said.stdout, "1\n1\n1\n", "{said:?}");
    }
}

#[tokio::test]
async fn in_tier_b_a_daemon_dies_with_its_server() {
    let place = Place::new();
    let weak = without("userns").await;
    let said = run_with(
        &weak,
        script(&place.0, "(setsid sleep 1000 >/dev/null 2>&1 &); echo bye"),
    )
    .await
    .unwrap();
    assert_eq!((said.stdout.as_str(), said.ending), ("bye\n", Ending::Exited(0)));
    crate::bench::nothing_is_left_of(&place).await;
}

#[test]
fn an_ordinary_user_gets_tier_b_as_well() {
    let place = Place::new();
    let workspace = place.directory("workspace");
    let secret = place.file("secret", "canary");
    let tries = format!("echo kept > file; cat {}; id -u", secret.display());
    let output = as_ordinary_user(
        &place,
        &["run-in-tier-b", workspace.to_str().unwrap(), "sh", "-c", &tries],
    );
    let uid = if server_uid() == DEDICATED_UID {
        1500
    } else {
        server_uid()
    };
    assert_eq!(output.stdout, format!("{uid}\n"), "{output:?}");
    assert_eq!(std::fs::read_to_string(workspace.join("file")).unwrap(), "kept\n");
}

#[tokio::test]
async fn none_must_be_said_and_is_reported() {
    let place = Place::new();
    let workspace = place.directory("workspace");
    let seen = place.file("seen", "visible");
    for (fs, net) in [
        (FsPolicy::Unconfined, NetPolicy::Unconfined),
        (FsPolicy::Unconfined, NetPolicy::BlockAll),
        (FsPolicy::WorkspaceOnly, NetPolicy::Unconfined),
    ] {
        let mut draft = script(&workspace, &format!("cat {}; ls /proc/self/fd | wc -l", seen.display()));
        (draft.fs, draft.net) = (fs, net);
        let said = crate::bench::run(draft).await;
        let expected = if fs == FsPolicy::Unconfined {
            "visible4\n"
        } else {
            "4\n"
        };
        assert_eq!(said.stdout, expected, "{said:?}");
        assert_eq!((said.report.fs_policy, said.report.net_policy), (fs, net));
        assert_eq!(
            said.report.layers.contains(&Layer::NetNamespace),
            net == NetPolicy::BlockAll
        );
        assert_eq!(
            said.report.layers.contains(&Layer::Landlock),
            fs == FsPolicy::WorkspaceOnly
        );
    }
    // Where nothing can be confined, a plan that asks for nothing still runs.
    let none = without("landlock").await;
    let mut draft = script(&workspace, "id -u");
    (draft.fs, draft.net) = (FsPolicy::Unconfined, NetPolicy::Unconfined);
    assert_eq!(
        run_with(&none, draft).await.unwrap().stdout,
        format!("{}\n", server_uid())
    );
}
