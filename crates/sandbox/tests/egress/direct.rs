//! Who goes by no proxy: rows N1 to N5, the resolver, and the transparent doors.

use std::io::{Read, Write};
use std::net::UdpSocket;

use portreeve_sandbox::Event::{DirectTcp, DirectUdp, Dns, Http, Tls};
use portreeve_sandbox::Reason;
use portreeve_sandbox::Verdict::{Allowed, Blocked};

use crate::world::{PUBLIC, ask, hello, world};

// N1, N2, N3
#[test]
fn a_connection_to_an_address_fails_at_once_with_a_record() {
    world(&["good.test", "good.test:80"], &["127.0.0.0/8"], |world| {
        for host in [
            "127.0.0.1",
            "::1",
            "::ffff:127.0.0.1",
            "10.0.0.1",
            "169.254.169.254",
            PUBLIC,
            "2606:4700::1",
        ] {
            for port in [22, 80, 443, 8080] {
                let place = if host.contains(':') {
                    format!("[{host}]:{port}")
                } else {
                    format!("{host}:{port}")
                };
                if let Ok(mut stream) = world.connect(&place) {
                    let written = stream.write_all(&hello(Some("good.test")));
                    assert!(
                        written.is_err() || stream.read(&mut [0; 8]).is_err(),
                        "{place} was not reset"
                    );
                }
                let shown = host.trim_start_matches("::ffff:");
                let again = host.starts_with("::ffff:");
                if !again {
                    world.expect(
                        DirectTcp,
                        Blocked,
                        &format!("{shown}:{port}"),
                        Reason::NoRouteOutOfSandbox,
                    );
                }
            }
        }
        world.nothing_arrived();
    });
}

// N4
#[test]
fn the_resolver_knows_the_list_and_nothing_else() {
    world(&["good.test", "*.wild.test:8443"], &[], |world| {
        let (code, address) = world.ask("good.test", 1).unwrap();
        assert_eq!((code, address.unwrap().to_string().as_str()), (0, "198.18.0.1"));
        world.expect(Dns, Allowed, "good.test:53", Reason::Allowlisted);
        // AAAA, HTTPS, TXT: nothing, and no error.
        for kind in [28, 65, 16, 255] {
            assert_eq!(world.ask("good.test", kind), Some((0, None)));
        }
        assert_eq!(world.ask("GOOD.test", 1).unwrap().1, address);
        assert!(world.ask("a.wild.test", 1).unwrap().1.is_some());
        for name in ["evil.test", "c2VjcmV0.evil.test", "wild.test", "good.test.evil.test"] {
            assert_eq!(world.ask(name, 1), Some((5, None)), "{name}");
            world.expect(Dns, Blocked, &format!("{name}:53"), Reason::DomainNotAllowlisted);
        }
        assert_eq!(world.ask("_x.good.test", 1), Some((5, None)));
        world.expect(Dns, Blocked, "_x.good.test:53", Reason::IpLiteralOrMalformedHost);
        let six = "[2001:4860:4860::8888]:53".parse().unwrap();
        assert_eq!(world.inside(|| ask(six, "good.test", 1)).unwrap().1, address);
        let garbage = world.inside(|| UdpSocket::bind("0.0.0.0:0").unwrap());
        garbage.send_to(b"garbage", "9.9.9.9:53").unwrap();
        world.expect(Dns, Blocked, "9.9.9.9:53", Reason::IpLiteralOrMalformedHost);
        assert_eq!(*world.names.asked.lock().unwrap(), Vec::<String>::new());
        world.nothing_arrived();
        let others = world
            .heard
            .0
            .lock()
            .unwrap()
            .iter()
            .filter(|attempt| attempt.event != Dns)
            .count();
        assert_eq!(others, 0, "the tap saw the resolver at work");
    });
}

