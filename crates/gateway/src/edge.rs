//! The edge: listeners, TLS, and the proof of who is calling. The client's credential is read
//! here and goes no further.

pub mod authenticate;
pub mod certificate;
mod form;
mod inbound;
pub mod jwks;
pub mod jwt;
pub mod listen;
pub mod metadata;
pub(crate) mod route;
pub mod shown;
pub mod host;
mod asked;
mod connections;
pub mod tls;
pub mod token_clients;
pub mod tokens;

use std::net::IpAddr;
use std::sync::Arc;

use certificate::CertifiedPeer;

/// The other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// Who its verified client certificate says it is.
    pub certificate: Option<Arc<CertifiedPeer>>,
}
