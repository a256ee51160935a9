//! The doors themselves: floods, limits, incidents, the end, and X1.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use portreeve_sandbox::Event::{Connect, Dns};
use portreeve_sandbox::Reason;
use portreeve_sandbox::Verdict::{Allowed, Blocked};

use crate::world::{PROXY, hello, world};

// E11
#[test]
fn a_flood_of_attempts_is_folded_and_every_one_counted() {
    world(&["good.test"], &[], |world| {
        let start = Instant::now();
        for number in 0..10_000 {
            let name = if number % 2 == 0 {
                "evil.test".to_owned()
            } else {
                format!("a{number}.evil.test")
            };
            assert_eq!(world.ask(&name, 1), Some((5, None)));
        }
        let seconds = start.elapsed().as_secs_f64().ceil();
        std::thread::sleep(Duration::from_millis(1900));
        let attempts = world.heard.0.lock().unwrap();
        assert_eq!(attempts.iter().map(|attempt| attempt.count).sum::<u64>(), 10_000);
        // Per tick: 64 places, their fold, and the rest.
        assert!(
            (attempts.len() as f64) < (seconds / 0.9 + 2.0) * 67.0,
            "{} in {seconds} s",
            attempts.len()
        );
        let various = attempts
            .iter()
            .filter(|attempt| attempt.host == "(various)")
            .map(|attempt| attempt.count);
        assert!(various.sum::<u64>() > 3_000);
        drop(attempts);
        // An attempt that is of interest is still seen.
        assert_eq!(world.ask("good.test", 1).unwrap().0, 0);
        world.expect(Dns, Allowed, "good.test:53", Reason::Allowlisted);
    });
}

#[test]
fn an_incident_closes_what_is_open_and_allows_nothing_more() {
    world(&["good.test", "good.test:80"], &[], |world| {
        let mut open = world.tunnel("good.test:443");
        open.write_all(&hello(Some("good.test"))).unwrap();
        open.read_exact(&mut [0; 15]).unwrap();
        let mut waiting = world.tunnel("good.test:443");
        let mut unsaid = world.connect(PROXY).unwrap();
        unsaid.write_all(b"CONNECT good.test:443 HTTP/1.1\r\n").unwrap();
        let address = world.ask("good.test", 1).unwrap().1.unwrap();
        let mut plain = world.connect(&format!("{address}:80")).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let start = Instant::now();
        world.swap(&[]);
        let mut waste = Vec::new();
        for stream in [&mut open, &mut waiting, &mut unsaid, &mut plain] {
            let _ = stream.read_to_end(&mut waste);
        }
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        world.internet.taken();
        let _ = open.write_all(b"more");
        assert_eq!(world.connect_by_proxy(b"good.test:443"), "403");
        world.expect(Connect, Blocked, "good.test:443", Reason::DomainNotAllowlisted);
        assert_eq!(world.ask("good.test", 1), Some((5, None)));
        assert!(
            world
                .connect(&format!("{address}:443"))
                .unwrap()
                .read(&mut [0; 1])
                .is_err()
        );
        world.nothing_arrived();
        world.swap(&["good.test"]);
        world.tunnel("good.test:443");
    });
}

#[test]
fn a_sandbox_holds_a_bounded_number_of_connections() {
    world(&["good.test"], &[], |world| {
        let mut held: Vec<_> = (0..256).map(|_| world.connect(PROXY).unwrap()).collect();
        assert!(world.connect(PROXY).unwrap().read(&mut [0; 1]).is_err());
        world.expect(Connect, Blocked, PROXY, Reason::TooManyConnections);
        held.clear();
        std::thread::sleep(Duration::from_millis(300));
        world.tunnel("good.test:443");
    });
}

#[test]
fn after_the_end_nothing_is_attended() {
    world(&["good.test"], &[], |world| {
        let mut open = world.tunnel("good.test:443");
        for _ in 0..3 {
            world.ask("evil.test", 1);
        }
        {
            let _inside = world.runtime.enter();
            world.egress.lock().unwrap().take().unwrap().shut();
        }
        assert_eq!(open.read(&mut [0; 8]).unwrap_or(0), 0);
        std::thread::sleep(Duration::from_millis(200));
        assert!(world.connect(PROXY).is_err());
        assert!(world.connect("198.18.0.1:443").is_err());
        let attempts = world.heard.0.lock().unwrap();
        let counted: u64 = attempts
            .iter()
            .filter(|attempt| attempt.event == Dns)
            .map(|attempt| attempt.count)
            .sum();
        assert_eq!(counted, 3);
    });
}

// X1
#[test]
fn the_doors_cannot_be_taken_over_from_inside() {
    world(&[], &[], |world| {
        use rustix::net::{AddressFamily, SocketType, bind, listen, socket, sockopt};
        for (place, kind) in [
            (PROXY, SocketType::STREAM),
            ("0.0.0.0:3128", SocketType::STREAM),
            ("0.0.0.0:443", SocketType::STREAM),
            ("198.18.0.1:443", SocketType::STREAM),
            ("0.0.0.0:80", SocketType::STREAM),
            ("0.0.0.0:53", SocketType::DGRAM),
        ] {
            for reuse in [false, true] {
                let taken = world.inside(|| {
                    let socket = socket(AddressFamily::INET, kind, None).unwrap();
                    sockopt::set_socket_reuseport(&socket, reuse).unwrap();
                    bind(&socket, &place.parse::<std::net::SocketAddr>().unwrap())?;
                    if kind == SocketType::STREAM {
                        listen(&socket, 1)
                    } else {
                        Ok(())
                    }
                });
                assert!(taken.is_err(), "{place} reuse {reuse}");
            }
        }
    });
}
