//! The doors for clients that know of no proxy: every address inside a sandbox is local, so whatever they connect to on
//! port 443, 80 or another port of the list ends here, and the address tells which name they asked the sandbox's resolver
//! for. On those other ports anything may be spoken; only TLS and HTTP say there for which host they are, and are held to it.

use tokio::net::TcpStream;

use crate::egress::Guest;
use crate::egress::dial::open;
use crate::egress::host::{Asked, Host};
use crate::egress::record::{Event, Reason, Target};
use crate::egress::tunnel::{Caller, carry, reset};

/// Serves one connection.
pub(crate) async fn serve(guest: &Guest, stream: TcpStream, event: Event) {
    let recorder = &guest.room.recorder;
    let Some(host) = meant(guest) else {
        recorder.blocked(
            Event::DirectTcp,
            Target::address(guest.door),
            Reason::NoRouteOutOfSandbox,
        );
        return reset(stream);
    };
    let asked = Asked {
        host: host.as_str().as_bytes().to_vec(),
        port: guest.door.port(),
    };
    let target = Target::from(&asked);
    match open(&guest.room, &guest.allow, &asked).await {
        Ok(passage) => carry(guest, Caller::new(stream, event, target), passage).await,
        Err(reason) => {
            recorder.blocked(event, target, reason);
            reset(stream);
        }
    }
}

/// The name that a connection is for. `localhost` is an address of the loopback to every program, and never asked for: on
/// a port that the list names for it, the loopback is the host's.
fn meant(guest: &Guest) -> Option<Host> {
    let address = guest.door.ip().to_canonical();
    if address.is_loopback() {
        let localhost = Host::localhost();
        let listed = guest.allow.check(localhost.as_str().as_bytes(), guest.door.port());
        return listed.is_ok().then_some(localhost);
    }
    guest.room.stand_ins.name_of(address)
}