// N5
#[test]
fn udp_goes_nowhere_and_is_recorded() {
    world(&["good.test"], &[], |world| {
        let (_, stub) = world.ask("good.test", 1).unwrap();
        let socket = world.inside(|| UdpSocket::bind("0.0.0.0:0").unwrap());
        socket
            .set_read_timeout(Some(std::time::Duration::from_millis(100)))
            .unwrap();
        for place in [
            "1.2.3.4:123".to_owned(),
            "127.0.0.1:8125".to_owned(),
            format!("{}:443", stub.unwrap()),
        ] {
            socket.send_to(b"data", &place).unwrap();
            assert!(socket.recv(&mut [0; 8]).is_err());
        }
        for place in ["1.2.3.4:123", "127.0.0.1:8125", "good.test:443"] {
            world.expect(DirectUdp, Blocked, place, Reason::NoRouteOutOfSandbox);
        }
        let six = world.inside(|| UdpSocket::bind("[::]:0").unwrap());
        six.send_to(b"data", "[2606:4700::1]:443").unwrap();
        world.expect(DirectUdp, Blocked, "2606:4700::1:443", Reason::NoRouteOutOfSandbox);
        world.nothing_arrived();
        // One datagram, one record of one attempt, although loopback shows it twice.
        std::thread::sleep(std::time::Duration::from_millis(1000));
        let attempts = world.heard.0.lock().unwrap();
        assert!(attempts.iter().all(|attempt| attempt.event == Dns), "{attempts:?}");
    });
}

