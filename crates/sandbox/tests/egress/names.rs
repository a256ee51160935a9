//! Who may be named, and what names may lead to: rows E1 to E6, E9, E10.

use std::io::{Read, Write};

use portreeve_sandbox::Event::{Connect, Http, Socks5};
use portreeve_sandbox::Reason;
use portreeve_sandbox::Verdict::{Allowed, Blocked};

use crate::world::{OWN, PROXY, PUBLIC, Visit, hello, world};

fn name(host: &str) -> Vec<u8> {
    [&[u8::try_from(host.len()).unwrap()], host.as_bytes()].concat()
}

// E1, R151, R205, R206
#[test]
fn a_name_that_is_not_on_the_list_is_denied_by_every_way() {
    world(&["good.test"], &[], |world| {
        let start = std::time::Instant::now();
        assert_eq!(world.connect_by_proxy(b"evil.test:443"), "403");
        world.expect(Connect, Blocked, "evil.test:443", Reason::DomainNotAllowlisted);
        assert!(start.elapsed() < std::time::Duration::from_secs(10));
        assert_eq!(world.socks(1, 3, &name("evil.test"), 443).1, Some(2));
        world.expect(Socks5, Blocked, "evil.test:443", Reason::DomainNotAllowlisted);
        let answer = world.proxy(b"GET http://evil.test/secret HTTP/1.1\r\nHost: evil.test\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        assert!(answer.contains("(domain_not_allowlisted)") && answer.contains("`allow`") && !answer.contains("evil"));
        world.expect(Http, Blocked, "evil.test:80", Reason::DomainNotAllowlisted);
        let answer = world.proxy(b"GET / HTTP/1.1\r\nHost: good.test\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        world.expect(Http, Blocked, PROXY, Reason::NotAProxyRequest);
        world.proxy(b"\x04\x01\x00\x50\x01\x02\x03\x04\x00");
        world.expect(Connect, Blocked, PROXY, Reason::NotAProxyRequest);
        assert_eq!(*world.names.asked.lock().unwrap(), Vec::<String>::new());
        world.nothing_arrived();
    });
}

#[test]
fn an_allowed_name_is_reached_by_every_way_of_the_proxy() {
    world(&["good.test", "good.test:80", "good.test:5432"], &[], |world| {
        for way in [Connect, Socks5] {
            let mut stream = if way == Connect {
                world.tunnel("Good.Test.:443")
            } else {
                world.socks(1, 3, &name("Good.Test."), 443).0
            };
            stream.write_all(&hello(Some("good.test"))).unwrap();
            let mut answer = [0; 15];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"HTTP/1.1 200 OK");
            world.expect(way, Allowed, "Good.Test.:443", Reason::Allowlisted);
            assert_eq!(world.internet.said(), [hello(Some("good.test"))]);
        }
        let mut stream = world.tunnel("good.test:5432");
        stream.write_all(b"any protocol").unwrap();
        stream.read_exact(&mut [0; 15]).unwrap();
        world.expect(Connect, Allowed, "good.test:5432", Reason::Allowlisted);
        assert_eq!(world.internet.said(), [b"any protocol"]);
    });
}

// E2
#[test]
fn addresses_in_any_notation_are_denied() {
    world(&["good.test", "localhost"], &[], |world| {
        for host in [
            PUBLIC,
            "127.0.0.1",
            "0.0.0.0",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "2130706433",
            "0x7f.1",
            "127.1",
            "0177.0.0.1",
            "10.0.0.1",
            "[fe80::1%25near]",
            "fe80::1%near",
        ] {
            assert_eq!(
                world.connect_by_proxy(format!("{host}:443").as_bytes()),
                "403",
                "{host}"
            );
            world.expect(
                Connect,
                Blocked,
                &format!("{host}:443"),
                Reason::IpLiteralOrMalformedHost,
            );
            assert_eq!(world.socks(1, 3, &name(host), 443).1, Some(2), "{host}");
            world.expect(
                Socks5,
                Blocked,
                &format!("{host}:443"),
                Reason::IpLiteralOrMalformedHost,
            );
        }
        // On the list, but it leads to loopback, which no `private` range names.
        world.names.set("localhost", &[&["127.0.0.1"]]);
        assert_eq!(world.connect_by_proxy(b"localhost:443"), "403");
        world.expect(Connect, Blocked, "localhost:443", Reason::ResolvedToPrivateAddress);
        world.nothing_arrived();
    });
}

// E3
#[test]
fn a_name_that_leads_inside_is_denied() {
    world(&["good.test", "good.test:80"], &[], |world| {
        for answer in [
            &["127.0.0.1"][..],
            &["169.254.169.254"],
            &["10.0.0.1"],
            &["::ffff:10.0.0.1"],
            &["::1"],
            &["64:ff9b::a00:1"],
            &["fe80::1"],
            &["0.0.0.0"],
            &["198.18.0.1"],
            &["168.63.129.16"],
            &[OWN],
            &[PUBLIC, "10.0.0.1"],
            &["10.0.0.1", PUBLIC],
            &[PUBLIC, "::1"],
        ] {
            world.names.set("good.test", &[answer]);
            assert_eq!(world.connect_by_proxy(b"good.test:443"), "403", "{answer:?}");
            world.expect(Connect, Blocked, "good.test:443", Reason::ResolvedToPrivateAddress);
            let plain = world.proxy(b"GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n");
            assert!(plain.contains("(resolved_to_private_address)"), "{plain}");
            world.expect(Http, Blocked, "good.test:80", Reason::ResolvedToPrivateAddress);
            // Forget the window, so that the next answer has records of its own.
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        world.nothing_arrived();
    });
}

// E3
#[test]
fn an_answer_that_changes_after_the_check_changes_nothing() {
    world(&["good.test"], &[], |world| {
        world.names.set("good.test", &[&[PUBLIC], &["10.0.0.1"]]);
        let mut stream = world.tunnel("good.test:443");
        stream.write_all(&hello(Some("good.test"))).unwrap();
        stream.read_exact(&mut [0; 15]).unwrap();
        assert_eq!(world.names.asked.lock().unwrap().len(), 1);
        let places: Vec<_> = world
            .internet
            .taken()
            .into_iter()
            .map(|Visit { place, .. }| place.to_string())
            .collect();
        assert_eq!(places, [format!("{PUBLIC}:443"), format!("{PUBLIC}:443")]);
        assert_eq!(world.connect_by_proxy(b"good.test:443"), "403");
        world.expect(Connect, Blocked, "good.test:443", Reason::ResolvedToPrivateAddress);
        world.nothing_arrived();
    });
}

#[test]
fn a_private_range_lets_an_allowed_name_in_and_metadata_never() {
    world(
        &["good.test", "other.test"],
        &["10.20.0.0/16", "127.0.0.0/8"],
        |world| {
            for address in ["10.20.0.5", "127.0.0.1"] {
                world.names.set("good.test", &[&[address]]);
                let mut stream = world.tunnel("good.test:443");
                stream.write_all(&hello(Some("good.test"))).unwrap();
                stream.read_exact(&mut [0; 15]).unwrap();
                world.expect(Connect, Allowed, "good.test:443", Reason::AllowlistedPrivate);
                let visits = [world.internet.taken(), world.host.taken()].concat();
                assert_eq!(visits[0].place.to_string(), format!("{address}:443"));
            }
            for address in ["169.254.169.254", "10.0.0.1", "::ffff:169.254.169.254", "0.0.0.0"] {
                world.names.set("other.test", &[&[address]]);
                assert_eq!(world.connect_by_proxy(b"other.test:443"), "403", "{address}");
            }
            world.expect(Connect, Blocked, "other.test:443", Reason::ResolvedToPrivateAddress);
            world.nothing_arrived();
        },
    );
}

// E4
#[test]
fn a_port_that_is_not_on_the_list_is_denied() {
    world(&["good.test"], &[], |world| {
        for port in [22, 8080] {
            assert_eq!(world.connect_by_proxy(format!("good.test:{port}").as_bytes()), "403");
            world.expect(Connect, Blocked, &format!("good.test:{port}"), Reason::PortNotAllowed);
            assert_eq!(world.socks(1, 3, &name("good.test"), port).1, Some(2));
            world.expect(Socks5, Blocked, &format!("good.test:{port}"), Reason::PortNotAllowed);
        }
        assert_eq!(*world.names.asked.lock().unwrap(), Vec::<String>::new());
        world.nothing_arrived();
    });
}

// E5
#[test]
fn names_that_look_alike_are_denied() {
    world(&["good.test", "*.wild.test"], &[], |world| {
        for host in ["good.test.evil.test", "evilgood.test", "wild.test", "xwild.test"] {
            assert_eq!(
                world.connect_by_proxy(format!("{host}:443").as_bytes()),
                "403",
                "{host}"
            );
            world.expect(Connect, Blocked, &format!("{host}:443"), Reason::DomainNotAllowlisted);
        }
        for (host, shown) in [
            ("good.test@evil.test", "good.test@evil.test"),
            ("good%2etest", "good%2etest"),
            ("good\u{3002}test", "good\\xe3\\x80\\x82test"),
        ] {
            assert_eq!(
                world.connect_by_proxy(format!("{host}:443").as_bytes()),
                "403",
                "{host}"
            );
            world.expect(
                Connect,
                Blocked,
                &format!("{shown}:443"),
                Reason::IpLiteralOrMalformedHost,
            );
            let answer = world.proxy(format!("GET http://{host}/ HTTP/1.1\r\n\r\n").as_bytes());
            assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
            world.expect(Http, Blocked, &format!("{shown}:80"), Reason::IpLiteralOrMalformedHost);
        }
        assert_eq!(*world.names.asked.lock().unwrap(), Vec::<String>::new());
        world.nothing_arrived();
    });
}

// E6
#[test]
fn a_nul_anywhere_in_the_name_is_denied() {
    world(&["good.test"], &[], |world| {
        for (host, shown) in [
            ("good.test\0", "good.test\\x00"),
            ("\0good.test", "\\x00good.test"),
            ("good.test\0.evil.test", "good.test\\x00.evil.test"),
            ("evil.test\0.good.test", "evil.test\\x00.good.test"),
        ] {
            assert_eq!(
                world.connect_by_proxy(format!("{host}:443").as_bytes()),
                "403",
                "{shown}"
            );
            world.expect(
                Connect,
                Blocked,
                &format!("{shown}:443"),
                Reason::IpLiteralOrMalformedHost,
            );
            assert_eq!(world.socks(1, 3, &name(host), 443).1, Some(2), "{shown}");
            world.expect(
                Socks5,
                Blocked,
                &format!("{shown}:443"),
                Reason::IpLiteralOrMalformedHost,
            );
        }
        world.nothing_arrived();
    });
}

// E9
#[test]
fn socks_offers_connect_to_names_only() {
    world(&["good.test"], &["127.0.0.0/8"], |world| {
        for command in [2, 3] {
            assert_eq!(world.socks(command, 3, &name("good.test"), 443).1, Some(7));
            world.expect(Socks5, Blocked, "good.test:443", Reason::SocksCommandNotAllowed);
            std::thread::sleep(std::time::Duration::from_millis(1900));
        }
        assert_eq!(world.socks(3, 1, &[0; 4], 0).1, Some(7));
        world.expect(Socks5, Blocked, "0.0.0.0:0", Reason::SocksCommandNotAllowed);
        assert_eq!(world.socks(1, 1, &[127, 0, 0, 1], 443).1, Some(2));
        world.expect(Socks5, Blocked, "127.0.0.1:443", Reason::IpLiteralOrMalformedHost);
        assert_eq!(
            world.socks(1, 4, &std::net::Ipv6Addr::LOCALHOST.octets(), 443).1,
            Some(2)
        );
        world.expect(Socks5, Blocked, "::1:443", Reason::IpLiteralOrMalformedHost);
        // Password only; a request of another version; an unknown kind of address.
        for words in [
            &[5, 1, 2][..],
            &[5, 1, 0, 4, 1, 0, 3, 0, 0],
            &[5, 1, 0, 5, 1, 0, 9, 0, 0],
        ] {
            assert!(world.say(PROXY, words).ends_with(&[5, 0xff]));
        }
        world.expect(Socks5, Blocked, PROXY, Reason::NotAProxyRequest);
        world.nothing_arrived();
    });
}

// E10
#[test]
fn a_second_process_inside_has_no_other_rights() {
    world(&["good.test"], &[], |world| {
        let relay = world.inside(|| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let place = relay.local_addr().unwrap().to_string();
        let mut onward = world.connect(PROXY).unwrap();
        let relaying = std::thread::spawn(move || {
            let (mut caller, _) = relay.accept().unwrap();
            let mut buffer = [0; 4096];
            let read = caller.read(&mut buffer).unwrap();
            onward.write_all(&buffer[..read]).unwrap();
            let mut answer = Vec::new();
            onward.read_to_end(&mut answer).unwrap();
            caller.write_all(&answer).unwrap();
        });
        let answer = world.say(&place, b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n");
        assert!(answer.starts_with(b"HTTP/1.1 403 "));
        relaying.join().unwrap();
        world.expect(Connect, Blocked, "evil.test:443", Reason::DomainNotAllowlisted);
        world.nothing_arrived();
    });
}

#[test]
fn failures_outside_have_reasons_of_their_own() {
    world(&["gone.test", "shut.test:9999", "good.test"], &[], |world| {
        world.names.set("gone.test", &[&[]]);
        assert_eq!(world.connect_by_proxy(b"gone.test:443"), "502");
        world.expect(Connect, Blocked, "gone.test:443", Reason::DnsFailure);
        assert_eq!(world.connect_by_proxy(b"shut.test:9999"), "502");
        world.expect(Connect, Blocked, "shut.test:9999", Reason::UpstreamConnectFailed);
        assert_eq!(world.socks(1, 3, &name("gone.test"), 443).1, Some(4));
        assert_eq!(world.socks(1, 3, &name("shut.test"), 9999).1, Some(5));
        // A CONNECT without a port is no CONNECT.
        assert_eq!(world.connect_by_proxy(b"good.test"), "403");
        world.expect(Connect, Blocked, "good.test::0", Reason::IpLiteralOrMalformedHost);
    });
}
