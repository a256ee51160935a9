//! When an instance ends, everything in it does.

use std::time::Duration;

use portreeve_sandbox::{Ending, FsPolicy, NetPolicy, Plan};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use crate::bench::{Place, launcher, nothing_is_left_of, own_copy, run, script, start_walled};

const DAEMON: &str = "(setsid sh -c 'sleep 1000 & echo started; sleep 1000' &) ; sleep 1000";

#[tokio::test]
async fn the_streams_carry_both_ways() {
    let place = Place::new();
    let plan = Plan::check(crate::bench::draft(&place.0, &["cat"])).unwrap();
    let mut instance = launcher().await.start(&plan).await.unwrap().go().await.unwrap();
    let mut streams = instance.take_streams().unwrap();
    streams.stdin.write_all(b"there and back").await.unwrap();
    drop(streams.stdin);
    let mut text = String::new();
    streams.stdout.read_to_string(&mut text).await.unwrap();
    assert_eq!(
        (text.as_str(), instance.wait().await),
        ("there and back", Ending::Exited(0))
    );
}

#[tokio::test]
async fn a_server_ends_with_its_own_code_or_signal() {
    let place = Place::new();
    assert_eq!(run(script(&place.0, "exit 7")).await.ending, Ending::Exited(7));
    assert_eq!(
        run(script(&place.0, "kill -9 $$")).await.ending,
        Ending::Exited(128 + 9)
    );
}

#[tokio::test]
async fn what_a_server_leaves_behind_dies_with_it() {
    let place = Place::new();
    let said = run(script(&place.0, "(setsid sleep 1000 >/dev/null 2>&1 &); echo bye")).await;
    assert_eq!(said.stdout, "bye\n");
    nothing_is_left_of(&place).await;
}

#[tokio::test]
async fn killing_waits_until_nothing_is_left() {
    let place = Place::new();
    let plan = Plan::check(script(&place.0, DAEMON)).unwrap();
    let mut instance = launcher().await.start(&plan).await.unwrap().go().await.unwrap();
    let streams = instance.take_streams().unwrap();
    let mut lines = BufReader::new(streams.stdout).lines();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "started");
    instance.kill();
    assert_eq!(instance.wait().await, Ending::Exited(128 + 9));
    nothing_is_left_of(&place).await;
}

#[tokio::test]
async fn dropping_an_instance_kills_it() {
    for (fs, net) in [
        (FsPolicy::WorkspaceOnly, NetPolicy::BlockAll),
        (FsPolicy::Unconfined, NetPolicy::Unconfined),
    ] {
        let place = Place::new();
        let mut draft = script(&place.0, DAEMON);
        (draft.fs, draft.net) = (fs, net);
        let mut instance = launcher()
            .await
            .start(&Plan::check(draft).unwrap())
            .await
            .unwrap()
            .go()
            .await
            .unwrap();
        let streams = instance.take_streams().unwrap();
        let mut lines = BufReader::new(streams.stdout).lines();
        assert_eq!(lines.next_line().await.unwrap().unwrap(), "started");
        drop(instance);
        nothing_is_left_of(&place).await;
    }
}

#[tokio::test]
async fn after_kill_nine_of_the_gateway_nothing_is_left() {
    for mode in ["run", "run-in-tier-b"] {
        let place = Place::new();
        let program = own_copy(&place);
        let mut gateway = start_walled(&program, &[mode, place.0.to_str().unwrap(), "sh", "-c", DAEMON]);
        let mut word = [0u8; 7];
        std::io::Read::read_exact(gateway.stdout.as_mut().unwrap(), &mut word).unwrap();
        assert_eq!(&word, b"started", "{mode}");
        gateway.kill().unwrap();
        gateway.wait().unwrap();
        nothing_is_left_of(&place).await;
    }
}

#[tokio::test]
async fn ended_launchers_are_reaped() {
    let place = Place::new();
    for _ in 0..5 {
        run(script(&place.0, "true")).await;
    }
    // Other tests of this process may have children too, but nobody's stay dead for long.
    let mut dead = Vec::new();
    for _ in 0..100 {
        dead = zombies();
        if dead.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("not reaped: {dead:?}");
}

fn zombies() -> Vec<String> {
    let me = std::process::id();
    let threads = std::fs::read_dir(format!("/proc/{me}/task")).unwrap().flatten();
    let children = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let children: Vec<String> = children
        .flat_map(|list| list.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let is_dead =
        |pid: &String| std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "));
    children.into_iter().filter(is_dead).collect()
}
