//! The one road out: list, resolver, addresses, then a connection to exactly an address that was checked.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::egress::Room;
use crate::egress::allow::{AllowedDestination, Allowlist};
use crate::egress::host::{Asked, Host};
use crate::egress::record::Reason;

/// An open connection to an allowed destination. Nothing has been sent on it.
pub(crate) struct Passage {
    pub(crate) stream: TcpStream,
    pub(crate) destination: AllowedDestination,
    /// Under which rule it was opened.
    pub(crate) reason: Reason,
}

/// Opens the way to where a sandbox asks to go, or says why not.
pub(crate) async fn open(room: &Room, allow: &Allowlist, asked: &Asked) -> Result<Passage, Reason> {
    let destination = allow.check(&asked.host, asked.port)?;
    let addresses = check(allow, addresses(room, allow, &destination).await?)?;
    let (stream, reason) = timeout(STEP, dial(&addresses, destination.port()))
        .await
        .ok()
        .flatten()
        .ok_or(Reason::UpstreamConnectFailed)?;
    let _ = stream.set_nodelay(true);
    Ok(Passage {
        stream,
        destination,
        reason,
    })
}

/// Nobody is asked what `localhost` means: it is the loopback, as far as the list opens it (RFC 6761 §6.3).
async fn addresses(room: &Room, allow: &Allowlist, destination: &AllowedDestination) -> Result<Vec<IpAddr>, Reason> {
    if *destination.host() == Host::localhost() {
        let found = allow.loopback();
        return if found.is_empty() {
            Err(Reason::ResolvedToPrivateAddress)
        } else {
            Ok(found)
        };
    }
    let answers = timeout(STEP, room.names.lookup(destination)).await;
    Ok(answers.ok().and_then(Result::ok).unwrap_or_default())
}

/// Every answer must be admitted: one that is not says that the name is not what the operator took it for.
fn check(allow: &Allowlist, answers: Vec<IpAddr>) -> Result<Vec<(IpAddr, Reason)>, Reason> {
    let mut admitted = Vec::new();
    for address in answers {
        let reason = allow.admits(address).ok_or(Reason::ResolvedToPrivateAddress)?;
        admitted.push((address.to_canonical(), reason));
    }
    if admitted.is_empty() {
        return Err(Reason::DnsFailure);
    }
    Ok(admitted)
}

/// Connects to the first address that answers. No name is looked up here: what was checked is what is dialled.
async fn dial(addresses: &[(IpAddr, Reason)], port: u16) -> Option<(TcpStream, Reason)> {
    for (address, reason) in addresses {
        let attempt = TcpStream::connect(SocketAddr::new(*address, port));
        if let Ok(Ok(stream)) = timeout(PER_ADDRESS, attempt).await {
            return Some((stream, *reason));
        }
    }
    None
}

/// The longest that any step before the tunnel may take.
pub(crate) const STEP: Duration = Duration::from_secs(10);

/// So that one dead address of several does not use up the step.
const PER_ADDRESS: Duration = Duration::from_secs(4);