#[test]
fn the_server_s_own_connections_leave_no_record() {
    world(&[], &[], |world| {
        let listener = world.inside(|| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let place = listener.local_addr().unwrap().to_string();
        let mut near = world.connect(&place).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(b"mine").unwrap();
        far.read_exact(&mut [0; 4]).unwrap();
        drop((near, far));
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert_eq!(*world.heard.0.lock().unwrap(), Vec::new());
    });
}

#[test]
fn an_allowed_name_works_without_any_proxy() {
    world(&["good.test", "good.test:80"], &[], |world| {
        let address = world.ask("good.test", 1).unwrap().1.unwrap();
        let mut stream = world.connect(&format!("{address}:443")).unwrap();
        stream.write_all(&hello(Some("good.test"))).unwrap();
        stream.read_exact(&mut [0; 15]).unwrap();
        world.expect(Tls, Allowed, "good.test:443", Reason::Allowlisted);
        assert_eq!(world.internet.said(), [hello(Some("good.test"))]);
        let answer = world.say(&format!("{address}:80"), b"GET / HTTP/1.1\r\nHost: good.test\r\n\r\n");
        assert!(answer.starts_with(b"HTTP/1.1 200 OK"));
        world.expect(Http, Allowed, "good.test:80", Reason::Allowlisted);
        assert!(world.internet.said().concat().starts_with(b"GET / HTTP/1.1\r\n"));
    });
}

#[test]
fn a_known_name_on_another_port_is_recorded_by_its_name() {
    world(&["good.test", "good.test:3128", "other.test:8080"], &[], |world| {
        let address = world.ask("good.test", 1).unwrap().1.unwrap();
        // The sandbox's own proxy has that port, and only it leads there.
        for (port, reason) in [(22, Reason::PortNotAllowed), (3128, Reason::NoRouteOutOfSandbox)] {
            assert!(world.connect(&format!("{address}:{port}")).is_err());
            world.expect(DirectTcp, Blocked, &format!("good.test:{port}"), reason);
        }
        let mut stream = world.connect(&format!("{address}:80")).unwrap();
        assert!(stream.read(&mut [0; 8]).is_err());
        world.expect(Http, Blocked, "good.test:80", Reason::PortNotAllowed);
        // Another host's port.
        let mut stream = world.connect(&format!("{address}:8080")).unwrap();
        assert!(stream.read(&mut [0; 8]).is_err());
        world.expect(DirectTcp, Blocked, "good.test:8080", Reason::PortNotAllowed);
        assert!(world.connect("198.18.77.77:443").unwrap().read(&mut [0; 8]).is_err());
        world.expect(DirectTcp, Blocked, "198.18.77.77:443", Reason::NoRouteOutOfSandbox);
        world.nothing_arrived();
    });
}

#[test]
fn an_allowed_port_is_carried_whatever_is_spoken_there() {
    world(&["db.test:5432", "*.wild.test:8080"], &["10.20.0.0/16"], |world| {
        world.names.set("db.test", &[&["10.20.0.5"]]);
        for (name, port, reason, far) in [
            ("db.test", 5432, Reason::AllowlistedPrivate, "10.20.0.5:5432"),
            ("a.wild.test", 8080, Reason::Allowlisted, "93.184.216.34:8080"),
        ] {
            let address = world.ask(name, 1).unwrap().1.unwrap();
            let mut stream = world.connect(&format!("{address}:{port}")).unwrap();
            stream.write_all(b"\0\0\0\x08\x04\xd2\x16\x2f").unwrap();
            stream.read_exact(&mut [0; 15]).unwrap();
            world.expect(DirectTcp, Allowed, &format!("{name}:{port}"), reason);
            let visits = world.internet.taken();
            assert!(visits.iter().all(|visit| visit.place.to_string() == far), "{visits:?}");
            assert_eq!(visits.last().unwrap().said, b"\0\0\0\x08\x04\xd2\x16\x2f");
        }
        // The port is open, the address stands for nobody.
        for place in [
            "1.2.3.4:5432",
            "10.20.0.5:5432",
            "127.0.0.1:5432",
            "[::1]:5432",
            "198.18.77.77:8080",
        ] {
            let mut stream = world.connect(place).unwrap();
            assert!(stream.read(&mut [0; 8]).is_err(), "{place} was not reset");
            let shown = place.replace(['[', ']'], "");
            world.expect(DirectTcp, Blocked, &shown, Reason::NoRouteOutOfSandbox);
        }
        world.nothing_arrived();
    });
}

#[test]
fn an_allowed_port_is_dialled_at_the_address_that_was_checked() {
    world(&["db.test:5432"], &[], |world| {
        world
            .names
            .set("db.test", &[&["93.184.216.34"], &["10.20.0.5"], &["127.0.0.1"]]);
        let address = world.ask("db.test", 1).unwrap().1.unwrap();
        let place = format!("{address}:5432");
        let mut stream = world.connect(&place).unwrap();
        stream.write_all(b"first").unwrap();
        stream.read_exact(&mut [0; 15]).unwrap();
        assert_eq!(world.internet.said(), [b"first"]);
        for _ in 0..2 {
            let mut stream = world.connect(&place).unwrap();
            assert!(stream.read(&mut [0; 8]).is_err());
            world.expect(DirectTcp, Blocked, "db.test:5432", Reason::ResolvedToPrivateAddress);
        }
        world.nothing_arrived();
    });
}

#[test]
fn the_host_s_loopback_is_reached_as_localhost_where_both_lists_say_so() {
    // The resolver's word on `localhost` is not asked for.
    let deceive = |world: &crate::world::World| world.names.set("localhost", &[&["10.0.0.1"]]);
    for (private, reached) in [
        (&["127.0.0.0/8"][..], "127.0.0.1:5432"),
        (&["::1/128"], "[::1]:5432"),
        (&["127.0.0.0/8", "::1/128"], "127.0.0.1:5432"),
    ] {
        world(&["localhost:5432"], private, |world| {
            deceive(world);
            for place in ["127.0.0.1:5432", "[::1]:5432"] {
                let mut stream = world.connect(place).unwrap();
                stream.write_all(b"select 1").unwrap();
                stream.read_exact(&mut [0; 15]).unwrap();
                world.expect(DirectTcp, Allowed, "localhost:5432", Reason::AllowlistedPrivate);
                let visits = world.host.taken();
                assert!(
                    visits.iter().all(|visit| visit.place.to_string() == reached),
                    "{visits:?}"
                );
                assert_eq!(visits.last().unwrap().said, b"select 1");
            }
            assert!(world.connect("127.0.0.1:8080").is_err(), "another port of the loopback");
            world.nothing_arrived();
        });
    }
    world(&["localhost:5432"], &["10.0.0.0/8"], |world| {
        deceive(world);
        let mut stream = world.connect("127.0.0.1:5432").unwrap();
        assert!(stream.read(&mut [0; 8]).is_err());
        world.expect(DirectTcp, Blocked, "localhost:5432", Reason::ResolvedToPrivateAddress);
        world.nothing_arrived();
    });
}

#[test]
fn names_that_lead_inside_are_denied_without_a_proxy_too() {
    world(&["good.test", "good.test:80"], &[], |world| {
        world.names.set("good.test", &[&["10.0.0.1"]]);
        let address = world.ask("good.test", 1).unwrap().1.unwrap();
        for (port, event) in [(443, Tls), (80, Http)] {
            let mut stream = world.connect(&format!("{address}:{port}")).unwrap();
            assert!(stream.read(&mut [0; 8]).is_err());
            world.expect(
                event,
                Blocked,
                &format!("good.test:{port}"),
                Reason::ResolvedToPrivateAddress,
            );
        }
        world.nothing_arrived();
    });
}
