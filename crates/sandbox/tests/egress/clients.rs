//! Clients as people use them, unchanged: curl by each way, node's `fetch` and python without any proxy variable.

use std::process::Output;

use portreeve_sandbox::Event::{Connect, Http, Socks5, Tls};
use portreeve_sandbox::Reason;
use portreeve_sandbox::Verdict::{Allowed, Blocked};

use crate::world::{World, world};

#[expect(clippy::disallowed_methods, reason = "the clients under test are programs")]
fn run(world: &World, command: &[&str]) -> Output {
    world.inside(|| {
        let mut program = std::process::Command::new(command[0]);
        program
            .args(&command[1..])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin");
        program.output().unwrap()
    })
}

fn body(world: &World, command: &[&str]) -> String {
    String::from_utf8_lossy(&run(world, command).stdout).into_owned()
}

const FETCH: &str = "fetch('http://good.test/').then(r => r.text()).then(t => console.log(t))";
const FETCH_TLS: &str = "fetch('https://good.test/').catch(() => 0)";
const URLLIB: &str = "import urllib.request; print(urllib.request.urlopen('http://good.test/').read().decode())";

#[test]
#[ignore = "needs curl, node and python3"]
fn clients_work_unchanged_and_only_where_they_may() {
    world(&["good.test", "good.test:80"], &[], |world| {
        let by_proxy = ["-x", "http://127.0.0.1:3128"];
        let by_tunnel = ["-p", "-x", "http://127.0.0.1:3128"];
        let by_socks = ["-x", "socks5h://127.0.0.1:3128"];
        for (way, event) in [
            (&[][..], Http),
            (&by_proxy, Http),
            (&by_tunnel, Connect),
            (&by_socks, Socks5),
        ] {
            let command = [&["curl", "-sS", "-m", "5"], way, &["http://good.test/"]].concat();
            assert_eq!(body(world, &command), "hello", "{way:?}");
            if way != by_proxy {
                world.expect(event, Allowed, "good.test:80", Reason::Allowlisted);
            }
        }
        assert_eq!(body(world, &["node", "-e", FETCH]), "hello\n");
        assert_eq!(body(world, &["/usr/bin/python3", "-c", URLLIB]), "hello\n");
        world.internet.taken();
        // The far side speaks no TLS; that its first byte is a handshake shows that real ones pass.
        for (way, event) in [(&[][..], Tls), (&by_proxy, Connect), (&by_socks, Socks5)] {
            run(
                world,
                &[&["curl", "-sSk", "-m", "5"], way, &["https://good.test/"]].concat(),
            );
            world.expect(event, Allowed, "good.test:443", Reason::Allowlisted);
            assert_eq!(world.internet.said()[0][0], 22, "{way:?}");
        }
        run(world, &["node", "-e", FETCH_TLS]);
        assert_eq!(world.internet.said()[0][0], 22);
        for way in [&[][..], &by_proxy, &by_socks] {
            let denied = run(
                world,
                &[&["curl", "-sS", "-m", "5"], way, &["https://evil.test/"]].concat(),
            );
            assert!(!denied.status.success());
        }
        let fronted = [
            "curl",
            "-sSk",
            "-m",
            "5",
            "--connect-to",
            "evil.test:443:good.test:443",
            "https://evil.test/",
        ];
        assert!(!run(world, &fronted).status.success());
        world.expect(Tls, Blocked, "good.test:443", Reason::SniMismatch);
        assert_eq!(world.internet.said(), Vec::<Vec<u8>>::new());
    });
}
