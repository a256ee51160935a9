//! Three network namespaces, the doors of one, and canaries in the others.

use std::collections::HashMap;
use std::fs::File;
use std::future::ready;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::num::NonZeroU32;
use std::os::fd::{AsFd, AsRawFd};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use portreeve_sandbox::{
    AllowedDestination, Allowlist, Answers, Attempt, Doors, Egress, Event, Reason, Resolve, Verdict, Witness,
};
use rustix::net::{AddressFamily, Protocol, SocketType, socket};
use rustix::thread::{UnshareFlags, move_into_link_name_space};

/// The public address of every good name unless a test says otherwise.
pub(crate) const PUBLIC: &str = "93.184.216.34";
/// The host's own public address.
pub(crate) const OWN: &str = "93.184.216.1";

/// Runs a test in a world of its own. Without root it runs itself again in a user namespace.
pub(crate) fn world(allow: &[&str], private: &[&str], test: impl FnOnce(&World) + Send) {
    if !rustix::process::geteuid().is_root() {
        return again_as_root();
    }
    std::thread::scope(|scope| {
        let run = || {
            leave_network();
            let world = World::new(allow, private);
            test(&world);
        };
        scope
            .spawn(run)
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[expect(clippy::disallowed_methods, reason = "the test starts itself in a user namespace")]
fn again_as_root() {
    let test = std::thread::current().name().unwrap().to_owned();
    let output = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &test, "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let failed = String::from_utf8_lossy(&output.stderr);
    // A name that nobody knows would be no test at all, and no failure.
    let ran = output.status.success() && said.contains("test result: ok. 1 passed");
    assert!(ran, "{}: {said}{failed}", output.status);
}

/// A host with a sandbox and an internet.
pub(crate) struct World {
    pub(crate) egress: Mutex<Option<Egress>>,
    pub(crate) heard: Arc<Heard>,
    pub(crate) names: Arc<Names>,
    pub(crate) internet: Canaries,
    pub(crate) host: Canaries,
    sandbox: File,
    pub(crate) runtime: tokio::runtime::Runtime,
}

impl World {
    fn new(allow: &[&str], private: &[&str]) -> Self {
        let (internet, sandbox) = (namespace(), namespace());
        ip(&format!(
            "link set lo up\nlink add near type veth peer name far\nlink set far netns {}\n\
             addr add {OWN}/24 dev near\nlink set near up\nroute add default via {PUBLIC}\n",
            path(&internet)
        ));
        within(&internet, || {
            ip(&format!(
                "link set lo up\naddr add {PUBLIC}/24 dev far\nlink set far up\naddr add 10.0.0.1/32 dev lo\n\
                 addr add 10.20.0.5/32 dev lo\naddr add 169.254.169.254/32 dev lo\naddr add 1.2.3.4/32 dev lo\n"
            ));
        });
        let allowed = list(allow, private);
        let doors = within(&sandbox, || doors(&allowed));
        let (heard, names) = (Arc::new(Heard::default()), Arc::new(Names::default()));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let egress = {
            let _inside = runtime.enter();
            Egress::serve(doors, Arc::new(allowed), names.clone(), heard.clone()).unwrap()
        };
        Self {
            egress: Mutex::new(Some(egress)),
            heard,
            names,
            internet: within(&internet, Canaries::new),
            host: Canaries::new(),
            sandbox,
            runtime,
        }
    }

    /// Runs inside the sandbox.
    pub(crate) fn inside<T: Send>(&self, run: impl FnOnce() -> T + Send) -> T {
        within(&self.sandbox, run)
    }

    /// Connects from inside.
    pub(crate) fn connect(&self, place: &str) -> std::io::Result<TcpStream> {
        let stream = self.inside(|| TcpStream::connect(place))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Sends bytes to a place inside and reads all that comes back.
    pub(crate) fn say(&self, place: &str, words: &[u8]) -> Vec<u8> {
        let mut stream = self.connect(place).unwrap();
        let _ = stream.write_all(words);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    }

    /// Sends bytes to the proxy and reads all that comes back.
    pub(crate) fn proxy(&self, words: &[u8]) -> String {
        String::from_utf8_lossy(&self.say(PROXY, words)).into_owned()
    }

    /// Sends a CONNECT and gives the status.
    pub(crate) fn connect_by_proxy(&self, authority: &[u8]) -> String {
        let request = [b"CONNECT ", authority, b" HTTP/1.1\r\nHost: x\r\n\r\n"].concat();
        self.proxy(&request).split(' ').nth(1).unwrap_or("none").to_owned()
    }

    /// An open tunnel through the proxy, past the 200.
    pub(crate) fn tunnel(&self, authority: &str) -> TcpStream {
        let mut stream = self.connect(PROXY).unwrap();
        stream
            .write_all(format!("CONNECT {authority} HTTP/1.1\r\n\r\n").as_bytes())
            .unwrap();
        let mut answer = [0; 39];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer.as_slice(), b"HTTP/1.1 200 Connection established\r\n\r\n");
        stream
    }

    /// SOCKS5 with one request; gives the reply code.
    pub(crate) fn socks(&self, command: u8, kind: u8, address: &[u8], port: u16) -> (TcpStream, Option<u8>) {
        let mut stream = self.connect(PROXY).unwrap();
        let request = [&[5, command, 0, kind], address, &port.to_be_bytes()].concat();
        stream.write_all(&[&[5, 1, 0], request.as_slice()].concat()).unwrap();
        let mut answer = [0; 12];
        let read = stream.read_exact(&mut answer);
        (stream, read.ok().map(|()| answer[3]))
    }

    /// Asks the sandbox's resolver; gives code and address.
    pub(crate) fn ask(&self, name: &str, kind: u16) -> Option<(u8, Option<IpAddr>)> {
        let server: SocketAddr = "8.8.8.8:53".parse().unwrap();
        self.inside(|| ask(server, name, kind))
    }

    /// Waits for exactly this record: a second, and time for a busy machine.
    pub(crate) fn expect(&self, event: Event, verdict: Verdict, place: &str, reason: Reason) {
        let (host, port) = place.rsplit_once(':').unwrap();
        let until = Instant::now() + Duration::from_secs(3);
        loop {
            let mut attempts = self.heard.0.lock().unwrap();
            let found = attempts.iter().position(|attempt| {
                (
                    attempt.event,
                    attempt.verdict,
                    attempt.host.as_str(),
                    attempt.port.to_string().as_str(),
                    attempt.reason,
                ) == (event, verdict, host, port, reason)
            });
            if let Some(at) = found {
                attempts.remove(at);
                return;
            }
            assert!(
                Instant::now() < until,
                "no {event:?} {verdict:?} {place} {reason:?} in {attempts:#?}"
            );
            drop(attempts);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Nothing reached anything.
    pub(crate) fn nothing_arrived(&self) {
        assert_eq!((self.internet.taken(), self.host.taken()), (Vec::new(), Vec::new()));
    }

    pub(crate) fn swap(&self, allow: &[&str]) {
        self.egress.lock().unwrap().as_ref().unwrap().swap(list(allow, &[]));
    }
}

pub(crate) const PROXY: &str = "127.0.0.1:3128";

pub(crate) fn list(allow: &[&str], private: &[&str]) -> Allowlist {
    let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    Allowlist::parse(&owned(allow), &owned(private)).unwrap()
}

/// Remembers attempts.
#[derive(Default)]
pub(crate) struct Heard(pub Mutex<Vec<Attempt>>);

impl Witness for Heard {
    fn saw(&self, attempt: Attempt) {
        // The doors tell what is left when they are dropped, also while a failed test unwinds with the lock in hand.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(attempt);
    }
}

/// Answers from a table; several answers for one name are given one after the other, the last for ever.
#[derive(Default)]
pub(crate) struct Names {
    table: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    pub(crate) asked: Mutex<Vec<String>>,
}

impl Names {
    pub(crate) fn set(&self, name: &str, answers: &[&[&str]]) {
        let parse = |answer: &&[&str]| answer.iter().map(|text| text.parse().unwrap()).collect();
        self.table
            .lock()
            .unwrap()
            .insert(name.to_owned(), answers.iter().map(parse).collect());
    }
}

impl Resolve for Names {
    fn lookup<'a>(&'a self, destination: &'a AllowedDestination) -> Answers<'a> {
        let name = destination.host().as_str();
        self.asked.lock().unwrap().push(name.to_owned());
        let mut table = self.table.lock().unwrap();
        let answer = match table.get_mut(name) {
            Some(answers) if answers.len() > 1 => answers.remove(0),
            Some(answers) => answers[0].clone(),
            None => vec![PUBLIC.parse().unwrap()],
        };
        Box::pin(ready(Ok(answer)))
    }
}

/// Listeners that remember who came and what was said, and answer every first word.
pub(crate) struct Canaries(Arc<Mutex<Vec<Visit>>>);

/// Where a visitor came and what it said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Visit {
    pub(crate) place: SocketAddr,
    pub(crate) said: Vec<u8>,
}

pub(crate) const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\nX-Far: side\r\n\r\nhello";

impl Canaries {
    fn new() -> Self {
        let visits: Arc<Mutex<Vec<Visit>>> = Arc::default();
        Self::sink();
        for port in [22, 80, 443, 5432, 8080] {
            let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).unwrap();
            let visits = visits.clone();
            std::thread::spawn(move || {
                while let Ok((stream, _)) = listener.accept() {
                    let visits = visits.clone();
                    std::thread::spawn(move || receive(stream, &visits));
                }
            });
        }
        Self(visits)
    }

    /// A sink on port 9 that neither remembers nor answers.
    fn sink() {
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 9)).unwrap();
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                std::thread::spawn(move || {
                    let mut buffer = vec![0; 1 << 16];
                    while let Ok(1..) = stream.read(&mut buffer) {}
                });
            }
        });
    }

    /// What has come so far.
    pub(crate) fn taken(&self) -> Vec<Visit> {
        self.0.lock().unwrap().drain(..).collect()
    }

    /// Only what was said.
    pub(crate) fn said(&self) -> Vec<Vec<u8>> {
        let visits = self.taken().into_iter();
        visits.map(|visit| visit.said).filter(|said| !said.is_empty()).collect()
    }
}

