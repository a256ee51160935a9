//! The network of a sandbox: every address ends at a door of ours, and what finds none is seen by the tap.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use portreeve_sandbox::{Doors, Instance, NetPolicy, Plan};

use crate::bench::{Place, draft, finish, launcher};

async fn with_doors(place: &Place, program: &str) -> (Doors, Instance) {
    let mut draft = draft(&place.0, &["/usr/bin/python3", "-c", program]);
    draft.net = NetPolicy::Allowlist;
    let mut starting = launcher().await.start(&Plan::check(draft).unwrap()).await.unwrap();
    let doors = starting.take_doors().unwrap();
    (doors, starting.go().await.unwrap())
}

/// The packets the tap has, or gets within a moment.
fn packets(tap: &OwnedFd) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let until = Instant::now() + Duration::from_millis(500);
    while Instant::now() < until {
        let mut packet = [0u8; 256];
        match rustix::net::recv(tap, &mut packet, rustix::net::RecvFlags::DONTWAIT) {
            Ok((read, _)) => found.push(packet[..read].to_vec()),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    found
}

// R147, R151
#[tokio::test]
async fn every_address_leads_to_a_door() {
    if !crate::bench::is_installed("/usr/bin/python3") {
        return;
    }
    let place = Place::new();
    let program = r"
import socket
for where in (('93.184.215.14', 443), ('2606:2800:220:1::1', 443), ('10.0.0.1', 80), ('127.0.0.1', 3128)):
    c = socket.create_connection(where, timeout=5)
    print('connected')
";
    let (doors, instance) = with_doors(&place, program).await;
    let said = finish(instance).await;
    assert_eq!(said.stdout.matches("connected").count(), 4, "{said:?}");
    let asked = |listener: &std::net::TcpListener| listener.accept().unwrap().0.local_addr().unwrap().to_string();
    assert_eq!(asked(&doors.tls), "[::ffff:93.184.215.14]:443");
    assert_eq!(asked(&doors.tls), "[2606:2800:220:1::1]:443");
    assert_eq!(asked(&doors.http), "[::ffff:10.0.0.1]:80");
    assert_eq!(asked(&doors.proxy), "127.0.0.1:3128");
}

#[tokio::test]
async fn the_tap_sees_refusals_and_datagrams_but_not_the_servers_own_connections() {
    if !crate::bench::is_installed("/usr/bin/python3") {
        return;
    }
    let place = Place::new();
    let program = r"
import socket
for where in (('93.184.215.14', 22), ('2606:2800:220:1::1', 8080)):
    try: socket.create_connection(where, timeout=5)
    except OSError as e: print(e.errno)
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.sendto(b'data', ('8.8.8.8', 4000))
u = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); u.sendto(b'data', ('2001:db8::1', 4001))
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.sendto(b'question', ('8.8.8.8', 53))
l = socket.create_server(('127.0.0.1', 5000)); c = socket.create_connection(('127.0.0.1', 5000)); s, _ = l.accept()
c.close(); s.close(); l.close()
";
    let (doors, instance) = with_doors(&place, program).await;
    let said = finish(instance).await;
    assert_eq!(said.stdout, "111\n111\n", "{said:?}");
    let seen: Vec<String> = packets(&doors.tap).iter().map(|packet| describe(packet)).collect();
    assert_eq!(
        seen,
        [
            "rst 93.184.215.14:22",
            "rst 2606:2800:220:1::1:8080",
            "udp 8.8.8.8:4000",
            "udp 2001:db8::1:4001"
        ]
    );
    let mut question = [0u8; 64];
    let (read, _) = doors.dns.recv_from(&mut question).unwrap();
    assert_eq!(&question[..read], b"question");
    assert_eq!(doors.dns6.local_addr().unwrap().to_string(), "[::]:53");
}

/// Protocol and the far side's address and port: the source of a refusal, the destination of a datagram.
fn describe(packet: &[u8]) -> String {
    let port = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let v4 = |at: usize| std::net::Ipv4Addr::from(<[u8; 4]>::try_from(&packet[at..at + 4]).unwrap());
    let v6 = |at: usize| std::net::Ipv6Addr::from(<[u8; 16]>::try_from(&packet[at..at + 16]).unwrap());
    match (packet[0] >> 4, packet[9], packet[6]) {
        (4, 17, _) => format!("udp {}:{}", v4(16), port(22)),
        (4, 6, _) => format!("rst {}:{}", v4(12), port(20)),
        (6, _, 17) => format!("udp {}:{}", v6(24), port(42)),
        (6, _, 6) => format!("rst {}:{}", v6(8), port(40)),
        _ => format!("{packet:?}"),
    }
}
