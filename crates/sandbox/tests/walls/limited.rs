//! What a server may use up.

use portreeve_sandbox::ResourceLimits;

use crate::bench::{Place, run, script};

#[tokio::test]
async fn processes_are_limited() {
    let place = Place::new();
    let mut draft = script(&place.0, "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 5 & echo $i; done");
    draft.limits = ResourceLimits {
        processes: 8,
        ..ResourceLimits::default()
    };
    let said = run(draft).await;
    // The shell is one of the eight.
    assert_eq!(said.stdout, "1\n2\n3\n4\n5\n6\n7\n", "{said:?}");
    assert!(said.stderr.contains("fork"), "{said:?}");
    // Limits of one sandbox are not another's, though the uid is the same.
    assert_eq!(run(script(&place.0, "(true); echo ok")).await.stdout, "ok\n");
}

#[tokio::test]
async fn memory_is_limited() {
    let place = Place::new();
    let mut draft = script(&place.0, "x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo ${#x}");
    draft.limits = ResourceLimits {
        memory: 64 << 20,
        ..ResourceLimits::default()
    };
    let said = run(draft).await;
    assert_eq!(said.stdout, "", "{said:?}");
}

#[tokio::test]
async fn temporary_files_are_limited() {
    let place = Place::new();
    let mut draft = script(
        &place.0,
        "for d in /tmp /home/sandbox /dev/shm; do head -c 20000000 /dev/zero > $d/big; stat -c %s $d/big; done",
    );
    draft.limits = ResourceLimits {
        temporary: 8 << 20,
        ..ResourceLimits::default()
    };
    let said = run(draft).await;
    assert_eq!(said.stdout, "8388608\n8388608\n8388608\n", "{said:?}");
    assert_eq!(said.stderr.matches("No space left").count(), 3, "{said:?}");
}

#[tokio::test]
async fn files_are_limited_and_no_limit_can_be_raised() {
    let place = Place::new();
    let mut draft = script(
        &place.0,
        "trap '' XFSZ; head -c 3000000 /dev/zero > big; stat -c %s big; ulimit -f unlimited; ulimit -n 100000; ulimit -n; ulimit -c",
    );
    draft.limits = ResourceLimits {
        file: 1 << 20,
        ..ResourceLimits::default()
    };
    let said = run(draft).await;
    assert!(said.stdout.starts_with("1048576\n"), "{said:?}");
    assert!(said.stderr.contains("File too large"), "{said:?}");
    assert!(!said.stdout.contains("100000"), "{said:?}");
}

#[tokio::test]
async fn processor_time_is_limited() {
    let place = Place::new();
    let mut draft = script(&place.0, "while :; do :; done");
    draft.limits = ResourceLimits {
        cpu_seconds: Some(1),
        ..ResourceLimits::default()
    };
    let said = run(draft).await;
    // SIGKILL or SIGXCPU, by whether soft and hard limit were hit at once.
    assert!(
        matches!(said.ending, portreeve_sandbox::Ending::Exited(137 | 152)),
        "{said:?}"
    );
}