fn receive(mut stream: TcpStream, visits: &Mutex<Vec<Visit>>) {
    let place = stream.local_addr().unwrap();
    let place = SocketAddr::new(place.ip().to_canonical(), place.port());
    visits.lock().unwrap().push(Visit {
        place,
        said: Vec::new(),
    });
    let mut buffer = [0; 65536];
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        visits.lock().unwrap().push(Visit {
            place,
            said: buffer[..read].to_vec(),
        });
        let _ = stream.write_all(ANSWER);
    }
}

/// One question to a resolver.
pub(crate) fn ask(server: SocketAddr, name: &str, kind: u16) -> Option<(u8, Option<IpAddr>)> {
    let mut packet = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        packet.push(u8::try_from(label.len()).unwrap());
        packet.extend_from_slice(label.as_bytes());
    }
    packet.push(0);
    packet.extend_from_slice(&kind.to_be_bytes());
    packet.extend_from_slice(&[0, 1]);
    let any: SocketAddr = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse().unwrap();
    let socket = UdpSocket::bind(any).unwrap();
    // Connected: an answer from another address than the one asked would not be received.
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    socket.send(&packet).unwrap();
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer).ok()?;
    assert_eq!(&answer[..2], &[7, 7]);
    let address = (answer[7] == 1).then(|| {
        let octets: [u8; 4] = answer[length - 4..length].try_into().unwrap();
        IpAddr::from(octets)
    });
    Some((answer[3] & 15, address))
}

