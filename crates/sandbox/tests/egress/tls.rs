//! What must be said on port 443: row E7.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use portreeve_sandbox::Event::{Connect, Socks5, Tls};
use portreeve_sandbox::Reason;
use portreeve_sandbox::Verdict::{Allowed, Blocked};

use crate::world::{PUBLIC, World, hello, world};

/// Everything that comes back; a reset is an end.
fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

fn transparent(world: &World, name: &str) -> TcpStream {
    let (code, address) = world.ask(name, 1).unwrap();
    assert_eq!(code, 0);
    world.connect(&format!("{}:443", address.unwrap())).unwrap()
}

const WRONG: [(&str, Reason); 7] = [
    ("evil.test", Reason::SniMismatch),
    ("good.test.evil.test", Reason::SniMismatch),
    ("good.test\0", Reason::SniMismatch),
    (PUBLIC, Reason::SniMismatch),
    ("", Reason::TlsWithoutSni),
    ("plain", Reason::NotTlsOn443),
    ("one byte", Reason::NotTlsOn443),
];

fn words(case: &str) -> Vec<u8> {
    match case {
        "" => hello(None),
        "plain" => b"GET / HTTP/1.1\r\nHost: good.test\r\n\r\n".to_vec(),
        "one byte" => b"S".to_vec(),
        name => hello(Some(name)),
    }
}

// E7
#[test]
fn whoever_asks_for_another_server_or_none_is_cut_and_the_far_side_hears_nothing() {
    world(&["good.test"], &[], |world| {
        for (case, reason) in WRONG {
            for event in [Connect, Socks5, Tls] {
                let mut stream = if event == Connect {
                    world.tunnel("good.test:443")
                } else if event == Socks5 {
                    world.socks(1, 3, b"\x09good.test", 443).0
                } else {
                    transparent(world, "good.test")
                };
                stream.write_all(&words(case)).unwrap();
                assert_eq!(rest(&mut stream), b"", "{case} {event:?}");
                // The same reason twice within a second is told as a repeat, a second later.
                let until = std::time::Instant::now() + Duration::from_secs(2);
                while !world
                    .heard
                    .0
                    .lock()
                    .unwrap()
                    .iter()
                    .any(|a| (a.event, a.reason, a.verdict) == (event, reason, Blocked))
                {
                    assert!(std::time::Instant::now() < until, "{case} {event:?}");
                    std::thread::sleep(Duration::from_millis(5));
                }
                world.heard.0.lock().unwrap().clear();
            }
        }
        assert_eq!(world.internet.said(), Vec::<Vec<u8>>::new());
    });
}

#[test]
fn a_hello_that_comes_byte_by_byte_and_in_several_records_passes_whole() {
    world(&["good.test"], &[], |world| {
        let whole = hello(Some("good.test"));
        let mut records = Vec::new();
        for chunk in whole[5..].chunks(20) {
            records.extend_from_slice(&[22, 3, 1, 0, u8::try_from(chunk.len()).unwrap()]);
            records.extend_from_slice(chunk);
        }
        let mut stream = transparent(world, "good.test");
        for byte in &records {
            stream.write_all(&[*byte]).unwrap();
        }
        stream.read_exact(&mut [0; 15]).unwrap();
        world.expect(Tls, Allowed, "good.test:443", Reason::Allowlisted);
        assert_eq!(world.internet.said().concat(), records);
    });
}

#[test]
fn what_comes_with_the_request_waits_for_the_last_check() {
    world(&["good.test"], &[], |world| {
        let early = |name| [&b"CONNECT good.test:443 HTTP/1.1\r\n\r\n"[..], &hello(Some(name))].concat();
        let mut stream = world.connect(crate::world::PROXY).unwrap();
        stream.write_all(&early("good.test")).unwrap();
        let mut answer = [0; 54];
        stream.read_exact(&mut answer).unwrap();
        assert!(answer.ends_with(b"HTTP/1.1 200 OK"));
        assert_eq!(world.internet.said(), [hello(Some("good.test"))]);
        world.proxy(&early("evil.test"));
        world.expect(Connect, Blocked, "good.test:443", Reason::SniMismatch);
        assert_eq!(world.internet.said(), Vec::<Vec<u8>>::new());
    });
}

#[test]
fn plain_http_to_port_443_is_not_sent() {
    world(&["good.test"], &[], |world| {
        let answer = world.proxy(b"GET http://good.test:443/ HTTP/1.1\r\nHost: good.test:443\r\n\r\n");
        assert!(answer.contains("(not_tls_on_443)"), "{answer}");
        world.expect(
            portreeve_sandbox::Event::Http,
            Blocked,
            "good.test:443",
            Reason::NotTlsOn443,
        );
        world.nothing_arrived();
    });
}
