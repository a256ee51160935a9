//! What one server does to the numbers the kernel keeps for its user must not weaken or stop another.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};

use portreeve_sandbox::{Ending, FsPolicy, LaunchFailure, Launcher, NetPolicy, Plan, Standing, Tier};

use crate::bench::{Place, command, draft, finish, launcher, own_copy, run_with, sabotaged, script, walled};

/// Fills socket pairs with descriptors that are on their way, says how it went, and stays until its input ends.
const FILL: &str = r#"
import array, os, resource, socket, sys
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
most = min(hard, int(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
pairs, on_the_way = [], 0
one = os.open("/dev/null", os.O_RDONLY)
full = False
while not full:
    pair = socket.socketpair()
    pairs.append(pair)
    pair[0].setblocking(False)
    for _ in range(2):
        try:
            pair[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [one] * 253))])
            on_the_way += 253
        except OSError as error:
            full = error.errno == 109
            break
print("full" if on_the_way >= min(most, 4000) else "not full", flush=True)
sys.stdin.read()
"#;

/// A user of this test alone: what is counted for it is nobody else's.
const CROWDED: u32 = 1517;

struct Filler(Child);

impl Filler {
    /// Fills what a process of this user that may open `most` files can have on the way.
    fn start(most: u32) -> Self {
        let mut filler = command("/usr/bin/python3");
        filler.args(["-c", FILL, &most.to_string()]).uid(CROWDED).gid(CROWDED);
        let mut filler = filler.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(filler.stdout.as_mut().unwrap())
            .read_line(&mut said)
            .unwrap();
        assert_eq!(said, "full\n");
        Self(filler)
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        drop(self.0.stdin.take().map(|mut stdin| stdin.flush()));
        let _ = self.0.wait();
    }
}

/// What a server says that is started by a gateway of that user.
fn started_as_crowded(place: &Place) -> (String, String) {
    let workspace = place.directory("workspace");
    let mut gateway = command(own_copy(place).to_str().unwrap());
    gateway
        .args(["run", workspace.to_str().unwrap(), "sh", "-c", "id -u"])
        .uid(CROWDED)
        .gid(CROWDED);
    let output = gateway.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn descriptors_on_their_way_do_not_lower_the_tier_of_another_server() {
    if !crate::bench::is_root() {
        return;
    }
    let place = Place::new();
    // As many as a server can have; uid 1000 is the one inside namespaces.
    let _filler = Filler::start(4096);
    let (said, complaints) = started_as_crowded(&place);
    assert_eq!(said, "1000\n", "{complaints}");
}

#[test]
fn where_nothing_can_be_handed_over_nothing_is_started() {
    if !crate::bench::is_root() {
        return;
    }
    let place = Place::new();
    let _filler = Filler::start(u32::MAX);
    let (said, complaints) = started_as_crowded(&place);
    assert_eq!(said, "", "{complaints}");
    assert!(complaints.contains("nothing is started"), "{complaints}");
}

#[tokio::test]
async fn a_server_that_fills_its_sockets_stops_no_other_of_its_user() {
    let place = Place::new();
    let launcher = launcher().await;
    let workspace = place.directory("workspace");
    let plan = Plan::check(draft(&workspace, &["/usr/bin/python3", "-c", FILL, "4096"])).unwrap();
    let mut filler = launcher.start(&plan).await.unwrap().go().await.unwrap();
    let streams = filler.take_streams().unwrap();
    let mut said = [0; 5];
    let mut stdout = streams.stdout;
    tokio::io::AsyncReadExt::read_exact(&mut stdout, &mut said)
        .await
        .unwrap();
    assert_eq!(&said, b"full\n");
    let other = run_with(&launcher, script(&place.0, "id -u")).await.unwrap();
    assert_eq!((other.stdout.as_str(), other.ending), ("1000\n", Ending::Exited(0)));
    drop(streams.stdin);
    assert_eq!(filler.wait().await, Ending::Exited(0));
}

#[tokio::test]
async fn what_fails_for_a_reason_that_passes_lowers_no_tier() {
    let place = Place::new();
    const PASSING: [i32; 6] = [
        libc::EAGAIN,
        libc::EMFILE,
        libc::ENFILE,
        libc::ENOMEM,
        libc::ENOSPC,
        libc::ETOOMANYREFS,
    ];
    for (layer, errno) in PASSING
        .map(|errno| ("handshake", errno))
        .into_iter()
        .chain([("userns", libc::ENOSPC)])
    {
        let unsure = Launcher::probe_with(walled(), sabotaged(layer, errno)).await;
        assert_eq!(unsure.strength().standing, Standing::Unsettled, "{layer} {errno}");
        for open in [false, true] {
            let mut draft = script(&place.0, "echo ran > canary");
            if open {
                (draft.fs, draft.net) = (FsPolicy::Unconfined, NetPolicy::Unconfined);
            }
            let failure = unsure.start(&Plan::check(draft).unwrap()).await.map(drop).unwrap_err();
            assert!(
                matches!(failure, LaunchFailure::Unsettled { .. }),
                "{layer} {errno}: {failure}"
            );
        }
    }
    assert!(!place.0.join("canary").exists());
    // As soon as it can be told, it is.
    let unsure = Launcher::probe_with(walled(), sabotaged("handshake", libc::EMFILE)).await;
    let sure = unsure.with_arguments(vec![portreeve_sandbox::LAUNCHER_WORD.into()]);
    let plan = Plan::check(script(&place.0, "id -u")).unwrap();
    let said = finish(sure.start(&plan).await.unwrap().go().await.unwrap()).await;
    assert_eq!((said.stdout.as_str(), sure.strength().tier), ("1000\n", Tier::A));
}

#[tokio::test]
async fn less_than_was_asked_for_or_given_before_is_refused() {
    let place = Place::new();
    let weak = || Launcher::probe_with(walled(), sabotaged("userns", 1));
    let plan = |tier| {
        let mut draft = script(&place.0, "echo ran > canary");
        draft.tier = tier;
        Plan::check(draft).unwrap()
    };
    let asked = weak().await.start(&plan(Some(Tier::A))).await.map(drop).unwrap_err();
    let before = weak()
        .await
        .at_least(Tier::A)
        .start(&plan(None))
        .await
        .map(drop)
        .unwrap_err();
    for failure in [asked, before] {
        assert!(
            matches!(
                failure,
                LaunchFailure::TierFell {
                    tier: Tier::B,
                    least: Tier::A,
                    ..
                }
            ),
            "{failure}"
        );
    }
    assert!(!place.0.join("canary").exists());
    let enough = weak().await.at_least(Tier::B);
    assert!(enough.start(&plan(Some(Tier::B))).await.is_ok());
}