/// A `ClientHello` as small as they come.
pub(crate) fn hello(name: Option<&str>) -> Vec<u8> {
    let long = |content: &[u8]| [&u16::try_from(content.len()).unwrap().to_be_bytes(), content].concat();
    let mut body = vec![3, 3];
    body.extend_from_slice(&[7; 32]);
    body.extend_from_slice(&[0, 0, 2, 0x13, 1, 1, 0]);
    let mut extensions = vec![0, 43, 0, 3, 2, 3, 4];
    if let Some(name) = name {
        extensions.extend_from_slice(&[0, 0]);
        extensions.extend_from_slice(&long(&long(&[&[0][..], &long(name.as_bytes())].concat())));
    }
    body.extend_from_slice(&long(&extensions));
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let message = [&[1, length[1], length[2], length[3]], body.as_slice()].concat();
    [&[22, 3, 1][..], &long(&message)].concat()
}

fn doors(allow: &Allowlist) -> Doors {
    ip("link set lo up\nroute add local 0.0.0.0/0 dev lo\nroute add local ::/0 dev lo\n");
    let dns6 = socket(AddressFamily::INET6, SocketType::DGRAM, None).unwrap();
    rustix::net::sockopt::set_ipv6_v6only(&dns6, true).unwrap();
    rustix::net::bind(&dns6, &"[::]:53".parse::<SocketAddr>().unwrap()).unwrap();
    let all = u32::from(3_u16.to_be()); // ETH_P_ALL
    let protocol = Protocol::from_raw(NonZeroU32::new(all).unwrap());
    Doors {
        proxy: TcpListener::bind(PROXY).unwrap(),
        tls: TcpListener::bind("[::]:443").unwrap(),
        http: TcpListener::bind("[::]:80").unwrap(),
        dns: UdpSocket::bind("0.0.0.0:53").unwrap(),
        dns6: dns6.into(),
        gate: None,
        others: allow
            .door_ports()
            .iter()
            .map(|port| TcpListener::bind((Ipv6Addr::UNSPECIFIED, *port)).unwrap())
            .collect(),
        // Without a filter: what is of interest must be found in everything.
        tap: socket(AddressFamily::PACKET, SocketType::RAW, Some(protocol)).unwrap(),
    }
}

fn namespace() -> File {
    let make = || {
        leave_network();
        File::open("/proc/thread-self/ns/net").unwrap()
    };
    std::thread::spawn(make).join().unwrap()
}

fn within<T: Send>(namespace: &File, run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let enter = || {
            move_into_link_name_space(namespace.as_fd(), None).unwrap();
            run()
        };
        scope.spawn(enter).join().unwrap()
    })
}

#[expect(
    deprecated,
    reason = "a new network namespace takes no descriptors away; the unsafe form is for those that do"
)]
fn leave_network() {
    rustix::thread::unshare(UnshareFlags::NEWNET).unwrap();
}

fn path(namespace: &File) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd())
}

#[expect(clippy::disallowed_methods, reason = "iproute2 sets the pretended networks up")]
fn ip(batch: &str) {
    let mut child = std::process::Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(batch.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{batch}");
}
