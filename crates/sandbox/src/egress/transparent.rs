//! The doors for clients that know of no proxy: every address inside a sandbox is local, so whatever they connect to on
//! port 443 or 80 ends here, and the address tells which name they asked the sandbox's resolver for.

use tokio::net::TcpStream;

use crate::egress::Guest;
use crate::egress::dial::open;
use crate::egress::host::Asked;
use crate::egress::record::{Event, Reason, Target};
use crate::egress::tunnel::{Caller, carry, reset};

/// Serves one connection.
pub(crate) async fn serve(guest: &Guest, stream: TcpStream, event: Event) {
    let recorder = &guest.room.recorder;
    let Some(host) = guest.room.stand_ins.name_of(guest.door.ip()) else {
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
