//! What must be said on ports beside 443 and 80 by those who speak TLS or HTTP there.

use std::io::{Read, Write};
use std::net::TcpStream;

use portreeve_sandbox::Event::{Connect, DirectTcp};
use portreeve_sandbox::Reason;
use portreeve_sandbox::Verdict::{Allowed, Blocked};

use crate::world::{World, hello, world};

fn transparent(world: &World, port: u16) -> TcpStream {
    let (_, address) = world.ask("good.test", 1).unwrap();
    world.connect(&format!("{}:{port}", address.unwrap())).unwrap()
}

fn answered(mut stream: TcpStream, words: &[u8]) -> bool {
    stream.write_all(words).unwrap();
    let mut answer = [0; 15];
    stream.read_exact(&mut answer).is_ok() && &answer == b"HTTP/1.1 200 OK"
}

#[test]
fn whoever_names_another_host_in_tls_or_http_is_cut_on_every_port() {
    world(&["good.test:8080"], &[], |world| {
        let sneaky = b"\r\nODD / HTTP/1.1\r\nhost: evil.test\r\n\r\n".to_vec();
        let upgrade =
            b"GET / HTTP/1.1\r\nHost: evil.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n".to_vec();
        let cases = [
            (hello(Some("evil.test")), Reason::SniMismatch),
            (hello(Some("good.test.evil.test")), Reason::SniMismatch),
            (
                b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n".to_vec(),
                Reason::HostHeaderMismatch,
            ),
            (
                b"GET / HTTP/1.1\r\nHost: good.test\r\n\r\n".to_vec(),
                Reason::HostHeaderMismatch,
            ),
            (
                b"GET http://evil.test/ HTTP/1.1\r\nHost: good.test:8080\r\n\r\n".to_vec(),
                Reason::HostHeaderMismatch,
            ),
            (sneaky, Reason::HostHeaderMismatch),
            (upgrade, Reason::HostHeaderMismatch),
        ];
        for (words, reason) in cases {
            for event in [Connect, DirectTcp] {
                let stream = match event == Connect {
                    true => world.tunnel("good.test:8080"),
                    false => transparent(world, 8080),
                };
                assert!(!answered(stream, &words), "{}", words.escape_ascii());
                world.expect(event, Blocked, "good.test:8080", reason);
                // The same within a second is told as a repeat.
                std::thread::sleep(std::time::Duration::from_millis(1100));
                world.heard.0.lock().unwrap().clear();
            }
        }
        assert_eq!(world.internet.said(), Vec::<Vec<u8>>::new());
    });
}

#[test]
fn whoever_names_the_host_or_nobody_is_carried() {
    world(&["good.test:8080", "good.test:5432"], &[], |world| {
        for words in [
            hello(Some("good.test")),
            hello(None),
            b"GET / HTTP/1.1\r\nHost: good.test:8080\r\n\r\n".to_vec(),
            b"GET / HTTP/1.1\r\nHost: good.test:8080\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n".to_vec(),
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
            b"*1\r\n$4\r\nPING\r\n".to_vec(),
            b"\x00\x00\x00\x08\x04\xd2\x16\x2f".to_vec(),
        ] {
            assert!(answered(transparent(world, 8080), &words), "{}", words.escape_ascii());
        }
        world.expect(DirectTcp, Allowed, "good.test:8080", Reason::Allowlisted);
        assert!(answered(world.tunnel("good.test:5432"), b"anything\n"));
        world.expect(Connect, Allowed, "good.test:5432", Reason::Allowlisted);
        // Who waits for the far side is on record all the same.
        world.heard.0.lock().unwrap().clear();
        let _silent = transparent(world, 5432);
        world.expect(DirectTcp, Allowed, "good.test:5432", Reason::Allowlisted);
    });
}

#[test]
fn half_a_line_is_let_go_and_a_request_that_comes_of_it_is_not() {
    world(&["good.test:8080"], &[], |world| {
        let mut stream = transparent(world, 8080);
        stream.write_all(b"half a line").unwrap();
        stream.read_exact(&mut [0; 15]).unwrap();
        assert_eq!(world.internet.said(), [b"half a line"]);
        let mut sly = transparent(world, 8080);
        sly.write_all(b"GET / HT").unwrap();
        sly.read_exact(&mut [0; 15]).unwrap();
        let _ = sly.write_all(b"TP/1.1\r\nHost: evil.test\r\n\r\n");
        let mut rest = Vec::new();
        let _ = sly.read_to_end(&mut rest);
        world.expect(DirectTcp, Blocked, "good.test:8080", Reason::NotAProxyRequest);
        assert_eq!(world.internet.said(), [b"GET / HT"]);
    });
}
